// Attention in f32 arithmetic over 16-bit elements is attention of the widened queries, keys and values in
// f32, whose output is rounded once: the same bits, for every combination of types, by the scalar level.
#include <doctest/doctest.h>

#include <span>
#include <string>

#include "support/attention_call.hpp"
#include "support/bits.hpp"
#include "support/effort.hpp"
#include "support/isa.hpp"
#include "support/public_api.hpp"
#include "support/random.hpp"

namespace rapt::test {
namespace {

struct Shape {
  std::size_t queries, keys, qk_dim, v_dim, q_heads = 2, kv_heads = 1;
};
// Few and many rows; whole vectors and tails; a block and several chunks.
constexpr Shape shapes[] = {{1, 70, 64, 64},   {3, 530, 17, 5},   {1, 5, 8, 8},
                            {20, 130, 33, 20}, {70, 200, 64, 40}, {40, 1030, 16, 16, 8, 2}};

template <class E>
std::vector<E> draw_elements(std::size_t count, Random &random) {
  std::vector<E> values;
  for (std::size_t i = 0; i < count; ++i) values.push_back(E(2 * random.gaussian()));
  return values;
}
template <class E>
std::vector<float> widened(const std::vector<E> &values) {
  return {values.begin(), values.end()};
}

rapt_attention_options options_of(const Shape &shape) {
  rapt_attention_options o = RAPT_ATTENTION_OPTIONS_INIT;
  o.arithmetic = RAPT_ARITHMETIC_F32;
  o.q_heads = shape.q_heads;
  o.kv_heads = shape.kv_heads;
  o.q_len = shape.queries;
  o.kv_len = shape.keys;
  o.qk_dim = shape.qk_dim;
  o.v_dim = shape.v_dim;
  return o;
}

struct Results {
  std::vector<std::uint64_t> out, lse;
};

template <class Q, class KV, class Out>
Results run(const Shape &shape, const rapt_attention_options &given, const std::vector<Q> &q,
            const std::vector<KV> &k, const std::vector<KV> &v, bool packed) {
  rapt_attention_options o = given;
  o.q_type = Api<Q>::type;
  o.kv_type = Api<KV>::type;
  o.out_type = Api<Out>::type;
  std::vector<Out> out(shape.queries * shape.q_heads * shape.v_dim);
  std::vector<float> lse(shape.queries * shape.q_heads);
  o.lse = lse.data();
  std::vector<KV> keys = k;
  if (packed) {
    const std::size_t per_head = (shape.keys + 63) / 64 * 64 * shape.qk_dim;
    keys.assign(shape.kv_heads * per_head, KV(0));
    for (std::size_t h = 0; h < shape.kv_heads; ++h) {
      REQUIRE(rapt_attention_pack_keys(k.data() + h * shape.keys * shape.qk_dim, 0, 0, shape.keys, &o,
                                       keys.data() + h * per_head) == RAPT_OK);
    }
    o.packed_keys = 1;
  }
  std::vector<unsigned char> workspace = workspace_for(o);
  REQUIRE(rapt_attention(q.data(), keys.data(), v.data(), out.data(), &o, workspace.data(),
                         workspace.size()) == RAPT_OK);
  Results results;
  for (const Out element : out) results.out.push_back(canonical_bits(element));
  for (const float element : lse) results.lse.push_back(canonical_bits(element));
  return results;
}

template <class Out>
std::vector<std::uint64_t> rounded(const std::vector<std::uint64_t> &bits) {
  std::vector<std::uint64_t> made;
  for (const std::uint64_t b : bits)
    made.push_back(canonical_bits(Out(from_bits<float>(static_cast<std::uint32_t>(b)))));
  return made;
}

template <class Q, class KV, class Out>
void compare(const Shape &shape, const rapt_attention_options &o, Random &random) {
  const auto q = draw_elements<Q>(shape.q_heads * shape.queries * shape.qk_dim, random);
  const auto k = draw_elements<KV>(shape.kv_heads * shape.keys * shape.qk_dim, random);
  const auto v = draw_elements<KV>(shape.kv_heads * shape.keys * shape.v_dim, random);
  const Results wide = run<float, float, float>(shape, o, widened(q), widened(k), widened(v), false);
  const std::string types = std::string(Api<Q>::element) + " " + Api<KV>::element + " " + Api<Out>::element;
  CAPTURE(types);
  for (const bool packed : {false, true}) {
    CAPTURE(packed);
    const Results narrow = run<Q, KV, Out>(shape, o, q, k, v, packed);
    CHECK(narrow.out == rounded<Out>(wide.out));
    CHECK(narrow.lse == wide.lse);
  }
}

template <class Q, class KV>
void compare_outputs(const Shape &shape, const rapt_attention_options &o, Random &random) {
  compare<Q, KV, float>(shape, o, random);
  compare<Q, KV, F16>(shape, o, random);
  compare<Q, KV, BF16>(shape, o, random);
}
template <class Q>
void compare_all(const Shape &shape, const rapt_attention_options &o, Random &random) {
  compare_outputs<Q, float>(shape, o, random);
  compare_outputs<Q, F16>(shape, o, random);
  compare_outputs<Q, BF16>(shape, o, random);
}

TEST_CASE("every combination of element types") {
  const ForcedIsa scalar("scalar");  // rapt-validate has mixed types on the other levels
  Random random(14);
  // The last two are long: minutes under an emulator.
  const std::size_t count = native_or_emulated(std::size(shapes), std::size(shapes) - 2);
  for (const Shape &shape : std::span(shapes).first(count)) {
    CAPTURE(shape.queries);
    CAPTURE(shape.keys);
    rapt_attention_options o = options_of(shape);
    if (random.one_in(2)) o.causal = RAPT_CAUSAL_BOTTOM_RIGHT;
    if (random.one_in(3)) o.softcap = 5;
    if (random.one_in(3)) o.window_left = 40;
    compare_all<float>(shape, o, random);
    compare_all<F16>(shape, o, random);
    compare_all<BF16>(shape, o, random);
  }
}

}  // namespace
}  // namespace rapt::test
