#include "calls/delta_rule.hpp"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <span>
#include <string>
#include <string_view>

#include "support/options.hpp"
#include "support/remembered.hpp"

namespace rapt::test {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity(),
                 nan = std::numeric_limits<double>::quiet_NaN();

// What calls of the rule and of its gradients share.
class DeltaCall : public Call {
 public:
  template <class T>
  DeltaCall(const DeltaValues<T> &values, const Problem &problem, const Layout &layout)
      : Call(layout, problem.seed % 2 == 1),
        of_(problem.as<DeltaProblem>()),
        offsets_(values.offsets),
        split_seed_(problem.seed) {
    o_.size = sizeof o_;
    o_.type = is_short() && element_of<T> == Element::f32 ? RAPT_TYPE_DEFAULT : type_of(element_of<T>);
    o_.gate_type = is_short() ? RAPT_TYPE_DEFAULT : RAPT_F32;
    o_.batch = of_.batch, o_.tokens = of_.rows;
    o_.q_heads = of_.q_heads(), o_.k_heads = of_.k_heads(), o_.v_heads = of_.v_heads();
    if (is_short() && o_.k_heads == std::min(o_.q_heads, o_.v_heads)) o_.k_heads = 0;
    if (is_short() && o_.v_heads == o_.q_heads) o_.v_heads = 0;
    o_.key_dim = of_.key_dim;
    o_.value_dim = is_short() && of_.cols == of_.key_dim ? 0 : of_.cols;
    o_.interleaved_heads = of_.interleaved;
    o_.scale = of_.scale;
    o_.l2_norm = static_cast<int>(of_.l2_norm);
    o_.eps = of_.l2_norm == 0 ? 0 : problem.seed % 4 == 0 ? 0x1p-12 : 0;
    o_.decay_per_key = of_.per_key;

    add_tensor("q", element_of<T>, of_.q_heads(), of_.key_dim, 0, &q_, o_.q_strides, RAPT_BAD_Q)
        .hold(std::span(values.q));
    add_tensor("k", element_of<T>, of_.k_heads(), of_.key_dim, 1, &k_, o_.k_strides, RAPT_BAD_K)
        .hold(std::span(values.k));
    add_tensor("v", element_of<T>, of_.v_heads(), of_.cols, 1, &v_, o_.v_strides, RAPT_BAD_V)
        .hold(std::span(values.v));
    if (of_.decay) {
      add_tensor("g", Element::f32, of_.v_heads(), of_.per_key ? of_.key_dim : 1, 0, &o_.g, o_.g_strides,
                 RAPT_OK)
          .hold(std::span(values.g));
    }
    if (of_.beta) {
      add_tensor("beta", Element::f32, of_.v_heads(), 1, 1, &o_.beta, o_.beta_strides, RAPT_OK)
          .hold(std::span(values.beta));
    }
    if (of_.state) add_state("state", 0, &o_.state, o_.state_strides).hold(std::span(values.state));
    if (is_packed()) o_.offsets = offsets_.data();
  }
  const char *options() const override { return "rapt_delta_rule_options"; }
  bool has_work() const override { return all_tokens() > 0 && of_.cols > 0; }

 protected:
  bool is_packed() const { return of_.ragged; }
  std::size_t all_tokens() const {
    return is_packed() ? static_cast<std::size_t>(offsets_.back()) : of_.batch * of_.rows;
  }

  Operand &add_tensor(const char *name, Element element, std::size_t heads, std::size_t row, std::size_t slot,
                      void *pointer, rapt_strides &strides, rapt_status missing) {
    const std::size_t batch = is_packed() ? 1 : of_.batch;
    const std::size_t tokens = is_packed() ? static_cast<std::size_t>(offsets_.back()) : of_.rows;
    Operand &added = add(name, element, {batch, heads, tokens, row}, slot, pointer);
    added.missing = missing;
    // Packed sequences have no batch stride.
    added.stride_fields = {is_packed() ? nullptr : &strides.batch, &strides.head, &strides.token};
    strides_names_.emplace_back(std::string(name) + "_strides");
    added.stride_name = strides_names_.back().c_str();
    if (layout().attention.tokens_outside) added.put_tokens_outside();
    return added;
  }
  Operand &add_state(const char *name, std::size_t slot, void *pointer, rapt_state_strides &strides) {
    Operand &added =
        add(name, Element::f32, {of_.batch, of_.v_heads(), of_.key_dim, of_.cols}, slot, pointer);
    added.stride_fields = {&strides.batch, &strides.head, &strides.key, &strides.value};
    strides_names_.emplace_back(std::string(name == std::string("final_state") ? "final" : name) +
                                "_strides");
    added.stride_name = strides_names_.back().c_str();
    if (layout().attention.value_outside) {
      const auto gap = layout().gap[slot], keys = static_cast<std::ptrdiff_t>(of_.key_dim);
      added.strides[2] = 1;
      added.strides[3] = keys + gap;
      added.strides[1] = added.strides[3] * static_cast<std::ptrdiff_t>(of_.cols);
      added.strides[0] = added.strides[1] * static_cast<std::ptrdiff_t>(of_.v_heads());
    }
    return added;
  }

  void add_workspace(const Problem &problem,
                     rapt_status (*size)(const rapt_delta_rule_options *, std::size_t *)) {
    // The pointers come later.
    rapt_delta_rule_options shape = o_;
    shape.decay_per_key = of_.per_key, shape.g = this;
    size(&shape, &workspace_size_);
    Operand &workspace = add("workspace", Element::u8, {1, 1, 1, workspace_size_}, 2, &workspace_);
    workspace.set_rows_apart(0);
    workspace.role = Role::scratch;
    workspace.missing = workspace.bad_overlap = RAPT_BAD_WORKSPACE;
    if (problem.seed % 3 == 0) workspace.values.assign(workspace_size_, 0x3f);
  }
  // Runs the tasks of a call, the last ones first: run(first, last).
  template <class Run>
  rapt_status run_tasks(rapt_status (*count)(const rapt_delta_rule_options *, std::size_t *), Run run) {
    const bool one_by_one = layout().attention.calls == Calls::task_by_task;
    std::size_t tasks = 0;
    rapt_status status = count(given(o_), &tasks);
    Random random(split_seed_);
    // An empty run looks at all arguments.
    if (status == RAPT_OK) status = run(std::size_t{0}, std::size_t{0});
    for (std::size_t end = tasks; end > 0 && status == RAPT_OK;) {
      const std::size_t taken = one_by_one ? 1 : 1 + random.below(end);
      status = run(end - taken, end);
      end -= taken;
    }
    return status;
  }
  void add_limits_of_options(Limits &limits) {
    constexpr double least = 0x1p-126;
    limits.are_of(Where::options);
    limits.past("size", o_.size, RAPT_BAD_OPTIONS_SIZE,
                {0, sizeof o_ - 8, sizeof o_ - 1, sizeof o_ + 1, sizeof o_ + 8, SIZE_MAX});
    limits.past("type", o_.type, RAPT_BAD_TYPE, {RAPT_F64, RAPT_I8, RAPT_U8, 100, ~0u});
    limits.past("gate_type", o_.gate_type, RAPT_BAD_TYPE, {RAPT_F64, RAPT_I8, 100, ~0u});
    limits.past("batch", o_.batch, RAPT_BAD_SHAPE, {0});
    limits.past("q_heads", o_.q_heads, RAPT_BAD_SHAPE, {0});
    limits.past("q_heads", o_.q_heads, only(RAPT_BAD_SIZE) | only(RAPT_BAD_HEADS), {SIZE_MAX});
    limits.past("k_heads", o_.k_heads, RAPT_BAD_HEADS, {of_.v_heads() + 1, SIZE_MAX});
    limits.past("v_heads", o_.v_heads, only(RAPT_BAD_SIZE) | only(RAPT_BAD_HEADS), {SIZE_MAX});
    limits.past("key_dim", o_.key_dim, RAPT_BAD_SHAPE, {0});
    limits.past("key_dim", o_.key_dim, RAPT_BAD_SIZE, {SIZE_MAX, SIZE_MAX / 4});
    limits.past("value_dim", o_.value_dim, RAPT_BAD_SIZE, {SIZE_MAX, SIZE_MAX / 4});
    limits.past("scale", o_.scale, RAPT_BAD_SCALE, {nan, infinity, least / 2, 0x1p128});
    limits.past("l2_norm", o_.l2_norm, RAPT_BAD_L2_NORM, {-1, 3, INT32_MAX, INT32_MIN});
    if (of_.l2_norm == 0) {
      limits.past("eps", o_.eps, RAPT_BAD_EPS, {1e-6, nan, -1});
    } else {
      limits.at("eps", o_.eps, {least, 1});
      limits.past("eps", o_.eps, RAPT_BAD_EPS, {-1, nan, infinity, least / 2});
    }
    if (!of_.decay) limits.past("decay_per_key", o_.decay_per_key, RAPT_BAD_DECAY, {1, -1});
    if (!of_.decay) limits.past("g_strides", o_.g_strides.token, RAPT_BAD_G_STRIDES, {1});
    if (!of_.beta) limits.past("beta_strides", o_.beta_strides.head, RAPT_BAD_BETA_STRIDES, {1});
    if (!of_.state) limits.past("state_strides", o_.state_strides.key, RAPT_BAD_STATE_STRIDES, {1});
  }
  void add_limits_of_tensors(Limits &limits) {
    add_strides(limits, "q_strides", o_.q_strides, RAPT_BAD_Q_STRIDES, of_.q_heads());
    add_strides(limits, "k_strides", o_.k_strides, RAPT_BAD_K_STRIDES, of_.k_heads());
    add_strides(limits, "v_strides", o_.v_strides, RAPT_BAD_V_STRIDES, of_.v_heads());
    if (of_.decay) add_strides(limits, "g_strides", o_.g_strides, RAPT_BAD_G_STRIDES, of_.v_heads());
    if (of_.beta) add_strides(limits, "beta_strides", o_.beta_strides, RAPT_BAD_BETA_STRIDES, of_.v_heads());
    if (of_.key_dim > 1 && of_.cols > 1 && of_.state)
      limits.add({"state_strides", only(RAPT_BAD_STATE_STRIDES), [this] {
                    o_.state_strides = {1, 1, 2, 3};
                  }});
  }
  void add_limits_of_fields(Limits &limits) {
    limits.field("decay_per_key", o_.decay_per_key);
    limits.field("interleaved_heads", o_.interleaved_heads);
    limits.field("g", o_.g);
    limits.field("beta", o_.beta);
    limits.field("state", o_.state);
  }
  void add_limits_of_tokens(Limits &limits) {
    limits.at("interleaved_heads", o_.interleaved_heads, {of_.interleaved ? 1 : 0});
    if (!is_packed() || all_tokens() > 0)
      limits.past("tokens", o_.tokens,
                  only(RAPT_BAD_SIZE) | only(RAPT_BAD_Q) | only(RAPT_BAD_K) | only(RAPT_BAD_V) |
                      only(RAPT_BAD_OUT) | strides_of_tokens(),
                  {is_packed() ? 0 : SIZE_MAX / 2});
    limits.add({"offsets", only(RAPT_BAD_OFFSETS), [this] {
                  offsets_.assign(of_.batch + 1, 0);
                  offsets_[0] = -1;
                  o_.offsets = offsets_.data();
                }});
    limits.add({"offsets", only(RAPT_BAD_OFFSETS), [this] {
                  offsets_.assign(of_.batch + 1, 0);
                  offsets_.back() = static_cast<std::int32_t>(of_.rows) + 1;
                  o_.offsets = offsets_.data();
                }});
  }
  // Sizes past all limits may also leave out a stride.
  Statuses strides_of_tokens() const {
    return only(RAPT_BAD_Q_STRIDES) | only(RAPT_BAD_K_STRIDES) | only(RAPT_BAD_V_STRIDES) |
           only(RAPT_BAD_OUT_STRIDES) | only(RAPT_BAD_G_STRIDES) | only(RAPT_BAD_BETA_STRIDES) |
           only(RAPT_BAD_OFFSETS);
  }
  void add_strides(Limits &limits, const char *name, rapt_strides &strides, rapt_status bad,
                   std::size_t heads, std::size_t row_of_output = 0) {
    const std::size_t tokens = is_packed() ? static_cast<std::size_t>(offsets_.back()) : of_.rows;
    if (tokens <= 1) return;
    const auto set = [this, &strides, heads, tokens](std::ptrdiff_t token) {
      const auto row = static_cast<std::ptrdiff_t>(std::max(of_.key_dim, of_.cols));
      strides = {row * static_cast<std::ptrdiff_t>(tokens * heads), row * static_cast<std::ptrdiff_t>(tokens),
                 token};
    };
    limits.add({name, only(bad), [set] { set(-1); }});
    if (heads > 1) limits.add({name, only(bad), [set] { set(0); }});
    limits.add({name, only(RAPT_BAD_SIZE), [set] { set(PTRDIFF_MAX); }});
    if (row_of_output > 0) {
      limits.add({name, only(bad), [set] { set(RAPT_REPEAT); }});
      if (row_of_output > 1) limits.add({name, only(bad), [set] { set(1); }});
    }
  }

  const DeltaProblem of_;
  std::vector<std::int32_t> offsets_;
  std::uint64_t split_seed_;
  std::deque<std::string> strides_names_;
  rapt_delta_rule_options o_{};
  std::size_t workspace_size_ = 0;
  void *q_ = nullptr, *k_ = nullptr, *v_ = nullptr, *workspace_ = nullptr;
};

class DeltaRuleCall final : public DeltaCall {
 public:
  template <class T>
  DeltaRuleCall(const DeltaValues<T> &values, const Problem &problem, const Layout &layout)
      : DeltaCall(values, problem, layout) {
    Operand &out = add_tensor("out", element_of<T>, std::max(of_.q_heads(), of_.v_heads()), of_.cols, 2,
                              &out_, o_.out_strides, RAPT_BAD_OUT);
    out.role = Role::output;
    Operand &final_state = add_state("final_state", 2, &o_.final_state, o_.final_strides);
    final_state.role = Role::output;
    final_state.replaces = "state";
    add_workspace(problem, rapt_delta_rule_workspace);
  }

  rapt_status run() override {
    const Calls calls = layout().attention.calls;
    if (calls == Calls::task_by_task || calls == Calls::task_ranges)
      return run_tasks(rapt_delta_rule_tasks, [this](std::size_t first, std::size_t last) {
        return rapt_delta_rule_run(q_, k_, v_, out_, given(o_), first, last, workspace_, workspace_size_);
      });
    if (!is_packed() && (calls == Calls::query_by_query || calls == Calls::split_keys) && o_.final_state)
      return run_chunks(calls == Calls::query_by_query ? 1 : 3);
    if (calls == Calls::by_sequence && !is_packed()) return run_sequences();
    return rapt_delta_rule(q_, k_, v_, out_, given(o_), workspace_, workspace_size_);
  }
  std::vector<rapt_status> elsewhere(Where where) override {
    std::size_t number;
    if (where == Where::call) return {};
    return {rapt_delta_rule_workspace(given(o_), &number), rapt_delta_rule_tasks(given(o_), &number)};
  }

  void add_limits(Limits &limits) override {
    limits.are_of(Where::options);
    add_limits_of_options(limits);
    limits.past("window_stride", o_.window_stride, RAPT_BAD_STATE_WINDOW, {1, -1});
    limits.add({"state_window", only(RAPT_BAD_STATE_WINDOW), [this] {
                  o_.final_state = nullptr;
                  o_.final_strides = {0, 0, 0, 0};
                  o_.state_window = 1;
                }});
    add_limits_of_fields(limits);
    limits.field("state_window", o_.state_window);
    limits.are_of(Where::call);
    add_limits_of_tokens(limits);
    if (!has_work()) return;
    limits.past("workspace", workspace_size_, RAPT_BAD_WORKSPACE, {0, workspace_size_ - 1});
    add_limits_of_tensors(limits);
    add_strides(limits, "out_strides", o_.out_strides, RAPT_BAD_OUT_STRIDES,
                std::max(of_.q_heads(), of_.v_heads()), of_.cols);
    if (of_.key_dim > 1 && of_.cols > 1) {
      limits.add({"final_strides", only(RAPT_BAD_STATE_STRIDES), [this] { o_.final_strides.key = -1; }});
      limits.add({"final_strides", only(RAPT_BAD_STATE_STRIDES) | only(RAPT_BAD_OVERLAP), [this] {
                    o_.final_strides = {PTRDIFF_MAX / 64 / static_cast<std::ptrdiff_t>(of_.batch), 1 << 20, 2,
                                        1 << 12};
                  }});
      limits.add({"final_strides", only(RAPT_BAD_STATE_STRIDES), [this] {
                    o_.final_strides = {1, 1, 1, 1};
                  }});
    }
  }

 private:
  // Strides that have a default are filled in, because parts of a tensor need them.
  rapt_delta_rule_options with_strides() const {
    rapt_delta_rule_options o = o_;
    const auto set = [&](const char *name, rapt_strides &strides) {
      for (const Operand &operand : operands()) {
        if (std::string_view(operand.name) == name)
          strides = {operand.strides[0], operand.strides[1], operand.strides[2]};
      }
    };
    set("q", o.q_strides), set("k", o.k_strides), set("v", o.v_strides), set("out", o.out_strides);
    set("g", o.g_strides), set("beta", o.beta_strides);
    for (const Operand &operand : operands()) {
      const auto &s = operand.strides;
      if (std::string_view(operand.name) == "state") o.state_strides = {s[0], s[1], s[2], s[3]};
      if (std::string_view(operand.name) == "final_state") o.final_strides = {s[0], s[1], s[2], s[3]};
    }
    return o;
  }
  const unsigned char *at(const char *name, std::size_t sequence, std::size_t token) const {
    for (const Operand &operand : operands()) {
      if (std::string_view(operand.name) == name) return operand.row(sequence, 0, token);
    }
    return nullptr;
  }
  rapt_status run_part(const rapt_delta_rule_options &o, std::size_t sequence, std::size_t token) {
    rapt_delta_rule_options part = o;
    if (o.g) part.g = at("g", sequence, token);
    if (o.beta) part.beta = at("beta", sequence, token);
    return rapt_delta_rule(at("q", sequence, token), at("k", sequence, token), at("v", sequence, token),
                           const_cast<unsigned char *>(at("out", sequence, token)), &part, workspace_,
                           workspace_size_);
  }
  // Each chunk takes the state that the one before has left.
  rapt_status run_chunks(std::size_t most) {
    rapt_status status = rapt_delta_rule_run(q_, k_, v_, out_, given(o_), 0, 0, workspace_, workspace_size_);
    if (!has_work()) return rapt_delta_rule(q_, k_, v_, out_, given(o_), workspace_, workspace_size_);
    rapt_delta_rule_options o = with_strides();
    for (std::size_t t = 0; t < of_.rows && status == RAPT_OK; t += most) {
      o.tokens = std::min(most, of_.rows - t);
      status = run_part(o, 0, t);
      o.state = o.final_state;
      o.state_strides = o.final_strides;
    }
    return status;
  }
  rapt_status run_sequences() {
    rapt_status status = rapt_delta_rule_run(q_, k_, v_, out_, given(o_), 0, 0, workspace_, workspace_size_);
    if (!has_work()) return rapt_delta_rule(q_, k_, v_, out_, given(o_), workspace_, workspace_size_);
    rapt_delta_rule_options o = with_strides();
    o.batch = 1;
    for (std::size_t b = of_.batch; b-- > 0 && status == RAPT_OK;) {
      if (o_.state) o.state = o_.state + static_cast<std::ptrdiff_t>(b) * o.state_strides.batch;
      if (o_.final_state)
        o.final_state = o_.final_state + static_cast<std::ptrdiff_t>(b) * o.final_strides.batch;
      status = run_part(o, b, 0);
    }
    return status;
  }

  void *out_ = nullptr;
};

class DeltaBackwardCall final : public DeltaCall {
 public:
  template <class T>
  DeltaBackwardCall(const DeltaGradientValues<T> &gradients, const Problem &problem, const Layout &layout)
      : DeltaCall(gradients.values, problem, layout) {
    d_.size = sizeof d_;
    add_tensor("dout", element_of<T>, std::max(of_.q_heads(), of_.v_heads()), of_.cols, 0, &d_.dout,
               d_.dout_strides, RAPT_BAD_DOUT)
        .hold(std::span(gradients.dout));
    if (!gradients.dfinal.empty())
      add_state("dfinal", 0, &d_.dfinal, d_.dfinal_strides).hold(std::span(gradients.dfinal));
    const auto add_output = [&](const char *name, Element element, std::size_t heads, std::size_t row,
                                void *pointer, rapt_strides &strides, rapt_status missing) {
      add_tensor(name, element, heads, row, 2, pointer, strides, missing).role = Role::output;
    };
    add_output("dq", element_of<T>, of_.q_heads(), of_.key_dim, &d_.dq, d_.dq_strides, RAPT_BAD_DQ);
    add_output("dk", element_of<T>, of_.k_heads(), of_.key_dim, &d_.dk, d_.dk_strides, RAPT_BAD_DK);
    add_output("dv", element_of<T>, of_.v_heads(), of_.cols, &d_.dv, d_.dv_strides, RAPT_BAD_DV);
    if (of_.decay) {
      add_output("dg", Element::f32, of_.v_heads(), of_.per_key ? of_.key_dim : 1, &d_.dg, d_.dg_strides,
                 RAPT_OK);
    }
    if (of_.beta) add_output("dbeta", Element::f32, of_.v_heads(), 1, &d_.dbeta, d_.dbeta_strides, RAPT_OK);
    add_state("dstate", 2, &d_.dstate, d_.dstate_strides).role = Role::output;
    add_workspace(problem, rapt_delta_rule_backward_workspace);
  }

  rapt_status run() override {
    const Calls calls = layout().attention.calls;
    if (calls == Calls::task_by_task || calls == Calls::task_ranges) {
      return run_tasks(rapt_delta_rule_backward_tasks, [this](std::size_t first, std::size_t last) {
        return rapt_delta_rule_backward_run(q_, k_, v_, given(o_), &d_, first, last, workspace_,
                                            workspace_size_);
      });
    }
    return rapt_delta_rule_backward(q_, k_, v_, given(o_), &d_, workspace_, workspace_size_);
  }
  std::vector<rapt_status> elsewhere(Where where) override {
    std::size_t number;
    if (where == Where::call) return {};
    return {rapt_delta_rule_backward_workspace(given(o_), &number),
            rapt_delta_rule_backward_tasks(given(o_), &number)};
  }
  void add_limits(Limits &limits) override {
    limits.are_of(Where::options);
    add_limits_of_options(limits);
    add_limits_of_fields(limits);
    limits.are_of(Where::call);
    add_limits_of_tokens(limits);
    limits.past("gradients", d_.size, RAPT_BAD_GRADIENTS,
                {0, sizeof d_ - 8, sizeof d_ - 1, sizeof d_ + 1, sizeof d_ + 8, SIZE_MAX});
    if (!of_.decay) {
      limits.past("dg_strides", d_.dg_strides.token, RAPT_BAD_DG, {1});
      limits.add({"dg", only(RAPT_BAD_DG), [this] { d_.dg = this; }});
    }
    if (!of_.beta) {
      limits.past("dbeta_strides", d_.dbeta_strides.head, RAPT_BAD_DBETA, {1});
      limits.add({"dbeta", only(RAPT_BAD_DBETA), [this] { d_.dbeta = this; }});
    }
    if (!d_.dfinal) limits.past("dfinal_strides", d_.dfinal_strides.key, RAPT_BAD_STATE_STRIDES, {1});
    if (!has_work()) return;
    limits.past("workspace", workspace_size_, RAPT_BAD_WORKSPACE, {0, workspace_size_ - 1});
    add_limits_of_tensors(limits);
    add_strides(limits, "dout_strides", d_.dout_strides, RAPT_BAD_DOUT_STRIDES,
                std::max(of_.q_heads(), of_.v_heads()));
    add_strides(limits, "dq_strides", d_.dq_strides, RAPT_BAD_DQ_STRIDES, of_.q_heads(), of_.key_dim);
    add_strides(limits, "dk_strides", d_.dk_strides, RAPT_BAD_DK_STRIDES, of_.k_heads(), of_.key_dim);
    add_strides(limits, "dv_strides", d_.dv_strides, RAPT_BAD_DV_STRIDES, of_.v_heads(), of_.cols);
    if (of_.decay)
      add_strides(limits, "dg_strides", d_.dg_strides, RAPT_BAD_DG, of_.v_heads(),
                  of_.per_key ? of_.key_dim : 1);
    if (of_.beta) add_strides(limits, "dbeta_strides", d_.dbeta_strides, RAPT_BAD_DBETA, of_.v_heads(), 1);
    if (of_.key_dim > 1 && of_.cols > 1) {
      limits.add({"dstate_strides", only(RAPT_BAD_STATE_STRIDES), [this] { d_.dstate_strides.key = -1; }});
      limits.add({"dstate_strides", only(RAPT_BAD_STATE_STRIDES), [this] {
                    d_.dstate_strides = {1, 1, 1, 1};
                  }});
    }
  }

 private:
  rapt_delta_rule_gradients d_{};
};

// Rows of such numbers keep states of ordinary size: longer keys would make them grow without limit.
bool has_short_rows(InputClass input) {
  return input == InputClass::gaussian || input == InputClass::uniform;
}

template <class T>
std::vector<T> make_rows(const Problem &problem, Random &random, std::size_t rows, std::size_t n,
                         double factor) {
  std::vector<T> made(rows * n);
  for (std::size_t i = 0; n > 0 && i < made.size(); i += n)
    fill<T>(problem.input, random, std::span(made).subspan(i, n));
  if (has_short_rows(problem.input)) {
    for (T &x : made) x = T(static_cast<float>(static_cast<double>(static_cast<float>(x)) * factor));
  }
  return made;
}

template <class T>
DeltaValues<T> make_new_values(const Problem &problem) {
  const auto &of = problem.as<DeltaProblem>();
  Random random(problem.seed);
  DeltaValues<T> made;
  made.offsets.push_back(0);
  for (std::size_t b = 0; b < of.batch; ++b) {
    const std::size_t length = of.ragged ? random.below(of.rows + 1) : of.rows;
    made.offsets.push_back(made.offsets.back() + static_cast<std::int32_t>(length));
  }
  const std::size_t tokens = of.ragged ? static_cast<std::size_t>(made.offsets.back()) : of.batch * of.rows;
  const double shorter = 1 / (2 * std::sqrt(static_cast<double>(of.key_dim)));
  made.q = make_rows<T>(problem, random, tokens * of.q_heads(), of.key_dim, shorter);
  made.k = make_rows<T>(problem, random, tokens * of.k_heads(), of.key_dim, shorter);
  made.v = make_rows<T>(problem, random, tokens * of.v_heads(), of.cols, 1);
  for (std::size_t i = 0; of.decay && i < tokens * of.v_heads() * (of.per_key ? of.key_dim : 1); ++i) {
    const double usual = -random.uniform() * random.uniform();
    const std::size_t kind = random.below(40);
    const double special[] = {0, -0.0, -80, -87.4, -100, -infinity, 1};
    made.g.push_back(static_cast<float>(kind < std::size(special) ? special[kind] : usual));
  }
  for (std::size_t i = 0; of.beta && i < tokens * of.v_heads(); ++i) {
    const double usual = random.uniform();
    made.beta.push_back(random.one_in(20) ? random.one_of({0.0f, 1.0f, 2.0f, 0x1p-127f})
                                          : static_cast<float>(usual));
  }
  if (of.state)
    made.state = make_rows<float>(problem, random, of.batch * of.v_heads() * of.key_dim, of.cols, 0.5);
  return made;
}

template <class T>
DeltaGradientValues<T> make_new_gradients(const Problem &problem) {
  const auto &of = problem.as<DeltaProblem>();
  const DeltaValues<T> &values = make_delta_values<T>(problem);
  const std::size_t tokens = of.ragged ? static_cast<std::size_t>(values.offsets.back()) : of.batch * of.rows;
  Random random(problem.seed ^ 0x6772616473u);
  DeltaGradientValues<T> made;
  made.values = values;
  // Next to columns that do not exist, an infinite row of the state must not become NaN.
  std::vector<T> &rows = random.one_in(2) ? made.values.q : made.values.k;
  made.has_infinity = random.one_in(8) && !rows.empty();
  if (made.has_infinity)
    rows[random.below(rows.size())] = T(static_cast<float>(random.one_in(2) ? infinity : -infinity));
  made.dout = make_rows<T>(problem, random, tokens * std::max(of.q_heads(), of.v_heads()), of.cols, 1);
  if (!random.one_in(3))
    made.dfinal = make_rows<float>(problem, random, of.batch * of.v_heads() * of.key_dim, of.cols, 0.5);
  return made;
}

InputClass draw_input(Random &random) {
  return random.one_of({InputClass::gaussian, InputClass::gaussian, InputClass::gaussian, InputClass::uniform,
                        InputClass::gaussian_wide, InputClass::denormals, InputClass::tiny_rows,
                        InputClass::huge, InputClass::signed_zeros, InputClass::wide_exponents,
                        InputClass::specials});
}

}  // namespace

template <class T>
const DeltaValues<T> &make_delta_values(const Problem &problem) {
  return remembered(problem, [&] { return make_new_values<T>(problem); });
}
template const DeltaValues<float> &make_delta_values(const Problem &);
template const DeltaValues<F16> &make_delta_values(const Problem &);
template const DeltaValues<BF16> &make_delta_values(const Problem &);

std::unique_ptr<Call> make_delta_rule(Element element, const Problem &problem, const Layout &layout) {
  return with_float_type_of(element, [&]<class T>(T) -> std::unique_ptr<Call> {
    if constexpr (sizeof(T) <= 4) {
      return std::make_unique<DeltaRuleCall>(make_delta_values<T>(problem), problem, layout);
    } else {
      return nullptr;
    }
  });
}

template <class T>
const DeltaGradientValues<T> &make_delta_gradients(const Problem &problem) {
  return remembered(problem, [&] { return make_new_gradients<T>(problem); });
}
template const DeltaGradientValues<float> &make_delta_gradients(const Problem &);
template const DeltaGradientValues<F16> &make_delta_gradients(const Problem &);
template const DeltaGradientValues<BF16> &make_delta_gradients(const Problem &);

std::unique_ptr<Call> make_delta_rule_backward(Element element, const Problem &problem,
                                               const Layout &layout) {
  return with_float_type_of(element, [&]<class T>(T) -> std::unique_ptr<Call> {
    if constexpr (sizeof(T) <= 4) {
      return std::make_unique<DeltaBackwardCall>(make_delta_gradients<T>(problem), problem, layout);
    } else {
      return nullptr;
    }
  });
}

Problem draw_delta_problem(Random &random, std::size_t most) {
  DeltaProblem made;
  const std::size_t any_key = 1 + random.below(70), any_col = 1 + random.below(150);
  made.key_dim = random.one_in(3) ? random.one_of<std::size_t>({8, 16, 32, 64, 128}) : any_key;
  made.cols = random.one_in(3) ? random.one_of<std::size_t>({8, 16, 32, 64, 128}) : any_col;
  const std::size_t few = random.below(6), many = 1 + random.below(140);
  made.rows = random.one_in(4) ? many : few;
  made.batch = random.one_of<std::size_t>({1, 1, 2, 3});
  made.heads = random.one_of<std::size_t>({1, 1, 2, 3});
  made.q_group = random.one_of<std::size_t>({1, 1, 1, 2, 3});
  made.v_group = random.one_of<std::size_t>({1, 1, 2, 3, 8});
  const auto work = [&] { return made.key_dim * made.cols * made.batch * made.v_heads() * (made.rows + 4); };
  while (work() > most * 20) {
    if (made.rows > 3)
      made.rows /= 2;
    else if (made.batch > 1)
      --made.batch;
    else if (made.v_group > 1)
      --made.v_group;
    else if (made.key_dim > 1 || made.cols > 1)
      made.key_dim = (made.key_dim + 1) / 2, made.cols = (made.cols + 1) / 2;
    else
      break;
  }
  made.scale = random.one_of({0.0, 0.0, 1.0, -0.5, 0x1p-60});
  draw(random, made);
  Problem problem;
  problem.input = draw_input(random);
  problem.seed = random.below(1u << 24);
  problem.of = made;
  return problem;
}

Layout draw_delta_layout(Random &random, std::size_t element_size) {
  Layout layout = draw_attention_layout(random, element_size);
  layout.attention.value_outside = random.one_in(2);
  return layout;
}

std::vector<Problem> delta_rules_of_shapes() {
  std::vector<Problem> problems;
  std::size_t count = 0;
  const auto add = [&](std::size_t tokens, std::size_t key_dim, std::size_t cols, std::size_t v_group) {
    DeltaProblem made;
    made.rows = tokens, made.key_dim = key_dim, made.cols = cols, made.v_group = v_group;
    made.scale = 0;
    made.decay = count % 4 != 3, made.per_key = made.decay && count % 2 == 1;
    made.beta = count % 3 != 2, made.state = count % 5 != 4;
    made.q_group = v_group == 1 && count % 7 == 6 ? 2 : 1;
    problems.push_back({count % 6 == 5 ? InputClass::tiny_rows : InputClass::gaussian, 7000 + count, made});
    ++count;
  };
  for (const std::size_t cols :
       {1u, 3u, 4u, 8u, 15u, 16u, 17u, 31u, 32u, 33u, 63u, 64u, 65u, 80u, 127u, 128u, 129u}) {
    for (const std::size_t tokens : {1u, 3u}) {
      add(tokens, 5, cols, 1);
      add(tokens, 16, cols, 2);
      add(tokens, 33, cols, 16);
    }
  }
  for (const std::size_t tokens : {63u, 64u, 65u, 129u}) {
    add(tokens, 8, 40, 1);
    add(tokens, 17, 64, 1);
  }
  for (const std::size_t tokens : {1u, 2u, 5u}) {
    add(tokens, 128, 128, 1);
    add(tokens, 128, 128, 16);
  }
  return problems;
}

}  // namespace rapt::test
