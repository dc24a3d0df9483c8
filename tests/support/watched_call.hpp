// Makes a call through an assembly trampoline, which sets every callee-saved register before the call and
// compares it afterwards. C++ code cannot do that, because the compiler may save a register around a call.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace rapt::test {

struct Argument {
  std::uint64_t bits;
  bool is_float;
};

// The assembly code uses these offsets.
struct CallFrame {
  const void *function = nullptr;
  std::uint64_t arguments[10] = {};
  std::uint64_t watch_upper_halves = 0;
  std::uint64_t integer_result = 0;
  std::uint64_t float_result = 0;
  std::uint64_t flags = 0;
  std::uint64_t state_in_use = 0;
  std::uint64_t before[28] = {};
  std::uint64_t after[28] = {};
};
static_assert(offsetof(CallFrame, arguments) == 8 && offsetof(CallFrame, watch_upper_halves) == 88);
static_assert(offsetof(CallFrame, integer_result) == 96 && offsetof(CallFrame, state_in_use) == 120);
static_assert(offsetof(CallFrame, before) == 128 && offsetof(CallFrame, after) == 352);

class WatchedCall {
 public:
  // With `foreign_control`, the call runs under unusual control words, which flush to zero and round up.
  explicit WatchedCall(bool foreign_control) : foreign_control_(foreign_control) {}

  void watch_upper_halves() { frame_.watch_upper_halves = 1; }

  template <class R, class... Parameters, class... Arguments>
  R operator()(R (*function)(Parameters...), Arguments... arguments) {
    static_assert(sizeof...(Parameters) == sizeof...(Arguments));
    frame_.function = reinterpret_cast<const void *>(function);
    (pass<Parameters>(arguments), ...);
    run();
    if constexpr (std::is_same_v<R, float>) {
      return std::bit_cast<float>(static_cast<std::uint32_t>(frame_.float_result));
    } else if constexpr (std::is_same_v<R, double>) {
      return std::bit_cast<double>(frame_.float_result);
    } else if constexpr (std::is_pointer_v<R>) {
      return reinterpret_cast<R>(frame_.integer_result);
    } else if constexpr (!std::is_void_v<R>) {
      return static_cast<R>(frame_.integer_result);
    }
  }

  // Returns the names of the registers and control words that the call must preserve but changed.
  std::string changed() const;

  // Returns whether any bit above the lowest 128 of vector registers 0 to 15 may be nonzero. Call
  // watch_upper_halves() before the call.
  bool upper_halves_in_use() const;

 private:
  template <class Parameter>
  void pass(Parameter value) {
    Argument &argument = arguments_[argument_count_++];
    if constexpr (std::is_same_v<Parameter, float>) {
      argument = {std::bit_cast<std::uint32_t>(value), true};
    } else if constexpr (std::is_same_v<Parameter, double>) {
      argument = {std::bit_cast<std::uint64_t>(value), true};
    } else if constexpr (std::is_pointer_v<Parameter>) {
      argument = {reinterpret_cast<std::uint64_t>(value), false};
    } else {
      argument = {static_cast<std::uint64_t>(value), false};
    }
  }
  void prepare();
  void run();

  Argument arguments_[std::size(CallFrame{}.arguments)];
  std::size_t argument_count_ = 0;
  CallFrame frame_;
  bool foreign_control_;
  std::string control_changed_;
};

// Returns why upper_halves_in_use() is not reliable on this machine, or an empty string if it is.
std::string why_upper_halves_are_unknown();

// Returns functions that break the calling convention, each with the register that changed() must name.
std::vector<std::pair<std::string, void (*)()>> misbehaving_functions();

}  // namespace rapt::test
