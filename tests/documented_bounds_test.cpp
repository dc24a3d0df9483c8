// The table of bounds in the page on accuracy has the formulas that the accuracy tests assert, which
// are in oracle/bounds.hpp. Each formula is read from the page, and computed for several sizes.
#include <doctest/doctest.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <regex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "calls/scan.hpp"
#include "oracle/bounds.hpp"
#include "validate/accuracy_map.hpp"

namespace rapt::test {
namespace {

// What the names in formulas stand for.
struct Sizes {
  std::size_t n, qk_dim;
  double s, v, lse;

  std::map<std::string, double> names() const {
    const double count = static_cast<double>(n);
    return {{"n", count},
            {"cols", count},
            {"classes", count},
            {"top_k", count},
            {"in_features", count},
            {"keys", count},
            {"kv_len", count},
            {"qk_dim", static_cast<double>(qk_dim)},
            {"S", s},
            {"v", v},
            {"lse", lse},
            {"D", dot_bound<float>(n)},
            {"G", 64},
            {"N", count / 64}};
  }
};
const std::vector<Sizes> all_sizes = {
    {1024, 64, 0.5, 0, 3}, {4096, 128, 7, 2, 0}, {100032, 8, 0, 5.5, 20}, {1 << 22, 256, 100, 1, 1}};

// Computes +, -, *, / and min of numbers and names. 2N is 2 times N, and |v| is v where it is positive.
class Formula {
 public:
  Formula(std::string text, const std::map<std::string, double> &names)
      : text_(std::move(text)), names_(names) {}

  double value() {
    const double result = sum();
    if (at_ != text_.size()) fail();
    return result;
  }

 private:
  [[noreturn]] void fail() const { throw std::runtime_error("not a formula: " + text_); }
  bool take(const std::string &token) {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '|')) ++at_;
    if (text_.compare(at_, token.size(), token) != 0) return false;
    at_ += token.size();
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '|')) ++at_;
    return true;
  }
  double sum() {
    double result = product();
    for (;;) {
      if (take("+"))
        result += product();
      else if (take("-"))
        result -= product();
      else
        return result;
    }
  }
  double product() {
    double result = factor();
    for (;;) {
      if (take("·") || starts_name())
        result *= factor();
      else if (take("/"))
        result /= factor();
      else
        return result;
    }
  }
  bool starts_name() const {
    return at_ < text_.size() && std::isalpha(static_cast<unsigned char>(text_[at_]));
  }
  double factor() {
    if (take("min(")) {
      const double a = sum();
      if (!take(",")) fail();
      const double b = sum();
      if (!take(")")) fail();
      return std::min(a, b);
    }
    if (take("(")) {
      const double result = sum();
      if (!take(")")) fail();
      return result;
    }
    std::size_t end = at_;
    while (end < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[end])) || text_[end] == '_'))
      ++end;
    if (starts_name()) {
      const auto found = names_.find(text_.substr(at_, end - at_));
      if (found == names_.end()) fail();
      at_ = end;
      take("");
      return found->second;
    }
    std::size_t length = 0;
    const double number = std::stod(text_.substr(at_), &length);
    at_ += length;
    take("");
    return number;
  }

  std::string text_;
  const std::map<std::string, double> &names_;
  std::size_t at_ = 0;
};

using Bound = std::function<double(const Sizes &)>;
Bound is(double bound) {
  return [=](const Sizes &) { return bound; };
}
Bound any() { return {}; }  // text, or what another row has

template <class T>
double dot_of(const Sizes &s) {
  return dot_bound<T>(s.n);
}
double f32_linear(const Sizes &s) { return linear_bound(s.n, RAPT_ARITHMETIC_F32); }
double bf16_linear(const Sizes &s) { return linear_bound(s.n, RAPT_ARITHMETIC_BF16); }
AttentionErrors attention_of(const Sizes &s) {
  oracle::AttentionTruth truth;
  truth.score_terms = static_cast<decltype(truth.score_terms)>(s.s);
  truth.lse = static_cast<long double>(s.lse);
  return attention_worst_bounds(s.qk_dim, s.n, truth);
}

// A row's text, with @ where a formula is.
struct Row {
  const char *function, *text;
  std::vector<Bound> bounds;
};

const Bound gelu_tanh = [](const Sizes &s) { return gelu_tanh_bound * (1 + s.v / 2); };
const Bound gelu_tanh_backward = [](const Sizes &s) { return gelu_tanh_backward_bound * (1 + s.v / 2); };
const Bound rms_norm = [](const Sizes &s) { return dot_bound<float>(s.n) / 2 + 6; };
const Bound attention = [](const Sizes &s) { return attention_of(s).out; };
const Bound expert_sum = [](const Sizes &s) { return expert_sum_bound(static_cast<double>(s.n)); };
const Bound cross_entropy = [](const Sizes &s) { return cross_entropy_bound(static_cast<double>(s.n)); };
const Bound embedding_bag = [](const Sizes &s) { return embedding_bag_bound(static_cast<double>(s.n)); };
const Bound softmax_backward = [](const Sizes &s) { return softmax_backward_worst_bound<float>(s.n); };

const std::vector<Row> accuracy = {
    {"exp", "below @ ULP; f32 measured over all 2³² inputs: @", {is(exp_bound), is(exp_f32_bound)}},
    {"silu, gelu", "@ and @ ULP, and@", {is(silu_bound), is(gelu_bound), any()}},
    {"gelu_tanh", "@ ULP, and@", {gelu_tanh, any()}},
    {"silu_backward, gelu_backward, gelu_tanh_backward",
     "@, @ and @ times 2⁻²⁴ · |dy|@",
     {is(silu_backward_bound), is(gelu_backward_bound), gelu_tanh_backward, any()}},
    {"softmax",
     "relative error ≤ @ · 2⁻²⁴ (f64: @ · 2⁻⁵³) of every probability of any row",
     {is(softmax_bound<float>), is(softmax_bound<double>)}},
    {"log_softmax, logsumexp",
     "error ≤ @ · 2⁻²⁴ · max(1, |y|) (f64: @ · 2⁻⁵³) for any row",
     {is(log_bound<float>), is(log_bound<double>)}},
    {"dot", "error ≤ @ · 2⁻²⁴ · Σ|a·b| (f64: @ · 2⁻⁵³)", {dot_of<float>, dot_of<double>}},
    {"softmax_backward", "error ≤ @ · 2⁻²⁴ · |scale|@", {softmax_backward, any()}},
    {"linear",
     "error of the sum ≤ @ · 2⁻²⁴ · Σ|x·w| (f64: 2⁻⁵³), in bf16 arithmetic @",
     {f32_linear, bf16_linear}},
    {"linear, quantized weights",
     "N groups of G inputs, compared with the exact sum over the quantized numbers: @ · 2⁻²⁴ · Σ|x·w|; in i8 arithmetic @, "
     "compared with the rounded x",
     {[](const Sizes &s) { return quantized_linear_bound(s.n, 64, RAPT_ARITHMETIC_F32); },
      [](const Sizes &s) { return quantized_linear_bound(s.n, 64, RAPT_ARITHMETIC_I8); }}},
    {"reduce, of n elements",
     "error of a sum ≤ @ · 2⁻²⁴ · Σ|x| (f64: @ · 2⁻⁵³); @",
     {dot_of<float>, dot_of<double>, any()}},
    {"scan, of element n",
     "error of a sum ≤ @ · 2⁻²⁴ · Σ|x| (f64: 2⁻⁵³)@",
     {[](const Sizes &s) { return scan_bound(s.n); }, any()}},
    {"convolution, causal_convolution",
     "as linear, with the number of products in place of in_features@",
     {any()}},
    {"delta_rule, one token of n key dimensions", "relative to the sizes of the terms, @", {any()}},
    {"delta_rule_backward, one token of n key and m value dimensions, h heads of q for a state",
     "relative to the sizes of the terms, @",
     {any()}},
    {"cross_entropy, without label_smoothing",
     "error ≤ w · (@ · 2⁻²⁴ · max(1, |L|) + 2⁻¹⁴⁹) + @ · 2⁻²⁴ · loss, L the log-sum-exp (f64: @ · 2⁻⁵³, @",
     {is(log_bound<float>), cross_entropy, is(log_bound<double>), any()}},
    {"embedding_bag, of n rows", "error of a sum ≤ @ · 2⁻²⁴ · Σ|x| + @", {embedding_bag, any()}},
    {"random, normal",
     "error ≤ @ · 2⁻²⁴ · r (f64: @ · 2⁻⁵³ · r), r@",
     {is(random_normal_bound<float>), is(random_normal_bound<double>), any()}},
    {"metrics of vector search",
     "squared L2: error ≤ @ · 2⁻²⁴ · result; cosine: @ · 2⁻²⁴, D = @ (f64: @",
     {[](const Sizes &s) { return squared_distance_bound<float>(s.n); },
      [](const Sizes &s) { return cosine_bound<float>(s.n); }, dot_of<float>, any()}},
    {"mean_pool of n tokens, normalize",
     "@ · 2⁻²⁴ · mean |x|; @ · 2⁻²⁴ · |y|",
     {[](const Sizes &s) { return mean_pool_bound(static_cast<double>(s.n)); },
      [](const Sizes &s) { return normalize_bound<float>(s.n); }}},
    {"expert_sum", "error ≤ @ · 2⁻²⁴ · (Σ|weight·x| + |add|) and @", {expert_sum, any()}},
    {"rms_norm", "error ≤ @ · 2⁻²⁴ · |y| +@, D = @ (f64:@", {rms_norm, any(), dot_of<float>, any()}},
    {"rope",
     "a sine or cosine s: @ · 2⁻²⁴ · |s| + t (f64: @ · 2⁻⁵³), t = @ · |angle|; a turned pair: @ · 2⁻²⁴ · √(a² + b²) + t "
     "· (|a| + |b|) (f64: @ · 2⁻⁵³); both times the attention factor",
     {is(sine_bound<float>), is(sine_bound<double>), is(angle_bound), is(turn_bound<float>),
      is(turn_bound<double>)}},
    {"attention", "error ≤ @ · 2⁻²⁴ · max|v|, S@", {attention, any()}},
    {"its log-sum-exp", "error ≤ @ · 2⁻²⁴", {[](const Sizes &s) { return attention_of(s).lse; }}},
};

std::string read(const std::string &file) {
  std::ifstream in(RAPT_TEST_SOURCE + ("/" + file), std::ios::binary);
  REQUIRE(in);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string with(std::string text, const std::string &from, const std::string &to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
  return text;
}

// Returns the rows of the table with the head "| function | bound |".
std::vector<std::pair<std::string, std::string>> table_of(const std::string &file) {
  const std::string page = read(file), head = "| function | bound |\n| --- | --- |\n";
  std::size_t at = page.find(head);
  REQUIRE(at != std::string::npos);
  std::vector<std::pair<std::string, std::string>> rows;
  for (at += head.size(); page.compare(at, 2, "| ") == 0; at = page.find('\n', at) + 1) {
    std::string row = with(page.substr(at, page.find('\n', at) - at), "\\|", "\x01");
    const std::size_t middle = row.find(" | "), end = row.rfind(" |");
    REQUIRE(middle < end);
    const std::string bound = with(row.substr(middle + 3, end - middle - 3), "\x01", "|");
    rows.emplace_back(row.substr(2, middle - 2), with(bound, " · 10⁻¹⁶", "e-16"));
  }
  return rows;
}

// Returns what stands for each @ of the pattern, or nothing if the text is another.
std::vector<std::string> found(const std::string &text, const std::string &pattern) {
  std::vector<std::string> parts;
  std::size_t at = pattern.find('@'), in_text = at;
  if (text.compare(0, at, pattern, 0, at) != 0) return {};
  while (at != std::string::npos) {
    const std::size_t next = pattern.find('@', at + 1);
    const std::string literal = pattern.substr(at + 1, next == std::string::npos ? next : next - at - 1);
    const bool is_last = next == std::string::npos;
    const std::size_t end = literal.empty()                           ? text.size()
                            : is_last && text.size() > literal.size() ? text.rfind(literal)
                                                                      : text.find(literal, in_text);
    if (end == std::string::npos || end < in_text) return {};
    parts.push_back(text.substr(in_text, end - in_text));
    in_text = end + literal.size();
    at = next;
  }
  return in_text == text.size() ? parts : std::vector<std::string>{};
}

void check(const std::string &file, const std::vector<Row> &rows, const std::vector<std::string> &others) {
  std::size_t seen = 0;
  for (const auto &[function, bound] : table_of(file)) {
    CAPTURE(file);
    CAPTURE(function);
    CAPTURE(bound);
    if (std::find(others.begin(), others.end(), function) != others.end()) continue;
    const std::string &name = function;
    const auto row = std::find_if(rows.begin(), rows.end(), [&](const Row &r) { return r.function == name; });
    REQUIRE_MESSAGE(row != rows.end(), "no test reads this row");
    const std::vector<std::string> formulas = found(bound, row->text);
    REQUIRE_MESSAGE(formulas.size() == row->bounds.size(), "the row has another text");
    for (std::size_t i = 0; i < formulas.size(); ++i) {
      if (!row->bounds[i]) continue;
      for (const Sizes &sizes : all_sizes) {
        const std::map<std::string, double> names = sizes.names();
        CAPTURE(formulas[i]);
        CHECK(Formula(formulas[i], names).value() == doctest::Approx(row->bounds[i](sizes)).epsilon(1e-12));
      }
    }
    ++seen;
  }
  CHECK(seen == rows.size());
}

// Returns the functions of rapt_map by their names in small letters. rapt.h lists them in the order of their numbers.
std::map<std::string, rapt_map_function> map_functions_by_name() {
  static const std::regex enumerator(R"(\n  RAPT_MAP_(\w+)( = 1)?,?\s)");
  const std::string header = read("include/rapt/rapt.h");
  std::map<std::string, rapt_map_function> functions;
  for (std::sregex_iterator at(header.begin(), header.end(), enumerator), end; at != end; ++at) {
    std::string name = (*at)[1];
    for (char &c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    functions[name] = static_cast<rapt_map_function>(functions.size() + 1);
  }
  REQUIRE(functions.at("clamp_backward") == RAPT_MAP_CLAMP_BACKWARD);
  return functions;
}

// Holds a table of rapt_map's bounds: each row of the file that has the form has names, the bound of f32 and that of
// f64.
void check_bounds_of_map(const std::string &file, const std::regex &row, std::size_t expected) {
  const std::map<std::string, rapt_map_function> functions = map_functions_by_name();
  const std::string text = read(file);
  static const std::regex word(R"(\w+)");
  std::size_t seen = 0;
  for (std::sregex_iterator at(text.begin(), text.end(), row), end; at != end; ++at) {
    const std::string names = (*at)[1];
    for (std::sregex_iterator name(names.begin(), names.end(), word); name != std::sregex_iterator();
         ++name) {
      CAPTURE(file);
      CAPTURE(name->str());
      const rapt_map_function function = functions.at(name->str());
      // fma of f64 has no oracle; correctly rounded functions are given some room for the oracle's own rounding.
      const double in_f32 = rapt::validate::map_bound<float>(function),
                   in_f64 = rapt::validate::map_bound<double>(function), rounding = 0x1p-10;
      CHECK(in_f32 - std::stod((*at)[2]) <= rounding);
      CHECK(in_f64 - std::stod((*at)[3]) <= rounding);
      CHECK(in_f32 >= std::stod((*at)[2]));
      CHECK((in_f64 >= std::stod((*at)[3]) || function == RAPT_MAP_FMA));
      seen += 1;
    }
  }
  CHECK(seen == expected);
}

}  // namespace

// The tests of norms, of frequencies and of shorter types state the other rows by themselves.
TEST_CASE("the bounds of the page on accuracy are those that tests assert") {
  check("src/manual/accuracy.md", accuracy,
        {"layer_norm", "rms_norm_backward, layer_norm_backward", "rope_frequencies", "f16 and bf16"});
}

TEST_CASE("tests assert the bounds of rapt_map that rapt.h and the page on accuracy have") {
  check_bounds_of_map("include/rapt/rapt.h",
                      std::regex(R"(\n \*   ((?:\w+, )*\w+) +(0\.51|1|1\.5) +([\d.]+)(?: +\w.*)?(?=\n))"),
                      19);
  check_bounds_of_map("src/manual/accuracy.md",
                      std::regex(R"(\n\| ([\w, ]+) \| ([\d.]+) \| ([\d.]+)(?: \+ [^\n]*)? \|(?=\n))"), 25);
}

TEST_CASE("rapt.h rounds the measured error of exp up") {
  const std::string header = read("include/rapt/rapt.h"), before = "The error is below 1 ULP (f32: ";
  const std::size_t at = header.find(before);
  REQUIRE(at != std::string::npos);
  const double stated = std::stod(header.substr(at + before.size()));
  CHECK(stated >= exp_f32_bound);
  CHECK(stated < exp_f32_bound + 0.001);
}

TEST_CASE("formulas") {
  const std::map<std::string, double> names = {{"n", 10}, {"N", 3}, {"v", 2}};
  CHECK(Formula("(min(n/64, 512) + n/4 + 8)", names).value() == 10 / 64. + 2.5 + 8);
  CHECK(Formula("5 + 5/2 · |v|", names).value() == 10);
  CHECK(Formula("2N + 6 - n", names).value() == 2);
  CHECK_THROWS(Formula("2 · m", names).value());
  CHECK_THROWS(Formula("2 +", names).value());
  CHECK(found("a 1 b 2 c", "a @ b @ c") == std::vector<std::string>{"1", "2"});
  CHECK(found("a 1 b 2 d", "a @ b @ c").empty());
}

}  // namespace rapt::test
