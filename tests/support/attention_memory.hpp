// Puts the tensors and option arrays of attention calls in guarded memory.
#pragma once

#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "oracle/attention.hpp"
#include "rapt/rapt.h"
#include "support/bits.hpp"
#include "support/guarded_buffer.hpp"
#include "support/problem.hpp"

namespace rapt::test {

struct TensorShape {
  std::size_t batch = 0, heads = 0, tokens = 0, row = 0;
  bool any() const { return batch != 0 && heads != 0 && tokens != 0 && row != 0; }
};

// Holds a tensor [batch][heads][tokens][row] in separate guarded memory, or as a slice of another tensor.
// Canary bytes fill the gaps between rows.
template <class T>
class Tensor {
 public:
  using Shape = TensorShape;
  Tensor() = default;
  // `gap` is the number of elements between rows.
  Tensor(Shape shape, bool tokens_outside, std::size_t gap, const Layout &layout, std::size_t slot)
      : shape_(shape) {
    const auto step = static_cast<std::ptrdiff_t>(shape.row + gap);
    const auto heads = static_cast<std::ptrdiff_t>(shape.heads),
               tokens = static_cast<std::ptrdiff_t>(shape.tokens);
    strides_ = tokens_outside ? rapt_strides{heads * tokens * step, step, heads * step}
                              : rapt_strides{heads * tokens * step, tokens * step, step};
    is_default_ = gap == 0 && !tokens_outside;
    const std::size_t elements =
        shape.any() ? shape.batch * shape.heads * shape.tokens * (shape.row + gap) - gap : 0;
    buffer_ = std::make_unique<GuardedBuffer>(elements * sizeof(T), layout.placement,
                                              layout.offset[slot] / sizeof(T) * sizeof(T));
    data_ = static_cast<T *>(buffer_->data());
    bytes_ = elements * sizeof(T);
  }
  // Makes a slice of `whole`, whose rows hold q, k and v of one token. The slice takes heads * row elements
  // of each row, from element `first` on.
  Tensor(const Tensor &whole, Shape shape, std::size_t first)
      : shape_(shape),
        strides_{whole.strides_.batch, static_cast<std::ptrdiff_t>(shape.row), whole.strides_.token},
        data_(whole.data_ + (whole.bytes_ != 0 ? first : 0)) {}

  T *data() const { return data_; }
  const Shape &shape() const { return shape_; }
  // Returns the strides for the API, with RAPT_REPEAT for repeated dimensions.
  rapt_strides strides() const {
    const auto given = [](std::ptrdiff_t stride) { return stride == 0 ? RAPT_REPEAT : stride; };
    return {given(strides_.batch), given(strides_.head), given(strides_.token)};
  }
  // Returns zeros if the tensor is contiguous, because the API computes the same strides for zeros.
  rapt_strides given_strides() const { return is_default_ ? rapt_strides{0, 0, 0} : strides(); }
  void repeat(oracle::Repeats repeats) {
    if (repeats.batch) strides_.batch = 0;
    if (repeats.head) strides_.head = 0;
    if (repeats.token) strides_.token = 0;
    is_default_ = false;
  }
  T *at(std::size_t b, std::size_t h, std::size_t t) const {
    if (!shape_.any()) return data_;
    return data_ + strides_.batch * static_cast<std::ptrdiff_t>(b) +
           strides_.head * static_cast<std::ptrdiff_t>(h) + strides_.token * static_cast<std::ptrdiff_t>(t);
  }
  // `values` must be exact in T.
  template <class Number>
  void put(std::size_t b, std::size_t h, std::size_t t, const Number *values) const {
    if (!shape_.any()) return;
    if constexpr (std::is_same_v<T, Number>) {
      std::memcpy(at(b, h, t), values, shape_.row * sizeof(T));
    } else {
      for (std::size_t d = 0; d < shape_.row; ++d) at(b, h, t)[d] = T(values[d]);
    }
  }

  void remember() {
    if (bytes_ != 0) image_.assign(bytes(), bytes() + bytes_);
  }
  bool unchanged() const {
    return !buffer_ || (buffer_->surroundings_intact() &&
                        (image_.empty() || std::memcmp(bytes(), image_.data(), bytes_) == 0));
  }
  // Appends the row to the outcome, and fills the row with canary bytes again.
  void take(std::size_t b, std::size_t h, std::size_t t, Outcome &outcome) const {
    if (!shape_.any()) return;
    T *row = at(b, h, t);
    for (std::size_t d = 0; d < shape_.row; ++d) outcome.bits.push_back(canonical_bits(row[d]));
    std::memset(static_cast<void *>(row), canary, shape_.row * sizeof(T));
  }
  bool all_canary() const { return !buffer_ || (is_canary(data_, bytes_) && buffer_->surroundings_intact()); }

 private:
  const unsigned char *bytes() const { return reinterpret_cast<const unsigned char *>(data_); }

  Shape shape_;
  rapt_strides strides_{};
  bool is_default_ = false;
  std::unique_ptr<GuardedBuffer> buffer_;
  T *data_ = nullptr;
  std::size_t bytes_ = 0;
  std::vector<unsigned char> image_;
};

// Sets causality and windows. The API's windows include the query's own position, so they are larger by 1.
template <class T>
void set_visibility(const oracle::Attention<T> &a, rapt_attention_options &o) {
  const auto keys = [](std::ptrdiff_t window) { return static_cast<std::size_t>(window) + 1; };
  o.window_left = keys(a.window_left);
  o.window_right = keys(a.window_right);
  o.window_chunk = a.window_chunk;
  o.causal = a.causal == oracle::Causal::none           ? RAPT_CAUSAL_NONE
             : a.causal == oracle::Causal::bottom_right ? RAPT_CAUSAL_BOTTOM_RIGHT
             : a.causal_offset == 0                     ? RAPT_CAUSAL_TOP_LEFT
                                                        : RAPT_CAUSAL_OFFSET;
  if (o.causal == RAPT_CAUSAL_OFFSET) o.causal_offset = a.causal_offset;
}

// Holds an option's array in guarded memory.
template <class T>
class Array {
 public:
  void set(std::span<const T> values, const Layout &layout, std::size_t offset = 0) {
    if (values.empty()) return;
    values_.assign(values.begin(), values.end());
    buffer_ = std::make_unique<GuardedBuffer>(values.size_bytes(), layout.placement,
                                              offset / sizeof(T) * sizeof(T));
    std::memcpy(buffer_->data(), values.data(), values.size_bytes());
  }
  const T *data() const { return buffer_ ? static_cast<const T *>(buffer_->data()) : nullptr; }
  const T *from(std::size_t index) const { return buffer_ ? data() + index : nullptr; }
  bool intact() const {
    return !buffer_ || (buffer_->surroundings_intact() &&
                        std::memcmp(data(), values_.data(), values_.size() * sizeof(T)) == 0);
  }

 private:
  std::vector<T> values_;
  std::unique_ptr<GuardedBuffer> buffer_;
};

}  // namespace rapt::test
