// Runs a Llama, Mistral or Qwen model: one answer on every CPU, number of threads, batch and chunk.
//
//   decoder                                   a small model, made from a seed
//   decoder FOLDER --tokens 1,2,3             config.json and safetensors, as Hugging Face has them
//   decoder stories15M.bin --tokenizer tokenizer.bin --prompt "Once upon a time"
//
// It prints tokens, speed, and two hashes: of all tokens, and of all logits that were computed for them. They
// depend on the model and on --weights, --arithmetic and --cache. They do not depend on anything else.
//
// decoder/ has its parts: config (what a model is), safetensors and llama2c (where weights come from), model (the
// forward pass), generate (greedy decoding, batches, drafts) and tokenizer. Models from a seed, and hashes, are those
// of rapt-validate.
#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <memory>
#include <rapt/parallel.hpp>
#include <sstream>

#include "examples/decoder/files.hpp"
#include "examples/decoder/generate.hpp"
#include "examples/decoder/tokenizer.hpp"
#include "validate/decoder_hash.hpp"
#include "validate/seeded_model.hpp"

namespace {

using namespace decoder;

struct Arguments {
  std::string checkpoint, config, tokenizer, isa, dump, cache = "f32", weights = "stored", arithmetic = "f32";
  std::vector<std::string> tokens, prompts, ignored_keys;
  std::uint64_t seed = 1;
  std::size_t prompt_length = 0;
  std::size_t threads = 1;
  Plan plan;
};

// CLI11 takes -1 for the largest number, and some of its versions take 010 for 8.
template <class Number>
void add_number(CLI::App &app, const std::string &name, Number &to, std::uint64_t least, std::uint64_t most,
                const std::string &text) {
  const std::string range = std::to_string(least) + " to " + std::to_string(most);
  const auto read = [name, range, least, most, &to](const std::string &value) {
    std::uint64_t number = 0;
    const char *const end = value.data() + value.size();
    const auto [rest, error] = std::from_chars(value.data(), end, number);
    if (error != std::errc() || rest != end || number < least || number > most) {
      throw CLI::ValidationError(name, "must be an integer, " + range);
    }
    to = static_cast<Number>(number);
  };
  app.add_option_function<std::string>(name, read, text)->type_name(range)->default_str(std::to_string(to));
}

void parse(CLI::App &app, Arguments &a, int argc, char **argv) {
  app.add_option("checkpoint", a.checkpoint, "a folder with config.json and safetensors, or llama2.c's .bin");
  add_number(app, "--seed", a.seed, 0, UINT64_MAX, "without a checkpoint: makes the weights");
  app.add_option("--config", a.config, "without a checkpoint: the config.json of the model that is made");
  app.add_option("--tokens", a.tokens, "a prompt as tokens, such as 1,2,3; repeat it for a batch");
  app.add_option("--prompt", a.prompts, "a prompt as text, for --tokenizer; repeat it for a batch");
  add_number(app, "--prompt-length", a.prompt_length, 0, largest_size,
             "a prompt of this many tokens, to measure the speed");
  app.add_option("--tokenizer", a.tokenizer, "llama2.c's tokenizer.bin");
  add_number(app, "--generate", a.plan.new_tokens, 0, largest_size,
             "new tokens, as far as the model has positions; 0: only the logits of the prompt");
  app.add_option("--weights", a.weights, "i8 and i4 quantize linear layers, 32 inputs to a scale in f32")
      ->check(CLI::IsMember({"stored", "i8", "i4"}))
      ->capture_default_str();
  app.add_option("--arithmetic", a.arithmetic, "of linear layers")
      ->check(CLI::IsMember({"f32", "bf16", "i8"}))
      ->capture_default_str();
  app.add_option("--cache", a.cache, "the type of keys and values; i8 has a scale for each head of a token")
      ->check(CLI::IsMember({"f32", "bf16", "i8"}))
      ->capture_default_str();
  add_number(app, "--chunk", a.plan.chunk, 0, largest_size, "tokens of a prompt in one call; 0: all");
  add_number(app, "--drafts", a.plan.drafts, 0, largest_size,
             "speculative decoding: tokens that are guessed, and verified in one call");
  add_number(app, "--threads", a.threads, 1, 1024, "that share the work");
  app.add_option("--isa", a.isa, "avx2, neon, ... instead of this CPU's best");
  app.add_flag("--last-logits", a.plan.only_last_logits,
               "of a prompt, compute only the logits of its last token");
  app.add_flag("--ignore-eos", a.plan.ignores_eos, "do not stop at the end of a text");
  app.add_option("--ignore-key", a.ignored_keys, "an unknown key of config.json that changes no logit");
  app.add_option("--dump-logits", a.dump,
                 "writes the logits as rows of f32; sequence 1 of a batch to FILE.1, and so on");
  app.parse(argc, argv);
}

std::vector<std::uint32_t> parse_tokens(const std::string &text) {
  std::vector<std::uint32_t> tokens;
  // getline() does not return an empty last part, so that "1," would be 1.
  std::istringstream in(text.empty() ? text : text + ',');
  for (std::string part; std::getline(in, part, ',');) {
    if (part.empty() || part.size() > 8 || part.find_first_not_of("0123456789") != std::string::npos) {
      throw Refused("--tokens are numbers with commas between them, and not " + text);
    }
    tokens.push_back(static_cast<std::uint32_t>(std::stoul(part)));
  }
  return tokens;
}

std::unique_ptr<Checkpoint> open(const Arguments &a) {
  if (!a.checkpoint.empty()) {
    if (!a.config.empty()) throw Refused("--config is for models from a seed, and a checkpoint is given");
    return open_checkpoint(a.checkpoint, a.ignored_keys);
  }
  const std::string config = a.config.empty() ? small_config : File(a.config).read_all();
  return seeded_checkpoint(parse_config(config, a.ignored_keys), a.seed);
}

Settings settings(const Arguments &a) {
  Settings s;
  if (a.weights != "stored") s.weights = a.weights == "i8" ? RAPT_I8 : RAPT_I4;
  if (a.arithmetic != "f32") s.arithmetic = a.arithmetic == "i8" ? RAPT_ARITHMETIC_I8 : RAPT_ARITHMETIC_BF16;
  if (a.cache != "f32") s.cache = a.cache == "i8" ? RAPT_I8 : RAPT_BF16;
  s.threads = a.threads;
#ifdef _OPENMP
  s.pool = rapt::openmp;  // keeps its threads from call to call
#endif
  if (s.weights != RAPT_TYPE_DEFAULT && s.arithmetic == RAPT_ARITHMETIC_BF16) {
    throw Refused("--arithmetic bf16 needs stored weights of bf16");
  }
  return s;
}

void print_rate(const char *what, std::size_t tokens, std::uint64_t ns) {
  const double seconds = static_cast<double>(ns) * 1e-9;
  std::printf("%-10s %zu tokens, %.1f tokens/s\n", what, tokens,
              seconds > 0 ? static_cast<double>(tokens) / seconds : 0);
}

void run(const Arguments &a) {
  if (!a.isa.empty()) {
    const rapt_status status = rapt_force_isa(a.isa.c_str());
    if (status != RAPT_OK) throw Refused("--isa " + a.isa + ": " + rapt_status_text(status));
  }
  const std::unique_ptr<Checkpoint> checkpoint = open(a);
  std::unique_ptr<Tokenizer> tokenizer;
  if (!a.tokenizer.empty()) tokenizer = std::make_unique<Tokenizer>(a.tokenizer, checkpoint->config().vocab);
  std::vector<std::vector<std::uint32_t>> prompts;
  for (const std::string &text : a.tokens) prompts.push_back(parse_tokens(text));
  for (const std::string &text : a.prompts) {
    if (!tokenizer) throw Refused("--prompt needs --tokenizer; without one, give --tokens");
    prompts.push_back(tokenizer->encode(text));
  }
  if (a.prompt_length > 0) {
    std::vector<std::uint32_t> &tokens = prompts.emplace_back();
    for (std::size_t t = 0; t < a.prompt_length; ++t) {
      tokens.push_back(static_cast<std::uint32_t>(31 * t % checkpoint->config().vocab));
    }
  }
  if (prompts.empty()) prompts.push_back({1});

  std::vector<std::ofstream> dumps;
  for (std::size_t i = 0; i < prompts.size() && !a.dump.empty(); ++i) {
    dumps.emplace_back(i == 0 ? a.dump : a.dump + "." + std::to_string(i), std::ios::binary);
    if (!dumps.back()) throw Refused(a.dump + " cannot be written");
  }
  Model model(*checkpoint, settings(a));
  std::vector<Hash> hashes(prompts.size());
  const Report report =
      generate(model, prompts, a.plan, [&](std::size_t sequence, std::span<const float> logits) {
        hashes[sequence].add(logits);
        if (dumps.empty()) return;
        dumps[sequence].write(reinterpret_cast<const char *>(logits.data()),
                              static_cast<std::streamsize>(logits.size_bytes()));
      });
  for (std::ofstream &dump : dumps) {
    if (!dump.flush()) throw Refused(a.dump + " cannot be written");
  }

  for (std::size_t s = 0; s < report.sequences.size(); ++s) {
    const Sequence &sequence = report.sequences[s];
    std::printf("tokens    ");
    for (std::size_t i = 0; i < sequence.tokens.size(); ++i) {
      std::printf("%s%u", i == 0 ? " " : i == sequence.prompt ? " | " : ",", sequence.tokens[i]);
    }
    std::printf("\n");
    if (tokenizer) std::printf("text       %s\n", tokenizer->decode(sequence.tokens).c_str());
    std::printf("hash       tokens %016llx, logits %016llx\n",
                static_cast<unsigned long long>(hash_of_tokens(sequence)),
                static_cast<unsigned long long>(hashes[s].value()));
    if (sequence.tokens.size() == sequence.longest &&
        sequence.longest - sequence.prompt < a.plan.new_tokens) {
      std::printf("end        the model has %zu positions\n", sequence.longest);
    }
    if (a.plan.drafts > 0) {
      std::printf("drafts     %zu accepted, %zu rejected\n", sequence.accepted_drafts,
                  sequence.rejected_drafts);
    }
  }
  print_rate("prompt", report.prompt_tokens, report.prompt_ns);
  print_rate("decode", report.decoded_tokens, report.decode_ns);
  std::printf("level      %s, %zu thread%s\n", rapt_active_isa(), a.threads, a.threads == 1 ? "" : "s");
}

// A full disk or a closed pipe shows when the output leaves its buffer.
void flush_output() {
  std::cout.flush();
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) throw Refused("the output cannot be written");
}

}  // namespace

int main(int argc, char **argv) {
  CLI::App app(
      "Runs a Llama, Mistral or Qwen model: one answer on every CPU, number of threads, batch and chunk");
  Arguments arguments;
  try {
    int status = 0;
    try {
      parse(app, arguments, argc, argv);
      run(arguments);
    } catch (const CLI::ParseError &error) {
      status = app.exit(error);
    }
    flush_output();
    return status;
  } catch (const std::bad_alloc &) {
    std::fprintf(stderr, "decoder: the model does not fit the memory\n");
  } catch (const std::exception &error) {
    std::fprintf(stderr, "decoder: %s\n", shown(error.what(), 2000).c_str());
  }
  return 1;
}
