#include <cmath>
#include <cstdio>
#include <ctime>

#include "rapt/rapt.h"
#include "support/bits.hpp"
#include "validate/report.hpp"

namespace rapt::validate {
namespace {

// Values inside arrays and objects; commas are put where they belong.
class JsonWriter {
 public:
  explicit JsonWriter(std::FILE *file) : file_(file) {}

  void begin(const char *key, char bracket) {
    name(key);
    std::fputc(bracket, file_);
    first_ = true;
  }
  void end(char bracket) {
    std::fputc(bracket, file_);
    first_ = false;
  }
  void add(const char *key, const std::string &text) {
    name(key);
    quote(text);
  }
  void add(const char *key, const char *text) { add(key, std::string(text)); }
  void add(const char *key, bool value) {
    name(key);
    std::fputs(value ? "true" : "false", file_);
  }
  void add(const char *key, double value) {
    name(key);
    // JSON has no infinity.
    std::isfinite(value) ? std::fprintf(file_, "%.9g", value) : std::fprintf(file_, "1e999");
  }
  void add_count(const char *key, std::uint64_t value) {
    name(key);
    std::fprintf(file_, "%llu", static_cast<unsigned long long>(value));
  }
  void add_null(const char *key) {
    name(key);
    std::fputs("null", file_);
  }
  void add(const char *key, const std::vector<std::string> &texts) {
    begin(key, '[');
    for (const std::string &text : texts) add(nullptr, text);
    end(']');
  }

 private:
  void name(const char *key) {
    if (!first_) std::fputs(",\n", file_);
    first_ = false;
    if (key == nullptr) return;
    quote(key);
    std::fputs(": ", file_);
  }
  void quote(const std::string &text) {
    std::fputc('"', file_);
    for (const char c : text) {
      if (c == '"' || c == '\\') std::fputc('\\', file_);
      if (static_cast<unsigned char>(c) < 0x20) {
        std::fprintf(file_, "\\u%04x", static_cast<unsigned>(c));
      } else {
        std::fputc(c, file_);
      }
    }
    std::fputc('"', file_);
  }

  std::FILE *file_;
  bool first_ = true;
};

// Of rapt-validate, which is built with the library.
#if defined(__clang__)
constexpr const char *compiler = __VERSION__;  // names itself
#elif defined(__GNUC__)
constexpr const char *compiler = "gcc " __VERSION__;
#else
constexpr const char *compiler = "unknown";
#endif

// As ISO 8601 has it.
std::string now() {
  char text[32];
  const std::time_t seconds = std::time(nullptr);
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", std::gmtime(&seconds));
  return text;
}

void write_cpu(const CpuReport &cpu, JsonWriter &json) {
  json.begin("cpu", '{');
  json.add("name", cpu.name);
  json.add("emulated", cpu.emulated);
  json.add("features", cpu.features);
  json.add("enabled", cpu.enabled);
  json.end('}');
  json.begin("levels", '[');
  for (const LevelReport &level : cpu.levels) {
    json.begin(nullptr, '{');
    json.add("name", level.name);
    json.add("compiled", level.compiled);
    json.add("usable", level.usable);
    json.add("missing", level.missing);
    json.add("disabled", level.disabled);
    json.end('}');
  }
  json.end(']');
}

void write_row(const Row &row, JsonWriter &json) {
  const LevelResult &result = row.result;
  const Accuracy &accuracy = *accuracy_of(result.kernel);
  json.begin(nullptr, '{');
  json.add("kernel", result.kernel);
  json.add("isa", result.isa);
  json.add("holds", row.holds());
  json.add_count("cases", result.cases);
  json.add_count("mismatches", result.mismatches);
  result.worst ? json.add("worst_error", *result.worst) : json.add_null("worst_error");
  json.add("error_unit", accuracy.unit);
  json.add("error_bound", accuracy.bound);
  json.add_count("inaccurate", result.inaccurate);
  if (result.inaccurate != 0) {
    json.begin("first_inaccurate", '{');
    json.add("error", result.inaccurate_error);
    json.add("case", result.first_inaccurate);
    json.end('}');
  }
  json.add("hash", test::hex(result.hash, 8));
  row.published ? json.add("published", test::hex(*row.published, 8)) : json.add_null("published");
  if (result.failure) {
    json.begin("failure", '{');
    json.add("difference", result.failure->difference);
    json.add("case", to_text(result.failure->failing));
    json.add("inputs", result.failure->inputs);
    json.add("outputs", result.failure->outputs);
    json.end('}');
    json.add("broken_rules", result.broken_rules);
  }
  json.end('}');
}

void write_exhaustive(const ExhaustiveResult &result, JsonWriter &json) {
  json.begin(nullptr, '{');
  json.add("function", result.function);
  json.add("isa", result.isa);
  json.add("holds", result.holds());
  json.add_count("inputs", result.inputs);
  json.add_count("mismatches", result.mismatches);
  json.add("worst_error", result.worst_error);
  json.add("error_unit", result.unit);
  json.add("error_bound", result.bound);
  json.add("worst_input", test::hex(test::bits_of(result.worst_input), 4));
  json.end('}');
}

}  // namespace

bool write_json(const Report &report, std::FILE *out) {
  JsonWriter json(out);
  json.begin(nullptr, '{');
  json.add("rapt", rapt_version());
  json.add("date", now());
  json.add("system", report.cpu.system);
  json.add("compiler", compiler);
  json.add("rapt_isa", complaint_about_rapt_isa());
  write_cpu(report.cpu, json);
  json.add("levels_run", report.isas);
  json.begin("levels_not_run", '[');
  for (const NotRun &level : report.not_run()) {
    json.begin(nullptr, '{');
    json.add("name", level.isa);
    json.add("why", level.why);
    json.end('}');
  }
  json.end(']');
  json.add("effort", report.options.effort == Effort::quick ? "quick" : "full");
  json.add_count("seed", report.options.seed);
  json.add("seconds", report.seconds);
  json.begin("results", '[');
  for (const Row &row : report.rows) write_row(row, json);
  json.end(']');
  json.begin("exhaustive", '[');
  for (const ExhaustiveResult &result : report.exhaustive) write_exhaustive(result, json);
  json.end(']');
  json.add("holds", report.holds());
  json.end('}');
  std::fputc('\n', out);
  const bool written = std::ferror(out) == 0;
  return std::fclose(out) == 0 && written;
}

}  // namespace rapt::validate
