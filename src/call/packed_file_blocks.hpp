// Packs the blocks of a file (contract/file_blocks.hpp) like other quantized weights (quantized_weights.hpp), and gives
// them back, byte by byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "call/quantized_weights.hpp"
#include "contract/file_blocks.hpp"

namespace rapt {

template <class File>
class PackedFileBlocks {
 public:
  static constexpr std::size_t block = linear_block;
  static constexpr CodeUnit unit = CodeUnit::of(File::bits);

  // `packed` begins with the header, which need not be there yet.
  PackedFileBlocks(const rapt_linear_options &o, char *packed)
      : o_(o), layout_(o, nullptr), packed_(packed + layout_.blocks_begin()) {}

  // Packs outputs [first, first + count) of one block of outputs, all of which are given, or are the layer's last.
  void pack(const char *w, std::size_t first, std::size_t count) const {
    char *const to = of_block(first);
    std::memset(to, 0, layout_.block_size());
    for (std::size_t n = 0; n < block; ++n) {
      const char *const row = w + o_.w_strides.row * static_cast<std::ptrdiff_t>(n);
      for (std::size_t b = 0; b < blocks(); ++b) {
        if (n < count) {
          move_in(reinterpret_cast<const std::uint8_t *>(row + b * File::bytes), n, b, to);
        } else {
          each_code(n, b, to, [](std::uint8_t *words, std::size_t k, std::size_t) {
            unit.places(k).write(words, File::zero);
          });
        }
      }
    }
  }
  // Gives the blocks of an output back.
  void unpack(std::size_t output, char *row) const {
    const std::size_t n = output % block;
    for (std::size_t b = 0; b < blocks(); ++b)
      move_out(of_block(output), n, b, reinterpret_cast<std::uint8_t *>(row + b * File::bytes));
  }

 private:
  static constexpr std::size_t groups = File::inputs / File::group;

  std::size_t blocks() const { return o_.in_features / File::inputs; }
  char *of_block(std::size_t output) const { return packed_ + output / block * layout_.block_size(); }

  // Calls f(address of an output's words, input of the unit, input of the file's block b).
  template <class F>
  static void each_code(std::size_t n, std::size_t b, char *to, F f) {
    auto *words = reinterpret_cast<std::uint8_t *>(to) + b * (File::inputs / unit.inputs) * unit.bytes() +
                  unit.words_of(n);
    for (std::size_t i = 0; i < File::inputs; i += unit.inputs, words += unit.bytes()) {
      for (std::size_t k = 0; k < unit.inputs; ++k) f(words, k, i + k);
    }
  }
  // Calls f.half(packed f16, its byte in the file, what changes its sign) and f.byte(packed byte, its place in the
  // file) for the scales and offsets of the file's block b.
  template <class F>
  void each_number(std::size_t n, std::size_t b, char *to, F f) const {
    char *const scales = to + layout_.scales_begin(), *const offsets = to + layout_.offsets_begin();
    const auto at = [&](char *numbers, std::size_t g, std::size_t size) {
      return numbers + (g * block + n) * size;
    };
    if constexpr (File::has_steps) {
      f.half(at(to + layout_.scale_steps(), b, 2), File::d, 0);
      for (std::size_t g = 0; g < groups; ++g) f.byte(at(scales, b * groups + g, 1), File::scale(g));
      if constexpr (File::has_offsets) {
        f.half(at(to + layout_.offset_steps(), b, 2), File::m, 0x80);
        if constexpr (!File::shares_bytes) {
          for (std::size_t g = 0; g < groups; ++g) f.byte(at(offsets, b * groups + g, 1), File::offset(g));
        }
      }
    } else if constexpr (File::scale_of != ScaleOf::d) {
      for (std::size_t g = 0; g < groups; ++g) f.byte(at(scales, b * groups + g, 1), File::scale(g));
    } else {
      f.half(at(scales, b, 2), File::d, 0);
      if constexpr (File::has_offsets) f.half(at(offsets, b, 2), File::m, 0);
    }
  }

  void move_in(const std::uint8_t *from, std::size_t n, std::size_t b, char *to) const {
    each_code(n, b, to, [&](std::uint8_t *words, std::size_t k, std::size_t i) {
      unit.places(k).write(words, File::code(i).read(from) ^ File::flip);
    });
    struct {
      const std::uint8_t *from;
      void half(char *number, std::size_t at, int sign) const {
        number[0] = static_cast<char>(from[at]);
        number[1] = static_cast<char>(from[at + 1] ^ sign);
      }
      void byte(char *number, const Places &at) const {
        *number = static_cast<char>(at.read(from) - File::scale_zero);
      }
    } const move{from};
    each_number(n, b, to, move);
  }
  void move_out(char *from, std::size_t n, std::size_t b, std::uint8_t *to) const {
    std::memset(to, 0, File::bytes);
    each_code(n, b, from, [&](const std::uint8_t *words, std::size_t k, std::size_t i) {
      File::code(i).write(to, unit.places(k).read(words) ^ File::flip);
    });
    struct {
      std::uint8_t *to;
      void half(const char *number, std::size_t at, int sign) const {
        to[at] = static_cast<std::uint8_t>(number[0]);
        to[at + 1] = static_cast<std::uint8_t>(number[1] ^ sign);
      }
      void byte(const char *number, const Places &at) const {
        at.write(to, static_cast<std::uint8_t>(*number) + File::scale_zero);
      }
    } const move{to};
    each_number(n, b, from, move);
  }

  const rapt_linear_options &o_;
  QuantizedWeights layout_;
  char *packed_;
};

// Packs outputs [first, first + outputs) of a layer. `w` begins with output `first`, a multiple of 64. The header is
// the caller's work.
inline void pack_file_blocks(const rapt_linear_options &o, const void *w, std::size_t first,
                             std::size_t outputs, void *packed) {
  with_file_blocks(o.w_type, [&]<class File>(File) {
    const PackedFileBlocks<File> to(o, static_cast<char *>(packed));
    for (std::size_t n = 0; n < outputs; n += linear_block) {
      const std::size_t count = outputs - n < linear_block ? outputs - n : linear_block;
      to.pack(static_cast<const char *>(w) + o.w_strides.row * static_cast<std::ptrdiff_t>(n), first + n,
              count);
    }
  });
}
// Writes the blocks of outputs [first, first + outputs) to w, which begins with output `first`.
inline void unpack_file_blocks(const rapt_linear_options &o, const void *packed, std::size_t first,
                               std::size_t outputs, char *w) {
  with_file_blocks(o.w_type, [&]<class File>(File) {
    // Nothing of it is written.
    const PackedFileBlocks<File> from(o, static_cast<char *>(const_cast<void *>(packed)));
    for (std::size_t n = 0; n < outputs; ++n)
      from.unpack(first + n, w + o.w_strides.row * static_cast<std::ptrdiff_t>(n));
  });
}

}  // namespace rapt
