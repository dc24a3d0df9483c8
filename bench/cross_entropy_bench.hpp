// Benchmarks cross entropy and its gradient, with the kernels of log_softmax. A size is rows x classes.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/buffer.hpp"
#include "support/suite.hpp"

namespace rapt::bench {

template <class T>
using LossNumber = std::conditional_t<std::is_same_v<T, double>, double, float>;

// Rows of logits, and the class of each.
struct Losses {
  std::size_t rows, classes;

  std::size_t elements() const { return rows * classes; }
  Buffer<std::int64_t> targets() const {
    Buffer<std::int64_t> made(rows);
    for (std::size_t r = 0; r < rows; ++r) made.data()[r] = static_cast<std::int64_t>(r * 12345 % classes);
    return made;
  }
  rapt_cross_entropy_options options(rapt_type type, const std::int64_t *target, void *lse) const {
    rapt_cross_entropy_options made = RAPT_CROSS_ENTROPY_OPTIONS_INIT;
    made.type = type;
    made.rows = rows;
    made.classes = classes;
    made.target = target;
    made.lse = lse;
    return made;
  }
};

template <class T, rapt_type type>
void own_cross_entropy(const T *x, const std::int64_t *target, LossNumber<T> *losses, LossNumber<T> *lse,
                       std::size_t rows, std::size_t classes) {
  const auto options = Losses{rows, classes}.options(type, target, lse);
  require_ok(rapt_cross_entropy(x, losses, &options));
}
template <class T, rapt_type type>
void own_cross_entropy_backward(const T *x, const std::int64_t *target, const LossNumber<T> *lse, T *dx,
                                std::size_t rows, std::size_t classes) {
  // The gradient only reads it.
  const auto options = Losses{rows, classes}.options(type, target, const_cast<LossNumber<T> *>(lse));
  require_ok(rapt_cross_entropy_backward(x, dx, &options));
}

// The largest error of a loss, and of an element of a gradient.
template <class T>
double cross_entropy_error(CrossEntropy<T> function) {
  constexpr Losses of = {4, 1000};
  const auto x = logits<T>(of.elements());
  const auto target = of.targets();
  Buffer<T> losses(of.rows), lse(of.rows);
  function(x.data(), target.data(), losses.data(), lse.data(), of.rows, of.classes);
  long double worst = 0;
  for (std::size_t r = 0; r < of.rows; ++r) {
    long double sum = 0;
    const T *const row = x.data() + r * of.classes;
    for (std::size_t c = 0; c < of.classes; ++c) sum += std::exp(static_cast<long double>(row[c]));
    const long double exact = std::log(sum) - static_cast<long double>(row[target.data()[r]]);
    worst = std::max(worst, std::fabs(static_cast<long double>(losses.data()[r]) - exact));
  }
  return static_cast<double>(2 * worst / std::numeric_limits<T>::epsilon());  // in 2^-24, 2^-53
}
template <class T>
double cross_entropy_backward_error(CrossEntropyBackward<T> function) {
  constexpr Losses of = {4, 1000};
  const auto x = logits<T>(of.elements());
  const auto target = of.targets();
  Buffer<T> lse(of.rows), dx(of.elements());
  for (T &one : lse.elements()) one = T(9);
  function(x.data(), target.data(), lse.data(), dx.data(), of.rows, of.classes);
  long double worst = 0;
  for (std::size_t i = 0; i < of.elements(); ++i) {
    const bool is_target = static_cast<std::int64_t>(i % of.classes) == target.data()[i / of.classes];
    const long double exact = std::exp(static_cast<long double>(x.data()[i]) - 9) - (is_target ? 1 : 0);
    worst = std::max(worst, std::fabs(static_cast<long double>(dx.data()[i]) - exact));
  }
  return static_cast<double>(2 * worst / std::numeric_limits<T>::epsilon());  // in 2^-24, 2^-53
}

// Calls add(name, losses) for the sizes: ImageNet's classes, and the vocabularies of GPT-2 and Llama 3.
template <class Add>
void for_each_loss(const Suite &suite, Add add) {
  const std::vector<Losses> all = {{256, 1000}, {16, 50257}, {8, 128256}};
  for (const Losses &losses : suite.choose<Losses>(all, {{256, 1000}, {16, 50257}}))
    add(fmt::format("{}x{}", losses.rows, losses.classes), losses);
}

// make(n) returns so many logits.
template <class T, rapt_type type, class Make>
void add_cross_entropy(Suite &suite, const std::string &log_softmax, Make make) {
  using A = LossNumber<T>;
  suite.begin_kernel(log_softmax + ":cross_entropy");
  const CrossEntropy<T, A> own = own_cross_entropy<T, type>;
  Kernel<CrossEntropy<T, A>> kernel = [&] {
    if constexpr (std::is_same_v<T, A>) {
      return suite.kernel(own, &PeerFunctions<T>::cross_entropy, cross_entropy_error<T>, logsumexp_uops<A>);
    } else {
      return suite.kernel(own, logsumexp_uops<A>);
    }
  }();
  for_each_loss(suite, [&](const std::string &size, const Losses &of) {
    const Work work = {.elements = of.elements(),
                       .element_bytes = sizeof(A),
                       .read = of.elements() * sizeof(T),
                       .written = 2 * of.rows * sizeof(A),
                       .row_bytes = of.classes * sizeof(T)};
    kernel.add(size, work, [=] {
      return [of, x = make(of.elements()), target = of.targets(), losses = Buffer<A>(of.rows),
              lse = Buffer<A>(of.rows)](CrossEntropy<T, A> function) {
        function(x.data(), target.data(), losses.data(), lse.data(), of.rows, of.classes);
      };
    });
  });
}
template <class T, rapt_type type, class Make>
void add_cross_entropy_backward(Suite &suite, const std::string &log_softmax_backward, Make make) {
  using A = LossNumber<T>;
  suite.begin_kernel(log_softmax_backward + ":cross_entropy");
  constexpr Uops uops = exp_uops<A> + 2;  // a difference and a product
  const CrossEntropyBackward<T, A> own = own_cross_entropy_backward<T, type>;
  Kernel<CrossEntropyBackward<T, A>> kernel = [&] {
    if constexpr (std::is_same_v<T, A>) {
      return suite.kernel(own, &PeerFunctions<T>::cross_entropy_backward, cross_entropy_backward_error<T>,
                          uops);
    } else {
      return suite.kernel(own, uops);
    }
  }();
  for_each_loss(suite, [&](const std::string &size, const Losses &of) {
    const Work work = {.elements = of.elements(),
                       .element_bytes = sizeof(A),
                       .read = of.elements() * sizeof(T),
                       .written = of.elements() * sizeof(T)};
    kernel.add(size, work, [=] {
      Buffer<A> lse(of.rows);
      for (A &one : lse.elements()) one = A(14);
      return [of, x = make(of.elements()), target = of.targets(), lse = std::move(lse),
              dx = Buffer<T>(of.elements())](CrossEntropyBackward<T, A> function) {
        function(x.data(), target.data(), lse.data(), dx.data(), of.rows, of.classes);
      };
    });
  });
}

}  // namespace rapt::bench
