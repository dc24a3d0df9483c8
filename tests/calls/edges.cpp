#include "calls/edges.hpp"

#include <cstdlib>
#include <sstream>

namespace rapt::test {
namespace {

constexpr const char *dimensions[] = {".batch", ".head", ".token", ""};

bool set_stride(const Call &call, const std::string &name, long double value) {
  for (const Operand &operand : call.operands()) {
    for (std::size_t i = 0; i < 4; ++i) {
      if (!operand.stride_fields[i]) continue;
      const std::string of_field = operand.stride_name;
      if (name != of_field && name != of_field + dimensions[i]) continue;
      *operand.stride_fields[i] = static_cast<std::ptrdiff_t>(value);
      return true;
    }
  }
  return false;
}

std::size_t index_of(const Call &call, const std::string &name) {
  std::size_t i = 0;
  while (i < call.operands().size() && call.operands()[i].name != name) ++i;
  return i;
}

bool set_element(Call &call, const std::string &name, std::size_t index, long double value) {
  const std::size_t at = index_of(call, name);
  if (at == call.operands().size()) return false;
  with_type_of(call.operands()[at].element, [&]<class T>(T) {
    if constexpr (std::is_arithmetic_v<T>) {
      call.set_value(name.c_str(), index, static_cast<T>(value));
    } else {
      call.set_value(name.c_str(), index, T(static_cast<double>(value)));
    }
  });
  return true;
}

bool set(Call &call, const std::string &field, const std::string &value) {
  const std::size_t operand = index_of(call, field), count = call.operands().size();
  if (value == "null" && operand < count) {
    const void *const null = nullptr;
    std::memcpy(call.operands()[operand].pointer, &null, sizeof null);
    return true;
  }
  const std::size_t sign = value.find_first_of("+-");
  const std::size_t other =
      sign == std::string::npos || sign == 0 ? count : index_of(call, value.substr(0, sign));
  if (operand < count && other < count) {
    call.place_near(operand, other, std::atol(value.c_str() + sign));
    return true;
  }
  char *end = nullptr;
  const bool is_word = value == "some" || value == "null";
  const long double number = is_word ? value == "some" : std::strtold(value.c_str(), &end);
  if (!is_word && *end != 0) return false;
  const std::size_t bracket = field.find('[');
  if (bracket != std::string::npos)
    return set_element(call, field.substr(0, bracket), std::strtoul(field.c_str() + bracket + 1, nullptr, 10),
                       number);
  Limits fields;
  call.add_limits(fields);
  if (fields.set(field, number) || set_stride(call, field, number)) return true;
  return field == "options" && call.leave_out_options();
}

}  // namespace

std::string change(Call &call, const std::string &words) {
  std::istringstream text(words);
  for (std::string word; text >> word;) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos || !set(call, word.substr(0, equals), word.substr(equals + 1)))
      return word;
  }
  return "";
}

}  // namespace rapt::test
