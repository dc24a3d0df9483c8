/* Calls attention with a workspace of its size. */
#pragma once

#include <rapt/rapt.h>
#include <stdlib.h>

static rapt_status attend(const float *q, const void *keys, const void *values,
                          const rapt_attention_options *options, float *to) {
  size_t bytes = 0;
  rapt_status status = rapt_attention_workspace(options, &bytes);
  void *workspace = malloc(bytes);
  if (status == RAPT_OK && !workspace) return RAPT_BAD_WORKSPACE;
  if (status == RAPT_OK) status = rapt_attention(q, keys, values, to, options, workspace, bytes);
  free(workspace);
  return status;
}
