// Benchmarks linear layers with packed quantized weights. A size is rows x outputs x inputs, the type of the
// weights and how many inputs share a scale, as in "64x4096x4096:i4/32". i4z has a zero and i4o an offset next to
// each scale. "L2", "L3" and "mem" are one row of 1024 inputs whose weights of i8 lie there.
#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <vector>

#include "support/accuracy.hpp"
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
  const std::size_t weights = shape.outputs * shape.inputs / (s.type == RAPT_I8 ? 1 : 2);
  return {.elements = shape.rows * shape.outputs * shape.inputs,
          .element_bytes = sizeof(float),
          .read = weights + shape.outputs * s.groups() * bytes_of_group +
                  shape.rows * shape.inputs * sizeof(float),
          .written = shape.rows * shape.outputs * sizeof(float),
          .byte_uops_per_vector = s.arithmetic == RAPT_ARITHMETIC_I8 ? Uops{1} : Uops{},
          .multiply_adds_of_tile = s.arithmetic == RAPT_ARITHMETIC_I8 ? tile_of_bytes : 0,
          .multiply_adds = true};
}

void add(Kernel<QuantizedProduct> &kernel, const std::string &size, const QuantizedShape &shape) {
  const bool for_peers = shape.scale_group == group_of_peers && shape.with == WithGroups::scales;
  kernel.add(
      size, work_of(shape), [shape] { return QuantizedLayer(shape); },
      for_peers ? By::everyone : By::rapt_alone);
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
    const char *const also = with == WithGroups::offsets ? "o" : with == WithGroups::zeros ? "z" : "";
    add(kernel,
        fmt::format("{}x{}x{}:{}{}/{}", shape.rows, shape.outputs, shape.inputs,
                    type == RAPT_I8 ? "i8" : "i4", also, scales),
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
  for (const std::size_t rows : Sizes{1, 64}) {
    add_shape({rows, 4096, 4096}, RAPT_I4, 128, WithGroups::zeros);
    add_shape({rows, 4096, 4096}, RAPT_I4, 32, WithGroups::offsets);
  }
  if (arithmetic == RAPT_ARITHMETIC_I8) {
    for (const std::size_t group : Sizes{32, 64, 128, 0}) add_shape({256, 4096, 4096}, RAPT_I8, group);
  }
}

}  // namespace

void register_linear_quantized(Suite &suite) { register_quantized(suite, RAPT_ARITHMETIC_F32); }
void register_linear_in_i8(Suite &suite) { register_quantized(suite, RAPT_ARITHMETIC_I8); }

}  // namespace rapt::bench
