// Runs every kernel on operands that begin after or end before a guard page, on every usable level. Tests
// lengths up to 1100 and all offsets from the page within 64 bytes. No byte outside the operands may be
// touched, and the bits must be those of the scalar level.
//
// The scalar level computes the expected bits once per length. It is some hundred times slower, so its own
// sweep has only two offsets: 0, and one that changes with the length. So have lengths above 300, unless
// everything is asked for.
//
// The file has more than 300 lines because its drivers are separate: those of kernel_case.cpp cost too much
// per call.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "contract/activation_list.hpp"
#include "rapt/rapt.h"
#include "support/bits.hpp"
#include "support/effort.hpp"
#include "support/elements.hpp"
#include "support/faults.hpp"
#include "support/guarded_slot.hpp"
#include "support/isa.hpp"
#include "support/kernel_case.hpp"
#include "support/public_api.hpp"
#include "support/random.hpp"

using namespace rapt::test;

namespace {

constexpr std::size_t longest = 1100, most_rows = 6, offsets_end = 64;
constexpr std::size_t longest_at_each_offset = 300;

struct Shape {
  std::size_t rows, cols;
};

// Describes the current call for the report of a crash at a guard page.
struct CurrentCall {
  const char *kernel = "", *isa = "";
  Shape shape{};
  Placement placement{};
  std::size_t offset = 0;

  void describe(char *text, std::size_t size) const {
    std::snprintf(text, size, "%s on %s: rows=%zu n=%zu, %zu bytes from the guard page %s", kernel, isa,
                  shape.rows, shape.cols, offset,
                  placement == Placement::ends_at_guard ? "behind" : "in front");
  }
};

CurrentCall current;
enum class Extent { none, row, column, matrix };

std::size_t elements_of(Extent extent, Shape shape) {
  switch (extent) {
    case Extent::none:
      return 0;
    case Extent::row:
      return shape.cols;
    case Extent::column:
      return shape.rows;
    case Extent::matrix:
      break;
  }
  return shape.rows * shape.cols;
}

// Tells which option arrays the calls have. The arrays are in guarded memory.
struct OptionArrays {
  bool bias = false, mask = false, row_lengths = false, sinks = false;
  bool any() const { return bias || mask || row_lengths || sinks; }
};

template <class T>
struct Operands {
  const T *first, *second;
  T *out;
  const rapt_softmax_options *options;
};

template <class T>
struct SweptKernel {
  std::string name;
  Extent first, second, out;
  std::size_t row_cycle;  // a call of length n has 1 + n % row_cycle rows; softmax in groups has 3 more
  std::uint64_t (*call)(const Operands<T> &, Shape);  // the bits of the value returned, or 0
  bool takes_options = false;
  std::size_t out_size = sizeof(T);
};

constexpr std::uint64_t no_value = 0;

template <class T, auto function>
std::uint64_t call_softmax(const Operands<T> &at, Shape shape) {
  const auto stride = static_cast<std::ptrdiff_t>(shape.cols);
  return function(at.first, stride, at.out, stride, shape.rows, shape.cols, at.options);
}

template <class Value>
std::uint64_t bits_of_value(Value value) {
  if constexpr (std::is_integral_v<Value>) {
    return static_cast<std::uint64_t>(value);
  } else {
    return canonical_bits(value);
  }
}

template <class T>
const Factor<T> *factors(const T *elements) {
  return reinterpret_cast<const Factor<T> *>(elements);
}

template <class T>
void add_products(std::vector<SweptKernel<T>> &kernels, const std::string &type) {
  using enum Extent;
  kernels.push_back({"dot" + type, row, row, none, 1, [](const Operands<T> &at, Shape shape) {
                       return bits_of_value(Api<T>::dot(at.first, factors(at.second), shape.cols));
                     }});
  kernels.push_back({"dot_rows" + type, row, matrix, column, most_rows,
                     [](const Operands<T> &at, Shape shape) {
                       Api<T>::dot_rows(at.first, factors(at.second), static_cast<std::ptrdiff_t>(shape.cols),
                                        shape.rows, shape.cols, Number<T>(0.3),
                                        reinterpret_cast<Number<T> *>(at.out));
                       return no_value;
                     },
                     false, sizeof(Number<T>)});
}

template <class T>
void add_elementwise(std::vector<SweptKernel<T>> &kernels, const std::string &type) {
  using enum Extent;
  kernels.push_back({"scale" + type, row, none, row, 1, [](const Operands<T> &at, Shape shape) {
                       Api<T>::scale(at.first, Number<T>(0.3), at.out, shape.cols);
                       return no_value;
                     }});
  kernels.push_back({"softmax" + type, matrix, none, matrix, 2, call_softmax<T, Api<T>::softmax>, true});
  kernels.push_back(
      {"log_softmax" + type, matrix, none, matrix, 2, call_softmax<T, Api<T>::log_softmax>, true});
}

template <class T, class From>
void add_narrowing(std::vector<SweptKernel<From>> &kernels) {
  using enum Extent;
  kernels.push_back({std::string("convert_f32_to_") + Api<T>::element, row, none, row, 1,
                     [](const Operands<From> &at, Shape shape) {
                       Api<T>::from_f32(at.first, reinterpret_cast<T *>(at.out), shape.cols);
                       return no_value;
                     },
                     false, sizeof(T)});
}

template <class T, auto function>
SweptKernel<T> swept_map(std::string name) {
  using enum Extent;
  return {std::move(name), row, none, row, 1, [](const Operands<T> &at, Shape shape) {
            function(at.first, at.out, shape.cols);
            return no_value;
          }};
}

template <class T, auto function>
SweptKernel<T> swept_gradient(std::string name) {
  using enum Extent;
  return {std::move(name), row, row, row, 1, [](const Operands<T> &at, Shape shape) {
            function(at.first, at.second, at.out, shape.cols);
            return no_value;
          }};
}

// Adds the kernels that only f32 and f64 have.
template <class T>
void add_exponentials(std::vector<SweptKernel<T>> &kernels, const std::string &type) {
  using enum Extent;
  kernels.push_back(swept_gradient<T, Api<T>::silu_backward>("silu_backward" + type));
  kernels.push_back(swept_gradient<T, Api<T>::gelu_backward>("gelu_backward" + type));
  kernels.push_back(swept_gradient<T, Api<T>::gelu_tanh_backward>("gelu_tanh_backward" + type));
  kernels.push_back({"gated_backward" + type, row, row, matrix, 1, [](const Operands<T> &at, Shape shape) {
                       const rapt_gated_options options =
                           gated_row<T>(rapt::activations[shape.cols % rapt::activation_count],
                                        shape.cols / 2);  // both gradients fit into the output
                       return std::uint64_t{rapt_gated_backward(at.first, at.second, at.second, at.out,
                                                                at.out + options.cols, &options)};
                     }});
  constexpr T factor = static_cast<T>(0.3), shift = static_cast<T>(1.25);
  kernels.push_back(swept_map<T, Api<T>::exp>("exp" + type));
  kernels.push_back({"exp_sum" + type, row, none, row, 1, [](const Operands<T> &at, Shape shape) {
                       return bits_of_value(Api<T>::exp_sum(at.first, factor, shift, at.out, shape.cols));
                     }});
  kernels.push_back({"logsumexp" + type, matrix, none, column, 2,
                     [](const Operands<T> &at, Shape shape) {
                       return std::uint64_t{Api<T>::logsumexp(at.first,
                                                              static_cast<std::ptrdiff_t>(shape.cols), at.out,
                                                              shape.rows, shape.cols, at.options)};
                     },
                     true});
  kernels.push_back(
      {"softmax_backward" + type, matrix, matrix, matrix, 2, [](const Operands<T> &at, Shape shape) {
         const auto stride = static_cast<std::ptrdiff_t>(shape.cols);
         return std::uint64_t{Api<T>::softmax_backward(at.first, stride, at.second, stride, at.out, stride,
                                                       shape.rows, shape.cols, factor)};
       }});
}

template <class T>
std::vector<SweptKernel<T>> swept_kernels() {
  using enum Extent;
  const std::string type = std::string("_") + Api<T>::element;
  std::vector<SweptKernel<T>> kernels;
  add_products(kernels, type);
  if constexpr (sizeof(T) > 1) add_elementwise(kernels, type);
  if constexpr (sizeof(T) > 1) {
    kernels.push_back(swept_map<T, Api<T>::silu>("silu" + type));
    kernels.push_back(swept_map<T, Api<T>::gelu>("gelu" + type));
    kernels.push_back(swept_map<T, Api<T>::gelu_tanh>("gelu_tanh" + type));
    kernels.push_back({"gated" + type, row, row, row, 1, [](const Operands<T> &at, Shape shape) {
                         const rapt_gated_options options =
                             gated_row<T>(rapt::activations[shape.cols % rapt::activation_count], shape.cols);
                         return std::uint64_t{rapt_gated(at.first, at.second, at.out, &options)};
                       }});
    kernels.push_back({"argmax" + type, row, none, none, 1, [](const Operands<T> &at, Shape shape) {
                         return bits_of_value(Api<T>::argmax(at.first, shape.cols));
                       }});
  }
  if constexpr (sizeof(T) > 2) add_exponentials(kernels, type);
  if constexpr (sizeof(T) == 2) {
    kernels.push_back({std::string("convert") + type + "_to_f32", row, none, row, 1,
                       [](const Operands<T> &at, Shape shape) {
                         Api<T>::to_f32(at.first, reinterpret_cast<float *>(at.out), shape.cols);
                         return no_value;
                       },
                       false, sizeof(float)});
  }
  if constexpr (std::is_same_v<T, float>) {
    add_narrowing<F16>(kernels);
    add_narrowing<BF16>(kernels);
  }
  return kernels;
}

// Returns the values of an operand. Each call uses as many of them as it needs, from the first one on.
template <class T, class Draw>
std::vector<T> draw_values(std::size_t count, Draw &&draw) {
  std::vector<T> values(count);
  for (T &value : values) {
    if constexpr (std::is_integral_v<T>) {
      value = static_cast<T>(static_cast<int>(draw()));
    } else {
      value = static_cast<T>(draw());
    }
  }
  return values;
}

// Holds the memory of an operand and its expected contents.
class Slot {
 public:
  Slot() : slot_(most_rows * longest * sizeof(double) + offsets_end) {}

  template <class T>
  T *put(const T *values, std::size_t count, Placement placement, std::size_t offset,
         std::size_t size = sizeof(T)) {
    bytes_ = count * size;
    values_ = values;
    at_ = slot_.place(bytes_, placement, offset / size * size);
    if (values && bytes_ != 0) std::memcpy(at_, values, bytes_);
    return reinterpret_cast<T *>(at_);
  }
  void leave_out() { bytes_ = 0, values_ = nullptr, at_ = nullptr; }
  bool intact() const {
    if (!at_) return true;
    return slot_.surroundings_intact() && (!values_ || bytes_ == 0 || std::memcmp(at_, values_, bytes_) == 0);
  }

 private:
  GuardedSlot slot_;
  unsigned char *at_ = nullptr;
  const void *values_ = nullptr;
  std::size_t bytes_ = 0;
};

struct Count {
  std::size_t calls = 0, results = 0, failures = 0;
};

template <class T>
class Sweep {
 public:
  Sweep() {
    Random random(20250117);
    const auto logit = [&] { return 2 * random.gaussian(); };
    first_ = draw_values<T>(most_rows * longest, logit);
    second_ = draw_values<T>(most_rows * longest, logit);
    bias_ = draw_values<Number<T>>(most_rows * longest, logit);
    sinks_ = draw_values<Number<T>>(most_rows, logit);
    mask_ = draw_values<std::uint8_t>(most_rows * longest,
                                      [&] { return random.one_in(4) ? 0 : 1 + random.below(255); });
  }

  void run(const SweptKernel<T> &kernel, const OptionArrays &arrays) {
    const std::vector<std::string> isas = isas_to_test(kernel.name);
    for (std::size_t n = 0; n <= longest; ++n) {
      if (emulated() && n > 20 && n % 32 > 1 && n % 32 < 31) continue;
      if (emulated() && n > 130 && n < longest - 12) continue;
      run_length(kernel, arrays, n, isas);
    }
  }

  const Count &count() const { return count_; }

 private:
  void run_length(const SweptKernel<T> &kernel, const OptionArrays &arrays, std::size_t n,
                  const std::vector<std::string> &isas) {
    const std::size_t more = kernel.takes_options && n <= 256 ? 3 : 0;
    const Shape shape{more + 1 + n % kernel.row_cycle, n};
    if (arrays.row_lengths) {
      lengths_.clear();
      for (std::size_t r = 0; r < shape.rows; ++r) lengths_.push_back(r == 0 ? n : n / 2);
    }
    std::vector<unsigned char> expected;
    std::uint64_t expected_value;
    {
      const ForcedIsa scalar("scalar");
      expected_value = call(kernel, arrays, shape, Placement::ends_at_guard, 0);
      expected.assign(out_, out_ + elements_of(kernel.out, shape) * kernel.out_size);
    }
    // A mask may begin at any byte. All other arrays begin at a multiple of their element size.
    const std::size_t step = arrays.mask ? 1 : std::min(sizeof(T), kernel.out_size);
    for (const std::string &isa : isas) {
      const ForcedIsa forced(isa);
      const bool thin = emulated() || isa == "scalar" || (n > longest_at_each_offset && !everything());
      const std::size_t turn = n * step % offsets_end;
      for (std::size_t offset = 0; offset < offsets_end; offset += step) {
        if (thin && offset != 0 && offset != turn) continue;
        for (const Placement placement : {Placement::ends_at_guard, Placement::begins_at_guard}) {
          const std::uint64_t value = call(kernel, arrays, shape, placement, offset);
          judge(kernel, value, expected_value, expected);
        }
      }
    }
  }

  std::uint64_t call(const SweptKernel<T> &kernel, const OptionArrays &arrays, Shape shape,
                     Placement placement, std::size_t offset) {
    current = {kernel.name.c_str(), rapt_active_isa(), shape, placement, offset};
    Operands<T> at{};
    at.first = first_at_.put(first_.data(), elements_of(kernel.first, shape), placement, offset);
    second_at_.leave_out();
    out_at_.leave_out();
    if (kernel.second != Extent::none) {
      at.second = second_at_.put(second_.data(), elements_of(kernel.second, shape), placement, offset);
    }
    if (kernel.out != Extent::none) {
      at.out = out_at_.put<T>(nullptr, elements_of(kernel.out, shape), placement, offset, kernel.out_size);
    }
    out_ = reinterpret_cast<const unsigned char *>(at.out);
    rapt_softmax_options options = RAPT_SOFTMAX_OPTIONS_INIT;
    options.scale = 0.3f;
    if (kernel.takes_options) {
      at.options = &options;
      place_arrays(arrays, shape, placement, offset, options);
    }
    const std::uint64_t value = kernel.call(at, shape);
    count_.calls += 1;
    return value;
  }

  void place_arrays(const OptionArrays &arrays, Shape shape, Placement placement, std::size_t offset,
                    rapt_softmax_options &options) {
    const auto stride = static_cast<std::ptrdiff_t>(shape.cols);
    const std::size_t all = shape.rows * shape.cols;
    for (Slot *slot : {&bias_at_, &mask_at_, &lengths_at_, &sinks_at_}) slot->leave_out();
    if (arrays.bias) {
      options.bias = bias_at_.put(bias_.data(), all, placement, offset);
      options.bias_stride = stride;
    }
    if (arrays.mask) {
      options.mask = mask_at_.put(mask_.data(), all, placement, offset);
      options.mask_stride = stride;
    }
    if (arrays.row_lengths) {
      options.row_lengths = lengths_at_.put(lengths_.data(), shape.rows, placement, offset);
    }
    if (arrays.sinks) options.sinks = sinks_at_.put(sinks_.data(), shape.rows, placement, offset);
  }

  void judge(const SweptKernel<T> &kernel, std::uint64_t value, std::uint64_t expected_value,
             const std::vector<unsigned char> &expected) {
    count_.results += expected.size() / kernel.out_size + (kernel.out == Extent::none);
    std::string fault;
    for (const Slot *slot :
         {&first_at_, &second_at_, &out_at_, &bias_at_, &mask_at_, &lengths_at_, &sinks_at_}) {
      if (!slot->intact()) fault = "wrote outside the output";
    }
    if (value != expected_value) fault = "another value returned";
    // The inputs are chosen so that no result is NaN, because NaN may have different bits on different
    // levels.
    if (!expected.empty() && std::memcmp(out_, expected.data(), expected.size()) != 0) {
      const auto differs = std::mismatch(out_, out_ + expected.size(), expected.begin()).first;
      fault = "another element " + std::to_string(static_cast<std::size_t>(differs - out_) / kernel.out_size);
    }
    if (fault.empty() || ++count_.failures > 20) return;
    char text[200];
    current.describe(text, sizeof text);
    FAIL_CHECK(text << ": " << fault);
  }

  std::vector<T> first_, second_;
  std::vector<Number<T>> bias_, sinks_;
  std::vector<std::uint8_t> mask_;
  std::vector<std::size_t> lengths_;
  Slot first_at_, second_at_, out_at_, bias_at_, mask_at_, lengths_at_, sinks_at_;
  const unsigned char *out_ = nullptr;
  Count count_;
};

template <class T>
void sweep_all(bool with_options) {
  constexpr OptionArrays choices[] = {{.bias = true}, {.mask = true}, {true, true, true, true}};
  Sweep<T> sweep;
  // Runs after doctest has installed its own handlers, which it does for each test case.
  catch_faults([](char *text, std::size_t size) { current.describe(text, size); });
  for (const SweptKernel<T> &kernel : swept_kernels<T>()) {
    if (!with_options) {
      sweep.run(kernel, {});
    } else if (kernel.takes_options) {
      for (const OptionArrays &choice : choices) sweep.run(kernel, choice);
    }
  }
  CHECK(sweep.count().failures == 0);
  CHECK(sweep.count().results > 0);
  std::printf("%-14s %s: %9zu calls, %12zu results compared with the scalar level's\n",
              with_options ? "option arrays" : "operands", Api<T>::element, sweep.count().calls,
              sweep.count().results);
}

}  // namespace

#define RAPT_ALL_ELEMENTS float, double, F16, BF16, std::int8_t, std::uint8_t

template <class... T>
std::vector<std::string> swept_names() {
  std::vector<std::string> names;
  (
      [&] {
        for (const auto &kernel : swept_kernels<T>()) names.push_back(kernel.name);
      }(),
      ...);
  return names;
}

TEST_CASE("the sweep has every kernel") {
  std::vector<std::string> swept = swept_names<RAPT_ALL_ELEMENTS>(), all;
  for (const KernelCase &kernel : kernel_cases()) {
    // Attention has attention_guard_sweep_test, linear layers have linear_test and linear_quantized_test, and
    // rope has rope_test. rapt-validate places the arrays of norms and of rows of integers next to guard pages.
    const bool is_linear = kernel.traits.is_linear() || kernel.traits.is_quantized_linear();
    const bool is_of_integers = std::string(kernel.name).ends_with("quantize_rows");
    if (!kernel.traits.is_attention() && !is_linear && !kernel.traits.is_rope() && !kernel.traits.is_norm() &&
        !is_of_integers)
      all.emplace_back(kernel.name);
  }
  std::sort(swept.begin(), swept.end());
  std::sort(all.begin(), all.end());
  CHECK(swept == all);
}

TEST_CASE_TEMPLATE("operands flush against guard pages", T, RAPT_ALL_ELEMENTS) { sweep_all<T>(false); }

TEST_CASE_TEMPLATE("option arrays flush against guard pages", T, float, double, F16, BF16) {
  sweep_all<T>(true);
}
