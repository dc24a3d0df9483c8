#include <cmath>
#include <string>

#include "support/accuracy.hpp"
#include "support/elementwise.hpp"

namespace rapt::bench {
namespace {

// Holds the bounds of uniform inputs. Some implementations of exp are slow on such inputs.
struct Range {
  const char *suffix;
  double low, high;
};
template <class T>
constexpr Range ranges[] = {
    {":underflow", -103, -88}, {":wide", -100, 88}, {":overflow", 89, 100}, {":nan", NAN, NAN}};
template <>
constexpr Range ranges<double>[] = {
    {":underflow", -745, -709}, {":wide", -740, 709}, {":overflow", 710, 800}, {":nan", NAN, NAN}};

template <class T>
void register_exp(Suite &suite, Exp<T> own) {
  Kernel<Exp<T>> kernel = suite.kernel(own, &PeerFunctions<T>::exp, exp_error<T>, exp_uops<T>);
  const auto call = [](Exp<T> exp, const T *x, T *y, std::size_t n) { exp(x, y, n); };
  add_elementwise_sizes<T>(kernel, call);

  constexpr std::size_t n = 4096;
  for (const Range &range : ranges<T>) {
    add_elementwise<T>(kernel, "n:4096" + std::string(range.suffix), n,
                       [range] { return uniform<T>(n, range.low, range.high); }, call,
                       {.special_values = true});
  }
  if (sizeof(T) == sizeof(float) && !suite.plan().quick) {
    constexpr std::size_t many = 64 << 20;
    add_elementwise<T>(
        kernel, "n:64M", many, [] { return logits<T>(many); }, call);
  }
}

}  // namespace

void register_exp_f32(Suite &suite) { register_exp<float>(suite, rapt_exp_f32); }
void register_exp_f64(Suite &suite) { register_exp<double>(suite, rapt_exp_f64); }

}  // namespace rapt::bench
