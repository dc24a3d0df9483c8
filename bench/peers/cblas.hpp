// Adapts a BLAS library to the interface of peers.
//
// The program opens a BLAS at run time, because every BLAS exports the same names. If several were linked
// into one program, the first would serve all calls. Each library is loaded once per instruction set for
// which it has kernels.
//
// Attention uses the softmax of the Eigen peer for the same instruction set, because it is the fastest of the
// simple ones. The Eigen peer must be added first. Without Eigen, a BLAS peer has no attention.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "attention_by_products.hpp"
#include "peer.hpp"
#include "rapt/rapt.h"
#include "shared_library.hpp"

namespace rapt::bench {

// A peer's functions are plain function pointers, so each loaded copy of a library needs separate functions.
// `Blas` and `copy` distinguish them.
template <class Blas, int copy>
class Cblas {
 public:
  // Returns false if the library lacks one of the functions.
  static bool load(const SharedLibrary &library, Peer &peer) {
    if (!f32_.load(library, "cblas_s") || !f64_.load(library, "cblas_d")) return false;
    fill(peer.f32);
    fill(peer.f64);
    return true;
  }

  static void take_weights(const Peer &from, Peer &peer) {
    f32_.weights = from.f32.attention_weights;
    f64_.weights = from.f64.attention_weights;
    fill_attention(peer.f32);
    fill_attention(peer.f64);
  }

 private:
  static constexpr int row_major = 101;     // CblasRowMajor
  static constexpr int no_transpose = 111;  // CblasNoTrans
  static constexpr int transpose = 112;     // CblasTrans

  template <class T>
  struct Functions {
    T (*dot)(int n, const T *x, int incx, const T *y, int incy);
    void (*gemv)(int order, int transpose, int m, int n, T alpha, const T *a, int lda, const T *x, int incx,
                 T beta, T *y, int incy);
    void (*gemm)(int order, int transpose_a, int transpose_b, int m, int n, int k, T alpha, const T *a,
                 int lda, const T *b, int ldb, T beta, T *c, int ldc);
    void (*copy_)(int n, const T *x, int incx, T *y, int incy);
    void (*scal)(int n, T alpha, T *x, int incx);
    AttentionWeights<T> weights = nullptr;

    bool load(const SharedLibrary &library, const std::string &prefix) {
      load(library, prefix + "dot", dot);
      load(library, prefix + "gemv", gemv);
      load(library, prefix + "gemm", gemm);
      load(library, prefix + "copy", copy_);
      load(library, prefix + "scal", scal);
      return dot && gemv && gemm && copy_ && scal;
    }
    template <class Function>
    static void load(const SharedLibrary &library, const std::string &name, Function *&function) {
      function = library.function<Function>(name);
    }
  };

  template <class T>
  static void fill(PeerFunctions<T> &functions) {
    functions.dot = dot<T>;
    functions.dot_rows = dot_rows<T>;
    functions.linear.plain = linear<T>;
    functions.scale = scale<T>;
  }

  template <class T>
  static void fill_attention(PeerFunctions<T> &functions) {
    functions.attention = attention<T>;
    functions.attention_backward = attention_backward<T>;
  }

  template <class T>
  static const Functions<T> &functions() {
    if constexpr (sizeof(T) == sizeof(float)) {
      return f32_;
    } else {
      return f64_;
    }
  }

  template <class T>
  static T dot(const T *a, const T *b, std::size_t n) {
    return functions<T>().dot(static_cast<int>(n), a, 1, b, 1);
  }

  // row_stride must be at least dim, because a BLAS rejects smaller strides.
  template <class T>
  static void dot_rows(const T *query, const T *rows, std::ptrdiff_t row_stride, std::size_t row_count,
                       std::size_t dim, T factor, T *out) {
    if (dim == 0) {  // a BLAS would leave `out` unchanged
      std::fill_n(out, row_count, T{0});
      return;
    }
    functions<T>().gemv(row_major, no_transpose, static_cast<int>(row_count), static_cast<int>(dim), factor,
                        rows, static_cast<int>(row_stride), query, 1, T{0}, out, 1);
  }

  template <class T>
  static void scale(const T *x, T factor, T *y, std::size_t n) {
    if (x != y) functions<T>().copy_(static_cast<int>(n), x, 1, y, 1);  // a BLAS scales only in place
    functions<T>().scal(static_cast<int>(n), factor, y, 1);
  }

  // Multiplies a single row as a vector, because a matrix product would take longer.
  template <class T>
  struct Products {
    std::size_t most_rows(const AttentionShape &) const { return attention_score_rows; }
    void scores(const T *q, std::size_t rows, std::size_t q_stride, const T *k, std::size_t keys,
                std::size_t dim, T factor, T *s, std::size_t s_stride) const {
      const int m = static_cast<int>(rows), n = static_cast<int>(keys), d = static_cast<int>(dim);
      if (rows == 1) {
        functions<T>().gemv(row_major, no_transpose, n, d, factor, k, d, q, 1, T{0}, s, 1);
      } else {
        functions<T>().gemm(row_major, no_transpose, transpose, m, n, d, factor, q,
                            static_cast<int>(q_stride), k, d, T{0}, s, static_cast<int>(s_stride));
      }
    }
    void values(const T *s, std::size_t rows, std::size_t s_stride, const T *v, std::size_t keys,
                std::size_t dim, T *out, std::size_t out_stride) const {
      const int m = static_cast<int>(rows), n = static_cast<int>(keys), d = static_cast<int>(dim);
      if (rows == 1) {
        functions<T>().gemv(row_major, transpose, n, d, T{1}, v, d, s, 1, T{0}, out, 1);
      } else {
        functions<T>().gemm(row_major, no_transpose, no_transpose, m, d, n, T{1}, s,
                            static_cast<int>(s_stride), v, d, T{0}, out, static_cast<int>(out_stride));
      }
    }
    void add_transposed(const T *s, std::size_t rows, std::size_t s_stride, const T *x, std::size_t keys,
                        std::size_t dim, T *out) const {
      const int m = static_cast<int>(keys), n = static_cast<int>(dim), d = static_cast<int>(rows);
      functions<T>().gemm(row_major, transpose, no_transpose, m, n, d, T{1}, s, static_cast<int>(s_stride), x,
                          n, T{1}, out, n);
    }
  };

  template <class T>
  static void linear(const T *x, const T *w, T *y, const LinearShape &s) {
    Products<T>().scores(x, s.rows, s.inputs, w, s.outputs, s.inputs, T{1}, y, s.outputs);
  }

  template <class T>
  static void attention_backward(const AttentionGradientProblem<T> &problem) {
    attention_gradient_by_products<T>(problem, functions<T>().weights, Products<T>());
  }

  template <class T>
  static void attention(const AttentionProblem<T> &problem) {
    attention_by_products<T>(problem, functions<T>().weights, Products<T>());
  }

  static inline Functions<float> f32_{};
  static inline Functions<double> f64_{};
};

// Blas supplies:
//   name, path
//   start(library): initialises the library; returns false if that failed
//   version(library): the library's version
//   kernels(library): the name of the kernels that the library chose
//   isa_of(kernels): the level of these kernels, empty for kernels below every level of rapt
//   variable, to_force(library, isa): the environment variable that forces kernels, and its value
template <class Blas, int copy>
void add_blas(const SharedLibrary &own, const std::string &isa, std::vector<Peer> &peers) {
  if (!rapt_isa_usable(isa.c_str())) return;
  const std::string chosen = Blas::kernels(own);
  SharedLibrary library = own;
  if (Blas::isa_of(chosen) != isa) {
    const ScopedVariable forced(Blas::variable, Blas::to_force(own, isa));
    library = SharedLibrary::open_copy(Blas::path);
    if (!Blas::start(library)) return;
  }
  const std::string kernels = Blas::kernels(library);
  Peer peer;
  if (Blas::isa_of(kernels) != isa || !Cblas<Blas, copy>::load(library, peer)) return;
  peer.name = Blas::name;
  peer.isa = isa;
  peer.version = Blas::version(library) + " " + kernels;
  for (const Peer &one : peers) {
    if (one.isa == isa && one.f32.attention_weights) Cblas<Blas, copy>::take_weights(one, peer);
  }
  if (kernels != chosen) peer.version += " (forced, its choice is " + chosen + ")";
  peers.push_back(peer);
}

template <class Blas>
void add_blas(std::vector<Peer> &peers) {
  const SharedLibrary own = SharedLibrary::open(Blas::path);
  if (!Blas::start(own)) return;
  add_blas<Blas, 0>(own, "avx2", peers);
  add_blas<Blas, 1>(own, "avx512", peers);
  add_blas<Blas, 2>(own, "neon", peers);
}

}  // namespace rapt::bench
