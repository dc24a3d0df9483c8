// Benchmarks linear layers. A size is rows x outputs x inputs, as in "64x4096x4096". Weights are packed, but
// for sizes with ":plain". "L2", "L3" and "mem" are one row of 1024 inputs whose weights lie there.
// "batch32:128x128x64" are 32 layers, each with its weights, like attention's heads.
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <type_traits>
#include <vector>

#include "support/accuracy.hpp"
#include "support/linear_batch.hpp"
#include "support/linear_layer.hpp"
#include "support/suite.hpp"

namespace rapt::bench {
namespace {

template <class Kind>
using Product = LinearProduct<typename Kind::Element>;

template <class Kind>
Product<Kind> of_peer(const Peer &peer) {
  if constexpr (std::is_floating_point_v<typename Kind::Element>) {
    return {peer.functions<typename Kind::Element>().linear};
  } else {
    return {(Kind::type == RAPT_F16 ? peer.f16 : peer.bf16).linear};
  }
}

// The weights count once, however often the rows read them, because a cache can keep a part of them.
template <class Kind>
Work work_of(const LinearShape &s) {
  constexpr std::size_t bytes = sizeof(typename Kind::Element);
  return {.elements = s.rows * s.outputs * s.inputs,
          .element_bytes = std::max(bytes, sizeof(float)),
          .read = (s.outputs + s.rows) * s.inputs * bytes,
          .written = s.rows * s.outputs * bytes,
          .multiply_adds_of_tile = Kind::arithmetic == RAPT_ARITHMETIC_BF16 ? tile_of_bf16 : 0,
          .multiply_adds = true};
}

std::string size_of(const LinearShape &s) { return fmt::format("{}x{}x{}", s.rows, s.outputs, s.inputs); }

template <class Kind>
void add(Kernel<Product<Kind>> &kernel, const std::string &size, const LinearShape &shape) {
  kernel.add(size, work_of<Kind>(shape), [shape] { return LinearLayer<Kind>(shape); });
}

template <class Kind>
void add(Kernel<Product<Kind>> &kernel, const LinearShape &shape) {
  add<Kind>(kernel, size_of(shape), shape);
}

template <class Kind>
void add_plain(Kernel<Product<Kind>> &kernel, const LinearShape &shape) {
  const auto make = [shape] {
    return [layer = LinearLayer<Kind>(shape)](const Product<Kind> &) { layer.with_plain_weights(); };
  };
  kernel.add(size_of(shape) + ":plain", work_of<Kind>(shape), make, By::rapt_alone);
}

// Packing copies the weights, so its limit is the bandwidth of copies.
template <class Kind>
void add_packing(Kernel<Product<Kind>> &kernel, std::size_t outputs, std::size_t inputs) {
  constexpr std::size_t bytes = sizeof(typename Kind::Element);
  const std::size_t weights = outputs * inputs;
  const Work work = {.elements = weights,
                     .element_bytes = std::max(bytes, sizeof(float)),
                     .read = weights * bytes,
                     .written = weights * bytes};
  const auto make = [outputs, inputs] {
    return [layer = LinearLayer<Kind>({1, outputs, inputs})](const Product<Kind> &) { layer.pack(); };
  };
  kernel.add(fmt::format("pack:{}x{}", outputs, inputs), work, make, By::rapt_alone);
}

template <class Kind>
void add_rows(Kernel<Product<Kind>> &kernel, const Sizes &rows) {
  for (const std::size_t count : rows) add<Kind>(kernel, {count, 4096, 4096});
}

// The layers of Llama 3 8B that do not have 4096 outputs and inputs, and a small model's layer.
const LinearShape model_shapes[] = {{1, 14336, 4096}, {64, 14336, 4096}, {1, 4096, 14336}, {64, 4096, 14336},
                                    {1, 1024, 4096},  {64, 1024, 4096},  {1, 768, 768},    {128, 768, 768}};

// Adds one row whose weights fill a memory level. L1 is smaller than a block of packed weights.
template <class Kind>
void add_level(Kernel<Product<Kind>> &kernel, const WorkingSet &set) {
  constexpr std::size_t inputs = 1024, block = 64;
  const std::size_t blocks = set.bytes / (block * inputs * sizeof(typename Kind::Element));
  if (blocks > 0) add<Kind>(kernel, set.label, {1, blocks * block, inputs});
}

void add_batch(Kernel<LinearProduct<float>> &kernel, std::size_t batch, const LinearShape &shape) {
  Work work = work_of<LinearF32>(shape);
  work.elements *= batch, work.read *= batch, work.written *= batch;
  kernel.add(fmt::format("batch{}:{}", batch, size_of(shape)), work,
             [batch, shape] { return LinearBatch(batch, shape); });
}

template <class Kind>
void register_linear(Suite &suite) {
  constexpr bool is_f32 = Kind::type == RAPT_F32;
  Kernel<Product<Kind>> kernel = suite.kernel(Product<Kind>{}, of_peer<Kind>, linear_error<Kind>, 1);
  if (suite.plan().quick) {
    if (is_f32) add<Kind>(kernel, {1, 768, 768});
    add_rows<Kind>(kernel, {1, 64});
    return;
  }
  const std::vector<WorkingSet> &sets = suite.plan().working_sets;
  if (!is_f32) {
    add_level<Kind>(kernel, sets[1]);
    if (Kind::type == RAPT_F64) add_rows<Kind>(kernel, {2, 4, 8});
    add_rows<Kind>(kernel, {1, 16, 256});
    // Both arithmetics of bf16 share a layout.
    if (Kind::arithmetic != RAPT_ARITHMETIC_BF16) add_packing<Kind>(kernel, 4096, 4096);
    return;
  }
  for (const WorkingSet &set : sets) add_level<Kind>(kernel, set);
  add_rows<Kind>(kernel, {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024});
  for (const LinearShape &shape : model_shapes) add<Kind>(kernel, shape);
  add<Kind>(kernel, {2048, 2048, 2048});
  for (const std::size_t rows : Sizes{1, 64, 512}) add_plain<Kind>(kernel, {rows, 4096, 4096});
  add_plain<Kind>(kernel, {128, 768, 768});
  if constexpr (is_f32) {
    add_batch(kernel, 32, {128, 128, 64});
    add_batch(kernel, 12, {1, 128, 64});
  }
  add_packing<Kind>(kernel, 4096, 4096);
}

}  // namespace

void register_linear_f32(Suite &suite) { register_linear<LinearF32>(suite); }
void register_linear_f64(Suite &suite) { register_linear<LinearF64>(suite); }
void register_linear_f16(Suite &suite) { register_linear<LinearF16>(suite); }
void register_linear_bf16(Suite &suite) { register_linear<LinearBF16>(suite); }
void register_linear_in_bf16(Suite &suite) { register_linear<LinearInBF16>(suite); }

}  // namespace rapt::bench
