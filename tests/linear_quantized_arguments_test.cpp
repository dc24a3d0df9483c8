// Tests what the description of linear layers lacks, where weights are quantized: damaged headers of packed weights,
// parts that disagree, overlaps in packing, sizes near the limits of the address space, and the caller's floating-point
// mode.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "support/elements.hpp"
#include "support/every_level.hpp"
#include "support/expect_status.hpp"
#include "support/fp_state.hpp"
#include "support/guarded_buffer.hpp"

namespace rapt::test {
namespace {

constexpr std::size_t address_space = PTRDIFF_MAX;

// ---- every function with the struct

// Holds a call with all arrays of 4-bit weights, some of which only a test's change makes an option.
struct Call {
  enum Function : unsigned {
    whole = 1,
    by_tasks = 2,
    workspace_size_of = 4,
    tasks_of = 8,
    length_of = 16,
    packing = 32,
    runs = whole | by_tasks,
    queries = workspace_size_of | tasks_of | length_of,
    all = runs | queries | packing
  };
  static constexpr FunctionName functions[] = {{whole, "rapt_linear"},
                                               {by_tasks, "rapt_linear_run"},
                                               {workspace_size_of, "rapt_linear_workspace"},
                                               {tasks_of, "rapt_linear_tasks"},
                                               {length_of, "rapt_linear_packed_length"},
                                               {packing, "rapt_linear_pack"}};
  static constexpr std::size_t rows = 3, inputs = 70, outputs = 130, groups = 3, result = rows * outputs;

  unsigned function;
  std::vector<float> x = std::vector<float>(rows * inputs, 0.5f), scales = numbers(), offsets = numbers(),
                     codebook = std::vector<float>(16, 2.0f),
                     x_scales = std::vector<float>(rows * groups, 1.0f),
                     bias = std::vector<float>(outputs, 0.5f), row_scales = std::vector<float>(rows, -2.0f),
                     y = std::vector<float>(4 * result, 7.0f);
  std::vector<std::uint8_t> w = std::vector<std::uint8_t>(outputs * inputs, 0x5a),
                            zeros = std::vector<std::uint8_t>(outputs * groups, 3), packed_memory, packed_w;
  std::vector<std::size_t> list = {0, 1, 2};
  const void *given_x = x.data(), *given_w = w.data();
  void *given_y = y.data(), *packed = nullptr;
  std::size_t packed_size = 0;
  rapt_linear_options options{};
  std::vector<unsigned char> workspace_memory;
  void *workspace = nullptr;
  std::size_t workspace_size = 0, number = SIZE_MAX;

  explicit Call(unsigned called = whole) : function(called) {
    options.size = sizeof options;
    options.w_type = RAPT_U4;
    options.rows = rows;
    options.in_features = inputs;
    options.out_features = outputs;
    options.scale_group = 32;
    options.w_scales = scales.data();
    // Options that a test sets later may be those of i8 arithmetic, whose groups may be longer.
    rapt_linear_options largest = options;
    largest.arithmetic = RAPT_ARITHMETIC_I8;
    for (const std::size_t group : {std::size_t{0}, options.scale_group}) {
      largest.scale_group = group;
      std::size_t size = 0;
      REQUIRE(rapt_linear_workspace(&largest, &size) == RAPT_OK);
      workspace_size = std::max(workspace_size, size);
    }
    workspace_memory.resize(workspace_size);
    workspace = workspace_memory.data();
    // There is room for every option.
    packed_memory.assign(100000, 0x55);
    packed = packed_memory.data();
    packed_size = packed_memory.size();
  }
  Call(const Call &) = delete;

  static std::vector<float> numbers() { return std::vector<float>(outputs * groups, 0.25f); }

  // Packs the weights, and makes the call one of packed weights.
  void pack() {
    std::size_t bytes = 0;
    REQUIRE(rapt_linear_packed_length(&options, &bytes) == RAPT_OK);
    packed_w.resize(bytes);
    REQUIRE(rapt_linear_pack(w.data(), 0, outputs, &options, packed_w.data(), bytes) == RAPT_OK);
    given_w = packed_w.data();
    options.packed_w = 1;
    options.w_scales = options.w_offsets = nullptr;
    options.w_zeros = nullptr;
    options.w_codebook = nullptr;
    options.w_scale_type = RAPT_TYPE_DEFAULT;
  }
  void use_x_of_i8() {
    options.x_type = RAPT_I8;
    options.x_scales = x_scales.data();
  }
  void use_floats() {
    options.w_type = RAPT_F32;
    options.scale_group = 0;
    options.w_scales = nullptr;
  }

  rapt_status run() {
    switch (function) {
      case whole:
        return rapt_linear(given_x, given_w, given_y, &options, workspace, workspace_size);
      case by_tasks:
        return rapt_linear_run(given_x, given_w, given_y, &options, 0, 1, workspace, workspace_size);
      case workspace_size_of:
        return rapt_linear_workspace(&options, &number);
      case tasks_of:
        return rapt_linear_tasks(&options, &number);
      case length_of:
        return rapt_linear_packed_length(&options, &number);
      default:
        return rapt_linear_pack(given_w, 0, options.out_features, &options, packed, packed_size);
    }
  }
  bool writes_nothing() const {
    return (function & (runs | packing)) && (options.rows == 0 || options.out_features == 0);
  }
  std::string image() const {
    std::string bytes;
    for (const auto *memory : {&x, &scales, &offsets, &codebook, &x_scales, &bias, &row_scales, &y})
      append_bytes(bytes, *memory);
    for (const auto *memory : {&w, &zeros, &packed_memory, &packed_w}) append_bytes(bytes, *memory);
    append_bytes(bytes, list);
    return bytes + std::to_string(number);
  }
};
using C = Call;

// Packed weights as the text of quantized_weights.hpp has them: what they carry is in bytes 36 to 43, their
// length in bytes 48 to 55, and the hash of the first 56 bytes in the last 8 of the header.
struct Packing {
  const char *name;
  void (*set)(C &);
};
constexpr Packing packings[] = {
    {"i8 without scales",
     [](C &c) {
       c.options.w_type = RAPT_I8;
       c.options.w_scales = nullptr;
     }},
    {"i4 with scales of bf16",
     [](C &c) {
       c.options.w_type = RAPT_I4;
       c.options.w_scale_type = RAPT_BF16;
     }},
    {"u4 with scales, zeros and offsets",
     [](C &c) {
       c.options.w_zeros = c.zeros.data();
       c.options.w_offsets = c.offsets.data();
     }},
    {"u4 with offsets of f16",
     [](C &c) {
       c.options.w_scales = nullptr;
       c.options.w_offsets = c.offsets.data();
       c.options.w_scale_type = RAPT_F16;
     }},
    {"u4 with a codebook", [](C &c) { c.options.w_codebook = c.codebook.data(); }},
    {"u8 with zeros",
     [](C &c) {
       c.options.w_type = RAPT_U8;
       c.options.w_zeros = c.zeros.data();
     }},
};
constexpr std::size_t header_size = 64;

void write_hash(std::vector<std::uint8_t> &packed) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (std::size_t i = 0; i < header_size - sizeof hash; ++i) hash = (hash ^ packed[i]) * 0x100000001b3;
  std::memcpy(packed.data() + header_size - sizeof hash, &hash, sizeof hash);
}

// Calls f(call) for a call of each packing.
template <class F>
void each_packed_call(F f) {
  for (const Packing &packing : packings) {
    const std::string name = packing.name;
    CAPTURE(name);
    C call;
    packing.set(call);
    call.pack();
    f(call);
  }
}

// Unpacks the weights of a packed call, without their scales.
rapt_status unpack(const C &call, void *w) {
  return rapt_linear_unpack(call.packed_w.data(), call.packed_w.size(), 0, C::outputs, &call.options, w,
                            nullptr, nullptr, nullptr, nullptr);
}

TEST_CASE("a packed header is refused if any byte of it has another value") {
  each_packed_call([](C &call) {
    std::uint64_t length = 0;
    std::memcpy(&length, call.packed_w.data() + 48, sizeof length);
    CHECK(length == call.packed_w.size());
    const std::string before = call.image();
    for (std::size_t i = 0; i < header_size; ++i) {
      for (int change = 1; change < 256; ++change) {
        call.packed_w[i] ^= static_cast<std::uint8_t>(change);
        if (call.run() != RAPT_BAD_PACKED) FAIL_CHECK("byte " << i << " changed by " << change);
        call.packed_w[i] ^= static_cast<std::uint8_t>(change);
      }
    }
    CHECK(call.image() == before);
    CHECK(call.run() == RAPT_OK);
  });
}

TEST_CASE("a packed header is refused if rapt_linear_pack cannot write it, whatever its hash") {
  each_packed_call([](C &call) {
    const std::vector<std::uint8_t> packed = call.packed_w;
    const rapt_type type = call.options.w_type;
    std::size_t refused = 0;
    std::vector<std::uint8_t> w(C::outputs * C::inputs, 0x55);
    const auto try_header = [&](std::uint8_t scale_type, const std::uint8_t(&has)[4]) {
      const auto [scales, zeros, offsets, codebook] = has;
      bool is_known = scale_type == RAPT_F32 || scale_type == RAPT_F16 || scale_type == RAPT_BF16;
      if (scales == 0 && offsets == 0) is_known = scale_type == 0;
      if ((type != RAPT_U4 && type != RAPT_U8) || codebook != 0) is_known = is_known && zeros == 0;
      if (type != RAPT_U4) is_known = is_known && codebook == 0;
      for (const std::uint8_t flag : has) is_known = is_known && flag <= 1;
      if (is_known) return;  // these may be larger than the memory
      call.packed_w[36] = scale_type;
      std::memcpy(call.packed_w.data() + 40, has, sizeof has);
      write_hash(call.packed_w);
      if (call.run() != RAPT_BAD_PACKED || unpack(call, w.data()) != RAPT_BAD_PACKED) {
        FAIL_CHECK("scale type " << int{scale_type} << ", flags " << int{scales} << int{zeros} << int{offsets}
                                 << int{codebook});
      }
      ++refused;
      call.packed_w = packed;
    };
    for (std::uint8_t scale_type = 0; scale_type < 10; ++scale_type) {
      for (unsigned flags = 0; flags < 81; ++flags) {
        const auto flag = [&](unsigned power) { return static_cast<std::uint8_t>(flags / power % 3); };
        try_header(scale_type, {flag(1), flag(3), flag(9), flag(27)});
      }
    }
    CHECK(refused > 700);
    CHECK(std::count(w.begin(), w.end(), 0x55) == static_cast<std::ptrdiff_t>(w.size()));
    write_hash(call.packed_w);
    CHECK(call.packed_w == packed);
    CHECK(unpack(call, w.data()) == RAPT_OK);
  });
}

// Packs the outputs [first, first + outputs) of a call. Each array begins with the part's first output.
rapt_status pack_part(const C &call, std::size_t first, std::size_t outputs,
                      std::vector<std::uint8_t> &packed) {
  const rapt_linear_options &o = call.options;
  const std::size_t row = o.w_type == RAPT_I8 ? C::inputs : C::inputs / 2;
  return rapt_linear_pack(call.w.data() + first * row, first, outputs, &o, packed.data(), packed.size());
}

// All numbers of an array are equal here, so that the arrays of every part may be those of the layer.
TEST_CASE("a part that gives other arrays than the first part is refused") {
  std::size_t equal = 0, refused = 0;
  const auto try_second_part = [&](const C &first, const C &second, bool is_same) {
    std::size_t bytes = 0;
    REQUIRE(rapt_linear_packed_length(&first.options, &bytes) == RAPT_OK);
    std::vector<std::uint8_t> packed(bytes, 0x55);
    REQUIRE(pack_part(first, 0, 64, packed) == RAPT_OK);
    std::size_t of_second = 0;
    REQUIRE(rapt_linear_packed_length(&second.options, &of_second) == RAPT_OK);
    packed.resize(std::max(bytes, of_second), 0x55);  // the arrays decide, not the memory
    const std::vector<std::uint8_t> before = packed;
    CHECK(pack_part(second, 64, 66, packed) == (is_same ? RAPT_OK : RAPT_BAD_PACKED));
    CHECK((packed == before) == !is_same);
    (is_same ? equal : refused) += 1;
    if (of_second <= bytes) return;
    packed.resize(bytes);
    CHECK(pack_part(second, 64, 66, packed) == RAPT_BAD_PACKED);
  };
  for (const Packing &of_first : packings) {
    C first;
    of_first.set(first);
    for (const Packing &of_second : packings) {
      CAPTURE(of_first.name);
      CAPTURE(of_second.name);
      C second;
      of_second.set(second);
      try_second_part(first, second, &of_first == &of_second);
    }
    const auto try_change = [&](const char *what, void (*change)(C &)) {
      CAPTURE(of_first.name);
      CAPTURE(what);
      C second;
      of_first.set(second);
      change(second);
      try_second_part(first, second, false);
    };
    try_change("groups", [](C &c) { c.options.scale_group = 64; });
    try_change("inputs", [](C &c) { c.options.in_features -= 2; });
    try_change("outputs", [](C &c) { c.options.out_features += 1; });
    if (first.options.w_scales || first.options.w_offsets) {
      try_change("type of scales", [](C &c) {
        c.options.w_scale_type = c.options.w_scale_type == RAPT_F16 ? RAPT_BF16 : RAPT_F16;
      });
    }
    if (first.options.w_codebook) try_change("codebook", [](C &c) { c.codebook[15] = -2; });
  }
  CHECK(equal == std::size(packings));
  CHECK(refused > 30);
}

TEST_CASE("a part is refused where nothing begins the layer, and a layer without outputs is its header") {
  for (const Packing &packing : packings) {
    CAPTURE(packing.name);
    C call;
    packing.set(call);
    std::size_t bytes = 0;
    REQUIRE(rapt_linear_packed_length(&call.options, &bytes) == RAPT_OK);
    std::vector<std::uint8_t> packed(bytes, 0x55);
    const std::vector<std::uint8_t> before = packed;
    CHECK(pack_part(call, 128, 2, packed) == RAPT_BAD_PACKED);
    CHECK(pack_part(call, 64, 0, packed) == RAPT_OK);
    CHECK(pack_part(call, 0, 0, packed) == RAPT_OK);
    CHECK(packed == before);
    call.options.out_features = 0;
    REQUIRE(rapt_linear_packed_length(&call.options, &bytes) == RAPT_OK);
    CHECK(bytes == (call.options.w_codebook ? 128 : 64));
    packed.assign(bytes, 0x55);
    CHECK(pack_part(call, 0, 0, packed) == RAPT_OK);
    CHECK(std::memcmp(packed.data(), "\0raptlw1", 8) == 0);
    CHECK(packed.back() != 0x55);
  }
}

// ---- overlaps

// Says where an array of a call is, and how many bytes it has.
struct Array {
  const char *name;
  std::size_t bytes;
  std::function<void(C &, void *)> place;
};

const Array arrays[] = {
    {"w", C::outputs *C::inputs / 2, [](C &c, void *at) { c.given_w = at; }},
    {"w of i8", C::outputs *C::inputs,
     [](C &c, void *at) {
       c.options.w_type = RAPT_I8;
       c.given_w = at;
     }},
    {"w_scales", C::outputs *C::groups * 4, [](C &c, void *at) { c.options.w_scales = at; }},
    {"w_scales of f16", C::outputs *C::groups * 2,
     [](C &c, void *at) {
       c.options.w_scales = at;
       c.options.w_scale_type = RAPT_F16;
     }},
    {"w_scales of rows", C::outputs * 4,
     [](C &c, void *at) {
       c.options.w_scales = at;
       c.options.scale_group = 0;
     }},
    {"w_offsets", C::outputs *C::groups * 4, [](C &c, void *at) { c.options.w_offsets = at; }},
    {"w_offsets of bf16", C::outputs *C::groups * 2,
     [](C &c, void *at) {
       c.options.w_offsets = at;
       c.options.w_scale_type = RAPT_BF16;
     }},
    {"w_zeros", C::outputs *C::groups,
     [](C &c, void *at) { c.options.w_zeros = static_cast<std::uint8_t *>(at); }},
    {"w_codebook", 64, [](C &c, void *at) { c.options.w_codebook = static_cast<float *>(at); }},
};

TEST_CASE("arrays that overlap packed weights") {
  for (const Array &array : arrays) {
    CAPTURE(array.name);
    C call(C::packing);
    array.place(call, call.packed);
    std::size_t bytes = 0;
    REQUIRE(rapt_linear_packed_length(&call.options, &bytes) == RAPT_OK);
    expect_status(call, RAPT_BAD_OVERLAP);
    array.place(call, static_cast<unsigned char *>(call.packed) + bytes - 4);
    expect_status(call, RAPT_BAD_OVERLAP);
    if (bytes + array.bytes > call.packed_memory.size()) continue;
    array.place(call, static_cast<unsigned char *>(call.packed) + (bytes + 3) / 4 * 4);
    expect_status(call, RAPT_OK);
  }
  C call;
  call.pack();
  call.given_y = call.packed_w.data() + 64;
  expect_status(call, RAPT_BAD_OVERLAP);
  call.given_y = call.packed_w.data() + call.packed_w.size() - 4;
  expect_status(call, RAPT_BAD_OVERLAP);
}

// ---- sizes

// Computes the bytes of packed weights from the text of quantized_weights.hpp, in numbers that cannot
// overflow.
long double packed_bytes(const rapt_linear_options &o) {
  const auto up = [](std::size_t n, std::size_t unit) {
    return static_cast<long double>(n / unit + (n % unit != 0));
  };
  const long double groups = o.scale_group ? up(o.in_features, o.scale_group) : 1;
  const bool in_bytes = o.w_type == RAPT_I8 || o.w_type == RAPT_U8;
  const long double codes = in_bytes ? up(o.in_features, 4) * 256 : up(o.in_features, 8) * 256;
  const long double size = o.w_scale_type == RAPT_F16 || o.w_scale_type == RAPT_BF16 ? 2 : 4;
  const long double block =
      codes + 64 * groups * ((o.w_scales ? size : 0) + (o.w_offsets ? size : 0) + (o.w_zeros ? 1 : 0));
  return (o.w_codebook ? 128 : 64) + up(o.out_features, 64) * block;
}

TEST_CASE("sizes near the limits of the address space") {
  constexpr std::size_t sizes[] = {1,
                                   2,
                                   63,
                                   70,
                                   std::size_t{1} << 16,
                                   (std::size_t{1} << 26) - 1,
                                   std::size_t{1} << 32,
                                   std::size_t{1} << 45,
                                   (std::size_t{1} << 52) - 1,
                                   (std::size_t{1} << 53) - 1,
                                   std::size_t{1} << 53,
                                   std::size_t{1} << 60,
                                   SIZE_MAX / 2,
                                   SIZE_MAX / 2 + 1,
                                   SIZE_MAX - 63,
                                   SIZE_MAX};
  std::size_t accepted = 0, refused = 0;
  for (const std::size_t inputs : sizes) {
    for (const std::size_t outputs : sizes) {
      for (const std::size_t rows : {std::size_t{1}, std::size_t{100}, std::size_t{1} << 40, SIZE_MAX}) {
        for (const rapt_type type : {RAPT_I8, RAPT_U4, RAPT_U8}) {
          C call;
          call.options.in_features = inputs;
          call.options.out_features = outputs;
          call.options.rows = rows;
          call.options.w_type = type;
          call.options.scale_group = rows == 1 ? 16 : 0;
          call.options.w_offsets = call.offsets.data();
          if (type != RAPT_I8) call.options.w_zeros = call.zeros.data();
          std::size_t bytes = 7, tasks = 7, length = 7;
          const rapt_status status = rapt_linear_packed_length(&call.options, &length);
          CHECK(rapt_linear_workspace(&call.options, &bytes) == status);
          CHECK(rapt_linear_tasks(&call.options, &tasks) == status);
          CAPTURE(inputs);
          CAPTURE(outputs);
          CAPTURE(rows);
          if (status != RAPT_OK) {
            ++refused;
            CHECK(status == RAPT_BAD_SIZE);
            CHECK((bytes == 7 && tasks == 7 && length == 7));
            // Everything that a machine could hold is accepted.
            const auto most = static_cast<long double>(std::size_t{1} << 47);
            const auto i = static_cast<long double>(inputs), o = static_cast<long double>(outputs),
                       r = static_cast<long double>(rows);
            CHECK((i * o > most || i * r > most || o * r > most));
            CHECK(rapt_linear(call.given_x, call.given_w, call.given_y, &call.options, call.workspace,
                              call.workspace_size) == RAPT_BAD_SIZE);
            continue;
          }
          ++accepted;
          CHECK(static_cast<long double>(length) == packed_bytes(call.options));
          CHECK(length <= address_space);
          CHECK(bytes <= address_space);
          CHECK(bytes > std::min<std::size_t>(rows, 6) * inputs);  // it holds rows of x
          CHECK(tasks > 0);
        }
      }
    }
  }
  CHECK(accepted > 100);
  CHECK(refused > 100);
  expect_statuses<C>({
      {"rows of w", C::runs | C::packing, RAPT_BAD_SIZE,
       [](C &c) {
         c.options.w_strides = {PTRDIFF_MAX / 2, 1};
       }},
      {"inputs of w", C::runs | C::packing, RAPT_BAD_SIZE,
       [](C &c) {
         c.options.w_type = RAPT_I8;
         c.options.w_strides = {1, PTRDIFF_MAX / 2};
       }},
      {"a row of x", C::runs, RAPT_BAD_SIZE,
       [](C &c) {
         c.list[1] = SIZE_MAX / 2;
         c.options.x_rows = c.list.data();
       }},
      {"the last row number of x", C::runs, RAPT_BAD_SIZE,
       [](C &c) {
         c.list[1] = SIZE_MAX;
         c.options.x_rows = c.list.data();
       }},
      {"the last row number of x, and no other", C::runs, RAPT_BAD_SIZE,
       [](C &c) {
         c.list = {SIZE_MAX, SIZE_MAX, SIZE_MAX};
         c.options.x_rows = c.list.data();
       }},
      {"the last row number of y", C::runs, RAPT_BAD_SIZE,
       [](C &c) {
         c.list[1] = SIZE_MAX;
         c.options.y_rows = c.list.data();
       }},
      {"the last row number of y and of float weights", C::runs, RAPT_BAD_SIZE,
       [](C &c) {
         c.use_floats();
         c.options.out_features = 32;
         c.list[0] = SIZE_MAX;
         c.options.y_rows = c.list.data();
       }},
      {"a scale of x, where rows of x repeat", C::runs, RAPT_BAD_SIZE,
       [](C &c) {
         c.use_x_of_i8();
         c.options.x_strides = {RAPT_REPEAT, 1};
         c.list[1] = SIZE_MAX / 2;
         c.options.x_rows = c.list.data();
       }},
      {"a scale of x, where rows of x repeat", C::runs, RAPT_BAD_SIZE,
       [](C &c) {
         c.use_x_of_i8();
         c.options.x_strides = {RAPT_REPEAT, 1};
         c.list[2] = SIZE_MAX;
         c.options.x_rows = c.list.data();
       }},
  });
}

// ---- rapt_quantize_rows and rapt_dequantize_rows

// Elements outside the arrays are not read, and those in the gaps of y are not written.
TEST_CASE("the functions of rows flush against guard pages") {
  for (const Placement placement : {Placement::ends_at_guard, Placement::begins_at_guard}) {
    for (const rapt_type q_type : {RAPT_I8, RAPT_I4}) {
      for (std::size_t inputs = 1; inputs <= 40; inputs += 3) {
        for (const std::ptrdiff_t gap : {0, 3}) {
          constexpr std::size_t rows = 3;
          const std::size_t group = 1 + inputs % 7, groups = (inputs + group - 1) / group;
          const auto stride = static_cast<std::ptrdiff_t>(inputs) + gap;
          const std::size_t extent = 2 * static_cast<std::size_t>(stride) + inputs,
                            q_bytes = rows * (q_type == RAPT_I4 ? (inputs + 1) / 2 : inputs);
          const GuardedBuffer x(extent * 4, placement, 0), y(extent * 4, placement, 0),
              q(q_bytes, placement, 0), scales(rows * groups * 4, placement, 0);
          auto *const numbers = static_cast<float *>(x.data());
          for (std::size_t r = 0; r < rows; ++r) {
            for (std::size_t k = 0; k < inputs; ++k)
              numbers[r * static_cast<std::size_t>(stride) + k] = static_cast<float>(r + k) - 20.5f;
          }
          REQUIRE(rapt_quantize_rows(numbers, RAPT_F32, stride, rows, inputs, group, q_type, q.data(),
                                     static_cast<float *>(scales.data())) == RAPT_OK);
          REQUIRE(rapt_dequantize_rows(q.data(), q_type, rows, inputs, group, scales.data(), nullptr, nullptr,
                                       RAPT_TYPE_DEFAULT, nullptr, y.data(), RAPT_F32, stride) == RAPT_OK);
          for (const GuardedBuffer *buffer : {&x, &y, &q, &scales}) CHECK(buffer->surroundings_intact());
          const auto *const back = static_cast<const float *>(y.data());
          for (std::size_t r = 0; r < rows; ++r) {
            const std::size_t row = r * static_cast<std::size_t>(stride);
            for (std::size_t k = 0; k < inputs; ++k) {
              const float scale = static_cast<const float *>(scales.data())[r * groups + k / group];
              CHECK(std::abs(back[row + k] - numbers[row + k]) <= 0.5001f * scale);
            }
            if (r + 1 < rows) CHECK(is_canary(back + row + inputs, static_cast<std::size_t>(gap) * 4));
          }
        }
      }
    }
  }
}

// ---- the caller's floating-point mode

TEST_CASE("the functions of rows, and layers, in every floating-point mode of the caller") {
  constexpr std::size_t rows = 4, inputs = 37, outputs = 9, group = 16, groups = 3;
  float x[rows * inputs];
  for (std::size_t i = 0; i < rows * inputs; ++i)
    x[i] = (static_cast<float>(i % 23) - 11.3f) / 7 *
           (i < inputs       ? 0x1p-100f
            : i < 2 * inputs ? 0x1p-97f
                             : 1);
  std::int8_t w[outputs * inputs];
  for (std::size_t i = 0; i < outputs * inputs; ++i) w[i] = static_cast<std::int8_t>(i * 37);
  float w_scales[outputs * groups];  // some products are subnormal
  for (std::size_t i = 0; i < outputs * groups; ++i)
    w_scales[i] = (0.1f + static_cast<float>(i)) * (i % 2 == 0 ? 0x1p-40f : 1);
  struct Results {
    std::int8_t q[rows * inputs] = {};
    float scales[rows * groups] = {}, back[rows * inputs] = {}, y[2][rows * outputs] = {};
    bool operator==(const Results &) const = default;
  };
  std::vector<unsigned char> workspace(1 << 20);
  const auto run = [&](std::uint64_t control) {
    Results made;
    rapt_linear_options o{};
    o.size = sizeof o;
    o.w_type = RAPT_I8;
    o.rows = rows;
    o.in_features = inputs;
    o.out_features = outputs;
    o.scale_group = group;
    o.w_scales = w_scales;
    rapt_status status[4];
    const std::uint64_t own = read_fp_control();
    write_fp_control(control);
    const std::uint64_t set = read_fp_control();  // a processor may lack traps
    status[0] = rapt_quantize_rows(x, RAPT_F32, 0, rows, inputs, group, RAPT_I8, made.q, made.scales);
    status[1] = rapt_dequantize_rows(made.q, RAPT_I8, rows, inputs, group, made.scales, nullptr, nullptr,
                                     RAPT_F32, nullptr, made.back, RAPT_F32, 0);
    status[2] = rapt_linear(x, w, made.y[0], &o, workspace.data(), workspace.size());
    o.arithmetic = RAPT_ARITHMETIC_I8;
    status[3] = rapt_linear(x, w, made.y[1], &o, workspace.data(), workspace.size());
    const std::uint64_t seen = read_fp_control();
    write_fp_control(own);
    CHECK(seen == set);
    for (const rapt_status one : status) REQUIRE(one == RAPT_OK);
    return made;
  };
  on_every_level([&] {
    const Results usual = run(read_fp_control());
    for (const FpState &state : foreign_fp_states()) {
      CAPTURE(state.name);
      CHECK(run(state.control) == usual);
    }
    CHECK(run(trapping_fp_control()) == usual);
  });
}

// ---- other functions

TEST_CASE("attention has no unsigned integers, and signed ones of 4 bits only as keys and values") {
  const float x[16] = {};
  float out[16];
  std::vector<unsigned char> workspace(1 << 20);
  for (const rapt_type type : {RAPT_I4, RAPT_U4, RAPT_U8}) {
    for (rapt_type rapt_attention_options::*const field :
         {&rapt_attention_options::q_type, &rapt_attention_options::kv_type,
          &rapt_attention_options::out_type}) {
      if (type == RAPT_I4 && field == &rapt_attention_options::kv_type) continue;
      rapt_attention_options o = RAPT_ATTENTION_OPTIONS_INIT;
      o.batch = o.q_heads = o.kv_heads = 1;
      o.q_len = o.kv_len = 2;
      o.qk_dim = 8;
      o.*field = type;
      CHECK(rapt_attention(x, x, x, out, &o, workspace.data(), workspace.size()) == RAPT_BAD_TYPE);
    }
    rapt_attention_options o = RAPT_ATTENTION_OPTIONS_INIT;
    o.batch = o.q_heads = o.kv_heads = 1;
    o.q_len = o.kv_len = 2;
    o.qk_dim = 8;
    o.arithmetic = RAPT_ARITHMETIC_I8;
    CHECK(rapt_attention(x, x, x, out, &o, workspace.data(), workspace.size()) == RAPT_BAD_ARITHMETIC);
  }
}

}  // namespace
}  // namespace rapt::test
