/*
** child_test.c: contexts within a context, in which chains and populations work: the parent's account holds what they
** take when they take it, its cancellation and its deadline end them in the middle of an evaluation, a host's allocator
** is called from the host's thread alone, and nothing is left of them when the parent ends.
*/
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include "../../src/base/context.h"
#include "check.h"
#include "counted.h"
#include "hmc_fixture.h"

enum { MB = 1 << 20 };

/* ---- the account ---- */

enum { CHILDREN = 4, BLOCKS = 24, ROUNDS = 300 };

typedef struct {
  pn_context *c, *child[CHILDREN];
  long refused[CHILDREN], over[CHILDREN];
} family;

/* Child k takes and gives back blocks of all sizes. */
static void take_and_give(void *data, int64_t begin, int64_t end) {
  family *f = data;
  for (int64_t k = begin; k < end; k++) {
    void *block[BLOCKS] = {0};
    size_t size[BLOCKS] = {0};
    uint64_t state = 12345 + (uint64_t)k;
    for (int i = 0; i < ROUNDS; i++) {
      int at = (int)((state = state * 6364136223846793005u + 1442695040888963407u) >> 33) % BLOCKS;
      pni_free(f->child[k], block[at]);
      size[at] = (size_t)(state >> 40) % (MB / 4);
      block[at] = pni_alloc(f->child[k], size[at]);
      f->refused[k] += !block[at];
      if (!block[at]) pn_context_clear_error(f->child[k]);
      f->over[k] += f->c->held + atomic_load(&f->c->lent) > f->c->limit;
    }
    for (int i = 0; i < BLOCKS; i++) pni_free(f->child[k], block[i]);
  }
}

static void account(void) {
  family f = {.c = pn_context_new(&(pn_context_config){.threads = CHILDREN, .memory_limit = 4 * MB, .pool_limit = MB})};
  size_t before = pn_context_memory(f.c, NULL), peak;
  long long start = counted_start();
  long refused = 0;
  for (int k = 0; k < CHILDREN; k++) CHECK((f.child[k] = pni_context_child(f.c)) != NULL);
  CHECK_INT(pn_context_memory(f.c, NULL) - before, CHILDREN * sizeof(pn_context));
  CHECK_STATUS(f.c, pni_parallel_children(f.c, f.child[0], CHILDREN, take_and_give, &f), PN_OK);
  for (int k = 0; k < CHILDREN; k++) {
    CHECK_INT(f.over[k], 0);
    refused += f.refused[k];
  }
  CHECK(refused > 0);
  pn_context_memory(f.c, &peak);
  CHECK(peak > 3 * MB && peak <= 4 * MB);
  CHECK(counted_peak() - start < 4 * MB + MB / 4);
  void *large = pni_alloc(f.c, 3 * MB); /* what waits in children makes room for the parent */
  CHECK(large != NULL);
  pni_free(f.c, large);
  for (int k = 0; k < CHILDREN; k++) pn_context_close(f.child[k]);
  pni_threads_free(f.c);
  CHECK_INT(pn_context_memory(f.c, NULL), before);
  pn_context_close(f.c);
}

/* A parent that ends takes its children with it. */
static void orphans(void) {
  long long before = counted_start();
  pn_context *c = pn_context_new(&(pn_context_config){.threads = 2}), *child = pni_context_child(c);
  CHECK(pni_alloc(child, MB) && pni_alloc(pni_context_child(child), MB) && pni_alloc(c, MB));
  CHECK(pn_context_memory(c, NULL) >= 3 * MB && pn_context_memory(c, NULL) < 4 * MB);
  CHECK(counted_peak() - before < (long long)pn_context_memory(c, NULL) + 65536);
  pni_context_end(c);
  CHECK(counted_start() - before < 65536);
}

/* ---- populations ---- */

enum { LONG = 1 << 18 };

/* x [1] -> sum of (x + constant)[argsort(x + constant)]: the sort takes 32 bytes for each number when it runs. */
static pn_plan *sorting_plan(pn_context *c, int64_t n) {
  const int64_t one = 1;
  pn_tensor *at = pn_full(c, PN_FLOAT64, 1, &one, 0.5), *inside, *constant = pn_arange(c, PN_FLOAT64, 0, (double)n, 1);
  if (!constant || pn_capture_begin(c, 1, &at, &inside)) return NULL;
  pn_tensor *x = pn_add(c, constant, inside), *order = pn_argsort(c, x, 0, 0);
  pn_tensor *out = pn_reshape(c, pn_sum(c, pn_cast(c, order, PN_FLOAT64), PN_ALL, 0), 1, &one);
  return pn_capture_end(c, 1, &out);
}

/* Many populations, each of which needs most of the limit while it works, one after the other. */
static void populations(void) {
  enum { MANY = 10, LIMIT = 48 * MB };
  const int64_t shape[] = {2, 1};
  pn_context *c = pn_context_new(&(pn_context_config){.threads = 2, .memory_limit = LIMIT});
  size_t mark = pn_scope_open(c), peak;
  long long start = counted_start();
  pn_plan *plan = sorting_plan(c, LONG / 8);
  pn_population *q[MANY] = {0};
  for (int k = 0; k < MANY; k++) CHECK((q[k] = pn_population_new(c, plan)) != NULL);
  for (int turn = 0; turn < 2; turn++)
    for (int k = 0; k < MANY; k++) {
      pn_tensor *y = pn_population_evaluate(c, q[k], pn_full(c, PN_FLOAT64, 2, shape, 1));
      CHECK_STATUS(c, pn_context_status(c), PN_OK);
      CHECK(y && *(const double *)pn_tensor_data(y) == LONG / 8 * (LONG / 8 - 1.0) / 2);
    }
  for (int k = 0; k < MANY; k++) pn_population_free(q[k]);
  pn_plan_unref(plan);
  plan = sorting_plan(c, 4 * LONG); /* 32 MB a thread, beside what stands in its plan */
  q[0] = pn_population_new(c, plan);
  CHECK(!pn_population_evaluate(c, q[0], pn_full(c, PN_FLOAT64, 2, shape, 1)));
  CHECK_FAIL(c, PN_NOMEM, "out of memory");
  pn_population_free(q[0]);
  pn_plan_unref(plan);
  pn_context_memory(c, &peak);
  CHECK(peak <= LIMIT);
  CHECK(counted_peak() - start < LIMIT + MB);
  pn_scope_close(c, mark);
  CHECK_INT(pn_context_objects(c), 0);
  pn_context_close(c);
}

/* ---- a host's allocator ---- */

typedef struct {
  pthread_t thread;
  atomic_long strangers;
} owner;

static void *allocate_at_home(void *data, void *block, size_t old_size, size_t new_size) {
  owner *o = data;
  if (!pthread_equal(o->thread, pthread_self())) o->strangers++;
  return pni_default_allocate(NULL, block, old_size, new_size);
}

static void hosts_allocator(void) {
  owner o = {.thread = pthread_self()};
  pn_context_config config = {
      .threads = 1, .allocate = allocate_at_home, .allocator_data = &o, .pool_limit = PN_NO_POOL};
  pn_context *c = pn_context_new(&config);
  size_t mark = pn_scope_open(c);
  pn_plan *plan = density_plan(c, CORRELATED, correlated, correlated_matrix(c));
  pn_sampler_config set = {.chains = 3, .warmup = 20, .draws = 20};
  pn_sampler *s = pn_sampler_new(c, plan, &set, NULL, NULL);
  pn_context_threads(c, 3);
  CHECK_STATUS(c, pn_sampler_run(c, s, 40), PN_OK);
  CHECK(pn_sampler_finished(s));
  CHECK_INT(o.strangers, 0);
  pn_sampler_free(s);
  pn_plan_unref(plan);
  pn_scope_close(c, mark);
  pn_context_close(c);
}

/* ---- cancellation ---- */

enum { WIDE = 200, STEPS = 500 }; /* 0.0707 = 1 / sqrt(WIDE): products neither grow nor vanish */

/* The plan z [1] -> y [1], with `gradient` also -z [1], where y takes a second and each step of it milliseconds:
 * products that count for nothing, and -z^2 / 2. */
static pn_plan *slow_plan(pn_context *c, bool gradient) {
  const int64_t one = 1, shape[] = {WIDE, WIDE};
  pn_tensor *a = pn_mul(c, pn_randn(c, NULL, PN_FLOAT64, 2, shape), pn_scalar(c, PN_FLOAT64, 0.0707)), *z;
  pn_tensor *at = pn_full(c, PN_FLOAT64, 1, &one, 0.5), *half = pn_scalar(c, PN_FLOAT64, -0.5), *out[2];
  if (!at || pn_capture_begin(c, 1, &at, &z)) return NULL;
  pn_tensor *x = pn_mul(c, a, z);
  for (int k = 0; k < STEPS; k++) x = pn_matmul(c, x, a);
  pn_tensor *nothing = pn_mul(c, pn_sum(c, x, PN_ALL, 0), pn_scalar(c, PN_FLOAT64, 0));
  out[0] = pn_reshape(c, pn_add(c, pn_mul(c, pn_square(c, z), half), nothing), 1, &one);
  out[1] = pn_neg(c, z);
  return pn_capture_end(c, gradient ? 2 : 1, out);
}

static double processor_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef struct {
  pn_context *c;
  double at; /* processor time of the process when it was cancelled */
} canceller;

static void *cancel_soon(void *data) {
  canceller *k = data;
  nanosleep(&(struct timespec){0, 30000000}, NULL);
  k->at = processor_seconds();
  pn_context_cancel(k->c);
  return NULL;
}

typedef struct {
  pn_plan *density, *values;
  pn_population *population;
  pn_sampler_config set;
} work;

static void make_sampler(pn_context *c, work *w) {
  pn_sampler_free(pn_sampler_new(c, w->density, &w->set, NULL, NULL));
}

static void evaluate(pn_context *c, work *w) {
  const int64_t shape[] = {4, 1};
  pn_population_evaluate(c, w->population, pn_full(c, PN_FLOAT64, 2, shape, 1));
}

/* By another thread, then by a deadline. */
static void interrupt(pn_context *c, const char *what, work *w, void (*run)(pn_context *, work *)) {
  canceller k = {.c = c};
  pthread_t thread;
  size_t mark = pn_scope_open(c);
  pthread_create(&thread, NULL, cancel_soon, &k);
  run(c, w);
  double took = processor_seconds();
  pthread_join(thread, NULL);
  took -= k.at;
  if (!check_record(took < 0.2)) printf("%s: %.2f s of processor after the cancellation\n", what, took);
  CHECK_FAIL(c, PN_CANCELLED, "interrupted");
  pn_context_uncancel(c);
  double begin = processor_seconds();
  pn_context_set_deadline(c, 0.03);
  run(c, w);
  took = processor_seconds() - begin;
  if (!check_record(took < 0.26)) printf("%s: %.2f s of processor with a deadline of 0.03 s\n", what, took);
  CHECK_FAIL(c, PN_TIME, "time limit reached");
  pn_context_set_deadline(c, 0);
  pn_scope_close(c, mark);
}

static void cancellation(int threads) {
  pn_context *c = pn_context_new(&(pn_context_config){.threads = threads});
  size_t mark = pn_scope_open(c);
  work w = {
      .set = {.chains = 2, .warmup = 4, .draws = 4}, .density = slow_plan(c, true), .values = slow_plan(c, false)};
  w.population = pn_population_new(c, w.values);
  CHECK(w.density && w.population);
  interrupt(c, "making a sampler", &w, make_sampler);
  interrupt(c, "a population", &w, evaluate);
  pn_population_free(w.population);
  pn_plan_unref(w.values);
  pn_plan_unref(w.density);
  pn_scope_close(c, mark);
  CHECK_INT(pn_context_objects(c), 0);
  pn_context_close(c);
}

/* A sampler that stands. */
static void chains(void) {
  const int64_t shape[] = {2, 1};
  pn_context *c = pn_context_new(&(pn_context_config){.threads = 2});
  size_t mark = pn_scope_open(c);
  pn_plan *plan = slow_plan(c, true);
  pn_sampler_config set = {.chains = 2, .warmup = -1, .draws = 1, .step_size = 0.01, .max_steps = 1};
  pn_sampler *s = pn_sampler_new(c, plan, &set, pn_full(c, PN_FLOAT64, 2, shape, 1), NULL);
  CHECK(s != NULL);
  canceller k = {.c = c};
  pthread_t thread;
  pthread_create(&thread, NULL, cancel_soon, &k);
  CHECK_INT(pn_sampler_run(c, s, 1), PN_CANCELLED);
  double took = processor_seconds();
  pthread_join(thread, NULL);
  if (!check_record(took - k.at < 0.2)) printf("a chain: %.2f s of processor after the cancellation\n", took - k.at);
  pn_sampler_free(s);
  pn_plan_unref(plan);
  pn_scope_close(c, mark);
  pn_context_close(c);
}

/* The mass matrix of a window is a factorisation of its own, which can be done again after a deadline. */
static void dense_metric(int64_t n, int estimator) {
  enum { WARMUP = 20, WINDOW_END = 18 };
  const int64_t one = 1;
  pn_context *c = pn_context_new(&(pn_context_config){.threads = 1});
  size_t mark = pn_scope_open(c);
  pn_tensor *at = pn_full(c, PN_FLOAT64, 1, &n, 0.5), *half = pn_scalar(c, PN_FLOAT64, -0.5), *z, *out[2];
  CHECK_INT(pn_capture_begin(c, 1, &at, &z), PN_OK);
  out[0] = pn_reshape(c, pn_mul(c, pn_sum(c, pn_square(c, z), PN_ALL, 0), half), 1, &one);
  out[1] = pn_neg(c, z);
  pn_plan *plan = pn_capture_end(c, 2, out);
  pn_sampler_config set = {.chains = 1,
                           .warmup = WARMUP,
                           .draws = 1,
                           .step_size = 0.01,
                           .max_steps = 1,
                           .metric = PN_METRIC_DENSE,
                           .estimator = estimator,
                           .schedule = PN_SCHEDULE_STAN};
  pn_sampler *s = pn_sampler_new(c, plan, &set, NULL, NULL);
  CHECK_STATUS(c, pn_sampler_run(c, s, WINDOW_END), PN_OK);
  double begin = processor_seconds();
  pn_context_set_deadline(c, 0.03);
  CHECK_INT(pn_sampler_run(c, s, 1), PN_TIME);
  double took = processor_seconds() - begin;
  if (!check_record(took < 0.26)) printf("a mass matrix: %.2f s of processor with a deadline of 0.03 s\n", took);
  CHECK_INT(pn_sampler_iteration(s), WINDOW_END);
  pn_context_clear_error(c);
  pn_context_set_deadline(c, 0);
  CHECK_STATUS(c, pn_sampler_run(c, s, WARMUP), PN_OK);
  const double *metric = pn_tensor_data(pn_sampler_metric(c, s));
  if (estimator == PN_ESTIMATOR_STAN)
    CHECK(metric && metric[0] != 1 && metric[1] != 0 && metric[1] == metric[n]);
  else
    CHECK(metric && fabs(metric[0] - 1) < 1e-6 && fabs(metric[1]) < 1e-6); /* scores are -z: exact by any draws */
  pn_sampler_free(s);
  pn_plan_unref(plan);
  pn_scope_close(c, mark);
  pn_context_close(c);
}

int main(void) {
  dense_metric(2700, PN_ESTIMATOR_STAN);
  dense_metric(1200, PN_ESTIMATOR_FISHER);
  account();
  orphans();
  populations();
  hosts_allocator();
  cancellation(1);
  cancellation(2);
  chains();
  CHECK_DONE();
}
