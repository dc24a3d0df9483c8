#include "support/level_report.hpp"

#include <algorithm>

#include "dispatch/cpu.hpp"
#include "dispatch/requirements.hpp"
#include "rapt/rapt.h"
#include "support/isa.hpp"
#include "support/serving.hpp"

namespace rapt::test {
namespace {

constexpr Feature tile_features[] = {Feature::amx_tile, Feature::amx_bf16, Feature::amx_int8};

template <class Chosen>
std::vector<std::string> names_of(FeatureSet needs, Chosen &&chosen) {
  std::vector<std::string> names;
  for (unsigned i = 0; i < unsigned(Feature::count); ++i) {
    const Feature feature = static_cast<Feature>(i);
    if (needs.contains(feature) && chosen(feature)) names.emplace_back(feature_names[i]);
  }
  return names;
}

bool needs_tiles(const LevelNeeds &level) { return level.needs.contains(Feature::amx_tile); }

// Returns whether Linux refuses the AMX tiles of the level, so that other levels' kernels replace its own.
bool is_refused(const LevelNeeds &level) {
  if (!needs_tiles(level) || !rapt_isa_usable(level.name)) return false;
  const std::string active = rapt_active_isa();
  rapt_force_isa(level.name);
  const bool serves = active_level_serves();
  rapt_force_isa(active.c_str());
  return !serves;
}

std::string joined(const std::vector<std::string> &words) {
  std::string text;
  for (const std::string &word : words) text += " " + word;
  return text;
}

}  // namespace

std::vector<LevelReport> level_reports() {
  const CpuFeatures features = detect_features();
  const std::vector<std::string> compiled = compiled_isas();
  std::vector<LevelReport> reports;
  for (const LevelNeeds &level : level_needs) {
    LevelReport report;
    report.name = level.name;
    report.compiled = std::ranges::find(compiled, report.name) != compiled.end();
    report.missing = names_of(level.needs, [&](Feature f) { return !features.reported.contains(f); });
    report.disabled = names_of(level.needs, [&](Feature f) {
      return features.reported.contains(f) && !features.usable.contains(f);
    });
    const bool refused = report.compiled && is_refused(level);
    if (refused) {
      report.refused = names_of(level.needs, [](Feature f) {
        return std::ranges::find(tile_features, f) != std::end(tile_features);
      });
    }
    report.usable = rapt_isa_usable(level.name) != 0 && !refused;
    reports.push_back(report);
  }
  return reports;
}

std::string why_not_usable(const LevelReport &level) {
  if (!level.compiled) return "this build leaves it out";
  std::string text;
  const auto add = [&](const char *reason, const std::vector<std::string> &features) {
    if (!features.empty()) text += (text.empty() ? "" : "; ") + (reason + joined(features));
  };
  add("the CPU lacks", level.missing);
  add("the operating system, or a hypervisor, does not enable", level.disabled);
  add("the operating system refuses this process", level.refused);
  return text;
}

}  // namespace rapt::test
