// Reads and writes the interrupted program's vector registers, which are in the XSAVE area of the signal's
// frame.
#pragma once

#include <ucontext.h>

#include <cstdint>

#include "model.hpp"

namespace rapt::emulate {

// XSAVE's state components have these bits in XCR0.
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
  // Reads the places of the components from CPUID. It must be called before CPUID faults.
  static void find_components();

  explicit Frame(ucontext_t &context);

  // Returns whether the frame holds the first `size` bytes of a register.
  bool holds_register(unsigned number, unsigned size) const;
  bool holds(Component component) const;

  Vector read(unsigned number) const;
  // Also zeroes the register beyond the operand, as a vector instruction does.
  void write(unsigned number, const Vector &value);
  std::uint64_t read_mask(unsigned number) const;

  // Returns 64 bytes, or null if the tiles are not configured.
  const unsigned char *tile_config() const;

 private:
  bool in_use(Component component) const;
  unsigned char *at(Component component) const;
  void bring_into_use(Component component);

  unsigned char *area_;
  std::uint64_t components_ = 0;  // the components that the frame has
};

}  // namespace rapt::emulate
