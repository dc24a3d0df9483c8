/* README.md's softmax. */
#include <math.h>
#include <rapt/rapt.h>
#include <stdio.h>

int main(void) {
  float x[4 * 128], y[4 * 128], sum = 0;
  int i;
  for (i = 0; i < 4 * 128; ++i) x[i] = (float)(i % 7);
#include "readme_softmax.inc"
  for (i = 0; i < 128; ++i) sum += y[i];
  return !(status == RAPT_OK && fabsf(sum - 1) < 1e-5f && y[124] > 0 && y[125] == 0 && y[3 * 128 + 127] > 0);
}
