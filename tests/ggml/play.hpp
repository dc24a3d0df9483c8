// What a server does with sequences in one context, each compared bit for bit with the same sequence alone in a cache.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "llama_calls.hpp"

namespace rapt_ggml_tests {

using Tokens = std::vector<llama_token>;
using Logits = std::vector<float>;

struct Difference {  // between two lists of logits
  int positions = 0, of = 0;
  std::string first;
  float largest = 0;
  bool finite = true;
  void compare(const std::string &what, std::span<const float> one, std::span<const float> other);
  std::string text() const;
};

// A sequence is a letter. Its tokens are given by its letter and their position, not by the logits: a difference stays
// local.
class Play {
 public:
  Play(llama_model *model, const Settings &settings);

  // The next n tokens of each of these sequences, in one batch, token by token.
  void prompt(std::string_view sequences, int n) { feed(sequences, n, false); }
  // The next n tokens in batches of one token of each sequence.
  void decode(std::string_view sequences, int n) {
    for (int i = 0; i < n; ++i) feed(sequences, 1, false);
  }
  // The next token of some, and a prompt of others, in one batch.
  void join(std::string_view decoding, std::string_view joining, int n);
  // n tokens that are not the sequence's own, in one batch, for a rollback to remove.
  void draft(std::string_view sequences, int n) { feed(sequences, n, true); }
  // False, and nothing done, if a sliding window no longer has the tokens before.
  bool roll_back(char sequence, int n);
  void remove(char sequence);
  void copy(char from, char to);  // the whole sequence; each goes on with its own tokens
  // Drops n tokens from position `keep` on, and moves the rest down.
  void shift(char sequence, int keep, int n);
  std::vector<std::uint8_t> save(char sequence, llama_state_seq_flags flags = 0);
  void restore(char sequence, const std::vector<std::uint8_t> &state, const Tokens &tokens,
               llama_state_seq_flags flags = 0);
  // Back to when `window` was saved by LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY, as llama-server's checkpoints do.
  void return_to(char sequence, const std::vector<std::uint8_t> &window, const Tokens &tokens);
  // From now on a batch or a state for which there is no room is no error. make_room() then removes the longest
  // sequence.
  void may_be_full() { may_be_full_ = true; }
  bool make_room();
  // Continues in a new context, with the state of this one.
  void move_to_new_context();

  const Tokens &tokens(char sequence) { return history_[sequence]; }
  llama_context *context() { return context_.get(); }
  // The logits of a sequence in the order of their evaluation.
  const std::vector<std::pair<Tokens, Logits>> &records(char sequence) { return records_[sequence]; }
  // Every record beside its sequence alone, evaluated in one batch.
  std::string compare_with_alone();
  std::string problem() const { return problem_; }  // an error of llama.cpp, where there should be none

 private:
  struct Next {
    char sequence;
    bool draft;
  };
  void feed(std::string_view sequences, int n, bool draft);
  void evaluate_all(const std::vector<Next> &batch);
  void end_copy();
  // False if there is no room, or nothing may be full.
  bool put_back(char sequence, const std::vector<std::uint8_t> &state, llama_state_seq_flags flags);
  void fail(const std::string &what);

  llama_model *model_;
  Settings settings_;
  Context context_;
  std::map<char, Tokens> history_;
  std::map<char, std::vector<std::pair<Tokens, Logits>>> records_;
  bool may_be_full_ = false, full_ = false;
  char copied_to_ = 0;  // since the last evaluation
  std::string problem_;
};

}  // namespace rapt_ggml_tests
