// Finds the elements that the taps of some rows of a convolution meet, and copies them, with zeros for padding: in
// blocks of rows, each of which is [terms][rows of the block].
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "api/copy_matrix.hpp"
#include "call/convolution_call.hpp"

namespace rapt {
namespace {

// Rows that follow each other in the innermost dimension.
struct Segment {
  std::size_t row, count;
  std::ptrdiff_t to;  // where the result of the first is
  std::size_t place;  // where the first patch's first element is copied
};

// The rows of a segment that meet elements through one tap. They are `step` apart in the operand.
struct MetRows {
  std::ptrdiff_t from;  // of the first
  std::size_t row, count;

  bool has(std::size_t r) const { return r - row < count; }
};

class Patches {
 public:
  // Both lists have room: a segment for each row, and met rows for each segment and tap.
  void use(Segment *segments, MetRows *met) { segments_ = segments, met_ = met; }

  // A segment lies in one block of rows.
  void find(const ConvolutionPass &pass, std::size_t first_row, std::size_t rows, std::size_t block) {
    pass_ = &pass;
    rows_ = rows, count_ = 0, has_padding_ = false, block_ = block;
    taps_ = pass.tap_count();
    step_ = pass.from.steps[2] * pass.stride[2];
    for (std::size_t r = 0; r < rows; r += segments_[count_ - 1].count) find_segment(first_row + r, r);
  }

  std::size_t rows() const { return rows_; }
  std::size_t segments() const { return count_; }
  const Segment &segment(std::size_t s) const { return segments_[s]; }
  const MetRows &met(std::size_t s, std::size_t tap) const { return met_[s * taps_ + tap]; }
  std::ptrdiff_t step() const { return step_; }
  bool has_padding() const { return has_padding_; }
  std::size_t segment_of(std::size_t row) const {
    std::size_t s = 0;
    while (row - segments_[s].row >= segments_[s].count) ++s;
    return s;
  }

  // Whether all rows lie in one step of the result, or of the operand where there is one tap without padding.
  bool results_are_even(std::ptrdiff_t &step) const {
    step = pass_->to.steps[2];
    for (std::size_t s = 1; s < count_; ++s) {
      const auto rows = static_cast<std::ptrdiff_t>(segments_[s].row);
      if (count_ == rows_ && s == 1) step = segments_[1].to - segments_[0].to;
      if (segments_[s].to - segments_[0].to != rows * step) return false;
    }
    return true;
  }
  bool operands_are_even(std::ptrdiff_t &step) const {
    if (taps_ != 1 || has_padding_) return false;
    step = step_;
    for (std::size_t s = 1; s < count_; ++s) {
      const auto rows = static_cast<std::ptrdiff_t>(segments_[s].row);
      if (count_ == rows_ && s == 1) step = met_[1].from - met_[0].from;
      if (met_[s].from - met_[0].from != rows * step) return false;
    }
    return true;
  }

  // Copies the patches of some channels, from the first of them on. Blocks follow each other if these are all channels.
  template <class E>
  void copy(const E *x, std::size_t channels, E *to) const {
    const std::ptrdiff_t channel = pass_->from.channel;
    const bool by_channels = channel == 1 && step_ != 1;
    if (by_channels) {
      for (std::size_t s = 0; s < count_; ++s) {
        for (std::size_t t = 0; t < taps_; ++t) {
          const MetRows &run = met(s, t);
          E *const first = to + t * block_ + segments_[s].place;
          copy_channels(x + run.from, run.count, channels, first + (run.row - segments_[s].row),
                        block_ * taps_);
          for (std::size_t c = 0; run.count != segments_[s].count && c < channels; ++c)
            clear_padding(segments_[s], run, first + c * block_ * taps_);
        }
      }
      return;
    }
    for (std::size_t c = 0; c < channels; ++c, x += channel) {
      for (std::size_t t = 0; t < taps_; ++t, to += block_) {
        for (std::size_t s = 0; s < count_; ++s) {
          const MetRows &run = met(s, t);
          E *const first = to + segments_[s].place;
          copy_rows(x + run.from, run.count, first + (run.row - segments_[s].row));
          if (run.count != segments_[s].count) clear_padding(segments_[s], run, first);
        }
      }
    }
  }
  // Returns how many elements such copies take, with those of rows that a block lacks.
  std::size_t copied(std::size_t channels) const {
    return (rows_ + block_ - 1) / block_ * block_ * channels * taps_;
  }
  // Copies the elements of one channel, without zeros for padding.
  template <class E>
  void copy_channel(const E *x, E *to, std::size_t pitch) const {
    for (std::size_t t = 0; t < taps_; ++t, to += pitch) {
      for (std::size_t s = 0; s < count_; ++s)
        copy_rows(x + met(s, t).from, met(s, t).count, to + met(s, t).row);
    }
  }
  // Copies elements that are one step apart.
  template <class E>
  void copy_rows(const E *from, std::size_t count, E *to) const {
    if (step_ == 1) return copy_run(from, count, to);
    if (step_ == 2) {
      for (std::size_t i = 0; i < count; ++i) to[i] = from[2 * i];
      return;
    }
    for (std::size_t i = 0; i < count; ++i, from += step_) to[i] = *from;
  }

  template <class E>
  void copy_channels(const E *from, std::size_t rows, std::size_t channels, E *to, std::size_t pitch) const {
    copy_matrix(from, step_, 1, rows, channels, to, 1, static_cast<std::ptrdiff_t>(pitch));
  }

  // Runs are short, so that a call of memcpy would take longer. The last 16 bytes may be copied twice.
  template <class E>
  static void copy_run(const E *from, std::size_t count, E *to) {
    constexpr std::size_t side = 16 / sizeof(E);
    if (count < side) {
      for (std::size_t i = 0; i < count; ++i) to[i] = from[i];
      return;
    }
    std::size_t i = 0;
    for (; count - i > side; i += side) std::memcpy(static_cast<void *>(to + i), from + i, 16);
    std::memcpy(static_cast<void *>(to + count - side), from + count - side, 16);
  }

 private:
  // Sets the rows of a segment that meet no element to 0. The first row is at `first`.
  template <class E>
  static void clear_padding(const Segment &segment, const MetRows &run, E *first) {
    const std::size_t met = run.row - segment.row;
    for (std::size_t i = 0; i < met; ++i) first[i] = E{};
    for (std::size_t i = met + run.count; i < segment.count; ++i) first[i] = E{};
  }

  void find_segment(std::size_t row, std::size_t r) {
    const ConvolutionPass &pass = *pass_;
    const std::size_t inner = row % pass.out[2], middle = row / pass.out[2] % pass.out[1],
                      outer = row / pass.out[2] / pass.out[1] % pass.out[0],
                      batch = row / pass.out[2] / pass.out[1] / pass.out[0];
    std::size_t count = pass.out[2] - inner;
    for (const std::size_t left : {rows_ - r, block_ - r % block_}) count = left < count ? left : count;
    const auto at = [](std::size_t i, std::ptrdiff_t step) { return static_cast<std::ptrdiff_t>(i) * step; };
    segments_[count_] = {r, count,
                         pass.to_first + at(batch, pass.to.batch) + at(outer, pass.to.steps[0]) +
                             at(middle, pass.to.steps[1]) + at(inner, pass.to.steps[2]),
                         r / block_ * block_ * pass.terms() + r % block_};
    MetRows *met = met_ + count_++ * taps_;
    for (std::size_t a = 0; a < pass.taps[0]; ++a) {
      const std::ptrdiff_t i = element(0, outer, a);
      for (std::size_t b = 0; b < pass.taps[1]; ++b) {
        const std::ptrdiff_t j = element(1, middle, b);
        const bool is_inside = has(0, i) && has(1, j);
        for (std::size_t c = 0; c < pass.taps[2]; ++c, ++met) {
          std::size_t first = 0, end = 0;
          if (is_inside) find_inner(inner, count, c, first, end);
          has_padding_ = has_padding_ || end - first != count;
          *met = {0, r + first, end - first};
          if (first == end) continue;
          met->from = at(batch, pass.from.batch) + i * pass.from.steps[0] + j * pass.from.steps[1] +
                      element(2, inner + first, c) * pass.from.steps[2];
        }
      }
    }
  }
  std::ptrdiff_t element(std::size_t d, std::size_t position, std::size_t tap) const {
    return static_cast<std::ptrdiff_t>(position) * pass_->stride[d] + pass_->offset[d] +
           static_cast<std::ptrdiff_t>(tap) * pass_->dilation[d];
  }
  bool has(std::size_t d, std::ptrdiff_t element) const {
    return element >= 0 && static_cast<std::size_t>(element) < pass_->in[d];
  }
  // Finds which of `count` positions from `inner` on meet elements in the innermost dimension.
  void find_inner(std::size_t inner, std::size_t count, std::size_t tap, std::size_t &first,
                  std::size_t &end) const {
    const std::ptrdiff_t begin = element(2, inner, tap), stride = pass_->stride[2],
                         last = static_cast<std::ptrdiff_t>(pass_->in[2]) - 1 - begin;
    if (last < 0) return;
    const std::size_t skipped = begin >= 0 ? 0 : static_cast<std::size_t>((-begin + stride - 1) / stride),
                      reached = static_cast<std::size_t>(last / stride) + 1;
    end = reached < count ? reached : count;
    first = skipped < end ? skipped : end;
  }

  const ConvolutionPass *pass_ = nullptr;
  Segment *segments_ = nullptr;
  MetRows *met_ = nullptr;
  std::size_t rows_ = 0, count_ = 0, taps_ = 0, block_ = 1;
  std::ptrdiff_t step_ = 0;
  bool has_padding_ = false;
};

}  // namespace
}  // namespace rapt
