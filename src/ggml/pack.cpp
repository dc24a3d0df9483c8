#include "ggml/pack.hpp"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "ggml/engine.hpp"
#include "ggml/host.hpp"
#include "ggml/pool.hpp"
#include "ggml/say.hpp"
#include "ggml/unpacked.hpp"

namespace rapt_ggml {

namespace {

constexpr std::size_t part_multiple = 64;      // outputs: rapt_linear_pack() packs such parts apart
constexpr std::size_t part_bytes = 1 << 20;    // of plain weights
constexpr std::size_t threads_from = 8 << 20;  // bytes of a tensor that are worth threads

const char array = 0;  // stands for an array of which only its presence counts

int quantized_arithmetic() {
  static const bool f32 = [] {
    const char *const value = std::getenv("RAPT_GGML_ARITHMETIC");
    return value && std::strcmp(value, "f32") == 0;
  }();
  return f32 ? RAPT_ARITHMETIC_F32 : RAPT_ARITHMETIC_I8;
}

rapt_status pack_part(Tensor t, const std::byte *matrix, std::byte *packed, const Packing &packing,
                      std::size_t first, std::size_t rows) {
  rapt_linear_options options = packing.options;
  options.packed_w = 0;
  if (float_type(t->type) || packing.has_blocks) {
    return rapt_linear_pack(matrix + first * t->nb[1], first, rows, &options, packed, packing.matrix_bytes);
  }
  Unpacked unpacked;
  unpacked.fill(t, matrix, first, rows);
  unpacked.set_arrays(options);
  return rapt_linear_pack(unpacked.weights(), first, rows, &options, packed, packing.matrix_bytes);
}

}  // namespace

rapt_linear_options layer_of(Tensor t) {
  rapt_linear_options options = RAPT_LINEAR_OPTIONS_INIT;
  options.in_features = extent(t, 0);
  options.out_features = extent(t, 1);
  options.x_type = options.y_type = RAPT_F32;
  if (const std::optional<rapt_type> type = float_type(t->type)) {
    options.w_type = *type;
    options.arithmetic = RAPT_ARITHMETIC_F32;
  } else if (const std::optional<Format> format = format_of(t->type)) {
    options.w_type = format->type;
    options.scale_group = format->group;
    options.arithmetic = quantized_arithmetic();
  } else {
    options.w_type = RAPT_F16;  // Unpacked decodes such blocks
    options.arithmetic = RAPT_ARITHMETIC_F32;
  }
  return options;
}

bool is_packable(Tensor t) { return !t->view_src && t->ne[1] > 1 && !is_empty(t) && can_unpack(t->type); }

std::optional<Packing> packing_of(Tensor t) {
  if (!is_packable(t)) return std::nullopt;
  Packing packing = {layer_of(t), 0, false};
  const std::optional<Format> format = format_of(t->type);
  if (format && format->blocks != RAPT_TYPE_DEFAULT) {
    packing.has_blocks = true;
    packing.options.w_type = format->blocks;
    // As many as in a layer of unpacked weights, which must have the same bits.
    if (packing.options.arithmetic == RAPT_ARITHMETIC_I8) packing.options.x_group = format->group;
  } else if (format) {
    packing.options.w_scales = &array;
    packing.options.w_scale_type = format->scale_type;
    if (format->offsets) packing.options.w_offsets = &array;
    if (format->zeros) packing.options.w_zeros = reinterpret_cast<const std::uint8_t *>(&array);
  }
  std::size_t bytes = 0;
  if (rapt_linear_packed_length(&packing.options, &bytes) != RAPT_OK) return std::nullopt;
  packing.options.w_scales = packing.options.w_offsets = nullptr;
  packing.options.w_zeros = nullptr;
  packing.options.w_scale_type = RAPT_TYPE_DEFAULT;
  packing.options.packed_w = 1;
  packing.matrix_bytes = (bytes + 63) / 64 * 64;
  return packing;
}

void pack(Tensor t, const std::byte *data) {
  const std::optional<Packing> packing = packing_of(t);
  if (!packing) return;
  if (!float_type(t->type) && !format_of(t->type)) {
    say_once(GGML_LOG_LEVEL_WARN, std::string("weights of ") + host().type_traits(t->type)->type_name +
                                      " are decoded to f16 when they are loaded");
  }
  const std::size_t outputs = extent(t, 1), matrices = extent(t, 2) * extent(t, 3);
  const std::size_t rows = std::max<std::size_t>(1, part_bytes / t->nb[1] / part_multiple) * part_multiple;
  const std::size_t parts = (outputs + rows - 1) / rows;
  std::atomic<rapt_status> status{RAPT_OK};
  const auto run = [&](std::size_t matrix, std::size_t part) {
    const std::size_t first = part * rows;
    const rapt_status answer =
        pack_part(t, data + matrix * t->nb[2], bytes_of(t) + matrix * packing->matrix_bytes, *packing, first,
                  std::min(rows, outputs - first));
    if (answer != RAPT_OK) status = answer;
  };
  for (std::size_t matrix = 0; matrix < matrices; ++matrix)
    run(matrix, 0);  // a part with output 0 begins its matrix
  std::atomic<std::size_t> next{0};
  const auto others = [&] {
    for (std::size_t i = next++; i < matrices * (parts - 1); i = next++)
      run(i / (parts - 1), 1 + i % (parts - 1));
  };
  std::vector<std::thread> threads;
  if (span_bytes(t) >= threads_from) {
    for (std::size_t i = 1; i < std::min<std::size_t>(Pool::largest_parts(), 16); ++i)
      threads.emplace_back(others);
  }
  others();
  for (std::thread &thread : threads) thread.join();
  if (status != RAPT_OK) {
    say(GGML_LOG_LEVEL_ERROR, std::string("cannot pack ") + t->name + ": " + rapt_status_text(status));
  }
}

bool can_unpack_to_file(Tensor t) {
  const std::optional<Packing> packing = packing_of(t);
  return packing && (float_type(t->type) || packing->has_blocks);
}

void unpack(Tensor t, std::size_t first, std::size_t rows, std::byte *to) {
  const std::optional<Packing> packing = packing_of(t);
  if (!can_unpack_to_file(t)) throw Failure("these weights cannot be unpacked");
  for (std::size_t row = first; row < first + rows; ++row, to += row_bytes(t)) {
    const std::size_t matrix = row / extent(t, 1), output = row % extent(t, 1);
    const std::byte *const packed = bytes_of(t) + matrix * packing->matrix_bytes;
    must(rapt_linear_unpack(packed, packing->matrix_bytes, output, 1, &packing->options, to, nullptr, nullptr,
                            nullptr, nullptr));
  }
}

}  // namespace rapt_ggml
