/* Compares the example of calling_attention.md, keys and values of 4 bits, with a call over their numbers. */
#include <rapt/rapt.h>
#include <string.h>

#include "attend.h"

enum { heads = 8, tokens = 100, dim = 128, numbers = tokens * heads * dim };

static float k[numbers], q[heads * dim], k_scales[numbers / 32], v_scales[numbers / 32], out[2][heads * dim];
static unsigned char k4[numbers / 2], v4[numbers / 2];

int main(void) {
  rapt_attention_options options = RAPT_ATTENTION_OPTIONS_INIT, plain;
  size_t i;
  for (i = 0; i < heads * dim; ++i) q[i] = (float)(i % 13) / 13 - 0.5f;
  for (i = 0; i < numbers; ++i) k[i] = (float)(i * 7919 % 1009) / 1009 - 0.5f;
  options.q_heads = options.kv_heads = heads;
  options.q_len = 1;
  options.kv_len = tokens;
  options.qk_dim = dim;
  plain = options;
#include "guide_small_caches.inc"
  if (rounded != RAPT_OK) return 1;
  memcpy(v4, k4, sizeof v4);
  memcpy(v_scales, k_scales, sizeof v_scales);
  if (attend(q, k4, v4, &options, out[0]) != RAPT_OK) return 2;
  if (rapt_dequantize_rows(k4, RAPT_I4, tokens * heads, dim, 32, k_scales, NULL, NULL, RAPT_F32, NULL, k,
                           RAPT_F32, 0) != RAPT_OK)
    return 3;
  plain.k_strides = plain.v_strides = rapt_strides_bthd(heads, tokens, dim);
  if (attend(q, k, k, &plain, out[1]) != RAPT_OK) return 4;
  return memcmp(out[0], out[1], sizeof out[0]) != 0;
}
