// Random problems of attention, and layouts to run them in: of every option, and of every way to lay out
// memory and to cut the work.
#pragma once

#include <algorithm>
#include <iterator>

#include "support/problem.hpp"
#include "support/random.hpp"

namespace rapt::test {

class AttentionMaker {
 public:
  // `most_work`: multiplications, about.
  AttentionMaker(Random &random, std::size_t most_work) : random_(random), most_work_(most_work) {}

  // One draw a statement: compilers order the arguments of a call as they like.
  Problem problem() {
    Problem made;
    AttentionOptions &more = made.attention;
    more.qk_dim = dim();
    more.v_dim = random_.one_in(2) ? more.qk_dim : dim();
    more.kv_heads = one_of<std::size_t>({1, 1, 2, 3});
    more.group = random_.one_in(2) ? 1 : 1 + random_.below(9);
    more.batch = one_of<std::size_t>({1, 1, 2, 4});
    made.cols = length(1300);
    made.rows = length(130);
    fit(made);
    made.input = input();
    made.seed = random_.below(1u << 24);
    made.scale = one_of({0.0, 0.0, 0.125, 0.3, -0.3, 1.0, 1e-30, 20.0});
    add_options(made);
    return made;
  }

  Layout layout(std::size_t element_size) {
    Layout made;
    if (random_.one_in(2)) made.placement = Placement::begins_at_guard;
    for (std::size_t &offset : made.offset) {
      offset = random_.one_in(2) ? 0 : random_.below(64 / element_size) * element_size;
    }
    for (std::ptrdiff_t &gap : made.gap) gap = one_of<std::ptrdiff_t>({0, 0, 1, 13});
    if (random_.one_in(3)) made.alias = Alias::first_input;
    AttentionLayout &how = made.attention;
    how.tokens_outside = random_.one_in(2);
    how.fused = random_.one_in(4);
    if (random_.one_in(4)) how.page_size = one_of<std::size_t>({16, 32, 48, 64, 80, 128, 512});
    how.packed_keys = random_.one_in(3);
    how.q_offsets = random_.one_in(4);
    how.kv_offsets = random_.one_in(4);
    how.repeated_heads = random_.one_in(6);
    how.calls = static_cast<Calls>(random_.below(calls_count));
    return made;
  }

 private:
  template <class T, std::size_t count>
  T one_of(const T (&values)[count]) {
    return values[random_.below(count)];
  }

  std::size_t dim() {
    const std::size_t kind = random_.below(4);
    if (kind < 2) return 1 + random_.below(20);
    if (kind == 2) return one_of<std::size_t>({31, 32, 33, 47, 48, 64, 65});
    return one_of<std::size_t>({64, 80, 96, 112, 128, 128, 192, 256});
  }

  // Around the ends of blocks and chunks, and anything else.
  std::size_t length(std::size_t longest) {
    const std::size_t kind = random_.below(8);
    if (kind == 0) return one_of<std::size_t>({0, 1, 1, 2, 3});
    if (kind < 4) return random_.below(std::min<std::size_t>(longest, 80));
    if (kind < 6) {
      const std::size_t end = one_of<std::size_t>({16, 64, 64, 128, 192, 512, 512, 576, 1024});
      return std::min(end + random_.below(5) - 2, longest);
    }
    return random_.below(longest + 1);
  }

  // Keeps the larger of many queries and many keys; the other gives way.
  void fit(Problem &made) {
    AttentionOptions &more = made.attention;
    const auto work = [&] {
      return more.batch * more.kv_heads * more.group * std::max<std::size_t>(made.rows, 1) *
             std::max<std::size_t>(made.cols, 1) * (more.qk_dim + more.v_dim);
    };
    while (work() > most_work_) {
      if (more.batch > 2) {
        more.batch -= 1;
      } else if (made.rows > 8 && (random_.one_in(2) || made.cols < 70)) {
        made.rows -= 1 + made.rows / 4;
      } else if (made.cols > 70) {
        made.cols -= 1 + made.cols / 5;
      } else if (more.group > 2) {
        more.group -= 1;
      } else {
        made.rows = 1;
        more.batch = more.kv_heads = 1;
        if (made.cols <= 70 && more.group <= 2) break;
      }
    }
  }

  InputClass input() {
    constexpr InputClass inputs[] = {
        InputClass::gaussian,       InputClass::gaussian,         InputClass::gaussian,
        InputClass::gaussian,       InputClass::uniform,          InputClass::gaussian_wide,
        InputClass::signed_zeros,   InputClass::minus_infinities, InputClass::specials,
        InputClass::odd_rows,       InputClass::odd_rows,         InputClass::huge,
        InputClass::wide_exponents, InputClass::denormals,        InputClass::minus_infinities};
    return one_of(inputs);
  }

  // None, one or many.
  void add_options(Problem &made) {
    const std::size_t kind = random_.below(5);
    if (kind == 0) return;
    const bool many = kind >= 3;
    const std::size_t only = random_.below(12);
    const auto wanted = [&](std::size_t index) { return many ? random_.one_in(4) : index == only; };
    RowOptions &options = made.options;
    AttentionOptions &more = made.attention;
    if (wanted(0)) options.softcap = one_of({50.0, 0.5, 5.0});
    if (wanted(1)) options.bias = random_.one_in(4) ? PerRow::one_for_all : PerRow::each;
    options.bias_excludes = random_.one_in(2);
    if (wanted(2)) options.mask = random_.one_in(4) ? PerRow::one_for_all : PerRow::each;
    if (wanted(3)) options.row_lengths = true;
    if (wanted(4)) options.sinks = true;
    options.special_sinks = options.sinks && random_.one_in(4);
    if (wanted(5)) more.query_scales = true;
    if (wanted(6)) more.alibi = true;
    if (wanted(7)) more.ragged_queries = true;
    if (wanted(8) || (many && random_.one_in(2))) {
      options.causal = true;
      more.bottom_right = random_.one_in(2);
      options.causal_offset = one_of<std::ptrdiff_t>({0, 0, 1, -1, 17, -40, 500, 64});
      constexpr std::ptrdiff_t farthest = (std::ptrdiff_t{1} << 60) - 2000;  // and a query's own index
      if (random_.one_in(8) && !more.alibi) {
        options.causal_offset = one_of<std::ptrdiff_t>({farthest, -farthest, farthest - 8, -1000000});
      }
    }
    if (wanted(9)) more.window_left = one_of<std::ptrdiff_t>({0, 1, 15, 63, 64, 100, 600, PTRDIFF_MAX});
    if (wanted(10)) more.window_right = one_of<std::ptrdiff_t>({0, 1, 15, 64, 100, PTRDIFF_MAX});
    if (wanted(11)) more.window_chunk = one_of<std::size_t>({1, 16, 50, 64, 128, 300, SIZE_MAX});
  }

  Random &random_;
  std::size_t most_work_;
};

}  // namespace rapt::test
