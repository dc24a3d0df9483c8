/* Compares the example of calling_attention.md, which runs attention in tasks, with a call for one row. */
#include <rapt/rapt.h>
#include <stdlib.h>
#include <string.h>

static float *make(size_t n) {
  float *values = malloc(n * sizeof *values);
  size_t i;
  for (i = 0; values && i < n; ++i) values[i] = (float)(i * 7919 % 1009) / 1009 - 0.5f;
  return values;
}

static rapt_attention_options given;

static rapt_status example(const float *q, const float *k, const float *v, float *out) {
#include "guide_attention.inc"
  given = options;
  return RAPT_OK;
}

int main(void) {
  const size_t q_size = (size_t)32 * 1000 * 128, k_size = (size_t)8 * 4096 * 128;
  float *q = make(q_size), *k = make(k_size), *v = make(k_size), *out = make(q_size), *whole = make(q_size);
  size_t bytes = 0;
  void *workspace;
  if (!q || !k || !v || !out || !whole || example(q, k, v, out) != RAPT_OK) return 1;
  /* Computes only the last query of the first head, which sees all keys. */
  given.q_len = 1;
  given.q_strides = rapt_strides_bhtd(32, 1000, 128);
  given.out_strides = given.q_strides;
  if (rapt_attention_workspace(&given, &bytes) != RAPT_OK || !(workspace = malloc(bytes))) return 2;
  if (rapt_attention(q + 999 * 128, k, v, whole + 999 * 128, &given, workspace, bytes) != RAPT_OK) return 3;
  return memcmp(whole + 999 * 128, out + 999 * 128, 128 * sizeof *out) != 0;
}
