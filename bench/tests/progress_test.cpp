// Tests the progress lines that a run writes to a log.
#include "support/progress.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

namespace {

// Returns the lines that a log has after `steps` steps.
std::vector<std::string> log_of(const std::string &name, std::uint64_t steps) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE *)> file(std::tmpfile(), std::fclose);
  REQUIRE(file);
  rapt::Progress progress(name, file.get());
  for (std::uint64_t done = 0; done <= steps; ++done) progress.show("a step", done, steps);
  progress.clear();
  std::rewind(file.get());
  std::vector<std::string> lines;
  char line[256];
  while (std::fgets(line, sizeof line, file.get())) lines.emplace_back(line);
  return lines;
}

}  // namespace

TEST_CASE("a log has one line per tenth of the way") {
  const std::vector<std::string> lines = log_of("name", 40);
  REQUIRE(lines.size() == 10);
  CHECK(lines.front() == "name: 4 of 40 done after 0 s\n");
  CHECK(lines.back() == "name: 40 of 40 done after 0 s\n");
}

TEST_CASE("a log has one line per step of a short run") { CHECK(log_of("name", 3).size() == 3); }

TEST_CASE("a log without a name stays empty") { CHECK(log_of("", 40).empty()); }
