#include "support/suite.hpp"

#include <stdexcept>

namespace rapt::bench {

void require_ok(rapt_status status) {
  if (status != RAPT_OK) [[unlikely]]
    throw std::runtime_error(rapt_status_text(status));
}

void Suite::force_isa(const std::string &isa) { require_ok(rapt_force_isa(isa.c_str())); }

bool Suite::add_case(const std::string &isa, const std::string &size, Work work) {
  std::string name = kernel_ + "/" + isa + "/" + size;
  if (plan_.filter && !std::regex_search(name, *plan_.filter)) return false;
  force_isa(isa);
  const char *served_by = rapt_kernel_isa(kernel_.c_str());
  cases_.push_back({std::move(name), kernel_, isa, size, work, served_by ? served_by : isa});
  return true;
}

void register_all(Suite &suite) {
#define KERNEL(name, ...)    \
  suite.begin_kernel(#name); \
  register_##name(suite);
#include "kernels/kernels.def"
#undef KERNEL
}

}  // namespace rapt::bench
