// Lists the kernels, each with what runs one problem through the public API.
#pragma once

#include <memory>
#include <span>

#include "calls/call.hpp"
#include "support/problem.hpp"

namespace rapt::test {

struct KernelTraits {
  std::size_t element_size;
  Family family;

  bool has_rows() const { return family != Family::two_vectors && family != Family::vector; }
  bool takes_options() const { return family == Family::softmax; }
  bool is_attention() const { return family == Family::attention || is_attention_backward(); }
  bool is_attention_backward() const { return family == Family::attention_backward; }
  bool is_norm() const { return family == Family::norm; }
  bool is_linear() const { return family == Family::linear; }
  bool is_convolution() const { return family == Family::convolution; }
  bool is_delta_rule() const { return family == Family::delta_rule; }
  bool is_reduce() const { return family == Family::reduce; }
  bool is_rope() const { return family == Family::rope; }
  bool is_quantized_linear() const { return family == Family::quantized_linear; }
};

struct KernelCase {
  const char *name;  // as in kernels.def
  KernelTraits traits;
  Outcome (*run)(const Problem &problem, const Layout &layout);  // runs on the active level
  // Makes the call that tests/calls describes, or null if it describes none of the kernel's.
  std::unique_ptr<Call> (*make)(const Problem &problem, const Layout &layout);
};

// Returns one entry for each line of kernels.def, in the order of the file.
std::span<const KernelCase> kernel_cases();

// Returns those whose calls tests/calls describes. RAPT_CALLS_OF=<part of a name> in the environment leaves out others.
std::span<const KernelCase *const> described_kernels();

}  // namespace rapt::test
