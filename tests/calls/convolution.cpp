#include "calls/convolution.hpp"

#include <algorithm>
#include <span>

#include "calls/shapes.hpp"
#include "support/options.hpp"
#include "support/problem_data.hpp"

namespace rapt::test {
namespace {

constexpr std::size_t digit(std::size_t number, std::size_t d) {
  const std::size_t powers[] = {100, 10, 1};
  return number / powers[d] % 10;
}

class ConvolutionCall final : public Call {
 public:
  template <class T>
  ConvolutionCall(const OperandValues<T> &values, const Problem &problem, const Layout &layout)
      : Call(layout, problem.seed % 2 == 1),
        of_(problem.as<ConvolutionProblem>()),
        sizes_(of_),
        element_(element_of<T>),
        split_seed_(problem.seed * 31 + 7) {
    using A = Number<T>;
    o_.size = sizeof o_;
    o_.type = is_short() && element_ == Element::f32 ? RAPT_TYPE_DEFAULT : type_of(element_);
    o_.result = static_cast<int>(of_.result);
    o_.batch = sizes_.batch;
    o_.in_channels = sizes_.channels * sizes_.groups;
    o_.out_channels = sizes_.outputs * sizes_.groups;
    o_.groups = is_short() && sizes_.groups == 1 ? 0 : sizes_.groups;
    while (is_short() && first_ < 2 && is_plain(first_)) ++first_;
    o_.dims = 3 - first_;
    for (std::size_t d = first_; d < 3; ++d) {
      const std::size_t i = d - first_;
      o_.in_size[i] = sizes_.in[d], o_.taps[i] = sizes_.taps[d];
      o_.stride[i] = is_short() && sizes_.stride[d] == 1 ? 0 : sizes_.stride[d];
      o_.dilation[i] = is_short() && sizes_.dilation[d] == 1 ? 0 : sizes_.dilation[d];
      o_.pad_before[i] = sizes_.before[d], o_.pad_after[i] = sizes_.after[d];
    }
    if (of_.result == RAPT_CONVOLUTION_Y) {
      add_tensor("x", true, &a_, 0, Role::input).hold(std::span(values.first));
      add_weights("w", &b_, 1, Role::input).hold(std::span(values.second));
      add_tensor("y", false, &out_, 2, Role::output);
    } else if (of_.result == RAPT_CONVOLUTION_DX) {
      add_tensor("x", false, &a_, 0, Role::input).hold(std::span(values.first));
      add_weights("w", &b_, 1, Role::input).hold(std::span(values.second));
      add_tensor("y", true, &out_, 2, Role::output);
    } else {
      add_tensor("x", true, &a_, 0, Role::input).hold(std::span(values.first));
      add_tensor("w", false, &b_, 1, Role::input).hold(std::span(values.second));
      add_weights("y", &out_, 2, Role::output);
    }
    const std::vector<A> biases = bias_of<A>(problem);
    if (!biases.empty()) {
      Operand &bias = add("bias", element_of<A>, {1, 1, 1, biases.size()}, 0, &o_.bias);
      bias.set_rows_apart(0);
      bias.hold(std::span(biases));
    }
    rapt_convolution_workspace(&o_, &workspace_size_);
    Operand &workspace = add("workspace", Element::u8, {1, 1, 1, workspace_size_}, 2, &workspace_);
    workspace.set_rows_apart(0);
    workspace.role = Role::scratch;
    workspace.missing = workspace.bad_overlap = RAPT_BAD_WORKSPACE;
    if (problem.seed % 3 == 0) workspace.values.assign(workspace_size_, 0x3f);
    if (layout.linear.packed_w && of_.result == RAPT_CONVOLUTION_Y && sizes_.groups == 1) pack();
  }

  rapt_status run() override {
    const Calls calls = layout().linear.calls;
    if (calls != Calls::task_by_task && calls != Calls::task_ranges)
      return rapt_convolution(a_, b_, out_, given(o_), workspace_, workspace_size_);
    std::size_t tasks = 0;
    rapt_status status = rapt_convolution_tasks(given(o_), &tasks);
    Random random(split_seed_);
    // An empty run looks at all arguments.
    if (status == RAPT_OK)
      status = rapt_convolution_run(a_, b_, out_, given(o_), 0, 0, workspace_, workspace_size_);
    for (std::size_t end = tasks; end > 0 && status == RAPT_OK;) {
      const std::size_t count = calls == Calls::task_by_task ? 1 : 1 + random.below(end);
      status = rapt_convolution_run(a_, b_, out_, given(o_), end - count, end, workspace_, workspace_size_);
      end -= count;
    }
    return status;
  }
  const char *options() const override { return "rapt_convolution_options"; }
  bool has_work() const override {
    for (const Operand &operand : operands()) {
      if (operand.is_result() && operand.is_empty()) return false;
    }
    return true;
  }
  std::vector<rapt_status> elsewhere(Where where) override {
    std::size_t number[3] = {};
    if (where == Where::call) return {};
    return {rapt_convolution_workspace(given(o_), number), rapt_convolution_tasks(given(o_), number),
            rapt_convolution_positions(given(o_), number)};
  }

  void add_limits(Limits &limits) override {
    limits.are_of(Where::options);
    limits.past("size", o_.size, RAPT_BAD_OPTIONS_SIZE,
                {0, sizeof o_ - 8, sizeof o_ - 1, sizeof o_ + 1, sizeof o_ + 8, SIZE_MAX});
    limits.past("type", o_.type, RAPT_BAD_TYPE, {RAPT_I8, RAPT_I4, RAPT_U8, 100, ~0u});
    limits.past("result", o_.result, RAPT_BAD_RESULT, {-1, 3, INT32_MAX, INT32_MIN});
    limits.past("dims", o_.dims, RAPT_BAD_DIMS, {0, 4, SIZE_MAX});
    limits.past("in_channels", o_.in_channels, RAPT_BAD_SHAPE, {0});
    const Statuses uneven = only(RAPT_BAD_GROUPS) | only(RAPT_BAD_SIZE);
    limits.past("groups", o_.groups, uneven, {o_.in_channels + 1, SIZE_MAX});
    limits.past("taps", o_.taps[0], RAPT_BAD_SHAPE, {0});
    limits.past("taps", o_.taps[0], only(RAPT_BAD_SHAPE) | only(RAPT_BAD_SIZE),
                {SIZE_MAX, SIZE_MAX / 2, 1u << 20});
    limits.past("in_size", o_.in_size[0], RAPT_BAD_SIZE, {SIZE_MAX, SIZE_MAX / 2});
    limits.past("stride", o_.stride[0], RAPT_BAD_SIZE, {SIZE_MAX});
    limits.past("dilation", o_.dilation[0], RAPT_BAD_SIZE, {SIZE_MAX});
    limits.past("pad_before", o_.pad_before[0], RAPT_BAD_SIZE, {SIZE_MAX});
    limits.past("pad_after", o_.pad_after[0], RAPT_BAD_SIZE, {SIZE_MAX});
    limits.past("batch", o_.batch, RAPT_BAD_SIZE, {SIZE_MAX});
    limits.past("out_channels", o_.out_channels, uneven, {SIZE_MAX / sizes_.groups * sizes_.groups});
    if (of_.result != RAPT_CONVOLUTION_Y || sizes_.groups > 1)
      limits.past("packed_w", o_.packed_w, RAPT_BAD_PACKED, {1});
    if (of_.result == RAPT_CONVOLUTION_DW)
      limits.past<const void *>("bias", o_.bias, RAPT_BAD_BIAS, {&limits});
    limits.field("bias", o_.bias);
    limits.field("packed_w", o_.packed_w);
    // Of quantized weights, which convolution_quantized_test has.
    limits.past("w_type", o_.w_type, RAPT_BAD_TYPE, {100, ~0u});
    limits.past("arithmetic", o_.arithmetic, RAPT_BAD_ARITHMETIC,
                {RAPT_ARITHMETIC_F32, RAPT_ARITHMETIC_I8, -1, INT32_MAX});
    limits.past("scale_group", o_.scale_group, RAPT_BAD_SCALE_GROUP, {16, SIZE_MAX});
    limits.past("x_group", o_.x_group, RAPT_BAD_X_GROUP, {512, SIZE_MAX});
    if (o_.dims < 3) {
      limits.past("in_size", o_.in_size[2], RAPT_BAD_DIMS, {1});
      limits.past("taps", o_.taps[2], RAPT_BAD_DIMS, {1, SIZE_MAX});
      limits.past("stride", o_.stride[2], RAPT_BAD_DIMS, {1});
      limits.past("dilation", o_.dilation[2], RAPT_BAD_DIMS, {1});
      limits.past("pad_before", o_.pad_before[2], RAPT_BAD_DIMS, {1});
      limits.past("pad_after", o_.pad_after[2], RAPT_BAD_DIMS, {1});
      limits.past("x_strides", o_.x_strides[4], RAPT_BAD_X_STRIDES, {1, -1});
      limits.past("y_strides", o_.y_strides[4], RAPT_BAD_Y_STRIDES, {1, -1});
    }
    add_strides(limits, "x_strides", true, o_.x_strides, RAPT_BAD_X_STRIDES);
    add_strides(limits, "y_strides", false, o_.y_strides, RAPT_BAD_Y_STRIDES);
    limits.are_of(Where::call);
    if (has_work()) limits.past("workspace", workspace_size_, RAPT_BAD_WORKSPACE, {0, workspace_size_ - 1});
  }

 private:
  bool is_plain(std::size_t d) const {
    return sizes_.in[d] == 1 && sizes_.taps[d] == 1 && sizes_.stride[d] == 1 && sizes_.dilation[d] == 1 &&
           sizes_.before[d] == 0 && sizes_.after[d] == 0;
  }
  void add_strides(Limits &limits, const char *name, bool is_x, std::ptrdiff_t (&strides)[5],
                   rapt_status bad) {
    const std::size_t *const size = is_x ? sizes_.in : sizes_.out;
    const std::size_t channels = is_x ? o_.in_channels : o_.out_channels;
    if (o_.batch == 0 || channels == 0 || size[0] * size[1] * size[2] == 0) return;
    for (const std::ptrdiff_t stride : {std::ptrdiff_t{-1}, std::ptrdiff_t{0}}) {
      if (size[2] <= 1) continue;
      limits.add({name, only(bad), [this, &strides, stride] {
                    for (std::size_t d = 0; d < 2 + o_.dims; ++d) strides[d] = 1 << 20;
                    strides[1 + o_.dims] = stride;
                  }});
    }
  }

  Operand &add_tensor(const char *name, bool is_x, void *pointer, std::size_t slot, Role role) {
    const std::size_t *const size = is_x ? sizes_.in : sizes_.out;
    const std::size_t channels = is_x ? o_.in_channels : o_.out_channels, planes = size[0] * size[1];
    Operand &tensor = add(name, element_, {sizes_.batch, channels, planes, size[2]}, slot, pointer);
    tensor.role = role;
    const MatrixOrder order = is_x ? layout().linear.x_order : layout().linear.w_order;
    const bool are_last = order == MatrixOrder::columns;
    std::ptrdiff_t step = order == MatrixOrder::apart ? 3 : 1;
    const std::size_t last_channels[] = {1, 3, 2, 0}, last_positions[] = {3, 2, 1, 0};
    for (const std::size_t d : are_last ? last_channels : last_positions) {
      tensor.strides[d] = step;
      step *= static_cast<std::ptrdiff_t>(std::max<std::size_t>(tensor.sizes[d], 1));
      if (d == (are_last ? 1 : 3)) step += layout().gap[slot];
    }
    // A stride of 0 is one of a dimension that does not need it.
    std::ptrdiff_t *const strides = is_x ? o_.x_strides : o_.y_strides;
    const bool is_default = is_short() && order == MatrixOrder::rows && layout().gap[slot] == 0;
    const std::ptrdiff_t all[] = {tensor.strides[0], tensor.strides[1],
                                  tensor.strides[2] * static_cast<std::ptrdiff_t>(size[1]), tensor.strides[2],
                                  tensor.strides[3]};
    for (std::size_t i = 0; i < 2; ++i) strides[i] = is_default ? 0 : all[i];
    for (std::size_t d = first_; d < 3; ++d) strides[2 + d - first_] = is_default ? 0 : all[2 + d];
    tensor.missing = tensor.is_empty() ? RAPT_OK
                     : slot == 0       ? RAPT_BAD_X
                     : slot == 1       ? RAPT_BAD_W
                                       : RAPT_BAD_Y;
    return tensor;
  }
  Operand &add_weights(const char *name, void *pointer, std::size_t slot, Role role) {
    Operand &w =
        add(name, element_, {1, 1, o_.out_channels, sizes_.channels * sizes_.all_taps()}, slot, pointer);
    w.set_rows_apart(0);
    w.role = role;
    w.missing = w.is_empty() ? RAPT_OK : slot == 1 ? RAPT_BAD_W : RAPT_BAD_Y;
    return w;
  }

  void pack() {
    for (Operand &w : all()) {
      if (w.name[0] != 'w' || w.name[1] != 0) continue;
      rapt_linear_options packing = RAPT_LINEAR_OPTIONS_INIT;
      packing.x_type = type_of(element_);
      packing.arithmetic = element_ == Element::f64 ? RAPT_ARITHMETIC_DEFAULT : RAPT_ARITHMETIC_F32;
      packing.in_features = sizes_.channels * sizes_.all_taps();
      packing.out_features = sizes_.outputs;
      std::size_t length = 0;
      rapt_linear_packed_length(&packing, &length);
      std::vector<unsigned char> packed(length), plain = w.values;
      rapt_linear_pack(plain.data(), 0, sizes_.outputs, &packing, packed.data(), length);
      w.element = Element::u8;
      w.sizes = {1, 1, 1, length};
      w.set_rows_apart(0);
      w.hold(std::span<const unsigned char>(packed));
      w.missing = RAPT_BAD_W;
      w.has_limits = true;
      o_.packed_w = 1;
    }
  }

  const ConvolutionProblem of_;
  const ConvolutionSizes sizes_;
  const Element element_;
  const std::uint64_t split_seed_;
  std::size_t first_ = 0;  // the first dimension of the call
  rapt_convolution_options o_{};
  std::size_t workspace_size_ = 0;
  void *a_ = nullptr, *b_ = nullptr, *out_ = nullptr, *workspace_ = nullptr;
};

}  // namespace

ConvolutionSizes::ConvolutionSizes(const ConvolutionProblem &problem)
    : batch(problem.rows), groups(problem.groups), channels(problem.channels), outputs(problem.outputs) {
  const std::size_t sizes[] = {problem.depth, problem.height, problem.cols};
  for (std::size_t d = 0; d < 3; ++d) {
    in[d] = sizes[d];
    before[d] = digit(problem.before, d), after[d] = digit(problem.after, d);
    const auto at_least_1 = [](std::size_t n) { return std::max<std::size_t>(n, 1); };
    taps[d] = at_least_1(digit(problem.taps, d));
    stride[d] = at_least_1(digit(problem.stride, d)), dilation[d] = at_least_1(digit(problem.dilation, d));
    if (in[d] + before[d] + after[d] == 0) after[d] = 1;
    const std::size_t padded = in[d] + before[d] + after[d];
    if ((taps[d] - 1) * dilation[d] + 1 > padded) dilation[d] = 1;
    taps[d] = std::min(taps[d], padded);
    out[d] = (padded - (taps[d] - 1) * dilation[d] - 1) / stride[d] + 1;
  }
}

std::size_t first_operand(const ConvolutionProblem &problem) {
  const ConvolutionSizes sizes(problem);
  return problem.result == RAPT_CONVOLUTION_DX ? sizes.y() : sizes.x();
}
std::size_t second_operand(const ConvolutionProblem &problem) {
  const ConvolutionSizes sizes(problem);
  return problem.result == RAPT_CONVOLUTION_DW ? sizes.y() : sizes.w();
}

template <class A>
std::vector<A> bias_of(const Problem &problem) {
  const auto &of = problem.as<ConvolutionProblem>();
  if (!of.bias || of.result == RAPT_CONVOLUTION_DW) return {};
  Random random(problem.seed ^ 0x62696173u);
  std::vector<A> made(of.groups * (of.result == RAPT_CONVOLUTION_Y ? of.outputs : of.channels));
  for (A &number : made) number = static_cast<A>(static_cast<int>(random.below(65)) - 32) / 16;
  return made;
}
template std::vector<float> bias_of(const Problem &);
template std::vector<double> bias_of(const Problem &);

std::vector<ConvolutionProducts> products_of(const ConvolutionProblem &problem) {
  using Place = std::size_t[3];
  const ConvolutionSizes s(problem);
  std::vector<ConvolutionProducts> made(problem.result == RAPT_CONVOLUTION_Y    ? s.y()
                                        : problem.result == RAPT_CONVOLUTION_DX ? s.x()
                                                                                : s.w());
  const auto each = [](const std::size_t(&size)[3], const auto &f) {
    Place at;
    for (at[0] = 0; at[0] < size[0]; ++at[0]) {
      for (at[1] = 0; at[1] < size[1]; ++at[1]) {
        for (at[2] = 0; at[2] < size[2]; ++at[2]) f(at);
      }
    }
  };
  const auto index = [&](std::size_t b, std::size_t channel, std::size_t all, const Place &at,
                         const std::size_t(&size)[3]) {
    return (((b * all + channel) * size[0] + at[0]) * size[1] + at[1]) * size[2] + at[2];
  };
  // Finds the element of x that a tap of a position reads, or returns false.
  const auto read = [&](const Place &position, const Place &tap, Place &x) {
    for (std::size_t d = 0; d < 3; ++d) {
      const std::size_t padded = position[d] * s.stride[d] + tap[d] * s.dilation[d];
      if (padded < s.before[d] || padded - s.before[d] >= s.in[d]) return false;
      x[d] = padded - s.before[d];
    }
    return true;
  };
  constexpr std::size_t none = ConvolutionProducts::padding;
  const std::size_t all_in = s.groups * s.channels, all_out = s.groups * s.outputs;
  for (std::size_t n = 0; n < all_out; ++n) {
    const std::size_t group = n / s.outputs;
    for (std::size_t b = 0; b < s.batch && problem.result == RAPT_CONVOLUTION_Y; ++b) {
      each(s.out, [&](const Place &position) {
        ConvolutionProducts &output = made[index(b, n, all_out, position, s.out)];
        output.channel = n;
        for (std::size_t c = 0; c < s.channels; ++c) {
          each(s.taps, [&](const Place &tap) {
            Place x;
            const bool is_inside = read(position, tap, x);
            const std::size_t w = index(n, c, s.channels, tap, s.taps);
            output.products.emplace_back(is_inside ? index(b, group * s.channels + c, all_in, x, s.in) : none,
                                         w);
          });
        }
      });
    }
    for (std::size_t c = 0; c < s.channels && problem.result == RAPT_CONVOLUTION_DW; ++c) {
      each(s.taps, [&](const Place &tap) {
        ConvolutionProducts &output = made[index(n, c, s.channels, tap, s.taps)];
        for (std::size_t b = 0; b < s.batch; ++b) {
          each(s.out, [&](const Place &position) {
            Place x;
            const bool is_inside = read(position, tap, x);
            output.products.emplace_back(is_inside ? index(b, group * s.channels + c, all_in, x, s.in) : none,
                                         index(b, n, all_out, position, s.out));
          });
        }
      });
    }
  }
  for (std::size_t c = 0; c < all_in && problem.result == RAPT_CONVOLUTION_DX; ++c) {
    for (std::size_t b = 0; b < s.batch; ++b) {
      each(s.in, [&](const Place &x) {
        ConvolutionProducts &output = made[index(b, c, all_in, x, s.in)];
        output.channel = c;
        for (std::size_t n = 0; n < s.outputs; ++n) {
          const std::size_t channel = c / s.channels * s.outputs + n;
          each(s.taps, [&](const Place &tap) {
            Place position;
            bool meets = true, is_inside = true;
            for (std::size_t d = 0; d < 3; ++d) {
              const auto distance = static_cast<std::ptrdiff_t>(x[d] + s.before[d]) -
                                    static_cast<std::ptrdiff_t>(tap[d] * s.dilation[d]);
              const auto stride = static_cast<std::ptrdiff_t>(s.stride[d]);
              meets = meets && distance % stride == 0;
              is_inside =
                  is_inside && distance >= 0 && static_cast<std::size_t>(distance / stride) < s.out[d];
              position[d] = static_cast<std::size_t>(distance / stride);
            }
            if (!meets) return;
            output.products.emplace_back(is_inside ? index(b, channel, all_out, position, s.out) : none,
                                         index(channel, c % s.channels, s.channels, tap, s.taps));
          });
        }
      });
    }
  }
  return made;
}

std::unique_ptr<Call> make_convolution(Element element, const Problem &problem, const Layout &layout) {
  return with_float_type_of(element, [&]<class T>(T) -> std::unique_ptr<Call> {
    return std::make_unique<ConvolutionCall>(make_operands<T>(Family::convolution, problem), problem, layout);
  });
}

Problem draw_convolution_problem(Random &random, std::size_t most) {
  ConvolutionProblem made;
  const std::size_t few = random.below(4), wide = 1 + random.below(24), dims = 1 + random.below(3);
  made.rows = random.one_in(12) ? 0 : 1 + random.below(3);
  made.cols = random.one_in(3) && dims == 1 ? draw_cols(random, 700) : wide;
  if (dims > 1) made.height = random.one_in(20) ? 0 : 1 + random.below(12);
  if (dims > 2) made.depth = 1 + random.below(5);
  made.channels = random.one_in(3) ? 1 + random.below(40) : 1 + few;
  made.outputs = random.one_in(3) ? 1 + random.below(90) : 1 + random.below(5);
  if (random.one_in(30)) made.outputs = 0;
  made.groups = 1 + random.below(3);
  if (random.one_in(3))
    made.channels = 1, made.outputs = 1 + random.below(5) / 4, made.groups = 2 + random.below(60);
  draw(random, made);
  const auto products = [&] {
    const ConvolutionSizes s(made);
    return (s.y() + 1) * s.channels * s.all_taps();
  };
  while (products() > most) {
    std::size_t *const sizes[] = {&made.outputs, &made.channels, &made.groups, &made.height,
                                  &made.depth,   &made.cols,     &made.rows};
    std::size_t &largest =
        **std::ranges::max_element(sizes, {}, [](const std::size_t *size) { return *size; });
    largest /= 2;
  }
  return with_numbers(random, made);
}

std::vector<Problem> convolutions_of_shapes() {
  std::vector<Problem> problems;
  std::size_t count = 0;
  const auto add = [&](ConvolutionProblem made) {
    for (std::size_t result = 0; result < 3; ++result) {
      made.result = result;
      made.bias = count % 2 == 0;
      problems.push_back({count % 5 == 1 ? InputClass::specials : InputClass::gaussian, ++count, made});
    }
  };
  const auto problem = [](std::size_t batch, std::size_t groups, std::size_t channels, std::size_t outputs,
                          std::size_t depth, std::size_t height, std::size_t width, std::size_t taps,
                          std::size_t stride, std::size_t dilation, std::size_t pad) {
    ConvolutionProblem made;
    made.rows = batch, made.cols = width, made.groups = groups, made.channels = channels,
    made.outputs = outputs;
    made.depth = depth, made.height = height, made.taps = taps, made.stride = stride,
    made.dilation = dilation;
    made.before = made.after = pad;
    return made;
  };
  add(problem(2, 1, 20, 70, 1, 9, 11, 133, 111, 111, 11));  // 3x3
  add(problem(1, 1, 70, 33, 1, 8, 8, 133, 122, 111, 11));   // of more products than a chain
  add(problem(2, 1, 30, 300, 1, 5, 5, 111, 111, 111, 0));   // 1x1
  add(problem(1, 1, 3, 20, 1, 32, 32, 188, 188, 111, 0));   // patches
  add(problem(1, 1, 80, 40, 1, 1, 300, 113, 111, 111, 1));  // audio
  add(problem(1, 1, 80, 9, 1, 1, 301, 113, 112, 111, 1));
  add(problem(2, 1, 4, 5, 6, 5, 7, 333, 111, 111, 111));  // volumes
  add(problem(1, 1, 3, 2, 6, 7, 9, 333, 222, 211, 122));
  add(problem(2, 40, 1, 1, 1, 9, 12, 133, 111, 111, 11));  // depthwise
  add(problem(1, 37, 1, 1, 1, 10, 9, 155, 122, 111, 22));
  add(problem(1, 6, 1, 2, 1, 7, 9, 133, 111, 122, 22));
  add(problem(1, 3, 1, 1, 9, 9, 9, 999, 111, 111, 111));   // of more taps than a chain
  add(problem(1, 4, 5, 6, 1, 6, 7, 133, 132, 123, 22));    // groups
  add(problem(3, 1, 2, 3, 1, 1, 400, 112, 113, 115, 3));   // positions of several chains
  add(problem(2, 1, 131, 3, 1, 7, 8, 133, 121, 111, 11));  // dx has outputs of several tasks
  add(problem(2, 1, 2, 16, 1, 20, 20, 133, 111, 111,
              11));                                       // images of several tasks, and dw of several chains
  add(problem(1, 1, 5, 1, 1, 8, 16, 133, 111, 111, 11));  // one output
  return problems;
}

}  // namespace rapt::test
