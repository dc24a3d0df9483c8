// Tests arguments at the edge of what rapt.h allows, in calls that run no task. Arrays touch or share a byte,
// and numbers are at or past their limits. This code computes row by row what a call would read and write.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "oracle/attention_call.hpp"
#include "oracle/reached.hpp"

namespace rapt::test::oracle {

enum class Stage { whole, partial, merge, backward, count };

class AttentionEdges {
 public:
  // `memory` belongs to a backward call if the stage is Stage::backward, and to a forward call otherwise.
  AttentionEdges(const AttentionMemory &memory, Stage stage, std::uint64_t seed);

  // Registers the names of all arrays and of all limits. Drawn calls must reach each of them.
  static void expect_arrays(Reached &reached);
  static void expect_limits(Reached &reached);

  // Both return a description of a wrong status or count, or an empty string.
  std::string fault_of_touching(Reached &reached);
  std::string fault_of_limit(Reached &reached);

 private:
  // Describes a pointer argument, and which bytes from the pointer on the call may read or write.
  struct Array {
    std::string name;
    void *argument;
    std::size_t element;
    bool written;
    const void *list = nullptr;  // the contents, if the call's checks read them
    bool may_be_longer = false;  // the library assumes that the last sequence ends last
    std::size_t begin = SIZE_MAX, end = 0;
    void take(std::size_t first, std::size_t count) {
      begin = std::min(begin, first * element);
      end = std::max(end, (first + count) * element);
    }
    bool any() const { return end > begin; }
  };
  // Says what to check after a change: a call that runs no task, the counting functions, or both. `statuses`
  // checks only the statuses of the counting functions, not their counts.
  enum class Judges { call, counts, both, statuses };
  struct Verdict {
    std::string limit;  // empty if the change does not apply to the call
    rapt_status expected = RAPT_OK;
    Judges judges = Judges::call;
    bool is_other = false;  // expect any status except `expected`
  };

  template <class Pointer>
  Array array(const char *name, Pointer *&argument, std::size_t element, bool written = false);
  void add(Array made);
  void see_order(Array &made, const Placed &placed, std::size_t row) const;
  // Each of these extends the array by the rows that its name says, and adds it to arrays_.
  void add_queries(Array made, const Placed &placed, std::size_t row);
  void add_own_rows(Array made, const Placed &placed, bool by_key);
  std::size_t first_key_of_memory(std::size_t b) const;
  void add_keys(Array made, const Placed &placed, std::size_t row, std::size_t packed_block);
  void add_key_gradients(Array made, const Placed &placed, std::size_t row);
  void add_list(const char *name, const std::int32_t *&argument, std::size_t count);
  void add_key_lists();
  void add_inputs();
  void add_outputs();
  void add_gradients();
  unsigned char *place_of(std::size_t array) const;
  void place(std::size_t array, unsigned char *first);
  void place_all();
  std::string stage_name() const;
  rapt_status run(std::size_t first, std::size_t last);
  std::string fault_of_counts(const Verdict &verdict);
  // Each of these changes an argument, and returns the result to expect.
  Verdict change_dim();
  Verdict change_counts();
  Verdict change_types();
  Verdict change_gradient_type();
  Verdict change_shape();
  Verdict change_partials();
  Verdict change_table_stride();
  Verdict change_scale_group();
  Verdict change_scale();
  Verdict change_softcap();
  Verdict change_causal_offset();
  Verdict change_page_size();
  Verdict change_tasks();
  Verdict remove_array();
  Verdict change_workspace_size();
  Verdict change_lengths();
  Verdict change_offsets();
  Verdict change_starts();
  Verdict change_table();
  Verdict change_output_strides();
  Verdict change_extent();

  const AttentionMemory &m_;
  const AttentionProblem &p_;
  const Attention<double> &a_;
  Stage stage_;
  Random random_;
  const void *q_ = nullptr, *k_ = nullptr, *v_ = nullptr;
  void *out_ = nullptr, *partials_ = nullptr, *workspace_ = nullptr;
  std::size_t workspace_size_ = 0, tasks_ = 0, partials_length_ = 0, first_ = 0, last_ = 0, empty_arrays_ = 0;
  rapt_attention_options o_;
  rapt_attention_gradients g_ = RAPT_ATTENTION_GRADIENTS_INIT;
  Placed placed_out_, placed_lse_, placed_dout_, placed_dq_, placed_dk_, placed_dv_;
  std::vector<Array> arrays_;
};

}  // namespace rapt::test::oracle
