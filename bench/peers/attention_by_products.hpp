// Attention of two matrix products with a softmax between them, as it is written where a library has the
// products alone. A block of queries at a time, whose scores stay in the cache; of the keys only those that
// some query of the block sees.
#pragma once

#include <cmath>
#include <cstddef>

#include "attention.hpp"
#include "peer.hpp"

namespace rapt::bench {

// products.scores(q, rows, q_stride, k, keys, dim, scale, s, s_stride) gives s = scale * q * k^T;
// products.values(s, rows, s_stride, v, keys, dim, out, out_stride) gives out = s * v.
// products.most_rows(shape) is how many queries make up a block, attention_score_rows at most.
// weights(row, begin, end, keys, softcap, sink) makes exp(s - max) of the scores from begin to end - 1, 0 of
// the others, and returns the sum.
template <class T, class Products>
void attention_by_products(const AttentionProblem<T> &problem, AttentionWeights<T> weights,
                           const Products &products) {
  const AttentionShape &shape = problem.shape;
  const std::size_t group = shape.group();
  const T scale = static_cast<T>(1 / std::sqrt(static_cast<double>(shape.qk_dim)));
  const T softcap = static_cast<T>(shape.softcap);

  const auto block = [&](std::size_t head, std::size_t i, std::size_t rows) {
    const bool heads = shape.q_len == 1;
    const std::size_t first = shape.first_key(i), last = shape.last_key(heads ? i : i + rows - 1);
    const std::size_t keys = last - first, stride = attention_score_stride(keys);
    const T *q = problem.q + (head * shape.q_len + i) * shape.qk_dim;
    const T *k = problem.k + (head / group * shape.kv_len + first) * shape.qk_dim;
    const T *v = problem.v + (head / group * shape.kv_len + first) * shape.v_dim;
    T *out = problem.out + (head * shape.q_len + i) * shape.v_dim, *s = problem.scratch;
    products.scores(q, rows, shape.qk_dim, k, keys, shape.qk_dim, scale, s, stride);
    T factors[attention_score_rows];
    for (std::size_t r = 0; r < rows; ++r) {
      const std::size_t row_head = heads ? head + r : head, row_i = heads ? i : i + r;
      factors[r] = 1 / weights(s + r * stride, shape.first_key(row_i) - first, shape.last_key(row_i) - first,
                               keys, softcap, problem.sinks ? problem.sinks + row_head : nullptr);
    }
    products.values(s, rows, stride, v, keys, shape.v_dim, out, shape.v_dim);
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t d = 0; d < shape.v_dim; ++d) out[r * shape.v_dim + d] *= factors[r];
    }
  };

  for_each_block(shape, products.most_rows(shape), block);
}

}  // namespace rapt::bench
