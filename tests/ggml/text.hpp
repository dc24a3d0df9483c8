// Texts and tokens of a model that has a tokenizer.
#pragma once

#include <llama.h>

#include <algorithm>
#include <string>
#include <vector>

namespace rapt_ggml_tests {

inline std::vector<llama_token> tokens_of(const llama_model *model, const std::string &text, bool special) {
  std::vector<llama_token> tokens(text.size() + 8);
  const auto n =
      llama_tokenize(llama_model_get_vocab(model), text.data(), static_cast<std::int32_t>(text.size()),
                     tokens.data(), static_cast<std::int32_t>(tokens.size()), true, special);
  tokens.resize(static_cast<std::size_t>(std::max(n, 0)));
  return tokens;
}

inline std::string text_of(const llama_model *model, llama_token token) {
  char piece[256];
  const auto n = llama_token_to_piece(llama_model_get_vocab(model), token, piece, sizeof piece, 0, false);
  return std::string(piece, static_cast<std::size_t>(std::max(n, 0)));
}

}  // namespace rapt_ggml_tests
