// Attention's entries of a level's table. The bodies are compiled in a file of their own,
// isa/<level>/attention.cpp, beside the table: each of the two takes a compiler long enough. Both end in the
// level's closed object, outside of which nobody sees these names.
#pragma once

#include <cstddef>

namespace rapt {
struct AttentionCall;
}

namespace rapt::level {

#define RAPT_ATTENTION_ENTRY(name) \
  void name(const AttentionCall *call, std::size_t first, std::size_t last, void *workspace)

RAPT_ATTENTION_ENTRY(attention_f32);
RAPT_ATTENTION_ENTRY(attention_f64);
RAPT_ATTENTION_ENTRY(attention_backward_f32);
RAPT_ATTENTION_ENTRY(attention_backward_f64);

}  // namespace rapt::level
