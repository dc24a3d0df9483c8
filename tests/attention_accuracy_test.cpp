// Attention's accuracy, as rapt.h states it, against the truth in long double. The scalar level alone is
// measured, as all levels give its bits; what its errors are made of is printed.
#include "support/attention_accuracy.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdio>
#include <limits>
#include <string>
#include <vector>

#include "oracle/attention.hpp"
#include "support/effort.hpp"
#include "support/isa.hpp"
#include "support/public_api.hpp"
#include "support/random.hpp"

using namespace rapt::test;

namespace {

template <class T>
constexpr bool measurable = std::numeric_limits<long double>::digits >= std::numeric_limits<T>::digits + 10;

template <class T>
struct Results {
  std::vector<T> out, lse;
};

template <class T>
Results<T> run(const oracle::Attention<T> &a) {
  Results<T> results{std::vector<T>(a.batch * a.q_heads * a.q_len * a.v_dim), {}};
  results.lse.resize(a.batch * a.q_heads * a.q_len);
  rapt_attention_options o = attention_options<T>();
  o.batch = a.batch;
  o.q_heads = a.q_heads;
  o.kv_heads = a.kv_heads;
  o.q_len = a.q_len;
  o.kv_len = a.kv_len;
  o.qk_dim = a.qk_dim;
  o.v_dim = a.v_dim;
  o.scale = a.scale;
  o.softcap = a.softcap;
  if (!a.alibi_slopes.empty()) o.alibi_slopes = a.alibi_slopes.data();
  if (!a.sinks.empty()) o.sinks = a.sinks.data();
  if (!a.bias.empty()) {
    const auto tokens = static_cast<std::ptrdiff_t>(a.q_len), keys = static_cast<std::ptrdiff_t>(a.kv_len);
    o.bias = a.bias.data();
    o.bias_strides = {static_cast<std::ptrdiff_t>(a.q_heads) * tokens * keys, tokens * keys, keys};
  }
  if (a.causal == oracle::Causal::bottom_right) o.causal = RAPT_CAUSAL_BOTTOM_RIGHT;
  o.lse = results.lse.data();
  std::size_t bytes = 0;
  REQUIRE(rapt_attention_workspace(&o, &bytes) == RAPT_OK);
  std::vector<unsigned char> workspace(bytes);
  REQUIRE(rapt_attention(a.q.data(), a.k.data(), a.v.data(), results.out.data(), &o, workspace.data(),
                         bytes) == RAPT_OK);
  return results;
}

// The worst of many queries, in shares of their bounds.
struct Worst {
  AttentionErrors share, units;
  std::size_t queries = 0;
};

template <class T>
void measure(const oracle::Attention<T> &a, Worst &worst, bool any_terms = false) {
  const Results<T> results = run(a);
  for (std::size_t b = 0; b < a.batch; ++b) {
    for (std::size_t h = 0; h < a.q_heads; ++h) {
      for (std::size_t i = 0; i < a.q_len; ++i) {
        const std::size_t row = a.row({}, b, h, i);
        const oracle::AttentionTruth truth = oracle::attention_truth(a, b, h, i);
        if (!truth.is_finite || truth.is_empty) continue;
        const AttentionErrors errors =
            attention_errors<T>(truth, {results.out.data() + row * a.v_dim, a.v_dim}, results.lse[row]);
        const AttentionErrors bounds = any_terms ? attention_worst_bounds(a.qk_dim, a.keys(b), truth)
                                                 : attention_bounds(a.qk_dim, truth);
        worst.queries += 1;
        worst.units.out = std::max(worst.units.out, errors.out);
        worst.units.lse = std::max(worst.units.lse, errors.lse);
        worst.share.out = std::max(worst.share.out, errors.out / bounds.out);
        worst.share.lse = std::max(worst.share.lse, errors.lse / bounds.lse);
      }
    }
  }
}

template <class T, class Draw>
std::vector<T> draw(std::size_t count, Draw &&one) {
  std::vector<T> values(count);
  for (T &value : values) value = static_cast<T>(one());
  return values;
}

template <class T>
void judge(const std::string &what, const Worst &worst) {
  std::printf("%s %-44s %6zu queries: out %8.3g units, %5.2f of its bound; lse %8.3g units, %5.2f\n",
              Api<T>::element, what.c_str(), worst.queries, worst.units.out, worst.share.out, worst.units.lse,
              worst.share.lse);
  CHECK(worst.queries > 0);
  CHECK(worst.share.out <= 1);
  CHECK(worst.share.lse <= 1);
}

template <class T>
oracle::Attention<T> make(std::size_t queries, std::size_t keys, std::size_t qk_dim, std::size_t v_dim) {
  oracle::Attention<T> a;
  a.q_len = queries;
  a.kv_len = keys;
  a.qk_dim = qk_dim;
  a.v_dim = v_dim;
  return a;
}

}  // namespace

TEST_CASE_TEMPLATE("ordinary attention", T, float, double) {
  if (!measurable<T>) return;
  const ForcedIsa forced("scalar");
  for (const std::size_t dim : Sizes{1, 8, 64, 128, 576}) {
    Worst worst;
    for (const std::size_t keys : Sizes{1, 5, 64, 300, 512, 1300, 5000}) {
      if (emulated() && keys > 300) continue;
      for (const double sigma : {0.1, 1.0, 3.0}) {
        Random random(keys + dim);
        oracle::Attention<T> a = make<T>(keys < 1000 ? 6 : 2, keys, dim, 16);
        a.q = draw<T>(a.q_len * dim, [&] { return sigma * random.gaussian(); });
        a.k = draw<T>(keys * dim, [&] { return sigma * random.gaussian(); });
        a.v = draw<T>(keys * 16, [&] { return random.gaussian(); });
        measure(a, worst);
        a.v = draw<T>(keys * 16, [&] { return 1 + random.uniform(); });  // nothing cancels
        measure(a, worst);
        a.q = draw<T>(a.q_len * dim, [&] { return 1e-3 * sigma * random.gaussian(); });  // equal weights
        measure(a, worst);
      }
    }
    judge<T>("qk_dim " + std::to_string(dim), worst);
  }
}

TEST_CASE_TEMPLATE("options that scores are made of", T, float, double) {
  if (!measurable<T>) return;
  const ForcedIsa forced("scalar");
  for (int kind = 0; kind < 6; ++kind) {
    Worst worst;
    for (const std::size_t keys : Sizes{7, 64, 700}) {
      Random random(keys);
      oracle::Attention<T> a = make<T>(8, keys, 24, 8);
      a.q_heads = a.kv_heads = 2;
      a.q = draw<T>(2 * a.q_len * 24, [&] { return random.gaussian(); });
      a.k = draw<T>(2 * keys * 24, [&] { return random.gaussian(); });
      a.v = draw<T>(2 * keys * 8, [&] { return random.gaussian(); });
      if (kind == 0) a.softcap = 30;
      if (kind == 1) a.bias = draw<T>(2 * 8 * keys, [&] { return 5 * random.gaussian(); });
      if (kind == 2) a.alibi_slopes = {T(0.25), T(0.003)}, a.causal = oracle::Causal::bottom_right;
      if (kind == 3) a.sinks = {T(1), T(-2)};
      if (kind == 4) a.scale = -2;
      if (kind == 5) a.softcap = 2, a.scale = 3;
      measure(a, worst);
    }
    constexpr const char *names[] = {"softcap", "bias", "alibi", "sinks", "scale", "softcap of large scores"};
    judge<T>(names[kind], worst);
  }
}

// Equal weights and values whose sums round the same way over and over.
TEST_CASE_TEMPLATE("sums that are made for the worst", T, float, double) {
  if (!measurable<T>) return;
  const ForcedIsa forced("scalar");
  Worst equal, growing, one_large;
  for (const std::size_t keys : Sizes{64, 500, 512, 1024, 5000, 20000}) {
    if (emulated() && keys > 512) continue;
    oracle::Attention<T> a = make<T>(1, keys, 1, 40);
    a.q = {T(0)};
    a.k.assign(keys, T(1));
    Random random(keys);
    const std::vector<T> column = draw<T>(40, [&] { return 1 + random.uniform(); });
    for (std::size_t j = 0; j < keys; ++j) a.v.insert(a.v.end(), column.begin(), column.end());
    measure(a, equal, true);
    // A first key that outweighs the others, each of which is just below half a unit of its value.
    oracle::Attention<T> large = a;
    large.q = {T(1)};
    const double gap = std::log(0.99 * (std::numeric_limits<T>::epsilon() / 2));
    for (std::size_t j = 1; j < keys; ++j) large.k[j] = static_cast<T>(gap);
    large.k[0] = 0;
    for (T &value : large.v) value = T(1);
    measure(large, one_large, true);
    // Every block has a larger maximum.
    for (std::size_t j = 0; j < keys; ++j) a.k[j] = static_cast<T>(j) / static_cast<T>(keys);
    a.q = {T(8)};
    measure(a, growing, true);
  }
  judge<T>("equal weights and values", equal);
  judge<T>("growing scores", growing);
  judge<T>("one large weight before small ones", one_large);
}
