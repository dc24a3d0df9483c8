// A bad argument of attention gives the status that names it, and out, lse and partials keep what they held.
#include <doctest/doctest.h>

#include <cstring>
#include <initializer_list>
#include <limits>
#include <string>
#include <vector>

#include "support/bits.hpp"
#include "support/public_api.hpp"

using namespace rapt::test;

namespace {

constexpr std::size_t batch = 2, q_heads = 4, kv_heads = 2, q_len = 3, kv_len = 40, qk_dim = 6, v_dim = 5;
constexpr std::size_t q_size = batch * q_heads * q_len * qk_dim, k_size = batch * kv_heads * kv_len * qk_dim,
                      v_size = batch * kv_heads * kv_len * v_dim, out_size = batch * q_heads * q_len * v_dim,
                      lse_size = batch * q_heads * q_len;

// A good call's arguments, of which a test spoils one.
template <class T>
struct Call {
  std::vector<T> q_memory = std::vector<T>(3 * q_size, T(0.5));
  std::vector<T> k_memory = std::vector<T>(3 * k_size, T(0.25));
  std::vector<T> v_memory = std::vector<T>(3 * v_size, T(0.125));
  std::vector<T> out_memory = std::vector<T>(3 * q_size, T(-7));
  std::vector<T> lse_memory = std::vector<T>(3 * lse_size, T(-7));
  std::vector<T> partials_memory = std::vector<T>(2 * lse_size * (v_dim + 2), T(-7));
  std::vector<unsigned char> workspace_memory;
  const T *q = q_memory.data(), *k = k_memory.data(), *v = v_memory.data();
  T *out = out_memory.data(), *partials = partials_memory.data();
  void *workspace;
  std::size_t workspace_size = 0, first = 0, last = 4;
  rapt_attention_options options = attention_options<T>();
  const rapt_attention_options *given = &options;

  Call() {
    options.batch = batch;
    options.q_heads = q_heads;
    options.kv_heads = kv_heads;
    options.q_len = q_len;
    options.kv_len = kv_len;
    options.qk_dim = qk_dim;
    options.lse = lse_memory.data();
    set_v_dim(v_dim);
  }
  Call(const Call &) = delete;

  void set_v_dim(std::size_t dim) {
    options.v_dim = dim;
    REQUIRE(rapt_attention_workspace(&options, &workspace_size) == RAPT_OK);
    workspace_memory.resize(workspace_size);
    workspace = workspace_memory.data();
  }

  rapt_status whole() { return rapt_attention(q, k, v, out, given, workspace, workspace_size); }
  rapt_status tasks() {
    return rapt_attention_run(q, k, v, out, given, first, last, workspace, workspace_size);
  }
  rapt_status partial() {
    return rapt_attention_partial(q, k, v, partials, given, first, last, workspace, workspace_size);
  }
  rapt_status merge() {
    return rapt_attention_merge(partials, out, given, first, last, workspace, workspace_size);
  }
  bool untouched() const {
    std::size_t touched = 0;
    for (const T value : q_memory) touched += value != T(0.5);
    for (const T value : k_memory) touched += value != T(0.25);
    for (const T value : v_memory) touched += value != T(0.125);
    for (const std::vector<T> *memory : {&out_memory, &lse_memory, &partials_memory}) {
      for (const T value : *memory) touched += value != T(-7);
    }
    return touched == 0;
  }
};

enum Functions : unsigned { whole = 1, tasks = 2, partial = 4, merge = 8 };
constexpr unsigned all = whole | tasks | partial | merge, reads_inputs = whole | tasks | partial,
                   writes_out = whole | tasks | merge;

template <class T, class Spoil>
void rejects(unsigned functions, rapt_status expected, Spoil &&spoil) {
  CAPTURE(std::string(rapt_status_text(expected)));
  for (const unsigned function : {whole, tasks, partial, merge}) {
    if (!(functions & function)) continue;
    CAPTURE(function);
    Call<T> call;
    spoil(call);
    const rapt_status status = function == whole     ? call.whole()
                               : function == tasks   ? call.tasks()
                               : function == partial ? call.partial()
                                                     : call.merge();
    CHECK(status == expected);
    if (expected != RAPT_OK) CHECK(call.untouched());
  }
}

template <class T, class Spoil>
void accepts(unsigned functions, Spoil &&spoil) {
  rejects<T>(functions, RAPT_OK, std::forward<Spoil>(spoil));
}

}  // namespace

TEST_CASE_TEMPLATE("null pointers", T, float, double) {
  accepts<T>(all, [](auto &) {});
  rejects<T>(reads_inputs, RAPT_BAD_Q, [](auto &call) { call.q = nullptr; });
  rejects<T>(reads_inputs, RAPT_BAD_K, [](auto &call) { call.k = nullptr; });
  rejects<T>(reads_inputs, RAPT_BAD_V, [](auto &call) { call.v = nullptr; });
  rejects<T>(writes_out, RAPT_BAD_OUT, [](auto &call) { call.out = nullptr; });
  rejects<T>(partial | merge, RAPT_BAD_PARTIALS, [](auto &call) { call.partials = nullptr; });
  rejects<T>(all, RAPT_BAD_OPTIONS, [](auto &call) { call.given = nullptr; });
  rejects<T>(all, RAPT_BAD_WORKSPACE, [](auto &call) { call.workspace = nullptr; });
  rejects<T>(all, RAPT_BAD_WORKSPACE, [](auto &call) { call.workspace_size -= 1; });
  // Without keys there is nothing to read.
  accepts<T>(whole, [](auto &call) {
    call.k = call.v = nullptr;
    call.options.kv_len = 0;
  });
  accepts<T>(whole, [](auto &call) {
    call.q = call.k = call.v = call.out = nullptr;
    call.options.q_len = 0;
  });
}

TEST_CASE_TEMPLATE("the queries answer with the same statuses", T, float, double) {
  std::size_t number = 7, length = 7;
  const auto ask = [&](const rapt_attention_options *options, rapt_status expected) {
    CHECK(rapt_attention_workspace(options, &number) == expected);
    CHECK(rapt_attention_tasks(options, &number) == expected);
    CHECK(rapt_attention_partial_tasks(options, &number, &length) == expected);
  };
  ask(nullptr, RAPT_BAD_OPTIONS);
  Call<T> call;
  ask(&call.options, RAPT_OK);
  CHECK(number == 4);  // 2 sequences of 2 key/value heads
  CHECK(length == lse_size * (v_dim + 2));
  call.options.kv_len = 1025;
  CHECK(rapt_attention_partial_tasks(&call.options, &number, &length) == RAPT_OK);
  CHECK(number == 12);
  CHECK(length == 3 * lse_size * (v_dim + 2));
  call.options.q_len = 100;  // 200 rows a key/value head
  CHECK(rapt_attention_tasks(&call.options, &number) == RAPT_OK);
  CHECK(number == 16);
  CHECK(rapt_attention_partial_tasks(&call.options, nullptr, &length) == RAPT_OK);
  CHECK(rapt_attention_partial_tasks(&call.options, &number, nullptr) == RAPT_OK);
  CHECK(rapt_attention_tasks(&call.options, nullptr) == RAPT_BAD_OUT);
  CHECK(rapt_attention_workspace(&call.options, nullptr) == RAPT_BAD_OUT);
  call.options.qk_dim = 0;
  number = length = 7;
  ask(&call.options, RAPT_BAD_DIM);
  CHECK(number == 7);
  CHECK(length == 7);
}

TEST_CASE_TEMPLATE("the shape", T, float, double) {
  rejects<T>(all, RAPT_BAD_HEADS, [](auto &call) { call.options.kv_heads = 3; });
  rejects<T>(all, RAPT_BAD_HEADS, [](auto &call) { call.options.kv_heads = 8; });
  rejects<T>(all, RAPT_BAD_DIM, [](auto &call) { call.options.qk_dim = 0; });
  rejects<T>(all, RAPT_BAD_DIM, [](auto &call) { call.options.qk_dim = SIZE_MAX; });
  rejects<T>(all, RAPT_BAD_DIM, [](auto &call) { call.options.v_dim = SIZE_MAX; });
  rejects<T>(all, RAPT_BAD_SIZE, [](auto &call) { call.options.batch = SIZE_MAX; });
  rejects<T>(all, RAPT_BAD_SIZE, [](auto &call) { call.options.q_len = SIZE_MAX / 4; });
  rejects<T>(all, RAPT_BAD_SIZE, [](auto &call) { call.options.kv_len = SIZE_MAX / 4; });
  rejects<T>(all, RAPT_BAD_SIZE, [](auto &call) {
    call.options.q_heads = std::size_t{1} << 62;
    call.options.kv_heads = 1;
  });
  rejects<T>(reads_inputs, RAPT_BAD_SIZE, [](auto &call) { call.options.q_strides = {PTRDIFF_MAX, 18, 6}; });
  rejects<T>(reads_inputs, RAPT_BAD_SIZE, [](auto &call) { call.options.k_strides = {1, 1, PTRDIFF_MAX}; });
  rejects<T>(reads_inputs, RAPT_BAD_SIZE, [](auto &call) { call.options.v_strides = {1, PTRDIFF_MAX, 1}; });
}

TEST_CASE_TEMPLATE("strides", T, float, double) {
  for (int dimension = 0; dimension < 3; ++dimension) {
    for (const std::ptrdiff_t bad : {std::ptrdiff_t{0}, std::ptrdiff_t{-1}, RAPT_REPEAT}) {
      const auto with_bad = [&](rapt_strides strides) {
        (dimension == 0 ? strides.batch : dimension == 1 ? strides.head : strides.token) = bad;
        return strides;
      };
      const rapt_strides good{1000, 100, 10};
      if (bad != RAPT_REPEAT) {
        rejects<T>(reads_inputs, RAPT_BAD_Q_STRIDES,
                   [&](auto &call) { call.options.q_strides = with_bad(good); });
        rejects<T>(reads_inputs, RAPT_BAD_K_STRIDES,
                   [&](auto &call) { call.options.k_strides = with_bad(good); });
        rejects<T>(reads_inputs, RAPT_BAD_V_STRIDES,
                   [&](auto &call) { call.options.v_strides = with_bad(good); });
      }
      rejects<T>(writes_out, RAPT_BAD_OUT_STRIDES, [&](auto &call) {
        call.options.out_strides = with_bad({60, 15, 5});
      });
      rejects<T>(writes_out, RAPT_BAD_LSE_STRIDES, [&](auto &call) {
        call.options.lse_strides = with_bad({12, 3, 1});
      });
      const std::vector<T> bias(kv_len, T(0));
      const std::vector<std::uint8_t> mask(kv_len, 1);
      const rapt_strides repeat{RAPT_REPEAT, RAPT_REPEAT, RAPT_REPEAT};
      for (const bool is_there : {true, false}) {
        // Without the array any stride is one too many.
        if (is_there && bad == RAPT_REPEAT) continue;
        rejects<T>(all, RAPT_BAD_BIAS_STRIDES, [&](auto &call) {
          if (is_there) call.options.bias = bias.data();
          call.options.bias_strides = with_bad(repeat);
        });
        rejects<T>(all, RAPT_BAD_MASK_STRIDES, [&](auto &call) {
          if (is_there) call.options.mask = mask.data();
          call.options.mask_strides = with_bad(repeat);
        });
        rejects<T>(all, RAPT_BAD_QUERY_SCALES, [&](auto &call) {
          if (is_there) call.options.query_scales = bias.data();
          call.options.query_scale_strides = with_bad(repeat);
        });
      }
      // Strides of dimensions of 1 may be anything.
      accepts<T>(all, [&](auto &call) {
        auto &o = call.options;
        if (dimension == 0) o.batch = 1;
        if (dimension == 1) o.q_heads = o.kv_heads = 1;
        if (dimension == 2) o.q_len = o.kv_len = 1;
        call.last = 1;
        o.q_strides = with_bad({18, 6, 6});
        o.k_strides = o.v_strides = with_bad({240, 6, 6});
        o.out_strides = with_bad(dimension == 2 ? rapt_strides{20, 5, 0} : rapt_strides{60, 15, 5});
        o.lse_strides = with_bad(dimension == 2 ? rapt_strides{4, 1, 0} : rapt_strides{12, 3, 1});
      });
    }
  }
  // Rows of an output must not share elements.
  for (const rapt_strides bad : {rapt_strides{60, 15, 4}, rapt_strides{60, 14, 5}, rapt_strides{59, 15, 5},
                                 rapt_strides{0, 15, 5}, rapt_strides{60, 0, 5}, rapt_strides{60, 15, 0}}) {
    rejects<T>(writes_out, RAPT_BAD_OUT_STRIDES, [&](auto &call) { call.options.out_strides = bad; });
  }
  for (const rapt_strides bad :
       {rapt_strides{12, 2, 1}, rapt_strides{11, 3, 1}, rapt_strides{12, 3, 0}, rapt_strides{1, 2, 4}}) {
    rejects<T>(writes_out, RAPT_BAD_LSE_STRIDES, [&](auto &call) { call.options.lse_strides = bad; });
  }
  accepts<T>(writes_out, [](auto &call) { call.options.out_strides = {60, 5, 20}; });
  accepts<T>(writes_out, [](auto &call) { call.options.out_strides = {5, 10, 40}; });
  accepts<T>(writes_out, [](auto &call) { call.options.lse_strides = {1, 2, 8}; });
  // Inputs may repeat.
  accepts<T>(reads_inputs, [](auto &call) {
    call.options.q_strides = call.options.k_strides = call.options.v_strides = {RAPT_REPEAT, RAPT_REPEAT, 1};
  });
}

TEST_CASE_TEMPLATE("numbers", T, float, double) {
  constexpr double infinity = std::numeric_limits<double>::infinity(),
                   nan = std::numeric_limits<double>::quiet_NaN();
  for (const double bad : {infinity, -infinity, nan}) {
    rejects<T>(all, RAPT_BAD_SCALE, [&](auto &call) { call.options.scale = bad; });
    rejects<T>(all, RAPT_BAD_SOFTCAP, [&](auto &call) { call.options.softcap = bad; });
  }
  rejects<T>(all, RAPT_BAD_SOFTCAP, [](auto &call) { call.options.softcap = -1; });
  // What the arithmetic type cannot hold, or only as a subnormal number, is no other number's name.
  constexpr double largest{std::numeric_limits<T>::max()}, least{std::numeric_limits<T>::min()};
  for (const double bad : {largest, largest / 1.4, least / 1.1, 5e-324}) {
    rejects<T>(all, RAPT_BAD_SCALE, [&](auto &call) { call.options.scale = bad; });
    rejects<T>(all, RAPT_BAD_SCALE, [&](auto &call) { call.options.scale = -bad; });
  }
  for (const double good : {largest / 1.5, least, -least}) {
    accepts<T>(all, [&](auto &call) { call.options.scale = good; });
  }
  rejects<T>(all, RAPT_BAD_SOFTCAP, [](auto &call) { call.options.softcap = -5e-324; });
  rejects<T>(all, RAPT_BAD_SOFTCAP, [](auto &call) { call.options.softcap = 5e-324; });
  for (const auto &[scale, softcap] :
       {std::pair{1.0, least / 1.1}, {1.0, largest}, {1e10, least}, {1e-10, 1e-3 / least}, {1e-5, largest}}) {
    rejects<T>(all, RAPT_BAD_SOFTCAP, [&, s = scale, c = softcap](auto &call) {
      call.options.scale = s;
      call.options.softcap = c;
    });
  }
  accepts<T>(all, [](auto &call) {
    call.options.scale = 8;
    call.options.softcap = largest;
  });
  for (const int bad : {-1, 4, 1000}) {
    rejects<T>(all, RAPT_BAD_CAUSAL, [&](auto &call) { call.options.causal = bad; });
  }
  for (const std::size_t good : {std::size_t{0}, std::size_t{1}, std::size_t{1} << 61, SIZE_MAX}) {
    accepts<T>(all, [&](auto &call) { call.options.window_left = call.options.window_right = good; });
    accepts<T>(all, [&](auto &call) { call.options.window_chunk = good; });
  }
}

TEST_CASE_TEMPLATE("a causal offset has its causality, and positions that can be told apart", T, float,
                   double) {
  constexpr std::ptrdiff_t farthest = std::ptrdiff_t{1} << 60;
  for (const int other : {RAPT_CAUSAL_NONE, RAPT_CAUSAL_BOTTOM_RIGHT, RAPT_CAUSAL_TOP_LEFT}) {
    for (const std::ptrdiff_t offset : {std::ptrdiff_t{1}, std::ptrdiff_t{-1}, farthest}) {
      rejects<T>(all, RAPT_BAD_CAUSAL_OFFSET, [&](auto &call) {
        call.options.causal = other;
        call.options.causal_offset = offset;
      });
    }
  }
  for (const std::ptrdiff_t bad : {farthest + 1, -farthest - 1, PTRDIFF_MAX, PTRDIFF_MIN}) {
    rejects<T>(all, RAPT_BAD_CAUSAL_OFFSET, [&](auto &call) {
      call.options.causal = RAPT_CAUSAL_OFFSET;
      call.options.causal_offset = bad;
    });
  }
  for (const std::ptrdiff_t good : {farthest, -farthest, std::ptrdiff_t{0}}) {
    accepts<T>(all, [&](auto &call) {
      call.options.causal = RAPT_CAUSAL_OFFSET;
      call.options.causal_offset = good;
    });
  }
}

TEST_CASE_TEMPLATE("types, arithmetic and scales of keys that this version does not have", T, float, double) {
  const rapt_type other = Api<T>::type == RAPT_F32 ? RAPT_F64 : RAPT_F32;
  for (const rapt_type bad : {other, RAPT_F16, RAPT_BF16, RAPT_I8}) {
    if (bad != other) rejects<T>(all, RAPT_BAD_TYPE, [&](auto &call) { call.options.q_type = bad; });
    rejects<T>(all, RAPT_BAD_TYPE, [&](auto &call) { call.options.kv_type = bad; });
    rejects<T>(all, RAPT_BAD_TYPE, [&](auto &call) { call.options.out_type = bad; });
  }
  for (const int no_type : {6, -1, 1000}) {
    rejects<T>(all, RAPT_BAD_TYPE,
               [&](auto &call) { std::memcpy(&call.options.kv_type, &no_type, sizeof no_type); });
  }
  accepts<T>(all, [](auto &call) { call.options.kv_type = call.options.out_type = Api<T>::type; });
  for (const int bad : {int{RAPT_ARITHMETIC_BF16}, int{RAPT_ARITHMETIC_FAST}, 4, -1}) {
    rejects<T>(all, RAPT_BAD_ARITHMETIC, [&](auto &call) { call.options.arithmetic = bad; });
  }
  rejects<T>(all, sizeof(T) == 4 ? RAPT_OK : RAPT_BAD_ARITHMETIC,
             [](auto &call) { call.options.arithmetic = RAPT_ARITHMETIC_F32; });
  const float number = 1;
  rejects<T>(all, RAPT_BAD_KV_SCALES, [&](auto &call) { call.options.k_scales = &number; });
  rejects<T>(all, RAPT_BAD_KV_SCALES, [&](auto &call) { call.options.v_scales = &number; });
  rejects<T>(all, RAPT_BAD_KV_SCALES, [](auto &call) { call.options.scale_group = 32; });
}

// As ctypes, Rust, Go and designated initialisers make it.
TEST_CASE_TEMPLATE("zeroed options with a size and a shape are plain attention", T, float, double) {
  Call<T> plain, zeroed;
  std::memset(static_cast<void *>(&zeroed.options), 0, sizeof zeroed.options);
  zeroed.options.size = sizeof zeroed.options;
  zeroed.options.q_type = Api<T>::type;
  zeroed.options.batch = batch;
  zeroed.options.q_heads = q_heads;
  zeroed.options.kv_heads = kv_heads;
  zeroed.options.q_len = q_len;
  zeroed.options.kv_len = kv_len;
  zeroed.options.qk_dim = qk_dim;
  zeroed.options.v_dim = v_dim;
  for (Call<T> *call : {&plain, &zeroed}) {
    for (std::size_t i = 0; i < k_size; ++i) call->k_memory[i] = static_cast<T>(i % 7) / T(4);
    for (std::size_t i = 0; i < v_size; ++i) call->v_memory[i] = static_cast<T>(i % 11);
    CHECK(call->whole() == RAPT_OK);
  }
  CHECK(plain.out_memory == zeroed.out_memory);
  CHECK(plain.out_memory[0] != plain.v_memory[0]);
  rejects<T>(all, RAPT_BAD_SHAPE, [](auto &call) { call.options.batch = 0; });
  rejects<T>(all, RAPT_BAD_SHAPE, [](auto &call) { call.options.q_heads = 0; });
}

// 0.1 took a forgotten stride for a repetition.
TEST_CASE_TEMPLATE("a stride that is given in part is an error", T, float, double) {
  rejects<T>(reads_inputs, RAPT_BAD_Q_STRIDES, [](auto &call) { call.options.q_strides.token = qk_dim; });
  std::vector<T> bias(lse_size * kv_len, T(0));
  std::vector<std::uint8_t> mask(lse_size * kv_len, 1);
  rejects<T>(all, RAPT_BAD_BIAS_STRIDES, [&](auto &call) {
    call.options.bias = bias.data();
    call.options.bias_strides.token = kv_len;
  });
  // All 0 is contiguous: every query has a row of its own.
  for (const bool by_mask : {false, true}) {
    Call<T> call, strided;
    for (std::size_t i = 0; i < v_size; ++i) call.v_memory[i] = strided.v_memory[i] = static_cast<T>(i % 11);
    for (std::size_t i = 0; i < mask.size(); ++i) {
      mask[i] = i % 3 != 0;
      bias[i] = mask[i] ? T(0) : -std::numeric_limits<T>::infinity();
    }
    for (Call<T> *one : {&call, &strided})
      (by_mask ? one->options.mask = mask.data() : one->options.bias = bias.data());
    (by_mask ? strided.options.mask_strides : strided.options.bias_strides) =
        rapt_strides_bhtd(q_heads, q_len, kv_len);
    CHECK(call.whole() == RAPT_OK);
    CHECK(strided.whole() == RAPT_OK);
    CHECK(call.out_memory == strided.out_memory);
    CHECK(call.out_memory[0] != call.out_memory[v_dim]);  // another token's row
  }
  // A stride without a use makes no tensor strided: of a packed batch, of the tokens of packed keys.
  const std::vector<std::int32_t> offsets{0, 3, 6};
  Call<T> packed, plain;
  for (Call<T> *call : {&packed, &plain}) {
    for (std::size_t i = 0; i < q_size; ++i) call->q_memory[i] = static_cast<T>(i % 5) / T(4);
    for (std::size_t i = 0; i < k_size; ++i) call->k_memory[i] = static_cast<T>(i % 7) / T(4);
    for (std::size_t i = 0; i < v_size; ++i) call->v_memory[i] = static_cast<T>(i % 11);
    call->options.q_offsets = offsets.data();
  }
  packed.options.q_strides = {48, 0, 0};
  CHECK(packed.whole() == RAPT_OK);
  CHECK(plain.whole() == RAPT_OK);
  CHECK(packed.out_memory == plain.out_memory);
  packed.options.q_offsets = plain.options.q_offsets = nullptr;
  packed.options.q_strides = {0, 0, 0};
  for (Call<T> *call : {&packed, &plain}) {
    call->k_memory.resize(batch * kv_heads * 64 * qk_dim, T(0.25));
    call->k = call->k_memory.data();
    call->options.packed_keys = 1;
  }
  packed.options.k_strides = {0, 0, 8};
  CHECK(packed.whole() == RAPT_OK);
  CHECK(plain.whole() == RAPT_OK);
  CHECK(packed.out_memory == plain.out_memory);
}

TEST_CASE("strides of the two common layouts") {
  const rapt_strides heads_first = rapt_strides_bhtd(3, 5, 7), tokens_first = rapt_strides_bthd(3, 5, 7);
  CHECK(heads_first.batch == 105);
  CHECK(heads_first.head == 35);
  CHECK(heads_first.token == 7);
  CHECK(tokens_first.batch == 105);
  CHECK(tokens_first.head == 7);
  CHECK(tokens_first.token == 21);
}

// Tokens may repeat, so that their number is no bound for what partial results take.
TEST_CASE_TEMPLATE("sizes of partial results and of tasks that do not fit", T, float, double) {
  for (const std::size_t len : {std::size_t{1} << 34, std::size_t{1} << 40}) {
    rejects<T>(partial | merge, RAPT_BAD_SIZE, [&](auto &call) {
      auto &o = call.options;
      o.batch = o.q_heads = o.kv_heads = o.qk_dim = 1;
      o.q_len = o.kv_len = len;
      o.v_dim = 1022;
      o.q_strides = o.k_strides = o.v_strides = {1, 1, RAPT_REPEAT};
      o.lse = nullptr;
      call.last = 1;
      std::size_t tasks = 7, length = 7;
      CHECK(rapt_attention_partial_tasks(&o, &tasks, &length) == RAPT_BAD_SIZE);
      CHECK(tasks == 7);
      CHECK(length == 7);
    });
  }
  // A contiguous mask or bias of this shape.
  rejects<T>(all, RAPT_BAD_SIZE, [](auto &call) {
    static const std::uint8_t mask[1] = {1};
    call.options.q_len = call.options.kv_len = std::size_t{1} << 40;
    call.options.mask = mask;
  });
}

TEST_CASE_TEMPLATE("lengths and offsets", T, float, double) {
  using Numbers = std::vector<std::int32_t>;
  for (const Numbers &bad : {Numbers{-1, 3}, Numbers{3, 41}, Numbers{0, INT32_MIN}}) {
    rejects<T>(all, RAPT_BAD_KV_LENGTHS, [&](auto &call) { call.options.kv_lengths = bad.data(); });
  }
  const Numbers lengths{0, 40};
  accepts<T>(all, [&](auto &call) { call.options.kv_lengths = lengths.data(); });
  for (const Numbers &bad : {Numbers{-1, 1, 2}, Numbers{0, 2, 1}, Numbers{0, 4, 5}, Numbers{0, 2, 6}}) {
    rejects<T>(all, RAPT_BAD_OFFSETS, [&](auto &call) { call.options.q_offsets = bad.data(); });
  }
  for (const Numbers &bad : {Numbers{-1, 1, 2}, Numbers{0, 2, 1}, Numbers{0, 41, 42}}) {
    rejects<T>(all, RAPT_BAD_OFFSETS, [&](auto &call) { call.options.kv_offsets = bad.data(); });
  }
  const Numbers none{0, 0, 0};
  accepts<T>(all, [&](auto &call) { call.options.q_offsets = none.data(); });
  const Numbers q_offsets{1, 1, 4}, kv_offsets{2, 42, 50}, too_long{40, 9};
  accepts<T>(all, [&](auto &call) {
    call.options.q_offsets = q_offsets.data();
    call.options.kv_offsets = kv_offsets.data();
  });
  rejects<T>(all, RAPT_BAD_KV_LENGTHS, [&](auto &call) {
    call.options.kv_offsets = kv_offsets.data();
    call.options.kv_lengths = too_long.data();
  });
}

TEST_CASE_TEMPLATE("pages and packed keys", T, float, double) {
  using Numbers = std::vector<std::int32_t>;
  const Numbers table{0, 1, 2, 2, 1, 0}, kv_offsets{0, 5, 9};
  const auto with_pages = [&](auto &call, std::size_t size) {
    call.options.block_table = table.data();
    call.options.page_size = size;
  };
  accepts<T>(all, [&](auto &call) { with_pages(call, 16); });
  for (const std::size_t bad : std::initializer_list<std::size_t>{0, 1, 8, 17, 24}) {
    rejects<T>(all, RAPT_BAD_PAGE_SIZE, [&](auto &call) { with_pages(call, bad); });
  }
  rejects<T>(all, RAPT_BAD_PAGE_SIZE, [](auto &call) { call.options.page_size = 16; });  // without a table
  rejects<T>(all, RAPT_BAD_BLOCK_TABLE, [](auto &call) { call.options.block_table_stride = 3; });
  rejects<T>(reads_inputs, RAPT_BAD_SIZE, [&](auto &call) { with_pages(call, std::size_t{1} << 62); });
  rejects<T>(all, RAPT_BAD_SIZE, [&](auto &call) {
    with_pages(call, 16);
    call.options.block_table_stride = SIZE_MAX / 4;
  });
  rejects<T>(all, RAPT_BAD_BLOCK_TABLE, [&](auto &call) {
    with_pages(call, 16);
    call.options.block_table_stride = 2;  // 40 keys need 3
  });
  rejects<T>(all, RAPT_BAD_BLOCK_TABLE, [&](auto &call) {
    with_pages(call, 16);
    call.options.kv_offsets = kv_offsets.data();
  });
  const Numbers negative{0, 1, 2, 0, -1, 1}, lengths{40, 16};
  rejects<T>(all, RAPT_BAD_BLOCK_TABLE, [&](auto &call) {
    with_pages(call, 16);
    call.options.block_table = negative.data();
  });
  // Pages after a sequence's last are not looked at.
  accepts<T>(all, [&](auto &call) {
    with_pages(call, 16);
    call.options.block_table = negative.data();
    call.options.kv_lengths = lengths.data();
  });
  const auto packed = [](auto &call) { call.options.packed_keys = 1; };
  accepts<T>(all, [&](auto &call) {
    packed(call);
    call.options.kv_len = 64;
    call.options.batch = 1;
    call.last = 1;
  });
  rejects<T>(all, RAPT_BAD_PACKED_KEYS, [&](auto &call) {
    packed(call);
    call.options.kv_offsets = kv_offsets.data();
  });
  rejects<T>(all, RAPT_BAD_PACKED_KEYS, [&](auto &call) {
    packed(call);
    with_pages(call, 48);
  });
}

TEST_CASE_TEMPLATE("tasks", T, float, double) {
  for (const auto &[first, last] :
       {std::pair<std::size_t, std::size_t>{0, 5}, {3, 2}, {5, 5}, {0, SIZE_MAX}, {SIZE_MAX, SIZE_MAX}}) {
    rejects<T>(tasks | partial | merge, RAPT_BAD_TASKS, [&, f = first, l = last](auto &call) {
      call.first = f;
      call.last = l;
    });
  }
  for (const std::size_t at : std::initializer_list<std::size_t>{0, 2, 4}) {
    Call<T> call;
    call.first = call.last = at;
    CHECK(call.tasks() == RAPT_OK);
    CHECK(call.partial() == RAPT_OK);
    CHECK(call.merge() == RAPT_OK);
    CHECK(call.untouched());
  }
}

TEST_CASE_TEMPLATE("the size of the options", T, float, double) {
  for (const std::size_t bad :
       {std::size_t{0}, std::size_t{8}, sizeof(rapt_attention_options) - 1, std::size_t{5000}, SIZE_MAX}) {
    rejects<T>(all, RAPT_BAD_OPTIONS_SIZE, [&](auto &call) { call.options.size = bad; });
  }
  struct Later {
    rapt_attention_options known;
    unsigned char unknown[24] = {};
  };
  for (std::size_t set = 0; set <= sizeof(Later::unknown); ++set) {
    Call<T> call;
    Later later{call.options};
    later.known.size = sizeof later;
    if (set < sizeof later.unknown) later.unknown[set] = 1;
    call.given = &later.known;
    CHECK(call.whole() == (set < sizeof later.unknown ? RAPT_BAD_OPTION : RAPT_OK));
    CHECK(call.untouched() == (set < sizeof later.unknown));
  }
}

TEST_CASE_TEMPLATE("overlaps", T, float, double) {
  const auto same_dims = [](auto &call) { call.set_v_dim(qk_dim); };
  // Exactly in place.
  accepts<T>(whole | tasks, [&](auto &call) {
    same_dims(call);
    call.out = call.q_memory.data();
  });
  rejects<T>(whole | tasks, RAPT_BAD_OVERLAP, [&](auto &call) {
    same_dims(call);
    call.out = call.q_memory.data();
    call.options.out_strides = {72, 6, 24};
  });
  rejects<T>(whole | tasks, RAPT_BAD_OVERLAP, [](auto &call) { call.out = call.q_memory.data(); });
  for (const std::ptrdiff_t shift : {1, 6, 17, 100}) {
    rejects<T>(whole | tasks, RAPT_BAD_OVERLAP, [&](auto &call) {
      same_dims(call);
      call.out = call.q_memory.data() + shift;
    });
    rejects<T>(whole | tasks, RAPT_BAD_OVERLAP, [&](auto &call) { call.out = call.k_memory.data() + shift; });
    rejects<T>(whole | tasks, RAPT_BAD_OVERLAP, [&](auto &call) { call.out = call.v_memory.data() + shift; });
    rejects<T>(partial, RAPT_BAD_OVERLAP, [&](auto &call) { call.partials = call.q_memory.data() + shift; });
    rejects<T>(partial, RAPT_BAD_OVERLAP, [&](auto &call) { call.partials = call.v_memory.data() + shift; });
    rejects<T>(merge, RAPT_BAD_OVERLAP, [&](auto &call) { call.out = call.partials_memory.data() + shift; });
    rejects<T>(writes_out, RAPT_BAD_OVERLAP,
               [&](auto &call) { call.options.lse = call.out_memory.data() + shift; });
    rejects<T>(whole | tasks, RAPT_BAD_OVERLAP,
               [&](auto &call) { call.options.lse = call.q_memory.data() + shift; });
    rejects<T>(merge, RAPT_BAD_OVERLAP,
               [&](auto &call) { call.options.lse = call.partials_memory.data() + shift; });
  }
  // Behind each other is no overlap, and k and v may be one.
  accepts<T>(whole | tasks, [](auto &call) { call.out = call.q_memory.data() + q_size; });
  accepts<T>(writes_out, [](auto &call) { call.options.lse = call.out_memory.data() + out_size; });
  accepts<T>(reads_inputs, [](auto &call) { call.v = call.k; });
}

TEST_CASE_TEMPLATE("slices of one buffer are apart", T, float, double) {
  // [batch][token][query, key and value heads][dim], with out in place of q or behind the values.
  for (const std::size_t tokens : std::initializer_list<std::size_t>{1, 3}) {
    for (const std::size_t sequences : std::initializer_list<std::size_t>{1, 2}) {
      CAPTURE(tokens);
      CAPTURE(sequences);
      constexpr std::ptrdiff_t dim = 4, heads = 2, pitch = 4 * heads * dim;
      std::vector<T> all_of(2 * 3 * pitch, T(0.5));
      Call<T> call;
      auto &o = call.options;
      o.lse = nullptr;
      o.batch = sequences;
      o.q_heads = o.kv_heads = heads;
      o.q_len = o.kv_len = tokens;
      o.qk_dim = o.v_dim = dim;
      const rapt_strides strides{static_cast<std::ptrdiff_t>(tokens) * pitch, dim, pitch};
      o.q_strides = o.k_strides = o.v_strides = o.out_strides = strides;
      call.q = all_of.data();
      call.k = all_of.data() + heads * dim;
      call.v = all_of.data() + 2 * heads * dim;
      call.out = all_of.data();
      CHECK(call.whole() == RAPT_OK);
      call.out = all_of.data() + 3 * heads * dim;
      CHECK(call.whole() == RAPT_OK);
      for (const std::ptrdiff_t shift : {1, 5, 8, 13, 16, 23}) {
        call.out = all_of.data() + shift;
        CHECK(call.whole() == RAPT_BAD_OVERLAP);
      }
    }
  }
}

TEST_CASE_TEMPLATE("options must not overlap an output", T, float, double) {
  const auto both = [](auto &&spoil) {
    rejects<T>(writes_out, RAPT_BAD_OVERLAP, [&](auto &call) { spoil(call.options, call.out); });
    rejects<T>(partial, RAPT_BAD_OVERLAP, [&](auto &call) { spoil(call.options, call.partials); });
  };
  const rapt_strides repeat{RAPT_REPEAT, RAPT_REPEAT, RAPT_REPEAT};
  both([&](auto &options, const T *output) {
    options.bias = output;
    options.bias_strides = repeat;
  });
  both([&](auto &options, const T *output) {
    options.query_scales = output + 3;
    options.query_scale_strides = repeat;
  });
  both([](auto &options, const T *output) { options.alibi_slopes = output + 2; });
  both([](auto &options, const T *output) { options.sinks = output + 1; });
  both([&](auto &options, const T *output) {
    options.mask = reinterpret_cast<const std::uint8_t *>(output) + 9;
    options.mask_strides = repeat;
  });
  std::vector<std::int32_t> zeros(4 * q_size, 0);
  const auto numbers = [&](auto &&set) {
    rejects<T>(writes_out, RAPT_BAD_OVERLAP, [&](auto &call) {
      call.out = reinterpret_cast<T *>(zeros.data());
      set(call.options);
    });
  };
  numbers([&](auto &options) { options.kv_lengths = zeros.data(); });
  numbers([&](auto &options) { options.kv_offsets = zeros.data(); });
  numbers([&](auto &options) {
    options.block_table = zeros.data();
    options.page_size = 16;
  });
}
