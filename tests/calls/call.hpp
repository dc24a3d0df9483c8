// One call of the library: its arrays in guarded memory, and its other arguments at their limits. Each function of
// rapt.h is described once, by a class over Call. rapt-validate, the tests of drawn calls, of guard pages
// and of arguments, and the fuzzer run what is described.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "calls/limits.hpp"
#include "calls/operand.hpp"
#include "support/bits.hpp"
#include "support/guarded_slot.hpp"
#include "support/problem.hpp"

namespace rapt::test {

// Guarded memory that outlives the call, because mapping it takes longer than most calls.
class PooledSlot {
 public:
  explicit PooledSlot(std::size_t capacity);
  ~PooledSlot();
  PooledSlot(PooledSlot &&) noexcept = default;
  PooledSlot &operator=(PooledSlot &&) = delete;
  GuardedSlot *operator->() const { return slot_.get(); }

 private:
  std::unique_ptr<GuardedSlot> slot_;
};

class Call {
 public:
  // With `is_short`, the call leaves out what has a default.
  explicit Call(const Layout &layout, bool is_short) : layout_(layout), is_short_(is_short) {}
  virtual ~Call() = default;
  Call(const Call &) = delete;

  // Makes the call, or several for parts of it.
  virtual rapt_status run() = 0;
  // The struct of its options, or null.
  virtual const char *options() const { return nullptr; }
  virtual bool needs_options() const { return options() != nullptr; }
  // Calls without options from now on. Returns true.
  bool leave_out_options() { return !(has_options_ = false); }
  // Whether the library looks for mistakes: simple functions return no status.
  virtual bool has_status() const { return true; }
  // What the other functions return that take the same arguments, or some of them. They write nothing that is a result.
  virtual std::vector<rapt_status> elsewhere(Where) { return {}; }
  // Whether functions that undo the work give back what it was made of, and others that read or repeat it agree. Of a
  // call that has been made.
  virtual bool can_be_undone() const { return true; }
  // Adds what the fields may be that are not of an operand.
  virtual void add_limits(Limits &) {}

  // Puts each operand next to a guard page. An output may take the place of an input.
  void place(const Layout &layout);
  // Puts all operands into one block of memory, at these distances from its beginning, in bytes.
  void place_together(std::size_t bytes, Placement placement, std::span<const std::size_t> at);
  // Moves an operand next to another, or into it: `distance` bytes from the beginning of `fixed`.
  void place_near(std::size_t moved, std::size_t fixed, std::ptrdiff_t distance);
  // Changes an element of an array that is placed.
  template <class T>
  void set_value(const char *name, std::size_t index, T value) {
    set_bytes(name, index * sizeof value, &value, sizeof value);
  }
  // Writes all arrays as they were before the call. Fields that a limit has changed stay as they are.
  void restore();

  // Appends the results, NaNs with the same bits. They then count as what is in memory.
  void take(std::vector<std::uint64_t> &bits);
  // Returns the name of an array near which something has changed that is no result, or null.
  const char *touched() const;

  // What the library must return, or may, because an output lies on another array: on its elements, or only between
  // them.
  struct Overlaps {
    Statuses elements = 0, gaps = 0;
  };
  Overlaps overlaps() const;

  const std::deque<Operand> &operands() const { return operands_; }
  bool is_short() const { return is_short_; }
  // The limits of all fields. They refer to this call.
  std::vector<Limit> limits();
  // Whether any array is empty, so that the library looks at none.
  virtual bool has_work() const;

 protected:
  // Makes arrays from others, such as packed weights, before the call.
  virtual void prepare() {}
  // Adds an operand. `slot` says whose offset and gap of the layout it has. `pointer` is where the call has the
  // address. Results are in the order in which outputs are added.
  Operand &add(const char *name, Element element, const Sizes4 &sizes, std::size_t slot, void *pointer);
  const Layout &layout() const { return layout_; }
  // The options, or null past their limit.
  template <class Options>
  const Options *given(const Options &options) const {
    return has_options_ ? &options : nullptr;
  }
  std::deque<Operand> &all() { return operands_; }
  // A number that the function returned, which is the last result.
  template <class T>
  void returned(T value) {
    if constexpr (std::is_integral_v<T>) {
      returned_ = static_cast<std::uint64_t>(value);
    } else {
      returned_ = canonical_bits(value);
    }
  }
  // Inverts the bits of a byte.
  void spoil(Operand &operand, std::size_t at);

 private:
  struct Block {
    PooledSlot slot;
    Placement placement;
    std::size_t bytes, offset;
    unsigned char *data;
    std::vector<unsigned char> image;
  };
  void add_block(std::size_t bytes, Placement placement, std::size_t offset);
  void set_bytes(const char *name, std::size_t at, const void *bytes, std::size_t size);
  void refill();
  void remember();
  void bind();
  const Operand *replaced_by(const Operand &output, const Layout &layout) const;

  Layout layout_;
  bool is_short_, has_options_ = true;
  std::deque<Operand> operands_;
  std::vector<Block> blocks_;
  std::optional<std::uint64_t> returned_;
  bool copies_differ_ = false;
  std::vector<std::pair<const Operand *, std::size_t>> spoilt_;  // bytes
};

// The layout of a call that is not made in parts, because a part may not have what is wrong with the whole.
Layout in_one_call(Layout layout);

// Places and runs the call, and returns its results.
Outcome run_call(Call &call, const Layout &layout);

}  // namespace rapt::test
