// Benchmarks rapt_map's functions, over contiguous arrays. The benchmark has a row for each, such as map_f32:log.
#include <iterator>
#include <string>
#include <utility>

#include "support/elementwise.hpp"
#include "support/map_accuracy.hpp"

namespace rapt::bench {
namespace {

// µops of a vector of doubles, without loads and conversions: multiply-adds, products and comparisons, and all. A
// division counts as one, although it takes its unit several cycles.
struct Function {
  const char *name;
  rapt_map_function number;
  Uops short_polynomials, long_polynomials;
};
constexpr Function functions[] = {
    {"exp2", RAPT_MAP_EXP2, {}, {}},
    {"expm1", RAPT_MAP_EXPM1, {13, 21}, {18, 26}},
    {"log", RAPT_MAP_LOG, {12, 20}, {17, 27}},
    {"log2", RAPT_MAP_LOG2, {13, 21}, {18, 28}},
    {"log1p", RAPT_MAP_LOG1P, {15, 25}, {20, 40}},
    {"sin", RAPT_MAP_SIN, {16, 23}, {22, 29}},
    {"cos", RAPT_MAP_COS, {15, 22}, {21, 28}},
    {"tan", RAPT_MAP_TAN, {17, 25}, {23, 31}},
    {"tanh", RAPT_MAP_TANH, {12, 21}, {17, 26}},
    {"erf", RAPT_MAP_ERF, {26, 36}, {47, 57}},
    {"sigmoid", RAPT_MAP_SIGMOID, {10, 18}, {}},
    {"softplus", RAPT_MAP_SOFTPLUS, {27, 44}, {}},
    {"mish", RAPT_MAP_MISH, {16, 30}, {}},
    {"pow", RAPT_MAP_POW, {30, 46}, {52, 92}},
    {"atan2", RAPT_MAP_ATAN2, {20, 40}, {29, 49}},
    {"sqrt", RAPT_MAP_SQRT, {}, {}},
    {"add", RAPT_MAP_ADD, {}, {}},
};

template <class T>
constexpr Uops uops_of(const Function &function) {
  constexpr bool is_long = sizeof(T) == sizeof(double);
  if (function.number == RAPT_MAP_ADD || function.number == RAPT_MAP_SQRT) return {0, 1};
  if (function.number == RAPT_MAP_EXP2) return exp_uops<T>;
  if (!is_long) return function.short_polynomials + function.short_polynomials;  // of two vectors of doubles
  if (function.number == RAPT_MAP_SIGMOID) return exp_uops<double> + Uops{3, 5};
  if (function.number == RAPT_MAP_SOFTPLUS) return exp_uops<double> + Uops{23, 45};
  if (function.number == RAPT_MAP_MISH) return exp_uops<double> + Uops{6, 12};
  return function.long_polynomials;
}

template <class T, rapt_map_function number>
void own_map(const T *x, const T *y, T *out, std::size_t n) {
  rapt_map_options options = RAPT_MAP_OPTIONS_INIT;
  options.function = number;
  options.type = sizeof(T) == sizeof(float) ? RAPT_F32 : RAPT_F64;
  options.dims = 1;
  options.shape[0] = n;
  require_ok(rapt_map(x, map_reads_two(number) ? y : nullptr, nullptr, out, &options));
}

template <class T, std::size_t index>
void register_function(Suite &suite, const std::string &kernel) {
  constexpr Function function = functions[index];
  constexpr std::size_t inputs = map_reads_two(function.number) ? 2 : 1;
  suite.begin_kernel(kernel + ":" + function.name);
  const auto of_peer = [](const Peer &peer) -> TwoToOne<T> {
    const MapOf<T> map = peer.functions<T>().map;
    return map ? map(functions[index].number) : nullptr;
  };
  const auto error = [](TwoToOne<T> map) { return map_function_error<T>(functions[index].number, map); };
  Kernel<TwoToOne<T>> timed =
      suite.kernel(TwoToOne<T>(own_map<T, function.number>), of_peer, error, uops_of<T>(function));
  const auto add = [&](const std::string &size, std::size_t n) {
    const Work work = {
        .elements = n, .element_bytes = sizeof(T), .read = inputs * n * sizeof(T), .written = n * sizeof(T)};
    timed.add(size, work, [n, number = function.number] {
      return [n, x = map_inputs<T>(number, n, 0), y = map_inputs<T>(number, n, 1),
              out = Buffer<T>(n)](TwoToOne<T> f) { f(x.data(), y.data(), out.data(), n); };
    });
  };
  const bool is_quick = suite.plan().quick;
  if (is_quick && function.number != RAPT_MAP_LOG && function.number != RAPT_MAP_POW) return;
  for (const WorkingSet &set : suite.plan().working_sets) {
    if (is_quick && set.label != suite.plan().working_sets.front().label) continue;
    add(set.label, set.bytes / ((inputs + 1) * sizeof(T)));
  }
  if (!is_quick) add("n:64", 64);
}

template <class T>
void register_map(Suite &suite, const std::string &kernel) {
  [&]<std::size_t... index>(std::index_sequence<index...>) {
    (register_function<T, index>(suite, kernel), ...);
  }
  (std::make_index_sequence<std::size(functions)>{});
}

}  // namespace

void register_map_f32(Suite &suite) { register_map<float>(suite, "map_f32"); }
void register_map_f64(Suite &suite) { register_map<double>(suite, "map_f64"); }

}  // namespace rapt::bench
