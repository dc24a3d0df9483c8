// Trains a small language model, whose functions and gradients are all rapt's. Every level gives the same losses and
// the same model. The gradients are those of the loss, by differences in double.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include "support/bits.hpp"
#include "support/effort.hpp"
#include "support/every_level.hpp"
#include "training/language.hpp"

namespace rapt::test {
namespace {

using Words = std::vector<std::size_t>;

// Fills [sequences][length] with text, and the words that follow each.
template <class Model>
void draw(Grammar &grammar, Words &words, Words &next) {
  words.clear();
  next.clear();
  std::size_t word = grammar.next();
  for (std::size_t i = 0; i < Model::rows; ++i) {
    words.push_back(word);
    next.push_back(word = grammar.next());
  }
}

TEST_CASE("gradients of the whole model are slopes of its loss") {
  using Model = LanguageModel<double>;
  Model model(3);
  Grammar grammar(4);
  Words words, next;
  draw<Model>(grammar, words, next);
  model.loss_and_gradients(words, next);
  const std::vector<double> gradients = model.gradients;
  Random random(5);
  double largest = 0;
  for (const Model::Place &place : model.places()) {
    CAPTURE(place.name);
    for (int i = 0; i < native_or_emulated(12, 1); ++i) {
      const std::size_t at = place.first + random.below(place.size());
      const double step = 1e-5, kept = model.parameters[at];
      model.parameters[at] = kept + step;
      const double above = model.loss_and_gradients(words, next);
      model.parameters[at] = kept - step;
      const double below = model.loss_and_gradients(words, next);
      model.parameters[at] = kept;
      const double slope = (above - below) / (2 * step);
      CHECK(gradients[at] == doctest::Approx(slope).epsilon(1e-6).scale(1e-3));
      largest = std::max(largest, std::abs(slope));
    }
  }
  CHECK(largest > 0.01);
}

struct Training {
  std::vector<float> losses, parameters;
};

Training train(LanguageModel<float> &model, std::size_t steps) {
  Grammar grammar(1);
  Training training;
  Words words, next;
  for (std::size_t i = 0; i < steps; ++i) {
    draw<LanguageModel<float>>(grammar, words, next);
    training.losses.push_back(model.loss_and_gradients(words, next));
    model.update(0.005f);
  }
  training.parameters = model.parameters;
  return training;
}

// Returns the share of new sentences with two nouns of different number whose verb has the number of the
// first noun.
double share_of_right_verbs(LanguageModel<float> &model) {
  using Model = LanguageModel<float>;
  Grammar grammar(9);
  std::size_t right = 0, all = 0;
  while (all < 200) {
    Words words(Model::rows, Grammar::stop);
    std::vector<std::size_t> nouns;
    for (std::size_t s = 0; s < Model::sequences; ++s) {
      Words sentence = grammar.sentence(true);
      while (Grammar::number(sentence[1]) == Grammar::number(sentence[4])) sentence = grammar.sentence(true);
      words[s * Model::length] = Grammar::stop;
      std::copy_n(sentence.begin(), 5, words.begin() + static_cast<std::ptrdiff_t>(s * Model::length + 1));
      nouns.push_back(sentence[1]);
    }
    const std::vector<float> &logits = model.logits(words);
    for (std::size_t s = 0; s < Model::sequences; ++s, ++all) {
      const std::size_t word = rapt_argmax_f32(&logits[(s * Model::length + 5) * Model::vocab], Model::vocab);
      right += Grammar::is_verb(word) && Grammar::number(word) == Grammar::number(nouns[s]);
    }
  }
  return static_cast<double>(right) / static_cast<double>(all);
}

TEST_CASE("a language model learns its grammar, with the same bits on every level") {
  constexpr std::size_t steps = 400;
  Training longest;
  on_every_level([&] {
    const bool fast = !emulated() && rapt_active_isa() != std::string("scalar");
    LanguageModel<float> model(2);
    const Training training = train(model, fast ? steps : native_or_emulated<std::size_t>(12, 2));
    for (std::size_t i = 0; i < std::min(training.losses.size(), longest.losses.size()); ++i) {
      CAPTURE(i);
      CHECK(same_bits(training.losses[i], longest.losses[i]));
    }
    const bool as_long = training.losses.size() == longest.losses.size();
    if (as_long) CHECK(training.parameters == longest.parameters);
    if (training.losses.size() > longest.losses.size()) longest = training;
    if (!fast || as_long) return;

    double last = 0;
    for (std::size_t i = steps - 50; i < steps; ++i) last += double{training.losses[i]} / 50;
    const double share = share_of_right_verbs(model);
    std::printf("loss: first %.3f, last %.3f; entropy of the grammar %.3f; right verbs %.3f\n",
                double{training.losses[0]}, last, Grammar::entropy(), share);
    CHECK(double{training.losses[0]} > std::log(static_cast<double>(Grammar::words)));
    CHECK(last < Grammar::entropy() + Grammar::worth_of_first_noun() / 2);
    CHECK(share > 0.95);
  });
}

}  // namespace
}  // namespace rapt::test
