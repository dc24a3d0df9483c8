// What rapt_embedding_bag and rapt_index_add should give: sums within the bounds of rapt.h, maxima and single additions
// exactly.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "calls/index_rows.hpp"
#include "validate/accuracy_vectors.hpp"

namespace rapt::validate {

// The share of the bound of a sum or a mean. Any other maximum than the first largest element is wrong.
template <class T>
struct EmbeddingBagAccuracy {
  using A = Number<T>;
  static constexpr const char *unit_text = "share";
  static constexpr double bound = ExpertSumAccuracy<T>::bound;

  static Judgement judge(const Problem &problem, Bits bits) {
    const BagNumbers<T> numbers(problem);
    const std::size_t n = problem.cols(), count = numbers.bags() * n;
    Worst worst;
    for (std::size_t at = 0; at < count; ++at) {
      const Element element{numbers, at / n, at % n, n};
      if (numbers.operation == RAPT_BAG_MAX) {
        const std::int64_t row = element.largest();
        const T largest = row < 0 ? T(A(0)) : element.of(row);
        const bool is_row = !numbers.finds_rows || static_cast<std::int64_t>(bits[count + at]) == row;
        worst.see(is_row && canonical_bits(largest) == bits[at] ? 0 : wrong, bound);
      } else {
        element.see_sum(from_bits<T>(static_cast<BitsOf<T>>(bits[at])), worst);
      }
    }
    return worst.judgement;
  }

 private:
  // One element of a row of y.
  struct Element {
    const BagNumbers<T> &numbers;
    std::size_t bag, col, n;

    T of(std::int64_t row) const { return numbers.w[static_cast<std::size_t>(row) * n + col]; }

    // The row of w, or -1.
    std::int64_t largest() const {
      std::int64_t best = -1;
      for (std::size_t i = numbers.offsets[bag]; i < numbers.offsets[bag + 1]; ++i) {
        if (numbers.indices[i] < 0) continue;
        const A x = A(of(numbers.indices[i])), most = best < 0 ? A(0) : A(of(best));
        if (best < 0 || x > most || (std::isnan(x) && !std::isnan(most))) best = numbers.indices[i];
      }
      return best;
    }
    void see_sum(T got, Worst &worst) const {
      Sum sum, magnitude;
      bool has_nan = false, has_infinity = false;
      std::size_t rows = 0;
      for (std::size_t i = numbers.offsets[bag]; i < numbers.offsets[bag + 1]; ++i) {
        if (numbers.indices[i] < 0) continue;
        const Real weight = numbers.weights.empty() ? Real{1} : Real{numbers.weights[i]};
        const Real term = weight * Real{A(of(numbers.indices[i]))};
        has_nan = has_nan || std::isnan(term);
        has_infinity = has_infinity || std::isinf(term);
        sum.add(term);
        magnitude.add(std::fabs(term));
        ++rows;
      }
      if (has_nan) return worst.see(std::isnan(Real{A(got)}) ? 0 : wrong, bound);
      if (has_infinity || magnitude.value() >= std::numeric_limits<A>::max() / 2) return;
      const bool is_mean = numbers.operation == RAPT_BAG_MEAN && rows > 0;
      const Real of = is_mean ? static_cast<Real>(rows) : 1;
      const Real units = Real{embedding_bag_bound(static_cast<double>(rows))} + (is_mean ? 2 : 0);
      const Real tiny = Real{std::numeric_limits<A>::denorm_min()} * static_cast<Real>(rows);
      const Real allowed = units * unit<A> * magnitude.value() / of + tiny;
      if (rows == 0) return worst.see(bits_of(got) == 0 ? 0 : wrong, bound);
      worst.see(ExpertSumAccuracy<T>::error(sum.value() / of, allowed, got), bound);
    }
  };
};

// Any other result than that of additions in order, each rounded, is wrong.
template <class T>
struct IndexAddAccuracy {
  static constexpr const char *unit_text = "exact";
  static constexpr double bound = 0;

  static Judgement judge(const Problem &problem, Bits bits) {
    const IndexAddNumbers<T> numbers(problem);
    const std::size_t n = problem.cols();
    Worst worst;
    for (std::size_t at = 0; at < numbers.out.size(); ++at) {
      T sum = numbers.out[at];
      for (std::size_t i = 0; i < numbers.indices.size(); ++i) {
        if (numbers.indices[i] == static_cast<std::int64_t>(at / n))
          sum = added(sum, numbers.x[i * n + at % n]);
      }
      worst.see(canonical_bits(sum) == bits[at] ? 0 : wrong, bound);
    }
    return worst.judgement;
  }

 private:
  // A sum of two numbers of 16 bits that is rounded to double first is still rounded as if once.
  static T added(T a, T b) {
    if constexpr (sizeof(T) == 2) {
      return T(static_cast<double>(static_cast<float>(a)) + static_cast<double>(static_cast<float>(b)));
    } else {
      return a + b;
    }
  }
};

}  // namespace rapt::validate
