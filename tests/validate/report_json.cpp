#include <cerrno>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>

#include "rapt/rapt.h"
#include "support/bits.hpp"
#include "support/case_text.hpp"
#include "validate/report.hpp"

namespace rapt::validate {
namespace {

using Json = nlohmann::ordered_json;

// The same compiler builds rapt-validate and the library.
#if defined(__clang__)
constexpr const char *compiler = __VERSION__;  // includes the name of the compiler
#elif defined(__GNUC__)
constexpr const char *compiler = "gcc " __VERSION__;
#else
constexpr const char *compiler = "unknown";
#endif

// Returns the time in ISO 8601 format.
std::string now() {
  char text[32];
  const std::time_t seconds = std::time(nullptr);
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", std::gmtime(&seconds));
  return text;
}

// Returns the error, or the largest double for infinity, which JSON lacks. An infinite error means a wrong
// result. In the report, null means "not measured".
double finite(double error) { return std::isfinite(error) ? error : std::numeric_limits<double>::max(); }

template <class Value, class ToJson>
Json json_of(const std::optional<Value> &value, ToJson &&to_json) {
  return value ? Json(to_json(*value)) : Json();
}

template <class Things, class ToJson>
Json list_of(const Things &things, ToJson &&to_json) {
  Json list = Json::array();
  for (const auto &thing : things) list.push_back(to_json(thing));
  return list;
}

Json json_of_level(const LevelReport &level) {
  return {{"name", level.name},       {"compiled", level.compiled}, {"usable", level.usable},
          {"missing", level.missing}, {"disabled", level.disabled}, {"refused", level.refused}};
}

Json json_of_row(const Row &row) {
  const LevelResult &result = row.result;
  if (!result.inherits.empty()) {
    return {{"kernel", result.kernel}, {"isa", result.isa}, {"holds", true}, {"inherits", result.inherits}};
  }
  const Accuracy &accuracy = *accuracy_of(result.kernel);
  const auto hash_text = [](std::uint64_t hash) { return test::hex(hash, 8); };
  Json json = {{"kernel", result.kernel},
               {"isa", result.isa},
               {"holds", row.holds()},
               {"cases", result.cases},
               {"mismatches", result.mismatches},
               {"worst_error", json_of(result.worst, finite)},
               {"error_unit", accuracy.unit},
               {"error_bound", accuracy.bound},
               {"inaccurate", result.inaccurate}};
  if (result.inaccurate != 0) {
    json["first_inaccurate"] = {{"error", result.inaccurate_error}, {"case", result.first_inaccurate}};
  }
  json["hash"] = hash_text(result.hash);
  json["published"] = json_of(row.published, hash_text);
  if (result.failure) {
    json["failure"] = {{"difference", result.failure->difference},
                       {"case", to_text(result.failure->failing)},
                       {"inputs", result.failure->inputs},
                       {"outputs", result.failure->outputs}};
    json["broken_rules"] = result.broken_rules;
  }
  return json;
}

Json json_of_decoder(const DecoderResult &result) {
  return {{"isa", result.isa},
          {"holds", result.holds()},
          {"models", result.models},
          {"wrong", result.wrong},
          {"hash", test::hex(result.hash, 8)}};
}

Json json_of_exhaustive(const ExhaustiveResult &result) {
  return {{"function", result.function},
          {"isa", result.isa},
          {"holds", result.holds()},
          {"inputs", result.inputs},
          {"mismatches", result.mismatches},
          {"worst_error", finite(result.worst_error)},
          {"error_unit", result.unit},
          {"error_bound", result.bound},
          {"worst_input", test::hex(test::bits_of(result.worst_input), 4)}};
}

namespace fs = std::filesystem;

// Says which file to write first. A rename then replaces a regular target. A device or a pipe is written
// directly.
struct Place {
  fs::path target, first;

  explicit Place(const std::string &path) : target(path) {
    std::error_code error;
    if (fs::exists(path, error)) target = fs::canonical(path, error);  // follows symbolic links
    first = target;
    if (!fs::exists(target, error) || fs::is_regular_file(target, error)) first += ".part";
  }
  bool is_direct() const { return first == target; }
};

bool write_text(const fs::path &path, const std::string &text) {
  std::FILE *const file = std::fopen(path.string().c_str(), "w");
  if (file == nullptr) return false;
  const bool written = std::fputs(text.c_str(), file) >= 0;
  return std::fclose(file) == 0 && written;
}

void remove_and_keep_errno(const fs::path &path) {
  const int kept = errno;
  std::error_code ignored;
  fs::remove(path, ignored);
  errno = kept;
}

// A pipe or device counts as writable, because the state of its other end is unknown before it is opened.
bool can_open(const fs::path &path) {
  std::error_code error;
  if (fs::is_directory(path, error)) return errno = EISDIR, false;
  if (!fs::is_regular_file(path, error)) return true;
  std::FILE *const file = std::fopen(path.string().c_str(), "a");
  return file != nullptr && std::fclose(file) == 0;
}

}  // namespace

bool can_write_json(const std::string &path) {
  const Place place(path);
  if (!can_open(place.target)) return false;
  if (place.is_direct()) return true;
  const bool possible = write_text(place.first, "");
  remove_and_keep_errno(place.first);
  return possible;
}

bool write_json(const Report &report, const std::string &path) {
  const CpuReport &cpu = report.cpu;
  const Json json = {{"rapt", rapt_version()},
                     {"date", now()},
                     {"system", cpu.system},
                     {"compiler", compiler},
                     {"rapt_isa", complaint_about_rapt_isa()},
                     {"cpu",
                      {{"name", cpu.name},
                       {"emulated", cpu.emulated},
                       {"features", cpu.features},
                       {"enabled", cpu.enabled}}},
                     {"levels", list_of(cpu.levels, json_of_level)},
                     {"levels_run", report.isas},
                     {"levels_not_run", list_of(report.not_run(),
                                                [](const NotRun &level) {
                                                  return Json{{"name", level.isa}, {"why", level.why}};
                                                })},
                     {"effort", report.options.effort == Effort::quick ? "quick" : "full"},
                     {"seed", report.options.seed},
                     {"seconds", report.seconds},
                     {"results", list_of(report.rows, json_of_row)},
                     {"decoder", list_of(report.decoder, json_of_decoder)},
                     {"exhaustive", list_of(report.exhaustive, json_of_exhaustive)},
                     {"holds", report.holds()}};
  // RAPT_ISA may hold bytes that are not UTF-8. They are replaced, because the default handler would throw.
  const std::string text = json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
  const Place place(path);
  bool written = write_text(place.first, text);
  if (place.is_direct()) return written;
  if (written) {
    std::error_code error;
    fs::rename(place.first, place.target, error);
    written = !error;
    if (error) errno = error.value();
  }
  if (!written) remove_and_keep_errno(place.first);
  return written;
}

}  // namespace rapt::validate
