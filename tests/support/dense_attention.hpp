// Calls attention forwards and backwards over contiguous arrays of one sequence and one key/value head.
#pragma once

#include <vector>

#include "support/attention_call.hpp"
#include "support/bits.hpp"
#include "support/public_api.hpp"
#include "support/random.hpp"

namespace rapt::test {

// Returns the number of elements whose bits differ.
template <class T>
std::size_t differences(const std::vector<T> &a, const std::vector<T> &b) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < a.size(); ++i) count += !same_bits(a[i], b[i]);
  return count;
}

template <class T>
struct DenseAttention : AttentionResults<T> {
  std::vector<T> q, k, v, dout;
  std::vector<T> bias;             // if empty, the option is not set
  std::vector<std::uint8_t> mask;  // if empty, the option is not set
  rapt_attention_options options = attention_options<T>();

  DenseAttention(std::size_t queries, std::size_t keys, std::size_t qk_dim, std::size_t v_dim,
                 std::uint64_t seed = 1, std::size_t heads = 1) {
    Random random(seed);
    const auto draw = [&](std::size_t count) {
      std::vector<T> values(count);
      for (T &value : values) value = static_cast<T>(random.gaussian());
      return values;
    };
    q = draw(heads * queries * qk_dim);
    k = draw(keys * qk_dim);
    v = draw(keys * v_dim);
    dout = draw(heads * queries * v_dim);
    options.q_heads = heads;
    options.kv_heads = 1;
    options.q_len = queries;
    options.kv_len = keys;
    options.qk_dim = qk_dim;
    options.v_dim = v_dim;
  }

  void run_forward() {
    options.bias = bias.empty() ? nullptr : bias.data();
    options.mask = mask.empty() ? nullptr : mask.data();
    this->out.resize(dout.size());
    this->lse.resize(options.q_heads * options.q_len);
    run_attention(q, k, v, options, *this);
  }
  // Runs the call forwards and backwards.
  void run() {
    run_forward();
    this->dbias.resize(bias.size());
    run_attention_backward(q, k, v, dout, options, T(-77), *this);
  }
};

}  // namespace rapt::test
