// Draws random attention calls: the numbers of a problem, and memory with any strides, offsets, pages and
// repetitions that rapt.h allows. It computes each element's address as rapt.h describes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "oracle/attention.hpp"
#include "rapt/rapt.h"
#include "support/guarded_buffer.hpp"
#include "support/random.hpp"

namespace rapt::test::oracle {

// ---- elements whose type is known at run time ----

std::size_t size_of(rapt_type type);
double number_at(rapt_type type, const void *data, std::size_t index);
void set_number(rapt_type type, void *data, std::size_t index, double value);
double rounded(rapt_type type, double value);
// Returns |got - exact|. For 16-bit types it subtracts half the spacing of the type's numbers.
long double distance_as(rapt_type type, long double got, long double exact);

// ---- a problem ----

enum class Numbers {
  ordinary,
  wide,         // large scores
  scaled,       // powers of two that cancel in the scores, and values far from 1
  large_scale,  // the scale is near the largest number; q and k are small
  ties,         // few distinct scores
  small_scale,  // the scale is near the smallest normal number; q and k are large
  zeros,        // most elements are 0 or -0
  tiny,         // values, or products of q and k, near or below the smallest number
  equal,        // all elements of q are equal, and all of k, for the largest int8 sums
  specials,     // NaN and infinities among queries, keys, bias and sinks
  count
};
const char *name_of(Numbers numbers);

// Holds the numbers of a problem, which are exact in its element types.
struct AttentionProblem {
  std::uint64_t seed = 0;
  Attention<double> a;  // int8 k and v are not multiplied by their scales
  rapt_type q = RAPT_F32, kv = RAPT_F32, out = RAPT_F32;
  int arithmetic = RAPT_ARITHMETIC_DEFAULT;
  Numbers numbers = Numbers::ordinary;
  Repeats q_repeats, k_repeats, v_repeats;
  bool v_is_k = false;  // each value is the beginning of its key
  int causal = RAPT_CAUSAL_NONE;
  std::ptrdiff_t causal_offset = 0;
  std::size_t window_left = 0, window_right = 0, window_chunk = 0;
  std::vector<double> dout;  // [batch][q_heads][q_len][v_dim]
  rapt_type gradient = RAPT_TYPE_DEFAULT;

  rapt_type number() const { return q == RAPT_F64 ? RAPT_F64 : RAPT_F32; }  // the arithmetic type
  bool in_bf16() const { return q == RAPT_BF16 && kv == RAPT_BF16 && arithmetic != RAPT_ARITHMETIC_F32; }
  bool has_gradient() const { return kv != RAPT_I8; }
  rapt_type gradient_of(rapt_type type) const { return gradient == RAPT_TYPE_DEFAULT ? type : gradient; }
  // Returns the factor f by which rapt.h multiplies the scores of partial results.
  double score_factor(std::size_t b, std::size_t h, std::size_t i) const;
  Attention<double> truth() const { return kv == RAPT_I8 ? a.multiplied() : a; }
  std::string text() const;
};

AttentionProblem draw_attention(std::uint64_t seed);

// ---- memory ----

struct Extents {
  std::size_t batch, heads, tokens, row;
  bool has_batch = true, has_tokens = true;  // whether the call uses these strides
  bool any() const { return batch != 0 && heads != 0 && tokens != 0 && row != 0; }
};

// Places [batch][heads][tokens] rows in guarded memory full of canary bytes. The dimensions are in random
// order and have random padding.
class Placed {
 public:
  Placed() = default;
  // Row lengths and padding are multiples of `unit` elements.
  Placed(Random &random, rapt_type type, Extents extents, Repeats repeats = {}, std::size_t unit = 1);
  // Makes a tensor with the strides of `of` divided by `unit`, such as the scales of int8 rows.
  static Placed of_units(const Placed &of, rapt_type type, std::size_t row, std::size_t unit);

  void *data() const { return buffer_ ? buffer_->data() : nullptr; }
  rapt_type type() const { return type_; }
  const rapt_strides &strides() const { return given_; }
  // Returns explicit strides. Zeros would mean contiguous rows, and rows of another length have other
  // strides.
  rapt_strides written_out() const;
  std::size_t index(std::size_t b, std::size_t h, std::size_t t) const;
  void put(std::size_t b, std::size_t h, std::size_t t, std::size_t d, double value) const {
    set_number(type_, data(), index(b, h, t) + d, value);
  }
  double at(std::size_t b, std::size_t h, std::size_t t, std::size_t d) const {
    return number_at(type_, data(), index(b, h, t) + d);
  }
  std::size_t bytes() const { return elements_ * size_of(type_); }
  void remember();
  bool unchanged() const;
  // Moves newly written elements to a copy, and fills them with canary bytes. Returns false if an element was
  // moved before. put_back() restores all moved elements.
  bool take_writes();
  void put_back();
  // Fills the element with canary bytes. After all results are cleared, all_canary() must be true.
  void clear(std::size_t b, std::size_t h, std::size_t t, std::size_t d) const;
  bool all_canary() const {
    return !buffer_ || (is_canary(data(), bytes()) && buffer_->surroundings_intact());
  }

 private:
  rapt_type type_ = RAPT_F32;
  std::size_t strides_[3] = {};  // of batch, head and token; 0 if the dimension repeats
  rapt_strides given_{};
  std::size_t elements_ = 0;
  std::shared_ptr<GuardedBuffer> buffer_;
  std::vector<unsigned char> image_, written_;
};

// Holds a one-dimensional array in guarded memory.
class Listed {
 public:
  Listed() = default;
  template <class T>
  Listed(Random &random, const std::vector<T> &values);
  const void *data() const { return buffer_ ? buffer_->data() : nullptr; }
  template <class T>
  const T *of() const {
    return static_cast<const T *>(data());
  }
  bool unchanged() const;

 private:
  std::shared_ptr<GuardedBuffer> buffer_;
  std::vector<unsigned char> image_;
};

// Results have the order of the problem's arrays. Rows that a sequence lacks are NaN, or 0 in gradients. An
// array that the call did not compute is empty.
struct AttentionResults {
  std::vector<double> out, lse;
};
struct GradientResults {
  std::vector<double> dq, dk, dv, dbias, dsinks;
};

enum class Way { whole, tasks, one_by_one, split_keys, count };
const char *name_of(Way way);

// Places a problem in memory, and runs it in different ways.
class AttentionMemory {
 public:
  AttentionMemory(const AttentionProblem &problem, std::uint64_t seed, bool backward, bool in_place = false);

  // With `moves_references`, the merge gets partial results with smaller reference scores, so weights are
  // above 1.
  AttentionResults run(Way way, bool moves_references = false);
  // `out` and `lse` are the results of the forward call, as [batch][q_heads][q_len].
  GradientResults run_backward(Way way, const std::vector<double> &out, const std::vector<double> &lse);

  const rapt_attention_options &options() const { return o_; }
  bool in_place() const { return in_place_; }
  const std::string &faults() const { return faults_; }
  const std::string &layout() const { return layout_; }
  // Returns the partial results of the last call that split keys: [batch][q_heads][q_len][chunks][v_dim + 2].
  const std::vector<double> &partials() const { return partials_; }
  bool dbias_joins_batches = false, dbias_joins_heads = false;

 private:
  friend class AttentionEdges;
  void place_queries();
  void place_keys();
  void draw_tokens();
  void place_lists();
  void place_options();
  void check(rapt_status status, const char *function);
  void fault_unless(bool fine, const char *text) {
    if (!fine) faults_ += std::string(text) + "; ";
  }
  void check_inputs();
  template <class Run>
  void run_ranges(Way way, std::size_t tasks, std::initializer_list<Placed *> outputs, Run &&run);
  // Says where a query or a key is: the sequence (or page) and the token.
  struct Place {
    std::size_t b, t;
  };
  Place query(std::size_t b, std::size_t i) const;
  Place key(std::size_t b, std::size_t j) const;
  Extents queries_extents(std::size_t row) const;
  Extents keys_extents(std::size_t row) const;
  std::size_t keys_in_memory(std::size_t b) const;
  std::unique_ptr<GuardedBuffer> workspace(std::size_t bytes);
  void move_references(void *partials);

  const AttentionProblem &p_;
  const Attention<double> &a_;
  Random random_;
  bool backward_, in_place_;
  std::string faults_, layout_;
  rapt_attention_options o_ = RAPT_ATTENTION_OPTIONS_INIT;
  std::vector<std::int32_t> q_first_, kv_first_, table_;
  std::size_t page_size_ = 0, pages_ = 0, table_stride_ = 0;
  std::vector<std::int32_t>
      tokens_;  // [batch][kv_len], the token of a key in a cache of cache_len_ tokens; or empty
  std::size_t cache_len_ = 0;
  bool packed_ = false;
  Placed q_, k_, v_, k_scales_, v_scales_, bias_, mask_, query_scales_, out_, lse_;
  Listed slopes_, sinks_, q_offsets_, kv_offsets_, kv_lengths_, block_table_, q_starts_, kv_starts_;
  Listed key_lists_, key_list_lengths_;
  std::vector<double> partials_;
};

}  // namespace rapt::test::oracle
