// A small language model, trained by rapt alone: a Llama of two layers learns a grammar of 17 words.
//
//   sentence:  the NOUN VERB .        or        the NOUN near the NOUN VERB .
//
// The verb has the number of the first noun: "the dogs near the cat sleep ." A model that only looks at the
// word before cannot know it. The grammar draws every choice with equal chances, so its entropy is known.
//
// All functions of the model and their gradients are rapt's. What is left is written out here, in a fixed
// order: sums of two gradients, and Adam.
#pragma once

#include <rapt/rapt.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include "support/random.hpp"

namespace rapt::test {

// Draws sentences, word by word.
class Grammar {
 public:
  enum Word : std::size_t { the, near, stop, first_noun };
  static constexpr std::size_t nouns = 4, verbs = 3;  // each as singular and plural
  static constexpr std::size_t first_verb = first_noun + 2 * nouns, words = first_verb + 2 * verbs;

  explicit Grammar(std::uint64_t seed) : random_(seed) {}

  // Words 2 i and 2 i + 1 of nouns and verbs are a singular and its plural.
  static std::size_t number(std::size_t noun_or_verb) { return (noun_or_verb - first_noun) % 2; }
  static bool is_verb(std::size_t word) { return word >= first_verb; }

  std::size_t next() {
    if (at_ == sentence_.size()) draw();
    return sentence_[at_++];
  }
  std::vector<std::size_t> sentence(bool has_two_nouns) {
    draw(has_two_nouns);
    at_ = sentence_.size();
    return sentence_;
  }

  // Nats per word.
  static double entropy() {
    const double noun = std::log(2.0 * nouns), verb = std::log(static_cast<double>(verbs));
    const double per_sentence = noun + std::log(2.0) + noun / 2 + verb;
    return per_sentence / 5.5;  // 4 or 7 words
  }
  // What the verb's number is worth where another noun stands between it and the first one.
  static double worth_of_first_noun() { return std::log(2.0) / 2 / 5.5; }

 private:
  void draw() { draw(random_.below(2) == 1); }
  void draw(bool has_two_nouns) {
    const std::size_t noun = first_noun + random_.below(2 * nouns);
    sentence_ = {the, noun};
    if (has_two_nouns) sentence_.insert(sentence_.end(), {near, the, first_noun + random_.below(2 * nouns)});
    sentence_.insert(sentence_.end(), {first_verb + 2 * random_.below(verbs) + number(noun), stop});
    at_ = 0;
  }

  Random random_;
  std::vector<std::size_t> sentence_;
  std::size_t at_ = 0;
};

template <class T>
class LanguageModel {
 public:
  using Values = std::vector<T>;
  static constexpr std::size_t vocab = Grammar::words, hidden = 32, layers = 2, heads = 4, kv_heads = 2,
                               head_dim = 8, intermediate = 48, length = 24, sequences = 8,
                               rows = sequences * length;

  // Says where a matrix or a vector lies among the parameters.
  struct Place {
    const char *name;
    std::size_t first, outputs, inputs;
    std::size_t size() const { return outputs * inputs; }
  };

  explicit LanguageModel(std::uint64_t seed) : random_(seed) {
    embedding_ = add("embedding", vocab, hidden, 0.5);
    for (std::size_t i = 0; i < layers; ++i) {
      blocks_.push_back({add("attention_norm", 1, hidden, 0), add("qkv", qkv_width, hidden, by_root(hidden)),
                         add("o", hidden, heads * head_dim, by_root(hidden)), add("mlp_norm", 1, hidden, 0),
                         add("gate_up", 2 * intermediate, hidden, by_root(hidden)),
                         add("down", hidden, intermediate, by_root(intermediate))});
    }
    last_norm_ = add("last_norm", 1, hidden, 0);
    head_ = add("head", vocab, hidden, by_root(hidden));
    gradients.resize(parameters.size());
    first_moment_.resize(parameters.size());
    second_moment_.resize(parameters.size());
    rapt_rope_frequency_options rope = RAPT_ROPE_FREQUENCY_OPTIONS_INIT;
    rope.rotary_dim = head_dim;
    must(rapt_rope_frequencies(frequencies_, nullptr, &rope));
  }

  Values parameters, gradients;
  const std::vector<Place> &places() const { return places_; }

  // Returns the mean cross-entropy of `next` after `words`, both [sequences][length], and sets the gradients.
  T loss_and_gradients(const std::vector<std::size_t> &words, const std::vector<std::size_t> &next) {
    forward(words);
    Values log_p(rows * vocab), dlogits(rows * vocab);
    softmax(log_p, dlogits);
    T sum = 0;
    for (std::size_t r = 0; r < rows; ++r) {
      sum -= log_p[r * vocab + next[r]];
      dlogits[r * vocab + next[r]] -= 1;
    }
    for (T &number : dlogits) number /= rows;
    backward(words, dlogits);
    return sum / rows;
  }

  // Logits [sequences][length][vocab].
  const Values &logits(const std::vector<std::size_t> &words) { return forward(words), logits_; }

  // Adam (Kingma and Ba 2014), with its usual numbers.
  void update(T rate) {
    const T b1 = T(0.9), b2 = T(0.999), eps = T(1e-8);
    power1_ *= b1;
    power2_ *= b2;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      first_moment_[i] = b1 * first_moment_[i] + (1 - b1) * gradients[i];
      second_moment_[i] = b2 * second_moment_[i] + (1 - b2) * gradients[i] * gradients[i];
      const T m = first_moment_[i] / (1 - power1_), v = second_moment_[i] / (1 - power2_);
      parameters[i] -= rate * m / (std::sqrt(v) + eps);
    }
  }

 private:
  static constexpr rapt_type type = std::is_same_v<T, float> ? RAPT_F32 : RAPT_F64;
  static constexpr std::size_t q_width = heads * head_dim, kv_width = kv_heads * head_dim,
                               qkv_width = q_width + 2 * kv_width;
  static constexpr double eps = 1e-5;

  struct Block {
    std::size_t attention_norm, qkv, o, mlp_norm, gate_up, down;  // indices of places
  };
  // What the gradients of a block need.
  struct Seen {
    Values x, normed, qkv, lse, attended, x_of_mlp, normed_of_mlp, gate_up, gated;
  };

  static double by_root(std::size_t inputs) { return 1 / std::sqrt(static_cast<double>(inputs)); }
  static void must(rapt_status status) {
    if (status != RAPT_OK) throw std::logic_error(rapt_status_text(status));
  }

  // Norms begin with ones, other parameters with random numbers.
  std::size_t add(const char *name, std::size_t outputs, std::size_t inputs, double sigma) {
    places_.push_back({name, parameters.size(), outputs, inputs});
    for (std::size_t i = 0; i < outputs * inputs; ++i) {
      parameters.push_back(sigma > 0 ? static_cast<T>(sigma * random_.gaussian()) : T(1));
    }
    return places_.size() - 1;
  }
  const T *value(std::size_t place) const { return &parameters[places_[place].first]; }
  T *gradient(std::size_t place) { return &gradients[places_[place].first]; }

  // y = x W^T for any strides.
  void product(const T *x, rapt_matrix_strides x_strides, const T *w, rapt_matrix_strides w_strides, T *y,
               std::size_t y_rows, std::size_t inputs, std::size_t outputs) {
    rapt_linear_options o = RAPT_LINEAR_OPTIONS_INIT;
    o.x_type = type;
    o.rows = y_rows;
    o.in_features = inputs;
    o.out_features = outputs;
    o.x_strides = x_strides;
    o.w_strides = w_strides;
    std::size_t bytes = 0;
    must(rapt_linear_workspace(&o, &bytes));
    if (workspace_.size() < bytes) workspace_.resize(bytes);
    must(rapt_linear(x, w, y, &o, workspace_.data(), bytes));
  }
  Values linear(const Values &x, std::size_t place) {
    const Place &w = places_[place];
    Values y(rows * w.outputs);
    product(x.data(), {0, 0}, value(place), {0, 0}, y.data(), rows, w.inputs, w.outputs);
    return y;
  }
  // Sets the gradient of the weights, and returns that of x.
  Values linear_backward(const Values &x, std::size_t place, const Values &dy) {
    const Place &w = places_[place];
    const auto inputs = static_cast<std::ptrdiff_t>(w.inputs),
               outputs = static_cast<std::ptrdiff_t>(w.outputs);
    Values dx(rows * w.inputs);
    product(dy.data(), {0, 0}, value(place), {1, inputs}, dx.data(), rows, w.outputs, w.inputs);
    product(dy.data(), {1, outputs}, x.data(), {1, inputs}, gradient(place), w.outputs, rows, w.inputs);
    return dx;
  }

  Values norm(const Values &x, std::size_t place) {
    rapt_norm_options o = RAPT_NORM_OPTIONS_INIT;
    o.type = type;
    o.rows = rows;
    o.cols = hidden;
    o.eps = eps;
    o.weight = value(place);
    Values y(x.size());
    must(rapt_rms_norm(x.data(), y.data(), &o));
    return y;
  }
  Values norm_backward(const Values &x, std::size_t place, const Values &dy) {
    rapt_norm_backward_options o = RAPT_NORM_BACKWARD_OPTIONS_INIT;
    o.type = type;
    o.rows = rows;
    o.cols = hidden;
    o.eps = eps;
    o.weight = value(place);
    o.dweight = gradient(place);
    Values dx(x.size());
    must(rapt_rms_norm_backward(x.data(), dy.data(), dx.data(), &o));
    return dx;
  }

  // Turns the heads of q and k by their positions, or turns their gradients back.
  void rotate(Values &qkv, bool backward) const {
    rapt_rope_options o = RAPT_ROPE_OPTIONS_INIT;
    o.type = type;
    o.batch = sequences;
    o.heads = heads + kv_heads;
    o.tokens = length;
    o.head_dim = head_dim;
    o.x_strides = o.y_strides = strides_of_qkv();
    o.frequencies = frequencies_;
    o.backward = backward;
    must(rapt_rope(qkv.data(), qkv.data(), &o));
  }
  static rapt_strides strides_of_qkv() {
    return {static_cast<std::ptrdiff_t>(length * qkv_width), static_cast<std::ptrdiff_t>(head_dim),
            static_cast<std::ptrdiff_t>(qkv_width)};
  }
  rapt_attention_options attention_options(Values &lse) const {
    rapt_attention_options o = RAPT_ATTENTION_OPTIONS_INIT;
    o.q_type = type;
    o.batch = sequences;
    o.q_heads = heads;
    o.kv_heads = kv_heads;
    o.q_len = o.kv_len = length;
    o.qk_dim = head_dim;
    o.q_strides = o.k_strides = o.v_strides = strides_of_qkv();
    o.out_strides = rapt_strides_bthd(heads, length, head_dim);
    o.causal = RAPT_CAUSAL_BOTTOM_RIGHT;
    o.lse = lse.data();
    return o;
  }
  void attend(Seen &seen) {
    seen.lse.resize(rows * heads);
    seen.attended.resize(rows * q_width);
    const rapt_attention_options o = attention_options(seen.lse);
    std::size_t bytes = 0;
    must(rapt_attention_workspace(&o, &bytes));
    if (workspace_.size() < bytes) workspace_.resize(bytes);
    const T *q = seen.qkv.data();
    must(rapt_attention(q, q + q_width, q + q_width + kv_width, seen.attended.data(), &o, workspace_.data(),
                        bytes));
  }
  Values attend_backward(Seen &seen, const Values &dout) {
    const rapt_attention_options o = attention_options(seen.lse);
    Values dqkv(seen.qkv.size());
    rapt_attention_gradients g = RAPT_ATTENTION_GRADIENTS_INIT;
    g.out = seen.attended.data();
    g.dout = dout.data();
    g.dout_strides = o.out_strides;
    g.dq = dqkv.data();
    g.dk = dqkv.data() + q_width;
    g.dv = dqkv.data() + q_width + kv_width;
    g.dq_strides = g.dk_strides = g.dv_strides = strides_of_qkv();
    std::size_t bytes = 0;
    must(rapt_attention_backward_workspace(&o, &bytes));
    if (workspace_.size() < bytes) workspace_.resize(bytes);
    const T *q = seen.qkv.data();
    must(rapt_attention_backward(q, q + q_width, q + q_width + kv_width, &o, &g, workspace_.data(), bytes));
    return dqkv;
  }

  static rapt_gated_options gated_options() {
    rapt_gated_options o = RAPT_GATED_OPTIONS_INIT;
    o.type = type;
    o.rows = rows;
    o.cols = intermediate;
    o.gate_stride = o.up_stride = 2 * intermediate;
    return o;
  }

  void softmax(Values &log_p, Values &p) const {
    const auto cols = static_cast<std::ptrdiff_t>(vocab);
    if constexpr (std::is_same_v<T, float>) {
      must(rapt_log_softmax_f32(logits_.data(), cols, log_p.data(), cols, rows, vocab, nullptr));
      must(rapt_softmax_f32(logits_.data(), cols, p.data(), cols, rows, vocab, nullptr));
    } else {
      must(rapt_log_softmax_f64(logits_.data(), cols, log_p.data(), cols, rows, vocab, nullptr));
      must(rapt_softmax_f64(logits_.data(), cols, p.data(), cols, rows, vocab, nullptr));
    }
  }

  static void add_to(Values &sum, const Values &term) {
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += term[i];
  }

  void forward(const std::vector<std::size_t> &words) {
    Values x;
    for (const std::size_t word : words) {
      const T *row = value(embedding_) + word * hidden;
      x.insert(x.end(), row, row + hidden);
    }
    seen_.assign(layers, {});
    for (std::size_t i = 0; i < layers; ++i) {
      const Block &block = blocks_[i];
      Seen &seen = seen_[i];
      seen.x = x;
      seen.normed = norm(x, block.attention_norm);
      seen.qkv = linear(seen.normed, block.qkv);
      rotate(seen.qkv, false);
      attend(seen);
      add_to(x, linear(seen.attended, block.o));
      seen.x_of_mlp = x;
      seen.normed_of_mlp = norm(x, block.mlp_norm);
      seen.gate_up = linear(seen.normed_of_mlp, block.gate_up);
      seen.gated.resize(rows * intermediate);
      const rapt_gated_options gated = gated_options();
      must(rapt_gated(seen.gate_up.data(), seen.gate_up.data() + intermediate, seen.gated.data(), &gated));
      add_to(x, linear(seen.gated, block.down));
    }
    last_x_ = x;
    last_normed_ = norm(x, last_norm_);
    logits_ = linear(last_normed_, head_);
  }

  void backward(const std::vector<std::size_t> &words, const Values &dlogits) {
    Values dx = norm_backward(last_x_, last_norm_, linear_backward(last_normed_, head_, dlogits));
    for (std::size_t i = layers; i-- > 0;) {
      const Block &block = blocks_[i];
      Seen &seen = seen_[i];
      const Values dgated = linear_backward(seen.gated, block.down, dx);
      Values dgate_up(seen.gate_up.size());
      const rapt_gated_options gated = gated_options();
      must(rapt_gated_backward(seen.gate_up.data(), seen.gate_up.data() + intermediate, dgated.data(),
                               dgate_up.data(), dgate_up.data() + intermediate, &gated));
      add_to(dx, norm_backward(seen.x_of_mlp, block.mlp_norm,
                               linear_backward(seen.normed_of_mlp, block.gate_up, dgate_up)));
      Values dqkv = attend_backward(seen, linear_backward(seen.attended, block.o, dx));
      rotate(dqkv, true);
      add_to(dx, norm_backward(seen.x, block.attention_norm, linear_backward(seen.normed, block.qkv, dqkv)));
    }
    T *rows_of_words = gradient(embedding_);
    for (std::size_t i = 0; i < vocab * hidden; ++i) rows_of_words[i] = 0;
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t d = 0; d < hidden; ++d) rows_of_words[words[r] * hidden + d] += dx[r * hidden + d];
    }
  }

  Random random_;
  std::vector<Place> places_;
  std::vector<Block> blocks_;
  std::size_t embedding_, last_norm_, head_;
  double frequencies_[head_dim / 2];
  Values first_moment_, second_moment_, last_x_, last_normed_, logits_;
  T power1_ = 1, power2_ = 1;
  std::vector<Seen> seen_;
  std::vector<std::byte> workspace_;
};

}  // namespace rapt::test
