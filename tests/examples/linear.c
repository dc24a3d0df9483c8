/* A linear layer in six lines of C, and the same bits from rapt on every instruction set of this CPU.
 *
 * Output:
 *   six lines of C                 9c294774c76fc864
 *   rapt, 5 rows at once           equal
 *   rapt, packed, one row a call   equal
 */
#include <math.h>
#include <rapt/rapt.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 5, INPUTS = 1100, OUTPUTS = 130 };

/* Fills x with uniform numbers in [-1, 1), without libm. */
static void fill(float *x, size_t n, uint32_t seed) {
  for (size_t i = 0; i < n; ++i) {
    seed = seed * 1664525U + 1013904223U;
    x[i] = (float)(seed >> 8) * 0x1p-23F - 1;
  }
}

static float output(const float *x, const float *w) {
  float t = 0, p = 0;
  for (int k = 0; k < INPUTS; ++k) {
    p = fmaf(x[k], w[k], p);
    if (k % 512 == 511 || k == INPUTS - 1) t += p, p = 0;
  }
  return t;
}

/* Returns the FNV-1a hash of the bits. */
static uint64_t hash(const float *y, size_t n) {
  uint64_t h = 0xcbf29ce484222325U;
  for (size_t i = 0; i < n; ++i) {
    uint32_t bits;
    memcpy(&bits, &y[i], sizeof bits);
    for (int byte = 0; byte < 4; ++byte) h = (h ^ (bits >> (8 * byte) & 0xff)) * 0x100000001b3U;
  }
  return h;
}

static float x[ROWS * INPUTS], w[OUTPUTS * INPUTS], expected[ROWS * OUTPUTS], y[ROWS * OUTPUTS];

/* Returns whether y is what the six lines say. */
static int is_equal(void) { return memcmp(y, expected, sizeof y) == 0; }

int main(void) {
  fill(x, sizeof x / sizeof *x, 1);
  fill(w, sizeof w / sizeof *w, 2);
  for (int r = 0; r < ROWS; ++r) {
    for (int n = 0; n < OUTPUTS; ++n) expected[r * OUTPUTS + n] = output(x + r * INPUTS, w + n * INPUTS);
  }
  printf("six lines of C                 %016llx\n", (unsigned long long)hash(expected, ROWS * OUTPUTS));

  rapt_linear_options options = RAPT_LINEAR_OPTIONS_INIT;
  options.rows = ROWS;
  options.in_features = INPUTS;
  options.out_features = OUTPUTS;
  size_t bytes = 0, packed_bytes = 0;
  rapt_status status = rapt_linear_workspace(&options, &bytes);
  if (status == RAPT_OK) status = rapt_linear_packed_length(&options, &packed_bytes);
  void *workspace = malloc(bytes), *packed = malloc(packed_bytes);
  if (status != RAPT_OK || !workspace || !packed) return fprintf(stderr, "%s\n", rapt_status_text(status)), 1;

  status = rapt_linear_pack(w, 0, OUTPUTS, &options, packed, packed_bytes);
  int at_once = 1, row_by_row = 1;
  for (size_t level = 0; level < rapt_isa_count() && status == RAPT_OK; ++level) {
    if (rapt_force_isa(rapt_isa_name(level)) != RAPT_OK) continue; /* another CPU's */
    memset(y, 0, sizeof y);
    status = rapt_linear(x, w, y, &options, workspace, bytes);
    at_once = at_once && is_equal();

    memset(y, 0, sizeof y);
    rapt_linear_options one = options;
    one.rows = 1;
    one.packed_w = 1;
    for (int r = 0; r < ROWS && status == RAPT_OK; ++r) {
      status = rapt_linear(x + r * INPUTS, packed, y + r * OUTPUTS, &one, workspace, bytes);
    }
    row_by_row = row_by_row && is_equal();
  }
  if (status != RAPT_OK) return fprintf(stderr, "%s\n", rapt_status_text(status)), 1;
  printf("rapt, %d rows at once           %s\n", ROWS, at_once ? "equal" : "different");
  printf("rapt, packed, one row a call   %s\n", row_by_row ? "equal" : "different");
  free(packed);
  free(workspace);
  return 0;
}
