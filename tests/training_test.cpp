// Shows why the scores of attention have a scale. A toy model is trained with each of three scales, using
// only rapt, and the losses have the same bits on every level. RAPT_TRAINING_CURVES=FILE writes the curves
// that tests/training/plot.py draws.
#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "support/bits.hpp"
#include "support/effort.hpp"
#include "support/isa.hpp"
#include "training/recall.hpp"

using namespace rapt::test;

namespace {

using Curve = std::vector<Recall::Step>;

struct Scale {
  const char *name;
  double value;
};
const Scale scales[] = {{"1/sqrt(d_k)", 1 / std::sqrt(static_cast<double>(Recall::d_k))},
                        {"1", 1},
                        {"1/d_k", 1 / static_cast<double>(Recall::d_k)}};
enum ScaleIndex { by_root, by_nothing, by_dimension };

Curve train(const Scale &scale, float learning_rate, std::size_t steps) {
  Recall toy(scale.value, learning_rate);
  Curve curve;
  for (std::size_t i = 0; i < steps; ++i) curve.push_back(toy.step());
  CHECK(!toy.failed());
  return curve;
}

// Returns the number of steps on a level. Scalar code and emulators are slow, so they run only the first
// steps.
std::size_t steps_on(const std::string &isa, std::size_t steps) {
  return emulated() ? 3 : isa == "scalar" ? 20 : steps;
}

// Compares the steps that both curves have, and keeps the longer curve.
void compare(const Curve &curve, Curve &longest) {
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < std::min(curve.size(), longest.size()); ++i) {
    const Recall::Step &a = curve[i], &b = longest[i];
    wrong += !same_bits(a.loss, b.loss) + !same_bits(a.gradient_norm, b.gradient_norm) +
             !same_bits(a.score_gradient, b.score_gradient) + !same_bits(a.largest_weight, b.largest_weight);
  }
  CHECK(wrong == 0);
  if (curve.size() > longest.size()) longest = curve;
}

template <class Number>
double mean_of_last(const Curve &curve, std::size_t count, Number &&number) {
  double sum = 0;
  for (std::size_t i = curve.size() - count; i < curve.size(); ++i) sum += number(curve[i]);
  return sum / static_cast<double>(count);
}
double last_loss(const Curve &curve) {
  return mean_of_last(curve, 50, [](const Recall::Step &step) { return step.loss; });
}
double last_score_gradient(const Curve &curve) {
  return mean_of_last(curve, 50, [](const Recall::Step &step) { return step.score_gradient; });
}

void print(const Scale &scale, const Curve &curve) {
  std::printf(
      "scale %-12s first step: loss %.3f, largest weight %.3f, gradient of scores %.2e, of projections %.2e",
      scale.name, curve[0].loss, curve[0].largest_weight, curve[0].score_gradient, curve[0].gradient_norm);
  if (curve.size() >= 50) {
    std::printf("; last 50 of %zu: loss %.3f, gradient of scores %.2e", curve.size(), last_loss(curve),
                last_score_gradient(curve));
  }
  std::printf("\n");
}

void write_curves(const Curve (&curves)[3]) {
  const char *path = std::getenv("RAPT_TRAINING_CURVES");
  if (!path) return;
  std::FILE *file = std::fopen(path, "w");
  REQUIRE(file);
  std::fprintf(file, "scale,step,loss,gradient_norm,score_gradient,largest_weight\n");
  for (int s = 0; s < 3; ++s) {
    for (std::size_t i = 0; i < curves[s].size(); ++i) {
      const Recall::Step &step = curves[s][i];
      std::fprintf(file, "%s,%zu,%.9g,%.9g,%.9g,%.9g\n", scales[s].name, i, step.loss, step.gradient_norm,
                   step.score_gradient, step.largest_weight);
    }
  }
  std::fclose(file);
}

}  // namespace

TEST_CASE("a head of 512 dimensions learns to recall if its scores are scaled") {
  Curve curves[3];
  for_each_usable_isa([&](const std::string &isa) {
    CAPTURE(isa);
    for (int s = 0; s < 3; ++s) compare(train(scales[s], 1.0f, steps_on(isa, 240)), curves[s]);
  });
  for (int s = 0; s < 3; ++s) print(scales[s], curves[s]);
  write_curves(curves);
  // Scores of variance 512 choose one key at once; small scores choose none.
  CHECK(curves[by_nothing][0].largest_weight > 0.9);
  CHECK(curves[by_root][0].largest_weight < 0.5);
  CHECK(curves[by_dimension][0].largest_weight < 0.15);
  CHECK(curves[by_nothing][0].score_gradient < curves[by_root][0].score_gradient / 2);
  if (curves[0].size() < 240) return;
  CHECK(last_loss(curves[by_root]) < 0.12);
  CHECK(last_loss(curves[by_nothing]) > 1.2);
  CHECK(last_loss(curves[by_dimension]) > 1.2);
  // Without a scale the scores have no gradient left. With a scale that is too small they still have one.
  CHECK(last_score_gradient(curves[by_nothing]) < 0.01 * last_score_gradient(curves[by_dimension]));
}

// A larger step makes up for a scale that is too small. It does not make up for a missing scale, because a
// weight of 1 has no gradient.
TEST_CASE("a larger step") {
  Curve curves[3];
  for_each_usable_isa([&](const std::string &isa) {
    CAPTURE(isa);
    for (int s = 0; s < 3; ++s) compare(train(scales[s], 10.0f, steps_on(isa, 150)), curves[s]);
  });
  for (int s = 0; s < 3; ++s) print(scales[s], curves[s]);
  if (curves[0].size() < 150) return;
  CHECK(last_loss(curves[by_root]) < 0.1);
  CHECK(last_loss(curves[by_dimension]) < 0.1);
  CHECK(last_loss(curves[by_nothing]) > 1.5);
}
