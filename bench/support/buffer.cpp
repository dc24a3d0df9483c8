#include "support/buffer.hpp"

#ifdef __linux__
#include <sys/mman.h>
#endif

#include <array>
#include <cmath>
#include <cstring>
#include <new>
#include <numbers>

namespace rapt::bench {

void *allocate_pages(std::size_t bytes) {
  constexpr std::size_t page = 4096;
  constexpr std::size_t huge_page = 2 * 1024 * 1024;
  const std::size_t alignment = bytes >= huge_page ? huge_page : page;
  const std::size_t rounded = (bytes + alignment) / alignment * alignment;
  void *pages = std::aligned_alloc(alignment, rounded);
  if (!pages) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
  if (alignment == huge_page) madvise(pages, rounded, MADV_HUGEPAGE);  // optional, so failure is ignored
#endif
  std::memset(pages, 0, rounded);
  return pages;
}

namespace {

std::array<double, 65521> make_logit_period() {
  Uniform uniform;
  std::array<double, 65521> period{};
  for (double &value : period) {  // Box-Muller
    const double radius = std::sqrt(-2 * std::log(uniform()));
    value = 2 * radius * std::cos(2 * std::numbers::pi * uniform());
  }
  return period;
}

}  // namespace

std::span<const double> logit_period() {
  static const std::array<double, 65521> period = make_logit_period();
  return period;
}

}  // namespace rapt::bench
