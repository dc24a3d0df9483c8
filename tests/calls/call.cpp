#include "calls/call.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "support/bits.hpp"
#include "support/calls.hpp"

namespace rapt::test {
namespace {

std::vector<std::unique_ptr<GuardedSlot>> &pool() {
  thread_local std::vector<std::unique_ptr<GuardedSlot>> slots;
  return slots;
}

// Elements of no type need more.
constexpr std::size_t alignment = 16;
constexpr std::size_t aligned(std::size_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

bool is_word_of(const char *name, const char *words) {
  for (const char *at = words; (at = std::strstr(at, name)) != nullptr; ++at) {
    const char before = at == words ? ' ' : at[-1], behind = at[std::strlen(name)];
    if (before == ' ' && (behind == ' ' || behind == 0)) return true;
  }
  return false;
}

bool lies_exactly(const Operand &a, const Operand &b) {
  for (std::size_t i = 0; i < 4; ++i) {
    if (a.sizes[i] != b.sizes[i] || (a.sizes[i] > 1 && a.strides[i] != b.strides[i])) return false;
  }
  return a.data == b.data;
}

// Calls f(begin, end) for the bytes of each piece of a row that has no gaps.
template <class F>
void each_piece(const Operand &operand, const unsigned char *row, F f) {
  const auto size = static_cast<std::ptrdiff_t>(size_of(operand.element));
  const auto count = static_cast<std::ptrdiff_t>(operand.sizes[3]);
  if (operand.strides[3] == 1) return f(row, row + count * size);
  for (std::ptrdiff_t i = 0; i < count; ++i) {
    const unsigned char *const at = row + i * operand.strides[3] * size;
    f(at, at + size);
  }
}

bool share_elements(const Operand &a, const Operand &b) {
  const unsigned char *const first = a.lowest(), *const last = first + a.extent();
  if (a.is_empty() || b.is_empty() || b.lowest() >= last || first >= b.lowest() + b.extent()) return false;
  std::vector<bool> is_of_a(a.extent());
  a.each_row_of_call([&](const unsigned char *row) {
    each_piece(a, row, [&](const unsigned char *begin, const unsigned char *end) {
      std::fill(is_of_a.begin() + (begin - first), is_of_a.begin() + (end - first), true);
    });
  });
  bool shares = false;
  b.each_row_of_call([&](const unsigned char *row) {
    each_piece(b, row, [&](const unsigned char *begin, const unsigned char *end) {
      for (const unsigned char *at = std::max(begin, first); at < std::min(end, last); ++at)
        shares = shares || is_of_a[static_cast<std::size_t>(at - first)];
    });
  });
  return shares;
}

}  // namespace

PooledSlot::PooledSlot(std::size_t capacity) {
  const auto found =
      std::ranges::find_if(pool(), [=](const auto &slot) { return slot->capacity() >= capacity; });
  if (found == pool().end()) {
    slot_ = std::make_unique<GuardedSlot>(std::bit_ceil(std::max<std::size_t>(capacity, 1) + 4096));
  } else {
    slot_ = std::move(*found);
    pool().erase(found);
  }
}

PooledSlot::~PooledSlot() {
  if (slot_) pool().push_back(std::move(slot_));
}

Operand &Call::add(const char *name, Element element, const Sizes4 &sizes, std::size_t slot, void *pointer) {
  Operand &added = operands_.emplace_back();
  added.name = name;
  added.element = element;
  added.sizes = sizes;
  added.slot = slot;
  added.pointer = pointer;
  added.set_rows_apart(static_cast<std::size_t>(layout_.gap[slot]));
  return added;
}

bool Call::has_work() const {
  return std::ranges::none_of(
      operands_, [](const Operand &operand) { return operand.is_empty() && operand.role != Role::aside; });
}

void Call::add_block(std::size_t bytes, Placement placement, std::size_t offset) {
  blocks_.push_back({PooledSlot(bytes + offset), placement, bytes, offset, nullptr, {}});
  blocks_.back().data = blocks_.back().slot->place(bytes, placement, offset);
}

const Operand *Call::replaced_by(const Operand &output, const Layout &layout) const {
  if (layout.alias == Alias::none || !output.is_result()) return nullptr;
  bool is_first = true;
  for (const Operand &input : operands_) {
    if (!is_word_of(input.name, output.replaces)) continue;
    if (is_first == (layout.alias == Alias::first_input)) return &input;
    is_first = false;
  }
  return nullptr;
}

void Call::place(const Layout &layout) {
  layout_ = layout;
  blocks_.clear();
  for (Operand &operand : operands_) {
    if (replaced_by(operand, layout)) continue;
    const std::size_t size = size_of(operand.element);
    operand.block = blocks_.size();
    add_block(operand.extent(), layout.placement, layout.offset[operand.slot] / size * size);
    operand.data = blocks_.back().data + operand.lead();
  }
  for (Operand &operand : operands_) {
    if (const Operand *const input = replaced_by(operand, layout)) {
      operand.block = input->block;
      operand.data = input->data;
      operand.strides = input->strides;
    }
  }
  refill();
}

void Call::place_together(std::size_t bytes, Placement placement, std::span<const std::size_t> at) {
  add_block(bytes, placement, 0);
  for (std::size_t i = 0; i < operands_.size(); ++i) {
    if (operands_[i].role == Role::aside) continue;
    operands_[i].block = blocks_.size() - 1;
    operands_[i].data = blocks_.back().data + at[i] + operands_[i].lead();
  }
  refill();
}

void Call::place_near(std::size_t moved, std::size_t fixed, std::ptrdiff_t distance) {
  Operand &a = operands_[moved], &b = operands_[fixed];
  const std::size_t room = aligned(a.extent());
  a.block = b.block = blocks_.size();
  add_block(aligned(2 * room + b.extent()), Placement::ends_at_guard, 0);
  b.data = blocks_.back().data + room + b.lead();
  a.data = b.lowest() + distance + a.lead();
  refill();
}

void Call::restore() {
  for (const Block &block : blocks_) block.slot->place(block.bytes, block.placement, block.offset);
  // What only has to be there comes first, because it may lie on other arrays.
  for (const bool is_scratch : {true, false}) {
    for (const Operand &operand : operands_) {
      if ((operand.role == Role::scratch) == is_scratch) operand.write_values();
    }
  }
  prepare();
  for (const auto &[operand, at] : spoilt_)
    operand->data[at] = static_cast<unsigned char>(~operand->data[at]);
}

void Call::remember() {
  for (Block &block : blocks_) block.image.assign(block.data, block.data + block.bytes);
}

void Call::refill() {
  bind();
  restore();
  remember();
}

void Call::spoil(Operand &operand, std::size_t at) {
  spoilt_.push_back({&operand, at});
  restore();
  remember();
}

void Call::set_bytes(const char *name, std::size_t at, const void *bytes, std::size_t size) {
  for (Operand &operand : operands_) {
    if (std::strcmp(operand.name, name) == 0) std::memcpy(operand.values.data() + at, bytes, size);
  }
  restore();
  remember();
}

// Hands the call what it needs to know of its operands.
void Call::bind() {
  for (const Operand &operand : operands_) {
    void *const address =
        is_short_ && operand.is_empty() && operand.missing != RAPT_OK ? nullptr : operand.data;
    std::memcpy(operand.pointer, &address, sizeof address);
    const bool is_default = is_short_ && operand.has_default_stride && !operand.has_gaps();
    for (std::size_t i = 0; i < 4; ++i) {
      if (!operand.stride_fields[i]) continue;
      const bool repeats = operand.strides[i] == 0 && operand.sizes[i] > 1 && !operand.is_empty();
      *operand.stride_fields[i] = is_default ? 0 : repeats ? RAPT_REPEAT : operand.strides[i];
    }
  }
}

void Call::take(std::vector<std::uint64_t> &bits) {
  for (const Operand &operand : operands_) {
    Block &block = blocks_[operand.block];
    if (operand.role == Role::scratch && operand.extent() > 0)
      std::memcpy(block.image.data() + (operand.lowest() - block.data), operand.lowest(), operand.extent());
    if (!operand.is_result()) continue;
    const std::size_t first = bits.size();
    with_type_of(operand.element, [&]<class T>(T) {
      operand.each_row_of_call([&](const unsigned char *row) {
        for (std::size_t c = 0; c < operand.sizes[3]; ++c) {
          T value;
          const unsigned char *const at = row + static_cast<std::ptrdiff_t>(c) * operand.strides[3] *
                                                    static_cast<std::ptrdiff_t>(sizeof value);
          std::memcpy(&value, at, sizeof value);
          if constexpr (std::is_integral_v<T>) {
            bits.push_back(static_cast<std::uint64_t>(value));
          } else {
            bits.push_back(canonical_bits(value));
          }
          std::memcpy(block.image.data() + (at - block.data), &value, sizeof value);
        }
      });
    });
    const std::size_t of_copy = (bits.size() - first) / operand.copies;
    for (std::size_t i = first + of_copy; i < bits.size(); ++i)
      copies_differ_ = copies_differ_ || bits[i] != bits[i - of_copy];
    bits.resize(first + of_copy);
  }
  if (returned_) bits.push_back(*returned_);
}

Call::Overlaps Call::overlaps() const {
  Overlaps found;
  for (const Operand &output : operands_) {
    for (const Operand &other : operands_) {
      const bool is_earlier_output = other.is_written() && &other < &output;
      if (!output.is_written() || &other == &output || is_earlier_output || other.role == Role::aside)
        continue;
      if (output.is_empty() || other.is_empty()) continue;
      if (lies_exactly(output, other) && is_word_of(other.name, output.replaces)) continue;
      if (output.lowest() >= other.lowest() + other.extent() ||
          other.lowest() >= output.lowest() + output.extent())
        continue;
      const bool is_sure =
          has_work() && share_elements(output, other);  // without work, the library looks at few arrays
      (is_sure ? found.elements : found.gaps) |=
          only(output.role == Role::scratch ? output.bad_overlap : other.bad_overlap);
    }
  }
  return found;
}

const char *Call::touched() const {
  if (copies_differ_) return "a row that is not the row that it copies";
  for (const Block &block : blocks_) {
    const bool is_same = block.bytes == 0 || std::memcmp(block.data, block.image.data(), block.bytes) == 0;
    if (block.slot->surroundings_intact() && is_same) continue;
    for (const Operand &operand : operands_) {
      if (&blocks_[operand.block] == &block) return operand.name;
    }
  }
  return nullptr;
}

Layout in_one_call(Layout layout) {
  layout.attention.calls = layout.linear.calls = Calls::whole;
  return layout;
}

Outcome run_call(Call &call, const Layout &layout) {
  call.place(layout);
  Outcome outcome;
  rapt_status status = RAPT_OK;
  call_in_state(layout, outcome, [&] { status = call.run(); });
  check_status(status, outcome);
  call.take(outcome.bits);
  if (const char *const name = call.touched())
    outcome.fault += std::string("wrote to ") + name + ", or next to it; ";
  return outcome;
}

}  // namespace rapt::test
