#include "tiles.hpp"

#include <setjmp.h>
#include <signal.h>

#include <cstring>

#include "model.hpp"

namespace rapt::emulate {
namespace {

constexpr unsigned tile_count = 8, max_rows = 16, row_words = 16, row_bytes = 4 * row_words;

struct Configuration {
  std::uint8_t palette, start_row, reserved[14];
  std::uint16_t bytes_per_row[16];
  std::uint8_t rows[16];

  // Palette 1 has eight tiles of up to 16 rows of 64 bytes.
  bool is_valid() const {
    if (palette > 1) return false;
    for (const std::uint8_t byte : reserved) {
      if (byte != 0) return false;
    }
    for (unsigned tile = 0; tile < 16; ++tile) {
      if (rows[tile] > max_rows || bytes_per_row[tile] > row_bytes || !rows[tile] != !bytes_per_row[tile])
        return false;
      if (tile >= tile_count && rows[tile] != 0) return false;
    }
    return true;
  }
};
static_assert(sizeof(Configuration) == 64);

struct Tiles {
  Configuration configuration;
  Word data[tile_count][max_rows][row_words];
};

// Uses the initial-exec TLS model, because a signal handler may not allocate thread-local memory.
thread_local Tiles tiles __attribute__((tls_model("initial-exec"))) = {};

bool configuration_is_native = false;

unsigned rows(unsigned tile) { return tiles.configuration.rows[tile]; }
unsigned bytes_per_row(unsigned tile) { return tiles.configuration.bytes_per_row[tile]; }
unsigned words_per_row(unsigned tile) { return bytes_per_row(tile) / 4; }

// Copies the CPU's tile configuration, and zeroes the tiles if it has changed. If a program loads the same
// configuration twice, the tiles keep their values, because the CPU does not trap there.
void take_native_configuration(const Frame &frame) {
  static constexpr unsigned char released[sizeof(Configuration)] = {};
  const unsigned char *now = frame.tile_config();
  if (now == nullptr) now = released;
  if (std::memcmp(&tiles.configuration, now, sizeof(Configuration)) == 0) return;
  tiles = {};
  std::memcpy(&tiles.configuration, now, sizeof(Configuration));
}

bool load_configuration(const void *from) {
  Configuration wanted;
  std::memcpy(&wanted, from, sizeof wanted);
  if (!wanted.is_valid()) return false;
  tiles = {};
  if (wanted.palette == 1) tiles.configuration = wanted;
  return true;
}

void zero(unsigned tile) { std::memset(tiles.data[tile], 0, sizeof tiles.data[tile]); }

// Keeps bytes beyond the tile's rows and columns. Nothing reads them until a configuration zeroes them.
void load(unsigned tile, const char *from, std::uintptr_t stride) {
  for (unsigned row = 0; row < rows(tile); ++row) {
    std::memcpy(tiles.data[tile][row], from + row * stride, bytes_per_row(tile));
  }
}

void store(unsigned tile, char *to, std::uintptr_t stride) {
  for (unsigned row = 0; row < rows(tile); ++row) {
    std::memcpy(to + row * stride, tiles.data[tile][row], bytes_per_row(tile));
  }
}

// In words, c must be rows x columns, a rows x pairs, and b pairs x columns.
bool shapes_agree(unsigned c, unsigned a, unsigned b) {
  if (c == a || c == b || a == b) return false;
  if ((bytes_per_row(c) | bytes_per_row(a) | bytes_per_row(b)) % 4 != 0) return false;
  return rows(c) == rows(a) && bytes_per_row(c) == bytes_per_row(b) && rows(b) == words_per_row(a) &&
         rows(c) != 0 && rows(b) != 0;
}

template <class Element>
[[gnu::always_inline]] inline void multiply(unsigned c, unsigned a, unsigned b, Element &&element) {
  const unsigned pairs = words_per_row(a);
  for (unsigned row = 0; row < rows(c); ++row) {
    for (unsigned column = 0; column < words_per_row(c); ++column) {
      Word &sum = tiles.data[c][row][column];
      sum = element(sum, tiles.data[a][row], &tiles.data[b][0][column], pairs);
    }
  }
}

// A product has up to 8192 multiply-adds. Without FMA instructions, calls of libm take ten times as long.
[[gnu::target_clones("fma", "default")]] void multiply_bf16(unsigned c, unsigned a, unsigned b) {
  multiply(c, a, b, [](Word sum, const Word *x, const Word *y, unsigned pairs) {
    return tdpbf16ps(sum, x, y, row_words, pairs);
  });
}

template <class A, class B>
void multiply_bytes(unsigned c, unsigned a, unsigned b) {
  multiply(c, a, b, [](Word sum, const Word *x, const Word *y, unsigned pairs) {
    for (unsigned i = 0; i < pairs; ++i) sum = wrapped(sum_of_bytes<A, B>(sum, x[i], y[i * row_words]));
    return sum;
  });
}

bool execute_on_data(const Instruction &i) {
  const unsigned tile = i.reg, a = i.rm, b = i.vvvv;
  switch (i.operation) {
    case Operation::tilezero:
      zero(tile);
      return rows(tile) != 0;
    case Operation::tileload:
      load(tile, reinterpret_cast<const char *>(i.base), i.index);
      return rows(tile) != 0;
    case Operation::tilestored:
      store(tile, reinterpret_cast<char *>(i.base), i.index);
      return rows(tile) != 0;
    default:
      break;
  }
  if (!shapes_agree(tile, a, b)) return false;
  switch (i.operation) {
    case Operation::tdpbf16ps:
      multiply_bf16(tile, a, b);
      return true;
    case Operation::tdpbssd:
      multiply_bytes<std::int8_t, std::int8_t>(tile, a, b);
      return true;
    case Operation::tdpbsud:
      multiply_bytes<std::int8_t, std::uint8_t>(tile, a, b);
      return true;
    case Operation::tdpbusd:
      multiply_bytes<std::uint8_t, std::int8_t>(tile, a, b);
      return true;
    case Operation::tdpbuud:
      multiply_bytes<std::uint8_t, std::uint8_t>(tile, a, b);
      return true;
    default:
      return false;
  }
}

sigjmp_buf no_tile_configuration;

}  // namespace

void find_tile_configuration() {
  struct sigaction action = {}, before;
  action.sa_handler = [](int) { siglongjmp(no_tile_configuration, 1); };
  sigaction(SIGILL, &action, &before);
  if (sigsetjmp(no_tile_configuration, 1) == 0) {
    asm volatile(".byte 0xc4, 0xe2, 0x78, 0x49, 0xc0");  // tilerelease
    configuration_is_native = true;
  }
  sigaction(SIGILL, &before, nullptr);
}

bool execute_tile(const Instruction &i, const Frame &frame) {
  if (configuration_is_native) take_native_configuration(frame);
  switch (i.operation) {
    case Operation::ldtilecfg:
      return load_configuration(reinterpret_cast<const void *>(i.address()));
    case Operation::tilerelease:
      tiles = {};
      return true;
    case Operation::sttilecfg:
      std::memcpy(reinterpret_cast<void *>(i.address()), &tiles.configuration, sizeof(Configuration));
      return true;
    default:
      return tiles.configuration.palette == 1 && execute_on_data(i);
  }
}

}  // namespace rapt::emulate
