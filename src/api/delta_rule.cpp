// Implements rapt_delta_rule. Each call checks its arguments before it writes anything.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "api/attention_options.hpp"
#include "api/carved.hpp"
#include "api/delta_options.hpp"
#include "api/delta_rows.hpp"
#include "api/floating_point.hpp"
#include "api/numbers.hpp"
#include "api/query.hpp"
#include "api/read_options.hpp"
#include "api/tasks.hpp"
#include "api/tensor.hpp"
#include "call/delta_call.hpp"
#include "call/element.hpp"
#include "dispatch/dispatch.hpp"

namespace rapt {
namespace {

// The arrays of a call, with the strides of kernels.
class DeltaArrays {
 public:
  DeltaTensor q, k, v, out, g, beta, state, final_state;

  explicit DeltaArrays(const DeltaRule &of) : rule(of), o(of.o) {}

  rapt_status read(const void *q_data, const void *k_data, const void *v_data, void *out_data) {
    const struct {
      DeltaTensor &tensor;
      const void *data;
      std::size_t heads, row;
      const rapt_strides &strides;
      rapt_type type;
      rapt_status bad;
    } all[] = {
        {q, q_data, o.q_heads, o.key_dim, o.q_strides, o.type, RAPT_BAD_Q_STRIDES},
        {k, k_data, o.k_heads, o.key_dim, o.k_strides, o.type, RAPT_BAD_K_STRIDES},
        {v, v_data, o.v_heads, o.value_dim, o.v_strides, o.type, RAPT_BAD_V_STRIDES},
        {out, out_data, rule.out_heads(), o.value_dim, o.out_strides, o.type, RAPT_BAD_OUT_STRIDES},
        {g, o.g, o.v_heads, o.decay_per_key ? o.key_dim : 1, o.g_strides, o.gate_type, RAPT_BAD_G_STRIDES},
        {beta, o.beta, o.v_heads, 1, o.beta_strides, o.gate_type, RAPT_BAD_BETA_STRIDES},
    };
    for (const auto &of : all) {
      if ((&of.tensor == &g || &of.tensor == &beta) && !of.data) continue;
      const Repeats repeats = &of.tensor == &out ? Repeats::no : Repeats::yes;
      const rapt_status status =
          of.tensor.read_rows(o, of.data, of.heads, of.row, of.strides, of.type, repeats, of.bad);
      if (status != RAPT_OK) return status;
    }
    const rapt_status status = read_states();
    if (status != RAPT_OK) return status;
    if (out.bytes > 0 && !out.elements_are_apart()) return RAPT_BAD_OUT_STRIDES;
    if (o.final_state && !final_state.elements_are_apart()) return RAPT_BAD_STATE_STRIDES;
    return check(rule.all_tokens() == 0);
  }

  rapt_status check_workspace(Strided workspace) const {
    if (!workspace.measure()) return RAPT_BAD_SIZE;
    for (const Tensor *tensor : {&q, &k, &v, &out, &g, &beta, &state, &final_state}) {
      if (tensor->data && workspace.overlaps(tensor->data, tensor->bytes)) return RAPT_BAD_WORKSPACE;
    }
    return RAPT_OK;
  }

 private:
  const DeltaRule &rule;
  const rapt_delta_rule_options &o;

  rapt_status read_states() {
    const std::size_t sizes[] = {rule.window(), o.batch, o.v_heads, o.key_dim, o.value_dim};
    std::memcpy(state.sizes, sizes + 1, 4 * sizeof sizes[0]);
    std::memcpy(final_state.sizes, sizes, sizeof sizes);
    if (o.state) {
      const rapt_state_strides &s = o.state_strides;
      const std::ptrdiff_t given[] = {s.batch, s.head, s.key, s.value};
      const rapt_status status =
          state.read(o.state, sizeof(float), 4, state.sizes, given, Repeats::yes, RAPT_BAD_STATE_STRIDES);
      if (status != RAPT_OK) return status;
      if (!rule.has_unit(state)) return RAPT_BAD_STATE_STRIDES;
    }
    if (!o.final_state) return RAPT_OK;
    const rapt_state_strides &s = o.final_strides;
    std::ptrdiff_t given[] = {o.window_stride, s.batch, s.head, s.key, s.value};
    if (is_zero(s) != (o.window_stride == 0) && rule.window() > 1) {
      // One of both is given. The other is that of contiguous states.
      if (o.window_stride != 0) {
        Tensor inner;
        const rapt_status status = inner.read(o.final_state, sizeof(float), 4, final_state.sizes + 1,
                                              given + 1, Repeats::no, RAPT_BAD_STATE_STRIDES);
        if (status != RAPT_OK) return status;
        for (std::size_t d = 0; d < 4; ++d) given[1 + d] = inner.strides[d];
      } else {
        return RAPT_BAD_STATE_WINDOW;
      }
    }
    const rapt_status status = final_state.read(o.final_state, sizeof(float), 5, final_state.sizes, given,
                                                Repeats::no, RAPT_BAD_STATE_STRIDES);
    if (status != RAPT_OK) return status;
    return rule.has_unit(final_state) ? RAPT_OK : RAPT_BAD_STATE_STRIDES;
  }
  rapt_status check(bool is_empty) const {
    if (!is_empty) {
      if (!q.data) return RAPT_BAD_Q;
      if (!k.data) return RAPT_BAD_K;
      if (!v.data) return RAPT_BAD_V;
      if (!out.data) return RAPT_BAD_OUT;
    }
    for (const Tensor *input : {&q, &k, &v, &g, &beta, &state}) {
      if (input->data && out.data && out.overlaps(*input)) return RAPT_BAD_OVERLAP;
      if (!input->data || !final_state.data || !final_state.overlaps(*input)) continue;
      if (input != &state || !is_in_place()) return RAPT_BAD_OVERLAP;
    }
    return out.data && final_state.data && out.overlaps(final_state) ? RAPT_BAD_OVERLAP : RAPT_OK;
  }
  bool is_in_place() const {
    if (rule.window() > 1 || state.data != final_state.data) return false;
    for (std::size_t d = 0; d < 4; ++d) {
      if (state.strides[d] != final_state.strides[1 + d]) return false;
    }
    return true;
  }
};

// Computes tasks of a call. E is the type of q, k, v and out, G that of g and beta.
template <class E, class G>
class DeltaTasks {
 public:
  DeltaTasks(const DeltaRule &rule, const DeltaArrays &arrays, void *workspace)
      : rule_(rule), arrays_(arrays), scratch_(rule.scratch(workspace)) {}

  // Of a task behind which the same thread computes others, `is_last` is false.
  void run(std::size_t task, bool is_last) const {
    const Task made = task_of(task);
    if (made.tokens == 0) return copy_state(made);
    run_chunks(made, is_last || !o_.state ? nullptr : state(task_of(task + 1)));
  }

 private:
  struct Task {
    std::size_t sequence, head, first_column, columns, first_token, tokens;
  };
  static std::size_t smaller(std::size_t a, std::size_t b) { return a < b ? a : b; }

  Task task_of(std::size_t task) const {
    const std::size_t block = task % rule_.blocks, head = task / rule_.blocks % o_.v_heads,
                      sequence = task / rule_.blocks / o_.v_heads;
    Task made{};
    made.sequence = sequence, made.head = head;
    made.first_column = block * delta_block;
    made.columns = rule_.blocks == 1 ? o_.value_dim : smaller(delta_block, o_.value_dim - made.first_column);
    made.tokens = o_.tokens;
    if (o_.offsets) {
      made.first_token = static_cast<std::size_t>(o_.offsets[sequence]);
      made.tokens = static_cast<std::size_t>(o_.offsets[sequence + 1]) - made.first_token;
    }
    return made;
  }

  // The offset of a token's row of a head.
  std::ptrdiff_t offset(const Tensor &of, const Task &task, std::size_t head, std::size_t token) const {
    const auto times = [](std::size_t count, std::ptrdiff_t stride) {
      return static_cast<std::ptrdiff_t>(count) * stride;
    };
    return times(o_.offsets ? 0 : task.sequence, of.strides[0]) + times(head, of.strides[1]) +
           times(task.first_token + token, of.strides[2]);
  }
  template <class T>
  const T *row(const Tensor &of, const Task &task, std::size_t head, std::size_t token) const {
    return static_cast<const T *>(of.data) + offset(of, task, head, token);
  }
  std::ptrdiff_t state_offset(const Tensor &of, const Task &task) const {
    const std::size_t first = of.dims - 4;
    return static_cast<std::ptrdiff_t>(task.sequence) * of.strides[first] +
           static_cast<std::ptrdiff_t>(task.head) * of.strides[first + 1] +
           static_cast<std::ptrdiff_t>(task.first_column) * of.strides[first + 3];
  }
  const float *state(const Task &task) const {
    return o_.state ? o_.state + state_offset(arrays_.state, task) : nullptr;
  }
  float *final_state(const Task &task, std::size_t tokens_after) const {
    return o_.final_state + state_offset(arrays_.final_state, task) +
           static_cast<std::ptrdiff_t>(tokens_after) * arrays_.final_state.strides[0];
  }

  void copy_state(const Task &task) const {
    if (!o_.final_state) return;
    const float *const from = state(task);
    float *const to = final_state(task, 0);
    const StateLayout from_layout = o_.state ? rule_.layout(arrays_.state) : StateLayout{};
    const StateLayout to_layout = rule_.layout(arrays_.final_state);
    for (std::size_t i = 0; i < o_.key_dim; ++i) {
      for (std::size_t j = 0; j < task.columns; ++j) {
        const auto down = static_cast<std::ptrdiff_t>(i), across = static_cast<std::ptrdiff_t>(j);
        const float value = from ? from[down * from_layout.key + across * from_layout.value] : 0.0f;
        to[down * to_layout.key + across * to_layout.value] = value;
      }
    }
  }

  void run_chunks(const Task &task, const float *ahead) const {
    DeltaCall call{};
    call.key_dim = o_.key_dim, call.columns = task.columns, call.queries = rule_.queries();
    call.scale = rule_.scale, call.scratch = scratch_.state;
    call.begins = true, call.from = state(task), call.ahead = ahead;
    if (call.from) call.from_layout = rule_.layout(arrays_.state);
    if (o_.final_state) call.to_layout = rule_.layout(arrays_.final_state);
    // States are wanted from this token on.
    const std::size_t window = smaller(rule_.window(), task.tokens), wanted = task.tokens - window;
    for (std::size_t t = 0; t < task.tokens; t += call.tokens) {
      const std::size_t end = t <= wanted ? wanted + 1 : t + 1;
      call.tokens = smaller(delta_chunk, end - t);
      const bool is_wanted = o_.final_state && t + call.tokens == end;
      call.ends = t + call.tokens == task.tokens;
      call.to = is_wanted ? final_state(task, task.tokens - end) : nullptr;
      prepare(task, t, call);
      kernels().f32.delta_rule(&call);
      finish(task, t, call);
      call.begins = false;
    }
  }

  // Points at the rows of the tokens from t on, as they are or as copies.
  void prepare(const Task &task, std::size_t t, DeltaCall &call) const {
    const std::size_t first = rule_.first_query(task.head), next = rule_.next_query();
    const std::size_t k_head = rule_.k_head(task.head);
    const DeltaNorm norm{o_.l2_norm, rule_.eps};
    const auto rows = static_cast<std::ptrdiff_t>(o_.key_dim),
               columns = static_cast<std::ptrdiff_t>(task.columns);
    const auto queries = static_cast<std::ptrdiff_t>(call.queries);
    if constexpr (sizeof(E) == sizeof(float)) {
      if (!rule_.copies_rows()) {
        call.q = row<float>(arrays_.q, task, first, t), call.k = row<float>(arrays_.k, task, k_head, t);
        call.q_step = arrays_.q.strides[2], call.k_step = arrays_.k.strides[2];
        call.query_step = static_cast<std::ptrdiff_t>(next) * arrays_.q.strides[1];
      }
      call.v = row<float>(arrays_.v, task, task.head, t) + task.first_column;
      call.v_step = arrays_.v.strides[2];
      call.out = static_cast<float *>(o_out()) + offset(arrays_.out, task, rule_.first_output(task.head), t) +
                 task.first_column;
      call.out_step = arrays_.out.strides[2];
      call.answer_step = static_cast<std::ptrdiff_t>(next) * arrays_.out.strides[1];
    } else {
      for (std::size_t i = 0; i < call.tokens; ++i) {
        const E *const from = row<E>(arrays_.v, task, task.head, t + i) + task.first_column;
        widen_elements<E>(from, scratch_.v + i * task.columns, task.columns);
      }
      call.v = scratch_.v, call.v_step = columns;
      call.out = scratch_.out, call.out_step = queries * columns, call.answer_step = columns;
    }
    if (rule_.copies_rows()) {
      for (std::size_t i = 0; i < call.tokens; ++i) {
        for (std::size_t query = 0; query < call.queries; ++query) {
          const E *const from = row<E>(arrays_.q, task, first + query * next, t + i);
          copy_row(from, scratch_.q + (i * call.queries + query) * o_.key_dim, o_.key_dim, norm);
        }
        copy_row(row<E>(arrays_.k, task, k_head, t + i), scratch_.k + i * o_.key_dim, o_.key_dim, norm);
      }
      call.q = scratch_.q, call.q_step = queries * rows, call.query_step = rows;
      call.k = scratch_.k, call.k_step = rows;
    }
    const auto gates = [&](const Tensor &of) {
      return [&, t](std::size_t i) { return row<G>(of, task, task.head, t + i); };
    };
    prepare_gates(o_, gates(arrays_.g), gates(arrays_.beta), scratch_.decay, scratch_.beta, call);
  }
  // Rounds outputs of 16 bits.
  void finish(const Task &task, std::size_t t, const DeltaCall &call) const {
    if constexpr (sizeof(E) != sizeof(float)) {
      const std::size_t first = rule_.first_output(task.head), next = rule_.next_query();
      for (std::size_t i = 0; i < call.tokens; ++i) {
        for (std::size_t query = 0; query < call.queries; ++query) {
          E *const to = static_cast<E *>(o_out()) + offset(arrays_.out, task, first + query * next, t + i) +
                        task.first_column;
          narrow_elements<E>(scratch_.out + (i * call.queries + query) * task.columns, to, task.columns);
        }
      }
    }
  }
  void *o_out() const { return const_cast<void *>(arrays_.out.data); }

  const DeltaRule &rule_;
  const DeltaArrays &arrays_;
  const rapt_delta_rule_options &o_ = rule_.o;
  const DeltaRule::Scratch scratch_;
};

struct DeltaRun {
  const void *q, *k, *v;
  void *out;
  const rapt_delta_rule_options *options;
  Tasks tasks;
  Workspace workspace;

  rapt_status operator()() {
    DeltaRule rule;
    rapt_status status = rule.read(options);
    if (status == RAPT_OK) status = check_offsets(rule.o.offsets, rule.o.batch, rule.o.tokens);
    if (status != RAPT_OK) return status;
    if (!tasks.fit(rule.tasks())) return RAPT_BAD_TASKS;
    DeltaArrays arrays(rule);
    status = arrays.read(q, k, v, out);
    if (status != RAPT_OK) return status;
    const std::size_t bytes = rule.workspace_bytes();
    if (!workspace.holds(bytes)) return RAPT_BAD_WORKSPACE;
    status = arrays.check_workspace(workspace.memory(bytes));
    if (status != RAPT_OK) return status;
    with_element<float>(rule.o.type, [&](auto element) {
      using E = typename decltype(element)::type;
      const auto run = [&](const auto &of) {
        for (std::size_t task = tasks.first; task < tasks.last; ++task) of.run(task, task + 1 == tasks.last);
      };
      if (rule.o.gate_type == RAPT_F32) {
        run(DeltaTasks<E, float>(rule, arrays, workspace.aligned()));
      } else {
        run(DeltaTasks<E, E>(rule, arrays, workspace.aligned()));
      }
    });
    return RAPT_OK;
  }
};

}  // namespace
}  // namespace rapt

using namespace rapt;

rapt_status rapt_delta_rule_workspace(const rapt_delta_rule_options *options, size_t *bytes) {
  return query<DeltaRule>(options, bytes, [&](const DeltaRule &rule) { *bytes = rule.workspace_bytes(); });
}
rapt_status rapt_delta_rule_tasks(const rapt_delta_rule_options *options, size_t *tasks) {
  return query<DeltaRule>(options, tasks, [&](const DeltaRule &rule) { *tasks = rule.tasks(); });
}

rapt_status rapt_delta_rule(const void *q, const void *k, const void *v, void *out,
                            const rapt_delta_rule_options *options, void *workspace, size_t workspace_size) {
  return in_default_mode(DeltaRun{q, k, v, out, options, all_tasks, {workspace, workspace_size}});
}
rapt_status rapt_delta_rule_run(const void *q, const void *k, const void *v, void *out,
                                const rapt_delta_rule_options *options, size_t first, size_t last,
                                void *workspace, size_t workspace_size) {
  return in_default_mode(DeltaRun{q, k, v, out, options, {first, last}, {workspace, workspace_size}});
}
