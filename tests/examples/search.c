/* Exact search: the rows that are most like a query, and the function of a pair that an index such as HNSW calls.
 *
 * Output:
 *   row 4711   cosine  0.999
 *   row 7234   cosine  0.530
 *   row 3403   cosine  0.506
 *   the function of a pair: the same bits
 */
#include <rapt/rapt.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 10000, DIM = 48, K = 3 };

static float rows[ROWS * DIM], query[DIM];

int main(void) {
  uint32_t seed = 1;
  for (size_t i = 0; i < ROWS * DIM; ++i) {
    seed = seed * 1664525U + 1013904223U;
    rows[i] = (float)(seed >> 8) * 0x1p-23F - 1;
  }
  for (size_t i = 0; i < DIM; ++i) query[i] = rows[4711 * DIM + i] + (i % 2 == 0 ? 0.03F : -0.03F);

  rapt_search_options options = RAPT_SEARCH_OPTIONS_INIT;
  options.metric = RAPT_METRIC_COSINE;
  options.queries = 1;
  options.rows = ROWS;
  options.dim = DIM;
  options.k = K;
  size_t bytes;
  if (rapt_top_k_workspace(&options, &bytes) != RAPT_OK) return 1;
  void *workspace = malloc(bytes);
  int64_t found[K];
  float scores[K];
  rapt_status status = rapt_top_k(query, rows, found, scores, &options, workspace, bytes);
  free(workspace);
  if (status != RAPT_OK) return fprintf(stderr, "%s\n", rapt_status_text(status)), 1;
  for (int i = 0; i < K; ++i) printf("row %4d   cosine %6.3f\n", (int)found[i], (double)scores[i]);

  rapt_metric_function cosine = rapt_metric(RAPT_METRIC_COSINE, RAPT_F32);
  int is_same = cosine(query, rows + found[0] * DIM, DIM) == scores[0];
  printf("the function of a pair: %s\n", is_same ? "the same bits" : "other bits");
}
