/* A mixture of experts by rapt: a router, the lists of its choice, gate and up as one layer, the activation, down, and the
 * sum over the slots. Compares it with each token and each expert alone.
 *
 * Output:
 *   rows of the experts              5 4 3 4 0
 *   one call for all experts         2cabf7043de53a5e
 *   each expert and token alone      equal
 */
#include <rapt/rapt.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS = 8, SLOTS = 2, ENTRIES = TOKENS * SLOTS, EXPERTS = 5, WIDTH = 96, HIDDEN = 70 };

static float x[TOKENS * WIDTH], router[EXPERTS * WIDTH], gate_up[EXPERTS * 2 * HIDDEN * WIDTH],
    down[EXPERTS * WIDTH * HIDDEN];
static float logits[TOKENS * EXPERTS], weights[ENTRIES], both[ENTRIES * 2 * HIDDEN], hidden[ENTRIES * HIDDEN],
    outputs[ENTRIES * WIDTH], y[TOKENS * WIDTH], expected[TOKENS * WIDTH];
static int32_t ids[ENTRIES];
static size_t offsets[EXPERTS + 1], token_rows[ENTRIES], entry_rows[ENTRIES];

/* Fills numbers with uniform ones in [-1, 1), without libm. */
static void fill(float *numbers, size_t n, uint32_t seed) {
  for (size_t i = 0; i < n; ++i) {
    seed = seed * 1664525U + 1013904223U;
    numbers[i] = (float)(seed >> 8) * 0x1p-23F - 1;
  }
}

/* Returns the FNV-1a hash of the bits. */
static uint64_t hash(const float *numbers, size_t n) {
  uint64_t h = 0xcbf29ce484222325U;
  for (size_t i = 0; i < n; ++i) {
    uint32_t bits;
    memcpy(&bits, &numbers[i], sizeof bits);
    for (int byte = 0; byte < 4; ++byte) h = (h ^ (bits >> (8 * byte) & 0xff)) * 0x100000001b3U;
  }
  return h;
}

static rapt_linear_options layer(size_t rows, size_t inputs, size_t outputs_of_layer) {
  rapt_linear_options o = RAPT_LINEAR_OPTIONS_INIT;
  o.rows = rows;
  o.in_features = inputs;
  o.out_features = outputs_of_layer;
  return o;
}

static rapt_status linear(const float *from, const float *w, float *to, size_t rows, size_t inputs,
                          size_t outputs_of_layer) {
  rapt_linear_options o = layer(rows, inputs, outputs_of_layer);
  size_t bytes = 0;
  rapt_status status = rapt_linear_workspace(&o, &bytes);
  void *workspace = malloc(bytes);
  if (status == RAPT_OK) status = rapt_linear(from, w, to, &o, workspace, bytes);
  free(workspace);
  return status;
}

static rapt_status activate(const float *from, float *to, size_t rows) {
  rapt_gated_options o = RAPT_GATED_OPTIONS_INIT;
  o.rows = rows;
  o.cols = HIDDEN;
  o.gate_stride = o.up_stride = 2 * HIDDEN;
  return rapt_gated(from, from + HIDDEN, to, &o);
}

/* Chooses the experts with the largest logits of each token, and makes their weights by a softmax over these. */
static rapt_status route(void) {
  rapt_status status = linear(x, router, logits, TOKENS, WIDTH, EXPERTS);
  for (size_t token = 0; token < TOKENS && status == RAPT_OK; ++token) {
    float *const of_token = logits + token * EXPERTS;
    for (size_t slot = 0; slot < SLOTS; ++slot) {
      const size_t best = rapt_argmax_f32(of_token, EXPERTS);
      ids[token * SLOTS + slot] = (int32_t)best;
      weights[token * SLOTS + slot] = of_token[best];
      of_token[best] = -1e30F;
    }
  }
  if (status == RAPT_OK) status = rapt_softmax_f32(weights, SLOTS, weights, SLOTS, TOKENS, SLOTS, NULL);
  return status;
}

/* All experts, with one call for each layer. */
static rapt_status all_at_once(void) {
  rapt_status status = rapt_expert_lists(ids, 0, TOKENS, SLOTS, EXPERTS, offsets, token_rows, entry_rows);
  rapt_expert_options experts = RAPT_EXPERT_OPTIONS_INIT;
  experts.experts = EXPERTS;
  experts.offsets = offsets;
  rapt_linear_options first = layer(ENTRIES, WIDTH, 2 * HIDDEN), second = layer(ENTRIES, HIDDEN, WIDTH);
  first.x_rows = token_rows;  /* tokens in, and rows in the order of experts out */
  second.y_rows = entry_rows; /* back to the order of tokens */
  size_t bytes = 0, more = 0;
  if (status == RAPT_OK) status = rapt_linear_experts_workspace(&first, &bytes);
  if (status == RAPT_OK) status = rapt_linear_experts_workspace(&second, &more);
  if (more > bytes) bytes = more;
  void *workspace = malloc(bytes);
  if (status == RAPT_OK) status = rapt_linear_experts(x, gate_up, both, &first, &experts, workspace, bytes);
  if (status == RAPT_OK) status = activate(both, hidden, ENTRIES);
  if (status == RAPT_OK)
    status = rapt_linear_experts(hidden, down, outputs, &second, &experts, workspace, bytes);
  free(workspace);
  rapt_expert_sum_options sum = RAPT_EXPERT_SUM_OPTIONS_INIT;
  sum.tokens = TOKENS;
  sum.top_k = SLOTS;
  sum.cols = WIDTH;
  sum.weights = weights;
  if (status == RAPT_OK) status = rapt_expert_sum(outputs, y, &sum);
  return status;
}

/* One token and one expert at a time. */
static rapt_status one_by_one(void) {
  rapt_status status = RAPT_OK;
  for (size_t token = 0; token < TOKENS && status == RAPT_OK; ++token) {
    for (size_t slot = 0; slot < SLOTS && status == RAPT_OK; ++slot) {
      const size_t expert = (size_t)ids[token * SLOTS + slot];
      status = linear(x + token * WIDTH, gate_up + expert * 2 * HIDDEN * WIDTH, both, 1, WIDTH, 2 * HIDDEN);
      if (status == RAPT_OK) status = activate(both, hidden, 1);
      if (status == RAPT_OK)
        status = linear(hidden, down + expert * WIDTH * HIDDEN, outputs + slot * WIDTH, 1, HIDDEN, WIDTH);
    }
    rapt_expert_sum_options sum = RAPT_EXPERT_SUM_OPTIONS_INIT;
    sum.tokens = 1;
    sum.top_k = SLOTS;
    sum.cols = WIDTH;
    sum.weights = weights + token * SLOTS;
    if (status == RAPT_OK) status = rapt_expert_sum(outputs, expected + token * WIDTH, &sum);
  }
  return status;
}

int main(void) {
  fill(x, sizeof x / sizeof *x, 1);
  fill(router, sizeof router / sizeof *router, 2);
  fill(gate_up, sizeof gate_up / sizeof *gate_up, 3);
  fill(down, sizeof down / sizeof *down, 4);
  rapt_status status = route();
  if (status == RAPT_OK) status = all_at_once();
  if (status == RAPT_OK) status = one_by_one();
  if (status != RAPT_OK) return fprintf(stderr, "%s\n", rapt_status_text(status)), 1;
  printf("rows of the experts             ");
  for (size_t e = 0; e < EXPERTS; ++e) printf(" %zu", offsets[e + 1] - offsets[e]);
  printf("\none call for all experts         %016llx\n", (unsigned long long)hash(y, sizeof y / sizeof *y));
  printf("each expert and token alone      %s\n", memcmp(y, expected, sizeof y) == 0 ? "equal" : "different");
  return 0;
}
