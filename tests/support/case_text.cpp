#include "support/case_text.hpp"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <type_traits>
#include <utility>

#include "support/options.hpp"

namespace rapt::test {

template <class Number>
bool parse_number(const std::string &text, Number &value) {
  char *end;
  errno = 0;
  if constexpr (std::is_same_v<Number, double>) {
    value = std::strtod(text.c_str(), &end);
    errno = 0;  // strtod() sets ERANGE for subnormal numbers, which are valid
  } else if constexpr (std::is_signed_v<Number>) {
    value = std::strtoll(text.c_str(), &end, 0);
  } else {
    value = std::strtoull(text.c_str(), &end, 0);
    if (text[0] == '-') return false;
  }
  return !text.empty() && *end == '\0' && errno == 0;
}
template bool parse_number(const std::string &, std::uint64_t &);
template bool parse_number(const std::string &, std::ptrdiff_t &);
template bool parse_number(const std::string &, double &);

namespace {

std::string text_of(std::size_t value) { return std::to_string(value); }
std::string text_of(std::ptrdiff_t value) { return std::to_string(value); }
std::string text_of(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%a", value);
  return text;
}
std::string text_of(const RowRange &rows) { return text_of(rows.first) + "," + text_of(rows.count); }
std::string text_of(const FpState &state) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(state.control));
  return text;
}
template <class T>
std::string text_of(const std::optional<T> &value) {
  return text_of(*value);
}
template <class T>
std::string text_of(const std::array<T, 3> &values) {
  return text_of(values[0]) + "," + text_of(values[1]) + "," + text_of(values[2]);
}
template <class Enum>
requires std::is_enum_v<Enum> std::string text_of(Enum value) { return name_of(value); }

template <class Number>
bool parse(const std::string &text, Number &value) {
  return parse_number(text, value);
}
template <class Enum>
requires std::is_enum_v<Enum>
bool parse(const std::string &text, Enum &value) {
  for (std::size_t i = 0; i < std::size(names_of<Enum>); ++i) {
    if (text != names_of<Enum>[i]) continue;
    value = static_cast<Enum>(i);
    return true;
  }
  return false;
}
template <class T, std::size_t count>
bool parse_list(const std::string &text, T *const (&values)[count]) {
  std::istringstream parts(text);
  std::string part;
  for (T *value : values) {
    if (!std::getline(parts, part, ',') || !parse(part, *value)) return false;
  }
  return parts.eof();
}
template <class T>
bool parse(const std::string &text, std::array<T, 3> &values) {
  return parse_list(text, {&values[0], &values[1], &values[2]});
}
bool parse(const std::string &text, RowRange &rows) { return parse_list(text, {&rows.first, &rows.count}); }
bool parse(const std::string &text, FpState &state) {
  state.name = text;
  return parse(text, state.control);
}
template <class T>
bool parse(const std::string &text, std::optional<T> &value) {
  return parse(text, value.emplace());
}

template <class T>
bool is_within(const T &value, std::ptrdiff_t least, std::ptrdiff_t most, std::ptrdiff_t multiple) {
  if constexpr (std::is_same_v<T, std::size_t> || std::is_same_v<T, std::ptrdiff_t>) {
    const bool below_most = most == PTRDIFF_MAX || std::cmp_less_equal(value, most);
    return std::cmp_less_equal(least, value) && below_most && value % static_cast<T>(multiple) == 0;
  } else if constexpr (requires { value.data(); }) {
    return is_within(value[0], least, most, multiple) && is_within(value[1], least, most, multiple) &&
           is_within(value[2], least, most, multiple);
  } else {
    return true;
  }
}

enum class Reading { unknown_word, wrong_value, read };

// A bool option is written "word", and every other option "word=value".
Reading read_option(const std::string &name, const std::string *value, Case &parsed) {
  Reading reading = Reading::unknown_word;
  for_each_option(parsed, [&](auto &owner, const auto &option) {
    if (name != option.word) return;
    const bool is_read = std::visit(
        [&](auto field) {
          auto &target = owner.*field;
          if constexpr (std::is_same_v<std::remove_reference_t<decltype(target)>, bool>) {
            return target = value == nullptr;
          } else {
            return value != nullptr && parse(*value, target) &&
                   is_within(target, option.least, option.most, option.multiple);
          }
        },
        option.field);
    reading = is_read ? Reading::read : Reading::wrong_value;
  });
  return reading;
}

// Returns whether to ignore the option. Version 0.2 printed rows and shift even for kernels that do not use
// them.
bool has_no_effect(const std::string &name, const std::string *value) {
  double number;
  return (name == "rows" || name == "shift") && value != nullptr && parse(*value, number);
}

}  // namespace

std::string to_text(const Case &given) {
  std::string text;
  for_each_option(given, [&]<class Owner>(const Owner &owner, const Option<Owner> &option) {
    static const Owner plain;
    const auto append = [&](auto field) {
      const auto &value = owner.*field;
      if (value == plain.*field && !option.is_always_written) return;
      if (!text.empty()) text += ' ';
      text += option.word;
      if constexpr (!std::is_same_v<std::remove_cvref_t<decltype(value)>, bool>) {
        text += '=';
        text += text_of(value);
      }
    };
    std::visit(append, option.field);
  });
  return text;
}

std::string parse_case(Family family, const std::string &text, Case &parsed) {
  parsed = {make_problem(family, {}), {}};
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const std::size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : word.substr(equals + 1);
    const std::string *const given = equals == std::string::npos ? nullptr : &value;
    const Reading reading = read_option(name, given, parsed);
    if (reading == Reading::wrong_value) return "\"" + word + "\" is not a value that " + name + " has";
    if (reading == Reading::unknown_word && !has_no_effect(name, given)) {
      return "\"" + word + "\" is not understood";
    }
  }
  const Problem &problem = parsed.problem;
  if (const RowsProblem *rows = problem.of_rows(); rows && rows->window.first > rows->rows) {
    return "the window begins after the last row";
  }
  if (problem.cols() != 0 && problem.rows() > (std::size_t{1} << 32) / problem.cols()) {
    return "too many elements";
  }
  return {};
}

}  // namespace rapt::test
