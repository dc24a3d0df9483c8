// Compares large calls with the scalar level, bit for bit. For rows of more than 131072 columns, one pass
// computes both the sum and the maximum. Outputs of 16 MiB and more use non-temporal stores. dot runs at
// every alignment of its operands.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "support/bits.hpp"
#include "support/effort.hpp"
#include "support/isa.hpp"
#include "support/public_api.hpp"
#include "support/random.hpp"

using namespace rapt::test;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

template <class T>
std::size_t differences(const std::vector<T> &a, const std::vector<T> &b) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < a.size(); ++i) count += !same_bits(a[i], b[i]);
  return count;
}

std::string on(const std::string &isa, const std::string &what) { return what + " on " + isa; }

// Lists rows whose maximum grows in different ways, because the sum is relative to the maximum so far.
struct LongRows {
  const char *name;
  double (*score)(double random, std::size_t col, std::size_t cols);
};
const LongRows long_rows[] = {
    {"ordinary", [](double u, std::size_t, std::size_t) { return 4 * u; }},
    {"rising", [](double u, std::size_t i, std::size_t n) { return 300.0 * double(i) / double(n) + u; }},
    {"falling", [](double u, std::size_t i, std::size_t n) { return -300.0 * double(i) / double(n) + u; }},
    {"wide", [](double u, std::size_t, std::size_t) { return 1e4 * u; }},
    {"from far below at the end",
     [](double u, std::size_t i, std::size_t n) { return i + 1 == n ? 3.0 : -7e4 + u; }},
    {"far below", [](double u, std::size_t, std::size_t) { return -1e6 + u; }},
    {"so large that it is subtracted",
     [](double u, std::size_t i, std::size_t n) { return i == n / 2 ? 7e4 : 1e4 * u; }},
    {"-inf at first", [](double u, std::size_t i, std::size_t) { return i < 5000 ? -infinity : 4 * u; }},
    {"-inf", [](double, std::size_t, std::size_t) { return -infinity; }},
    {"NaN in the middle",
     [](double u, std::size_t i, std::size_t n) { return i == n / 2 ? double(NAN) : u; }},
    {"NaN after -inf",
     [](double, std::size_t i, std::size_t n) { return i + 1 == n ? double(NAN) : -infinity; }},
    {"inf", [](double u, std::size_t i, std::size_t n) { return i == n - 3 ? infinity : u; }},
};

template <class T>
void long_rows_have_the_same_bits() {
  const std::vector<std::size_t> lengths =
      native_or_emulated<std::vector<std::size_t>>({131072, 131073, 133120, 150001, 300000}, {131073});
  Random random(17);
  for (const LongRows &kind : long_rows) {
    if (emulated() && kind.name != std::string("rising")) continue;  // half a minute each
    for (const std::size_t cols : lengths) {
      std::vector<T> x(cols), y(cols), log_y(cols), got(cols);
      for (std::size_t i = 0; i < cols; ++i)
        x[i] = static_cast<T>(kind.score(2 * random.uniform() - 1, i, cols));
      std::vector<std::uint8_t> mask(cols);
      for (std::uint8_t &flag : mask) flag = random.uniform() < 0.7;
      const auto stride = static_cast<std::ptrdiff_t>(cols);
      for (const bool masked : {false, true}) {
        if (emulated() && masked) continue;
        rapt_softmax_options options = RAPT_SOFTMAX_OPTIONS_INIT;
        if (masked) options.mask = mask.data();
        T sum = 0, got_sum = 0;
        {
          ForcedIsa scalar("scalar");
          REQUIRE(Api<T>::softmax(x.data(), stride, y.data(), stride, 1, cols, &options) == RAPT_OK);
          REQUIRE(Api<T>::log_softmax(x.data(), stride, log_y.data(), stride, 1, cols, &options) == RAPT_OK);
          REQUIRE(Api<T>::logsumexp(x.data(), stride, &sum, 1, cols, &options) == RAPT_OK);
        }
        for_each_usable_isa([&](const std::string &isa) {
          CAPTURE(on(isa, kind.name));
          CAPTURE(cols);
          CAPTURE(masked);
          REQUIRE(Api<T>::softmax(x.data(), stride, got.data(), stride, 1, cols, &options) == RAPT_OK);
          CHECK(differences(y, got) == 0);
          got = x;
          REQUIRE(Api<T>::softmax(got.data(), stride, got.data(), stride, 1, cols, &options) == RAPT_OK);
          CHECK(differences(y, got) == 0);
          REQUIRE(Api<T>::log_softmax(x.data(), stride, got.data(), stride, 1, cols, &options) == RAPT_OK);
          CHECK(differences(log_y, got) == 0);
          REQUIRE(Api<T>::logsumexp(x.data(), stride, &got_sum, 1, cols, &options) == RAPT_OK);
          CHECK(same_bits(sum, got_sum));
        });
      }
    }
  }
}

// This many elements make the library use non-temporal stores.
constexpr std::size_t streamed = (std::size_t{16} << 20) / sizeof(float) + 77;

void streamed_probabilities_have_the_same_bits(std::size_t cols, bool causal, std::size_t offset) {
  const std::size_t rows = streamed / cols + 1, guard = 64;
  Random random(cols);
  std::vector<float> x(rows * cols + guard), y(rows * cols + guard, 7), got(y);
  for (float &element : x) element = static_cast<float>(8 * random.uniform() - 4);
  float *const first = x.data() + offset;
  first[3 * cols] = NAN;                                  // a row with NaN
  first[5 * cols + cols / 2] = 1e6f;                      // a maximum that must be subtracted
  first[8 * cols - 1] = static_cast<float>(infinity);     // a row with infinity
  std::fill_n(first + 9 * cols, cols, float(-infinity));  // a row of only -inf
  first[rows * cols - 1] = NAN;
  rapt_softmax_options options = RAPT_SOFTMAX_OPTIONS_INIT;
  options.scale = 0.5f;
  options.causal = causal ? RAPT_CAUSAL_OFFSET : RAPT_CAUSAL_NONE;
  options.causal_offset = causal ? 2 : 0;
  const auto stride = static_cast<std::ptrdiff_t>(cols);
  const auto run = [&](std::vector<float> &out) {
    REQUIRE(rapt_softmax_f32(first, stride, out.data() + 2 * offset, stride, rows, cols, &options) ==
            RAPT_OK);
  };
  {
    ForcedIsa scalar("scalar");
    run(y);
  }
  for_each_usable_isa([&](const std::string &isa) {
    if (isa == "scalar") return;
    std::fill(got.begin(), got.end(), 7.0f);
    run(got);
    CAPTURE(isa);
    CAPTURE(cols);
    CAPTURE(causal);
    CHECK(differences(y, got) == 0);
  });
}

// dot_rows reads rows in a different order depending on whether they are in L1, L2 or memory, and on the CPU
// (machine/questions.hpp).
template <class E>
void rows_have_the_same_bits_in_every_order() {
  using A = Number<E>;
  constexpr std::size_t dim = 65, l1 = 32768 / sizeof(E) / dim, l2 = (2u << 20) / sizeof(E) / dim;
  constexpr std::size_t gap = 3, most = 2 * l2;
  Random random(6);
  std::vector<E> query(dim), matrix(most * (dim + gap));
  for (E &element : query) element = static_cast<E>(random.uniform());
  for (E &element : matrix) element = static_cast<E>(random.uniform());
  for (const std::size_t rows : {l1 - 1, l1 + 3, l2 - 2, l2 + 2, l2 + 5, most}) {
    for (const std::size_t stride : {dim, dim + gap}) {
      std::vector<A> expected(rows), got(rows);
      const auto run = [&](std::vector<A> &out) {
        Api<E>::dot_rows(query.data(), matrix.data(), static_cast<std::ptrdiff_t>(stride), rows, dim, A(0.5),
                         out.data());
      };
      {
        ForcedIsa scalar("scalar");
        run(expected);
      }
      for_each_usable_isa([&](const std::string &isa) {
        std::fill(got.begin(), got.end(), A(7));
        run(got);
        CAPTURE(isa);
        CAPTURE(rows);
        CAPTURE(stride);
        CHECK(differences(expected, got) == 0);
      });
    }
  }
}

// The products are of the order of 1 or of the smallest normal number, underflow to -0, or are 0.
template <class T>
void dot_has_the_same_bits_at_every_alignment() {
  constexpr std::size_t stretch = 131072 / sizeof(T);  // dot restarts its lane sums after this many elements
  constexpr std::size_t alignments = 64 / sizeof(T), longest = 2 * stretch + 300, rows = 5;
  const double small = std::sqrt(double{std::numeric_limits<T>::min()});
  Random random(5);
  for (const double magnitude : {1.0, small, -small / 1048576.0 / 1048576.0, 0.0}) {
    std::vector<T> a(longest + 2 * alignments), b(rows * longest + 2 * alignments);
    for (T &element : a) element = static_cast<T>(magnitude * random.uniform());
    for (T &element : b) element = static_cast<T>(std::fabs(magnitude) * random.uniform());
    if (magnitude > 0) {
      for (std::size_t i = 0; i < a.size(); i += 3) a[i] = -a[i];
    }
    const auto compare = [&](std::size_t n, std::size_t shift_a, std::size_t shift_b) {
      const T *const from_a = a.data() + shift_a, *const from_b = b.data() + shift_b;
      T expected, expected_rows[rows], got_rows[rows];
      {
        ForcedIsa scalar("scalar");
        expected = Api<T>::dot(from_a, from_b, n);
        Api<T>::dot_rows(from_a, from_b, static_cast<std::ptrdiff_t>(n), rows, n, T(0.5), expected_rows);
      }
      for_each_usable_isa([&](const std::string &isa) {
        const T got = Api<T>::dot(from_a, from_b, n);
        Api<T>::dot_rows(from_a, from_b, static_cast<std::ptrdiff_t>(n), rows, n, T(0.5), got_rows);
        std::size_t differ = !same_bits(expected, got);
        for (std::size_t r = 0; r < rows; ++r) differ += !same_bits(expected_rows[r], got_rows[r]);
        if (differ == 0) return;
        CAPTURE(isa);
        CAPTURE(n);
        CAPTURE(shift_a);
        CAPTURE(shift_b);
        CHECK(differ == 0);
      });
    };
    for (std::size_t n = 0; n < native_or_emulated<std::size_t>(330, 70); ++n) compare(n, n % 3, n % 2);
    for (const std::size_t n : Sizes{256, 257, 300, 511, 640, 1153, 1200}) {
      for (std::size_t i = 0; i < alignments * alignments; i += native_or_emulated<std::size_t>(1, 97)) {
        compare(n, i % alignments, i / alignments);
      }
    }
    if (emulated()) continue;
    for (const std::size_t n : Sizes{stretch + 1, longest}) {
      for (std::size_t i = 0; i < alignments * alignments; i += 41) {
        compare(n, i % alignments, i / alignments);
      }
    }
  }
}

}  // namespace

TEST_CASE("rows of more than 131072 columns, f32") { long_rows_have_the_same_bits<float>(); }
TEST_CASE("rows of more than 131072 columns, f64") {
  if (!emulated()) long_rows_have_the_same_bits<double>();
}

TEST_CASE("dot at every alignment, f32") { dot_has_the_same_bits_at_every_alignment<float>(); }
TEST_CASE("dot at every alignment, f64") { dot_has_the_same_bits_at_every_alignment<double>(); }

TEST_CASE("dot_rows from L1, L2 and memory") {
  rows_have_the_same_bits_in_every_order<float>();
  rows_have_the_same_bits_in_every_order<double>();
  rows_have_the_same_bits_in_every_order<F16>();
  rows_have_the_same_bits_in_every_order<BF16>();
}

// Some CPUs read keys and values of more than 48 MB in another order than smaller ones (machine/questions.hpp).
TEST_CASE("attention over keys and values past the caches") {
  constexpr std::size_t dim = 128, keys = (std::size_t{49} << 20) / (2 * dim * sizeof(float)) + 21;
  Random random(7);
  std::vector<float> q(2 * dim), k(keys * dim), v(keys * dim);
  for (std::vector<float> *array : {&q, &k, &v}) {
    for (float &element : *array) element = static_cast<float>(2 * random.uniform() - 1);
  }
  for (const std::size_t queries : {1, 2}) {
    rapt_attention_options options = RAPT_ATTENTION_OPTIONS_INIT;
    options.q_heads = queries;
    options.kv_heads = options.q_len = 1;
    options.kv_len = keys;
    options.qk_dim = dim;
    std::size_t size = 0;
    REQUIRE(rapt_attention_workspace(&options, &size) == RAPT_OK);
    std::vector<char> workspace(size);
    std::vector<float> y(queries * dim), got(y);
    const auto run = [&](std::vector<float> &out) {
      REQUIRE(rapt_attention(q.data(), k.data(), v.data(), out.data(), &options, workspace.data(), size) ==
              RAPT_OK);
    };
    {
      ForcedIsa scalar("scalar");
      run(y);
    }
    for_each_usable_isa([&](const std::string &isa) {
      run(got);
      CAPTURE(isa);
      CAPTURE(queries);
      CHECK(differences(y, got) == 0);
    });
  }
}

TEST_CASE("dot in memory") {
  if (emulated()) return;
  Random random(4);
  std::vector<float> a(streamed + 16), b(streamed + 16);
  for (std::size_t i = 0; i < a.size(); ++i) {
    a[i] = static_cast<float>(random.uniform() - 0.5);
    b[i] = static_cast<float>(random.uniform() - 0.5);
  }
  for (std::size_t offset = 0; offset < 16; ++offset) {  // aligns both operands, one or none
    const float *const from_a = a.data() + offset, *const from_b = b.data() + (offset & 12);
    float expected;
    {
      ForcedIsa scalar("scalar");
      expected = rapt_dot_f32(from_a, from_b, streamed);
    }
    for_each_usable_isa([&](const std::string &isa) {
      CAPTURE(isa);
      CAPTURE(offset);
      CHECK(same_bits(expected, rapt_dot_f32(from_a, from_b, streamed)));
    });
  }
}

TEST_CASE("softmax past the caches") {
  if (emulated()) return;  // takes minutes, and NEON kernels have no such stores
  for (const std::size_t cols : Sizes{8, 64, 100, 256, 300, 1000, 5000, 150000}) {
    streamed_probabilities_have_the_same_bits(cols, false, 0);
    streamed_probabilities_have_the_same_bits(cols, cols > 256, 3);
  }
}

TEST_CASE("conversions past the caches") {
  if (emulated()) return;
  constexpr std::size_t halves = 2 * streamed;
  Random random(6);
  std::vector<float> x(halves), wide(streamed), wide_got(streamed);
  for (float &element : x) element = static_cast<float>(220 * random.uniform() - 110);
  std::vector<rapt_f16> narrow(halves), narrow_got(halves);
  {
    ForcedIsa scalar("scalar");
    rapt_convert_f32_to_f16(x.data(), narrow.data(), halves);
    rapt_convert_f16_to_f32(narrow.data(), wide.data(), streamed);
  }
  for_each_usable_isa([&](const std::string &isa) {
    CAPTURE(isa);
    std::fill(narrow_got.begin(), narrow_got.end(), rapt_f16{7});
    std::fill(wide_got.begin(), wide_got.end(), 7.0f);
    rapt_convert_f32_to_f16(x.data(), narrow_got.data(), halves);
    rapt_convert_f16_to_f32(narrow.data(), wide_got.data(), streamed);
    CHECK(narrow == narrow_got);
    CHECK(differences(wide, wide_got) == 0);
  });
}

TEST_CASE("exp and scale past the caches") {
  if (emulated()) return;
  Random random(3);
  std::vector<float> x(streamed + 8), y(streamed + 8, 7), got(y);
  for (float &element : x) element = static_cast<float>(220 * random.uniform() - 110);
  struct Call {
    bool exp, in_place;
  };
  for (const std::size_t offset : Sizes{0, 1, 5}) {
    const auto run = [&](Call call, std::vector<float> &out) {
      if (call.in_place) {
        out = x;
      } else {
        std::fill(out.begin(), out.end(), 7.0f);
      }
      float *const to = out.data() + offset;
      const float *const from = call.in_place ? to : x.data();
      if (call.exp) {
        rapt_exp_f32(from, to, streamed);
      } else {
        rapt_scale_f32(from, 1.7f, to, streamed);
      }
    };
    for (const Call call : {Call{true, false}, Call{true, true}, Call{false, false}, Call{false, true}}) {
      {
        ForcedIsa scalar("scalar");
        run(call, y);
      }
      for_each_usable_isa([&](const std::string &isa) {
        if (isa == "scalar") return;
        CAPTURE(isa);
        CAPTURE(call.exp);
        CAPTURE(call.in_place);
        CAPTURE(offset);
        run(call, got);
        CHECK(differences(y, got) == 0);
      });
    }
  }
}
