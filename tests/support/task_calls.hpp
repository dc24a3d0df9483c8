// Splits work into calls over ranges of tasks, with a workspace between guard pages.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>

#include "support/calls.hpp"
#include "support/guarded_buffer.hpp"
#include "support/random.hpp"

namespace rapt::test {

class TaskCalls {
 protected:
  TaskCalls(const Layout &layout, Calls calls, std::uint64_t seed)
      : layout_(layout), random_(seed), calls_(calls) {}

  void make_workspace(std::size_t bytes) {
    workspace_size_ = bytes;
    workspace_ =
        std::make_unique<GuardedBuffer>(bytes, layout_.placement, layout_.offset[0] + layout_.offset[2] / 4);
  }

  // Calls run(first, end) until all tasks are done. The layout says how to split them.
  template <class Run>
  void run_tasks(std::size_t tasks, Run &&run) {
    if (calls_ == Calls::task_ranges || calls_ == Calls::split_keys) {
      const std::size_t longest = random_.one_in(2) ? 3 : tasks;
      for (std::size_t first = 0; first < tasks;) {
        const std::size_t end = first + std::min(tasks - first, random_.below(longest + 1));
        call([&] { return run(first, end); });
        first = end;
      }
    } else if (calls_ == Calls::task_by_task) {
      for (std::size_t task = tasks; task > 0; --task) call([&] { return run(task - 1, task); });
    } else {
      call([&] { return run(0, tasks); });
    }
  }

  // Makes the call under the layout's floating-point state. The workspace holds arbitrary bytes before it.
  template <class Call>
  void call(Call &&make_call) {
    if (!outcome_.fault.empty()) return;  // one fault is enough
    std::memset(workspace_->data(), random_.one_in(2) ? canary : 0x3f, workspace_size_);
    rapt_status status = RAPT_OK;
    call_in_state(layout_, outcome_, [&] { status = make_call(); });
    check(status);
  }

  void check(rapt_status status) { check_status(status, outcome_); }

  void fault_unless(bool intact, const char *what) {
    if (!intact) outcome_.fault += std::string("wrote ") + what + "; ";
  }
  void check_workspace() { fault_unless(workspace_->surroundings_intact(), "outside the workspace"); }

  const Layout &layout_;
  Random random_;
  Outcome outcome_;
  std::size_t workspace_size_ = 0;
  std::unique_ptr<GuardedBuffer> workspace_;

 private:
  Calls calls_;
};

}  // namespace rapt::test
