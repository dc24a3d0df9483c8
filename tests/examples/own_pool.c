/* Runs attention and a linear layer on the program's own pool of threads, by rapt/parallel.h.
 *
 * Output:
 *   attention on 4 threads      the bits of one
 *   decoding on 4 threads       the bits of one
 *   linear layer on 4 threads   the bits of one
 */
#include <pthread.h>
#include <rapt/parallel.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { THREADS = 4, HEADS = 2, TOKENS = 1500, DIM = 64, OUTPUTS = 300 };

/* The program's pool: threads that wait for work, and take one index after the other. */
struct pool {
  pthread_t threads[THREADS];
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  void (*body)(void *context, size_t index);
  void *context;
  size_t count, next, unfinished;
  int ended;
};

static void *work(void *given) {
  struct pool *pool = given;
  pthread_mutex_lock(&pool->mutex);
  while (!pool->ended) {
    if (pool->next == pool->count) {
      pthread_cond_wait(&pool->changed, &pool->mutex);
      continue;
    }
    size_t index = pool->next++;
    pthread_mutex_unlock(&pool->mutex);
    pool->body(pool->context, index);
    pthread_mutex_lock(&pool->mutex);
    if (--pool->unfinished == 0) pthread_cond_broadcast(&pool->changed);
  }
  pthread_mutex_unlock(&pool->mutex);
  return NULL;
}

/* What rapt needs of it: calls body(context, 0) to body(context, count - 1), and returns after the last one. */
static void run_in_pool(void *given, size_t count, rapt_parallel_body body, void *context) {
  struct pool *pool = given;
  pthread_mutex_lock(&pool->mutex);
  pool->body = body;
  pool->context = context;
  pool->count = pool->unfinished = count;
  pool->next = 0;
  pthread_cond_broadcast(&pool->changed);
  while (pool->unfinished > 0) pthread_cond_wait(&pool->changed, &pool->mutex);
  pthread_mutex_unlock(&pool->mutex);
}

static void start(struct pool *pool) {
  pthread_mutex_init(&pool->mutex, NULL);
  pthread_cond_init(&pool->changed, NULL);
  for (int i = 0; i < THREADS; ++i) pthread_create(&pool->threads[i], NULL, work, pool);
}

static void end(struct pool *pool) {
  pthread_mutex_lock(&pool->mutex);
  pool->ended = 1;
  pthread_cond_broadcast(&pool->changed);
  pthread_mutex_unlock(&pool->mutex);
  for (int i = 0; i < THREADS; ++i) pthread_join(pool->threads[i], NULL);
}

/* Fills x with uniform numbers in [-1, 1), without libm. */
static void fill(float *x, size_t n, uint32_t seed) {
  for (size_t i = 0; i < n; ++i) {
    seed = seed * 1664525U + 1013904223U;
    x[i] = (float)(seed >> 8) * 0x1p-23F - 1;
  }
}

static float q[HEADS * TOKENS * DIM], k[HEADS * TOKENS * DIM], v[HEADS * TOKENS * DIM], w[OUTPUTS * DIM];
static float out[2][HEADS * TOKENS * DIM], y[2][TOKENS * OUTPUTS];

int main(void) {
  static struct pool threads;
  start(&threads);
  const rapt_pool pool = {run_in_pool, &threads, THREADS};
  fill(q, sizeof q / sizeof *q, 1);
  fill(k, sizeof k / sizeof *k, 2);
  fill(v, sizeof v / sizeof *v, 3);
  fill(w, sizeof w / sizeof *w, 4);

  rapt_attention_options options = RAPT_ATTENTION_OPTIONS_INIT;
  options.q_heads = HEADS;
  options.q_len = TOKENS;
  options.kv_len = TOKENS;
  options.qk_dim = DIM;
  options.causal = RAPT_CAUSAL_BOTTOM_RIGHT;
  rapt_status status = rapt_parallel_attention(q, k, v, out[0], &options, &pool);
  if (status == RAPT_OK) status = rapt_parallel_attention(q, k, v, out[1], &options, NULL); /* one thread */
  if (status != RAPT_OK) return fprintf(stderr, "%s\n", rapt_status_text(status)), 1;
  int same = memcmp(out[0], out[1], sizeof out[0]) == 0;
  printf("attention on %d threads      %s\n", THREADS, same ? "the bits of one" : "other bits");

  options.q_len = 1; /* two tasks: rapt also splits the keys */
  status = rapt_parallel_attention(q, k, v, out[0], &options, &pool);
  if (status == RAPT_OK) status = rapt_parallel_attention(q, k, v, out[1], &options, NULL);
  if (status != RAPT_OK) return fprintf(stderr, "%s\n", rapt_status_text(status)), 1;
  same = memcmp(out[0], out[1], sizeof out[0]) == 0;
  printf("decoding on %d threads       %s\n", THREADS, same ? "the bits of one" : "other bits");

  rapt_linear_options linear = RAPT_LINEAR_OPTIONS_INIT;
  linear.rows = TOKENS;
  linear.in_features = DIM;
  linear.out_features = OUTPUTS;
  const rapt_linear_work layer = {q, w, y[0], &linear}, alone = {q, w, y[1], &linear};
  status = rapt_parallel_linear(&layer, 1, &pool); /* or several layers at once */
  if (status == RAPT_OK) status = rapt_parallel_linear(&alone, 1, NULL);
  if (status != RAPT_OK) return fprintf(stderr, "%s\n", rapt_status_text(status)), 1;
  same = memcmp(y[0], y[1], sizeof y[0]) == 0;
  printf("linear layer on %d threads   %s\n", THREADS, same ? "the bits of one" : "other bits");
  end(&threads);
  return 0;
}
