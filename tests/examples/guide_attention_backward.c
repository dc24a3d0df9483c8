/* Compares the example of calling_attention.md, which runs the gradient in tasks, with a single call. */
#include <rapt/rapt.h>
#include <stdlib.h>
#include <string.h>

static rapt_status example(const float *q, const float *k, const float *v, rapt_attention_options options,
                           rapt_attention_gradients gradients, size_t threads) {
#include "guide_attention_backward.inc"
  return RAPT_OK;
}

enum { heads = 4, kv_heads = 2, tokens = 200, dim = 16, q_size = heads * tokens * dim };
enum { k_size = kv_heads * tokens * dim };

static float q[q_size], k[k_size], v[k_size], out[q_size], dout[q_size], lse[heads * tokens];

struct results {
  float dq[q_size], dk[k_size], dv[k_size];
};
static struct results whole, parts;

static rapt_attention_gradients gradients_of(struct results *results) {
  rapt_attention_gradients gradients = RAPT_ATTENTION_GRADIENTS_INIT;
  gradients.out = out;
  gradients.dout = dout;
  gradients.dq = results->dq;
  gradients.dk = results->dk;
  gradients.dv = results->dv;
  return gradients;
}

static void fill(float *values, size_t n, size_t seed) {
  size_t i;
  for (i = 0; i < n; ++i) values[i] = (float)((i + seed) * 7919 % 1009) / 1009 - 0.5f;
}

int main(void) {
  rapt_attention_options options = RAPT_ATTENTION_OPTIONS_INIT;
  rapt_attention_gradients gradients = gradients_of(&whole);
  size_t bytes = 0;
  void *workspace;
  fill(q, q_size, 1);
  fill(k, k_size, 2);
  fill(v, k_size, 3);
  fill(dout, q_size, 4);
  options.q_heads = heads;
  options.kv_heads = kv_heads;
  options.q_len = options.kv_len = tokens;
  options.qk_dim = dim;
  options.causal = RAPT_CAUSAL_BOTTOM_RIGHT;
  options.lse = lse;
  if (rapt_attention_backward_workspace(&options, &bytes) != RAPT_OK) return 1;
  if (!(workspace = malloc(bytes))) return 1; /* a forward call needs less */
  if (rapt_attention(q, k, v, out, &options, workspace, bytes) != RAPT_OK) return 2;
  if (rapt_attention_backward(q, k, v, &options, &gradients, workspace, bytes) != RAPT_OK) return 3;
  free(workspace);
  if (example(q, k, v, options, gradients_of(&parts), 3) != RAPT_OK) return 4;
  return memcmp(&whole, &parts, sizeof whole) != 0;
}
