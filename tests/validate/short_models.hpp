// A short decoder in each choice of weights, arithmetic and cache, with the published hashes of its tokens and
// logits. So any machine checks the whole chain of functions in a second.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "validate/decoder_hash.hpp"

namespace decoder {

struct ShortModel {
  const char *name;    // of weights, arithmetic and cache
  const char *stored;  // the dtype in config.json
  rapt_type weights;
  int arithmetic;
  rapt_type cache;
  std::uint64_t tokens, logits;  // the published hashes
};
const std::vector<ShortModel> &short_models();

// Sequence 0 is the published one. The others have prompts of other lengths.
std::vector<std::vector<std::uint32_t>> short_prompts(std::size_t sequences);
Plan short_plan();

// Makes the model and decodes its prompts. The result does not depend on `threads`, `sequences` and the plan's
// chunk and drafts.
HashedReport decode_short(const ShortModel &model, const Plan &plan, std::size_t threads = 1,
                          std::size_t sequences = 1);

// Says it of sequence 0.
bool is_published(const ShortModel &model, const HashedReport &report);

}  // namespace decoder
