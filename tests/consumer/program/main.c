/* Uses rapt in a C program: dot, softmax with options, attention, and the text of a status. */
#include <math.h>
#include <rapt/rapt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One query over two equal keys gives the average of their values. */
static int attends(void) {
  const float q[2] = {1, 2}, k[4] = {3, 4, 3, 4}, v[4] = {1, 10, 3, 30};
  float out[2] = {0, 0};
  rapt_attention_options options = RAPT_ATTENTION_OPTIONS_INIT;
  size_t bytes = 0;
  void *workspace;
  rapt_status status;

  options.q_len = 1;
  options.kv_len = 2;
  options.qk_dim = 2;
  if (rapt_attention_workspace(&options, &bytes) != RAPT_OK) return 0;
  workspace = malloc(bytes);
  if (workspace == NULL) return 0;
  status = rapt_attention(q, k, v, out, &options, workspace, bytes);
  free(workspace);
  return status == RAPT_OK && out[0] == 2.0f && out[1] == 20.0f;
}

int main(void) {
  const float q[4] = {1, 0, 1, 0}, k[4] = {0, 1, 1, 1};
  const float logits[3] = {14, 10, 12};
  float probabilities[3];
  rapt_softmax_options options = RAPT_SOFTMAX_OPTIONS_INIT;
  rapt_status status;

  if (rapt_dot_f32(q, k, 4) != 1.0f) return 1;
  options.scale = 0.125;
  status = rapt_softmax_f32(logits, 3, probabilities, 3, 1, 3, &options);
  if (status != RAPT_OK || fabsf(probabilities[0] - 0.419f) > 0.001f) return 2;
  status = rapt_softmax_f32(NULL, 3, probabilities, 3, 1, 3, NULL);
  if (status != RAPT_BAD_X || strlen(rapt_status_text(status)) == 0) return 3;
  if (!attends()) return 4;
  printf("C: rapt %s on %s: %.3f %.3f %.3f; %s\n", rapt_version(), rapt_active_isa(), probabilities[0],
         probabilities[1], probabilities[2], rapt_status_text(status));
  return 0;
}
