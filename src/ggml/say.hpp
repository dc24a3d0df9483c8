// What the plugin says: through ggml's log, so that a program's own log has it.
#pragma once

#include <ggml.h>

#include <stdexcept>
#include <string>

#include "ggml/tensor.hpp"

namespace rapt_ggml {

// An op that cannot be computed. It ends graph_compute with GGML_STATUS_FAILED.
struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

void say(enum ggml_log_level level, const std::string &sentence);

// Says each sentence once for a model, whatever numbers are in it. say_all_again() forgets what was said.
void say_once(enum ggml_log_level level, const std::string &sentence);
void say_all_again();

// RAPT_GGML_LOG=1: ops, splits and times.
bool log_is_on();

// RAPT_GGML_STRICT=1: what would silently bring somebody else's bits ends the process.
bool is_strict();

// Under RAPT_GGML_STRICT=1 the sentence ends the process, with status 1. Else it is said once, as a warning.
void not_our_bits(const std::string &sentence);

// "MUL_MAT of q8_0 and f32 (blk.0.attn_q.weight)"
std::string text_of(Tensor op);

}  // namespace rapt_ggml
