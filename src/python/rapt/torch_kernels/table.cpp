// What rapt.torch calls, by ctypes: the kernels in C++ take the place of PyTorch's, and give it back.
#include <c10/util/Exception.h>

#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

#include "kernels.hpp"
#include "packed.hpp"

namespace rapt_torch {
namespace {

std::vector<Counter *> &counters() {
  static std::vector<Counter *> all;
  return all;
}

std::mutex counters_mutex;
std::unique_ptr<torch::Library> library, library_above;
std::string error;

struct Silent final : c10::WarningHandler {
  void process(const c10::Warning &) override {}
};

void in_torch(void *, std::size_t count, rapt_parallel_body body, void *context) {
  in_parallel(static_cast<std::int64_t>(count), 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) body(context, static_cast<std::size_t>(i));
  });
}

}  // namespace

Counter::Counter(const char *of) : name(of) {
  const std::lock_guard<std::mutex> lock(counters_mutex);
  counters().push_back(this);
}

std::int64_t threads_for(double work) {
  constexpr double pays = 1 << 18;
  return work < pays || at::in_parallel_region() ? 1 : at::get_num_threads();
}

rapt_pool pool_for(double work) { return {in_torch, nullptr, static_cast<std::size_t>(threads_for(work))}; }

void *workspace(std::size_t bytes) {
  thread_local std::unique_ptr<void, Free> memory;
  thread_local std::size_t size = 0;
  if (bytes > size) {
    memory.reset(std::malloc(bytes));
    size = memory ? bytes : 0;
    if (!memory) throw std::bad_alloc();
  }
  return memory.get();
}

}  // namespace rapt_torch

#define EXPORTED __attribute__((visibility("default")))

extern "C" {

// Null, or why PyTorch has its own kernels.
EXPORTED const char *rapt_torch_start() {
  using namespace rapt_torch;
  try {
    Silent silent;
    const c10::WarningUtils::WarningHandlerGuard guard(&silent);  // PyTorch says that a kernel is replaced
    library = std::make_unique<torch::Library>(torch::Library::IMPL, "aten", c10::DispatchKey::CPU, __FILE__,
                                               __LINE__);
    add_attention(*library);
    add_elements(*library);
    add_products(*library);
    add_rows(*library);
    library_above = std::make_unique<torch::Library>(torch::Library::IMPL, "aten",
                                                     c10::DispatchKey::AutogradCPU, __FILE__, __LINE__);
    add_attention_above(*library_above);
    add_products_above(*library_above);
    return nullptr;
  } catch (const std::exception &reason) {
    library_above.reset();
    library.reset();
    error = reason.what();
    return error.c_str();
  }
}

EXPORTED void rapt_torch_stop() {
  rapt_torch::library_above.reset();
  rapt_torch::library.reset();
  rapt_torch::clear_packed();
}

// The operator number `index` and the calls that C++ has taken, or null after the last one.
EXPORTED const char *rapt_torch_calls(std::size_t index, std::int64_t *calls) {
  using namespace rapt_torch;
  const std::lock_guard<std::mutex> lock(counters_mutex);
  if (index >= counters().size()) return nullptr;
  *calls = counters()[index]->calls.load();
  return counters()[index]->name.c_str();
}

EXPORTED void rapt_torch_forget_calls() {
  using namespace rapt_torch;
  const std::lock_guard<std::mutex> lock(counters_mutex);
  for (Counter *counter : counters()) counter->calls = 0;
}

EXPORTED void rapt_torch_set_pack_limit(std::int64_t bytes, rapt_torch::Release release) {
  rapt_torch::set_pack_limit(bytes, release);
}

EXPORTED void rapt_torch_clear_packed() { rapt_torch::clear_packed(); }

EXPORTED std::int64_t rapt_torch_packed_count() { return rapt_torch::packed_count(); }
}
