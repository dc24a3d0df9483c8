// Reads the options of rapt_delta_rule, and what follows from them for its gradients too.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "api/attention_options.hpp"
#include "api/carved.hpp"
#include "api/numbers.hpp"
#include "api/read_options.hpp"
#include "api/tasks.hpp"
#include "api/tensor.hpp"
#include "call/delta_call.hpp"
#include "call/element.hpp"

namespace rapt {
namespace {

// With as many heads as this, a task has all columns of a head: rows of q and k are then prepared only once.
constexpr std::size_t delta_many_heads = 16;
// Rows are prepared for so many tokens at once.
constexpr std::size_t delta_chunk = 64;

inline bool is_zero(const rapt_state_strides &s) {
  return s.batch == 0 && s.head == 0 && s.key == 0 && s.value == 0;
}

// Options that have been read, and what follows from them.
struct DeltaRule {
  rapt_delta_rule_options o = RAPT_DELTA_RULE_OPTIONS_INIT;
  float scale = 0, eps = 0;
  std::size_t blocks = 0;  // tasks of a head

  std::size_t out_heads() const { return o.q_heads > o.v_heads ? o.q_heads : o.v_heads; }
  std::size_t queries() const { return o.q_heads > o.v_heads ? o.q_heads / o.v_heads : 1; }
  std::size_t columns_of_task() const { return blocks == 1 ? o.value_dim : delta_block; }
  std::size_t tasks() const { return o.batch * o.v_heads * blocks; }
  bool copies_rows() const { return o.type != RAPT_F32 || o.l2_norm != RAPT_L2_NORM_NONE; }
  // Of a sequence, or of all packed sequences.
  std::size_t all_tokens() const {
    return o.offsets ? static_cast<std::size_t>(o.offsets[o.batch]) : o.tokens;
  }
  std::size_t window() const { return o.state_window == 0 ? 1 : o.state_window; }

  // The head of n that head h of m uses, where n divides m.
  std::size_t shared(std::size_t h, std::size_t n, std::size_t m) const {
    return o.interleaved_heads ? h % n : h / (m / n);
  }
  // Of the heads of q that share a state, the first, and the distance to the next.
  std::size_t first_query(std::size_t head) const {
    if (o.q_heads <= o.v_heads) return shared(head, o.q_heads, o.v_heads);
    return o.interleaved_heads ? head : head * queries();
  }
  std::size_t first_output(std::size_t head) const {
    return o.q_heads <= o.v_heads ? head : first_query(head);
  }
  std::size_t next_query() const { return o.interleaved_heads ? o.v_heads : 1; }

  std::size_t k_head(std::size_t head) const { return shared(head, o.k_heads, o.v_heads); }

  // A dimension with one index has any stride. The layout of kernels needs one that is 1.
  StateLayout layout(const Tensor &of) const {
    const std::size_t first = of.dims - 2;
    StateLayout made{of.strides[first], of.strides[first + 1]};
    if (o.value_dim == 1)
      made.value = 1;
    else if (o.key_dim == 1)
      made.key = 1;
    return made;
  }

  bool has_unit(const Tensor &of) const {
    const StateLayout made = layout(of);
    return made.key == 1 || made.value == 1;
  }

  rapt_status read(const rapt_delta_rule_options *given) {
    if (!given) return RAPT_BAD_OPTIONS;
    rapt_status status = read_options(given, o);
    if (status == RAPT_OK) status = read_types();
    if (status == RAPT_OK) status = read_shape();
    if (status == RAPT_OK) status = read_numbers();
    if (status == RAPT_OK) status = read_arrays();
    return status;
  }

  // The arrays of a task in the workspace. Without memory it counts the bytes.
  struct Scratch {
    float *state, *q, *k, *v, *out, *decay, *beta;
    std::size_t bytes;
  };
  Scratch scratch(void *memory) const {
    Carved carved(memory);
    const std::size_t columns = columns_of_task(), rows = copies_rows() ? delta_chunk : 0;
    const std::size_t halves = o.type != RAPT_F32 ? delta_chunk : 0;
    Scratch made{};
    made.state = carved.take<float>(delta_scratch(o.key_dim, columns));
    made.q = carved.take<float>(rows * queries() * o.key_dim);
    made.k = carved.take<float>(rows * o.key_dim);
    made.v = carved.take<float>(halves * columns);
    made.out = carved.take<float>(halves * queries() * columns);
    made.decay = carved.take<float>(delta_chunk * (o.decay_per_key ? o.key_dim : 1));
    made.beta = carved.take<float>(delta_chunk);
    made.bytes = carved.bytes();
    return made;
  }
  std::size_t workspace_bytes() const { return scratch(nullptr).bytes + workspace_alignment; }

 private:
  rapt_status read_types() {
    if (resolve_float_type(o.type) != RAPT_OK || o.type == RAPT_F64) return RAPT_BAD_TYPE;
    if (resolve_float_type(o.gate_type) != RAPT_OK) return RAPT_BAD_TYPE;
    return o.gate_type == RAPT_F32 || o.gate_type == o.type ? RAPT_OK : RAPT_BAD_TYPE;
  }
  rapt_status read_shape() {
    if (o.batch == 0 || o.q_heads == 0 || o.key_dim == 0) return RAPT_BAD_SHAPE;
    if (o.value_dim == 0) o.value_dim = o.key_dim;
    if (o.v_heads == 0) o.v_heads = o.q_heads;
    if (o.k_heads == 0) o.k_heads = o.q_heads < o.v_heads ? o.q_heads : o.v_heads;
    if (o.q_heads % o.v_heads != 0 && o.v_heads % o.q_heads != 0) return RAPT_BAD_HEADS;
    if (o.v_heads % o.k_heads != 0) return RAPT_BAD_HEADS;
    // Nothing of the workspace overflows, and no number of tasks.
    constexpr std::size_t most = std::size_t{1} << 24;
    if (o.key_dim > most || o.value_dim > most || o.q_heads > most || o.v_heads > most) return RAPT_BAD_SIZE;
    std::size_t heads, elements, bytes;
    if (__builtin_mul_overflow(o.batch, o.v_heads, &heads)) return RAPT_BAD_SIZE;
    blocks = heads >= delta_many_heads ? 1 : (o.value_dim + delta_block - 1) / delta_block;
    if (__builtin_mul_overflow(heads, blocks, &elements)) return RAPT_BAD_SIZE;
    const std::size_t wide = o.key_dim > o.value_dim ? o.key_dim : o.value_dim;
    if (__builtin_mul_overflow(wide + 2 * delta_block, o.key_dim + 4 * delta_chunk, &elements) ||
        __builtin_mul_overflow(elements, queries() * 4 * sizeof(float), &bytes) ||
        bytes > std::size_t{PTRDIFF_MAX}) {
      return RAPT_BAD_SIZE;
    }
    return RAPT_OK;
  }
  rapt_status read_numbers() {
    const double wanted = o.scale == 0 ? 1 / std::sqrt(static_cast<double>(o.key_dim)) : o.scale;
    if (!is_usable<float>(wanted)) return RAPT_BAD_SCALE;
    scale = static_cast<float>(wanted);
    if (o.l2_norm < RAPT_L2_NORM_NONE || o.l2_norm > RAPT_L2_NORM_MAX_EPS) return RAPT_BAD_L2_NORM;
    if (o.eps != 0 && (o.l2_norm == RAPT_L2_NORM_NONE || !(o.eps > 0 && is_usable<float>(o.eps))))
      return RAPT_BAD_EPS;
    eps = static_cast<float>(o.eps == 0 ? 1e-6 : o.eps);
    return RAPT_OK;
  }
  // A field of an array that is not given has no effect.
  rapt_status read_arrays() const {
    if (o.decay_per_key && !o.g) return RAPT_BAD_DECAY;
    if (!o.g && !all_zero(o.g_strides)) return RAPT_BAD_G_STRIDES;
    if (!o.beta && !all_zero(o.beta_strides)) return RAPT_BAD_BETA_STRIDES;
    if (!o.state && !is_zero(o.state_strides)) return RAPT_BAD_STATE_STRIDES;
    if (!o.final_state && !is_zero(o.final_strides)) return RAPT_BAD_STATE_STRIDES;
    if (!o.final_state && o.state_window != 0) return RAPT_BAD_STATE_WINDOW;
    return o.state_window <= 1 && o.window_stride != 0 ? RAPT_BAD_STATE_WINDOW : RAPT_OK;
  }
};

// A tensor [batch][heads][tokens][row], and its sizes.
struct DeltaTensor : Tensor {
  std::size_t sizes[5] = {};

  rapt_status read_rows(const rapt_delta_rule_options &o, const void *from, std::size_t heads,
                        std::size_t row, const rapt_strides &with, rapt_type type, Repeats repeats,
                        rapt_status bad) {
    // Packed sequences have no batch stride.
    const std::ptrdiff_t batch_stride = o.offsets ? 0 : with.batch;
    const bool is_contiguous = all_zero({batch_stride, with.head, with.token});
    const std::ptrdiff_t given[] = {batch_stride, with.head, with.token, is_contiguous ? 0 : 1};
    const std::size_t tokens = o.offsets ? static_cast<std::size_t>(o.offsets[o.batch]) : o.tokens;
    const std::size_t all[] = {o.offsets ? 1 : o.batch, heads, tokens, row};
    std::memcpy(sizes, all, sizeof all);
    return read(from, size_of(type), 4, sizes, given, repeats, bad);
  }
};

}  // namespace
}  // namespace rapt
