// llama2.c's tokenizer.bin: the text of every token, and the order in which pairs of tokens merge.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <unordered_map>
#include <vector>

namespace decoder {

class Tokenizer {
 public:
  Tokenizer(const std::filesystem::path &path, std::size_t vocab);

  // Begins with the token of the beginning (1), and a space before the first word, as llama2.c does.
  std::vector<std::uint32_t> encode(const std::string &text) const;
  std::string decode(const std::vector<std::uint32_t> &tokens) const;

 private:
  struct Token {
    std::string text;
    float score;  // only compared
  };
  std::vector<Token> tokens_;
  std::unordered_map<std::string, std::uint32_t> numbers_;
};

}  // namespace decoder
