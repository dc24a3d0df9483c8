// Defines a toy model that learns to recall. A sequence has pairs of a key token and a value. A question is a
// key token of the sequence, and its answer is the value next to that token. One attention layer has one head
// of 512 dimensions. Queries and keys are learned projections of learned embeddings, and values are learned
// logits. The loss is cross-entropy, and the optimiser is plain gradient descent. All arithmetic is in rapt
// or written out here in a fixed order, so that every level gives the same bits.
#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

#include "rapt/rapt.h"
#include "support/random.hpp"

namespace rapt::test {

class Recall {
 public:
  static constexpr std::size_t d_k = 512, embedding = 16, tokens = 16, answers = 8, sequences = 16, pairs = 8,
                               questions = 4;

  // Holds measurements of a step, before its update.
  struct Step {
    double loss = 0;            // mean cross-entropy, in nats
    double gradient_norm = 0;   // of the projections of queries and keys
    double score_gradient = 0;  // the norm of the gradient of the softmax's arguments
    double largest_weight = 0;  // mean over the questions
  };

  Recall(double scale, float learning_rate, std::uint64_t seed = 2017)
      : scale_(scale), rate_(learning_rate), random_(seed) {
    const auto draw = [&](Values &values, std::size_t count, double sigma) {
      values.resize(count);
      for (float &value : values) value = static_cast<float>(sigma * random_.gaussian());
    };
    draw(x_, tokens * embedding, 1);
    // This gives the elements of queries and keys variance 1.
    draw(wq_, d_k * embedding, 1 / std::sqrt(static_cast<double>(embedding)));
    draw(wk_, d_k * embedding, 1 / std::sqrt(static_cast<double>(embedding)));
    draw(u_, answers * answers, 1);
  }

  Step step() {
    draw_sequences();
    const Values q_table = rows_times_rows(x_, tokens, wq_, d_k, embedding);
    const Values k_table = rows_times_rows(x_, tokens, wk_, d_k, embedding);
    const Values q = gather(q_table, asked_, d_k), k = gather(k_table, key_, d_k),
                 v = gather(u_, value_, answers);
    rapt_attention_options o = RAPT_ATTENTION_OPTIONS_INIT;
    o.batch = sequences;
    o.q_len = questions;
    o.kv_len = pairs;
    o.qk_dim = d_k;
    o.v_dim = answers;
    o.scale = scale_;
    constexpr std::size_t rows = sequences * questions;
    Values logits(rows * answers), lse(rows);
    o.lse = lse.data();
    attention(o, q, k, v, logits);

    Step seen;
    Values log_p(rows * answers), dlogits(rows * answers);
    must(rapt_log_softmax_f32(logits.data(), answers, log_p.data(), answers, rows, answers, nullptr));
    rapt_exp_f32(log_p.data(), dlogits.data(), dlogits.size());
    for (std::size_t r = 0; r < rows; ++r) {
      seen.loss -= double{log_p[r * answers + answer_[r]]} / rows;
      dlogits[r * answers + answer_[r]] -= 1;
    }
    rapt_scale_f32(dlogits.data(), 1.0f / rows, dlogits.data(), dlogits.size());

    Values dq(q.size()), dk(k.size()), dv(v.size());
    // A bias of 0 changes no score, and its gradient is the gradient of the scores.
    Values bias(rows * pairs, 0.0f), dbias(rows * pairs);
    o.bias = bias.data();
    rapt_attention_gradients g = RAPT_ATTENTION_GRADIENTS_INIT;
    g.out = logits.data();
    g.dout = dlogits.data();
    g.dq = dq.data();
    g.dk = dk.data();
    g.dv = dv.data();
    g.dbias = dbias.data();
    std::size_t bytes = 0;
    must(rapt_attention_backward_workspace(&o, &bytes));
    workspace_.resize(bytes);
    must(rapt_attention_backward(q.data(), k.data(), v.data(), &o, &g, workspace_.data(), bytes));
    o.bias = nullptr;
    seen.score_gradient = norm(dbias);
    seen.largest_weight = largest_weight(o, q, k);

    const Values dq_table = scatter(dq, asked_, tokens, d_k), dk_table = scatter(dk, key_, tokens, d_k);
    const Values du = scatter(dv, value_, answers, answers);
    // The gradients of the projections are dW = dQ^T X and dX = dQ W.
    const Values x_across = across(x_, tokens, embedding);
    const Values dwq = rows_times_rows(across(dq_table, tokens, d_k), d_k, x_across, embedding, tokens);
    const Values dwk = rows_times_rows(across(dk_table, tokens, d_k), d_k, x_across, embedding, tokens);
    const Values dx_of_q = rows_times_rows(dq_table, tokens, across(wq_, d_k, embedding), embedding, d_k);
    const Values dx_of_k = rows_times_rows(dk_table, tokens, across(wk_, d_k, embedding), embedding, d_k);
    seen.gradient_norm = std::sqrt(norm(dwq) * norm(dwq) + norm(dwk) * norm(dwk));
    descend(wq_, dwq);
    descend(wk_, dwk);
    descend(x_, dx_of_q);
    descend(x_, dx_of_k);
    descend(u_, du);
    return seen;
  }

  bool failed() const { return failed_; }

 private:
  using Values = std::vector<float>;
  using Indices = std::vector<std::size_t>;

  void must(rapt_status status) { failed_ = failed_ || status != RAPT_OK; }

  // Draws sequences whose key tokens differ; values may be equal.
  void draw_sequences() {
    key_.clear(), value_.clear(), asked_.clear(), answer_.clear();
    for (std::size_t s = 0; s < sequences; ++s) {
      std::size_t order[tokens];
      for (std::size_t t = 0; t < tokens; ++t) order[t] = t;
      for (std::size_t j = 0; j < pairs; ++j) {
        std::swap(order[j], order[j + random_.below(tokens - j)]);
        key_.push_back(order[j]);
        value_.push_back(random_.below(answers));
      }
      for (std::size_t i = 0; i < questions; ++i) {
        const std::size_t j = s * pairs + random_.below(pairs);
        asked_.push_back(key_[j]);
        answer_.push_back(value_[j]);
      }
    }
  }

  // Returns the dot product of each row of a with each row of b as [a_rows][b_rows]. Rows have `inner`
  // elements.
  static Values rows_times_rows(const Values &a, std::size_t a_rows, const Values &b, std::size_t b_rows,
                                std::size_t inner) {
    Values made(a_rows * b_rows);
    for (std::size_t r = 0; r < a_rows; ++r) {
      rapt_dot_rows_f32(a.data() + r * inner, b.data(), static_cast<std::ptrdiff_t>(inner), b_rows, inner, 1,
                        made.data() + r * b_rows);
    }
    return made;
  }
  static Values across(const Values &a, std::size_t rows, std::size_t cols) {
    Values made(a.size());
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t c = 0; c < cols; ++c) made[c * rows + r] = a[r * cols + c];
    }
    return made;
  }
  static Values gather(const Values &table, const Indices &indices, std::size_t row) {
    Values made;
    for (const std::size_t index : indices) {
      for (std::size_t d = 0; d < row; ++d) made.push_back(table[index * row + d]);
    }
    return made;
  }
  static Values scatter(const Values &rows, const Indices &indices, std::size_t count, std::size_t row) {
    Values made(count * row);
    for (std::size_t i = 0; i < indices.size(); ++i) {
      for (std::size_t d = 0; d < row; ++d) made[indices[i] * row + d] += rows[i * row + d];
    }
    return made;
  }
  static double norm(const Values &values) {
    double sum = 0;
    for (const float value : values) sum += double{value} * double{value};
    return std::sqrt(sum);
  }
  void descend(Values &parameters, const Values &gradient) const {
    for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i] -= rate_ * gradient[i];
  }

  void attention(const rapt_attention_options &o, const Values &q, const Values &k, const Values &v,
                 Values &out) {
    std::size_t bytes = 0;
    must(rapt_attention_workspace(&o, &bytes));
    workspace_.resize(bytes);
    must(rapt_attention(q.data(), k.data(), v.data(), out.data(), &o, workspace_.data(), bytes));
  }

  // Uses the unit vectors as values, because the output of attention is then its weights.
  double largest_weight(rapt_attention_options o, const Values &q, const Values &k) {
    Values units(sequences * pairs * pairs), weights(sequences * questions * pairs);
    for (std::size_t j = 0; j < sequences * pairs; ++j) units[j * pairs + j % pairs] = 1;
    o.v_dim = pairs;
    o.lse = nullptr;
    attention(o, q, k, units, weights);
    double sum = 0;
    for (std::size_t r = 0; r < sequences * questions; ++r) {
      float most = 0;
      for (std::size_t j = 0; j < pairs; ++j) most = std::fmax(most, weights[r * pairs + j]);
      sum += double{most};
    }
    return sum / (sequences * questions);
  }

  double scale_;
  float rate_;
  Random random_;
  Values x_, wq_, wk_, u_;
  Indices key_, value_, asked_, answer_;
  std::vector<unsigned char> workspace_;
  bool failed_ = false;
};

}  // namespace rapt::test
