// Keeps the operators that a library prepares for a shape, so that only their use is timed.
#pragma once

#include <map>
#include <utility>

namespace rapt::bench {

template <class Shape, class Operator>
class ShapeCache {
 public:
  // Returns the operator of this shape, which the first call makes. The shape of the previous call costs only
  // a comparison. Another shape costs a look-up.
  template <class Make>
  Operator &get(const Shape &shape, Make make) {
    if (last_ != operators_.end() && last_->first == shape) return last_->second;
    last_ = operators_.find(shape);
    if (last_ == operators_.end()) last_ = operators_.emplace(shape, make()).first;
    return last_->second;
  }

 private:
  std::map<Shape, Operator> operators_;
  typename std::map<Shape, Operator>::iterator last_ = operators_.end();
};

}  // namespace rapt::bench
