#include "ggml/pack.hpp"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "ggml/host.hpp"
#include "ggml/pool.hpp"
#include "ggml/say.hpp"

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

// TQ1_0 and TQ2_0 have the integers -1 to 1, 256 of which share an f16 at the end of their block.
bool is_ternary(ggml_type type) { return type == GGML_TYPE_TQ1_0 || type == GGML_TYPE_TQ2_0; }
constexpr std::size_t ternary_inputs = 256;

// Rows of a matrix in arrays that rapt packs, where it does not know their blocks.
class Arrays {
 public:
  Arrays(Tensor t, const std::byte *rows, std::size_t count) : t_(t), numbers_(extent(t, 0)) {
    for (std::size_t r = 0; r < count; ++r, rows += t->nb[1])
      is_ternary(t->type) ? add_ternary(rows) : add_halves(rows);
  }
  const void *give(rapt_linear_options &options) const {
    if (!is_ternary(t_->type)) return halves_.data();
    options.w_scales = scales_.data();
    options.w_scale_type = RAPT_F16;
    return codes_.data();
  }

 private:
  void decode(const std::byte *row) {
    host().type_traits(t_->type)->to_float(row, numbers_.data(), static_cast<std::int64_t>(numbers_.size()));
  }
  void add_halves(const std::byte *row) {
    decode(row);
    const std::size_t before = halves_.size();
    halves_.resize(before + numbers_.size());
    rapt_convert_f32_to_f16(numbers_.data(), &halves_[before], numbers_.size());
  }
  // The host gives the integers of blocks whose scale is 1.
  void add_ternary(const std::byte *row) {
    constexpr rapt_f16 one = 0x3c00;
    const std::size_t bytes = element_size(t_);
    std::vector<std::byte> blocks(row, row + row_bytes(t_));
    for (std::size_t end = bytes; end <= blocks.size(); end += bytes) {
      std::byte *const scale = &blocks[end - sizeof one];
      std::memcpy(&scales_.emplace_back(), scale, sizeof one);
      std::memcpy(scale, &one, sizeof one);
    }
    decode(blocks.data());
    const auto code = [&](std::size_t i) {
      return static_cast<unsigned>(static_cast<int>(numbers_[i])) & 15U;
    };
    for (std::size_t i = 0; i < numbers_.size(); i += 2)
      codes_.push_back(static_cast<std::uint8_t>(code(i) | code(i + 1) << 4));
  }

  Tensor t_;
  std::vector<float> numbers_;
  std::vector<std::uint8_t> codes_;
  std::vector<rapt_f16> scales_, halves_;
};

rapt_status pack_part(Tensor t, const std::byte *matrix, std::byte *packed, const Packing &packing,
                      std::size_t first, std::size_t rows) {
  rapt_linear_options options = packing.options;
  options.packed_w = 0;
  const std::byte *const begin = matrix + first * t->nb[1];
  if (blocks_of(t->type)) options.w_strides = {static_cast<std::ptrdiff_t>(t->nb[1]), 1};
  if (can_decode(t->type))
    return rapt_linear_pack(begin, first, rows, &options, packed, packing.matrix_bytes);
  const Arrays arrays(t, begin, rows);
  const void *const w = arrays.give(options);
  return rapt_linear_pack(w, first, rows, &options, packed, packing.matrix_bytes);
}

}  // namespace

bool is_exact(ggml_type type) { return can_decode(type) || is_ternary(type); }

rapt_linear_options layer_of(Tensor t) {
  rapt_linear_options options = RAPT_LINEAR_OPTIONS_INIT;
  options.in_features = extent(t, 0);
  options.out_features = extent(t, 1);
  options.x_type = options.y_type = RAPT_F32;
  options.arithmetic = RAPT_ARITHMETIC_F32;
  if (const std::optional<rapt_type> type = float_type(t->type)) {
    options.w_type = *type;
  } else if (const std::optional<Blocks> blocks = blocks_of(t->type)) {
    options.w_type = blocks->type;
    options.scale_group = blocks->group;
    options.arithmetic = quantized_arithmetic();
    // Activations are rounded in the groups of the weights.
    if (options.arithmetic == RAPT_ARITHMETIC_I8) options.x_group = blocks->group;
  } else if (is_ternary(t->type)) {
    options.w_type = RAPT_I4;
    options.scale_group = ternary_inputs;
    options.arithmetic = quantized_arithmetic();
  } else {
    options.w_type = RAPT_F16;
  }
  return options;
}

bool is_packable(Tensor t) {
  return !t->view_src && t->ne[1] > 1 && !is_empty(t) && (float_type(t->type) || host_decodes(t->type));
}

std::optional<Packing> packing_of(Tensor t) { return is_packable(t) ? packing_for_op(t) : std::nullopt; }

std::optional<Packing> packing_for_op(Tensor t) {
  Packing packing = {layer_of(t), 0};
  if (is_ternary(t->type)) {
    packing.options.w_scales = &array;
    packing.options.w_scale_type = RAPT_F16;
  }
  std::size_t bytes = 0;
  if (rapt_linear_packed_length(&packing.options, &bytes) != RAPT_OK) return std::nullopt;
  packing.options.w_scales = nullptr;
  packing.options.w_scale_type = RAPT_TYPE_DEFAULT;
  packing.options.packed_w = 1;
  packing.matrix_bytes = (bytes + 63) / 64 * 64;
  return packing;
}

void pack_matrix(Engine &engine, Tensor t, const std::byte *matrix, const Packing &packing,
                 std::byte *packed) {
  const std::size_t outputs = extent(t, 1), parts = (outputs + part_multiple - 1) / part_multiple;
  const auto run = [&](std::size_t part) {
    const std::size_t first = part * part_multiple;
    must(pack_part(t, matrix, packed, packing, first, std::min(part_multiple, outputs - first)));
  };
  run(0);  // begins the matrix
  engine.each(parts - 1, extent(t, 0) * outputs, [&](std::size_t part) { run(part + 1); });
}

void pack(Tensor t, const std::byte *data) {
  const std::optional<Packing> packing = packing_of(t);
  if (!packing) return;
  if (!is_exact(t->type)) {
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

bool can_unpack_to_file(Tensor t) { return packing_of(t) && can_decode(t->type); }

void unpack(Tensor t, std::size_t first, std::size_t rows, std::byte *to) {
  const std::optional<Packing> packing = packing_of(t);
  if (!packing || !can_decode(t->type)) throw Failure("these weights cannot be unpacked");
  for (std::size_t row = first; row < first + rows; ++row, to += row_bytes(t)) {
    const std::size_t matrix = row / extent(t, 1), output = row % extent(t, 1);
    const std::byte *const packed = bytes_of(t) + matrix * packing->matrix_bytes;
    must(rapt_linear_unpack(packed, packing->matrix_bytes, output, 1, &packing->options, to, nullptr, nullptr,
                            nullptr, nullptr));
  }
}

}  // namespace rapt_ggml
