// Prepares a batch of linear layers, each with its weights, such as the heads of attention. rapt computes them in one
// call, a peer one after the other.
#pragma once

#include <cstddef>

#include "peers/functions.hpp"
#include "support/buffer.hpp"
#include "support/linear_layer.hpp"
#include "support/suite.hpp"

namespace rapt::bench {

class LinearBatch {
 public:
  LinearBatch(std::size_t batch, const LinearShape &shape)
      : count_(batch),
        shape_(shape),
        x_(logits<float>(batch * shape.rows * shape.inputs, 0, 0)),
        w_(logits<float>(batch * shape.outputs * shape.inputs, 0, 1)),
        y_(batch * shape.rows * shape.outputs) {
    options_.rows = shape.rows;
    options_.in_features = shape.inputs;
    options_.out_features = shape.outputs;
    batch_.dims = 1;
    batch_.shape[0] = batch;
    std::size_t bytes = 0;
    require_ok(rapt_linear_batch_workspace(&options_, &batch_, &bytes));
    workspace_ = Buffer<std::byte>(bytes);
  }

  // A peer that needs another layout packs weights in each call, because they are new each time.
  void operator()(const LinearProduct<float> &product) {
    const Linear<float> &peer = product.of_peer;
    if (!peer) {
      require_ok(rapt_linear_batch(x_.data(), w_.data(), y_.data(), &options_, &batch_, workspace_.data(),
                                   workspace_.size()));
      return;
    }
    if (!peer.plain && packed_.size() == 0) packed_ = Buffer<std::byte>(peer.packed_bytes(shape_));
    for (std::size_t b = 0; b < count_; ++b) {
      const float *const x = x_.data() + b * shape_.rows * shape_.inputs, *const w =
                                                                              w_.data() + b * shape_.outputs *
                                                                                              shape_.inputs;
      float *const y = y_.data() + b * shape_.rows * shape_.outputs;
      if (peer.plain) {
        peer.plain(x, w, y, shape_);
      } else {
        peer.pack(w, packed_.data(), shape_);
        peer.multiply(x, packed_.data(), y, shape_);
      }
    }
  }

 private:
  std::size_t count_;
  LinearShape shape_;
  rapt_linear_options options_ = RAPT_LINEAR_OPTIONS_INIT;
  rapt_linear_batch_options batch_ = RAPT_LINEAR_BATCH_OPTIONS_INIT;
  Buffer<float> x_, w_, y_;
  Buffer<std::byte> workspace_{0}, packed_{0};
};

}  // namespace rapt::bench
