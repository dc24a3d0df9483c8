// Shows why attention divides its scores by sqrt(d_k). Measures how three scales change scores, weights and
// gradients as d_k grows.
//
// Prints a table, whose bits are the same on every CPU: why_sqrt_dk.csv. why_sqrt_dk.py draws it. The exit
// status is 1 if the numbers do not agree with the theory.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <rapt/rapt.hpp>
#include <string>

#include "random.hpp"

namespace {

constexpr std::size_t queries = 256, keys = 64, v_dim = 16;

// Holds the expected variance (`theory`), three means, and two medians over the queries. score_gradient is
// the norm of a query's dscores, and query_gradient is the norm of its dq divided by sqrt(d_k).
struct Row {
  double score_variance, theory, largest_weight, entropy, score_gradient, query_gradient;
};

void check(rapt_status status) {
  if (status == RAPT_OK) return;
  std::fprintf(stderr, "%s\n", rapt_status_text(status));
  std::exit(2);
}

// rapt computes the sums, because a compiler may fuse the operations of a loop and round differently.
double norm(std::span<const float> x) { return std::sqrt(double(rapt::dot(x, x))); }

// Returns the median norm of the rows. Two keys compete in only a few rows. These rows would dominate a mean
// and hide that all other rows have no gradient.
double median_norm(const std::vector<float> &x) {
  const std::size_t cols = x.size() / queries;
  std::vector<double> norms(queries);
  for (std::size_t i = 0; i < queries; ++i) norms[i] = norm(std::span(x).subspan(i * cols, cols));
  std::nth_element(norms.begin(), norms.begin() + queries / 2, norms.end());
  return norms[queries / 2];
}

Row measure(std::size_t d_k, double scale, float sigma) {
  std::vector<float> q = random_numbers(queries * d_k, 1), k = random_numbers(keys * d_k, 2);
  rapt::scale(q, sigma, q);
  rapt::scale(k, sigma, k);
  const std::vector<float> v = random_numbers(keys * v_dim, 3), dout = random_numbers(queries * v_dim, 4);

  std::vector<float> scores(queries * keys), weights(scores.size()), logs(scores.size());
  for (std::size_t i = 0; i < queries; ++i) {
    rapt::dot_rows(std::span(q).subspan(i * d_k, d_k), rapt::Rows<const float>(k, d_k), float(scale),
                   std::span(scores).subspan(i * keys, keys));
  }
  check(rapt::softmax<float>({scores, keys}, {weights, keys}));
  check(rapt::log_softmax<float>({scores, keys}, {logs, keys}));

  Row row{};
  row.score_variance = double(rapt::dot(scores, scores)) / double(scores.size());
  row.theory = scale * scale * double(d_k) * double(sigma * sigma * sigma * sigma);
  for (std::size_t i = 0; i < queries; ++i) {
    const std::span<const float> w = std::span(weights).subspan(i * keys, keys);
    row.largest_weight += double(*std::max_element(w.begin(), w.end())) / queries;
  }
  row.entropy = -double(rapt::dot(weights, logs)) / queries;

  // Computes the gradient of the scores. The weight of a key has the gradient dout . v.
  std::vector<float> dweights(scores.size()), dscores(scores.size());
  for (std::size_t i = 0; i < queries; ++i) {
    rapt::dot_rows(std::span(dout).subspan(i * v_dim, v_dim), rapt::Rows<const float>(v, v_dim), 1,
                   std::span(dweights).subspan(i * keys, keys));
  }
  check(rapt::softmax_backward<float>({weights, keys}, {dweights, keys}, {dscores, keys}));
  row.score_gradient = median_norm(dscores);

  // Computes the gradient of q using attention_backward.
  rapt_attention_options options = rapt::attention_options();
  options.q_len = queries;
  options.kv_len = keys;
  options.qk_dim = d_k;
  options.v_dim = v_dim;
  options.scale = scale;
  std::vector<float> out(queries * v_dim), lse(queries), dq(q.size()), dk(k.size()), dv(v.size());
  options.lse = lse.data();
  rapt_attention_gradients gradients = rapt::attention_gradients();
  gradients.out = out.data();
  gradients.dout = dout.data();
  gradients.dq = dq.data();
  gradients.dk = dk.data();
  gradients.dv = dv.data();
  std::vector<std::byte> workspace(rapt::attention_workspace<float>(options));
  check(rapt::attention(q, k, v, out, options, workspace));
  workspace.resize(rapt::attention_backward_workspace<float>(options));
  check(rapt::attention_backward(q, k, v, options, gradients, workspace));
  row.query_gradient = median_norm(dq) / std::sqrt(double(d_k));
  return row;
}

int wrong = 0;
void expect(bool holds, const char *what, std::size_t d_k) {
  if (holds) return;
  std::fprintf(stderr, "d_k = %zu: %s does not hold\n", d_k, what);
  wrong = 1;
}
bool about(double a, double b, double tolerance) { return std::fabs(a - b) <= tolerance * std::fabs(b); }

}  // namespace

int main() {
  std::printf("sigma,scale,d_k,score_variance,theory,largest_weight,entropy,score_gradient,query_gradient\n");
  for (const float sigma : {1.0F, 2.0F}) {
    for (std::size_t d_k = 4; d_k <= 4096; d_k *= 2) {
      const double root = std::sqrt(double(d_k));
      const struct {
        const char *name;
        double value;
      } scales[] = {{"1", 1}, {"1/sqrt(d_k)", 1 / root}, {"1/d_k", 1 / double(d_k)}};
      Row rows[3];
      for (int s = 0; s < 3; ++s) {
        const Row &row = rows[s] = measure(d_k, scales[s].value, sigma);
        std::printf("%g,%s,%zu,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g\n", double(sigma), scales[s].name, d_k,
                    row.score_variance, row.theory, row.largest_weight, row.entropy, row.score_gradient,
                    row.query_gradient);
        expect(about(row.score_variance, row.theory, 0.25), "variance = scale^2 * d_k * sigma^4", d_k);
        // dq is scale * the sum of keys weighted with dscores. The keys and dscores are nearly independent.
        const double per_element = scales[s].value * double(sigma) * row.score_gradient;
        expect(about(row.query_gradient, per_element, 0.3), "dq = scale * sigma * |dscores|", d_k);
      }
      const double uniform = std::log(double(keys));
      if (d_k >= 256) {
        expect(rows[0].largest_weight > 0.9, "without a scale one key has all weight", d_k);
        expect(rows[0].score_gradient < rows[1].score_gradient / 10, "and the gradient vanishes", d_k);
        expect(rows[2].entropy > 0.95 * uniform, "with 1/d_k attention is uniform", d_k);
        expect(rows[2].score_gradient > rows[1].score_gradient / 4, "but the scores have a gradient", d_k);
      }
    }
  }
  return wrong;
}
