// Benchmarks linear layers with packed quantized weights. A size is rows x outputs x inputs, the type of the
// weights and how many inputs share a scale, as in "64x4096x4096:i4/32". i4z and i8z have a zero and i4o an offset next
// to each scale, and i4c a codebook. Blocks of 128 outputs share the scales of e4m3 and e5m2. "L2", "L3" and "mem" are
// one row of 1024 inputs whose weights of i8 lie there. The experts of a model are "model:tokens x slots x outputs x
// inputs". They have weights of i4/32.
#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <vector>

#include "support/accuracy.hpp"
#include "support/quantized_experts.hpp"
#include "support/quantized_layer.hpp"
#include "support/suite.hpp"

namespace rapt::bench {
namespace {

// Peers have a scale for each 32 inputs.
constexpr std::size_t group_of_peers = 32;

// The weights and their scales count once. Products of bytes are one instruction, where the level has it, for
// four inputs of an output.
Work work_of(const QuantizedShape &s) {
  const LinearShape &shape = s.of;
  const std::size_t bytes_of_group = s.with == WithGroups::offsets ? 4 : s.with == WithGroups::zeros ? 3 : 2;
  const std::size_t weights = shape.outputs * shape.inputs / (s.is_bytes() ? 1 : 2),
                    rows_of_scales = s.is_f8() ? (shape.outputs + 127) / 128 : shape.outputs;
  return {.elements = shape.rows * shape.outputs * shape.inputs,
          .element_bytes = sizeof(float),
          .read = weights + rows_of_scales * s.groups() * bytes_of_group +
                  shape.rows * shape.inputs * sizeof(float),
          .written = shape.rows * shape.outputs * sizeof(float),
          .byte_uops_per_vector = s.arithmetic == RAPT_ARITHMETIC_I8 ? Uops{1} : Uops{},
          .multiply_adds_of_tile = s.arithmetic == RAPT_ARITHMETIC_I8 ? tile_of_bytes : 0,
          .multiply_adds = true};
}

const char *name_of(rapt_type type) {
  return type == RAPT_F8_E4M3 ? "e4m3" : type == RAPT_F8_E5M2 ? "e5m2" : type == RAPT_I8 ? "i8" : "i4";
}

void add(Kernel<QuantizedProduct> &kernel, const std::string &size, const QuantizedShape &shape) {
  const bool for_peers = shape.scale_group == group_of_peers && shape.with == WithGroups::scales;
  kernel.add(
      size, work_of(shape), [shape] { return QuantizedLayer(shape); },
      for_peers ? By::everyone : By::rapt_alone);
}

// The first layer of all experts of a model: gate or up. Experts without tokens are not read.
constexpr ExpertsShape experts_of_models[] = {{"mixtral-8x7b", 8, 2, 14336, 4096},
                                              {"qwen3-30b-a3b", 128, 8, 768, 2048}};

void add_experts(Kernel<QuantizedProduct> &kernel, int arithmetic) {
  for (const ExpertsShape &shape : experts_of_models) {
    for (const std::size_t tokens : Sizes{1, 8, 64, 512}) {
      const std::size_t rows = tokens * shape.slots;
      const Work work = {.elements = rows * shape.outputs * shape.inputs,
                         .element_bytes = sizeof(float),
                         .read = ChosenExperts(shape, tokens).count_with_rows() * shape.packed_bytes() +
                                 tokens * shape.inputs * sizeof(float),
                         .written = rows * shape.outputs * sizeof(float),
                         .byte_uops_per_vector = arithmetic == RAPT_ARITHMETIC_I8 ? Uops{1} : Uops{},
                         .multiply_adds_of_tile = arithmetic == RAPT_ARITHMETIC_I8 ? tile_of_bytes : 0,
                         .multiply_adds = true};
      kernel.add(
          fmt::format("{}:{}x{}x{}x{}", shape.model, tokens, shape.slots, shape.outputs, shape.inputs), work,
          [=] { return QuantizedExperts(shape, tokens, arithmetic); }, By::rapt_alone);
    }
  }
}

void register_quantized(Suite &suite, int arithmetic) {
  const auto of_peer = [&](const Peer &peer) {
    return QuantizedProduct{arithmetic == RAPT_ARITHMETIC_I8 ? peer.quantized_linear : QuantizedLinear{}};
  };
  Kernel<QuantizedProduct> kernel =
      suite.kernel(QuantizedProduct{}, of_peer,
                   arithmetic == RAPT_ARITHMETIC_I8 ? quantized_linear_error<RAPT_ARITHMETIC_I8>
                                                    : quantized_linear_error<RAPT_ARITHMETIC_F32>,
                   1);
  const auto add_shape = [&](const LinearShape &shape, rapt_type type, std::size_t group,
                             WithGroups with = WithGroups::scales) {
    const std::string scales = group ? std::to_string(group) : "row";
    const char *const also = with == WithGroups::offsets    ? "o"
                             : with == WithGroups::zeros    ? "z"
                             : with == WithGroups::codebook ? "c"
                                                            : "";
    add(kernel,
        fmt::format("{}x{}x{}:{}{}/{}", shape.rows, shape.outputs, shape.inputs, name_of(type), also, scales),
        {shape, type, group, arithmetic, with});
  };
  if (suite.plan().quick) {
    add_shape({1, 4096, 4096}, RAPT_I8, group_of_peers);
    add_shape({64, 4096, 4096}, RAPT_I8, group_of_peers);
    return;
  }
  constexpr std::size_t inputs = 1024, block = 64;
  for (const WorkingSet &set : suite.plan().working_sets) {
    const std::size_t blocks = set.bytes / (block * inputs);
    if (blocks > 0)
      add(kernel, set.label, {{1, blocks * block, inputs}, RAPT_I8, group_of_peers, arithmetic});
  }
  for (const std::size_t rows : Sizes{1, 4, 64}) {
    for (const rapt_type type : {RAPT_I8, RAPT_I4}) add_shape({rows, 4096, 4096}, type, group_of_peers);
  }
  for (const std::size_t group : Sizes{64, 128, 0}) {
    add_shape({1, 4096, 4096}, RAPT_I4, group);
    add_shape({64, 4096, 4096}, RAPT_I8, group);
  }
  add_shape({1, 4096, 4096}, RAPT_I8, 128);
  for (const std::size_t rows : Sizes{1, 64}) {
    add_shape({rows, 4096, 4096}, RAPT_I4, 128, WithGroups::zeros);
    add_shape({rows, 4096, 4096}, RAPT_I8, 128, WithGroups::zeros);
    add_shape({rows, 4096, 4096}, RAPT_I4, 32, WithGroups::offsets);
    add_shape({rows, 4096, 4096}, RAPT_I4, 32, WithGroups::codebook);
  }
  for (const std::size_t rows : Sizes{1, 4, 64}) {
    if (arithmetic == RAPT_ARITHMETIC_I8) break;
    for (const rapt_type type : {RAPT_F8_E4M3, RAPT_F8_E5M2}) add_shape({rows, 4096, 4096}, type, 128);
  }
  if (arithmetic == RAPT_ARITHMETIC_I8) {
    for (const std::size_t group : Sizes{32, 64, 128, 0}) add_shape({256, 4096, 4096}, RAPT_I8, group);
    add_experts(kernel, arithmetic);
  }
}

using QuantizeRows = decltype(&rapt_quantize_rows);
using DequantizeRows = decltype(&rapt_dequantize_rows);

// Rows of numbers and of integers, with a scale for each 32 of them.
class QuantizedRows {
 public:
  static constexpr std::size_t group = 32;

  QuantizedRows(std::size_t rows, std::size_t inputs, rapt_type type)
      : rows_(rows),
        inputs_(inputs),
        type_(type),
        x_(logits<float>(rows * inputs)),
        y_(rows * inputs),
        scales_(rows * inputs / group),
        q_(rows * inputs) {
    (*this)(&rapt_quantize_rows);
  }
  void operator()(QuantizeRows quantize) {
    require_ok(quantize(x_.data(), RAPT_F32, 0, rows_, inputs_, group, type_, q_.data(), scales_.data()));
  }
  void operator()(DequantizeRows dequantize) {
    require_ok(dequantize(q_.data(), type_, rows_, inputs_, group, scales_.data(), nullptr, nullptr, RAPT_F32,
                          nullptr, y_.data(), RAPT_F32, 0));
  }

 private:
  std::size_t rows_, inputs_;
  rapt_type type_;
  Buffer<float> x_, y_, scales_;
  Buffer<std::uint8_t> q_;
};

// `uops` counts those of a vector of numbers.
template <class Function>
void register_rows(Suite &suite, Function own, Uops uops, bool reads_numbers) {
  constexpr std::size_t inputs = 4096;
  Kernel<Function> kernel = suite.kernel(own, uops);
  for (const rapt_type type : {RAPT_I8, RAPT_I4}) {
    for (const std::size_t rows : suite.sizes({1, 64, 4096}, {64})) {
      const std::size_t count = rows * inputs, numbers = count * sizeof(float),
                        integers =
                            count / (type == RAPT_I8 ? 1 : 2) + count / QuantizedRows::group * sizeof(float);
      const Work work = {.elements = count,
                         .element_bytes = sizeof(float),
                         .read = reads_numbers ? numbers : integers,
                         .written = reads_numbers ? integers : numbers};
      kernel.add(fmt::format("{}x{}:{}", rows, inputs, type == RAPT_I8 ? "i8" : "i4"), work,
                 [=] { return QuantizedRows(rows, inputs, type); });
    }
  }
}

// Rows of blocks of a file. What lies in them does not change what a call has to do.
class BlockRows {
 public:
  BlockRows(std::size_t rows, std::size_t inputs, rapt_type type, std::size_t bytes)
      : rows_(rows), inputs_(inputs), type_(type), y_(rows * inputs), q_(rows * bytes) {
    for (std::size_t i = 0; i < q_.size(); ++i) q_.data()[i] = static_cast<std::uint8_t>(i * 37 % 64);
  }
  void operator()(DequantizeRows dequantize) {
    require_ok(dequantize(q_.data(), type_, rows_, inputs_, 0, nullptr, nullptr, nullptr, RAPT_TYPE_DEFAULT,
                          nullptr, y_.data(), RAPT_F32, 0));
  }

 private:
  std::size_t rows_, inputs_;
  rapt_type type_;
  Buffer<float> y_;
  Buffer<std::uint8_t> q_;
};

}  // namespace

// A vector takes a mask and a maximum, then a multiplication and an addition.
void register_quantize_rows(Suite &suite) { register_rows(suite, &rapt_quantize_rows, Uops{1, 4}, true); }
// A vector takes a conversion, a subtraction and a multiplication.
void register_dequantize_rows(Suite &suite) {
  register_rows(suite, &rapt_dequantize_rows, Uops{1, 3}, false);
}

// A vector takes a mask, a conversion, a subtraction and a multiplication.
void register_dequantize_blocks(Suite &suite) {
  constexpr std::size_t inputs = 4096;
  constexpr struct {
    const char *name;
    rapt_type type;
    std::size_t inputs, bytes;
  } types[] = {
      {"q8_0", RAPT_Q8_0, 32, 34},       {"q4_0", RAPT_Q4_0, 32, 18},   {"q5_0", RAPT_Q5_0, 32, 22},
      {"q2_k", RAPT_Q2_K, 256, 84},      {"q3_k", RAPT_Q3_K, 256, 110}, {"q4_k", RAPT_Q4_K, 256, 144},
      {"q5_k", RAPT_Q5_K, 256, 176},     {"q6_k", RAPT_Q6_K, 256, 210}, {"iq4_nl", RAPT_IQ4_NL, 32, 18},
      {"iq4_xs", RAPT_IQ4_XS, 256, 136}, {"mxfp4", RAPT_MXFP4, 32, 17}, {"nvfp4", RAPT_NVFP4, 64, 36}};
  Kernel<DequantizeRows> kernel = suite.kernel(&rapt_dequantize_rows, Uops{1, 4});
  for (const auto &type : types) {
    for (const std::size_t rows : suite.sizes({1, 64}, {64})) {
      const std::size_t count = rows * inputs, row = inputs / type.inputs * type.bytes;
      const Work work = {.elements = count,
                         .element_bytes = sizeof(float),
                         .read = rows * row,
                         .written = count * sizeof(float)};
      kernel.add(fmt::format("{}x{}:{}", rows, inputs, type.name), work,
                 [=, q_type = type.type] { return BlockRows(rows, inputs, q_type, row); });
    }
  }
}

void register_linear_quantized(Suite &suite) { register_quantized(suite, RAPT_ARITHMETIC_F32); }
void register_linear_in_i8(Suite &suite) { register_quantized(suite, RAPT_ARITHMETIC_I8); }

}  // namespace rapt::bench
