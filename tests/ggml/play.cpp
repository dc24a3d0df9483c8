#include "play.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

namespace rapt_ggml_tests {
namespace {

llama_seq_id id(char sequence) { return sequence - 'A'; }

llama_token token_at(char sequence, std::size_t position, bool draft, int vocabulary) {
  auto z = static_cast<std::uint64_t>(position) * 6364136223846793005u +
           static_cast<std::uint64_t>(sequence) * 1442695040888963407u + (draft ? 0x9e3779b97f4a7c15u : 0);
  z = (z ^ (z >> 31)) * 0xd6e8feb86659fd93u;
  return static_cast<llama_token>((z >> 33) % static_cast<std::uint64_t>(vocabulary));
}

int vocabulary(const llama_model *model) { return llama_vocab_n_tokens(llama_model_get_vocab(model)); }

// In several batches where there is a sliding window: for a batch of several physical ones, llama.cpp 0.4.0 and 0.5.0
// free cells of the window that the first of them still needs (llama_kv_cache::prepare restores only the cells that it
// filled).
int evaluate_in_parts(llama_context *context, const Settings &settings, std::span<const Entry> entries,
                      const std::function<void(std::size_t, std::span<const float>)> &use) {
  const bool window = llama_model_n_swa(llama_get_model(context)) > 0;
  const auto most = window ? static_cast<std::size_t>(settings.ubatch) : entries.size();
  for (std::size_t first = 0; first < entries.size(); first += most) {
    const auto part = entries.subspan(first, std::min(most, entries.size() - first));
    if (const int status = evaluate(context, part, settings.last_only); status != 0) return status;
    for (std::size_t i = 0; i < part.size(); ++i) {
      const bool has_logits = !settings.last_only || is_last(part, i);
      use(first + i, has_logits ? logits_of(context, static_cast<int>(i)) : std::span<const float>());
    }
  }
  return 0;
}

}  // namespace

void Difference::compare(const std::string &what, std::span<const float> one, std::span<const float> other) {
  of += 1;
  const bool same_size = one.size() == other.size();
  if (same_size && all_finite(one) && std::memcmp(one.data(), other.data(), one.size_bytes()) == 0) return;
  if (positions++ == 0) first = what;
  finite = finite && all_finite(one);
  for (std::size_t i = 0; same_size && i < one.size(); ++i)
    largest = std::max(largest, std::abs(one[i] - other[i]));
}

std::string Difference::text() const {
  if (positions == 0) return "";
  char by[32];
  std::snprintf(by, sizeof by, "%.2g", static_cast<double>(largest));
  return std::to_string(positions) + " of " + std::to_string(of) + " positions differ, the first is " +
         first + ", by up to " + by + (finite ? "" : "; not all numbers are finite");
}

Play::Play(llama_model *model, const Settings &settings)
    : model_(model), settings_(settings), context_(new_context(model, settings)) {
  if (!context_) fail("no context");
}

void Play::fail(const std::string &what) {
  if (problem_.empty()) problem_ = what;
}

void Play::feed(std::string_view sequences, int n, bool draft) {
  std::vector<Next> batch;
  for (int i = 0; i < n; ++i)
    for (const char s : sequences) batch.push_back({s, draft});
  evaluate_all(batch);
}

void Play::join(std::string_view decoding, std::string_view joining, int n) {
  std::vector<Next> batch;
  for (const char s : decoding) batch.push_back({s, false});
  for (const char s : joining) batch.insert(batch.end(), static_cast<std::size_t>(n), {s, false});
  evaluate_all(batch);
}

void Play::evaluate_all(const std::vector<Next> &batch) {
  if (!problem_.empty()) return;
  std::vector<Entry> entries;
  std::vector<Tokens> after;  // the sequence's tokens up to each entry
  for (const Next &next : batch) {
    Tokens &h = history_[next.sequence];
    const auto position = static_cast<llama_pos>(h.size());
    h.push_back(token_at(next.sequence, h.size(), next.draft, vocabulary(model_)));
    entries.push_back({h.back(), position, id(next.sequence)});
    after.push_back(h);
  }
  copied_to_ = 0;
  std::size_t done = 0;
  const auto keep = [&](std::size_t i, std::span<const float> l) {
    if (!l.empty()) records_[batch[i].sequence].emplace_back(std::move(after[i]), Logits(l.begin(), l.end()));
    ++done;
  };
  const int status = evaluate_in_parts(context_.get(), settings_, entries, keep);
  if (status == 1 && may_be_full_) {
    full_ = true;
    for (; done < batch.size(); ++done) history_[batch[done].sequence].pop_back();
  } else if (status != 0) {
    fail("llama_decode returns " + std::to_string(status));
  }
}

bool Play::make_room() {
  if (!full_) return false;
  const auto shorter = [](const auto &a, const auto &b) { return a.second.size() < b.second.size(); };
  remove(std::max_element(history_.begin(), history_.end(), shorter)->first);
  full_ = false;
  return true;
}

// llama.cpp copies between streams only when it next decodes: until then, states have other numbers.
void Play::end_copy() {
  if (copied_to_ != 0 && !settings_.unified) decode(std::string(1, copied_to_), 1);
}

bool Play::roll_back(char sequence, int n) {
  if (!problem_.empty()) return false;
  auto *memory = llama_get_memory(context_.get());
  Tokens &h = history_[sequence];
  const auto keep = static_cast<llama_pos>(h.size()) - n;
  if (keep < 0) return false;
  const int window = llama_model_n_swa(model_);
  if (window > 0 && llama_memory_seq_pos_min(memory, id(sequence)) > std::max(0, keep - window)) return false;
  if (!llama_memory_seq_rm(memory, id(sequence), keep, -1)) fail("llama_memory_seq_rm returns false");
  h.resize(static_cast<std::size_t>(keep));
  return true;
}

void Play::remove(char sequence) {
  if (!problem_.empty()) return;
  llama_memory_seq_rm(llama_get_memory(context_.get()), id(sequence), -1, -1);
  history_[sequence].clear();
}

void Play::copy(char from, char to) {
  if (!problem_.empty()) return;
  remove(to);
  llama_memory_seq_cp(llama_get_memory(context_.get()), id(from), id(to), -1, -1);
  history_[to] = history_[from];
  copied_to_ = to;
}

void Play::shift(char sequence, int keep, int n) {
  if (!problem_.empty()) return;
  auto *memory = llama_get_memory(context_.get());
  Tokens &h = history_[sequence];
  if (!llama_memory_can_shift(memory)) return fail("this cache cannot shift");
  llama_memory_seq_rm(memory, id(sequence), keep, keep + n);
  llama_memory_seq_add(memory, id(sequence), keep + n, -1, -n);
  h.erase(h.begin() + keep, h.begin() + keep + n);
}

std::vector<std::uint8_t> Play::save(char sequence, llama_state_seq_flags flags) {
  end_copy();
  if (!problem_.empty()) return {};
  std::vector<std::uint8_t> state(llama_state_seq_get_size_ext(context_.get(), id(sequence), flags));
  if (llama_state_seq_get_data_ext(context_.get(), state.data(), state.size(), id(sequence), flags) !=
      state.size())
    fail("llama_state_seq_get_data_ext returns another size");
  return state;
}

void Play::return_to(char sequence, const std::vector<std::uint8_t> &window, const Tokens &tokens) {
  if (!problem_.empty()) return;
  history_[sequence] = tokens;
  if (!put_back(sequence, window, LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY)) return;
  auto *memory = llama_get_memory(context_.get());
  llama_memory_seq_rm(memory, id(sequence), static_cast<llama_pos>(tokens.size()), -1);
}

bool Play::put_back(char sequence, const std::vector<std::uint8_t> &state, llama_state_seq_flags flags) {
  if (llama_state_seq_set_data_ext(context_.get(), state.data(), state.size(), id(sequence), flags) != 0)
    return true;
  if (may_be_full_) {
    remove(sequence);  // half of it may be there
    full_ = true;
  } else {
    fail("llama_state_seq_set_data_ext returns 0");
  }
  return false;
}

void Play::restore(char sequence, const std::vector<std::uint8_t> &state, const Tokens &tokens,
                   llama_state_seq_flags flags) {
  end_copy();
  if (!problem_.empty()) return;
  history_[sequence] = Tokens(tokens);  // a copy: it may be this sequence's own
  put_back(sequence, state, flags);
}

void Play::move_to_new_context() {
  end_copy();
  if (!problem_.empty()) return;
  std::vector<std::uint8_t> state(llama_state_get_size(context_.get()));
  state.resize(llama_state_get_data(context_.get(), state.data(), state.size()));
  Context next = new_context(model_, settings_);
  if (!next || llama_state_set_data(next.get(), state.data(), state.size()) == 0)
    return fail("llama_state_set_data returns 0");
  context_ = std::move(next);
}

std::string Play::compare_with_alone() {
  if (!problem_.empty()) return problem_;
  // Each history that no longer one begins with is evaluated once.
  std::map<Tokens, Logits> alone;
  std::vector<const Tokens *> histories;
  for (const auto &[sequence, records] : records_)
    for (const auto &record : records) histories.push_back(&record.first);
  std::sort(histories.begin(), histories.end(),
            [](const Tokens *a, const Tokens *b) { return a->size() > b->size(); });
  Settings settings = settings_;
  settings.sequences = 1;
  settings.ubatch = 512;
  settings.threads = 1;
  settings.observed = settings.last_only = false;
  for (const Tokens *h : histories) {
    if (alone.count(*h)) continue;
    std::vector<Entry> entries;
    for (std::size_t i = 0; i < h->size(); ++i) entries.push_back({(*h)[i], static_cast<llama_pos>(i), 0});
    const Context context = new_context(model_, settings);
    if (!context || evaluate(context.get(), entries) != 0) return "no reference";
    for (std::size_t i = 0; i < h->size(); ++i) {
      const auto l = logits_of(context.get(), static_cast<int>(i));
      alone.try_emplace(Tokens(h->begin(), h->begin() + static_cast<std::ptrdiff_t>(i) + 1), l.begin(),
                        l.end());
    }
  }
  std::string text;
  for (const auto &[sequence, records] : records_) {
    Difference d;
    for (const auto &[tokens, logits] : records)
      d.compare("position " + std::to_string(tokens.size() - 1), logits, alone.at(tokens));
    if (d.positions > 0) text += (text.empty() ? "" : "; ") + std::string(1, sequence) + ": " + d.text();
  }
  return text;
}

}  // namespace rapt_ggml_tests
