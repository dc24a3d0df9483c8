// Tests left padding: rows of padded sequences have the bits of the same sequences alone, nothing before a start is
// read, and a query of padding sees nothing.
#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "support/attention_problems.hpp"
#include "support/compare_kernels.hpp"
#include "support/dense_attention.hpp"
#include "support/effort.hpp"
#include "support/every_level.hpp"
#include "support/guarded_slot.hpp"
#include "support/options.hpp"

using namespace rapt::test;

namespace {

// Layouts with padding before keys and queries, in each way of calling.
std::vector<Layout> padded_layouts(const Problem &problem) {
  Random random(problem.seed * 131 + problem.cols());
  std::vector<Layout> layouts;
  for (const std::size_t padding : Sizes{1, 64, random.below(200) + 1}) {
    layouts.push_back(draw_attention_layout(random, sizeof(float)));
    layouts.back().attention.left_padding = padding;
  }
  return layouts;
}

template <class T>
T *place(GuardedSlot &slot, const std::vector<T> &values) {
  T *const at = reinterpret_cast<T *>(slot.place(values.size() * sizeof(T), Placement::begins_at_guard, 0));
  std::copy(values.begin(), values.end(), at);
  return at;
}

}  // namespace

// A layout does not change the outcome that is expected: that of the sequences without padding.
TEST_CASE("rows of a padded batch have the bits of the sequences alone") {
  const std::vector<Problem> problems =
      draw_attention_problems(native_or_emulated<std::size_t>(60, 6), 2026, 20000);
  compare_kernels(
      "padded sequences", [](const KernelTraits &traits) { return traits.is_attention(); },
      [&](const KernelCase &) { return problems; }, padded_layouts);
  check_results_are_ordinary("attention_f32", problems);
}

// An inaccessible page ends right before the first key in keys, values, bias and mask.
TEST_CASE_TEMPLATE("nothing before a start is read", T, float, double) {
  constexpr std::size_t most = 700, dim = 9;
  GuardedSlot k_slot(most * dim * sizeof(T)), v_slot(most * dim * sizeof(T)), bias_slot(most * sizeof(T)),
      mask_slot(most);
  on_every_level([&] {
    for (const std::int32_t start : {1, 15, 16, 63, 64, 130, 513}) {
      for (const std::size_t keys : Sizes{0, 1, 17, 64, 150}) {
        for (const std::size_t queries : Sizes{1, 12, 40}) {
          CAPTURE(start);
          CAPTURE(keys);
          CAPTURE(queries);
          const auto padding = static_cast<std::size_t>(start);
          DenseAttention<T> alone(queries, keys, dim, dim, 3);
          alone.bias.assign(keys, T(0.25));
          alone.mask.assign(keys, 1);
          if (keys > 2) alone.mask[1] = 0;
          const rapt_strides repeat{RAPT_REPEAT, RAPT_REPEAT, RAPT_REPEAT};
          if (keys > 0) alone.options.bias_strides = alone.options.mask_strides = repeat;
          alone.options.causal = RAPT_CAUSAL_BOTTOM_RIGHT;
          alone.options.window_chunk = 50;
          alone.run_forward();
          rapt_attention_options options = alone.options;
          options.kv_len = padding + keys;
          options.kv_starts = &start;
          // Integers hold these addresses, because no array begins there.
          const auto before = [&](const auto *first_key, std::size_t row) {
            return reinterpret_cast<decltype(first_key)>(reinterpret_cast<std::uintptr_t>(first_key) -
                                                         padding * row * sizeof *first_key);
          };
          options.bias = before(place(bias_slot, alone.bias), 1);
          options.mask = before(place(mask_slot, alone.mask), 1);
          options.bias_strides = options.mask_strides = repeat;
          const T *const k = before(place(k_slot, alone.k), dim), *const v =
                                                                      before(place(v_slot, alone.v), dim);
          std::vector<T> out(queries * dim, T(-77)), lse(queries);
          options.lse = lse.data();
          std::vector<unsigned char> workspace = workspace_for(options);
          REQUIRE(rapt_attention(alone.q.data(), k, v, out.data(), &options, workspace.data(),
                                 workspace.size()) == RAPT_OK);
          CHECK(differences(out, alone.out) == 0);
          CHECK(differences(lse, alone.lse) == 0);

          std::vector<unsigned char> more = workspace_for(options, rapt_attention_backward_workspace);
          std::vector<T> dq(queries * dim), dk(options.kv_len * dim, T(-77)), dv = dk;
          alone.run();
          AttentionResults<T> padded;
          padded.out = out;
          rapt_attention_gradients g = gradients_of(padded, alone.dout);
          g.dq = dq.data();
          g.dk = dk.data();
          g.dv = dv.data();
          REQUIRE(rapt_attention_backward(alone.q.data(), k, v, &options, &g, more.data(), more.size()) ==
                  RAPT_OK);
          alone.dk.insert(alone.dk.begin(), padding * dim, T(0));
          alone.dv.insert(alone.dv.begin(), padding * dim, T(0));
          CHECK(differences(dq, alone.dq) + differences(dk, alone.dk) + differences(dv, alone.dv) == 0);
        }
      }
    }
  });
}

TEST_CASE_TEMPLATE("queries of padding see nothing", T, float, double) {
  constexpr std::size_t tokens = 90, dim = 8;
  on_every_level([] {
    for (const std::int32_t start : {0, 1, 63, 64, 65, 89, 90}) {
      for (const int causal : {RAPT_CAUSAL_NONE, RAPT_CAUSAL_BOTTOM_RIGHT, RAPT_CAUSAL_TOP_LEFT}) {
        for (const bool says_so : {true, false}) {
          if (!says_so && causal == RAPT_CAUSAL_NONE) continue;  // every query is then one of other keys
          CAPTURE(start);
          CAPTURE(causal);
          DenseAttention<T> call(tokens, tokens, dim, dim);
          call.options.causal = causal;
          call.options.kv_starts = &start;
          if (says_so) call.options.q_starts = &start;
          const auto padding = static_cast<std::ptrdiff_t>(start) * static_cast<std::ptrdiff_t>(dim);
          std::fill_n(call.q.begin(), padding, std::numeric_limits<T>::quiet_NaN());
          std::fill_n(call.k.begin(), padding, std::numeric_limits<T>::infinity());
          std::fill_n(call.v.begin(), padding, std::numeric_limits<T>::quiet_NaN());
          std::fill_n(call.dout.begin(), padding, std::numeric_limits<T>::infinity());
          call.run();
          DenseAttention<T> alone(tokens - static_cast<std::size_t>(start),
                                  tokens - static_cast<std::size_t>(start), dim, dim);
          const auto cut = [&](const std::vector<T> &values) {
            return std::vector<T>(values.begin() + padding, values.end());
          };
          alone.q = cut(call.q);
          alone.k = cut(call.k);
          alone.v = cut(call.v);
          alone.dout = cut(call.dout);
          alone.options.causal = causal;
          alone.run();
          for (auto array : {&AttentionResults<T>::out, &AttentionResults<T>::dq, &AttentionResults<T>::dk,
                             &AttentionResults<T>::dv}) {
            CHECK(differences(cut(call.*array), alone.*array) == 0);
            CHECK(std::all_of((call.*array).begin(), (call.*array).begin() + padding,
                              [](T x) { return same_bits(x, T(0)); }));
          }
          for (std::size_t i = 0; i < tokens; ++i) {
            const bool is_padding = i < static_cast<std::size_t>(start);
            CHECK(same_bits(call.lse[i], is_padding ? -std::numeric_limits<T>::infinity()
                                                    : alone.lse[i - static_cast<std::size_t>(start)]));
          }
        }
      }
    }
  });
}
