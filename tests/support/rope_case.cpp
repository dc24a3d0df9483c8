#include "support/rope_case.hpp"

#include <algorithm>
#include <vector>

#include "support/attention_memory.hpp"
#include "support/calls.hpp"
#include "support/public_api.hpp"
#include "support/random.hpp"
#include "support/rope_data.hpp"

namespace rapt::test {
namespace {

template <class T>
class RopeRun {
 public:
  RopeRun(const Problem &problem, const Layout &layout)
      : shape_(problem.as<RopeProblem>()),
        layout_(layout),
        numbers_(make_rope<T>(problem)),
        random_(problem.seed * 91 + 7),
        first_(shape_.window.first),
        tokens_(shape_.window.end(shape_.rows) - first_),
        in_place_(layout.alias != Alias::none),
        x_(tensor(0)),
        y_(in_place_ ? Tensor<T>() : tensor(2)) {
    each_row([&](std::size_t b, std::size_t h, std::size_t t) {
      x_.put(b, h, t, numbers_.x.data() + ((b * shape_.heads + h) * shape_.rows + first_ + t) * shape_.cols);
    });
    if (!in_place_) x_.remember();
    frequencies_.set(numbers_.frequencies, layout, layout.offset[1]);
    if (shape_.positions != RopePositions::counted) place_positions();
  }

  Outcome run() {
    const Calls calls = layout_.attention.calls;
    if (calls == Calls::by_sequence) {
      for (std::size_t b = shape_.batch; b-- > 0;) call({b, b + 1}, {0, shape_.heads}, {0, tokens_});
    } else if (calls == Calls::task_by_task) {
      for (std::size_t h = shape_.heads; h-- > 0;) call({0, shape_.batch}, {h, h + 1}, {0, tokens_});
    } else if (calls == Calls::query_by_query) {
      for (std::size_t t = tokens_; t-- > 0;) call({0, shape_.batch}, {0, shape_.heads}, {t, t + 1});
    } else {
      call({0, shape_.batch}, {0, shape_.heads}, {0, tokens_});
    }
    Tensor<T> &results = in_place_ ? x_ : y_;
    each_row([&](std::size_t b, std::size_t h, std::size_t t) { results.take(b, h, t, outcome_); });
    if (!results.all_canary()) outcome_.fault += "wrote outside the rows of y; ";
    if (!in_place_ && !x_.unchanged()) outcome_.fault += "wrote to x; ";
    if (!frequencies_.intact() || !positions_.intact()) outcome_.fault += "wrote to an option's array; ";
    return std::move(outcome_);
  }

 private:
  struct Range {
    std::size_t first, end;
    std::size_t count() const { return end - first; }
  };

  Tensor<T> tensor(std::size_t slot) const {
    return {{shape_.batch, shape_.heads, tokens_, shape_.cols},
            layout_.attention.tokens_outside,
            static_cast<std::size_t>(layout_.gap[slot]),
            layout_,
            slot};
  }
  template <class F>
  void each_row(F f) const {
    for (std::size_t b = 0; b < shape_.batch; ++b) {
      for (std::size_t h = 0; h < shape_.heads; ++h) {
        for (std::size_t t = 0; t < tokens_; ++t) f(b, h, t);
      }
    }
  }

  // Between the positions of two sequences are numbers that no call may look at.
  void place_positions() {
    const bool is_shared = shape_.positions == RopePositions::shared;
    stride_ = tokens_ + static_cast<std::size_t>(layout_.gap[1]);
    std::vector<std::int64_t> all;
    for (std::size_t b = 0; b < (is_shared ? 1 : shape_.batch); ++b) {
      if (b > 0) all.resize(b * stride_, std::int64_t{1} << 40);
      const auto row = numbers_.positions.begin() + static_cast<std::ptrdiff_t>(b * shape_.rows + first_);
      all.insert(all.end(), row, row + static_cast<std::ptrdiff_t>(tokens_));
    }
    positions_.set(all, layout_, layout_.offset[0]);
  }

  void call(Range items, Range heads, Range tokens) {
    if (!outcome_.fault.empty()) return;      // one fault is enough
    const bool is_short = random_.one_in(2);  // leaves out what has a default
    const bool is_whole = heads.count() == shape_.heads && tokens.count() == tokens_;
    const Tensor<T> &results = in_place_ ? x_ : y_;
    rapt_rope_options o{};
    o.size = sizeof o;
    o.type = is_short && std::is_same_v<T, float> ? RAPT_TYPE_DEFAULT : Api<T>::type;
    o.layout = shape_.in_pairs ? RAPT_ROPE_PAIRS : RAPT_ROPE_HALVES;
    o.batch = items.count();
    o.heads = heads.count();
    o.tokens = tokens.count();
    o.head_dim = shape_.cols;
    o.rotary_dim = is_short && shape_.turned() == shape_.cols ? 0 : shape_.turned();
    o.x_strides = is_short && is_whole ? x_.given_strides() : x_.strides();
    o.y_strides = is_short && is_whole ? results.given_strides() : results.strides();
    o.frequencies = frequencies_.data();
    set_positions(items.first, tokens.first, is_short && tokens.count() == tokens_, o);
    o.attention_factor = is_short && shape_.scale == 1 ? 0 : shape_.scale;
    o.backward = shape_.backward;
    rapt_status status = RAPT_OK;
    call_in_state(layout_, outcome_, [&] {
      status = rapt_rope(x_.at(items.first, heads.first, tokens.first),
                         results.at(items.first, heads.first, tokens.first), &o);
    });
    check_status(status, outcome_);
  }
  void set_positions(std::size_t item, std::size_t token, bool is_short, rapt_rope_options &o) const {
    if (shape_.positions == RopePositions::counted) {
      o.first_position =
          static_cast<std::int64_t>(shape_.first_position) + static_cast<std::int64_t>(first_ + token);
      return;
    }
    const bool is_shared = shape_.positions == RopePositions::shared;
    o.positions = positions_.from((is_shared ? 0 : item * stride_) + token);
    if (!o.positions) return;  // no tokens
    o.positions_stride = is_shared ? RAPT_REPEAT : static_cast<std::ptrdiff_t>(stride_);
    if (!is_shared && is_short && layout_.gap[1] == 0) o.positions_stride = 0;
  }

  const RopeProblem &shape_;
  const Layout &layout_;
  const RopeNumbers<T> &numbers_;
  Random random_;
  std::size_t first_, tokens_;
  bool in_place_;
  Tensor<T> x_, y_;
  Array<double> frequencies_;
  Array<std::int64_t> positions_;
  std::size_t stride_ = 0;
  Outcome outcome_;
};

}  // namespace

template <class T>
Outcome run_rope(const Problem &problem, const Layout &layout) {
  if (problem.as<RopeProblem>().turned() == 0) return {};
  return RopeRun<T>(problem, layout).run();
}

template Outcome run_rope<float>(const Problem &, const Layout &);
template Outcome run_rope<double>(const Problem &, const Layout &);
template Outcome run_rope<F16>(const Problem &, const Layout &);
template Outcome run_rope<BF16>(const Problem &, const Layout &);

}  // namespace rapt::test
