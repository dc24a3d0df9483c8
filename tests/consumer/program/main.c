/* A C program that uses rapt: dot, softmax with options, and a status in words. */
#include <math.h>
#include <rapt/rapt.h>
#include <stdio.h>
#include <string.h>

int main(void) {
  const float q[4] = {1, 0, 1, 0}, k[4] = {0, 1, 1, 1};
  const float logits[3] = {14, 10, 12};
  float probabilities[3];
  rapt_softmax_options options = RAPT_SOFTMAX_OPTIONS_INIT;
  rapt_status status;

  if (rapt_dot_f32(q, k, 4) != 1.0f) return 1;
  options.scale = 0.125f;
  status = rapt_softmax_f32(logits, 3, probabilities, 3, 1, 3, &options);
  if (status != RAPT_OK || fabsf(probabilities[0] - 0.419f) > 0.001f) return 2;
  status = rapt_softmax_f32(NULL, 3, probabilities, 3, 1, 3, NULL);
  if (status != RAPT_BAD_X || strlen(rapt_status_text(status)) == 0) return 3;
  printf("C: rapt %s on %s: %.3f %.3f %.3f; %s\n", rapt_version(), rapt_active_isa(), probabilities[0],
         probabilities[1], probabilities[2], rapt_status_text(status));
  return 0;
}
