#include "generate.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace decoder {
namespace {

// Guesses the next tokens: what followed the last token where it stood before. The guess changes the speed
// only, because every token is verified.
std::vector<std::uint32_t> drafts_after(const std::vector<std::uint32_t> &tokens, std::size_t count) {
  std::vector<std::uint32_t> drafts;
  for (std::size_t i = tokens.size() - 1; i-- > 0;) {
    if (tokens[i] != tokens.back()) continue;
    for (std::size_t j = i + 1; drafts.size() < count; ++j) {
      drafts.push_back(j < tokens.size() ? tokens[j] : drafts[j - tokens.size()]);
    }
    return drafts;
  }
  drafts.assign(count, tokens.back());
  return drafts;
}

class Run {
 public:
  Run(Model &model, std::vector<Sequence> sequences, const Plan &plan,
      const std::function<void(std::size_t, std::span<const float>)> &watch)
      : model_(model),
        plan_(plan),
        watch_(watch),
        cache_(model.config(), model.settings().cache, sequences.size(), capacity(sequences)) {
    report_.sequences = std::move(sequences);
  }

  Report run() {
    while (step()) {
    }
    return std::move(report_);
  }

 private:
  static std::size_t capacity(const std::vector<Sequence> &sequences) {
    std::size_t longest = 0;
    for (const Sequence &sequence : sequences) longest = std::max(longest, sequence.longest);
    return longest;
  }

  // Lets every sequence that is not finished feed its next tokens.
  bool step() {
    std::vector<std::vector<std::uint32_t>> tokens(report_.sequences.size());
    std::vector<Feed> feeds;
    any_prompt_ = false;
    for (std::size_t i = 0; i < report_.sequences.size(); ++i) {
      const Sequence &sequence = report_.sequences[i];
      if (sequence.finished) continue;
      const bool in_prompt = sequence.fed < sequence.prompt;
      tokens[i] = next_tokens(sequence);
      any_prompt_ = any_prompt_ || in_prompt;
      // The hash of the last logits must not depend on where chunks end.
      const bool is_last = sequence.fed + tokens[i].size() == sequence.prompt;
      const std::size_t last = in_prompt && plan_.only_last_logits ? is_last : tokens[i].size();
      feeds.push_back({i, tokens[i], last});
    }
    if (feeds.empty()) return false;

    timed([&] { model_.forward(feeds, cache_, logits_); });
    const float *row = logits_.data();
    for (const Feed &feed : feeds) row = take(feed, row);
    return true;
  }

  // Hashes of logits take time, too, and belong to no model.
  template <class Work>
  void timed(const Work &work) {
    const auto start = std::chrono::steady_clock::now();
    work();
    const auto spent = std::chrono::steady_clock::now() - start;
    (any_prompt_ ? report_.prompt_ns : report_.decode_ns) +=
        static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(spent).count());
  }

  std::vector<std::uint32_t> next_tokens(const Sequence &sequence) const {
    const std::size_t left = sequence.prompt - std::min(sequence.prompt, sequence.fed);
    const auto first = sequence.tokens.begin() + static_cast<std::ptrdiff_t>(sequence.fed);
    if (left > 0) {
      const std::size_t count = plan_.chunk ? std::min(plan_.chunk, left) : left;
      return {first, first + static_cast<std::ptrdiff_t>(count)};
    }
    std::vector<std::uint32_t> tokens(first, sequence.tokens.end());
    const std::size_t to_come = sequence.longest - sequence.tokens.size();
    const std::vector<std::uint32_t> drafts =
        drafts_after(sequence.tokens, std::min(plan_.drafts, to_come - 1));
    tokens.insert(tokens.end(), drafts.begin(), drafts.end());
    return tokens;
  }

  // Takes the rows of a feed from `row` on, and returns what follows them.
  const float *take(const Feed &feed, const float *row) {
    const std::size_t vocab = model_.config().vocab;
    Sequence &sequence = report_.sequences[feed.sequence];
    const auto look = [&] {
      const std::span<const float> logits(row, vocab);
      check(feed.sequence, logits);
      watch_(feed.sequence, logits);
      row += vocab;
      return logits;
    };
    if (sequence.fed < sequence.prompt) {
      sequence.fed += feed.tokens.size();
      report_.prompt_tokens += feed.tokens.size();
      for (std::size_t i = 1; i < feed.logits; ++i) look();
      if (feed.logits == 0) return row;
      const std::span<const float> last = look();
      if (sequence.fed == sequence.prompt) append(sequence, last);
      return row;
    }
    // A draft's logits count only if it is the token that greedy decoding chooses.
    const float *end = row + feed.tokens.size() * vocab;
    for (std::size_t i = 0;; ++i) {
      sequence.fed += 1;
      append(sequence, look());
      if (sequence.finished || i + 1 == feed.tokens.size() || feed.tokens[i + 1] != sequence.tokens.back())
        break;
      sequence.accepted_drafts += 1;
    }
    sequence.rejected_drafts += static_cast<std::size_t>(end - row) / vocab;
    cache_.lengths[feed.sequence] = static_cast<std::int32_t>(sequence.fed);
    return end;
  }

  static void check(std::size_t sequence, std::span<const float> logits) {
    for (std::size_t i = 0; i < logits.size(); ++i) {
      if (!std::isnan(logits[i])) continue;
      throw Refused("sequence " + std::to_string(sequence) + ": the logit of token " + std::to_string(i) +
                    " is NaN, so weights are NaN or infinite, or too large for this arithmetic");
    }
  }

  void append(Sequence &sequence, std::span<const float> logits) {
    sequence.finished = sequence.tokens.size() == sequence.longest;
    if (sequence.finished) return;
    std::uint32_t token = 0;
    timed([&] { token = static_cast<std::uint32_t>(rapt_argmax_f32(logits.data(), logits.size())); });
    sequence.tokens.push_back(token);
    if (!any_prompt_) report_.decoded_tokens += 1;
    const std::vector<std::uint32_t> &eos = model_.config().eos;
    const bool ends = !plan_.ignores_eos && std::find(eos.begin(), eos.end(), token) != eos.end();
    sequence.finished = ends || sequence.tokens.size() == sequence.longest;
  }

  Model &model_;
  const Plan &plan_;
  const std::function<void(std::size_t, std::span<const float>)> &watch_;
  Cache cache_;
  Report report_;
  std::vector<float> logits_;
  bool any_prompt_ = false;  // in this step
};

}  // namespace

Report generate(Model &model, std::vector<std::vector<std::uint32_t>> prompts, const Plan &plan,
                const std::function<void(std::size_t, std::span<const float>)> &watch) {
  const Config &config = model.config();
  const std::size_t positions = config.max_positions ? config.max_positions : largest_size;
  std::vector<Sequence> sequences;
  if (prompts.empty()) throw Refused("there is no prompt");
  for (std::vector<std::uint32_t> &prompt : prompts) {
    if (prompt.empty()) throw Refused("a prompt has no tokens");
    for (const std::uint32_t token : prompt) {
      if (token >= config.vocab) {
        throw Refused("token " + std::to_string(token) + " is not in the vocabulary of " +
                      std::to_string(config.vocab));
      }
    }
    if (prompt.size() > positions) {
      throw Refused("a prompt has " + std::to_string(prompt.size()) + " tokens, and the model " +
                    std::to_string(positions) + " positions");
    }
    Sequence &sequence = sequences.emplace_back();
    sequence.prompt = prompt.size();
    sequence.longest = prompt.size() + std::min(plan.new_tokens, positions - prompt.size());
    sequence.tokens = std::move(prompt);
  }
  return Run(model, std::move(sequences), plan, watch).run();
}

}  // namespace decoder
