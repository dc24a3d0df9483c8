// Tests bad arguments that only attention's gradient has. Each call must return the status that names the
// argument, and write no gradient.
#include <doctest/doctest.h>

#include <vector>

#include "support/attention_arguments.hpp"

using namespace rapt::test;
using namespace rapt::test::attention_arguments;

TEST_CASE_TEMPLATE("gradients", T, float, double) {
  expect_statuses<Call<T>>({
      {"all of them", backwards, RAPT_OK, [](auto &call) { call.give_all(); }},
      {"dbias without bias", backwards, RAPT_BAD_DBIAS, [](auto &call) { call.give({dbias}); }},
      {"dsinks without sinks", backwards, RAPT_BAD_DSINKS, [](auto &call) { call.give({dsinks}); }},
      {"null", backwards, RAPT_BAD_GRADIENTS, [](auto &call) { call.given_gradients = nullptr; }},
  });
  expect_option_sizes(backwards, &Call<T>::gradients, {168 /* 0.2 */}, RAPT_BAD_GRADIENTS);
}

TEST_CASE_TEMPLATE("the queries answer with the same statuses", T, float, double) {
  std::size_t number = 7;
  Call<T> call(gradient);
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

TEST_CASE_TEMPLATE("strides", T, float, double) {
  using Gradients = rapt_attention_gradients;
  const auto expect = [](rapt_status expected, rapt_strides Gradients::*which,
                         const std::vector<rapt_strides> &strides) {
    for (const rapt_strides &given : strides) {
      CAPTURE(given.batch);
      CAPTURE(given.head);
      CAPTURE(given.token);
      expect_status<Call<T>>("strides", backwards, expected,
                             [&](auto &call) { call.gradients.*which = given; });
    }
  };
  for (int dimension = 0; dimension < 3; ++dimension) {
    const auto negative = [&](rapt_strides strides) {
      return std::vector<rapt_strides>{with_stride(strides, dimension, -1)};
    };
    expect(RAPT_BAD_DOUT_STRIDES, &Gradients::dout_strides, negative({60, 15, 5}));
    expect(RAPT_BAD_DQ_STRIDES, &Gradients::dq_strides, negative({72, 18, 6}));
    expect(RAPT_BAD_DK_STRIDES, &Gradients::dk_strides, negative({480, 240, 6}));
    expect(RAPT_BAD_DV_STRIDES, &Gradients::dv_strides, negative({400, 200, 5}));
  }
  // Rows of a gradient must not share elements.
  expect(RAPT_BAD_DQ_STRIDES, &Gradients::dq_strides,
         {{72, 18, 5}, {72, 17, 6}, {71, 18, 6}, {0, 18, 6}, {72, 0, 6}, {72, 18, 0}});
  expect(RAPT_BAD_DK_STRIDES, &Gradients::dk_strides, {{480, 239, 6}, {480, 0, 6}, {480, 240, 0}});
  expect(RAPT_BAD_DV_STRIDES, &Gradients::dv_strides, {{400, 199, 5}, {400, 0, 5}, {400, 200, 0}});
  expect(RAPT_OK, &Gradients::dq_strides, {{72, 6, 24}});
  expect(RAPT_OK, &Gradients::dk_strides, {{480, 6, 12}});
  expect(RAPT_OK, &Gradients::dout_strides, {{RAPT_REPEAT, RAPT_REPEAT, 1}});
}

// If a bias repeats its rows, dbias is the sum of their gradients.
TEST_CASE_TEMPLATE("the bias's strides", T, float, double) {
  constexpr std::ptrdiff_t of_batch = q_heads * q_len * kv_len, of_head = q_len * kv_len, of_token = kv_len;
  const auto expect = [](rapt_status expected, const rapt_strides &strides, bool with_dbias) {
    expect_status<Call<T>>("bias", backwards, expected, [&](auto &call) {
      call.give_all();
      if (!with_dbias) call.at[dbias] = nullptr;
      call.options.bias_strides = strides;
    });
  };
  for (int repeats = 0; repeats < 8; ++repeats) {
    CAPTURE(repeats);
    expect(RAPT_OK,
           {repeats & 1 ? RAPT_REPEAT : of_batch, repeats & 2 ? RAPT_REPEAT : of_head,
            repeats & 4 ? RAPT_REPEAT : of_token},
           true);
  }
  for (int dimension = 0; dimension < 3; ++dimension)
    expect(RAPT_BAD_BIAS_STRIDES, with_stride({of_batch, of_head, of_token}, dimension, -1), true);
  // Rows of the bias may overlap in part, but rows of dbias must not.
  for (const rapt_strides &bad : {rapt_strides{of_batch, of_head, of_token - 1},
                                  {of_batch, of_head - 1, of_token},
                                  {1, RAPT_REPEAT, RAPT_REPEAT}}) {
    expect(RAPT_BAD_DBIAS, bad, true);
    expect(RAPT_OK, bad, false);
  }
}

TEST_CASE_TEMPLATE("tasks", T, float, double) {
  for (const std::size_t last : {std::size_t{4}, std::size_t{5}}) {
    CAPTURE(last);
    expect_status<Call<T>>("tasks", gradient_tasks, last == 4 ? RAPT_OK : RAPT_BAD_TASKS, [&](auto &call) {
      call.give_all();
      call.last = last;
    });
  }
}

namespace {

// Counts the elements of k up to the end of the last key. short_last() gives the last sequence 7 keys, and
// places dq `elements` elements after the beginning of `array`.
constexpr std::size_t last_end = k_size - (kv_len - 7) * qk_dim;
template <class T>
void short_last(Call<T> &call, Array array, std::size_t elements) {
  call.options.kv_lengths = call.keep({30, 7});
  call.at[dq] = call.memory[array].data() + elements;
}

}  // namespace

TEST_CASE_TEMPLATE("overlaps", T, float, double) {
  const auto with_all = [](auto &call) { call.give_all(); };
  // No gradient may overlap an input or another gradient, exactly or in part.
  expect_overlaps<T>({0, 1, 6, 17},
                     {{backwards, dq, q},
                      {backwards, dk, k},
                      {backwards, dv, v},
                      {backwards, dq, out},
                      {backwards, dq, dout},
                      {backwards, dk, dout},
                      {backwards, dv, out},
                      {backwards, dv, lse},
                      {backwards, dbias, bias},
                      {backwards, dbias, dout},
                      {backwards, dsinks, lse},
                      {backwards, dsinks, k},
                      {backwards, dk, dq},
                      {backwards, dv, dk},
                      {backwards, dv, dq},
                      {backwards, dsinks, dbias},
                      {backwards, dbias, dv},
                      {backwards, dsinks, dq}},
                     with_all);
  expect_overlaps<T>({0, 1, 2, 3}, {{backwards, sinks, dsinks}}, with_all);
  expect_statuses<Call<T>>({
      {"kv_lengths", backwards, RAPT_BAD_OVERLAP,
       [](auto &call) {
         call.options.kv_lengths = call.keep(std::vector<std::int32_t>(8 * k_size, 0));
         call.at[dk] = reinterpret_cast<T *>(call.numbers.back().data());
       }},
      {"mask", backwards, RAPT_BAD_OVERLAP,
       [](auto &call) { call.options.mask = reinterpret_cast<const std::uint8_t *>(call.at[dv]) + 9; }},
      // A call reads k only up to the lengths, but writes all of dk.
      {"dq behind the last key", backwards, RAPT_OK, [](auto &call) { short_last(call, k, last_end); }},
      {"dq in the last key", backwards, RAPT_BAD_OVERLAP,
       [](auto &call) { short_last(call, k, last_end - 1); }},
      {"dq in dk", backwards, RAPT_BAD_OVERLAP, [](auto &call) { short_last(call, dk, last_end); }},
      {"dq behind dk", backwards, RAPT_OK, [](auto &call) { short_last(call, dk, k_size); }},
      {"behind each other", backwards, RAPT_OK,
       [](auto &call) {
         call.at[dv] = call.memory[dk].data();
         call.at[dq] = call.memory[dk].data() + v_size;
         call.at[dk] = call.memory[dk].data() + v_size + q_size;
       }},
      {"slices of one buffer", backwards, RAPT_OK,
       [](auto &call) {
         call.options.batch = call.options.q_heads = call.options.kv_heads = 1;
         call.options.q_len = kv_len;
         call.at[dq] = call.memory[dk].data();
         call.at[dk] = call.memory[dk].data() + qk_dim;
         call.at[dv] = call.memory[dk].data() + 2 * qk_dim;
         auto &g = call.gradients;
         g.dq_strides = g.dk_strides = g.dv_strides = {0, 0, 2 * qk_dim + v_dim};
       }},
  });
}
