// Computes attention over more keys than one machine holds. Keys and values are spread over the ranks of MPI.
//
// Each rank has several, one or no whole chunks of 512 keys. rapt_attention_partial gives a result per chunk,
// and rapt_attention_merge combines the chunks in order. So any number of ranks prints the same hash as one
// rank.
//
//   prefill   Every rank has its own queries. Shards of keys and values travel around a ring while ranks
//             compute the previous shard. Each rank merges its own rows.
//   decode    Every rank has the queries of one token and computes its own chunks. Rank 0 gathers the
//             chunks and merges them.
//
//   mpirun -n 4 context_parallel [tokens]
#include <mpi.h>
#include <rapt/rapt.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#include "../examples/random.hpp"

namespace {

constexpr std::size_t chunk = 512, q_heads = 4, kv_heads = 2, dim = 64, partial = dim + 2;
constexpr std::size_t chunk_floats = kv_heads * chunk * dim;

int rank = 0, ranks = 1;

void check(rapt_status status) {
  if (status == RAPT_OK) return;
  std::fprintf(stderr, "rank %d: %s\n", rank, rapt_status_text(status));
  MPI_Abort(MPI_COMM_WORLD, 1);
}

// Shard r has chunks first(r) to first(r + 1) - 1. With three or more ranks, the second rank has no chunks,
// and the last rank has the remaining chunks.
struct Shards {
  std::size_t tokens;

  std::size_t chunks() const { return (tokens + chunk - 1) / chunk; }
  std::size_t first(int r) const {
    if (r == ranks) return chunks();
    const auto n = static_cast<std::size_t>(ranks > 2 ? ranks - 1 : ranks);
    const auto i = static_cast<std::size_t>(ranks > 2 && r > 1 ? r - 1 : r);
    return chunks() * i / n;
  }
  std::size_t size(int r) const { return first(r + 1) - first(r); }
  std::size_t largest() const {
    std::size_t most = 0;
    for (int r = 0; r < ranks; ++r) most = std::max(most, size(r));
    return most;
  }
};

// Returns keys or values as [chunk][head][token][dim]: a page per chunk, so that a shard is contiguous.
std::vector<float> shard_of(const Shards &shards, int r, std::uint64_t seed) {
  std::vector<float> all;
  for (std::size_t c = shards.first(r); c < shards.first(r + 1); ++c) {
    const std::vector<float> page = random_numbers(chunk_floats, seed + c);
    all.insert(all.end(), page.begin(), page.end());
  }
  all.resize(shards.largest() * chunk_floats);
  return all;
}

// Returns options for all tokens of the context, and for queries from first_query on.
rapt_attention_options options_for(const Shards &shards, std::size_t first_query, std::size_t queries) {
  rapt_attention_options options = RAPT_ATTENTION_OPTIONS_INIT;
  options.q_heads = q_heads;
  options.kv_heads = kv_heads;
  options.q_len = queries;
  options.kv_len = shards.tokens;
  options.qk_dim = dim;
  options.causal = RAPT_CAUSAL_OFFSET;
  options.causal_offset = static_cast<std::ptrdiff_t>(first_query);
  options.page_size = chunk;
  options.block_table_stride = shards.chunks();
  return options;
}

// Holds the queries of a rank and their results.
class Rows {
 public:
  Rows(const Shards &shards, std::size_t first_query, std::size_t queries)
      : shards_(shards), options_(options_for(shards, first_query, queries)), table_(shards.chunks()) {
    options_.block_table = table_.data();
    // The values of a query do not depend on the rank that computes it.
    for (std::size_t h = 0; h < q_heads; ++h) {
      for (std::size_t i = 0; i < queries; ++i) {
        const std::vector<float> one = random_numbers(dim, 1'000'000 + h * 100'000'007 + first_query + i);
        q_.insert(q_.end(), one.begin(), one.end());
      }
    }
    std::size_t length = 0;
    check(rapt_attention_partial_tasks(&options_, &tasks_, &length));
    partials_.resize(length);
    check(rapt_attention_workspace(&options_, &bytes_));
    workspace_.resize(bytes_);
  }

  // Computes the chunks of rank r, whose keys and values are at k and v.
  void take_shard(int r, const std::vector<float> &k, const std::vector<float> &v) {
    const std::size_t first = shards_.first(r), last = shards_.first(r + 1);
    if (options_.q_len == 0 || first == last) return;
    for (std::size_t c = first; c < last; ++c) table_[c] = static_cast<std::int32_t>(c - first);
    const std::size_t per_chunk = tasks_ / shards_.chunks();
    check(rapt_attention_partial(q_.data(), k.data(), v.data(), partials_.data(), &options_,
                                 first * per_chunk, last * per_chunk, workspace_.data(), bytes_));
  }

  // Packs the chunks of rank r for a message as [row][chunk][partial]. set_partials_of() unpacks such a
  // message.
  std::vector<float> partials_of(int r) const {
    std::vector<float> packed;
    for (std::size_t row = 0; row < rows(); ++row) {
      const float *from = partials_.data() + (row * shards_.chunks() + shards_.first(r)) * partial;
      packed.insert(packed.end(), from, from + shards_.size(r) * partial);
    }
    return packed;
  }
  void set_partials_of(int r, const float *packed) {
    const std::size_t length = shards_.size(r) * partial;
    for (std::size_t row = 0; row < rows(); ++row) {
      std::copy_n(packed + row * length, length,
                  &partials_[(row * shards_.chunks() + shards_.first(r)) * partial]);
    }
  }

  std::vector<float> merge() {
    std::vector<float> out(q_.size());
    std::size_t tasks = 0;
    check(rapt_attention_tasks(&options_, &tasks));
    if (!out.empty()) {
      check(
          rapt_attention_merge(partials_.data(), out.data(), &options_, 0, tasks, workspace_.data(), bytes_));
    }
    return out;
  }

  // Computes attention without partial results; one rank then has all keys.
  std::vector<float> whole(const std::vector<float> &k, const std::vector<float> &v) {
    std::vector<float> out(q_.size());
    check(rapt_attention(q_.data(), k.data(), v.data(), out.data(), &options_, workspace_.data(), bytes_));
    return out;
  }

  std::size_t rows() const { return q_heads * options_.q_len; }

 private:
  Shards shards_;
  rapt_attention_options options_;
  std::vector<std::int32_t> table_;
  std::vector<float> q_, partials_;
  std::vector<std::byte> workspace_;
  std::size_t tasks_ = 0, bytes_ = 0;
};

// Returns the sum of the hashes of all elements and their positions. The sum does not depend on which rank
// holds an element.
std::uint64_t hash_of(const std::vector<float> &out, std::size_t first_query, std::size_t queries,
                      std::size_t tokens) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::size_t head = i / (queries * dim),
                      place = (head * tokens + first_query) * dim + i % (queries * dim);
    std::uint32_t bits = 0;
    static_assert(sizeof bits == sizeof out[i]);
    std::copy_n(reinterpret_cast<const unsigned char *>(&out[i]), sizeof bits,
                reinterpret_cast<unsigned char *>(&bits));
    std::uint64_t x = (std::uint64_t{place} << 32 | bits) * 0x9e3779b97f4a7c15U;
    sum += (x ^ x >> 31) * 0xbf58476d1ce4e5b9U;
  }
  return sum;
}

std::uint64_t prefill(const Shards &shards, std::vector<float> k, std::vector<float> v) {
  // The queries of a rank are the tokens of its chunks.
  const std::size_t first_query = std::min(shards.first(rank) * chunk, shards.tokens);
  const std::size_t queries = std::min(shards.first(rank + 1) * chunk, shards.tokens) - first_query;
  Rows rows(shards, first_query, queries);
  const int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
  std::vector<float> next_k(k.size()), next_v(v.size());
  for (int step = 0; step < ranks; ++step) {
    MPI_Request requests[4];
    const bool moves = step + 1 < ranks;
    if (moves) {
      const int length = static_cast<int>(k.size());
      MPI_Isend(k.data(), length, MPI_FLOAT, next, 0, MPI_COMM_WORLD, &requests[0]);
      MPI_Isend(v.data(), length, MPI_FLOAT, next, 1, MPI_COMM_WORLD, &requests[1]);
      MPI_Irecv(next_k.data(), length, MPI_FLOAT, before, 0, MPI_COMM_WORLD, &requests[2]);
      MPI_Irecv(next_v.data(), length, MPI_FLOAT, before, 1, MPI_COMM_WORLD, &requests[3]);
    }
    rows.take_shard((rank + ranks - step) % ranks, k, v);
    if (!moves) break;
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
    std::swap(k, next_k);
    std::swap(v, next_v);
  }
  const std::uint64_t own = hash_of(rows.merge(), first_query, queries, shards.tokens);
  if (ranks == 1 && own != hash_of(rows.whole(k, v), 0, queries, shards.tokens)) MPI_Abort(MPI_COMM_WORLD, 1);
  std::uint64_t all = 0;
  MPI_Reduce(&own, &all, 1, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
  return all;
}

std::uint64_t decode(const Shards &shards, const std::vector<float> &k, const std::vector<float> &v) {
  Rows rows(shards, shards.tokens - 1, 1);
  rows.take_shard(rank, k, v);
  const std::vector<float> own = rows.partials_of(rank);
  std::vector<int> counts(static_cast<std::size_t>(ranks)), places(counts.size());
  int total = 0;
  for (int r = 0; r < ranks; ++r) {
    const auto i = static_cast<std::size_t>(r);
    places[i] = total;
    total += counts[i] = static_cast<int>(rows.rows() * shards.size(r) * partial);
  }
  std::vector<float> all(static_cast<std::size_t>(total));
  MPI_Gatherv(own.data(), static_cast<int>(own.size()), MPI_FLOAT, all.data(), counts.data(), places.data(),
              MPI_FLOAT, 0, MPI_COMM_WORLD);
  if (rank != 0) return 0;
  for (int r = 0; r < ranks; ++r) rows.set_partials_of(r, all.data() + places[static_cast<std::size_t>(r)]);
  return hash_of(rows.merge(), shards.tokens - 1, 1, shards.tokens);
}

}  // namespace

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const Shards shards{argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 3000};
  const std::vector<float> k = shard_of(shards, rank, 1), v = shard_of(shards, rank, 500'000);
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = MPI_Wtime();
  const std::uint64_t prefilled = prefill(shards, k, v);
  const double middle = MPI_Wtime();
  const std::uint64_t decoded = decode(shards, k, v);
  const double end = MPI_Wtime();
  if (rank == 0) {
    std::printf("prefill %016llx\ndecode  %016llx\n", static_cast<unsigned long long>(prefilled),
                static_cast<unsigned long long>(decoded));
    std::fprintf(stderr, "%d ranks, %zu tokens: prefill %.2f ms, decode %.3f ms\n", ranks, shards.tokens,
                 1e3 * (middle - start), 1e3 * (end - middle));
  }
  MPI_Finalize();
}
