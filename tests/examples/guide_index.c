/* Tests the C of the manual's first page: queries, keys and values are equal, so that every token's output is its value. */
#include <rapt/rapt.h>
#include <stdlib.h>

int main(void) {
  float q[2 * 4 * 64], out[2 * 4 * 64] = {0};
  void *workspace = NULL;
  size_t i;
  for (i = 0; i < sizeof q / sizeof *q; ++i) q[i] = 0.5f;
#include "guide_index.inc"
  free(workspace);
  for (i = 0; i < sizeof q / sizeof *q; ++i) {
    if (out[i] != 0.5f) return 2;
  }
  return status != RAPT_OK;
}
