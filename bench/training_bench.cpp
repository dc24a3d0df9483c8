// Benchmarks steps of optimizers, which memory bounds, and random numbers.
#include <string>

#include "support/buffer.hpp"
#include "support/suite.hpp"

namespace rapt::bench {
namespace {

using Adamw = rapt_status (*)(void *, const void *, float *, float *, float *, const rapt_adamw_options *);
using Sgd = rapt_status (*)(void *, const void *, float *, const rapt_sgd_options *);
using Random = rapt_status (*)(void *, const rapt_random_options *);

// Of a vector: 6 products, 5 sums and differences, two quotients and a root, which count as 3 each.
constexpr Uops adamw_uops = 20;
constexpr Uops sgd_uops = 6;
// Of a vector of words: 10 rounds of a quarter of two products, each of two instructions, and of four exclusive ors.
constexpr Uops random_uops = 30;
// A pair of normal numbers takes two uniform ones, a logarithm, a root, a sine and a cosine, each of a vector of
// doubles, and few others.
constexpr Uops normal_uops = random_uops + Uops{43, 65};

// Adds every memory level for a function that reads and writes so many arrays of floats. make(n) returns a call of it.
template <class Function, class Make>
void add_levels(Kernel<Function> kernel, std::size_t inputs, std::size_t outputs, Make make) {
  for (const WorkingSet &set : kernel.suite().plan().working_sets) {
    const std::size_t n = set.bytes / ((inputs > 0 ? inputs : 1) * sizeof(float));
    const Work work = {.elements = n,
                       .element_bytes = sizeof(float),
                       .read = inputs * n * sizeof(float),
                       .written = outputs * n * sizeof(float)};
    kernel.add(set.label, work, [n, make] { return make(n); });
  }
}

}  // namespace

void register_adamw_step(Suite &suite) {
  add_levels(suite.kernel(Adamw(rapt_adamw_step), adamw_uops), 4, 3, [](std::size_t n) {
    return [n, param = logits<float>(n), grad = logits<float>(n, 0, 1), average = logits<float>(n, 0, 2),
            squares = Buffer<float>(n)](Adamw step) {
      rapt_adamw_options options = RAPT_ADAMW_OPTIONS_INIT;
      options.count = n;
      options.step = 1000;
      require_ok(step(param.data(), grad.data(), average.data(), squares.data(), nullptr, &options));
    };
  });
}
void register_sgd_step(Suite &suite) {
  add_levels(suite.kernel(Sgd(rapt_sgd_step), sgd_uops), 3, 2, [](std::size_t n) {
    return [n, param = logits<float>(n), grad = logits<float>(n, 0, 1),
            buffer = logits<float>(n, 0, 2)](Sgd step) {
      rapt_sgd_options options = RAPT_SGD_OPTIONS_INIT;
      options.count = n;
      options.lr = 1e-3;
      options.momentum = 0.9;
      require_ok(step(param.data(), grad.data(), buffer.data(), &options));
    };
  });
}
void register_random(Suite &suite) {
  add_levels(suite.kernel(Random(rapt_random), random_uops), 0, 1, [](std::size_t n) {
    return [n, out = Buffer<float>(n)](Random function) {
      rapt_random_options options = RAPT_RANDOM_OPTIONS_INIT;
      options.count = n;
      require_ok(function(out.data(), &options));
    };
  });
  suite.begin_kernel("random:normal");
  const NormalNumbers<float> own = [](float *out, std::size_t n, std::uint64_t seed) {
    rapt_random_options options = RAPT_RANDOM_OPTIONS_INIT;
    options.kind = RAPT_RANDOM_NORMAL;
    options.seed = seed;
    options.count = n;
    require_ok(rapt_random(out, &options));
  };
  add_levels(suite.kernel(own, &PeerFunctions<float>::normal_numbers, nullptr, normal_uops), 0, 1,
             [](std::size_t n) {
               return
                   [n, out = Buffer<float>(n)](NormalNumbers<float> function) { function(out.data(), n, 7); };
             });
}

}  // namespace rapt::bench
