// Makes a valid call of each attention function, forwards and backwards, for tests that make one argument
// invalid.
#pragma once

#include <array>
#include <initializer_list>
#include <list>
#include <string>
#include <utility>
#include <vector>

#include "support/option_statuses.hpp"
#include "support/public_api.hpp"

namespace rapt::test::attention_arguments {

constexpr std::size_t batch = 2, q_heads = 4, kv_heads = 2, q_len = 3, kv_len = 40, qk_dim = 6, v_dim = 5;
constexpr std::size_t rows = batch * q_heads * q_len, q_size = rows * qk_dim, out_size = rows * v_dim,
                      k_size = batch * kv_heads * kv_len * qk_dim, v_size = batch * kv_heads * kv_len * v_dim,
                      bias_size = rows * kv_len, memory_size = 2 * k_size;  // fits any array and shift
constexpr rapt_strides repeated{RAPT_REPEAT, RAPT_REPEAT, RAPT_REPEAT};

enum Function : unsigned { whole = 1, tasks = 2, partial = 4, merge = 8, gradient = 16, gradient_tasks = 32 };
constexpr unsigned forwards = whole | tasks | partial | merge, backwards = gradient | gradient_tasks,
                   all = forwards | backwards, reads_inputs = all & ~unsigned{merge},
                   writes_out = whole | tasks | merge;

enum Array { q, k, v, out, lse, partials, bias, sinks, dout, dq, dk, dv, dbias, dsinks, array_count };
constexpr const char *array_names[array_count] = {"q",     "k",    "v",  "out", "lse", "partials", "bias",
                                                  "sinks", "dout", "dq", "dk",  "dv",  "dbias",    "dsinks"};

inline rapt_strides with_stride(rapt_strides strides, int dimension, std::ptrdiff_t stride) {
  (dimension == 0 ? strides.batch : dimension == 1 ? strides.head : strides.token) = stride;
  return strides;
}

template <class T>
struct Call {
  using Element = T;
  static constexpr FunctionName functions[] = {{whole, "attention"},
                                               {tasks, "attention_run"},
                                               {partial, "attention_partial"},
                                               {merge, "attention_merge"},
                                               {gradient, "attention_backward"},
                                               {gradient_tasks, "attention_backward_run"}};
  unsigned function;
  std::array<std::vector<T>, array_count> memory;
  std::array<T *, array_count> at{};  // pointers for the call; null for bias, sinks and their gradients
  std::vector<std::uint8_t> mask = std::vector<std::uint8_t>(bias_size, 1);
  std::list<std::vector<std::int32_t>> numbers;
  std::vector<unsigned char> workspace_memory;
  unsigned char *workspace = nullptr;
  std::size_t workspace_size = 0;
  std::size_t first = 0, last = 0;
  rapt_attention_options options = attention_options<T>(), *given = &options;
  rapt_attention_gradients gradients = RAPT_ATTENTION_GRADIENTS_INIT, *given_gradients = &gradients;

  explicit Call(unsigned called) : function(called) {
    // gradient_tasks runs no task, because the number of tasks depends on the options.
    if (function & (tasks | partial | merge)) last = 1;
    memory.fill(std::vector<T>(memory_size, T(-7)));
    const auto set = [&](Array array, double value) {
      memory[array].assign(memory_size, static_cast<T>(value));
    };
    for (const Array array : {q, bias, dout}) set(array, 0.5);
    set(k, 0.25);
    set(v, 0.125);
    set(sinks, 1);
    if (function & backwards) set(out, 0.5), set(lse, 3);
    give({q, k, v, out, lse, partials, dout, dq, dk, dv});
    options.batch = batch;
    options.q_heads = q_heads;
    options.kv_heads = kv_heads;
    options.q_len = q_len;
    options.kv_len = kv_len;
    options.qk_dim = qk_dim;
    set_v_dim(v_dim);
  }
  Call(const Call &) = delete;

  void set_v_dim(std::size_t dim) {
    options.v_dim = dim;
    REQUIRE(fit_workspace() == RAPT_OK);
  }
  // Makes the workspace as large as the options need it.
  rapt_status fit_workspace() {
    const auto bytes = function & forwards ? rapt_attention_workspace : rapt_attention_backward_workspace;
    const rapt_status status = bytes(&options, &workspace_size);
    workspace_memory.resize(workspace_size);
    workspace = workspace_memory.data();
    return status;
  }
  void give(std::initializer_list<Array> arrays) {
    for (const Array array : arrays) at[array] = memory[array].data();
  }
  void give_all() { give({bias, sinks, dbias, dsinks}); }
  // Copies `values` to memory that lives as long as this object.
  const std::int32_t *keep(std::vector<std::int32_t> values) {
    return numbers.emplace_back(std::move(values)).data();
  }

  rapt_status run() {
    if (at[bias]) options.bias = at[bias];
    if (at[sinks]) options.sinks = at[sinks];
    options.lse = at[lse];
    gradients.out = at[out];
    gradients.dout = at[dout];
    gradients.dq = at[dq];
    gradients.dk = at[dk];
    gradients.dv = at[dv];
    gradients.dbias = at[dbias];
    gradients.dsinks = at[dsinks];
    switch (function) {
      case whole:
        return rapt_attention(at[q], at[k], at[v], at[out], given, workspace, workspace_size);
      case tasks:
        return rapt_attention_run(at[q], at[k], at[v], at[out], given, first, last, workspace,
                                  workspace_size);
      case partial:
        return rapt_attention_partial(at[q], at[k], at[v], at[partials], given, first, last, workspace,
                                      workspace_size);
      case merge:
        return rapt_attention_merge(at[partials], at[out], given, first, last, workspace, workspace_size);
      case gradient:
        return rapt_attention_backward(at[q], at[k], at[v], given, given_gradients, workspace,
                                       workspace_size);
      default:
        return rapt_attention_backward_run(at[q], at[k], at[v], given, given_gradients, first, last,
                                           workspace, workspace_size);
    }
  }
  bool writes_nothing() const {
    const std::int32_t *offsets = options.q_offsets;
    const bool no_queries = options.q_len == 0 || (offsets && offsets[options.batch] == offsets[0]);
    return (function & forwards && no_queries) || (!(function & (whole | gradient)) && first == last);
  }
  std::string image() const {
    std::string bytes;
    for (const std::vector<T> &values : memory) append_bytes(bytes, values);
    for (const std::vector<std::int32_t> &values : numbers) append_bytes(bytes, values);
    append_bytes(bytes, mask);
    return bytes;
  }
};

// Describes an overlap that the library must reject: `output` begins in the memory of `other`.
// expect_overlaps() tests it at every shift, and calls prepare(call) first.
struct Overlap {
  unsigned functions;
  Array output, other;
};

template <class T, class Prepare>
void expect_overlaps(std::initializer_list<std::ptrdiff_t> shifts, const std::vector<Overlap> &overlaps,
                     Prepare &&prepare) {
  for (const Overlap &o : overlaps) {
    for (const std::ptrdiff_t shift : shifts) {
      const std::string name = std::string(array_names[o.output]) + " in " + array_names[o.other];
      expect_status<Call<T>>(name + " + " + std::to_string(shift), o.functions, RAPT_BAD_OVERLAP,
                             [&](auto &call) {
                               prepare(call);
                               call.at[o.output] = call.memory[o.other].data() + shift;
                             });
    }
  }
}

}  // namespace rapt::test::attention_arguments
