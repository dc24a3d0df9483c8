#include "support/watched_call_abi.hpp"

namespace rapt::test {

void append_name(std::string &list, const std::string &name) {
  if (!list.empty()) list += ", ";
  list += name;
}

void place_by_kind(std::span<const Argument> arguments, CallFrame &frame) {
  std::size_t integers = 0, floats = 8;
  for (const Argument &argument : arguments) {
    frame.arguments[argument.is_float ? floats++ : integers++] = argument.bits;
  }
}

void WatchedCall::prepare() {
  place_arguments({arguments_, argument_count_}, frame_);
  argument_count_ = 0;
  for (std::size_t i = 0; i < preserved_words().size(); ++i) {
    frame_.before[i] = 0xa5c3f00d00000000u + 0x0101010101010101u * i;
  }
}

std::string WatchedCall::changed() const {
  std::string list = control_changed_;
  for (std::size_t i = 0; i < preserved_words().size(); ++i) {
    if (frame_.after[i] != frame_.before[i]) append_name(list, preserved_words()[i]);
  }
  return list;
}

}  // namespace rapt::test
