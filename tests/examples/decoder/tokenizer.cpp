#include "tokenizer.hpp"

#include <cstdio>
#include <cstring>

#include "files.hpp"

namespace decoder {
namespace {

constexpr std::uint32_t begin = 1, first_byte = 3;  // <s>, <0x00>

}  // namespace

Tokenizer::Tokenizer(const std::filesystem::path &path, std::size_t vocab) {
  File file(path);
  const std::string all = file.read_all(), name = path.filename().string();
  std::size_t at = 0;
  const auto take = [&](void *to, std::size_t bytes) {
    if (bytes > all.size() - at)
      throw Refused(name + " ends before its " + std::to_string(vocab) + " tokens do");
    std::memcpy(to, all.data() + at, bytes);
    at += bytes;
  };
  std::int32_t longest = 0;
  take(&longest, sizeof longest);
  for (std::size_t i = 0; i < vocab; ++i) {
    Token token{"", 0};
    std::int32_t length = 0;
    take(&token.score, sizeof token.score);
    take(&length, sizeof length);
    if (length < 0 || length > longest)
      throw Refused(name + ": token " + std::to_string(i) + " has no valid length");
    token.text.resize(static_cast<std::size_t>(length));
    take(token.text.data(), token.text.size());
    numbers_.emplace(token.text, static_cast<std::uint32_t>(i));
    tokens_.push_back(std::move(token));
  }
  if (at != all.size()) throw Refused(name + " has more tokens than the model");
}

// Merges the pair with the best score until no pair is a token.
std::vector<std::uint32_t> Tokenizer::encode(const std::string &text) const {
  std::vector<std::uint32_t> tokens{begin};
  const auto add = [&](const std::string &character) {
    const auto found = numbers_.find(character);
    if (found != numbers_.end()) return tokens.push_back(found->second);
    for (const char byte : character) tokens.push_back(first_byte + static_cast<unsigned char>(byte));
  };
  if (!text.empty()) add(" ");
  for (std::size_t i = 0; i < text.size();) {
    std::size_t length = 1;  // of a character in UTF-8
    while (length < 4 && i + length < text.size() &&
           (static_cast<unsigned char>(text[i + length]) & 0xc0) == 0x80)
      ++length;
    add(text.substr(i, length));
    i += length;
  }
  for (const std::uint32_t token : tokens) {
    if (token >= tokens_.size()) throw Refused("the tokenizer has no tokens for bytes");
  }
  for (;;) {
    std::size_t best = 0;
    std::uint32_t merged = 0;
    for (std::size_t i = 1; i + 1 < tokens.size(); ++i) {
      const auto found = numbers_.find(tokens_[tokens[i]].text + tokens_[tokens[i + 1]].text);
      if (found == numbers_.end()) continue;
      if (best == 0 || tokens_[found->second].score > tokens_[merged].score) best = i, merged = found->second;
    }
    if (best == 0) return tokens;
    tokens[best] = merged;
    tokens.erase(tokens.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

std::string Tokenizer::decode(const std::vector<std::uint32_t> &tokens) const {
  std::string text;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const std::string &piece = tokens_[tokens[i]].text;
    unsigned byte = 0;
    char rest = 0;
    if (std::sscanf(piece.c_str(), "<0x%02X%c", &byte, &rest) == 2 && rest == '>' && piece.size() == 6) {
      text.push_back(static_cast<char>(byte));
    } else if (tokens[i] != begin) {
      // The first word has lost its space to the beginning.
      text += i > 0 && tokens[i - 1] == begin && piece[0] == ' ' ? piece.substr(1) : piece;
    }
  }
  return text;
}

}  // namespace decoder
