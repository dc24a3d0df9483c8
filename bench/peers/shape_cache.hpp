// Operators that a library prepares for one shape, kept so that the timing sees only their use.
#pragma once

#include <map>
#include <utility>

namespace rapt::bench {

template <class Shape, class Operator>
class ShapeCache {
 public:
  // What `make` returned for this shape. The one used last costs a comparison, the others a look-up.
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
