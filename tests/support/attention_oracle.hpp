// Makes attention problems for the oracle, and runs them through the library, forwards and backwards.
#pragma once

#include <limits>
#include <vector>

#include "oracle/attention.hpp"
#include "support/attention_call.hpp"
#include "support/attention_memory.hpp"
#include "support/isa.hpp"
#include "support/public_api.hpp"
#include "support/random.hpp"

namespace rapt::test {

// Is true if long double is precise enough to be the exact result for T.
template <class T>
constexpr bool measurable = std::numeric_limits<long double>::digits >= std::numeric_limits<T>::digits + 10;

template <class T, class Draw>
std::vector<T> draw(std::size_t count, Draw &&one) {
  std::vector<T> values(count);
  for (T &value : values) value = static_cast<T>(one());
  return values;
}

struct AttentionShape {
  std::size_t queries, keys, qk_dim, v_dim, q_heads = 1, kv_heads = 1;
};

// Queries and keys are normally distributed with standard deviation `sigma`, values with 1.
template <class T>
oracle::Attention<T> normal_attention(const AttentionShape &shape, Random &random, double sigma = 1) {
  oracle::Attention<T> a;
  a.q_len = shape.queries;
  a.kv_len = shape.keys;
  a.qk_dim = shape.qk_dim;
  a.v_dim = shape.v_dim;
  a.q_heads = shape.q_heads;
  a.kv_heads = shape.kv_heads;
  a.q = draw<T>(a.rows({}) * a.qk_dim, [&] { return sigma * random.gaussian(); });
  a.k = draw<T>(a.kv_heads * a.kv_len * a.qk_dim, [&] { return sigma * random.gaussian(); });
  a.v = draw<T>(a.kv_heads * a.kv_len * a.v_dim, [&] { return random.gaussian(); });
  return a;
}

// Lists options that change scores. Tests run each separately, with 4 query heads over 2 key/value heads.
template <class T>
struct ScoreOption {
  const char *name;
  void (*set)(oracle::Attention<T> &, Random &);
};
template <class T>
inline const ScoreOption<T> score_options[] = {
    {"plain", [](auto &, Random &) {}},
    {"softcap", [](auto &a, Random &) { a.softcap = 3; }},
    {"a wide softcap", [](auto &a, Random &) { a.softcap = 30; }},
    {"softcap of large scores", [](auto &a, Random &) { a.softcap = 2, a.scale = 3; }},
    {"scale", [](auto &a, Random &) { a.scale = -2; }},
    {"query scales",
     [](auto &a, Random &random) {
       a.query_scales = draw<T>(a.rows({}), [&] { return random.gaussian(); });
     }},
    {"bias",
     [](auto &a, Random &random) {
       a.bias = draw<T>(a.rows({}) * a.kv_len, [&] { return 5 * random.gaussian(); });
     }},
    {"a bias for all",
     [](auto &a, Random &random) {
       a.bias_repeats = {true, true, true};
       a.bias = draw<T>(a.kv_len, [&] { return 2 * random.gaussian(); });
     }},
    {"alibi",
     [](auto &a, Random &) {
       a.alibi_slopes = {T(0.25), T(0.003), T(1), T(-0.1)};
       a.causal = oracle::Causal::bottom_right;
     }},
    {"sinks",
     [](auto &a, Random &) {
       a.sinks = {T(1), T(-2), T(3), T(0)};
     }},
};

template <class T>
rapt_attention_options options_of(const oracle::Attention<T> &a) {
  rapt_attention_options o = attention_options<T>();
  o.batch = a.batch;
  o.q_heads = a.q_heads;
  o.kv_heads = a.kv_heads;
  o.q_len = a.q_len;
  o.kv_len = a.kv_len;
  o.qk_dim = a.qk_dim;
  o.v_dim = a.v_dim;
  o.scale = a.scale;
  o.softcap = a.softcap;
  if (!a.alibi_slopes.empty()) o.alibi_slopes = a.alibi_slopes.data();
  if (!a.sinks.empty()) o.sinks = a.sinks.data();
  if (!a.query_scales.empty()) o.query_scales = a.query_scales.data();
  if (!a.bias.empty()) o.bias = a.bias.data();
  if (a.bias_repeats.batch) o.bias_strides = {RAPT_REPEAT, RAPT_REPEAT, RAPT_REPEAT};
  set_visibility(a, o);
  return o;
}

template <class T>
AttentionResults<T> run_forward(const oracle::Attention<T> &a) {
  AttentionResults<T> results;
  results.out.resize(a.rows({}) * a.v_dim);
  results.lse.resize(a.rows({}));
  rapt_attention_options options = options_of(a);
  run_attention(a.q, a.k, a.v, options, results);
  return results;
}

template <class T>
AttentionResults<T> run_forward_and_backward(const oracle::Attention<T> &a, const std::vector<T> &dout) {
  AttentionResults<T> results = run_forward(a);
  results.dbias.resize(a.bias.size());
  results.dsinks.resize(a.sinks.size());
  rapt_attention_options options = options_of(a);
  options.lse = results.lse.data();
  run_attention_backward(a.q, a.k, a.v, dout, options, T(0), results);
  return results;
}

}  // namespace rapt::test
