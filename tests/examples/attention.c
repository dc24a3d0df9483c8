/* Calls attention from C. 8 query heads share 2 heads of keys and values.
 *
 * Output:
 *   out = 0.0481 -0.1410 0.1482 ...
 *   a bad call: options->q_heads is not a multiple of options->kv_heads, or q_heads, k_heads and v_heads do not fit
 */
#include <rapt/rapt.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { Q_HEADS = 8, KV_HEADS = 2, TOKENS = 32, DIM = 64 };

/* Fills x with uniform numbers in [-1, 1), without libm. */
static void fill(float *x, size_t n, uint32_t seed) {
  for (size_t i = 0; i < n; ++i) {
    seed = seed * 1664525U + 1013904223U;
    x[i] = (float)(seed >> 8) * 0x1p-23F - 1;
  }
}

static float q[Q_HEADS * TOKENS * DIM], k[KV_HEADS * TOKENS * DIM], v[KV_HEADS * TOKENS * DIM],
    out[Q_HEADS * TOKENS * DIM];

int main(void) {
  fill(q, sizeof q / sizeof *q, 1);
  fill(k, sizeof k / sizeof *k, 2);
  fill(v, sizeof v / sizeof *v, 3);

  rapt_attention_options options = RAPT_ATTENTION_OPTIONS_INIT;
  options.q_heads = Q_HEADS;
  options.kv_heads = KV_HEADS;
  options.q_len = TOKENS;
  options.kv_len = TOKENS;
  options.qk_dim = DIM;
  options.causal = RAPT_CAUSAL_BOTTOM_RIGHT;

  size_t bytes = 0;
  rapt_status status = rapt_attention_workspace(&options, &bytes);
  if (status != RAPT_OK) return fprintf(stderr, "%s\n", rapt_status_text(status)), 1;
  void *workspace = malloc(bytes);
  if (!workspace) return 1;

  status = rapt_attention(q, k, v, out, &options, workspace, bytes);
  if (status != RAPT_OK) return fprintf(stderr, "%s\n", rapt_status_text(status)), 1;
  const float *last = out + (TOKENS - 1) * DIM; /* the first head's last token */
  printf("out = %.4f %.4f %.4f ...\n", (double)last[0], (double)last[1], (double)last[2]);

  options.kv_heads = 3;
  printf("a bad call: %s\n", rapt_status_text(rapt_attention(q, k, v, out, &options, workspace, bytes)));
  free(workspace);
  return 0;
}
