// The keys that attention sees and the memory that it reads and writes, on every usable level: windows at far
// positions, repeated tensors, lengths, workspaces and packed keys.
#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "support/attention_special_values.hpp"
#include "support/guarded_slot.hpp"

using namespace rapt::test;

TEST_CASE_TEMPLATE("out does not depend on whether lse is asked for", T, float, double) {
  on_every_level([] {
    DenseAttention<T> call(70, 130, 16, 24);
    call.run_forward();
    std::vector<T> out(call.out.size());
    call.options.lse = nullptr;
    std::vector<unsigned char> workspace = workspace_for(call.options);
    REQUIRE(rapt_attention(call.q.data(), call.k.data(), call.v.data(), out.data(), &call.options,
                           workspace.data(), workspace.size()) == RAPT_OK);
    CHECK(differences(out, call.out) == 0);
  });
}

TEST_CASE_TEMPLATE("RAPT_REPEAT repeats queries, keys and values", T, float, double) {
  on_every_level([] {
    DenseAttention<T> call(5, 40, 6, 6);
    call.run_forward();
    DenseAttention<T> repeated = call;
    repeated.options.q_strides = {1000, RAPT_REPEAT, RAPT_REPEAT};  // all queries are the first
    repeated.run_forward();
    for (std::size_t i = 0; i < 5; ++i) CHECK(differences(repeated.out_of(i), call.out_of(0)) == 0);
    // All keys are the first, and all values too: the average of equal values.
    repeated.options.k_strides = repeated.options.v_strides = {RAPT_REPEAT, RAPT_REPEAT, RAPT_REPEAT};
    for (std::size_t d = 0; d < 6; ++d) repeated.v[d] = T(0.5) * static_cast<T>(d);
    repeated.run_forward();
    CHECK(differences(repeated.out_of(3), repeated.value(0)) == 0);
  });
}

// Windows and chunks of any length, at positions up to the farthest.
TEST_CASE_TEMPLATE("windows at far positions", T, float, double) {
  constexpr std::size_t farthest = std::size_t{1} << 60;
  constexpr auto far = static_cast<std::ptrdiff_t>(farthest);
  struct Window {
    std::ptrdiff_t offset;
    std::size_t left, right, chunk;
    long keys_seen;
  };
  constexpr Window windows[] = {{far, 0, 0, 0, 40},
                                {-far, 0, 0, 0, 0},
                                {far, farthest, 0, 0, 39},  // the position itself is the last of the window
                                {far, farthest - 10, 0, 0, 29},
                                {far, farthest + 1, 0, 0, 40},
                                {far, farthest - 40, 0, 0, 0},
                                {far, SIZE_MAX, SIZE_MAX, SIZE_MAX, 40},
                                {far, SIZE_MAX, 1, 0, 40},
                                {far, 0, 0, farthest, 0},  // chunk 1
                                {far, 0, 0, farthest + 1, 40},
                                {0, 0, 1, 0, 1},
                                {5, 3, 0, 0, 3},
                                {30, SIZE_MAX - 1, 0, 0, 31},
                                {30, 0, 0, 16, 15}};
  on_every_level([&] {
    for (const Window &window : windows) {
      CAPTURE(window.offset);
      CAPTURE(window.left);
      CAPTURE(window.chunk);
      DenseAttention<T> call(1, 40, 4, 1);
      std::ranges::fill(call.q, T(0));
      set_causal_offset(call, window.offset);
      if (window.offset == 0) call.options.causal = RAPT_CAUSAL_TOP_LEFT;
      call.options.window_left = window.left;
      call.options.window_right = window.right;
      call.options.window_chunk = window.chunk;
      call.run_forward();
      CHECK(std::lround(std::exp(double{call.lse[0]})) == window.keys_seen);
    }
  });
}

// In keys, values, bias and mask, inaccessible pages follow the sequence's last key.
TEST_CASE_TEMPLATE("nothing past a length is read", T, float, double) {
  constexpr std::size_t kv_len = 700, dim = 9;
  GuardedSlot k_slot(kv_len * dim * sizeof(T)), v_slot(kv_len * dim * sizeof(T)),
      bias_slot(kv_len * sizeof(T)), mask_slot(kv_len);
  const auto place = [](GuardedSlot &slot, const auto &values) {
    using U = std::remove_cvref_t<decltype(values[0])>;
    auto *at = reinterpret_cast<U *>(slot.place(values.size() * sizeof(U), Placement::ends_at_guard, 0));
    std::copy(values.begin(), values.end(), at);
    return at;
  };
  on_every_level([&] {
    for (const std::int32_t length : {0, 1, 15, 16, 17, 63, 64, 70, 512, 513, 699}) {
      for (const std::size_t queries : Sizes{1, 12, 40}) {
        const auto keys = static_cast<std::size_t>(length);
        DenseAttention<T> whole(queries, keys, dim, dim, 3);
        whole.bias.assign(keys, T(0.25));
        whole.mask.assign(keys, 1);
        if (keys > 2) whole.mask[1] = 0;
        const rapt_strides repeat{RAPT_REPEAT, RAPT_REPEAT, RAPT_REPEAT};
        if (keys > 0) whole.options.bias_strides = whole.options.mask_strides = repeat;
        whole.run_forward();
        rapt_attention_options options = whole.options;
        options.kv_len = kv_len;
        options.kv_lengths = &length;
        options.bias = place(bias_slot, whole.bias);
        options.mask = place(mask_slot, whole.mask);
        options.bias_strides = options.mask_strides = repeat;
        std::vector<T> out(queries * dim, whole.unwritten), lse(queries);
        options.lse = lse.data();
        std::vector<unsigned char> workspace = workspace_for(options);
        REQUIRE(rapt_attention(whole.q.data(), place(k_slot, whole.k), place(v_slot, whole.v), out.data(),
                               &options, workspace.data(), workspace.size()) == RAPT_OK);
        CHECK(differences(out, whole.out) == 0);
        CHECK(differences(lse, whole.lse) == 0);
      }
    }
  });
}

TEST_CASE("the workspaces have the sizes that rapt.h tells") {
  for (const std::size_t qk_dim : Sizes{1, 8, 64, 192, 576}) {
    for (const std::size_t v_dim : Sizes{1, 64, 128, 512}) {
      for (const std::size_t element : Sizes{4, 8}) {
        rapt_attention_options options = RAPT_ATTENTION_OPTIONS_INIT;
        options.q_type = element == 4 ? RAPT_F32 : RAPT_F64;
        options.qk_dim = qk_dim;
        options.v_dim = v_dim;
        options.q_len = options.kv_len = qk_dim * 7;
        std::size_t bytes = 0;
        CHECK(rapt_attention_workspace(&options, &bytes) == RAPT_OK);
        CHECK(bytes == element * (64 * qk_dim + 128 * v_dim + 8192) + 64);
        CHECK(rapt_attention_backward_workspace(&options, &bytes) == RAPT_OK);
        CHECK(bytes == element * (128 * qk_dim + 128 * v_dim + 12800) + 64);
      }
    }
  }
}

TEST_CASE("bf16 arithmetic takes less than 1 MB of workspace for heads of 128") {
  rapt_attention_options options = RAPT_ATTENTION_OPTIONS_INIT;
  options.q_type = RAPT_BF16;
  std::size_t before = 0, bytes = 0;
  for (const std::size_t dim : Sizes{1, 32, 64, 96, 128}) {
    options.qk_dim = dim;
    REQUIRE(rapt_attention_workspace(&options, &bytes) == RAPT_OK);
    CHECK(bytes >= before);
    CHECK(bytes < std::size_t{1} << 20);
    before = bytes;
  }
}

TEST_CASE_TEMPLATE("packed keys lie where rapt.h says", T, float, double) {
  constexpr std::size_t dim = 5, tokens = 150, stride = 7;
  std::vector<T> k(tokens * stride), packed(3 * 64 * dim, T(-9));
  rapt_attention_options options = attention_options<T>();
  options.qk_dim = dim;
  for (std::size_t i = 0; i < k.size(); ++i) k[i] = static_cast<T>(i);
  REQUIRE(rapt_attention_pack_keys(k.data(), stride, 20, 130, &options, packed.data()) == RAPT_OK);
  std::size_t wrong = 0;
  for (std::size_t t = 0; t < 192; ++t) {
    for (std::size_t d = 0; d < dim; ++d) {
      const T got = packed[(t / 64) * 64 * dim + d * 64 + t % 64];
      wrong += got != (t < 20 || t >= 150 ? T(-9) : k[(t - 20) * stride + d]);
    }
  }
  CHECK(wrong == 0);
  struct Arguments {
    const T *k;
    std::ptrdiff_t stride;
    std::size_t first, tokens;
    T *packed;
    rapt_status expected;
  };
  for (const Arguments &a : {Arguments{nullptr, stride, 0, 0, nullptr, RAPT_OK},
                             {nullptr, stride, 0, 1, packed.data(), RAPT_BAD_K},
                             {k.data(), stride, 0, 1, nullptr, RAPT_BAD_OUT},
                             {k.data(), -1, 0, 2, packed.data(), RAPT_BAD_K_STRIDES},
                             {k.data(), PTRDIFF_MAX, 0, 9, packed.data(), RAPT_BAD_SIZE},
                             {k.data(), stride, SIZE_MAX, 1, packed.data(), RAPT_BAD_SIZE},
                             {k.data(), stride, SIZE_MAX - 70, 1, packed.data(), RAPT_BAD_SIZE},
                             {k.data(), stride, 0, 1, k.data() + 2, RAPT_BAD_OVERLAP}}) {
    CAPTURE(std::string(rapt_status_text(a.expected)));
    CHECK(rapt_attention_pack_keys(a.k, a.stride, a.first, a.tokens, &options, a.packed) == a.expected);
  }
}
