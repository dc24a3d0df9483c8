// The problem that the tests of attention's special values change, forwards and backwards.
#pragma once

#include <doctest/doctest.h>

#include <span>
#include <vector>

#include "support/attention_call.hpp"
#include "support/effort.hpp"
#include "support/public_api.hpp"
#include "support/random.hpp"
#include "support/special_values.hpp"

namespace rapt::test {

// One sequence over dense arrays, of one key/value head. Results that no call has written are `unwritten`.
template <class T>
struct DenseAttention : AttentionResults<T> {
  using Element = T;
  static constexpr T unwritten = -77;

  std::size_t queries, keys, qk_dim, v_dim, heads;
  std::vector<T> q, k, v, dout;
  std::vector<T> bias, query_scales, sinks;  // of the options; empty: not set
  std::vector<std::uint8_t> mask;
  std::vector<std::int32_t> kv_lengths;
  rapt_attention_options options = attention_options<T>();

  DenseAttention(std::size_t query_count, std::size_t key_count, std::size_t dim, std::size_t width,
                 std::uint64_t seed = 1, std::size_t head_count = 1)
      : queries(query_count), keys(key_count), qk_dim(dim), v_dim(width), heads(head_count) {
    Random random(seed);
    const auto draw = [&](std::size_t count) {
      std::vector<T> values(count);
      for (T &value : values) value = static_cast<T>(random.gaussian());
      return values;
    };
    q = draw(rows() * qk_dim);
    k = draw(keys * qk_dim);
    v = draw(keys * v_dim);
    dout = draw(rows() * v_dim);
    options.q_heads = heads;
    options.kv_heads = 1;
    options.q_len = queries;
    options.kv_len = keys;
    options.qk_dim = qk_dim;
    options.v_dim = v_dim;
  }

  std::size_t rows() const { return heads * queries; }
  std::size_t cols() const { return keys; }
  void set_length(std::size_t length) { kv_lengths = {static_cast<std::int32_t>(length)}; }
  void hide(std::size_t row, std::size_t key) {
    if (mask.empty()) mask.assign(rows() * keys, 1);
    mask[row * keys + key] = 0;
  }
  void hide_all_from(std::size_t row) {
    for (std::size_t j = 0; j < keys; ++j) hide(row, j);
  }

  void run_forward() {
    bind_options();
    this->out.assign(rows() * v_dim, unwritten);
    this->lse.assign(rows(), unwritten);
    run_attention(q, k, v, options, *this);
  }
  // Forwards and backwards.
  void run() {
    run_forward();
    this->dbias.assign(bias.size(), unwritten);
    this->dsinks.assign(sinks.size(), unwritten);
    run_attention_backward(q, k, v, dout, options, unwritten, *this);
  }
  void bind_options() {
    const auto given = [](const auto &values) { return values.empty() ? nullptr : values.data(); };
    options.bias = given(bias);
    options.query_scales = given(query_scales);
    options.sinks = given(sinks);
    options.mask = given(mask);
    options.kv_lengths = given(kv_lengths);
    options.query_scale_strides.token = query_scales.empty() ? 0 : 1;
  }

  std::span<T> query(std::size_t i) { return part(q, i, qk_dim); }
  std::span<T> key(std::size_t j) { return part(k, j, qk_dim); }
  std::span<T> value(std::size_t j) { return part(v, j, v_dim); }
  std::span<T> out_of(std::size_t i) { return part(this->out, i, v_dim); }
  std::span<T> dout_of(std::size_t i) { return part(dout, i, v_dim); }
  std::span<T> dq_of(std::size_t i) { return part(this->dq, i, qk_dim); }
  std::span<T> dk_of(std::size_t j) { return part(this->dk, j, qk_dim); }
  std::span<T> dv_of(std::size_t j) { return part(this->dv, j, v_dim); }
  void spoil_key(std::size_t j, T with) {
    std::ranges::fill(key(j), with);
    std::ranges::fill(value(j), with);
  }
  void spoil_query(std::size_t i, T with) {
    std::ranges::fill(query(i), with);
    std::ranges::fill(dout_of(i), with);
  }
  bool row_is_nan(std::size_t i) { return all_nan(out_of(i)) && std::isnan(this->lse[i]); }
  bool key_gradient_is_zero(std::size_t j) { return all_plus_zero(dk_of(j)) && all_plus_zero(dv_of(j)); }
  // Looks only at results that have been computed.
  bool results_are_finite() const {
    return all_finite(this->out) && all_finite(this->dq) && all_finite(this->dk) && all_finite(this->dv);
  }

 private:
  static std::span<T> part(std::vector<T> &values, std::size_t index, std::size_t width) {
    return std::span(values).subspan(index * width, width);
  }
};

template <class T>
std::size_t differences(const DenseAttention<T> &a, const DenseAttention<T> &b) {
  return differences(a.out, b.out) + differences(a.lse, b.lse) + differences(a.dq, b.dq) +
         differences(a.dk, b.dk) + differences(a.dv, b.dv) + differences(a.dbias, b.dbias) +
         differences(a.dsinks, b.dsinks);
}

inline const std::vector<std::size_t> &key_counts() {
  static const auto counts = native_or_emulated<std::vector<std::size_t>>(
      {1, 2, 7, 16, 33, 64, 65, 100, 130, 513, 600}, {1, 7, 65, 130});
  return counts;
}
// There are fewer for the gradient, which takes several times as long.
inline const std::vector<std::size_t> &gradient_key_counts() {
  static const auto counts =
      native_or_emulated<std::vector<std::size_t>>({1, 2, 7, 33, 64, 65, 130}, {1, 7, 65});
  return counts;
}

// body(keys, place) for places in every part of a loop over keys, the last key among them.
template <class Body>
void for_each_place(const std::vector<std::size_t> &counts, std::size_t dense_step, Body &&body) {
  for (const std::size_t keys : counts) {
    CAPTURE(keys);
    const std::size_t step =
        keys < 70 ? native_or_emulated<std::size_t>(dense_step, 13) : native_or_emulated<std::size_t>(17, 61);
    for (std::size_t place = 0;; place = std::min(place + step, keys - 1)) {
      CAPTURE(place);
      body(keys, place);
      if (place == keys - 1) break;
    }
  }
}

}  // namespace rapt::test
