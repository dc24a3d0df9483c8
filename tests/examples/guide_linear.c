/* Compares the example of linear_layers.md with the six lines that define an output. */
#include <math.h>
#include <rapt/rapt.h>
#include <stdlib.h>

enum { ROWS = 3, INPUTS = 1100, OUTPUTS = 70 };

static float x[ROWS * INPUTS], w[OUTPUTS * INPUTS], bias[OUTPUTS], y[ROWS * OUTPUTS];

static rapt_status example(size_t rows, size_t in_features, size_t out_features) {
#include "guide_linear.inc"
}

static float sum(size_t r, size_t n, size_t in_features) {
#include "guide_linear_sum.inc"
  return t;
}

static void fill(float *values, size_t n) {
  size_t i;
  for (i = 0; i < n; ++i) values[i] = (float)(i * 7919 % 1009) / 1009 - 0.5f;
}

int main(void) {
  size_t r, n;
  fill(x, ROWS * INPUTS);
  fill(w, OUTPUTS * INPUTS);
  fill(bias, OUTPUTS);
  if (example(ROWS, INPUTS, OUTPUTS) != RAPT_OK) return 1;
  for (r = 0; r < ROWS; ++r) {
    for (n = 0; n < OUTPUTS; ++n) {
      if (y[r * OUTPUTS + n] != sum(r, n, INPUTS) + bias[n]) return 2;
    }
  }
  return 0;
}
