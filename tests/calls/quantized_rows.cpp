#include "calls/quantized_rows.hpp"

#include <type_traits>

#include "rapt/rapt.h"

namespace rapt::test {
namespace {

class QuantizedRowsCall : public Call {
 public:
  QuantizedRowsCall(const Problem &problem, const Layout &layout, std::size_t inputs, std::size_t group,
                    rapt_type type)
      : Call(layout, problem.seed % 2 == 1), inputs_(inputs), group_(group), type_(type) {}

 protected:
  template <class E, class Numbers>
  void hold_as(Operand &operand, const Numbers &numbers) const {
    std::vector<E> elements;
    for (const auto number : numbers) elements.push_back(E(number));
    operand.hold(std::span<const E>(elements));
  }
  Operand &add_integers(std::size_t bytes) {
    Operand &added = add("q", Element::u8, {1, 1, 1, bytes}, 1, &q_);
    added.missing = RAPT_BAD_Q;
    return added;
  }
  // The numbers that are quantized, or result.
  Operand &add_numbers(const char *name, std::size_t slot, const char *stride_name, rapt_status missing,
                       rapt_status bad_stride) {
    const Element element = type_ == RAPT_F16    ? Element::f16
                            : type_ == RAPT_BF16 ? Element::bf16
                                                 : Element::f32;
    Operand &added = add(name, element, {1, 1, 1, inputs_}, slot, &numbers_);
    added.missing = missing;
    stride_name_ = stride_name;
    bad_stride_ = bad_stride;
    stride_ = is_short() ? 0 : static_cast<std::ptrdiff_t>(inputs_);
    return added;
  }
  void add_common_limits(Limits &limits, rapt_type &q_type, const char *type_name) {
    const auto inputs = static_cast<std::ptrdiff_t>(inputs_);
    limits.past("q_type", q_type, RAPT_BAD_TYPE, {RAPT_TYPE_DEFAULT, RAPT_F32, RAPT_F8_E4M3, 99, ~0u});
    limits.past(type_name, type_, RAPT_BAD_TYPE, {RAPT_TYPE_DEFAULT, RAPT_F64, RAPT_I8, 8, 99, ~0u});
    limits.at(stride_name_, stride_, {0, inputs, inputs + 5});
    limits.past(stride_name_, stride_, bad_stride_, {-1, -inputs - 1, RAPT_REPEAT});
    if (inputs > 1) limits.past(stride_name_, stride_, bad_stride_, {1, inputs - 1});
    limits.field("rows", rows_);
    limits.field("inputs", inputs_);
    limits.field("group", group_);
    if (has_work()) limits.past("rows", rows_, RAPT_BAD_SIZE, {SIZE_MAX, SIZE_MAX / 2 + 1});
  }
  void add_limits_of_integers(Limits &limits) {
    if (!has_work()) return;
    limits.at("group", group_, {SIZE_MAX});
    limits.past("inputs", inputs_, only(RAPT_BAD_SIZE) | only(bad_stride_),
                {std::size_t{PTRDIFF_MAX}, SIZE_MAX});
  }

  std::size_t rows_ = 1, inputs_, group_;
  rapt_type type_;
  std::ptrdiff_t stride_ = 0;
  const char *stride_name_ = "";
  rapt_status bad_stride_ = RAPT_OK;
  void *numbers_ = nullptr, *q_ = nullptr;
};

class QuantizeCall final : public QuantizedRowsCall {
 public:
  QuantizeCall(const Problem &problem, const Layout &layout)
      : QuantizeCall(problem, layout, IntegerRow(problem)) {}
  QuantizeCall(const Problem &problem, const Layout &layout, const IntegerRow &row)
      : QuantizedRowsCall(problem, layout, row.inputs, row.group, row.type),
        row_(row),
        q_type_(row_.signed_type) {
    Operand &x = add_numbers("x", 0, "x_stride", RAPT_BAD_X, RAPT_BAD_X_STRIDE);
    with_float_of(type_, [&]<class X>(X) { hold_as<X>(x, row_.numbers); });
    add_integers(IntegerRow::bytes_of(q_type_, inputs_)).role = Role::output;
    Operand &scales = add("scales", Element::f32, {1, 1, 1, row_.groups}, 2, &scales_);
    scales.role = Role::output;
    scales.missing = RAPT_BAD_SCALES;
  }
  rapt_status run() override {
    return rapt_quantize_rows(numbers_, type_, stride_, rows_, inputs_, group_, q_type_, q_, scales_);
  }
  void add_limits(Limits &limits) override {
    add_common_limits(limits, q_type_, "x_type");
    add_limits_of_integers(limits);
    limits.past("q_type", q_type_, RAPT_BAD_TYPE, {RAPT_U4, RAPT_U8, RAPT_Q8_0, RAPT_NVFP4});
  }

 private:
  const IntegerRow row_;
  rapt_type q_type_;
  float *scales_ = nullptr;
};

class DequantizeCall final : public QuantizedRowsCall {
 public:
  DequantizeCall(const Problem &problem, const Layout &layout)
      : DequantizeCall(problem, layout, IntegerRow(problem)) {}
  DequantizeCall(const Problem &problem, const Layout &layout, const IntegerRow &row)
      : QuantizedRowsCall(problem, layout, row.inputs, row.group, row.type),
        row_(row),
        q_type_(row_.drawn_type) {
    const std::vector<std::uint8_t> codes = row_.codes();
    add_integers(IntegerRow::bytes_of(q_type_, inputs_)).hold(std::span(codes));
    const bool has_groups = row_.groups > 0;
    with_float_of(row_.scale_type, [&]<class S>(S) {
      if (row_.has_scales && has_groups) hold_as<S>(add_scales<S>("scales", &scales_), row_.scales<S>());
      if (row_.has_offsets && has_groups) hold_as<S>(add_scales<S>("offsets", &offsets_), row_.offsets<S>());
    });
    if (row_.is_shifted() && has_groups)
      hold_as<std::uint8_t>(add_scales<std::uint8_t>("zeros", &zeros_), row_.zeros());
    if (row_.is_looked_up()) {
      Operand &codebook = add("codebook", Element::f32, {1, 1, 1, 16}, 0, &codebook_);
      codebook.hold(std::span(row_.numbers).first(16));
    }
    if (has_scale_type()) scale_type_ = row_.scale_type;
    add_numbers("y", 2, "y_stride", RAPT_BAD_Y, RAPT_BAD_Y_STRIDE).role = Role::output;
  }
  rapt_status run() override {
    return rapt_dequantize_rows(q_, q_type_, rows_, inputs_, group_, scales_, zeros_, offsets_, scale_type_,
                                codebook_, numbers_, type_, stride_);
  }
  void add_limits(Limits &limits) override {
    add_common_limits(limits, q_type_, "y_type");
    add_limits_of_integers(limits);
    limits.past("scale_type", scale_type_, RAPT_BAD_W_SCALES, {RAPT_F64, RAPT_I8, RAPT_I4, 8, 99, ~0u});
    if (!has_scale_type()) limits.past("scale_type", scale_type_, RAPT_BAD_W_SCALES, {RAPT_F32, RAPT_F16});
    limits.field("zeros", zeros_);
    limits.field("codebook", codebook_);
    if ((q_type_ != RAPT_U4 && q_type_ != RAPT_U8) || row_.is_looked_up())
      limits.past("zeros", zeros_, RAPT_BAD_W_ZEROS, {reinterpret_cast<const std::uint8_t *>(&limits)});
    if (q_type_ != RAPT_U4)
      limits.past("codebook", codebook_, zeros_ ? RAPT_BAD_W_ZEROS : RAPT_BAD_W_CODEBOOK,
                  {reinterpret_cast<const float *>(&limits)});
  }

 private:
  bool has_scale_type() const { return row_.groups > 0 && (row_.has_scales || row_.has_offsets); }
  template <class S>
  Operand &add_scales(const char *name, void *pointer) {
    return add(name, element_of<S>, {1, 1, 1, row_.groups}, 0, pointer);
  }

  const IntegerRow row_;
  rapt_type q_type_, scale_type_ = RAPT_TYPE_DEFAULT;
  const void *scales_ = nullptr, *offsets_ = nullptr;
  const std::uint8_t *zeros_ = nullptr;
  const float *codebook_ = nullptr;
};

class DequantizeBlocksCall final : public QuantizedRowsCall {
 public:
  DequantizeBlocksCall(const Problem &problem, const Layout &layout)
      : DequantizeBlocksCall(problem, layout, BlockRow(problem)) {}
  DequantizeBlocksCall(const Problem &problem, const Layout &layout, const BlockRow &row)
      : QuantizedRowsCall(problem, layout, row.inputs, problem.seed % 2 == 1 ? 0 : row.size.group,
                          row.y_type),
        size_(row.size),
        q_type_(row.q_type) {
    add_integers(row.bytes.size()).hold(std::span(row.bytes));
    add_numbers("y", 2, "y_stride", RAPT_BAD_Y, RAPT_BAD_Y_STRIDE).role = Role::output;
  }
  rapt_status run() override {
    return rapt_dequantize_rows(q_, q_type_, rows_, inputs_, group_, scales_, zeros_, offsets_, scale_type_,
                                codebook_, numbers_, type_, stride_);
  }
  void add_limits(Limits &limits) override {
    add_common_limits(limits, q_type_, "y_type");
    limits.at("group", group_, {0, size_.group});
    limits.past("group", group_, RAPT_BAD_SCALE_GROUP, {1, 8, 2 * size_.group, size_.group / 2, SIZE_MAX});
    limits.past("inputs", inputs_, RAPT_BAD_SHAPE, {inputs_ + 1, inputs_ + size_.inputs / 2, SIZE_MAX});
    limits.past("scale_type", scale_type_, RAPT_BAD_W_SCALES, {RAPT_F32, RAPT_F16, RAPT_I8, 99, ~0u});
    const auto given = [&](const char *name, auto &array, rapt_status status) {
      limits.field(name, array);
      limits.past(name, array, status, {reinterpret_cast<std::remove_reference_t<decltype(array)>>(&limits)});
    };
    given("scales", scales_, RAPT_BAD_W_SCALES);
    given("zeros", zeros_, RAPT_BAD_W_ZEROS);
    given("offsets", offsets_, RAPT_BAD_W_OFFSETS);
    given("codebook", codebook_, RAPT_BAD_W_CODEBOOK);
  }

 private:
  const oracle::BlockSize size_;
  rapt_type q_type_, scale_type_ = RAPT_TYPE_DEFAULT;
  const void *scales_ = nullptr, *offsets_ = nullptr;
  const std::uint8_t *zeros_ = nullptr;
  const float *codebook_ = nullptr;
};

}  // namespace

std::unique_ptr<Call> make_quantize_rows(const Problem &problem, const Layout &layout) {
  return std::make_unique<QuantizeCall>(problem, layout);
}
std::unique_ptr<Call> make_dequantize_rows(const Problem &problem, const Layout &layout) {
  return std::make_unique<DequantizeCall>(problem, layout);
}
std::unique_ptr<Call> make_dequantize_blocks(const Problem &problem, const Layout &layout) {
  return std::make_unique<DequantizeBlocksCall>(problem, layout);
}

}  // namespace rapt::test
