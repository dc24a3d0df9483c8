/* Compares the example of calling_attention.md, a cache of Q8_0 keys and f16 values, with a call over their numbers. */
#include <rapt/rapt.h>
#include <string.h>

#include "attend.h"

enum { heads = 8, tokens = 100, dim = 128, blocks = tokens * heads * dim / 32 };

static unsigned char k[blocks * 34];
static rapt_f16 v[heads * tokens * dim];
static float q[heads * dim], k_numbers[tokens * heads * dim], v_numbers[heads * tokens * dim],
    out[2][heads * dim];

int main(void) {
  rapt_attention_options options = RAPT_ATTENTION_OPTIONS_INIT, plain;
  size_t i;
  for (i = 0; i < sizeof k; ++i) k[i] = (unsigned char)(i % 34 == 0 ? 7 : i % 34 == 1 ? 0x24 : i * 37);
  for (i = 0; i < heads * dim; ++i) q[i] = (float)(i % 13) / 13 - 0.5f;
  for (i = 0; i < heads * tokens * dim; ++i) v_numbers[i] = (float)(i * 7919 % 1009) / 1009 - 0.5f;
  rapt_convert_f32_to_f16(v_numbers, v, heads * tokens * dim);
  rapt_convert_f16_to_f32(v, v_numbers, heads * tokens * dim);
  if (rapt_dequantize_rows(k, RAPT_Q8_0, tokens, heads * dim, 0, NULL, NULL, NULL, RAPT_TYPE_DEFAULT, NULL,
                           k_numbers, RAPT_F32, 0) != RAPT_OK)
    return 1;
  options.q_heads = options.kv_heads = heads;
  options.q_len = 1;
  options.kv_len = tokens;
  options.qk_dim = dim;
  plain = options;
  plain.k_strides = rapt_strides_bthd(heads, tokens, dim);
  if (attend(q, k_numbers, v_numbers, &plain, out[0]) != RAPT_OK) return 2;
#include "guide_caches.inc"
  if (attend(q, k, v, &options, out[1]) != RAPT_OK) return 3;
  return memcmp(out[0], out[1], sizeof out[0]) != 0;
}
