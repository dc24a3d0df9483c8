// Eigen, the way its documentation would have it written: maps over the caller's memory, array expressions,
// one matrix-vector product.
#include <Eigen/Core>
#include <cstddef>

#include "compiler.hpp"
#include "peer.hpp"

namespace {

template <class T>
using ConstVector = Eigen::Map<const Eigen::Vector<T, Eigen::Dynamic>>;
template <class T>
using Vector = Eigen::Map<Eigen::Vector<T, Eigen::Dynamic>>;
template <class T>
using ConstRows = Eigen::Map<const Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>,
                             Eigen::Unaligned, Eigen::OuterStride<>>;

Eigen::Index index(std::size_t n) { return static_cast<Eigen::Index>(n); }

template <class T>
T dot(const T *a, const T *b, std::size_t n) {
  return ConstVector<T>(a, index(n)).dot(ConstVector<T>(b, index(n)));
}

template <class T>
void dot_rows(const T *query, const T *rows, std::ptrdiff_t row_stride, std::size_t row_count,
              std::size_t dim, T scale, T *out) {
  Vector<T>(out, index(row_count)).noalias() =
      scale * (ConstRows<T>(rows, index(row_count), index(dim), Eigen::OuterStride<>(row_stride)) *
               ConstVector<T>(query, index(dim)));
}

template <class T>
void scale(const T *x, T factor, T *y, std::size_t n) {
  Vector<T>(y, index(n)) = factor * ConstVector<T>(x, index(n));
}

template <class T>
void exp(const T *x, T *y, std::size_t n) {
  Vector<T>(y, index(n)).array() = ConstVector<T>(x, index(n)).array().exp();
}

template <class T>
void softmax(const T *x, T *y, std::size_t rows, std::size_t cols, T scale) {
  if (cols == 0) return;
  for (std::size_t r = 0; r < rows; ++r, x += cols, y += cols) {
    const auto scaled = scale * ConstVector<T>(x, index(cols)).array();
    auto out = Vector<T>(y, index(cols)).array();
    out = (scaled - scaled.maxCoeff()).exp();
    out *= 1 / out.sum();
  }
}

}  // namespace

extern "C" const char *RAPT_PEER_ENTRY(rapt::bench::Peer &peer) {
  peer.dot_f32 = dot<float>;
  peer.dot_f64 = dot<double>;
  peer.dot_rows_f32 = dot_rows<float>;
  peer.dot_rows_f64 = dot_rows<double>;
  peer.scale_f32 = scale<float>;
  peer.scale_f64 = scale<double>;
  peer.exp_f32 = exp<float>;
  peer.exp_f64 = exp<double>;
  peer.softmax_f32 = softmax<float>;
  peer.softmax_f64 = softmax<double>;
  return RAPT_PEER_TEXT(EIGEN_WORLD_VERSION) "." RAPT_PEER_TEXT(EIGEN_MAJOR_VERSION) "." RAPT_PEER_TEXT(
      EIGEN_MINOR_VERSION);
}
