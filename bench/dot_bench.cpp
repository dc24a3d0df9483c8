#include <string>
#include <vector>

#include "support/accuracy.hpp"
#include "support/buffer.hpp"
#include "support/suite.hpp"

namespace rapt::bench {
namespace {

// Holds the inputs' addresses modulo 64. malloc places large arrays 16 bytes after a multiple of 64.
struct Placement {
  const char *suffix;
  std::size_t a, b;
};

std::vector<std::size_t> random_lengths(std::size_t longest) {
  std::vector<std::size_t> lengths(1000);
  Uniform uniform;
  for (std::size_t &n : lengths) {
    n = 1 + static_cast<std::size_t>(uniform() * static_cast<double>(longest)) % longest;
  }
  return lengths;
}

template <class T>
Work reading_two(std::size_t elements) {
  return {.elements = elements, .element_bytes = sizeof(T), .read = 2 * elements * sizeof(T)};
}

template <class T>
void register_dot(Suite &suite, Dot<T> own) {
  Kernel<Dot<T>> kernel = suite.kernel(own, &PeerFunctions<T>::dot, dot_error<T>, 1);
  const Placement aligned = {"", 0, 0};
  const Placement alike = {":alike", 16, 16};
  const Placement apart = {":apart", 16, 32 + sizeof(T)};

  const auto add = [&kernel](const std::string &size, std::size_t n, Placement at) {
    kernel.add(size + at.suffix, reading_two<T>(n), [n, at] {
      return [n, a = logits<T>(n, at.a, 0), b = logits<T>(n, at.b, 1)](Dot<T> dot) {
        T result = dot(a.data(), b.data(), n);
        benchmark::DoNotOptimize(result);
      };
    });
  };
  // Each benchmark call makes 1000 kernel calls of random lengths, which no branch predictor learns.
  const auto add_random = [&kernel](std::size_t longest) {
    const std::vector<std::size_t> lengths = random_lengths(longest);
    std::size_t elements = 0;
    for (const std::size_t n : lengths) elements += n;
    Work work = reading_two<T>(elements);
    work.calls = lengths.size();
    kernel.add("1000xrandom:1-" + std::to_string(longest), work, [longest, lengths] {
      return [lengths, a = logits<T>(longest, 0, 0), b = logits<T>(longest, 0, 1)](Dot<T> dot) {
        for (const std::size_t n : lengths) {
          T result = dot(a.data(), b.data(), n);
          benchmark::DoNotOptimize(result);
        }
      };
    });
  };

  for (const WorkingSet &set : suite.plan().working_sets) {
    add(set.label, set.bytes / (2 * sizeof(T)), aligned);
  }
  for (const std::size_t n : suite.sizes({1, 2, 3, 8, 16, 31, 32, 64, 96, 100, 128}, {16, 100})) {
    add("n:" + std::to_string(n), n, aligned);
  }
  for (const std::size_t longest : suite.sizes({100, 256}, {256})) add_random(longest);
  // Sentence embeddings and language models have these widths.
  for (const std::size_t n : suite.sizes({768, 1536, 4096}, {1536})) {
    add("n:" + std::to_string(n), n, aligned);
  }
  for (const Placement &at : {alike, apart}) {
    const WorkingSet &l1 = suite.plan().working_sets[0];
    add(l1.label, l1.bytes / (2 * sizeof(T)), at);
    for (const std::size_t n : suite.sizes({1536, 4096}, {})) {
      add("n:" + std::to_string(n), n, at);
    }
  }
}

}  // namespace

void register_dot_f32(Suite &suite) { register_dot<float>(suite, rapt_dot_f32); }
void register_dot_f64(Suite &suite) { register_dot<double>(suite, rapt_dot_f64); }

}  // namespace rapt::bench
