// Benchmarks the sum over a token's slots. A size is tokens x slots x elements.
#include <fmt/format.h>

#include <cstddef>
#include <cstdint>

#include "support/buffer.hpp"
#include "support/suite.hpp"

namespace rapt::bench {
namespace {

using ExpertSum = decltype(&rapt_expert_sum);

// Each row of x takes a multiply-add, which is a product for the first.
template <class T, class MakeX>
void register_sum(Suite &suite, rapt_type type, MakeX make_x) {
  constexpr std::size_t slots = 8;
  using A = std::conditional_t<sizeof(T) == sizeof(double), double, float>;
  Kernel<ExpertSum> kernel = suite.kernel(&rapt_expert_sum, Uops{slots});
  const auto add = [&](const std::string &size, std::size_t tokens, std::size_t cols) {
    const std::size_t elements = tokens * cols;
    const Work work = {.elements = elements,
                       .element_bytes = sizeof(A),
                       .read = (slots * elements) * sizeof(T) + tokens * slots * sizeof(A),
                       .written = elements * sizeof(T)};
    kernel.add(size, work, [=] {
      rapt_expert_sum_options options = RAPT_EXPERT_SUM_OPTIONS_INIT;
      options.type = type;
      options.tokens = tokens;
      options.top_k = slots;
      options.cols = cols;
      return [options, x = make_x(slots * elements), weights = logits<A>(tokens * slots),
              y = Buffer<T>(elements)](ExpertSum sum) mutable {
        options.weights = weights.data();
        require_ok(sum(x.data(), y.data(), &options));
      };
    });
  };
  for (const WorkingSet &set : suite.plan().working_sets)
    add(set.label, 1, set.bytes / ((slots + 1) * sizeof(T)));
  for (const std::size_t tokens : suite.sizes({1, 64}, {1}))
    add(fmt::format("{}x{}x2048", tokens, slots), tokens, 2048);
}

}  // namespace

void register_expert_sum_f32(Suite &suite) {
  register_sum<float>(suite, RAPT_F32, [](std::size_t n) { return logits<float>(n); });
}
void register_expert_sum_f64(Suite &suite) {
  register_sum<double>(suite, RAPT_F64, [](std::size_t n) { return logits<double>(n); });
}
void register_expert_sum_f16(Suite &suite) {
  register_sum<std::uint16_t>(suite, RAPT_F16,
                              [](std::size_t n) { return halves(rapt_convert_f32_to_f16, n); });
}
void register_expert_sum_bf16(Suite &suite) {
  register_sum<std::uint16_t>(suite, RAPT_BF16,
                              [](std::size_t n) { return halves(rapt_convert_f32_to_bf16, n); });
}

}  // namespace rapt::bench
