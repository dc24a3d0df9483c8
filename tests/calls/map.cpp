#include "calls/map.hpp"

#include <algorithm>
#include <climits>
#include <limits>

#include "support/problem_data.hpp"

namespace rapt::test {

template <class T>
MapValues<T>::MapValues(const Problem &problem) : function(map_functions[problem.seed % map_function_count]) {
  const auto &[first, second] = make_operands<T>(Family::two_vectors, problem);
  inputs[0] = first;
  inputs[1] = second;
  // The third input has the numbers of the first two in turn, from the other end.
  for (std::size_t i = 0; i < first.size(); ++i) {
    inputs[2].push_back((i % 2 ? first : second)[first.size() - 1 - i]);
  }
  constexpr double some[] = {0, 0.5, -0.75, 1, 1.5, 20, -2};
  const std::size_t drawn = problem.seed / map_function_count;
  add_edges(drawn);
  for (std::size_t i = 0; i < function.parameters; ++i)
    parameters[i] = some[(drawn + 3 * i) % std::size(some)];
}

// Puts numbers into the inputs for which functions have rules: of two inputs every pair, and exponents with exact
// cases, alone and next to others.
template <class T>
void MapValues<T>::add_edges(std::size_t drawn) {
  using A = Number<T>;
  constexpr A infinity = std::numeric_limits<A>::infinity();
  constexpr A edges[] = {A(0), A(-0.0), infinity, -infinity, A(1), A(-1), A(0.5), A(-3)},
              exponents[] = {2, 3, -1, A(0.5)};
  constexpr std::size_t count = std::size(edges), exact = std::size(exponents);
  for (std::size_t i = 0; i < inputs[0].size(); ++i) {
    if (drawn % 4 == 0) {
      inputs[0][i] = static_cast<T>(edges[i % count]);
      inputs[1][i] = static_cast<T>(edges[i / count % count]);
    } else if (drawn % 4 == 1) {
      inputs[1][i] = static_cast<T>(exponents[(drawn / 4 % 2 ? i : drawn / 8) % exact]);
    } else if (i % 16 == drawn % 16) {
      inputs[0][i] = static_cast<T>(edges[i / 16 % count]);
    }
  }
}

namespace {

template <class T>
class MapCall final : public Call {
 public:
  MapCall(const Problem &problem, const Layout &layout) : Call(layout, problem.seed % 2 == 1) {
    const MapValues<T> values(problem);
    function_ = values.function;
    o_.function = function_.number;
    o_.type = element_of<T> == Element::f32 && is_short() ? RAPT_TYPE_DEFAULT : type_of(element_of<T>);
    o_.alpha = values.parameters[0], o_.beta = values.parameters[1], o_.gamma = values.parameters[2];
    const std::size_t n = problem.cols(), rows = n % 2 == 0 && problem.seed % 3 == 0 ? 2 : 1;
    o_.dims = 2;
    o_.shape[0] = rows, o_.shape[1] = n / rows;
    constexpr const char *names[] = {"x", "y", "z"};
    std::ptrdiff_t *const strides[] = {o_.x_strides, o_.y_strides, o_.z_strides};
    for (std::size_t i = 0; i < function_.inputs; ++i) {
      Operand &input = add(names[i], element_of<T>, {1, 1, rows, n / rows}, i, &inputs_[i]);
      input.stride_fields = {nullptr, nullptr, &strides[i][0], &strides[i][1]};
      input.missing = i == 0 ? RAPT_BAD_X : RAPT_BAD_INPUTS;
      input.hold(std::span<const T>(values.inputs[i]));
    }
    Operand &out = add("out", element_of<T>, {1, 1, rows, n / rows}, 2, &out_);
    out.stride_fields = {nullptr, nullptr, &o_.out_strides[0], &o_.out_strides[1]};
    out.missing = RAPT_BAD_OUT;
    out.role = Role::output;
    out.replaces = function_.inputs == 3 ? "x y z" : function_.inputs == 2 ? "x y" : "x";
  }
  rapt_status run() override { return rapt_map(inputs_[0], inputs_[1], inputs_[2], out_, given(o_)); }
  const char *options() const override { return "rapt_map_options"; }
  void add_limits(Limits &limits) override {
    limits.past("size", o_.size, RAPT_BAD_OPTIONS_SIZE,
                {0, sizeof o_ - 8, sizeof o_ - 1, sizeof o_ + 1, sizeof o_ + 8, SIZE_MAX});
    limits.past("function", o_.function, RAPT_BAD_FUNCTION,
                {0, -1, static_cast<int>(map_function_count) + 1, INT_MAX, INT_MIN});
    limits.past("type", o_.type, RAPT_BAD_TYPE, {RAPT_I8, RAPT_I4, RAPT_U4, 100, ~0u});
    limits.past("dims", o_.dims, RAPT_BAD_DIMS, {0, RAPT_MAX_DIMS + 1, SIZE_MAX});
    constexpr double nan = std::numeric_limits<double>::quiet_NaN();
    double *const parameters[] = {&o_.alpha, &o_.beta, &o_.gamma};
    constexpr const char *names[] = {"alpha", "beta", "gamma"};
    for (std::size_t i = 0; i < 3; ++i) {
      limits.past(names[i], *parameters[i], RAPT_BAD_PARAMETERS, {nan});
      if (i >= function_.parameters) limits.past(names[i], *parameters[i], RAPT_BAD_PARAMETERS, {1, -1e-300});
      if (element_of<T> != Element::f64)
        limits.past(names[i], *parameters[i], RAPT_BAD_PARAMETERS, {1e39, -1e300});
    }
    if (function_.inputs < 2) limits.past("y_strides", o_.y_strides[0], RAPT_BAD_Y_STRIDES, {1, -1});
    if (function_.inputs < 3) limits.past("z_strides", o_.z_strides[1], RAPT_BAD_Z_STRIDES, {1, RAPT_REPEAT});
    if (function_.inputs < 2) limits.past<void *>("y", inputs_[1], RAPT_BAD_INPUTS, {&limits});
    if (function_.inputs < 3) limits.past<void *>("z", inputs_[2], RAPT_BAD_INPUTS, {&limits});
    if (!has_work()) return;
    limits.past("x_strides", o_.x_strides[1], RAPT_BAD_X_STRIDES, {-1});
    limits.past("out_strides", o_.out_strides[1], RAPT_BAD_OUT_STRIDES, {-1});
    if (o_.shape[1] > 1) limits.past("out_strides", o_.out_strides[1], RAPT_BAD_OUT_STRIDES, {RAPT_REPEAT});
    limits.past("shape", o_.shape[1], RAPT_BAD_SIZE, {SIZE_MAX / 2 + 1});
  }

 private:
  rapt_map_options o_ = RAPT_MAP_OPTIONS_INIT;
  MapFunction function_{};
  void *inputs_[3] = {}, *out_ = nullptr;
};

}  // namespace

template <class T>
std::unique_ptr<Call> make_map(const Problem &problem, const Layout &layout) {
  return std::make_unique<MapCall<T>>(problem, layout);
}

#define MAKE_MAP(T)             \
  template struct MapValues<T>; \
  template std::unique_ptr<Call> make_map<T>(const Problem &, const Layout &);
MAKE_MAP(float)
MAKE_MAP(double)
MAKE_MAP(F16)
MAKE_MAP(BF16)

}  // namespace rapt::test
