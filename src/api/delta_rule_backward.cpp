// Implements rapt_delta_rule_backward. Each call checks its arguments before it writes anything.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>

#include "api/delta_options.hpp"
#include "api/delta_rows.hpp"
#include "api/floating_point.hpp"
#include "api/query.hpp"
#include "call/delta_backward_call.hpp"
#include "dispatch/dispatch.hpp"

namespace rapt {
namespace {

// All states of a chunk are in memory at a time, and the state before each chunk. Chunks of 16 tokens fit L2; long
// sequences have longer ones, for less memory.
constexpr std::size_t least_chunk = 16, most_chunks = 128;

// A state and its gradient in the caller's memory.
struct StateTensor : DeltaTensor {
  rapt_status read_states(const DeltaRule &rule, const float *from, const rapt_state_strides &with,
                          Repeats repeats) {
    if (!from) return is_zero(with) ? RAPT_OK : RAPT_BAD_STATE_STRIDES;
    const std::size_t all[] = {rule.o.batch, rule.o.v_heads, rule.o.key_dim, rule.o.value_dim};
    std::memcpy(sizes, all, sizeof all);
    const std::ptrdiff_t given[] = {with.batch, with.head, with.key, with.value};
    const rapt_status status = read(from, sizeof(float), 4, sizes, given, repeats, RAPT_BAD_STATE_STRIDES);
    if (status != RAPT_OK) return status;
    const bool fits = rule.has_unit(*this) && (repeats == Repeats::yes || elements_are_apart());
    return fits ? RAPT_OK : RAPT_BAD_STATE_STRIDES;
  }
};

// Returns the greatest one. std::gcd would become TZCNT, which baseline code must not have.
std::size_t common_divisor(std::size_t a, std::size_t b) {
  while (b != 0) {
    const std::size_t rest = a % b;
    a = b, b = rest;
  }
  return a;
}

// A forward call's options, and what the work on its gradients follows from.
struct DeltaBackward : DeltaRule {
  std::size_t chunk = 0, chunks = 0;  // tokens of a chunk, and the most chunks of a sequence
  std::size_t groups = 0;             // of heads that share no head of q or k

  std::size_t tasks() const { return o.batch * groups; }
  std::size_t group_heads() const { return o.v_heads / groups; }
  bool shares_q() const { return o.q_heads < o.v_heads; }
  bool shares_k() const { return o.k_heads < o.v_heads; }
  // Heads of q, or of k, of a group, where several states share them.
  std::size_t q_group() const { return shares_q() ? o.q_heads / groups : 0; }
  std::size_t k_group() const { return shares_k() ? o.k_heads / groups : 0; }
  std::size_t head_of(std::size_t group, std::size_t number) const {
    return o.interleaved_heads ? group + number * groups : group * group_heads() + number;
  }
  // The place of head h of n among those of its group.
  std::size_t place_of(std::size_t h, std::size_t n) const {
    return o.interleaved_heads ? h / groups : h % (n / groups);
  }
  // Whether no state before that of the head shares its head of n.
  bool is_first(std::size_t head, std::size_t n) const {
    return o.interleaved_heads ? head < n : head % (o.v_heads / n) == 0;
  }

  rapt_status read(const rapt_delta_rule_options *given) {
    const rapt_status status = DeltaRule::read(given);
    if (status != RAPT_OK) return status;
    const std::size_t fewest = shares_q() ? o.q_heads : o.v_heads;
    groups = common_divisor(fewest, o.k_heads);
    chunk = o.tokens / most_chunks + (o.tokens % most_chunks != 0);
    if (chunk < least_chunk) chunk = least_chunk < o.tokens ? least_chunk : o.tokens;
    chunks = chunk == 0 ? 0 : o.tokens / chunk + (o.tokens % chunk != 0);
    return fits() ? RAPT_OK : RAPT_BAD_SIZE;
  }

  // The arrays of a task in the workspace. Without memory it counts the bytes.
  struct Scratch {
    float *states, *gradient, *kernel, *q, *k, *v, *dout, *decay, *beta, *dq, *dk, *dv, *dg, *dbeta, *row;
    float *q_sums, *k_sums;  // [heads of the group][tokens][key_dim]
    std::size_t bytes;
  };
  Scratch scratch(void *memory) const {
    Carved carved(memory);
    const DeltaBackwardScratch parts(o.key_dim, o.value_dim);
    const std::size_t copied = copies_rows() ? chunk : 0, widened = o.type != RAPT_F32 ? chunk : 0;
    const std::size_t gates = o.decay_per_key ? o.key_dim : 1;
    Scratch made{};
    made.states = carved.take<float>(chunks * parts.state);
    made.gradient = carved.take<float>(parts.state);
    made.kernel = carved.take<float>(parts.size(o.key_dim, chunk, queries()));
    made.q = carved.take<float>(copied * queries() * o.key_dim);
    made.k = carved.take<float>(copied * o.key_dim);
    made.v = carved.take<float>(widened * o.value_dim);
    made.dout = carved.take<float>(widened * queries() * o.value_dim);
    made.decay = carved.take<float>(chunk * gates);
    made.beta = carved.take<float>(chunk);
    made.dq = carved.take<float>(chunk * queries() * o.key_dim);
    made.dk = carved.take<float>(chunk * o.key_dim);
    made.dv = carved.take<float>(widened * o.value_dim);
    made.dg = carved.take<float>(chunk * gates);
    made.dbeta = carved.take<float>(chunk);
    made.row = carved.take<float>(o.key_dim);
    made.q_sums = carved.take<float>(q_group() * o.tokens * o.key_dim);
    made.k_sums = carved.take<float>(k_group() * o.tokens * o.key_dim);
    made.bytes = carved.bytes();
    return made;
  }
  std::size_t workspace_bytes() const { return scratch(nullptr).bytes + workspace_alignment; }

 private:
  // Whether the workspace is below half the address space, with room for what this leaves out.
  bool fits() const {
    const auto number = [](std::size_t x) { return static_cast<double>(x); };
    const double tokens = number(chunk) + 2, rows = number(o.key_dim) + number(delta_pitch(o.value_dim));
    const double states = (number(chunks) + tokens) * number(o.key_dim) * number(delta_pitch(o.value_dim));
    const double others = (tokens + 2) * (4 * number(queries()) + 64) * rows;
    const double sums = number(q_group() + k_group()) * number(o.tokens) * number(o.key_dim);
    return 4 * (states + others + sums) < static_cast<double>(PTRDIFF_MAX / 2);
  }
};

// The arrays of a call, with the strides of kernels.
class DeltaBackwardArrays {
 public:
  rapt_delta_rule_gradients gradients = RAPT_DELTA_RULE_GRADIENTS_INIT;
  DeltaTensor q, k, v, dout, g, beta, dq, dk, dv, dg, dbeta;
  StateTensor state, dfinal, dstate;

  explicit DeltaBackwardArrays(const DeltaBackward &of) : rule(of), o(of.o) {}

  rapt_status read_gradients(const rapt_delta_rule_gradients *given) {
    if (!given) return RAPT_BAD_GRADIENTS;
    if (read_options(given, gradients) != RAPT_OK) return RAPT_BAD_GRADIENTS;
    const auto fits = [](const void *wanted, const void *of, const rapt_strides &strides) {
      return wanted ? of != nullptr : all_zero({strides.batch, strides.head, strides.token});
    };
    if (!fits(gradients.dg, o.g, gradients.dg_strides)) return RAPT_BAD_DG;
    return fits(gradients.dbeta, o.beta, gradients.dbeta_strides) ? RAPT_OK : RAPT_BAD_DBETA;
  }
  rapt_status read(const void *q_data, const void *k_data, const void *v_data) {
    const std::size_t keys = o.key_dim, values = o.value_dim, gates = o.decay_per_key ? o.key_dim : 1;
    const std::size_t out_heads = rule.out_heads();
    const rapt_delta_rule_gradients &d = gradients;
    const struct {
      DeltaTensor &tensor;
      const void *data;
      std::size_t heads, row;
      const rapt_strides &strides;
      rapt_type type;
      rapt_status bad;
      Repeats repeats = Repeats::yes;
    } all[] = {
        {q, q_data, o.q_heads, keys, o.q_strides, o.type, RAPT_BAD_Q_STRIDES},
        {k, k_data, o.k_heads, keys, o.k_strides, o.type, RAPT_BAD_K_STRIDES},
        {v, v_data, o.v_heads, values, o.v_strides, o.type, RAPT_BAD_V_STRIDES},
        {dout, d.dout, out_heads, values, d.dout_strides, o.type, RAPT_BAD_DOUT_STRIDES},
        {g, o.g, o.v_heads, gates, o.g_strides, o.gate_type, RAPT_BAD_G_STRIDES},
        {beta, o.beta, o.v_heads, 1, o.beta_strides, o.gate_type, RAPT_BAD_BETA_STRIDES},
        {dq, d.dq, o.q_heads, keys, d.dq_strides, o.type, RAPT_BAD_DQ_STRIDES, Repeats::no},
        {dk, d.dk, o.k_heads, keys, d.dk_strides, o.type, RAPT_BAD_DK_STRIDES, Repeats::no},
        {dv, d.dv, o.v_heads, values, d.dv_strides, o.type, RAPT_BAD_DV_STRIDES, Repeats::no},
        {dg, d.dg, o.v_heads, gates, d.dg_strides, o.gate_type, RAPT_BAD_DG, Repeats::no},
        {dbeta, d.dbeta, o.v_heads, 1, d.dbeta_strides, o.gate_type, RAPT_BAD_DBETA, Repeats::no},
    };
    for (const auto &of : all) {
      if (!of.data && is_gate(of.tensor)) continue;
      rapt_status status =
          of.tensor.read_rows(o, of.data, of.heads, of.row, of.strides, of.type, of.repeats, of.bad);
      if (status != RAPT_OK) return status;
      if (of.repeats == Repeats::no && of.tensor.bytes > 0 && !of.tensor.elements_are_apart()) return of.bad;
    }
    rapt_status status = state.read_states(rule, o.state, o.state_strides, Repeats::yes);
    if (status == RAPT_OK) status = dfinal.read_states(rule, d.dfinal, d.dfinal_strides, Repeats::yes);
    if (status == RAPT_OK) status = dstate.read_states(rule, d.dstate, d.dstate_strides, Repeats::no);
    return status == RAPT_OK ? check() : status;
  }
  rapt_status check_workspace(Strided workspace) const {
    if (!workspace.measure()) return RAPT_BAD_SIZE;
    for (std::size_t i = 0; i < input_count + output_count; ++i) {
      const Tensor &tensor = i < input_count ? *inputs(i) : *outputs(i - input_count);
      if (tensor.data && workspace.overlaps(tensor.data, tensor.bytes)) return RAPT_BAD_WORKSPACE;
    }
    return RAPT_OK;
  }

 private:
  const DeltaBackward &rule;
  const rapt_delta_rule_options &o;
  static constexpr std::size_t input_count = 8, output_count = 6;

  bool is_gate(const DeltaTensor &of) const {
    return &of == &g || &of == &beta || &of == &dg || &of == &dbeta;
  }
  const Tensor *inputs(std::size_t i) const {
    const Tensor *const all[input_count] = {&q, &k, &v, &dout, &g, &beta, &state, &dfinal};
    return all[i];
  }
  const Tensor *outputs(std::size_t i) const {
    const Tensor *const all[output_count] = {&dq, &dk, &dv, &dg, &dbeta, &dstate};
    return all[i];
  }
  rapt_status check() const {
    if (rule.all_tokens() > 0) {
      if (!q.data) return RAPT_BAD_Q;
      if (!k.data) return RAPT_BAD_K;
      if (!v.data) return RAPT_BAD_V;
      if (!dout.data) return RAPT_BAD_DOUT;
      if (!dq.data) return RAPT_BAD_DQ;
      if (!dk.data) return RAPT_BAD_DK;
      if (!dv.data) return RAPT_BAD_DV;
    }
    for (std::size_t out = 0; out < output_count; ++out) {
      const Tensor &output = *outputs(out);
      if (!output.data) continue;
      for (std::size_t i = 0; i < input_count; ++i) {
        if (inputs(i)->data && output.overlaps(*inputs(i))) return RAPT_BAD_OVERLAP;
      }
      for (std::size_t i = 0; i < out; ++i) {
        if (outputs(i)->data && output.overlaps(*outputs(i))) return RAPT_BAD_OVERLAP;
      }
    }
    return RAPT_OK;
  }
};

// Computes tasks of a call. E is the type of q, k, v and their gradients, G that of g and beta.
template <class E, class G>
class DeltaBackwardTasks {
 public:
  DeltaBackwardTasks(const DeltaBackward &rule, const DeltaBackwardArrays &arrays, void *workspace)
      : rule_(rule), arrays_(arrays), scratch_(rule.scratch(workspace)) {}

  void run(std::size_t task) const {
    Task made{task / rule_.groups, task % rule_.groups, 0, o_.tokens};
    if (o_.offsets) {
      made.first_token = static_cast<std::size_t>(o_.offsets[made.sequence]);
      made.tokens = static_cast<std::size_t>(o_.offsets[made.sequence + 1]) - made.first_token;
    }
    for (std::size_t i = 0; i < rule_.group_heads(); ++i) run_head(made, rule_.head_of(made.group, i));
    if (made.tokens == 0) return;
    finish_sums(made, arrays_.q, arrays_.dq, scratch_.q_sums, o_.q_heads, rule_.q_group());
    finish_sums(made, arrays_.k, arrays_.dk, scratch_.k_sums, o_.k_heads, rule_.k_group());
  }

 private:
  struct Task {
    std::size_t sequence, group, first_token, tokens;
  };

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
  template <class T>
  T *output(const Tensor &of, const Task &task, std::size_t head, std::size_t token) const {
    return const_cast<T *>(row<T>(of, task, head, token));
  }
  const float *state(const Tensor &of, const Task &task, std::size_t head) const {
    if (!of.data) return nullptr;
    return static_cast<const float *>(of.data) + static_cast<std::ptrdiff_t>(task.sequence) * of.strides[0] +
           static_cast<std::ptrdiff_t>(head) * of.strides[1];
  }

  // Copies a state into rows of scratch, or zeros.
  void load_state(const Tensor &of, const Task &task, std::size_t head, float *to) const {
    const float *const from = state(of, task, head);
    const StateLayout layout = from ? rule_.layout(of) : StateLayout{};
    const std::size_t pitch = delta_pitch(o_.value_dim);
    for (std::size_t i = 0; i < o_.key_dim; ++i) {
      for (std::size_t j = 0; j < pitch; ++j) {
        const auto down = static_cast<std::ptrdiff_t>(i), across = static_cast<std::ptrdiff_t>(j);
        to[i * pitch + j] = from && j < o_.value_dim ? from[down * layout.key + across * layout.value] : 0.0f;
      }
    }
  }
  void store_gradient(const Task &task, std::size_t head) const {
    if (!arrays_.dstate.data) return;
    float *const to = const_cast<float *>(state(arrays_.dstate, task, head));
    const StateLayout layout = rule_.layout(arrays_.dstate);
    for (std::size_t i = 0; i < o_.key_dim; ++i) {
      for (std::size_t j = 0; j < o_.value_dim; ++j) {
        const auto down = static_cast<std::ptrdiff_t>(i), across = static_cast<std::ptrdiff_t>(j);
        to[down * layout.key + across * layout.value] = scratch_.gradient[i * delta_pitch(o_.value_dim) + j];
      }
    }
  }

  void run_head(const Task &task, std::size_t head) const {
    load_state(arrays_.dfinal, task, head, scratch_.gradient);
    if (task.tokens == 0) return store_gradient(task, head);
    const std::size_t state = DeltaBackwardScratch(o_.key_dim, o_.value_dim).state;
    const std::size_t chunks = (task.tokens - 1) / rule_.chunk + 1;
    load_state(arrays_.state, task, head, scratch_.states);
    DeltaBackwardCall call{};
    call.key_dim = o_.key_dim, call.columns = o_.value_dim, call.queries = rule_.queries();
    call.scale = rule_.scale, call.scratch = scratch_.kernel, call.gradient = scratch_.gradient;
    const auto run_chunk = [&](std::size_t chunk, bool has_gradients) {
      const std::size_t first = chunk * rule_.chunk, left = task.tokens - first;
      call.tokens = left < rule_.chunk ? left : rule_.chunk;
      call.before = scratch_.states + chunk * state;
      call.after = has_gradients ? nullptr : scratch_.states + (chunk + 1) * state;
      prepare(task, head, first, call);
      kernels().f32.delta_rule_backward(&call);
      if (has_gradients) finish(task, head, first, call);
    };
    for (std::size_t chunk = 0; chunk + 1 < chunks; ++chunk) run_chunk(chunk, false);
    for (std::size_t chunk = chunks; chunk-- > 0;) run_chunk(chunk, true);
    store_gradient(task, head);
  }

  // Points at the rows of the tokens from t on, as they are or as copies.
  void prepare(const Task &task, std::size_t head, std::size_t t, DeltaBackwardCall &call) const {
    const std::size_t query = rule_.first_query(head), next = rule_.next_query(), k_head = rule_.k_head(head);
    const std::size_t out = rule_.first_output(head), n = o_.key_dim, m = o_.value_dim;
    const auto keys = static_cast<std::ptrdiff_t>(n), values = static_cast<std::ptrdiff_t>(m),
               queries = static_cast<std::ptrdiff_t>(call.queries), heads = static_cast<std::ptrdiff_t>(next);
    const bool has_gradients = !call.after;
    if constexpr (sizeof(E) == sizeof(float)) {
      if (!rule_.copies_rows()) {
        call.q = row<float>(arrays_.q, task, query, t), call.k = row<float>(arrays_.k, task, k_head, t);
        call.q_step = arrays_.q.strides[2], call.k_step = arrays_.k.strides[2];
        call.query_step = heads * arrays_.q.strides[1];
      }
      call.v = row<float>(arrays_.v, task, head, t), call.v_step = arrays_.v.strides[2];
      call.dout = row<float>(arrays_.dout, task, out, t), call.dout_step = arrays_.dout.strides[2];
      call.answer_step = heads * arrays_.dout.strides[1];
      call.dv = output<float>(arrays_.dv, task, head, t), call.dv_step = arrays_.dv.strides[2];
    } else {
      for (std::size_t i = 0; i < call.tokens; ++i) {
        widen_elements<E>(row<E>(arrays_.v, task, head, t + i), scratch_.v + i * m, m);
        for (std::size_t x = 0; has_gradients && x < call.queries; ++x) {
          widen_elements<E>(row<E>(arrays_.dout, task, out + x * next, t + i),
                            scratch_.dout + (i * call.queries + x) * m, m);
        }
      }
      call.v = scratch_.v, call.v_step = values;
      call.dout = scratch_.dout, call.dout_step = queries * values, call.answer_step = values;
      call.dv = scratch_.dv, call.dv_step = values;
    }
    if (rule_.copies_rows()) {
      const DeltaNorm norm{o_.l2_norm, rule_.eps};
      for (std::size_t i = 0; i < call.tokens; ++i) {
        for (std::size_t x = 0; has_gradients && x < call.queries; ++x) {
          copy_row(row<E>(arrays_.q, task, query + x * next, t + i), scratch_.q + (i * call.queries + x) * n,
                   n, norm);
        }
        copy_row(row<E>(arrays_.k, task, k_head, t + i), scratch_.k + i * n, n, norm);
      }
      call.q = scratch_.q, call.q_step = queries * keys, call.query_step = keys;
      call.k = scratch_.k, call.k_step = keys;
    }
    call.dq = scratch_.dq, call.dk = scratch_.dk, call.dg = scratch_.dg, call.dbeta = scratch_.dbeta;
    const auto gates = [&](const Tensor &of) {
      return [&, head, t](std::size_t i) { return row<G>(of, task, head, t + i); };
    };
    prepare_gates(o_, gates(arrays_.g), gates(arrays_.beta), scratch_.decay, scratch_.beta, call);
  }

  // Stores or sums a chunk's results.
  void finish(const Task &task, std::size_t head, std::size_t t, const DeltaBackwardCall &call) const {
    const std::size_t n = o_.key_dim, first = rule_.first_query(head), next = rule_.next_query();
    if (rule_.shares_q()) {
      float *const sums = sums_of(scratch_.q_sums, rule_.place_of(first, o_.q_heads), t);
      take_sum(call.dq, sums, call.tokens * n, rule_.is_first(head, o_.q_heads));
    } else {
      for (std::size_t i = 0; i < call.tokens; ++i) {
        for (std::size_t x = 0; x < call.queries; ++x) {
          finish_row(row<E>(arrays_.q, task, first + x * next, t + i), call.dq + (i * call.queries + x) * n,
                     output<E>(arrays_.dq, task, first + x * next, t + i));
        }
      }
    }
    const std::size_t k_head = rule_.k_head(head);
    if (rule_.shares_k()) {
      float *const sums = sums_of(scratch_.k_sums, rule_.place_of(k_head, o_.k_heads), t);
      take_sum(call.dk, sums, call.tokens * n, rule_.is_first(head, o_.k_heads));
    } else {
      for (std::size_t i = 0; i < call.tokens; ++i) {
        finish_row(row<E>(arrays_.k, task, k_head, t + i), call.dk + i * n,
                   output<E>(arrays_.dk, task, k_head, t + i));
      }
    }
    const std::size_t gates = o_.decay_per_key ? n : 1;
    for (std::size_t i = 0; i < call.tokens; ++i) {
      if constexpr (sizeof(E) != sizeof(float)) {
        narrow_elements<E>(scratch_.dv + i * o_.value_dim, output<E>(arrays_.dv, task, head, t + i),
                           o_.value_dim);
      }
      if (arrays_.dg.data) store(call.dg + i * gates, output<G>(arrays_.dg, task, head, t + i), gates);
      if (arrays_.dbeta.data) store(call.dbeta + i, output<G>(arrays_.dbeta, task, head, t + i), 1);
    }
  }
  template <class T>
  static void store(const float *from, T *to, std::size_t n) {
    if constexpr (sizeof(T) == sizeof(float)) {
      std::memcpy(to, from, n * sizeof(float));
    } else {
      narrow_elements<T>(from, to, n);
    }
  }
  float *sums_of(float *all, std::size_t place, std::size_t t) const {
    return all + (place * o_.tokens + t) * o_.key_dim;
  }
  static void take_sum(const float *from, float *sums, std::size_t n, bool is_first) {
    if (is_first) {
      std::memcpy(sums, from, n * sizeof(float));
    } else {
      for (std::size_t i = 0; i < n; ++i) sums[i] += from[i];
    }
  }
  void finish_sums(const Task &task, const Tensor &of, const Tensor &gradient, float *sums, std::size_t heads,
                   std::size_t count) const {
    for (std::size_t place = 0; place < count; ++place) {
      const std::size_t head = o_.interleaved_heads ? task.group + place * rule_.groups
                                                    : task.group * (heads / rule_.groups) + place;
      for (std::size_t t = 0; t < task.tokens; ++t) {
        finish_row(row<E>(of, task, head, t), sums_of(sums, place, t), output<E>(gradient, task, head, t));
      }
    }
  }
  // Stores the gradient of a row of q or k. `d` is that of the row divided by its length.
  void finish_row(const E *x, float *d, E *to) const {
    const std::size_t n = o_.key_dim;
    const DeltaNorm norm{o_.l2_norm, rule_.eps};
    if (norm.kind != RAPT_L2_NORM_NONE) {
      copy_row(x, scratch_.row, n, {});
      norm.take_back(scratch_.row, d, n);
    }
    store(d, to, n);
  }

  const DeltaBackward &rule_;
  const DeltaBackwardArrays &arrays_;
  const rapt_delta_rule_options &o_ = rule_.o;
  const DeltaBackward::Scratch scratch_;
};

struct DeltaBackwardRun {
  const void *q, *k, *v;
  const rapt_delta_rule_options *options;
  const rapt_delta_rule_gradients *gradients;
  Tasks tasks;
  Workspace workspace;

  rapt_status operator()() {
    DeltaBackward rule;
    rapt_status status = rule.read(options);
    DeltaBackwardArrays arrays(rule);
    if (status == RAPT_OK) status = arrays.read_gradients(gradients);
    if (status == RAPT_OK) status = check_offsets(rule.o.offsets, rule.o.batch, rule.o.tokens);
    if (status != RAPT_OK) return status;
    if (!tasks.fit(rule.tasks())) return RAPT_BAD_TASKS;
    status = arrays.read(q, k, v);
    if (status != RAPT_OK) return status;
    const std::size_t bytes = rule.workspace_bytes();
    if (!workspace.holds(bytes)) return RAPT_BAD_WORKSPACE;
    status = arrays.check_workspace(workspace.memory(bytes));
    if (status != RAPT_OK) return status;
    with_element<float>(rule.o.type, [&](auto element) {
      using E = typename decltype(element)::type;
      const auto run = [&](const auto &of) {
        for (std::size_t task = tasks.first; task < tasks.last; ++task) of.run(task);
      };
      if (rule.o.gate_type == RAPT_F32) {
        run(DeltaBackwardTasks<E, float>(rule, arrays, workspace.aligned()));
      } else {
        run(DeltaBackwardTasks<E, E>(rule, arrays, workspace.aligned()));
      }
    });
    return RAPT_OK;
  }
};

}  // namespace
}  // namespace rapt

using namespace rapt;

rapt_status rapt_delta_rule_backward_workspace(const rapt_delta_rule_options *options, size_t *bytes) {
  return query<DeltaBackward>(options, bytes,
                              [&](const DeltaBackward &rule) { *bytes = rule.workspace_bytes(); });
}
rapt_status rapt_delta_rule_backward_tasks(const rapt_delta_rule_options *options, size_t *tasks) {
  return query<DeltaBackward>(options, tasks, [&](const DeltaBackward &rule) { *tasks = rule.tasks(); });
}

rapt_status rapt_delta_rule_backward(const void *q, const void *k, const void *v,
                                     const rapt_delta_rule_options *options,
                                     const rapt_delta_rule_gradients *gradients, void *workspace,
                                     size_t workspace_size) {
  return in_default_mode(
      DeltaBackwardRun{q, k, v, options, gradients, all_tasks, {workspace, workspace_size}});
}
rapt_status rapt_delta_rule_backward_run(const void *q, const void *k, const void *v,
                                         const rapt_delta_rule_options *options,
                                         const rapt_delta_rule_gradients *gradients, size_t first,
                                         size_t last, void *workspace, size_t workspace_size) {
  return in_default_mode(
      DeltaBackwardRun{q, k, v, options, gradients, {first, last}, {workspace, workspace_size}});
}
