#include "calls/random.hpp"

#include <limits>

#include "support/random.hpp"

namespace rapt::test {
namespace {

class RandomCall final : public Call {
 public:
  RandomCall(const Problem &problem, const Layout &layout)
      : Call(layout, problem.seed % 2 == 1), o_(random_options_of(problem)) {
    const bool is_f64 = o_.type == RAPT_F64, is_keep = o_.kind == RAPT_RANDOM_KEEP;
    Operand &out = add("out",
                       is_keep  ? Element::u8
                       : is_f64 ? Element::f64
                                : Element::f32,
                       {1, 1, 1, o_.count}, 2, &out_);
    out.role = Role::output;
    out.missing = RAPT_BAD_OUT;
  }
  rapt_status run() override { return rapt_random(out_, given(o_)); }
  const char *options() const override { return "rapt_random_options"; }
  void add_limits(Limits &limits) override {
    const bool is_keep = o_.kind == RAPT_RANDOM_KEEP, is_words = o_.kind == RAPT_RANDOM_WORDS;
    limits.past("size", o_.size, RAPT_BAD_OPTIONS_SIZE,
                {0, sizeof o_ - 8, sizeof o_ - 1, sizeof o_ + 1, sizeof o_ + 8, SIZE_MAX});
    limits.past("kind", o_.kind, RAPT_BAD_KIND, {-1, 4, 1000});
    limits.past("type", o_.type, RAPT_BAD_TYPE, {RAPT_F16, RAPT_I8, 100, ~0u});
    if (is_keep || is_words) limits.past("type", o_.type, RAPT_BAD_TYPE, {RAPT_F32, RAPT_F64});
    limits.at("seed", o_.seed, {0, UINT64_MAX});
    limits.at("stream", o_.stream, {0, UINT64_MAX});
    limits.past("offset", o_.offset, RAPT_BAD_SIZE, {(std::uint64_t{1} << 62) + 1, UINT64_MAX});
    limits.past("count", o_.count, RAPT_BAD_SIZE, {SIZE_MAX, SIZE_MAX / 2 + 2});
    constexpr double infinity = std::numeric_limits<double>::infinity(),
                     nan = std::numeric_limits<double>::quiet_NaN();
    if (is_keep) limits.at("probability", o_.probability, {0, 1, 0x1p-1074});
    limits.past("probability", o_.probability, RAPT_BAD_PROBABILITY, {-0x1p-1074, 1.0000001, infinity, nan});
    if (!is_keep) limits.past("probability", o_.probability, RAPT_BAD_PROBABILITY, {0.5, 1});
  }

 private:
  rapt_random_options o_;
  void *out_ = nullptr;
};

}  // namespace

rapt_random_options random_options_of(const Problem &problem) {
  Random random(problem.seed ^ 0x7068696c6f78u);
  rapt_random_options o = RAPT_RANDOM_OPTIONS_INIT;
  o.count = problem.cols();
  // Words are floats in memory, some of them NaN, so doubles and bytes show their bits.
  o.kind = random.one_of({RAPT_RANDOM_KEEP, RAPT_RANDOM_UNIFORM, RAPT_RANDOM_NORMAL, RAPT_RANDOM_NORMAL});
  if (o.kind != RAPT_RANDOM_KEEP) o.type = random.one_of({RAPT_TYPE_DEFAULT, RAPT_F32, RAPT_F64});
  if (o.kind == RAPT_RANDOM_KEEP) o.probability = random.one_of({0.9, 0.5, 0.1, 0x1p-32, 0.0, 1.0});
  o.seed = problem.seed * 0x9e3779b97f4a7c15u;
  o.stream = random.one_of<std::uint64_t>({0, 1, 0xffffffffu, 0x123456789abcdefu});
  o.offset = random.one_of<std::uint64_t>({0, 0, 1, 127, 1000003, 0x3fffffff0u, 0x123456789abcdeu});
  return o;
}

std::unique_ptr<Call> make_random(const Problem &problem, const Layout &layout) {
  return std::make_unique<RandomCall>(problem, layout);
}

}  // namespace rapt::test
