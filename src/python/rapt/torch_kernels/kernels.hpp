// What the kernels of PyTorch's operators in C++ share. Each takes the common calls of an operator, and hands all
// others to the kernel in Python, which takes every call.
#pragma once

#include <ATen/Parallel.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/stable/c/shim.h>
#include <torch/library.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <string>
#include <vector>

#include "rapt/parallel.h"
#include "rapt/rapt.h"

namespace rapt_torch {

using at::Tensor;

// The calls of an operator that C++ has taken, for rapt.torch.report().
struct Counter {
  explicit Counter(const char *name);
  void add() { calls.fetch_add(1, std::memory_order_relaxed); }

  const std::string name;
  std::atomic<std::int64_t> calls{0};
};

// The kernel in Python of one operator.
template <class Signature>
class InPython;

template <class Result, class... Arguments>
class InPython<Result(Arguments...)> {
 public:
  explicit InPython(const char *name, const char *overload = "")
      : kernel_(c10::Dispatcher::singleton()
                    .findSchemaOrThrow((std::string("rapt_python::") + name).c_str(), overload)
                    .template typed<Result(Arguments...)>()) {}
  Result operator()(Arguments... arguments) const {
    return kernel_.call(std::forward<Arguments>(arguments)...);
  }

 private:
  c10::TypedOperatorHandle<Result(Arguments...)> kernel_;
};

// An operator of PyTorch without its gradients.
template <class Signature>
class BelowAutograd;

template <class Result, class... Arguments>
class BelowAutograd<Result(Arguments...)> {
 public:
  explicit BelowAutograd(const char *name)
      : operator_(c10::Dispatcher::singleton()
                      .findSchemaOrThrow((std::string("aten::") + name).c_str(), "")
                      .template typed<Result(Arguments...)>()) {}
  Result operator()(Arguments... arguments) const {
    const at::AutoDispatchBelowADInplaceOrView guard;
    return operator_.call(std::forward<Arguments>(arguments)...);
  }

 private:
  c10::TypedOperatorHandle<Result(Arguments...)> operator_;
};

// Whether PyTorch makes the parts of an operator itself: for a graph of gradients, a tangent of forward
// differentiation, or a program that watches operators.
inline bool needs_parts(const Tensor &x) {
  return (x.requires_grad() && at::GradMode::is_enabled()) || x._fw_grad(0).defined() ||
         x.key_set().has(c10::DispatchKey::Python);
}

inline bool needs_parts(const std::optional<Tensor> &x) { return x && x->defined() && needs_parts(*x); }

inline bool are_operators_watched() {
  return c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::Python);
}

// 0: rapt lacks the type.
inline rapt_type type_of(const Tensor &x) {
  switch (x.scalar_type()) {
    case at::kFloat:
      return RAPT_F32;
    case at::kDouble:
      return RAPT_F64;
    case at::kHalf:
      return RAPT_F16;
    case at::kBFloat16:
      return RAPT_BF16;
    default:
      return RAPT_TYPE_DEFAULT;
  }
}

inline bool has_elements(const Tensor &x) { return type_of(x) != RAPT_TYPE_DEFAULT && x.numel() > 0; }

// Whether rapt takes the strides as they are: it knows neither 0 nor negative ones.
inline bool has_strides(const Tensor &x) {
  for (const std::int64_t stride : x.strides()) {
    if (stride <= 0) return false;
  }
  return true;
}

inline void check(rapt_status status) { TORCH_CHECK(status == RAPT_OK, "rapt: ", rapt_status_text(status)); }

// PyTorch's threads, of which there are as many as torch.set_num_threads() says. `work` is in multiplications with an
// addition.
rapt_pool pool_for(double work);

// At least `bytes` of memory of this thread, until the next call.
void *workspace(std::size_t bytes);

// Calls body(first, last) on ranges of [0, count) that are about `grain` long, on PyTorch's threads. It is compiled in
// PyTorch: at::parallel_for() is a template, which needs the compiler's OpenMP to be PyTorch's.
template <class Body>
void in_parallel(std::int64_t count, std::int64_t grain, const Body &body) {
  if (count <= grain || at::in_parallel_region() || at::get_num_threads() == 1) {
    body(std::int64_t{0}, count);
    return;
  }
  struct Call {
    const Body &body;
    std::exception_ptr error;
    std::mutex mutex;
  } call{body, nullptr, {}};
  const auto run = [](std::int64_t first, std::int64_t last, void *context) {
    Call &of = *static_cast<Call *>(context);
    try {
      of.body(first, last);
    } catch (...) {  // it may not pass PyTorch's frames of C
      const std::lock_guard<std::mutex> lock(of.mutex);
      of.error = std::current_exception();
    }
  };
  TORCH_CHECK(torch_parallel_for(0, count, grain, run, &call) == 0, "rapt: PyTorch's threads do not run");
  if (call.error) std::rethrow_exception(call.error);
}

// How many of PyTorch's threads pay for so many multiplications with an addition.
std::int64_t threads_for(double work);

// Calls run(first, last, workspace) on the tasks of a call, on so many threads. Each has an equal share of them, in
// order, as PyTorch divides rows: what a thread has written is still in its cache when it reads that. Then it helps
// others. The threads keep their workspaces: large memory that is freed goes back to the system, and comes back in
// pages.
template <class Run>
void in_tasks(std::size_t tasks, std::int64_t threads, std::size_t workspace_bytes, const Run &run) {
  constexpr std::size_t most = 8;  // runs of a thread
  const std::size_t shares = static_cast<std::size_t>(threads);
  if (shares == 1) return check(run(std::size_t{0}, tasks, workspace(workspace_bytes)));
  const std::size_t runs = std::min(tasks / shares + 1, most);
  std::vector<std::atomic<std::size_t>> next(shares);
  in_parallel(threads, 1, [&](std::int64_t own, std::int64_t) {
    for (std::size_t i = 0; i < shares; ++i) {
      const std::size_t share = (static_cast<std::size_t>(own) + i) % shares;
      for (std::size_t r; (r = next[share].fetch_add(1, std::memory_order_relaxed)) < runs;) {
        const std::size_t first = share * runs + r, all = shares * runs;
        if (tasks * first / all < tasks * (first + 1) / all)
          check(run(tasks * first / all, tasks * (first + 1) / all, workspace(workspace_bytes)));
      }
    }
  });
}

// Parts of the table of operators.
void add_attention(torch::Library &library);
void add_elements(torch::Library &library);
void add_products(torch::Library &library);
void add_rows(torch::Library &library);
// Of operators that PyTorch makes of others, above its gradients.
void add_attention_above(torch::Library &library);
void add_products_above(torch::Library &library);

}  // namespace rapt_torch
