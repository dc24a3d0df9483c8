// Benchmarks rope. A size is heads x elements of a head, as in "32x128", of one token; ":t512" has 512
// tokens, and ":pairs" the layout of pairs. Loops read their sines and cosines from tables, as llama2.c did;
// with ":sines" they compute them in each call, as rapt does. The levels of memory have tokens of 32 heads of
// 128 elements. The limits do not count the sines.
#include <fmt/format.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "support/buffer.hpp"
#include "support/elements.hpp"
#include "support/suite.hpp"

namespace rapt::bench {
namespace {

// Holds an implementation. Without a peer's loop it is rapt.
template <class Element>
struct Turning {
  RopeLoop<Element> loop = nullptr;

  explicit operator bool() const { return loop != nullptr; }
};

template <class Element>
class Tokens {
 public:
  Tokens(const RopeShape &shape, rapt_type type)
      : shape_(shape), x_(numbers(shape.tokens * shape.heads * shape.head_dim, type)), y_(x_.size()) {
    const std::size_t pairs = shape.head_dim / 2;
    rapt_rope_frequency_options model = RAPT_ROPE_FREQUENCY_OPTIONS_INIT;
    model.rotary_dim = shape.head_dim;
    frequencies_.resize(pairs);
    require_ok(rapt_rope_frequencies(frequencies_.data(), nullptr, &model));
    if constexpr (std::is_floating_point_v<Element>) {
      for (std::size_t i = 0; i < shape.tokens * pairs; ++i) {
        const double angle = static_cast<double>(first_position + i / pairs) * frequencies_[i % pairs];
        cosines_.push_back(static_cast<Element>(std::cos(angle)));
        sines_.push_back(static_cast<Element>(std::sin(angle)));
      }
    }
    options_.type = type;
    options_.layout = shape.in_pairs ? RAPT_ROPE_PAIRS : RAPT_ROPE_HALVES;
    options_.batch = 1;
    options_.heads = shape.heads;
    options_.tokens = shape.tokens;
    options_.head_dim = shape.head_dim;
    options_.x_strides = options_.y_strides = rapt_strides_bthd(shape.heads, shape.tokens, shape.head_dim);
    options_.frequencies = frequencies_.data();
    options_.first_position = first_position;
  }

  void operator()(const Turning<Element> &turning) const {
    if (!turning) {
      require_ok(rapt_rope(x_.data(), y_.data(), &options_));
    } else {
      turning.loop(x_.data(), y_.data(), shape_, first_position, frequencies_.data(), cosines_.data(),
                   sines_.data());
    }
  }

 private:
  static constexpr std::size_t first_position = 1000;

  static Buffer<Element> numbers(std::size_t count, rapt_type type) {
    if constexpr (std::is_floating_point_v<Element>) {
      return logits<Element>(count);
    } else {
      return halves(type == RAPT_F16 ? rapt_convert_f32_to_f16 : rapt_convert_f32_to_bf16, count);
    }
  }

  RopeShape shape_;
  rapt_rope_options options_ = RAPT_ROPE_OPTIONS_INIT;
  Buffer<Element> x_, y_;
  std::vector<double> frequencies_;
  std::vector<Element> cosines_, sines_;
};

template <class Element>
void add(Kernel<Turning<Element>> &kernel, const std::string &size, const RopeShape &shape, rapt_type type) {
  const std::size_t elements = shape.tokens * shape.heads * shape.head_dim;
  const Work work = {.elements = elements,
                     .element_bytes = sizeof(Element) < sizeof(float) ? sizeof(float) : sizeof(Element),
                     .read = elements * sizeof(Element),
                     .written = elements * sizeof(Element)};
  kernel.add(size, work, [shape, type] { return Tokens<Element>(shape, type); });
}

// A vector of results takes a product and a multiply-add.
constexpr Uops uops = 2;

template <class Element>
void add_sizes(Kernel<Turning<Element>> kernel, rapt_type type) {
  const Suite &suite = kernel.suite();
  for (const WorkingSet &set : suite.plan().working_sets) {
    const std::size_t tokens = set.bytes / (2 * 32 * 128 * sizeof(Element));
    add(kernel, set.label, {tokens > 0 ? tokens : 1, 32, 128, false, false}, type);
  }
  for (const bool in_pairs : {false, true}) {
    for (const std::size_t heads : suite.sizes({1, 8, 32}, {1, 32})) {
      for (const bool with_sines : {false, true}) {
        const std::string size =
            fmt::format("{}x128{}{}", heads, in_pairs ? ":pairs" : "", with_sines ? ":sines" : "");
        add(kernel, size, {1, heads, 128, in_pairs, with_sines}, type);
      }
    }
  }
  if (!suite.plan().quick) add(kernel, "8x128:t512", {512, 8, 128, false, false}, type);
}

template <class T>
void register_rope(Suite &suite, rapt_type type) {
  const auto of_peer = [](const Peer &peer) { return Turning<T>{peer.functions<T>().rope}; };
  add_sizes(suite.kernel(Turning<T>{}, of_peer, nullptr, uops), type);
}

}  // namespace

void register_rope_f32(Suite &suite) { register_rope<float>(suite, RAPT_F32); }
void register_rope_f64(Suite &suite) { register_rope<double>(suite, RAPT_F64); }
void register_rope_f16(Suite &suite) { add_sizes(suite.kernel(Turning<std::uint16_t>{}, uops), RAPT_F16); }
void register_rope_bf16(Suite &suite) { add_sizes(suite.kernel(Turning<std::uint16_t>{}, uops), RAPT_BF16); }

}  // namespace rapt::bench
