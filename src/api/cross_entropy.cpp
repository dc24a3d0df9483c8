// Implements rapt_cross_entropy and its gradient by the kernels of log-sum-exp, exp and dot. Arguments are checked
// before anything is written.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "api/any_element.hpp"
#include "api/floating_point.hpp"
#include "api/halves.hpp"
#include "api/matrix.hpp"
#include "api/read_options.hpp"
#include "call/element.hpp"
#include "call/softmax_rows.hpp"
#include "dispatch/dispatch.hpp"

namespace rapt {
namespace {

enum class Direction { forward, backward };

struct CrossEntropy {
  rapt_cross_entropy_options o = RAPT_CROSS_ENTROPY_OPTIONS_INIT;
  Matrix x{}, dx{};
  void *out = nullptr;

  rapt_status read(const void *x_data, void *result, const rapt_cross_entropy_options *given,
                   Direction direction) {
    if (!given) return RAPT_BAD_OPTIONS;
    const rapt_status status = read_options(given, o);
    if (status != RAPT_OK) return status;
    if (resolve_float_type(o.type) != RAPT_OK) return RAPT_BAD_TYPE;
    if (o.classes == 0) return RAPT_BAD_SHAPE;
    if (!(o.label_smoothing >= 0 && o.label_smoothing <= 1)) return RAPT_BAD_LABEL_SMOOTHING;
    const bool is_f64 = o.type == RAPT_F64, is_backward = direction == Direction::backward;
    const double largest =
        is_f64 ? std::numeric_limits<double>::max() : double{std::numeric_limits<float>::max()};
    if (!(std::fabs(o.scale) <= largest)) return RAPT_BAD_SCALE;
    if (o.scale == 0) o.scale = 1;
    if (o.ignore_index == 0) o.ignore_index = -100;
    if (!set_stride(o.x_stride, o.classes) || !set_stride(o.dx_stride, o.classes)) return RAPT_BAD_SIZE;
    const std::size_t size = size_of(o.type), number = is_f64 ? sizeof(double) : sizeof(float);
    x = {x_data, o.x_stride, o.rows, o.classes, size};
    if (!x.stride_fits()) return RAPT_BAD_X_STRIDE;
    dx = {result, o.dx_stride, o.rows, o.classes, size};
    if (is_backward && !dx.stride_fits()) return RAPT_BAD_DX_STRIDE;
    out = result;
    std::size_t bytes;
    const Matrix of_rows{o.target, 0, 1, o.rows, sizeof *o.target};
    if (!x.extent(bytes) || !of_rows.extent(bytes) || (is_backward && !dx.extent(bytes)))
      return RAPT_BAD_SIZE;
    if (o.rows == 0) return RAPT_OK;
    if (!x_data) return RAPT_BAD_X;
    if (!result) return is_backward ? RAPT_BAD_DX : RAPT_BAD_OUT;
    if (is_backward && !o.lse) return RAPT_BAD_LSE;
    if (!o.target) return RAPT_BAD_TARGET;
    for (std::size_t r = 0; r < o.rows; ++r) {
      if (o.target[r] != o.ignore_index &&
          (o.target[r] < 0 || static_cast<std::size_t>(o.target[r]) >= o.classes))
        return RAPT_BAD_TARGET;
    }
    const auto is_apart = [](const Matrix &input, const Matrix &output) {
      return !input.data || !output.data || overlap(input, output) == Overlap::none;
    };
    const Matrix lse{o.lse, 0, 1, o.rows, number}, weight{o.weight, 0, 1, o.classes, number},
        dout{o.dout, 0, 1, o.rows, number}, losses{result, 0, 1, o.rows, number};
    if (is_backward) {
      if (overlap(x, dx) == Overlap::partial) return RAPT_BAD_OVERLAP;
      const bool fits =
          is_apart(of_rows, dx) && is_apart(weight, dx) && is_apart(lse, dx) && is_apart(dout, dx);
      return fits ? RAPT_OK : RAPT_BAD_OVERLAP;
    }
    for (const Matrix &output : {losses, lse}) {
      if (!is_apart(x, output) || !is_apart(of_rows, output) || !is_apart(weight, output))
        return RAPT_BAD_OVERLAP;
    }
    return is_apart(lse, losses) ? RAPT_OK : RAPT_BAD_OVERLAP;
  }
};

template <class E>
class CrossEntropyRun {
  using A = Arithmetic<E>;
  static constexpr bool is_arithmetic = sizeof(E) == sizeof(A);
  static constexpr std::size_t block = half_block, rows_at_once = 64;

 public:
  explicit CrossEntropyRun(const CrossEntropy &call)
      : call_(call),
        o_(call.o),
        weight_(static_cast<const A *>(o_.weight)),
        of_target_(static_cast<A>(1 - o_.label_smoothing)),
        of_class_(static_cast<A>(o_.label_smoothing / static_cast<double>(o_.classes))),
        smooths_(o_.label_smoothing != 0) {}

  void losses() const {
    A *const out = static_cast<A *>(call_.out), *const all_sums = static_cast<A *>(o_.lse);
    for (std::size_t first = 0; first < o_.rows; first += rows_at_once) {
      const std::size_t count = o_.rows - first < rows_at_once ? o_.rows - first : rows_at_once;
      A of_rows[rows_at_once];
      log_sums(first, count, of_rows);
      for (std::size_t i = 0; i < count; ++i) {
        const std::size_t r = first + i;
        out[r] = is_ignored(r) ? A(0) : loss(row(r), static_cast<std::size_t>(o_.target[r]), of_rows[i]);
        if (all_sums) all_sums[r] = of_rows[i];
      }
    }
  }

  void gradients() const {
    A of_weights = static_cast<A>(o_.classes);
    if (weight_ && smooths_) {
      rapt_reduce_options sum = RAPT_REDUCE_OPTIONS_INIT;
      sum.operation = RAPT_SUM;
      sum.type = sizeof(A) == sizeof(double) ? RAPT_F64 : RAPT_F32;
      sum.dims = 1;
      sum.shape[0] = o_.classes;
      (void)rapt_reduce(weight_, &of_weights, &sum);
    }
    for (std::size_t r = 0; r < o_.rows; ++r) {
      E *const to = static_cast<E *>(const_cast<void *>(call_.dx.data)) +
                    static_cast<std::ptrdiff_t>(r) * call_.dx.used_stride();
      if (is_ignored(r)) {
        for (std::size_t c = 0; c < o_.classes; ++c) to[c] = narrowed<E>(A(0));
      } else {
        gradient(r, of_weights, to);
      }
    }
  }

 private:
  bool is_ignored(std::size_t r) const { return o_.target[r] == o_.ignore_index; }
  const E *row(std::size_t r) const {
    return static_cast<const E *>(call_.x.data) + static_cast<std::ptrdiff_t>(r) * call_.x.used_stride();
  }
  A weight_of(std::size_t c) const { return weight_ ? weight_[c] : A(1); }

  // Calls use(x, first, count) for the blocks of a row, in the arithmetic type.
  template <class Use>
  void each_block(const E *x, Use use) const {
    for_each_block(o_.classes, [&](std::size_t first, std::size_t count) {
      if constexpr (is_arithmetic) {
        use(x + first, first, count);
      } else {
        alignas(64) float wide[block];
        widen_elements<E>(x + first, wide, count);
        use(wide, first, count);
      }
    });
  }

  void log_sums(std::size_t first, std::size_t count, A *sums) const {
    if constexpr (is_arithmetic) {
      SoftmaxRows rows{.rows = count, .cols = o_.classes, .x_stride = call_.x.used_stride()};
      rows.options.scale = 1;
      kernels().of<A>().logsumexp(row(first), sums, &rows);
    } else {
      for (std::size_t i = 0; i < count; ++i) sums[i] = log_sum(row(first + i));
    }
  }
  A log_sum(const E *x) const {
    const A largest = widened(x[kernels().of<E>().argmax(x, o_.classes)]);
    if (!std::isfinite(largest)) return largest;
    double sum = 0;
    each_block(x, [&](const A *wide, std::size_t, std::size_t count) {
      alignas(64) A powers[block];
      sum += static_cast<double>(kernels().of<A>().exp_sum(wide, A(1), largest, powers, count));
    });
    A log = static_cast<A>(sum);
    constexpr A parameters[3] = {};
    kernels().of<A>().map(RAPT_MAP_LOG, &log, nullptr, nullptr, &log, parameters, 1);
    return largest + log;
  }

  A loss(const E *x, std::size_t target, A log_sum) const {
    const A of_target = weight_of(target) * (log_sum - widened(x[target]));
    if (!smooths_) return of_target;
    alignas(64) A log_sums[block], distance[block];
    for (A &of : log_sums) of = log_sum;
    A ones[block], sum = 0;
    for (A &of : ones) of = 1;
    each_block(x, [&](const A *wide, std::size_t first, std::size_t count) {
      constexpr A parameters[3] = {};
      kernels().of<A>().map(RAPT_MAP_SUBTRACT, log_sums, wide, nullptr, distance, parameters, count);
      sum += kernels().of<A>().dot(distance, weight_ ? weight_ + first : ones, count);
    });
    return of_target_ * of_target + of_class_ * sum;
  }

  void gradient(std::size_t r, A of_weights, E *to) const {
    const auto target = static_cast<std::size_t>(o_.target[r]);
    const A log_sum = static_cast<const A *>(o_.lse)[r];
    const A *const dout = static_cast<const A *>(o_.dout);
    const A g = dout ? static_cast<A>(o_.scale) * dout[r] : static_cast<A>(o_.scale);
    const A weight = smooths_ ? of_target_ * weight_of(target) : weight_of(target);
    const A factor = g * (smooths_ ? weight + of_class_ * of_weights : weight);
    const A shared = g * of_class_;
    each_block(row(r), [&](const A *wide, std::size_t first, std::size_t count) {
      const Operations<A> &of = kernels().of<A>();
      alignas(64) A made[block], subtracted[block];
      A *const y = is_arithmetic ? reinterpret_cast<A *>(to + first) : made;
      of.exp_sum(wide, A(1), log_sum, y, count);
      of.scale(y, factor, y, count);
      if (smooths_) {
        for (std::size_t c = 0; c < count; ++c) subtracted[c] = shared * weight_of(first + c);
        constexpr A parameters[3] = {};
        of.map(RAPT_MAP_SUBTRACT, y, subtracted, nullptr, y, parameters, count);
      }
      if (target >= first && target - first < count) y[target - first] -= g * weight;
      if constexpr (!is_arithmetic) narrow_elements<E>(y, to + first, count);
    });
  }

  const CrossEntropy &call_;
  const rapt_cross_entropy_options &o_;
  const A *const weight_;
  const A of_target_, of_class_;
  const bool smooths_;
};

rapt_status run(const void *x, void *result, const rapt_cross_entropy_options *options, Direction direction) {
  CrossEntropy call;
  const rapt_status status = call.read(x, result, options, direction);
  if (status != RAPT_OK || call.o.rows == 0) return status;
  with_any_element(call.o.type, [&](auto element) {
    const CrossEntropyRun<typename decltype(element)::type> of(call);
    direction == Direction::forward ? of.losses() : of.gradients();
  });
  return RAPT_OK;
}

}  // namespace
}  // namespace rapt

rapt_status rapt_cross_entropy(const void *x, void *out, const rapt_cross_entropy_options *options) {
  return rapt::in_default_mode([&] { return rapt::run(x, out, options, rapt::Direction::forward); });
}
rapt_status rapt_cross_entropy_backward(const void *x, void *dx, const rapt_cross_entropy_options *options) {
  return rapt::in_default_mode([&] { return rapt::run(x, dx, options, rapt::Direction::backward); });
}
