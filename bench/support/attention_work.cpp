#include "support/attention_work.hpp"

namespace rapt::bench {

Work attention_work(const AttentionShape &shape, std::size_t element_bytes) {
  std::size_t pairs = 0;
  for (std::size_t i = 0; i < shape.q_len; ++i) pairs += shape.last_key(i) - shape.first_key(i);
  const std::size_t keys = shape.last_key(shape.q_len - 1) - shape.first_key(0);
  const std::size_t queries = shape.q_heads * shape.q_len;
  return {
      .elements = shape.q_heads * pairs * (shape.qk_dim + shape.v_dim),
      .element_bytes = element_bytes,
      .read = (shape.kv_heads * keys * (shape.qk_dim + shape.v_dim) + queries * shape.qk_dim) * element_bytes,
      .written = queries * shape.v_dim * element_bytes,
      .multiply_adds = true};
}

}  // namespace rapt::bench
