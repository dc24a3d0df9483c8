#include "support/elementwise.hpp"

namespace rapt::bench {
namespace {

template <class T>
void register_exp_sum(Suite &suite, ExpSum<T> own) {
  Kernel<ExpSum<T>> kernel = suite.kernel(own, exp_sum_uops<T>);
  add_elementwise_sizes<T>(kernel, [](ExpSum<T> exp_sum, const T *x, T *y, std::size_t n) {
    T sum = exp_sum(x, T(0.125), T(1), y, n);
    benchmark::DoNotOptimize(sum);
  });
}

}  // namespace

void register_exp_sum_f32(Suite &suite) { register_exp_sum<float>(suite, rapt_exp_sum_f32); }
void register_exp_sum_f64(Suite &suite) { register_exp_sum<double>(suite, rapt_exp_sum_f64); }

}  // namespace rapt::bench
