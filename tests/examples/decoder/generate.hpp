// Greedy decoding of several sequences at once: prompts in chunks, then token by token or with drafts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "model.hpp"

namespace decoder {

struct Plan {
  std::size_t new_tokens = 32;    // at most: fewer where the text ends, or the positions of the model
  std::size_t chunk = 256;        // tokens of a prompt in one call; 0: all
  std::size_t drafts = 0;         // tokens that are guessed, and verified in one call
  bool only_last_logits = false;  // of a prompt: those of its last token
  bool ignores_eos = false;
};

struct Sequence {
  std::vector<std::uint32_t> tokens;  // the prompt, then what was generated
  std::size_t prompt = 0;             // length of the prompt
  std::size_t longest = 0;            // prompt and new tokens, as far as the model has positions
  std::size_t fed = 0;                // tokens in the cache
  bool finished = false;
  std::size_t accepted_drafts = 0, rejected_drafts = 0;
};

struct Report {
  std::vector<Sequence> sequences;
  std::size_t prompt_tokens = 0, decoded_tokens = 0;  // chosen in steps without a prompt
  std::uint64_t prompt_ns = 0, decode_ns = 0;
};

// Decodes the prompts in one batch. Calls watch(i, row) for every row of logits of sequence i, in the order
// of positions, without those of rejected drafts. Refuses logits that are NaN.
Report generate(Model &model, std::vector<std::vector<std::uint32_t>> prompts, const Plan &plan,
                const std::function<void(std::size_t, std::span<const float>)> &watch);

}  // namespace decoder
