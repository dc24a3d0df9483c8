// The example decoder has one answer: on every level, for every number of threads, batch and chunk, and with
// drafts. The answers are published in validate/short_models.cpp.
#include <doctest/doctest.h>

#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "support/effort.hpp"
#include "support/every_level.hpp"
#include "validate/seeded_model.hpp"
#include "validate/short_models.hpp"

namespace rapt::test {
namespace {

void check(const decoder::ShortModel &model, const decoder::HashedReport &report) {
  CAPTURE(model.name);
  CHECK(decoder::is_published(model, report));
  if (decoder::is_published(model, report)) return;
  std::printf("%s: tokens %#018llx, logits %#018llx\n", model.name,
              static_cast<unsigned long long>(decoder::hash_of_tokens(report.sequences.front())),
              static_cast<unsigned long long>(report.logits.front().value()));
}

// The scalar level takes a hundred times as long, so it has only the first test, unless there is no other level.
void on_fast_levels(const std::function<void()> &body) {
  const bool only_scalar = isas_to_test().size() == 1;
  on_every_level([&] {
    if (only_scalar || rapt_active_isa() != std::string("scalar")) body();
  });
}

// Under an emulator a third of the models stands for all: those with each type of cache, and each arithmetic.
std::vector<decoder::ShortModel> some_models() {
  std::vector<decoder::ShortModel> some;
  for (std::size_t i = 0; i < decoder::short_models().size(); ++i) {
    if (!emulated() || i % 4 == 0) some.push_back(decoder::short_models()[i]);
  }
  return some;
}

TEST_CASE("every level has the published answers") {
  on_every_level([] {
    for (const decoder::ShortModel &model : decoder::short_models())
      check(model, decoder::decode_short(model, decoder::short_plan()));
  });
}

TEST_CASE("chunks of the prompt change nothing") {
  on_fast_levels([] {
    for (const decoder::ShortModel &model : some_models()) {
      for (const std::size_t chunk : {std::size_t{1}, std::size_t{7}}) {
        if (emulated() && chunk == 1) continue;  // decoding feeds single tokens as well
        decoder::Plan plan = decoder::short_plan();
        plan.chunk = chunk;
        CAPTURE(chunk);
        check(model, decoder::decode_short(model, plan));
      }
    }
  });
}

TEST_CASE("threads change nothing") {
  on_fast_levels([] {
    for (const decoder::ShortModel &model : some_models()) {
      for (const std::size_t threads : {std::size_t{2}, std::size_t{3}, std::size_t{16}}) {
        if (emulated() && threads != 3) continue;
        decoder::Plan plan = decoder::short_plan();
        plan.chunk = 13;
        CAPTURE(threads);
        check(model, decoder::decode_short(model, plan, threads));
      }
    }
  });
}

TEST_CASE("other sequences in the batch change nothing") {
  on_fast_levels([] {
    for (const decoder::ShortModel &model : some_models()) {
      decoder::Plan plan = decoder::short_plan();
      plan.chunk = 9;  // some sequences decode while others still read their prompts
      const decoder::HashedReport together = decoder::decode_short(model, plan, 2, 8);
      check(model, together);
      if (emulated()) continue;
      // The others are as they are in another batch, too.
      plan.chunk = 0;
      const decoder::HashedReport fewer = decoder::decode_short(model, plan, 1, 4);
      for (std::size_t i = 0; i < fewer.sequences.size(); ++i) {
        CAPTURE(i);
        CHECK(fewer.sequences[i].tokens == together.sequences[i].tokens);
        CHECK(fewer.logits[i].value() == together.logits[i].value());
      }
    }
  });
}

TEST_CASE("speculative decoding has greedy decoding's tokens and logits") {
  std::size_t accepted = 0, rejected = 0;
  on_fast_levels([&] {
    for (const decoder::ShortModel &model : some_models()) {
      for (const std::size_t drafts : {std::size_t{1}, std::size_t{4}, std::size_t{40}}) {
        if (emulated() && drafts != 4) continue;
        decoder::Plan plan = decoder::short_plan();
        plan.drafts = drafts;
        CAPTURE(drafts);
        const decoder::HashedReport report = decoder::decode_short(model, plan);
        check(model, report);
        accepted += report.sequences.front().accepted_drafts;
        rejected += report.sequences.front().rejected_drafts;
      }
    }
  });
  // Otherwise the test would say nothing.
  CHECK(accepted > 0);
  CHECK(rejected > 0);
}

decoder::Model model_of_64_positions() {
  const char *const config = R"({"model_type": "llama", "hidden_size": 8, "num_hidden_layers": 1,
    "num_attention_heads": 2, "intermediate_size": 8, "vocab_size": 9, "max_position_embeddings": 64})";
  return {*decoder::seeded_checkpoint(decoder::parse_config(config, {}), 1), decoder::Settings()};
}

TEST_CASE("numbers of a plan cannot wrap around") {
  const std::size_t largest = static_cast<std::size_t>(-1);
  decoder::Model model = model_of_64_positions();
  const auto decode = [&](const decoder::Plan &plan) {
    return decoder::generate_hashed(model, {{1, 2, 3}, {4}}, plan);
  };
  const decoder::HashedReport wanted = decode({.new_tokens = 64});
  for (const std::size_t new_tokens :
       {largest, largest - 2, largest - 3, largest - 63, std::size_t{1} << 63}) {
    for (const std::size_t others : {std::size_t{0}, largest}) {
      const decoder::HashedReport found = decode({new_tokens, others, others});
      for (std::size_t i = 0; i < 2; ++i) {
        CHECK(found.sequences[i].tokens.size() == 64);
        CHECK(found.sequences[i].tokens == wanted.sequences[i].tokens);
        CHECK(found.logits[i].value() == wanted.logits[i].value());
      }
    }
  }
}

TEST_CASE("a step of more tokens than 32 bits count is refused") {
  decoder::Model model = model_of_64_positions();
  decoder::Cache cache(model.config(), RAPT_F32, 1, 64);
  const std::vector<std::uint32_t> tokens((std::size_t{1} << 24) + 1);
  const decoder::Feed feed{0, tokens, 1};
  std::vector<float> logits;
  CHECK_THROWS_AS(model.forward({&feed, 1}, cache, logits), decoder::Refused);
}

TEST_CASE("a cache that no memory holds is refused") {
  decoder::Config config;
  config.layers = 1;
  config.kv_heads = config.head_dim = 4096;
  // 2^64 bytes of keys in f32: the product of the sizes is 0.
  CHECK_THROWS_AS(decoder::Cache(config, RAPT_F32, std::size_t{1} << 14, std::size_t{1} << 24),
                  std::bad_alloc);
}

}  // namespace
}  // namespace rapt::test
