// Allocates and fills memory for the kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>

namespace rapt::bench {

// Allocates pages and fills them with 0. Large buffers ask for huge pages, so that results depend neither on
// the system's setting nor on which physical pages a buffer gets.
void *allocate_pages(std::size_t bytes);

// Holds `count` elements, which begin `misalignment` bytes after a page boundary.
template <class T>
class Buffer {
 public:
  explicit Buffer(std::size_t count, std::size_t misalignment = 0)
      : pages_(allocate_pages(count * sizeof(T) + misalignment)),
        data_(reinterpret_cast<T *>(static_cast<std::byte *>(pages_.get()) + misalignment)),
        count_(count) {}

  T *data() const { return data_; }
  std::size_t size() const { return count_; }
  std::span<T> elements() const { return {data_, count_}; }

 private:
  struct Free {
    void operator()(void *pages) const { std::free(pages); }
  };
  std::unique_ptr<void, Free> pages_;
  T *data_;
  std::size_t count_;
};

// Generates pseudo-random numbers, uniform in (0, 1]. The numbers are the same in every run.
class Uniform {
 public:
  double operator()() {  // splitmix64
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    z ^= z >> 31;
    return (static_cast<double>(z >> 11) + 1) * 0x1p-53;
  }

 private:
  std::uint64_t state_ = 0;
};

// Returns normal random numbers with mean 0 and standard deviation 2, like attention logits. Buffers repeat
// these numbers. Their count is prime, so the rows of a matrix have different values at any usual stride.
std::span<const double> logit_period();

// Returns a buffer filled from logit_period(). The seed chooses where in the period the buffer begins.
template <class T>
Buffer<T> logits(std::size_t count, std::size_t misalignment = 0, std::size_t seed = 0) {
  Buffer<T> buffer(count, misalignment);
  const std::span<const double> period = logit_period();
  std::size_t next = seed * 4099 % period.size();
  for (T &element : buffer.elements()) {
    element = static_cast<T>(period[next]);
    if (++next == period.size()) next = 0;
  }
  return buffer;
}

// Converts n f32 numbers to 16-bit elements.
using Narrow = void (*)(const float *x, std::uint16_t *y, std::size_t n);

inline Buffer<std::uint16_t> halves(Narrow narrow, std::size_t n, std::size_t seed = 0) {
  const Buffer<float> numbers = logits<float>(n, 0, seed);
  Buffer<std::uint16_t> made(n);
  narrow(numbers.data(), made.data(), n);
  return made;
}

// Returns values that are uniform between the two bounds.
template <class T>
Buffer<T> uniform(std::size_t count, double low, double high) {
  Buffer<T> buffer(count);
  Uniform next;
  for (T &element : buffer.elements()) element = static_cast<T>(low + (high - low) * next());
  return buffer;
}

}  // namespace rapt::bench
