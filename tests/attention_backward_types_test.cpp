// The gradient of attention over 16-bit elements is that of the widened arrays in f32, whose elements are
// rounded once: the same bits, for every combination of types, in the default arithmetic of each. All arrays
// and the workspace end at guard pages.
#include <doctest/doctest.h>

#include <cstring>
#include <list>
#include <string>
#include <vector>

#include "rapt/rapt.h"
#include "support/bits.hpp"
#include "support/every_level.hpp"
#include "support/guarded_buffer.hpp"
#include "support/public_api.hpp"
#include "support/random.hpp"

namespace rapt::test {
namespace {

struct Shape {
  std::size_t queries, keys, qk_dim, v_dim, q_heads = 2, kv_heads = 1;
};
// Tails and whole vectors, blocks and tiles; parts of a head; keys beyond a sequence's length.
constexpr Shape shapes[] = {{1, 70, 64, 64}, {3, 5, 17, 5}, {70, 200, 16, 33, 2, 2}, {40, 130, 33, 20, 3, 1}};

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
template <class Out, class E>
std::vector<std::uint64_t> bits_as(const E *values, std::size_t count) {
  std::vector<std::uint64_t> made;
  for (std::size_t i = 0; i < count; ++i) made.push_back(canonical_bits(Out(values[i])));
  return made;
}

template <class Q, class KV, class Out>
struct Inputs {
  std::vector<Q> q;
  std::vector<KV> k, v;
  std::vector<Out> out, dout;
  std::vector<float> lse, bias, sinks;
};

// Of arrays and a workspace that end at guard pages.
class Memory {
 public:
  template <class T>
  T *place(std::size_t count) {
    buffers_.emplace_back(count * sizeof(T), Placement::ends_at_guard, 0);
    return static_cast<T *>(buffers_.back().data());
  }
  template <class T>
  T *copy(const std::vector<T> &values) {
    T *const placed = place<T>(values.size());
    if (!values.empty()) std::memcpy(placed, values.data(), values.size() * sizeof(T));
    return placed;
  }
  bool surroundings_intact() const {
    for (const GuardedBuffer &buffer : buffers_) {
      if (!buffer.surroundings_intact()) return false;
    }
    return true;
  }

 private:
  std::list<GuardedBuffer> buffers_;
};

struct Gradients {
  std::vector<std::uint64_t> dq, dk, dv, dbias, dsinks;
  bool operator==(const Gradients &) const = default;
};

enum class Calls { whole, task_by_task };

// DQ and DKV are the types of the gradients; their bits are those after rounding to RoundedQ and RoundedKV.
template <class DQ, class DKV, class RoundedQ, class RoundedKV, class Q, class KV, class Out>
Gradients run(const rapt_attention_options &given, rapt_type gradient_type, Calls calls,
              const Inputs<Q, KV, Out> &in) {
  rapt_attention_options o = given;
  o.q_type = Api<Q>::type;
  o.kv_type = Api<KV>::type;
  o.out_type = Api<Out>::type;
  Memory memory;
  std::vector<float> lse = in.lse;
  o.lse = memory.copy(lse);
  o.bias = memory.copy(in.bias);
  o.bias_strides = {RAPT_REPEAT, RAPT_REPEAT, static_cast<std::ptrdiff_t>(o.kv_len)};
  o.sinks = memory.copy(in.sinks);
  rapt_attention_gradients g = RAPT_ATTENTION_GRADIENTS_INIT;
  g.type = gradient_type;
  g.out = memory.copy(in.out);
  g.dout = memory.copy(in.dout);
  DQ *const dq = memory.place<DQ>(in.q.size());
  DKV *const dk = memory.place<DKV>(in.k.size()), *const dv = memory.place<DKV>(in.v.size());
  g.dq = dq, g.dk = dk, g.dv = dv;
  float *const dbias = memory.place<float>(in.bias.size()), *const dsinks =
                                                                memory.place<float>(in.sinks.size());
  g.dbias = dbias, g.dsinks = dsinks;
  const void *const q = memory.copy(in.q), *const k = memory.copy(in.k), *const v = memory.copy(in.v);
  std::size_t bytes = 0, tasks = 0;
  REQUIRE(rapt_attention_backward_workspace(&o, &bytes) == RAPT_OK);
  void *const workspace = memory.place<unsigned char>(bytes);
  if (calls == Calls::whole) {
    REQUIRE(rapt_attention_backward(q, k, v, &o, &g, workspace, bytes) == RAPT_OK);
  } else {
    REQUIRE(rapt_attention_backward_tasks(&o, &g, &tasks) == RAPT_OK);
    for (; tasks > 0; --tasks) {
      REQUIRE(rapt_attention_backward_run(q, k, v, &o, &g, tasks - 1, tasks, workspace, bytes) == RAPT_OK);
    }
  }
  CHECK(memory.surroundings_intact());
  return {bits_as<RoundedQ>(dq, in.q.size()), bits_as<RoundedKV>(dk, in.k.size()),
          bits_as<RoundedKV>(dv, in.v.size()), bits_as<float>(dbias, in.bias.size()),
          bits_as<float>(dsinks, in.sinks.size())};
}

template <class Q, class KV, class Out>
Inputs<Q, KV, Out> draw(const Shape &shape, Random &random) {
  const std::size_t queries = shape.q_heads * shape.queries, keys = shape.kv_heads * shape.keys;
  Inputs<Q, KV, Out> in;
  in.q = draw_elements<Q>(queries * shape.qk_dim, random);
  in.k = draw_elements<KV>(keys * shape.qk_dim, random);
  in.v = draw_elements<KV>(keys * shape.v_dim, random);
  in.out = draw_elements<Out>(queries * shape.v_dim, random);
  in.dout = draw_elements<Out>(queries * shape.v_dim, random);
  in.lse = draw_elements<float>(queries, random);
  for (float &lse : in.lse) lse += 4;
  in.bias = draw_elements<float>(shape.queries * shape.keys, random);
  in.sinks = draw_elements<float>(shape.q_heads, random);
  return in;
}

template <class Q, class KV, class Out>
void compare(const Shape &shape, const rapt_attention_options &o, Random &random) {
  const Inputs<Q, KV, Out> in = draw<Q, KV, Out>(shape, random);
  const Inputs<float, float, float> wide = {widened(in.q),    widened(in.k), widened(in.v), widened(in.out),
                                            widened(in.dout), in.lse,        in.bias,       in.sinks};
  const std::string types = std::string(Api<Q>::element) + " " + Api<KV>::element + " " + Api<Out>::element;
  CAPTURE(types);
  const Gradients numbers = run<float, float, float, float>(o, RAPT_TYPE_DEFAULT, Calls::whole, wide);
  const Gradients rounded = run<float, float, Q, KV>(o, RAPT_TYPE_DEFAULT, Calls::whole, wide);
  for (const Calls calls : {Calls::whole, Calls::task_by_task}) {
    CHECK((run<float, float, float, float>(o, RAPT_F32, calls, in) == numbers));
    CHECK((run<Q, KV, Q, KV>(o, RAPT_TYPE_DEFAULT, calls, in) == rounded));
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
  on_every_level([] {
    Random random(22);
    for (const Shape &shape : shapes) {
      CAPTURE(shape.queries);
      CAPTURE(shape.keys);
      rapt_attention_options o = RAPT_ATTENTION_OPTIONS_INIT;
      o.q_heads = shape.q_heads;
      o.kv_heads = shape.kv_heads;
      o.q_len = shape.queries;
      o.kv_len = shape.keys;
      o.qk_dim = shape.qk_dim;
      o.v_dim = shape.v_dim;
      if (random.one_in(2)) o.causal = RAPT_CAUSAL_BOTTOM_RIGHT;
      if (random.one_in(2)) o.softcap = 5;
      if (random.one_in(2)) o.window_left = 40;
      const std::int32_t length = static_cast<std::int32_t>(shape.keys - shape.keys / 3);
      if (random.one_in(2)) o.kv_lengths = &length;
      compare_all<float>(shape, o, random);
      compare_all<F16>(shape, o, random);
      compare_all<BF16>(shape, o, random);
    }
  });
}

// A row or key that is not finite takes other paths.
TEST_CASE("elements that are not finite") {
  on_every_level([] {
    Random random(3);
    const Shape shape{5, 70, 16, 16};
    rapt_attention_options o = RAPT_ATTENTION_OPTIONS_INIT;
    o.q_heads = shape.q_heads;
    o.kv_heads = shape.kv_heads;
    o.q_len = shape.queries;
    o.kv_len = shape.keys;
    o.qk_dim = shape.qk_dim;
    o.causal = RAPT_CAUSAL_TOP_LEFT;
    for (const bool in_keys : {false, true}) {
      auto in = draw<BF16, BF16, BF16>(shape, random);
      (in_keys ? in.k : in.q)[20] = BF16(std::numeric_limits<float>::infinity());
      const Inputs<float, float, float> wide = {widened(in.q),   widened(in.k),    widened(in.v),
                                                widened(in.out), widened(in.dout), in.lse,
                                                in.bias,         in.sinks};
      CHECK((run<BF16, BF16, BF16, BF16>(o, RAPT_TYPE_DEFAULT, Calls::whole, in) ==
             run<float, float, BF16, BF16>(o, RAPT_TYPE_DEFAULT, Calls::whole, wide)));
    }
  });
}

TEST_CASE("types that there are not") {
  rapt_attention_options o = RAPT_ATTENTION_OPTIONS_INIT;
  o.arithmetic = RAPT_ARITHMETIC_F32;
  o.q_type = RAPT_BF16;
  o.q_len = o.kv_len = o.qk_dim = 1;
  rapt_attention_gradients g = RAPT_ATTENTION_GRADIENTS_INIT;
  std::size_t tasks = 0;
  CHECK(rapt_attention_backward_tasks(&o, &g, &tasks) == RAPT_OK);
  g.type = RAPT_F32;
  CHECK(rapt_attention_backward_tasks(&o, &g, &tasks) == RAPT_OK);
  for (const rapt_type type : {RAPT_F64, RAPT_F16, RAPT_BF16, RAPT_I8}) {
    g.type = type;
    CHECK(rapt_attention_backward_tasks(&o, &g, &tasks) == RAPT_BAD_TYPE);
  }
  const int no_type = 77;
  std::memcpy(&g.type, &no_type, sizeof no_type);
  CHECK(rapt_attention_backward_tasks(&o, &g, &tasks) == RAPT_BAD_TYPE);
}

TEST_CASE("the workspace has the size that rapt.h tells") {
  for (const rapt_type type : {RAPT_F16, RAPT_BF16}) {
    for (int which = 0; which < 3; ++which) {
      rapt_attention_options o = RAPT_ATTENTION_OPTIONS_INIT;
      o.arithmetic = RAPT_ARITHMETIC_F32;
      o.q_type = which == 0 ? type : RAPT_F32;
      o.kv_type = which == 1 ? type : RAPT_F32;
      o.out_type = which == 2 ? type : RAPT_F32;
      o.qk_dim = 24, o.v_dim = 16;
      o.q_len = 9, o.kv_len = 1000;
      std::size_t bytes = 0;
      CHECK(rapt_attention_backward_workspace(&o, &bytes) == RAPT_OK);
      CHECK(bytes == 4 * (128 * 40 + 12800 + (128 + 1000) * 40 + 64) + 64);
    }
  }
}

}  // namespace
}  // namespace rapt::test
