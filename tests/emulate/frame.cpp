#include "frame.hpp"

#include <cpuid.h>

#include <cstring>
#include <initializer_list>

namespace rapt::emulate {
namespace {

// Linux describes the area at byte 464. The XSAVE header at byte 512 lists the components in use.
constexpr unsigned software_words_at = 464, components_in_use_at = 512;
constexpr std::uint32_t software_magic = 0x46505853;

struct Place {
  std::uint32_t offset, size;
};
Place places[18] = {{}, {160, 256}};

constexpr unsigned index_of(Component component) { return static_cast<unsigned>(component); }
constexpr std::uint64_t bit_of(Component component) { return std::uint64_t{1} << index_of(component); }

// Says which component holds a part of a vector register, and which words of the register.
struct Part {
  Component component;
  unsigned first, count;
};
constexpr Part low_parts[] = {
    {Component::sse, 0, 4}, {Component::ymm_upper, 4, 4}, {Component::zmm_upper, 8, 8}};

}  // namespace

void Frame::find_components() {
  for (const Component component : {Component::ymm_upper, Component::masks, Component::zmm_upper,
                                    Component::zmm_16_to_31, Component::tile_config}) {
    std::uint32_t size, offset, c, d;
    __cpuid_count(0xd, index_of(component), size, offset, c, d);
    places[index_of(component)] = {offset, size};
  }
}

Frame::Frame(ucontext_t &context) : area_(reinterpret_cast<unsigned char *>(context.uc_mcontext.fpregs)) {
  struct {
    std::uint32_t magic, extended_size;
    std::uint64_t components;
  } software;
  std::memcpy(&software, area_ + software_words_at, sizeof software);
  components_ = software.magic == software_magic ? software.components : 0;
}

bool Frame::holds(Component component) const { return components_ & bit_of(component); }

bool Frame::holds_register(unsigned number, unsigned size) const {
  if (number >= 16) return holds(Component::zmm_16_to_31);
  for (const Part &part : low_parts) {
    if (size > 4 * part.first && !holds(part.component)) return false;
  }
  return true;
}

bool Frame::in_use(Component component) const {
  std::uint64_t used;
  std::memcpy(&used, area_ + components_in_use_at, sizeof used);
  return holds(component) && (used & bit_of(component)) != 0;
}

unsigned char *Frame::at(Component component) const { return area_ + places[index_of(component)].offset; }

// Marks a component as in use and zeroes it. Until then, its bytes in the frame are undefined.
void Frame::bring_into_use(Component component) {
  if (in_use(component)) return;
  std::memset(at(component), 0, places[index_of(component)].size);
  std::uint64_t used;
  std::memcpy(&used, area_ + components_in_use_at, sizeof used);
  used |= bit_of(component);
  std::memcpy(area_ + components_in_use_at, &used, sizeof used);
}

Vector Frame::read(unsigned number) const {
  Vector value = {};
  if (number >= 16) {
    if (in_use(Component::zmm_16_to_31)) {
      std::memcpy(value.words, at(Component::zmm_16_to_31) + 64 * (number - 16), 64);
    }
    return value;
  }
  for (const Part &part : low_parts) {
    const unsigned bytes = 4 * part.count;
    if (in_use(part.component))
      std::memcpy(value.words + part.first, at(part.component) + bytes * number, bytes);
  }
  return value;
}

void Frame::write(unsigned number, const Vector &value) {
  if (number >= 16) {
    bring_into_use(Component::zmm_16_to_31);
    std::memcpy(at(Component::zmm_16_to_31) + 64 * (number - 16), value.words, 64);
    return;
  }
  for (const Part &part : low_parts) {
    if (!holds(part.component)) continue;
    bring_into_use(part.component);
    const unsigned bytes = 4 * part.count;
    std::memcpy(at(part.component) + bytes * number, value.words + part.first, bytes);
  }
}

std::uint64_t Frame::read_mask(unsigned number) const {
  std::uint64_t mask = 0;
  if (in_use(Component::masks)) std::memcpy(&mask, at(Component::masks) + 8 * number, sizeof mask);
  return mask;
}

const unsigned char *Frame::tile_config() const {
  return in_use(Component::tile_config) ? at(Component::tile_config) : nullptr;
}

}  // namespace rapt::emulate
