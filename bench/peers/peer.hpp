// Describes another library (a "peer") with rapt's function types, so that a benchmark times both.
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "functions.hpp"

namespace rapt::bench {

// Holds a library's functions for one element type. Functions that the library lacks are null.
template <class T>
struct PeerFunctions {
  Dot<T> dot = nullptr;
  DotRows<T> dot_rows = nullptr;
  PackedDotRows<T> packed_dot_rows;
  Linear<T> linear;
  Convolve convolution = nullptr;
  Scale<T> scale = nullptr;
  Exp<T> exp = nullptr, silu = nullptr, gelu = nullptr, gelu_tanh = nullptr;
  TwoToOne<T> gated = nullptr;  // by silu
  MapOf<T> map = nullptr;
  Argmax<T> argmax = nullptr;
  RopeLoop<T> rope = nullptr;
  Norm<T> rms_norm = nullptr, layer_norm = nullptr;
  MatrixSums<T> sums = nullptr;
  MatrixSums<T> scans = nullptr;  // cumulative sums: an output for each element
  BagSums<T> bag_sums = nullptr;
  IndexAdd<T> index_add = nullptr;
  CrossEntropy<T> cross_entropy = nullptr;
  CrossEntropyBackward<T> cross_entropy_backward = nullptr;
  CausalConvolution<T> causal_convolution = nullptr;
  DeltaRule<T> delta_rule = nullptr;
  NormalNumbers<T> normal_numbers = nullptr;
  RowsFunction<T> softmax = nullptr;  // scales in a separate pass if the library's softmax cannot
  Attention<T> attention = nullptr;
  AttentionBackward<T> attention_backward = nullptr;
  AttentionWeights<T> attention_weights = nullptr;  // used by the attention of other peers; not timed
};

// Holds a library's functions for elements of type E whose dot products have another type.
template <class E, class Sum>
struct NarrowFunctions {
  Sum (*dot)(const E *a, const E *b, std::size_t n) = nullptr;
  DotRows<E, float> dot_rows = nullptr;
  PackedDotRows<E, float> packed_dot_rows;
};
struct HalfFunctions : NarrowFunctions<std::uint16_t, float> {
  Linear<std::uint16_t> linear;
  Attention<std::uint16_t> attention = nullptr;
};
struct ByteFunctions : NarrowFunctions<std::int8_t, std::int64_t> {
  BlockAttention attention = nullptr;
};

// A peer that chooses its instruction set itself appears once, with the set that it chose. A peer that is
// compiled for a set appears once per set.
struct Peer {
  std::string name;     // "sleef": one word, the same for all its instruction sets
  std::string isa;      // "avx512": the level of rapt that it is compared with
  std::string version;  // "3.5.1", and how it was built where that matters

  PeerFunctions<float> f32;
  PeerFunctions<double> f64;
  HalfFunctions f16, bf16;
  ByteFunctions i8;
  QuantizedLinear quantized_linear;

  template <class T>
  const PeerFunctions<T> &functions() const {
    if constexpr (std::is_same_v<T, float>) {
      return f32;
    } else {
      return f64;
    }
  }
};

// Returns the peers of this build that this CPU can run. The list is empty in a build without peers.
const std::vector<Peer> &peers();

}  // namespace rapt::bench
