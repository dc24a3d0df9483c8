// Tests that attention does not read an excluded key at any position, or memory past a length. Also tests
// values near the largest number, gradients of a repeated bias, workspaces of bf16 arithmetic and the
// arguments of pack_keys.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "support/dense_attention.hpp"
#include "support/effort.hpp"
#include "support/every_level.hpp"
#include "support/guarded_slot.hpp"

using namespace rapt::test;

// Only one key of a block is excluded. The random cases of the oracle tests exclude several keys.
TEST_CASE_TEMPLATE("an excluded key is not read in any place, forwards and backwards", T, float, double) {
  on_every_level([] {
    for (const std::size_t queries : Sizes{2, 20}) {  // few rows, and many
      constexpr std::size_t keys = 130, qk_dim = 7, v_dim = 9;
      for (std::size_t place = 0; place < keys; place += native_or_emulated<std::size_t>(1, 13)) {
        CAPTURE(queries);
        CAPTURE(place);
        DenseAttention<T> harmless(queries, keys, qk_dim, v_dim);
        harmless.mask.assign(queries * keys, 1);
        for (std::size_t i = 0; i < queries; ++i) harmless.mask[i * keys + place] = 0;
        DenseAttention<T> spoilt = harmless;
        const T special =
            place % 2 == 0 ? std::numeric_limits<T>::quiet_NaN() : std::numeric_limits<T>::infinity();
        std::fill_n(spoilt.k.begin() + static_cast<std::ptrdiff_t>(place * qk_dim), qk_dim, special);
        std::fill_n(spoilt.v.begin() + static_cast<std::ptrdiff_t>(place * v_dim), v_dim, special);
        harmless.run();
        spoilt.run();
        CHECK(differences(spoilt.out, harmless.out) + differences(spoilt.lse, harmless.lse) == 0);
        CHECK(differences(spoilt.dq, harmless.dq) == 0);
        CHECK(differences(spoilt.dk, harmless.dk) + differences(spoilt.dv, harmless.dv) == 0);
        for (std::size_t d = 0; d < qk_dim; ++d) CHECK(same_bits(spoilt.dk[place * qk_dim + d], T(0)));
      }
    }
  });
}

// Inaccessible pages follow the last key of the sequence in keys, values, bias and mask.
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
        std::vector<T> out(queries * dim, T(-77)), lse(queries);
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

// The weighted sum of values is computed before its division by the sum of weights, so it could overflow.
TEST_CASE_TEMPLATE("values near the largest number", T, float, double) {
  on_every_level([] {
    for (const std::size_t keys : Sizes{1, 2, 7, 16, 33, 64, 65, 100, 130, 513, 600}) {
      for (const std::size_t queries : Sizes{1, 20}) {
        CAPTURE(keys);
        CAPTURE(queries);
        DenseAttention<T> call(queries, keys, 4, 3);
        std::ranges::fill(call.q, T(0));  // all weights are 1
        constexpr T largest = std::numeric_limits<T>::max();
        const T most = largest / static_cast<T>(keys) * T(0.999);
        std::ranges::fill(call.v, most);
        call.run_forward();
        for (const T value : call.out)
          CHECK(std::fabs(value / most - 1) < 512 * std::numeric_limits<T>::epsilon());
        if (keys == 1) continue;
        std::ranges::fill(call.v, largest);
        call.run_forward();
        for (const T value : call.out) CHECK(value == std::numeric_limits<T>::infinity());
      }
    }
  });
}

TEST_CASE_TEMPLATE("a bias that repeats has the sum of the gradients", T, float, double) {
  on_every_level([] {
    constexpr std::size_t heads = 3, queries = 30, keys = 75;
    DenseAttention<T> each(queries, keys, 8, 8, 3, heads);
    for (std::size_t i = 0; i < heads * queries * keys; ++i) {
      const std::size_t j = i % keys;
      each.bias.push_back(j == 7 ? -std::numeric_limits<T>::infinity() : static_cast<T>(j % 5) / T(4));
    }
    DenseAttention<T> summed = each;
    each.run();
    for (int repeats = 1; repeats < 4; ++repeats) {
      CAPTURE(repeats);
      const bool by_head = repeats & 1, by_token = repeats & 2;
      constexpr auto row = static_cast<std::ptrdiff_t>(keys);
      const std::ptrdiff_t of_head = by_token ? row : row * static_cast<std::ptrdiff_t>(queries);
      summed.options.bias_strides = {0, by_head ? RAPT_REPEAT : of_head, by_token ? RAPT_REPEAT : row};
      summed.run();
      CHECK(differences(summed.dq, each.dq) + differences(summed.dk, each.dk) +
                differences(summed.dv, each.dv) ==
            0);
      for (std::size_t h = 0; h < (by_head ? 1 : heads); ++h) {
        for (std::size_t i = 0; i < (by_token ? 1 : queries); ++i) {
          for (std::size_t j = 0; j < keys; ++j) {
            // rapt.h promises this order of additions: token by token, and within a token head by head.
            T sum = 0;
            for (std::size_t token = i; token < (by_token ? queries : i + 1); ++token) {
              for (std::size_t head = h; head < (by_head ? heads : h + 1); ++head)
                sum = sum + each.dbias[(head * queries + token) * keys + j];
            }
            const T got = summed.dbias[(h * (by_token ? 1 : queries) + i) * keys + j];
            if (!same_bits(got, sum)) FAIL_CHECK("head " << h << " query " << i << " key " << j);
            if (j == 7) CHECK(same_bits(got, T(0)));
          }
        }
      }
    }
  });
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

TEST_CASE_TEMPLATE("arguments of pack_keys", T, float, double) {
  constexpr std::size_t dim = 5, stride = 7;
  std::vector<T> k(150 * stride), packed(3 * 64 * dim);
  rapt_attention_options options = attention_options<T>();
  options.qk_dim = dim;
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
                             {k.data(), stride, 0, 1, k.data() + 2, RAPT_BAD_OVERLAP}}) {
    CAPTURE(std::string(rapt_status_text(a.expected)));
    CHECK(rapt_attention_pack_keys(a.k, a.stride, a.first, a.tokens, &options, a.packed) == a.expected);
  }
}
