// Reads and writes the vector registers of the interrupted program, in the XSAVE area of the signal frame.
#pragma once

#include <ucontext.h>

#include <cstdint>

#include "model.hpp"

namespace rapt::emulate {

// Names the state components of XSAVE by their bits in XCR0.
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
  // Reads the offsets of the components from CPUID. Call it before cpuid is made to trap.
  static void find_components();

  explicit Frame(ucontext_t &context);

  // Returns whether the frame holds the first `size` bytes of a register.
  bool holds_register(unsigned number, unsigned size) const;
  bool holds(Component component) const;

  Vector read(unsigned number) const;
  // Writes the whole register, because vector instructions zero the part beyond their operands.
  void write(unsigned number, const Vector &value);
  std::uint64_t read_mask(unsigned number) const;

  // Returns the 64 bytes of the tile configuration, or null if tiles are not configured.
  const unsigned char *tile_config() const;

 private:
  bool in_use(Component component) const;
  unsigned char *at(Component component) const;
  void bring_into_use(Component component);

  unsigned char *area_;
  std::uint64_t components_ = 0;  // components that the frame holds
};

}  // namespace rapt::emulate
