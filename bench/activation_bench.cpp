// Benchmarks silu, gelu and gelu_tanh.
#include "support/accuracy.hpp"
#include "support/elementwise.hpp"

namespace rapt::bench {
namespace {

template <class T>
void add_sizes(Kernel<Exp<T>> kernel) {
  add_elementwise_sizes<T>(kernel,
                           [](Exp<T> activation, const T *x, T *y, std::size_t n) { activation(x, y, n); });
}

template <class T>
void register_silu(Suite &suite, Exp<T> own) {
  add_sizes<T>(suite.kernel(own, &PeerFunctions<T>::silu, silu_error<T>, silu_uops<T>));
}
template <class T>
void register_gelu(Suite &suite, Exp<T> own) {
  add_sizes<T>(suite.kernel(own, &PeerFunctions<T>::gelu, gelu_error<T>, gelu_uops<T>));
}
template <class T>
void register_gelu_tanh(Suite &suite, Exp<T> own) {
  add_sizes<T>(suite.kernel(own, &PeerFunctions<T>::gelu_tanh, gelu_tanh_error<T>, gelu_tanh_uops<T>));
}

}  // namespace

void register_silu_f32(Suite &suite) { register_silu<float>(suite, rapt_silu_f32); }
void register_silu_f64(Suite &suite) { register_silu<double>(suite, rapt_silu_f64); }
void register_gelu_f32(Suite &suite) { register_gelu<float>(suite, rapt_gelu_f32); }
void register_gelu_f64(Suite &suite) { register_gelu<double>(suite, rapt_gelu_f64); }
void register_gelu_tanh_f32(Suite &suite) { register_gelu_tanh<float>(suite, rapt_gelu_tanh_f32); }
void register_gelu_tanh_f64(Suite &suite) { register_gelu_tanh<double>(suite, rapt_gelu_tanh_f64); }

}  // namespace rapt::bench
