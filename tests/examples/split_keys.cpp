// Decodes one token over a long context. Chunks of 512 keys are separate tasks, and a merge combines their
// results.
//
// One query has only one task per key/value head, so most cores would be idle. Batches and prompts have
// enough tasks without a split. rapt::parallel_attention (see threads.cpp) splits keys only if necessary.
//
// Output:
//   2 tasks whole, 8 with split keys
//   the same bits: yes
#include <cstdio>
#include <rapt/rapt.hpp>
#include <thread>

#include "random.hpp"

constexpr std::size_t q_heads = 8, kv_heads = 2, keys = 2000, dim = 64;

int main() {
  rapt_attention_options options = rapt::attention_options();
  options.q_heads = q_heads;
  options.kv_heads = kv_heads;
  options.q_len = 1;
  options.kv_len = keys;
  options.qk_dim = dim;
  const std::vector<float> q = random_numbers(q_heads * dim, 1);
  const std::vector<float> k = random_numbers(kv_heads * keys * dim, 2), v = random_numbers(k.size(), 3);
  std::vector<float> whole(q.size()), split(q.size());

  std::vector<std::byte> workspace(rapt::attention_workspace<float>(options));
  if (rapt::attention(q, k, v, whole, options, workspace) != RAPT_OK) return 1;

  std::size_t tasks = 0, length = 0;
  if (rapt_attention_partial_tasks(&options, &tasks, &length) != RAPT_OK) return 1;
  std::vector<float> partials(length);
  std::vector<rapt_status> statuses(tasks);
  {
    std::vector<std::jthread> threads;
    for (std::size_t task = 0; task < tasks; ++task) {
      threads.emplace_back([&, task] {
        std::vector<std::byte> own(workspace.size());
        statuses[task] = rapt_attention_partial(q.data(), k.data(), v.data(), partials.data(), &options, task,
                                                task + 1, own.data(), own.size());
      });
    }
  }
  for (const rapt_status of_task : statuses) {
    if (of_task != RAPT_OK) return std::fprintf(stderr, "%s\n", rapt_status_text(of_task)), 1;
  }
  const std::size_t merges = rapt::attention_tasks<float>(options);
  const rapt_status status = rapt_attention_merge(partials.data(), split.data(), &options, 0, merges,
                                                  workspace.data(), workspace.size());
  if (status != RAPT_OK) return std::fprintf(stderr, "%s\n", rapt_status_text(status)), 1;

  std::printf("%zu tasks whole, %zu with split keys\n", merges, tasks);
  std::printf("the same bits: %s\n", whole == split ? "yes" : "no");
}
