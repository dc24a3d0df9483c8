/* Tests the C of linear_layers.md on blocks of a file: their scales are 1, and their offsets 0. */
#include <rapt/rapt.h>
#include <stdlib.h>

enum { ROWS = 3, INPUTS = 512, OUTPUTS = 70, BLOCK = 144, ROW = INPUTS / 256 * BLOCK };

static float x[ROWS * INPUTS], y[ROWS * OUTPUTS];
static unsigned char blocks[OUTPUTS * ROW];

static rapt_status example(size_t rows, size_t in_features, size_t out_features) {
#include "guide_blocks.inc"
}

/* Of each 64 inputs of a block, the first 32 have the low halves of 32 bytes. */
static unsigned integer(const unsigned char *row, size_t k) {
  const unsigned char byte = row[k / 256 * BLOCK + 16 + k % 256 / 64 * 32 + k % 32];
  return k % 64 < 32 ? byte & 15U : byte >> 4;
}

int main(void) {
  size_t i, r, n, k;
  for (i = 0; i < sizeof blocks; ++i) {
    const size_t at = i % BLOCK;
    blocks[i] = (unsigned char)(i * 7919 % 251);
    if (at < 16) blocks[i] = at == 1 ? 0x3c : (at >= 4 && at < 8) || at >= 12;
  }
  for (i = 0; i < ROWS * INPUTS; ++i) x[i] = (float)(i % 9);
  if (example(ROWS, INPUTS, OUTPUTS) != RAPT_OK) return 1;
  for (r = 0; r < ROWS; ++r) {
    for (n = 0; n < OUTPUTS; ++n) {
      float sum = 0; /* of integers, and so exact */
      for (k = 0; k < INPUTS; ++k) sum += x[r * INPUTS + k] * (float)integer(blocks + n * ROW, k);
      if (y[r * OUTPUTS + n] != sum) return 2;
    }
  }
  return 0;
}
