#include "support/isa.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <set>

#include "rapt/rapt.h"
#include "support/level_report.hpp"
#include "support/serving.hpp"

namespace rapt::test {
namespace {

std::set<std::string> &isas_run() {
  static std::set<std::string> names;
  return names;
}

bool has_one_of(const std::string &isa, std::string kernels) {
  if (kernels.empty()) {
    const char *const of_program = std::getenv("RAPT_TEST_KERNELS");
    kernels = of_program ? of_program : "";
  }
  if (kernels.empty()) return true;
  rapt_force_isa(isa.c_str());
  const bool found = active_level_has(kernels.c_str());
  rapt_force_isa(nullptr);
  return found;
}

bool inherits_all(const std::string &isa) {
  return rapt_isa_usable(isa.c_str()) && !isas_run().contains(isa) && !has_one_of(isa, {});
}

}  // namespace

std::vector<std::string> compiled_isas() {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < rapt_isa_count(); ++i) names.emplace_back(rapt_isa_name(i));
  return names;
}

std::vector<std::string> usable_isas() {
  std::vector<std::string> names;
  for (const LevelReport &level : level_reports()) {
    if (level.usable) names.push_back(level.name);
  }
  return names;
}

ForcedIsa::ForcedIsa(const std::string &isa) {
  if (const rapt_status status = rapt_force_isa(isa.c_str()); status != RAPT_OK || rapt_active_isa() != isa) {
    // Without this check, the test would run one level under the name of another.
    std::fprintf(stderr, "level %s was forced, level %s is active: %s\n", isa.c_str(), rapt_active_isa(),
                 rapt_status_text(status));
    std::abort();
  }
  isas_run().insert(isa);
}

ForcedIsa::~ForcedIsa() { rapt_force_isa(nullptr); }

std::vector<std::string> isas_to_test(const std::string &kernels) {
  std::vector<std::string> names = usable_isas();
  std::erase_if(names, [&](const std::string &name) { return !has_one_of(name, kernels); });
  return names;
}

void for_each_usable_isa(const OnIsa &body) { for_each_usable_isa({}, body); }

void for_each_usable_isa(const std::string &kernels, const OnIsa &body) {
  for (const std::string &isa : isas_to_test(kernels)) {
    const ForcedIsa forced(isa);
    body(isa);
  }
}

std::string isa_report() {
  std::string text = "levels that ran:";
  for (const std::string &isa : compiled_isas()) {
    if (isas_run().contains(isa)) text += " " + isa;
  }
  if (isas_run().empty()) text += " none forced";
  text += "; skipped:";
  bool any_skipped = false;
  for (const LevelReport &level : level_reports()) {
    if (level.usable) continue;
    const std::string why = why_not_usable(level);
    text += (any_skipped ? ", " : " ") + level.name + " (" + (why.empty() ? "for no reason" : why) + ")";
    any_skipped = true;
  }
  if (!any_skipped) text += " none";
  std::string inheriting;
  for (const std::string &isa : compiled_isas()) {
    if (inherits_all(isa)) inheriting += " " + isa;
  }
  return inheriting.empty() ? text : text + "\nlevels that inherit all that is tested:" + inheriting;
}

std::vector<std::string> missing_required_isas() {
  std::vector<std::string> missing;
  const char *required = std::getenv("RAPT_REQUIRE_ISA");
  std::string name;
  for (const char *at = required ? required : "";; ++at) {
    if (*at == ',' || *at == ';' || *at == '\0') {
      if (!name.empty() && !isas_run().contains(name) && !inherits_all(name)) missing.push_back(name);
      name.clear();
      if (*at == '\0') return missing;
    } else {
      name += *at;
    }
  }
}

std::vector<std::string> isas_left_out() {
  std::vector<std::string> names;
  for (const LevelReport &level : level_reports()) {
    if (!level.usable && why_not_usable(level).empty()) names.push_back(level.name);
  }
  return names;
}

}  // namespace rapt::test
