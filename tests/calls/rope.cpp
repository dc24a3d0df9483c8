#include "calls/rope.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "support/options.hpp"
#include "support/remembered.hpp"

namespace rapt::test {
namespace {

constexpr double half_pi = 0x1.921fb54442d18p0, infinity = std::numeric_limits<double>::infinity(),
                 nan = std::numeric_limits<double>::quiet_NaN();
constexpr std::int64_t farthest = std::int64_t{1} << 24;  // of all positions

class RopeCall final : public Call {
 public:
  template <class T>
  RopeCall(const RopeValues<T> &values, const Problem &problem, const Layout &layout)
      : Call(layout, problem.seed % 2 == 1 && layout.attention.calls == Calls::whole),
        shape_(problem.as<RopeProblem>()),
        first_(shape_.window.first),
        tokens_(shape_.window.end(shape_.rows) - first_) {
    if (shape_.turned() == 0) return;
    o_.size = sizeof o_;
    o_.type = is_short() && element_of<T> == Element::f32 ? RAPT_TYPE_DEFAULT : type_of(element_of<T>);
    o_.layout = shape_.in_pairs ? RAPT_ROPE_PAIRS : RAPT_ROPE_HALVES;
    o_.head_dim = shape_.cols;
    o_.rotary_dim = is_short() && shape_.turned() == shape_.cols ? 0 : shape_.turned();
    o_.attention_factor = is_short() && shape_.scale == 1 ? 0 : shape_.scale;
    o_.backward = shape_.backward;
    set_part({0, shape_.batch}, {0, shape_.heads}, {0, tokens_});

    Operand &x = add_tensor("x", element_of<T>, 0, &x_, "x_strides", o_.x_strides, RAPT_BAD_X);
    std::vector<T> part;
    for (std::size_t row = 0; row < shape_.batch * shape_.heads; ++row) {
      const auto begin =
          values.x.begin() + static_cast<std::ptrdiff_t>((row * shape_.rows + first_) * shape_.cols);
      part.insert(part.end(), begin, begin + static_cast<std::ptrdiff_t>(tokens_ * shape_.cols));
    }
    x.hold(std::span<const T>(part));
    Operand &y = add_tensor("y", element_of<T>, 2, &y_, "y_strides", o_.y_strides, RAPT_BAD_Y);
    y.role = Role::output;
    y.replaces = "x";
    Operand &frequencies =
        add("frequencies", Element::f64, {1, 1, 1, shape_.turned() / 2}, 1, &o_.frequencies);
    frequencies.missing = RAPT_BAD_FREQUENCIES;
    frequencies.has_limits = true;
    frequencies.hold(std::span(values.frequencies));
    if (shape_.positions != RopePositions::counted) add_positions(values.positions);
  }

  rapt_status run() override {
    const Calls calls = layout().attention.calls;
    rapt_status status = RAPT_OK;
    const Range items{0, shape_.batch}, heads{0, shape_.heads}, tokens{0, tokens_};
    if (shape_.turned() == 0) return status;
    if (calls == Calls::by_sequence) {
      for (std::size_t b = shape_.batch; b-- > 0 && status == RAPT_OK;)
        status = run_part({b, b + 1}, heads, tokens);
    } else if (calls == Calls::task_by_task) {
      for (std::size_t h = shape_.heads; h-- > 0 && status == RAPT_OK;)
        status = run_part(items, {h, h + 1}, tokens);
    } else if (calls == Calls::query_by_query) {
      for (std::size_t t = tokens_; t-- > 0 && status == RAPT_OK;)
        status = run_part(items, heads, {t, t + 1});
    } else {
      status = rapt_rope(x_, y_, given(o_));
    }
    return status;
  }
  const char *options() const override { return "rapt_rope_options"; }

  void add_limits(Limits &limits) override {
    const bool in_f64 = operands().empty() || operands()[0].element == Element::f64;
    const double least = in_f64 ? 0x1p-1022 : 0x1p-126;
    if (shape_.turned() == 0) return;
    limits.past("size", o_.size, RAPT_BAD_OPTIONS_SIZE,
                {0, sizeof o_ - 8, sizeof o_ - 1, sizeof o_ + 1, sizeof o_ + 8, SIZE_MAX});
    limits.past("type", o_.type, RAPT_BAD_TYPE, {RAPT_I8, RAPT_I4, RAPT_U4, 100, ~0u});
    limits.past("layout", o_.layout, RAPT_BAD_LAYOUT, {2, -1, INT32_MAX, INT32_MIN});
    limits.past("batch", o_.batch, RAPT_BAD_SHAPE, {0});
    limits.past("heads", o_.heads, RAPT_BAD_SHAPE, {0});
    limits.past("head_dim", o_.head_dim, RAPT_BAD_SHAPE, {0});
    limits.past("rotary_dim", o_.rotary_dim, RAPT_BAD_ROTARY_DIM,
                {1, shape_.turned() - 1, shape_.cols / 2 * 2 + 2, SIZE_MAX - 1});
    limits.at("attention_factor", o_.attention_factor, {least, -least});
    limits.past("attention_factor", o_.attention_factor, RAPT_BAD_ATTENTION_FACTOR,
                {nan, infinity, -infinity, least / 1.5});
    if (!in_f64)
      limits.past("attention_factor", o_.attention_factor, RAPT_BAD_ATTENTION_FACTOR, {0x1p128, 1e-300});
    limits.at("backward", o_.backward, {0, 1, -1, 256});
    // Without tokens, the arrays may be null.
    const Statuses of_nothing = has_work() ? 0 : only(RAPT_BAD_X) | only(RAPT_BAD_Y);
    limits.past("tokens", o_.tokens,
                only(RAPT_BAD_SIZE) | only(RAPT_BAD_POSITIONS) | strides_of_tokens() | of_nothing,
                {SIZE_MAX / 8, SIZE_MAX});
    if (!has_work()) return;
    add_strides(limits, "x_strides", o_.x_strides, RAPT_BAD_X_STRIDES);
    add_strides(limits, "y_strides", o_.y_strides, RAPT_BAD_Y_STRIDES);
    add_overlapping_rows(limits);
    add_frequencies(limits);
    add_positions(limits);
  }

 private:
  struct Range {
    std::size_t first, end;
    std::size_t count() const { return end - first; }
  };

  Operand &add_tensor(const char *name, Element element, std::size_t slot, void *pointer,
                      const char *strides_name, rapt_strides &strides, rapt_status missing) {
    Operand &added = add(name, element, {shape_.batch, shape_.heads, tokens_, shape_.cols}, slot, pointer);
    added.missing = missing;
    added.stride_fields = {&strides.batch, &strides.head, &strides.token};
    added.stride_name = strides_name;
    if (layout().attention.tokens_outside) added.put_tokens_outside();
    return added;
  }
  // Between two sequences lie numbers that no call may look at.
  void add_positions(const std::vector<std::int64_t> &values) {
    const bool is_shared = shape_.positions == RopePositions::shared;
    Operand &added =
        add("positions", Element::i64, {1, 1, is_shared ? 1 : shape_.batch, tokens_}, 1, &o_.positions);
    added.has_limits = true;
    std::vector<std::int64_t> part;
    for (std::size_t b = 0; b < added.sizes[2]; ++b) {
      const auto begin = values.begin() + static_cast<std::ptrdiff_t>(b * shape_.rows + first_);
      part.insert(part.end(), begin, begin + static_cast<std::ptrdiff_t>(tokens_));
    }
    added.hold(std::span<const std::int64_t>(part));
    if (is_shared) {
      o_.positions_stride = RAPT_REPEAT;
    } else {
      added.stride_fields[2] = &o_.positions_stride;
      added.stride_name = "positions_stride";
    }
  }

  // The options of a part of the work, whose pointers are those of the whole.
  void set_part(Range items, Range heads, Range tokens) {
    o_.batch = items.count();
    o_.heads = heads.count();
    o_.tokens = tokens.count();
    if (shape_.positions == RopePositions::counted)
      o_.first_position =
          static_cast<std::int64_t>(shape_.first_position) + static_cast<std::int64_t>(first_ + tokens.first);
  }
  rapt_status run_part(Range items, Range heads, Range tokens) {
    const rapt_rope_options whole = o_;
    set_part(items, heads, tokens);
    if (o_.positions) {
      const std::ptrdiff_t stride = o_.positions_stride == RAPT_REPEAT ? 0 : o_.positions_stride;
      o_.positions +=
          static_cast<std::ptrdiff_t>(items.first) * stride + static_cast<std::ptrdiff_t>(tokens.first);
    }
    const Operand &x = operands()[0], &y = operands()[1];
    const rapt_status status = rapt_rope(x.row(items.first, heads.first, tokens.first),
                                         y.row(items.first, heads.first, tokens.first), &o_);
    o_ = whole;
    return status;
  }

  Statuses strides_of_tokens() const {
    return tokens_ <= 1 ? only(RAPT_BAD_X_STRIDES) | only(RAPT_BAD_Y_STRIDES) : only(RAPT_BAD_Y_STRIDES);
  }
  // A stride of a dimension longer than 1 is given if another is. None is negative, but for RAPT_REPEAT, which only x
  // takes.
  void add_strides(Limits &limits, const char *name, rapt_strides &strides, rapt_status bad) {
    const auto cols = static_cast<std::ptrdiff_t>(shape_.cols);
    const std::size_t counts[] = {shape_.batch, shape_.heads, tokens_};
    for (std::size_t i = 0; i < 3; ++i) {
      if (counts[i] <= 1) continue;
      const auto set = [&strides, cols, counts = std::to_array(counts), i](std::ptrdiff_t stride) {
        strides.token = cols;
        strides.head = cols * static_cast<std::ptrdiff_t>(counts[2]);
        strides.batch = strides.head * static_cast<std::ptrdiff_t>(counts[1]);
        (i == 0 ? strides.batch : i == 1 ? strides.head : strides.token) = stride;
      };
      const bool is_alone = (counts[0] > 1) + (counts[1] > 1) + (counts[2] > 1) == 1;
      if (!is_alone) limits.add({name, only(bad), [set] { set(0); }});
      limits.add({name, only(bad), [set] { set(-1); }});
      const auto too_far = PTRDIFF_MAX / static_cast<std::ptrdiff_t>(counts[i] - 1) /
                               static_cast<std::ptrdiff_t>(size_of(operands()[0].element)) +
                           1;
      limits.add({name, only(RAPT_BAD_SIZE), [set, too_far] { set(too_far); }});
      if (bad == RAPT_BAD_Y_STRIDES) limits.add({name, only(bad), [set] { set(RAPT_REPEAT); }});
    }
  }
  // Rows of y may not meet.
  void add_overlapping_rows(Limits &limits) {
    const auto cols = static_cast<std::ptrdiff_t>(shape_.cols);
    const std::ptrdiff_t rows = static_cast<std::ptrdiff_t>(tokens_),
                         heads = static_cast<std::ptrdiff_t>(shape_.heads);
    if (tokens_ > 1)
      limits.add({"y_strides", only(RAPT_BAD_Y_STRIDES), [=, this] {
                    o_.y_strides = {heads * rows * cols, rows * cols, cols - 1};
                  }});
    if (heads > 1)
      limits.add({"y_strides", only(RAPT_BAD_Y_STRIDES), [=, this] {
                    o_.y_strides = {heads * rows * cols, rows * cols - 1, cols};
                  }});
  }
  void add_frequencies(Limits &limits) {
    const std::size_t last = shape_.turned() / 2 - 1;
    for (const double value : {1024.0, -1024.0})
      limits.add({"frequencies", 0, [=, this] { set_value("frequencies", last, value); }});
    for (const double value : {std::nextafter(1024, 1025), -1025.0, infinity, -infinity, nan})
      limits.add(
          {"frequencies", only(RAPT_BAD_FREQUENCIES), [=, this] { set_value("frequencies", last, value); }});
  }
  void add_positions(Limits &limits) {
    const auto tokens = static_cast<std::ptrdiff_t>(tokens_);
    if (!o_.positions) {
      limits.at("first_position", o_.first_position, {-farthest, farthest - tokens + 1});
      limits.past("first_position", o_.first_position, RAPT_BAD_POSITIONS,
                  {-farthest - 1, farthest - tokens + 2, INT64_MIN, INT64_MAX});
      limits.past("positions_stride", o_.positions_stride, RAPT_BAD_POSITIONS, {1, -1, tokens, RAPT_REPEAT});
      return;
    }
    limits.past("first_position", o_.first_position, RAPT_BAD_POSITIONS, {1, -1});
    limits.past("positions_stride", o_.positions_stride, RAPT_BAD_POSITIONS, {-1, RAPT_REPEAT + 1});
    if (tokens > 1) limits.past("positions_stride", o_.positions_stride, RAPT_BAD_POSITIONS, {tokens - 1});
    if (shape_.batch > 1 && shape_.positions == RopePositions::each)
      limits.past("positions_stride", o_.positions_stride, RAPT_BAD_SIZE, {PTRDIFF_MAX / 8});
    const std::size_t last = operands().back().sizes[2] * tokens_ - 1;
    for (const std::int64_t value : {farthest, -farthest})
      limits.add({"positions", 0, [=, this] { set_value("positions", last, value); }});
    for (const std::int64_t value :
         {farthest + 1, -farthest - 1, std::int64_t{INT64_MIN}, std::int64_t{INT64_MAX}})
      limits.add({"positions", only(RAPT_BAD_POSITIONS), [=, this] { set_value("positions", last, value); }});
  }

  const RopeProblem shape_;
  const std::size_t first_, tokens_;
  rapt_rope_options o_{};
  void *x_ = nullptr, *y_ = nullptr;
};

// Draws frequencies of a model, which fall from 1, and others: above 1, multiples of an eighth of a turn,
// tiny ones and 0.
double draw_frequency(Random &random, std::size_t i, std::size_t count) {
  const double of_model = std::ldexp(1 + random.uniform(), -static_cast<int>(14 * i / count));
  const std::size_t kind = random.below(16);
  const double number = random.uniform(), steps = static_cast<double>(1 + random.below(600));
  if (kind == 0) return 1024 * number;
  if (kind == 1) return steps * half_pi;
  if (kind == 2) return -number;
  if (kind == 3) return steps * half_pi / 2;
  if (kind == 4) return std::ldexp(number, -static_cast<int>(random.below(1070)));
  if (kind == 5) return random.one_of({0.0, -0.0, 1024.0, -1024.0, 1.0, 0x1p-1074});
  return of_model;
}

std::int64_t draw_position(Random &random) {
  const std::size_t kind = random.below(8);
  const auto far = static_cast<std::int64_t>(random.below(2 * farthest + 1)) - farthest;
  if (kind < 3) return static_cast<std::int64_t>(random.below(200));
  if (kind < 6) return static_cast<std::int64_t>(random.below(200000));
  if (kind == 6) return random.one_of<std::int64_t>({farthest, -farthest, farthest - 1, 0, -1});
  return far;
}

template <class T>
RopeValues<T> make_new_values(const Problem &problem) {
  const auto &shape = problem.as<RopeProblem>();
  Random random(problem.seed);
  RopeValues<T> made;
  made.x.resize(shape.batch * shape.heads * shape.rows * shape.cols);
  for (std::size_t i = 0; shape.cols > 0 && i < made.x.size(); i += shape.cols) {
    fill<T>(problem.input, random, std::span(made.x).subspan(i, shape.cols));
  }
  const std::size_t pairs = shape.turned() / 2;
  for (std::size_t i = 0; i < pairs; ++i) made.frequencies.push_back(draw_frequency(random, i, pairs));
  for (std::size_t b = 0; b < shape.batch; ++b) {
    for (std::size_t t = 0; t < shape.rows; ++t) {
      const std::int64_t drawn = draw_position(random);
      const auto counted = static_cast<std::int64_t>(shape.first_position) + static_cast<std::int64_t>(t);
      made.positions.push_back(shape.positions == RopePositions::counted           ? counted
                               : shape.positions == RopePositions::shared && b > 0 ? made.positions[t]
                                                                                   : drawn);
    }
  }
  return made;
}

InputClass draw_input(Random &random) {
  return random.one_of({InputClass::gaussian, InputClass::gaussian, InputClass::gaussian, InputClass::uniform,
                        InputClass::gaussian_wide, InputClass::denormals, InputClass::huge,
                        InputClass::signed_zeros, InputClass::wide_exponents, InputClass::specials,
                        InputClass::minus_infinities, InputClass::nans});
}

// Draws usual heads and small ones, and some whose sines and cosines need several tables.
std::size_t draw_head_dim(Random &random) {
  const std::size_t kind = random.below(16);
  const std::size_t small = 2 + random.below(140), long_one = 1000 + random.below(3500);
  if (kind < 6) return random.one_of<std::size_t>({16, 32, 64, 80, 96, 128, 192, 256});
  return kind == 6 ? long_one : small;
}

}  // namespace

template <class T>
const RopeValues<T> &make_rope_values(const Problem &problem) {
  return remembered(problem, [&] { return make_new_values<T>(problem); });
}
template const RopeValues<float> &make_rope_values(const Problem &);
template const RopeValues<double> &make_rope_values(const Problem &);
template const RopeValues<F16> &make_rope_values(const Problem &);
template const RopeValues<BF16> &make_rope_values(const Problem &);

std::unique_ptr<Call> make_rope(Element element, const Problem &problem, const Layout &layout) {
  return with_float_type_of(element, [&]<class T>(T) -> std::unique_ptr<Call> {
    return std::make_unique<RopeCall>(make_rope_values<T>(problem), problem, layout);
  });
}

Problem draw_rope_problem(Random &random, std::size_t most) {
  RopeProblem made;
  made.cols = draw_head_dim(random);
  made.heads = random.one_of<std::size_t>({1, 1, 2, 3, 5, 8});
  made.batch = random.one_of<std::size_t>({1, 1, 2, 3});
  const std::size_t few = random.below(6), many = 1 + random.below(70);
  made.rows = random.one_in(3) ? many : few;
  const std::size_t part = 2 + random.below(made.cols - 1);
  if (random.one_in(3)) made.rotary_dim = part;
  while (made.cols * made.heads * made.batch * std::max<std::size_t>(made.rows, 1) > most) {
    if (made.batch == 1 && made.heads == 1 && made.rows <= 1) break;
    (made.batch > 1 ? made.batch : made.heads > 1 ? made.heads : made.rows) -= 1;
  }
  made.scale = random.one_of({1.0, 1.0, 1.0, 0.0, 1.2079441541679836, -0.7, 0x1p-60, 0x1p60});
  draw(random, made);
  Problem problem;
  problem.input = draw_input(random);
  problem.seed = random.below(1u << 24);
  problem.of = made;
  return problem;
}

std::vector<Problem> rope_of_shapes(std::size_t step) {
  std::vector<Problem> problems;
  std::size_t count = 0;
  const auto add = [&](std::size_t pairs, std::size_t rows, std::size_t heads) {
    for (const bool in_pairs : {false, true}) {
      if (count++ % step != 0) continue;
      RopeProblem made;
      made.rows = rows;
      made.heads = heads;
      made.rotary_dim = 2 * pairs;
      made.cols = 2 * pairs + count / 2 % 3;
      made.in_pairs = in_pairs;
      made.positions = static_cast<RopePositions>(count / 2 % 3);
      made.scale = count % 5 == 0 ? 1.25 : 1;
      problems.push_back({InputClass::gaussian, 100 * pairs + rows, made});
    }
  };
  for (std::size_t pairs = 1; pairs <= 66; ++pairs) add(pairs, 1 + pairs % 4, 1 + pairs % 3);
  for (const std::size_t pairs : {511u, 512u, 513u, 1023u, 1024u, 1025u, 1100u}) add(pairs, 3, 2);
  // A table holds 16 tokens of 64 pairs in halves, and 8 of pairs side by side.
  for (const std::size_t rows : {7u, 8u, 9u, 15u, 16u, 17u, 33u}) add(64, rows, 2);
  return problems;
}

}  // namespace rapt::test
