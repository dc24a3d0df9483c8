// Prepares the arrays of linear layers, and computes them by rapt or by a peer.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "peers/functions.hpp"
#include "support/buffer.hpp"
#include "support/elements.hpp"
#include "support/suite.hpp"

namespace rapt::bench {

// Names the elements of x, w and y, which have one type, and rapt's arithmetic. Number is float, double, or
// the tests' F16 or BF16.
template <class Number_, rapt_type type_, rapt_arithmetic arithmetic_>
struct LinearKind {
  using Number = Number_;
  using Element = std::conditional_t<std::is_floating_point_v<Number>, Number, std::uint16_t>;
  static constexpr rapt_type type = type_;
  static constexpr rapt_arithmetic arithmetic = arithmetic_;
};
using LinearF32 = LinearKind<float, RAPT_F32, RAPT_ARITHMETIC_F32>;
using LinearF64 = LinearKind<double, RAPT_F64, RAPT_ARITHMETIC_DEFAULT>;
using LinearF16 = LinearKind<test::F16, RAPT_F16, RAPT_ARITHMETIC_F32>;
using LinearBF16 = LinearKind<test::BF16, RAPT_BF16, RAPT_ARITHMETIC_F32>;
using LinearInBF16 = LinearKind<test::BF16, RAPT_BF16, RAPT_ARITHMETIC_BF16>;

// Holds an implementation. Without a peer's functions it is rapt.
template <class Element>
struct LinearProduct {
  Linear<Element> of_peer;

  explicit operator bool() const { return static_cast<bool>(of_peer); }
};

// Holds the arrays of a layer, with which rapt and the peers compute the same y.
template <class Kind>
class LinearLayer {
 public:
  using Element = typename Kind::Element;

  explicit LinearLayer(const LinearShape &shape)
      : shape_(shape),
        options_(options_of(shape)),
        x_(numbers(shape.rows * shape.inputs, 0)),
        w_(numbers(shape.outputs * shape.inputs, 1)),
        y_(shape.rows * shape.outputs),
        packed_(size_of(rapt_linear_packed_length, options_)),
        workspace_(size_of(rapt_linear_workspace, options_)) {
    pack();
  }

  const Element *x() const { return x_.data(); }
  const Element *w() const { return w_.data(); }
  const Element *y() const { return y_.data(); }

  void pack() const {
    rapt_linear_options options = options_;
    options.packed_w = 0;
    require_ok(rapt_linear_pack(w_.data(), 0, shape_.outputs, &options, packed_.data(), packed_.size()));
  }

  void with_plain_weights() const {
    rapt_linear_options options = options_;
    options.packed_w = 0;
    require_ok(rapt_linear(x_.data(), w_.data(), y_.data(), &options, workspace_.data(), workspace_.size()));
  }

  // The first call of a peer packs the weights, where it has its own layout of them.
  void operator()(const LinearProduct<Element> &product) {
    const Linear<Element> &peer = product.of_peer;
    if (!peer) {
      require_ok(
          rapt_linear(x_.data(), packed_.data(), y_.data(), &options_, workspace_.data(), workspace_.size()));
    } else if (peer.plain) {
      peer.plain(x_.data(), w_.data(), y_.data(), shape_);
    } else {
      if (packer_ != peer.pack) {
        packer_ = peer.pack;
        packed_by_peer_ = Buffer<std::byte>(peer.packed_bytes(shape_));
        peer.pack(w_.data(), packed_by_peer_.data(), shape_);
      }
      peer.multiply(x_.data(), packed_by_peer_.data(), y_.data(), shape_);
    }
  }

 private:
  static rapt_linear_options options_of(const LinearShape &shape) {
    rapt_linear_options options{};
    options.size = sizeof options;
    options.x_type = Kind::type;
    options.arithmetic = Kind::arithmetic;
    options.rows = shape.rows;
    options.in_features = shape.inputs;
    options.out_features = shape.outputs;
    options.packed_w = 1;
    return options;
  }

  // Plain weights may need a larger workspace than packed ones.
  static std::size_t size_of(rapt_status (*size)(const rapt_linear_options *, std::size_t *),
                             rapt_linear_options options) {
    std::size_t bytes = 0, of_plain = 0;
    require_ok(size(&options, &bytes));
    options.packed_w = 0;
    require_ok(size(&options, &of_plain));
    return std::max(bytes, of_plain);
  }

  static Buffer<Element> numbers(std::size_t count, std::size_t seed) {
    if constexpr (std::is_floating_point_v<Element>) {
      return logits<Element>(count, 0, seed);
    } else {
      return halves(Kind::type == RAPT_F16 ? rapt_convert_f32_to_f16 : rapt_convert_f32_to_bf16, count, seed);
    }
  }

  LinearShape shape_;
  rapt_linear_options options_;
  Buffer<Element> x_, w_, y_;
  Buffer<std::byte> packed_, workspace_, packed_by_peer_{0};
  void (*packer_)(const Element *w, void *packed, const LinearShape &shape) = nullptr;
};

}  // namespace rapt::bench
