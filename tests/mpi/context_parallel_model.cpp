// Compares the model of src/manual/context_parallel.md with measurements. The program measures the latency
// and bandwidth of MPI and the compute rates of a rank. From these numbers it predicts the times of a ring
// and of a decode. Every rank has one thread.
//
//   mpirun -n 2 context_parallel_model [repetitions]
#include <mpi.h>
#include <rapt/rapt.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <vector>

#include "../examples/random.hpp"

namespace {

constexpr std::size_t chunk = 512, q_heads = 8, kv_heads = 2, dim = 128, number = dim + 2;
constexpr std::size_t chunk_floats = kv_heads * chunk * dim;

int rank = 0, ranks = 1, repetitions = 20;

void check(rapt_status status) {
  if (status == RAPT_OK) return;
  std::fprintf(stderr, "rank %d: %s\n", rank, rapt_status_text(status));
  MPI_Abort(MPI_COMM_WORLD, 1);
}

// Returns the shortest time of many calls. The time of a call is that of the slowest rank.
template <class Call>
double time_of(const Call &call) {
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i <= repetitions; ++i) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = MPI_Wtime();
    call();
    double own = MPI_Wtime() - start, slowest = 0;
    MPI_Allreduce(&own, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    if (i > 0) best = std::min(best, slowest);  // the first call touches the memory
  }
  return best;
}

// Returns the time of a message one way between ranks 0 and 1.
double message(std::size_t bytes) {
  std::vector<char> data(bytes);
  const int size = static_cast<int>(bytes), rounds = bytes < 4096 ? 100 : 4;
  return time_of([&] {
           for (int i = 0; i < rounds && rank < 2; ++i) {
             for (int from = 0; from < 2; ++from) {
               if (rank == from) MPI_Send(data.data(), size, MPI_BYTE, 1 - from, 0, MPI_COMM_WORLD);
               if (rank != from)
                 MPI_Recv(data.data(), size, MPI_BYTE, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
             }
           }
         }) /
         (2 * rounds);
}

// Holds a layer of attention. Keys and values of a rank are in pages of one chunk.
struct Layer {
  rapt_attention_options options = RAPT_ATTENTION_OPTIONS_INIT;
  std::vector<float> q, k, v, next_k, next_v, partials, out;
  std::vector<std::int32_t> table;
  std::vector<std::byte> workspace;
  std::size_t own_chunks, tasks = 0, partial_tasks = 0, bytes = 0;

  Layer(std::size_t queries, std::size_t tokens)
      : q(random_numbers(q_heads * queries * dim, 1)),
        k(random_numbers(tokens / chunk / static_cast<std::size_t>(ranks) * chunk_floats, 2)),
        v(k),
        next_k(k),
        next_v(k),
        out(q.size()),
        table(tokens / chunk),
        own_chunks(table.size() / static_cast<std::size_t>(ranks)) {
    for (std::size_t c = 0; c < table.size(); ++c) table[c] = static_cast<std::int32_t>(c % own_chunks);
    options.q_heads = q_heads;
    options.kv_heads = kv_heads;
    options.q_len = queries;
    options.kv_len = tokens;
    options.qk_dim = dim;
    options.page_size = chunk;
    options.block_table = table.data();
    std::size_t length = 0;
    check(rapt_attention_partial_tasks(&options, &partial_tasks, &length));
    check(rapt_attention_tasks(&options, &tasks));
    check(rapt_attention_workspace(&options, &bytes));
    partials.resize(length);
    workspace.resize(bytes);
  }

  void compute(std::size_t shard) {
    const std::size_t per_shard = partial_tasks / static_cast<std::size_t>(ranks);
    check(rapt_attention_partial(q.data(), k.data(), v.data(), partials.data(), &options, shard * per_shard,
                                 (shard + 1) * per_shard, workspace.data(), bytes));
  }
  void merge() {
    check(rapt_attention_merge(partials.data(), out.data(), &options, 0, tasks, workspace.data(), bytes));
  }

  void ring() {
    const int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks,
              length = static_cast<int>(k.size());
    for (int step = 0; step < ranks; ++step) {
      MPI_Request requests[4];
      const bool moves = step + 1 < ranks;
      if (moves) {
        MPI_Isend(k.data(), length, MPI_FLOAT, next, 0, MPI_COMM_WORLD, &requests[0]);
        MPI_Isend(v.data(), length, MPI_FLOAT, next, 1, MPI_COMM_WORLD, &requests[1]);
        MPI_Irecv(next_k.data(), length, MPI_FLOAT, before, 0, MPI_COMM_WORLD, &requests[2]);
        MPI_Irecv(next_v.data(), length, MPI_FLOAT, before, 1, MPI_COMM_WORLD, &requests[3]);
      }
      compute(static_cast<std::size_t>((rank + ranks - step) % ranks));
      if (!moves) break;
      MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
      k.swap(next_k);
      v.swap(next_v);
    }
    merge();
  }

  // Computes the partial results of this rank, and sends them to rank 0 as [row][own chunk].
  void decode() {
    compute(static_cast<std::size_t>(rank));
    const std::size_t message = own_chunks * number, row = table.size() * number;
    std::vector<float> packed, all(rank == 0 ? partials.size() : 0);
    for (std::size_t r = 0; r < q_heads; ++r) {
      const float *from = partials.data() + r * row + static_cast<std::size_t>(rank) * message;
      packed.insert(packed.end(), from, from + message);
    }
    const int count = static_cast<int>(packed.size());
    MPI_Gather(packed.data(), count, MPI_FLOAT, all.data(), count, MPI_FLOAT, 0, MPI_COMM_WORLD);
    if (rank != 0) return;
    for (std::size_t i = 0; i < static_cast<std::size_t>(ranks) * q_heads; ++i) {
      std::copy_n(&all[i * message], message, &partials[i % q_heads * row + i / q_heads * message]);
    }
    merge();
  }
};

}  // namespace

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (argc > 1) repetitions = std::atoi(argv[1]);
  const double n = ranks;
  double alpha = 0, beta = 0;  // a single rank sends nothing
  if (ranks > 1) {
    alpha = message(8);
    beta = (message(8 << 20) - message(1 << 20)) / (7 << 20);
  }
  // Measures the rates of a rank while all ranks compute: a step over a chunk, and keys that fit in no cache.
  Layer step(chunk, chunk * static_cast<std::size_t>(ranks)),
      stream(1, 32768 * static_cast<std::size_t>(ranks));
  const double pair = time_of([&] { step.compute(static_cast<std::size_t>(rank)); }) / (chunk * chunk);
  const double key = time_of([&] { stream.compute(static_cast<std::size_t>(rank)); }) / 32768;
  const double key_bytes = 2.0 * kv_heads * dim * sizeof(float), multiply_adds = 2.0 * q_heads * dim;
  if (rank == 0) {
    std::printf(
        "%d ranks: alpha %.2f us, 1/beta %.1f GB/s; a rank: %.1f GFLOP/s, keys and values %.1f GB/s\n", ranks,
        1e6 * alpha, beta > 0 ? 1e-9 / beta : 0.0, 2e-9 * multiply_adds / pair, 1e-9 * key_bytes / key);
    std::printf("%-18s %12s %12s %7s\n", "", "model", "measured", "ratio");
  }
  const auto print = [](const char *what, std::size_t tokens, double model, double measured) {
    if (rank == 0) {
      std::printf("%-8s %9zu %9.3f ms %9.3f ms %7.2f\n", what, tokens, 1e3 * model, 1e3 * measured,
                  measured / model);
    }
  };
  for (const std::size_t tokens : {1024u, 2048u}) {
    const double own = static_cast<double>(tokens) / n;
    Layer layer(tokens / static_cast<std::size_t>(ranks), tokens);
    const double model = n * own * own * pair + (n - 1) * (2 * alpha + beta * own * key_bytes);
    print("prefill", tokens, model, time_of([&] { layer.ring(); }));
  }
  for (const std::size_t tokens : {4096u, 16384u, 65536u}) {
    const double own = static_cast<double>(tokens) / n;
    Layer layer(1, tokens);
    const double partial_bytes = own / chunk * q_heads * number * sizeof(float);
    const double model = own * key + (n - 1) * (alpha + beta * partial_bytes);
    print("decode", tokens, model, time_of([&] { layer.decode(); }));
  }
  MPI_Finalize();
}
