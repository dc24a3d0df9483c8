#include "packed.hpp"

#include <ATen/core/grad_mode.h>

#include <array>
#include <cstring>
#include <map>
#include <mutex>
#include <tuple>

namespace rapt_torch {
namespace {

constexpr std::int64_t smallest = 4096;  // elements: smaller ones gain less than the search costs
constexpr std::int64_t grid = 8;         // numbers of a row and of a column that are compared

using Samples = std::array<std::uint64_t, grid * grid>;
using Key =
    std::tuple<const void *, std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t, int>;

// A packed copy belongs to a place in memory, and is valid for one version of it.
struct Seen {
  c10::weak_intrusive_ptr<c10::StorageImpl> storage;
  std::uint32_t version;
  Samples samples;
  Packed weights;    // null until the second time
  bool is_released;  // the numbers are not to be read
};

std::mutex mutex;
std::map<Key, Seen> seen;
std::int64_t limit = -1;
Release release = nullptr;

bool is_dense(const Layout &of) {
  return (of.input_stride == 1 && of.output_stride == of.inputs) ||
         (of.output_stride == 1 && of.input_stride == of.outputs);
}

// Writes through Tensor.data move no version, so that some numbers are compared too.
Samples samples_of(const Tensor &weights, const Layout &of) {
  Samples samples{};
  const std::size_t size = weights.element_size();
  const char *data = static_cast<const char *>(weights.const_data_ptr());
  for (std::int64_t i = 0; i < grid; ++i) {
    for (std::int64_t j = 0; j < grid; ++j) {
      const std::int64_t place =
          i * of.inputs / grid * of.input_stride + j * of.outputs / grid * of.output_stride;
      std::memcpy(&samples[i * grid + j], data + place * static_cast<std::int64_t>(size), size);
    }
  }
  return samples;
}

std::int64_t bytes_in_use() {
  std::int64_t bytes = 0;
  for (const auto &[key, one] : seen) bytes += one.weights ? one.weights->size : 0;
  return bytes;
}

// Weights in use stay: in turn, they would push each other out in each pass of a model.
void drop_expired() {
  for (auto one = seen.begin(); one != seen.end();) {
    one = one->second.storage.expired() ? seen.erase(one) : std::next(one);
  }
}

Packed pack(const Tensor &weights, const Layout &of) {
  rapt_linear_options options = RAPT_LINEAR_OPTIONS_INIT;
  options.x_type = type_of(weights);
  options.in_features = of.inputs;
  options.out_features = of.outputs;
  options.w_strides = {of.output_stride, of.input_stride};
  std::size_t length = 0;
  check(rapt_linear_packed_length(&options, &length));
  if (limit >= 0) {
    drop_expired();
    if (bytes_in_use() + static_cast<std::int64_t>(length) > limit) return nullptr;
  }
  constexpr std::size_t line = 64;
  std::unique_ptr<void, Free> data(std::aligned_alloc(line, (length + line - 1) / line * line));
  if (!data) return nullptr;
  check(rapt_linear_pack(weights.const_data_ptr(), 0, of.outputs, &options, data.get(), length));
  return std::make_shared<PackedWeights>(PackedWeights{std::move(data), static_cast<std::int64_t>(length)});
}

}  // namespace

Packed packed(const Tensor &argument, const Layout &of) {
  if (of.inputs * of.outputs < smallest || at::GradMode::is_enabled() || argument.is_inference())
    return nullptr;
  const c10::Storage &storage = argument.storage();
  const std::uint32_t version = argument.unsafeGetTensorImpl()->version_counter().current_version();
  const Key key{storage.data(),   argument.storage_offset(),  of.inputs, of.outputs, of.input_stride,
                of.output_stride, int(argument.scalar_type())};
  const std::lock_guard<std::mutex> lock(mutex);
  if (limit == 0) return nullptr;
  const auto found = seen.find(key);
  if (found == seen.end() || found->second.version != version || found->second.storage.expired() ||
      (!found->second.is_released && found->second.samples != samples_of(argument, of))) {
    if (seen.size() % 256 == 255) drop_expired();
    seen.insert_or_assign(key, Seen{c10::weak_intrusive_ptr<c10::StorageImpl>(storage.getWeakStorageImpl()),
                                    version, samples_of(argument, of), nullptr, false});
    return nullptr;
  }
  Seen &one = found->second;
  if (!one.weights) {
    one.weights = pack(argument, of);
    if (one.weights && release && is_dense(of))
      one.is_released = release(argument.const_data_ptr(), of.inputs * of.outputs * argument.element_size());
  }
  return one.weights;
}

void set_pack_limit(std::int64_t bytes, Release by) {
  const std::lock_guard<std::mutex> lock(mutex);
  limit = bytes;
  release = by;
  drop_expired();
  if (limit >= 0 && bytes_in_use() > limit) seen.clear();
}

void clear_packed() {
  const std::lock_guard<std::mutex> lock(mutex);
  seen.clear();
}

std::int64_t packed_count() {
  const std::lock_guard<std::mutex> lock(mutex);
  std::int64_t count = 0;
  for (const auto &[key, one] : seen) count += one.weights != nullptr;
  return count;
}

}  // namespace rapt_torch
