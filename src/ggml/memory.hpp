// Memory for buffers, and how much of it there is.
#pragma once

#include <cstddef>

namespace rapt_ggml {

// Zeroed memory of the system, on huge pages where it offers them: weights are then read at up to twice the rate.
class Pages {
 public:
  explicit Pages(std::size_t bytes);  // without memory, data() is null
  ~Pages();
  Pages(const Pages &) = delete;
  Pages &operator=(const Pages &) = delete;

  std::byte *data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  void *mapped_ = nullptr;
  std::size_t mapped_bytes_ = 0;
  std::byte *data_ = nullptr;
  std::size_t size_ = 0;
};

struct Memory {
  std::size_t available = 0, total = 0;
};

// MemAvailable, which counts the page cache as free, within the limit of the control group. llama.cpp moves layers to
// another device where a model seems not to fit.
Memory system_memory();

// Takes pages of a read-only file mapping out of this process, once they have been read: the file's cache keeps them.
// Other memory is left alone.
void drop_file_pages(const void *data, std::size_t bytes);

}  // namespace rapt_ggml
