#include "ggml/buffer.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <unordered_map>

#include "ggml/buffer_type.hpp"
#include "ggml/host.hpp"
#include "ggml/pack.hpp"
#include "ggml/say.hpp"

namespace rapt_ggml {

namespace {

constexpr std::size_t alignment = 64;

struct Buffer {
  explicit Buffer(std::size_t bytes) : pages(bytes) {}

  Pages pages;
  BufferNumbers numbers;
  std::unordered_map<const void *, std::vector<std::byte> >
      arriving;  // packed weights that come in parts, plain
};

Buffer &of(ggml_backend_buffer_t buffer) { return *static_cast<Buffer *>(buffer->context); }
void *base(ggml_backend_buffer_t buffer) { return of(buffer).pages.data(); }
void release(ggml_backend_buffer_t buffer) { delete &of(buffer); }

void clear(ggml_backend_buffer_t buffer, std::uint8_t value) {
  of(buffer).numbers.erase_all();
  if (of(buffer).pages.data()) std::memset(of(buffer).pages.data(), value, buffer->size);
}

// ---- plain tensors

// The whole rows of a cache between two offsets of a tensor's data; a row that is only touched counts with `touched`.
struct Rows {
  std::size_t first, count;
};
Rows rows_between(Tensor t, const CacheNumbers &cache, std::size_t offset, std::size_t size, bool touched) {
  const std::size_t begin = static_cast<std::size_t>(bytes_of(t) - bytes_of(root_of(t))) + offset,
                    bytes = cache.row_bytes();
  const std::size_t up = touched ? 0 : bytes - 1, down = touched ? bytes - 1 : 0;
  const std::size_t first = (begin + up) / bytes;
  const std::size_t last = std::min((begin + size + down) / bytes, cache.row_count());
  return {first, last > first ? last - first : 0};
}

void memset_tensor(ggml_backend_buffer_t buffer, ggml_tensor *t, std::uint8_t value, std::size_t offset,
                   std::size_t size) {
  if (CacheNumbers *const cache = of(buffer).numbers.find(root_of(t)->data)) {
    const Rows rows = rows_between(t, *cache, offset, size, true);
    cache->erase(rows.first, rows.count);
  }
  std::memset(bytes_of(t) + offset, value, size);
}

void set_tensor(ggml_backend_buffer_t buffer, ggml_tensor *t, const void *data, std::size_t offset,
                std::size_t size) {
  std::memcpy(bytes_of(t) + offset, data, size);
  const Tensor root = root_of(t);
  if (!may_be_cache(root)) return;
  CacheNumbers &cache = of(buffer).numbers.at(root->data, row_count(root), root->nb[1]);
  const Rows touched = rows_between(t, cache, offset, size, true),
             whole = rows_between(t, cache, offset, size, false);
  if (touched.count != whole.count) cache.erase(touched.first, touched.count);
  if (whole.count > 0)
    cache.restore(whole.first, whole.count, bytes_of(root) + whole.first * cache.row_bytes());
}

void get_tensor(ggml_backend_buffer_t buffer, Tensor t, void *data, std::size_t offset, std::size_t size) {
  std::memcpy(data, bytes_of(t) + offset, size);
  CacheNumbers *const cache = of(buffer).numbers.find(root_of(t)->data);
  if (!cache) return;
  const Rows rows = rows_between(t, *cache, offset, size, false);
  for (std::size_t i = rows.first; i < rows.first + rows.count; ++i) {
    if (cache->row(i)->number == RowNumber::none) continue;
    SavedNumbers::of_process().save(bytes_of(root_of(t)) + i * cache->row_bytes(), cache->row_bytes(),
                                    cache->row(i)->number);
  }
}

// Rows of a cache keep their numbers: in another cache, and in a line of bytes that a program keeps for a while.
bool copy_tensor(ggml_backend_buffer_t buffer, Tensor from, ggml_tensor *to) {
  const Place place = place_of(from);
  if (place != Place::plain && place != Place::host) return false;
  if (!is_contiguous(from) || !is_contiguous(to)) return false;
  const std::size_t bytes = span_bytes(from);
  const Tensor root = root_of(to);
  const bool is_line = row_count(root) == 1;
  const CacheNumbers *source =
      place == Place::plain ? of(from->buffer).numbers.find(root_of(from)->data) : nullptr;
  const std::size_t step = source ? source->row_bytes() : 0;
  if (!source || (!is_line && root->nb[1] != step)) {
    set_tensor(buffer, to, from->data, 0, bytes);
    return true;
  }
  std::memcpy(to->data, from->data, bytes);
  CacheNumbers &cache =
      of(buffer).numbers.at(root->data, is_line ? span_bytes(root) / step : row_count(root), step);
  source = of(from->buffer).numbers.find(root_of(from)->data);  // at() may have moved it
  const Rows rows = rows_between(to, cache, 0, bytes, false),
             source_rows = rows_between(from, *source, 0, bytes, false);
  cache.copy(rows.first, std::min(rows.count, source_rows.count), *source, source_rows.first);
  return true;
}

// ---- packed weights

void set_packed(ggml_backend_buffer_t buffer, ggml_tensor *t, const void *data, std::size_t offset,
                std::size_t size) {
  if (!is_packable(t)) {
    std::memcpy(bytes_of(t) + offset, data, size);
    return;
  }
  const std::size_t all = span_bytes(t);
  if (offset == 0 && size == all) {
    pack(t, static_cast<const std::byte *>(data));
    return drop_file_pages(data, size);
  }
  // Parts are kept until all bytes are there: in order, as a program sends them.
  std::vector<std::byte> &arriving = of(buffer).arriving[t->data];
  if (offset != arriving.size()) {
    say(GGML_LOG_LEVEL_ERROR, "the parts of a weight arrive out of order: " + std::string(t->name));
    return;
  }
  const std::byte *const part = static_cast<const std::byte *>(data);
  arriving.insert(arriving.end(), part, part + size);
  if (arriving.size() < all) return;
  pack(t, arriving.data());
  of(buffer).arriving.erase(t->data);
}

void memset_packed(ggml_backend_buffer_t buffer, ggml_tensor *t, std::uint8_t value, std::size_t offset,
                   std::size_t size) {
  const std::vector<std::byte> bytes(size, std::byte{value});
  set_packed(buffer, t, bytes.data(), offset, size);
}

void get_packed(ggml_backend_buffer_t, Tensor t, void *data, std::size_t offset, std::size_t size) {
  if (!is_packable(t)) {
    std::memcpy(data, bytes_of(t) + offset, size);
    return;
  }
  std::memset(data, 0, size);
  if (!can_unpack_to_file(t)) {
    return not_our_bits("the packed weight " + std::string(t->name) +
                        " cannot be read back: its form in memory has lost the blocks of the file");
  }
  const std::size_t bytes = row_bytes(t), first = offset / bytes, last = (offset + size + bytes - 1) / bytes;
  try {
    std::vector<std::byte> rows((last - first) * bytes);
    unpack(t, first, last - first, rows.data());
    std::memcpy(data, rows.data() + (offset - first * bytes), size);
  } catch (const std::exception &failure) {
    say(GGML_LOG_LEVEL_ERROR, std::string("cannot unpack ") + t->name + ": " + failure.what());
  }
}

bool copy_packed(ggml_backend_buffer_t buffer, Tensor from, ggml_tensor *to) {
  const Place place = place_of(from);
  if (place != Place::plain && place != Place::host) return false;
  set_packed(buffer, to, from->data, 0, span_bytes(to));
  return true;
}

// ---- types

ggml_backend_buffer_i plain_functions() {
  ggml_backend_buffer_i functions = {};
  functions.free_buffer = release;
  functions.get_base = base;
  functions.memset_tensor = memset_tensor;
  functions.set_tensor = set_tensor;
  functions.get_tensor = get_tensor;
  functions.cpy_tensor = copy_tensor;
  functions.clear = clear;
  return functions;
}

ggml_backend_buffer_i packed_functions() {
  ggml_backend_buffer_i functions = plain_functions();
  functions.memset_tensor = memset_packed;
  functions.set_tensor = set_packed;
  functions.get_tensor = get_packed;
  functions.cpy_tensor = copy_packed;
  return functions;
}

ggml_backend_buffer_t allocate(ggml_backend_buffer_type_t type, std::size_t size,
                               const ggml_backend_buffer_i &functions) {
  std::unique_ptr<Buffer> buffer(new (std::nothrow) Buffer(size));
  if (!buffer || !buffer->pages.data()) return nullptr;
  const ggml_backend_buffer_t made = host().buffer_init(type, functions, buffer.get(), size);
  if (made) buffer.release();
  return made;
}

std::size_t type_alignment(ggml_backend_buffer_type_t) { return alignment; }
const char *plain_name(ggml_backend_buffer_type_t) { return "RAPT"; }
const char *packed_name(ggml_backend_buffer_type_t) { return "RAPT_PACKED"; }
ggml_backend_buffer_t allocate_plain(ggml_backend_buffer_type_t type, std::size_t size) {
  return allocate(type, size, plain_functions());
}
ggml_backend_buffer_t allocate_packed(ggml_backend_buffer_type_t type, std::size_t size) {
  return allocate(type, size, packed_functions());
}
std::size_t packed_bytes(ggml_backend_buffer_type_t, Tensor t) {
  const std::optional<Packing> packing = packing_of(t);
  return packing ? packing->matrix_bytes * extent(t, 2) * extent(t, 3) : span_bytes(t);
}

}  // namespace

ggml_backend_buffer_type_t plain_buffer_type() {
  static BufferType type(plain_name, allocate_plain, type_alignment, nullptr);
  return type.of_host();
}

ggml_backend_buffer_type_t packed_buffer_type() {
  static BufferType type(packed_name, allocate_packed, type_alignment, packed_bytes);
  return type.of_host();
}

Place place_of(Tensor t) {
  const ggml_backend_buffer_t buffer = t->buffer ? t->buffer : root_of(t)->buffer;
  if (!buffer) return Place::none;
  if (buffer->buft == plain_buffer_type()) return Place::plain;
  if (buffer->buft == packed_buffer_type()) return Place::packed;
  return buffer->buft && host().is_host(buffer->buft) ? Place::host : Place::foreign;
}

bool is_packed(Tensor t) {
  const Tensor root = root_of(t);
  return place_of(root) == Place::packed && is_packable(root);
}

bool may_be_cache(Tensor root) {
  return place_of(root) == Place::plain && root->buffer &&
         root->buffer->usage == GGML_BACKEND_BUFFER_USAGE_ANY && root->nb[1] > 0 && row_count(root) > 1;
}

BufferNumbers *numbers_around(Tensor t) {
  const Tensor root = root_of(t);
  return root->buffer && place_of(root) == Place::plain ? &of(root->buffer).numbers : nullptr;
}

}  // namespace rapt_ggml
