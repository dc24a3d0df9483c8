// The vector registers of the interrupted program: the XSAVE area of a signal's frame.
#pragma once

#include <ucontext.h>

#include <cstdint>

#include "model.hpp"

namespace rapt::emulate {

// XSAVE's state components, by their bits in XCR0.
enum class Component : unsigned {
  sse = 1,
  ymm_upper = 2,
  masks = 5,
  zmm_upper = 6,
  zmm_16_to_31 = 7,
  tile_config = 17
};

class Frame {
 public:
  // Reads the places of the components from CPUID: before CPUID faults.
  static void find_components();

  explicit Frame(ucontext_t &context);

  // Whether the frame holds the first `size` bytes of a register.
  bool holds_register(unsigned number, unsigned size) const;
  bool holds(Component component) const;

  Vector read(unsigned number) const;
  // Zeroes what is beyond the operand too, as a vector instruction does.
  void write(unsigned number, const Vector &value);
  std::uint64_t read_mask(unsigned number) const;

  // 64 bytes; null if the tiles are not configured.
  const unsigned char *tile_config() const;

 private:
  bool in_use(Component component) const;
  unsigned char *at(Component component) const;
  void bring_into_use(Component component);

  unsigned char *area_;
  std::uint64_t components_ = 0;  // of the frame
};

}  // namespace rapt::emulate
