// A bad argument of attention's gradient gives the status that names it, and no gradient is touched.
#include <doctest/doctest.h>

#include <limits>
#include <string>
#include <vector>

#include "support/effort.hpp"
#include "support/public_api.hpp"

using namespace rapt::test;

namespace {

constexpr std::size_t batch = 2, q_heads = 4, kv_heads = 2, q_len = 3, kv_len = 16, qk_dim = 6, v_dim = 5;
constexpr std::size_t q_size = batch * q_heads * q_len * qk_dim, k_size = batch * kv_heads * kv_len * qk_dim,
                      v_size = batch * kv_heads * kv_len * v_dim, out_size = batch * q_heads * q_len * v_dim,
                      lse_size = batch * q_heads * q_len, bias_size = lse_size * kv_len;

// A good call's arguments, of which a test spoils one.
template <class T>
struct Call {
  std::vector<T> q_memory = std::vector<T>(3 * q_size, T(0.5));
  std::vector<T> k_memory = std::vector<T>(3 * k_size, T(0.25));
  std::vector<T> v_memory = std::vector<T>(3 * v_size, T(0.125));
  std::vector<T> out_memory = std::vector<T>(3 * out_size, T(0.5));
  std::vector<T> dout_memory = std::vector<T>(3 * out_size, T(0.5));
  std::vector<T> lse_memory = std::vector<T>(3 * lse_size, T(3));
  std::vector<T> bias_memory = std::vector<T>(3 * bias_size, T(0.5));
  std::vector<T> dq_memory = std::vector<T>(3 * q_size, T(-7)), dk_memory = std::vector<T>(3 * k_size, T(-7)),
                 dv_memory = std::vector<T>(3 * v_size, T(-7)),
                 dbias_memory = std::vector<T>(3 * bias_size, T(-7)),
                 dsinks_memory = std::vector<T>(q_heads, T(-7));
  std::vector<T> sinks_memory = std::vector<T>(q_heads, T(1));
  std::vector<unsigned char> workspace_memory;
  const T *q = q_memory.data(), *k = k_memory.data(), *v = v_memory.data();
  void *workspace;
  std::size_t workspace_size = 0, first = 0, last = 0;
  rapt_attention_options options = attention_options<T>();
  rapt_attention_gradients gradients = RAPT_ATTENTION_GRADIENTS_INIT;
  const rapt_attention_options *given = &options;
  const rapt_attention_gradients *given_gradients = &gradients;

  Call() {
    options.batch = batch;
    options.q_heads = q_heads;
    options.kv_heads = kv_heads;
    options.q_len = q_len;
    options.kv_len = kv_len;
    options.qk_dim = qk_dim;
    options.v_dim = v_dim;
    options.lse = lse_memory.data();
    gradients.out = out_memory.data();
    gradients.dout = dout_memory.data();
    gradients.dq = dq_memory.data();
    gradients.dk = dk_memory.data();
    gradients.dv = dv_memory.data();
    REQUIRE(rapt_attention_backward_workspace(&options, &workspace_size) == RAPT_OK);
    workspace_memory.resize(workspace_size);
    workspace = workspace_memory.data();
  }
  Call(const Call &) = delete;

  void add_bias() {
    options.bias = bias_memory.data();
    options.bias_strides = {q_heads * q_len * kv_len, q_len * kv_len, kv_len};
    options.sinks = sinks_memory.data();
    gradients.dbias = dbias_memory.data();
    gradients.dsinks = dsinks_memory.data();
  }

  rapt_status whole() {
    return rapt_attention_backward(q, k, v, given, given_gradients, workspace, workspace_size);
  }
  rapt_status tasks() {
    return rapt_attention_backward_run(q, k, v, given, given_gradients, first, last, workspace,
                                       workspace_size);
  }
  bool untouched() const {
    std::size_t touched = 0;
    const auto look = [&](const std::vector<T> &memory, T value) {
      for (const T x : memory) touched += x != value;
    };
    for (const auto *memory : {&dq_memory, &dk_memory, &dv_memory, &dbias_memory, &dsinks_memory})
      look(*memory, T(-7));
    for (const auto *memory : {&q_memory, &out_memory, &dout_memory, &bias_memory}) look(*memory, T(0.5));
    look(k_memory, T(0.25));
    look(v_memory, T(0.125));
    look(lse_memory, T(3));
    return touched == 0;
  }
};

template <class T, class Spoil>
void rejects(rapt_status expected, Spoil &&spoil) {
  CAPTURE(std::string(rapt_status_text(expected)));
  for (const bool by_tasks : {false, true}) {
    CAPTURE(by_tasks);
    Call<T> call;
    spoil(call);
    const rapt_status status = by_tasks ? call.tasks() : call.whole();
    CHECK(status == expected);
    if (expected != RAPT_OK || by_tasks) CHECK(call.untouched());  // no tasks were asked for
  }
}
template <class T, class Spoil>
void accepts(Spoil &&spoil) {
  rejects<T>(RAPT_OK, std::forward<Spoil>(spoil));
}

}  // namespace

TEST_CASE_TEMPLATE("null pointers", T, float, double) {
  accepts<T>([](auto &) {});
  accepts<T>([](auto &call) { call.add_bias(); });
  rejects<T>(RAPT_BAD_Q, [](auto &call) { call.q = nullptr; });
  rejects<T>(RAPT_BAD_K, [](auto &call) { call.k = nullptr; });
  rejects<T>(RAPT_BAD_V, [](auto &call) { call.v = nullptr; });
  rejects<T>(RAPT_BAD_OUT, [](auto &call) { call.gradients.out = nullptr; });
  rejects<T>(RAPT_BAD_LSE, [](auto &call) { call.options.lse = nullptr; });
  rejects<T>(RAPT_BAD_DOUT, [](auto &call) { call.gradients.dout = nullptr; });
  rejects<T>(RAPT_BAD_DQ, [](auto &call) { call.gradients.dq = nullptr; });
  rejects<T>(RAPT_BAD_DK, [](auto &call) { call.gradients.dk = nullptr; });
  rejects<T>(RAPT_BAD_DV, [](auto &call) { call.gradients.dv = nullptr; });
  rejects<T>(RAPT_BAD_DBIAS, [](auto &call) { call.gradients.dbias = call.dbias_memory.data(); });
  rejects<T>(RAPT_BAD_DSINKS, [](auto &call) { call.gradients.dsinks = call.dsinks_memory.data(); });
  rejects<T>(RAPT_BAD_OPTIONS, [](auto &call) { call.given = nullptr; });
  rejects<T>(RAPT_BAD_GRADIENTS, [](auto &call) { call.given_gradients = nullptr; });
  rejects<T>(RAPT_BAD_WORKSPACE, [](auto &call) { call.workspace = nullptr; });
  rejects<T>(RAPT_BAD_WORKSPACE, [](auto &call) { call.workspace_size -= 1; });
  // Without keys only dq is written, without queries only dk and dv.
  accepts<T>([](auto &call) {
    call.k = call.v = nullptr;
    call.gradients.dk = call.gradients.dv = nullptr;
    call.options.kv_len = 0;
  });
  accepts<T>([](auto &call) {
    call.q = call.k = call.v = nullptr;
    call.gradients.out = call.gradients.dout = call.gradients.dq = nullptr;
    call.options.lse = nullptr;
    call.options.q_len = 0;
  });
}

TEST_CASE_TEMPLATE("the queries answer with the same statuses", T, float, double) {
  std::size_t number = 7;
  Call<T> call;
  CHECK(rapt_attention_backward_workspace(nullptr, &number) == RAPT_BAD_OPTIONS);
  CHECK(rapt_attention_backward_workspace(&call.options, nullptr) == RAPT_BAD_OUT);
  CHECK(rapt_attention_backward_tasks(nullptr, &call.gradients, &number) == RAPT_BAD_OPTIONS);
  CHECK(rapt_attention_backward_tasks(&call.options, nullptr, &number) == RAPT_BAD_GRADIENTS);
  CHECK(rapt_attention_backward_tasks(&call.options, &call.gradients, nullptr) == RAPT_BAD_OUT);
  CHECK(number == 7);
  CHECK(rapt_attention_backward_tasks(&call.options, &call.gradients, &number) == RAPT_OK);
  CHECK(number == 4);
  number = 7;
  call.options.qk_dim = 0;
  CHECK(rapt_attention_backward_workspace(&call.options, &number) == RAPT_BAD_DIM);
  CHECK(rapt_attention_backward_tasks(&call.options, &call.gradients, &number) == RAPT_BAD_DIM);
  CHECK(number == 7);
}

TEST_CASE_TEMPLATE("options as forwards", T, float, double) {
  rejects<T>(RAPT_BAD_HEADS, [](auto &call) { call.options.kv_heads = 3; });
  rejects<T>(RAPT_BAD_DIM, [](auto &call) { call.options.v_dim = SIZE_MAX; });
  rejects<T>(RAPT_BAD_SIZE, [](auto &call) { call.options.batch = SIZE_MAX; });
  rejects<T>(RAPT_BAD_SIZE, [](auto &call) { call.options.k_strides = {1, 1, PTRDIFF_MAX}; });
  rejects<T>(RAPT_BAD_SCALE,
             [](auto &call) { call.options.scale = std::numeric_limits<double>::quiet_NaN(); });
  rejects<T>(RAPT_BAD_SOFTCAP, [](auto &call) { call.options.softcap = -1; });
  rejects<T>(RAPT_BAD_CAUSAL, [](auto &call) { call.options.causal = 4; });
  rejects<T>(RAPT_BAD_CAUSAL_OFFSET, [](auto &call) { call.options.causal_offset = 1; });
  rejects<T>(RAPT_BAD_SHAPE, [](auto &call) { call.options.q_heads = 0; });
  rejects<T>(RAPT_BAD_TYPE, [](auto &call) { call.options.out_type = RAPT_BF16; });
  const std::vector<std::int32_t> lengths{0, 17}, offsets{0, 2, 1}, table{0, 1};
  rejects<T>(RAPT_BAD_KV_LENGTHS, [&](auto &call) { call.options.kv_lengths = lengths.data(); });
  rejects<T>(RAPT_BAD_OFFSETS, [&](auto &call) { call.options.q_offsets = offsets.data(); });
  rejects<T>(RAPT_BAD_OFFSETS, [&](auto &call) { call.options.kv_offsets = offsets.data(); });
  rejects<T>(RAPT_BAD_BLOCK_TABLE, [&](auto &call) {
    call.options.block_table = table.data();
    call.options.page_size = 16;
  });
  rejects<T>(RAPT_BAD_PACKED_KEYS, [](auto &call) { call.options.packed_keys = 1; });
}

TEST_CASE_TEMPLATE("strides", T, float, double) {
  for (int dimension = 0; dimension < 3; ++dimension) {
    const auto negative = [&](rapt_strides strides) {
      (dimension == 0 ? strides.batch : dimension == 1 ? strides.head : strides.token) = -1;
      return strides;
    };
    const rapt_strides good{100, 30, 6};
    rejects<T>(RAPT_BAD_Q_STRIDES, [&](auto &call) { call.options.q_strides = negative(good); });
    rejects<T>(RAPT_BAD_K_STRIDES, [&](auto &call) { call.options.k_strides = negative(good); });
    rejects<T>(RAPT_BAD_V_STRIDES, [&](auto &call) { call.options.v_strides = negative(good); });
    rejects<T>(RAPT_BAD_OUT_STRIDES, [&](auto &call) { call.options.out_strides = negative({60, 15, 5}); });
    rejects<T>(RAPT_BAD_LSE_STRIDES, [&](auto &call) { call.options.lse_strides = negative({12, 3, 1}); });
    rejects<T>(RAPT_BAD_DOUT_STRIDES, [&](auto &call) {
      call.gradients.dout_strides = negative({60, 15, 5});
    });
    rejects<T>(RAPT_BAD_DQ_STRIDES, [&](auto &call) { call.gradients.dq_strides = negative({72, 18, 6}); });
    rejects<T>(RAPT_BAD_DK_STRIDES, [&](auto &call) { call.gradients.dk_strides = negative({192, 96, 6}); });
    rejects<T>(RAPT_BAD_DV_STRIDES, [&](auto &call) { call.gradients.dv_strides = negative({160, 80, 5}); });
    rejects<T>(RAPT_BAD_BIAS_STRIDES, [&](auto &call) {
      call.add_bias();
      call.options.bias_strides = negative(call.options.bias_strides);
    });
  }
  // Rows of a gradient must not share elements.
  for (const rapt_strides bad : {rapt_strides{72, 18, 5}, rapt_strides{72, 17, 6}, rapt_strides{71, 18, 6},
                                 rapt_strides{0, 18, 6}, rapt_strides{72, 0, 6}, rapt_strides{72, 18, 0}}) {
    rejects<T>(RAPT_BAD_DQ_STRIDES, [&](auto &call) { call.gradients.dq_strides = bad; });
  }
  for (const rapt_strides bad :
       {rapt_strides{192, 95, 6}, rapt_strides{192, 0, 6}, rapt_strides{192, 96, 0}}) {
    rejects<T>(RAPT_BAD_DK_STRIDES, [&](auto &call) { call.gradients.dk_strides = bad; });
    rejects<T>(RAPT_BAD_DV_STRIDES, [&](auto &call) {
      call.gradients.dv_strides = {bad.batch * 5 / 6 - (bad.batch == 191),
                                   bad.head == 95 ? 79 : bad.head * 5 / 6, bad.token * 5 / 6};
    });
  }
  accepts<T>([](auto &call) { call.gradients.dq_strides = {72, 6, 24}; });
  accepts<T>([](auto &call) { call.gradients.dk_strides = {192, 6, 12}; });
  // What is read may repeat, and a gradient of the bias sums what does.
  accepts<T>([](auto &call) {
    call.options.k_strides = call.gradients.dout_strides = {RAPT_REPEAT, RAPT_REPEAT, 1};
  });
  for (int repeats = 0; repeats < 8; ++repeats) {
    accepts<T>([&](auto &call) {
      call.add_bias();
      rapt_strides &s = call.options.bias_strides;
      if (repeats & 1) s.batch = RAPT_REPEAT;
      if (repeats & 2) s.head = RAPT_REPEAT;
      if (repeats & 4) s.token = RAPT_REPEAT;
    });
  }
  // Rows of the bias may overlap in part, but not those of its gradient.
  for (const rapt_strides bad :
       {rapt_strides{192, 48, 15}, rapt_strides{192, 47, 16}, rapt_strides{1, RAPT_REPEAT, RAPT_REPEAT}}) {
    rejects<T>(RAPT_BAD_DBIAS, [&](auto &call) {
      call.add_bias();
      call.options.bias_strides = bad;
    });
    accepts<T>([&](auto &call) {
      call.add_bias();
      call.options.bias_strides = bad;
      call.gradients.dbias = nullptr;
    });
  }
}

TEST_CASE_TEMPLATE("tasks", T, float, double) {
  for (const auto &[first, last] :
       {std::pair<std::size_t, std::size_t>{0, 5}, {3, 2}, {5, 5}, {0, SIZE_MAX}, {SIZE_MAX, SIZE_MAX}}) {
    Call<T> call;
    call.first = first;
    call.last = last;
    CHECK(call.tasks() == RAPT_BAD_TASKS);
    CHECK(call.untouched());
  }
  Call<T> call;
  call.add_bias();  // with sinks a task is of all sequences
  call.last = 3;
  CHECK(call.tasks() == RAPT_BAD_TASKS);
  CHECK(call.untouched());
  call.last = 2;
  CHECK(call.tasks() == RAPT_OK);
  for (const std::size_t at : Sizes{0, 2, 4}) {
    Call<T> none;
    none.first = none.last = at;
    CHECK(none.tasks() == RAPT_OK);
    CHECK(none.untouched());
  }
}

TEST_CASE_TEMPLATE("the sizes of the structs", T, float, double) {
  for (const std::size_t bad : {std::size_t{0}, std::size_t{8}, std::size_t{5000}, SIZE_MAX}) {
    rejects<T>(RAPT_BAD_OPTIONS_SIZE, [&](auto &call) { call.options.size = bad; });
    rejects<T>(RAPT_BAD_GRADIENTS, [&](auto &call) { call.gradients.size = bad; });
  }
  rejects<T>(RAPT_BAD_GRADIENTS, [&](auto &call) { call.gradients.size -= 1; });
  struct Later {
    rapt_attention_gradients known;
    unsigned char unknown[24] = {};
  };
  for (std::size_t set = 0; set <= sizeof(Later::unknown); ++set) {
    Call<T> call;
    Later later{call.gradients};
    later.known.size = sizeof later;
    if (set < sizeof later.unknown) later.unknown[set] = 1;
    call.given_gradients = &later.known;
    CHECK(call.whole() == (set < sizeof later.unknown ? RAPT_BAD_OPTION : RAPT_OK));
    CHECK(call.untouched() == (set < sizeof later.unknown));
  }
}

TEST_CASE_TEMPLATE("overlaps", T, float, double) {
  const auto with_bias = [](auto &&spoil) {
    rejects<T>(RAPT_BAD_OVERLAP, [&](auto &call) {
      call.add_bias();
      spoil(call);
    });
  };
  for (const std::ptrdiff_t shift : {0, 1, 6, 17}) {
    CAPTURE(shift);
    // No gradient in place of anything that is read, exactly or in part.
    with_bias([&](auto &call) { call.gradients.dq = call.q_memory.data() + shift; });
    with_bias([&](auto &call) { call.gradients.dk = call.k_memory.data() + shift; });
    with_bias([&](auto &call) { call.gradients.dv = call.v_memory.data() + shift; });
    with_bias([&](auto &call) { call.gradients.dq = call.out_memory.data() + shift; });
    with_bias([&](auto &call) { call.gradients.dq = call.dout_memory.data() + shift; });
    with_bias([&](auto &call) { call.gradients.dk = call.dout_memory.data() + shift; });
    with_bias([&](auto &call) { call.gradients.dv = call.out_memory.data() + shift; });
    with_bias([&](auto &call) { call.gradients.dv = call.lse_memory.data() + shift; });
    with_bias([&](auto &call) { call.gradients.dbias = call.bias_memory.data() + shift; });
    with_bias([&](auto &call) { call.gradients.dbias = call.dout_memory.data() + shift; });
    with_bias([&](auto &call) { call.gradients.dsinks = call.lse_memory.data() + shift; });
    with_bias([&](auto &call) { call.gradients.dsinks = call.k_memory.data() + shift; });
    with_bias([&](auto &call) { call.options.sinks = call.dsinks_memory.data() + shift % 4; });
    // Nor of one another.
    with_bias([&](auto &call) { call.gradients.dk = call.dq_memory.data() + shift; });
    with_bias([&](auto &call) { call.gradients.dv = call.dk_memory.data() + shift; });
    with_bias([&](auto &call) { call.gradients.dv = call.dq_memory.data() + shift; });
    with_bias([&](auto &call) { call.gradients.dsinks = call.dbias_memory.data() + shift; });
    with_bias([&](auto &call) { call.gradients.dbias = call.dv_memory.data() + shift; });
    with_bias([&](auto &call) { call.gradients.dsinks = call.dq_memory.data() + shift; });
  }
  // An option's array.
  std::vector<std::int32_t> zeros(8 * k_size, 0);
  rejects<T>(RAPT_BAD_OVERLAP, [&](auto &call) {
    call.options.kv_lengths = zeros.data();
    call.gradients.dk = reinterpret_cast<T *>(zeros.data());
  });
  rejects<T>(RAPT_BAD_OVERLAP, [&](auto &call) {
    call.options.mask = reinterpret_cast<const std::uint8_t *>(call.dv_memory.data()) + 9;
  });
  // Behind each other is no overlap, and slices of one buffer are apart.
  accepts<T>([](auto &call) {
    call.gradients.dk = call.dq_memory.data();
    call.gradients.dq = call.dk_memory.data() + k_size;
    call.gradients.dv = call.dk_memory.data() + k_size + q_size;
  });
  accepts<T>([](auto &call) {
    call.options.batch = call.options.q_heads = call.options.kv_heads = 1;
    call.options.q_len = kv_len;
    constexpr std::ptrdiff_t pitch = 2 * qk_dim + v_dim;
    call.gradients.dq = call.dk_memory.data();
    call.gradients.dk = call.dk_memory.data() + qk_dim;
    call.gradients.dv = call.dk_memory.data() + 2 * qk_dim;
    call.gradients.dq_strides = call.gradients.dk_strides = call.gradients.dv_strides = {0, 0, pitch};
    call.options.lse = call.out_memory.data() + out_size;
  });
}
