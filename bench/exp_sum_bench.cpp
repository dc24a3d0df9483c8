#include "support/accuracy.hpp"
#include "support/elementwise.hpp"

namespace rapt::bench {
namespace {

template <class T>
void register_exp_sum(Kernel<ExpSum<T>> kernel) {
  add_elementwise_sizes<T>(kernel, [](ExpSum<T> exp_sum, const T *x, T *y, std::size_t n) {
    T sum = exp_sum(x, T(0.125), T(1), y, n);
    benchmark::DoNotOptimize(sum);
  });
}

}  // namespace

void register_exp_sum_f32(Suite &suite) {
  register_exp_sum<float>(
      suite.kernel<ExpSum<float>>(rapt_exp_sum_f32, nullptr, exp_sum_error<float>, exp_sum_uops<float>));
}
void register_exp_sum_f64(Suite &suite) {
  register_exp_sum<double>(
      suite.kernel<ExpSum<double>>(rapt_exp_sum_f64, nullptr, exp_sum_error<double>, exp_sum_uops<double>));
}

}  // namespace rapt::bench
