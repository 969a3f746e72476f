/*
** population.c: one function of a vector at many points, side by side in threads: what samplers ask who move a whole
** population of particles at a time. Each thread has a copy of the plan in a context of its own, and a row depends on
** nothing but itself, so no number of threads changes a bit.
*/
#include <math.h>
#include "../infer/sampling/hamiltonian.h"

typedef struct {
  pn_context *c;
  pn_plan *plan;
  pn_status status;
} worker;

struct pn_population {
  pn_context *c;
  int64_t n, m; /* numbers of a point and of its result */
  int workers;
  size_t charged; /* bytes of the workers' contexts, which count as held by c */
  worker *worker;
};

/* ---- making ---- */

static pn_status check_plan(pn_context *c, const pn_plan *p, pn_population *q) {
  q->n = p->tape->ninput == 1 ? p->tape->value.v[0].t.numel : -1;
  q->m = p->nout == 1 ? p->tape->value.v[p->out[0]].t.numel : -1;
  if (q->n < 1 || q->m < 1 || !pni_plan_is_plain(p, q->n, 1, &q->m))
    return pni_fail(c, PN_SHAPE, "population: the plan must have one input [n] and one result [m], float64");
  for (int64_t i = 0; i < p->tape->note.n; i++)
    if (p->tape->note.v[i].rng)
      return pni_fail(c, PN_STATE, "population: the plan draws at random, which side by side has no order");
  return PN_OK;
}

/* Bytes that worker k may take: its share of what c and the workers before it have left. 0: any number. */
static size_t share_of(const pn_context *c, const pn_population *q, int k) {
  size_t used = c->held;
  if (!c->limit) return 0;
  for (int j = 0; j < k; j++) used += q->worker[j].c->held;
  return used < c->limit ? (c->limit - used) / (size_t)(q->workers - k) + 1 : 1;
}

/* What a worker says becomes the caller's. */
static pn_status report(pn_context *c, const worker *w, pn_status s) {
  if (s == PN_OK) return c->status;
  if (s == PN_CANCELLED && pni_check_cancel(c)) return c->status;
  const char *why = pn_context_message(w->c);
  return pni_fail(c, s, "%s", why[0] ? why : pn_status_name(s));
}

/* A host's allocator is called from its own thread only. */
static pn_status open_worker(pn_context *c, const pn_plan *plan, pn_population *q, int k) {
  pn_context_config config = {.pool_limit = c->pool_limit, .threads = 1, .memory_limit = share_of(c, q, k)};
  if (q->workers == 1) {
    config.allocate = c->allocate;
    config.allocator_data = c->allocator_data;
  }
  worker *w = &q->worker[k];
  w->c = pn_context_new(&config);
  if (!w->c) return pni_fail(c, PN_NOMEM, "population: no memory for a thread's copy");
  w->plan = pn_plan_copy(w->c, plan);
  return w->plan ? PN_OK : report(c, w, w->c->status);
}

/* From now on what the workers hold counts as c's. */
static void charge(pn_context *c, pn_population *q) {
  for (int k = 0; k < q->workers; k++) q->charged += q->worker[k].c->held;
  c->held += q->charged;
  if (c->held - c->pooled > c->peak) c->peak = c->held - c->pooled;
}

pn_population *pn_population_new(pn_context *c, const pn_plan *plan) {
  if (pni_failed(c) || !plan || pni_refuse_capture(c, "a population", "make it outside")) return NULL;
  pn_population *q = pni_calloc(c, sizeof *q);
  if (!q) return NULL;
  q->c = c;
  pni_object_born(c);
  if (check_plan(c, plan, q) == PN_OK) {
    q->workers = c->num_threads > 1 ? c->num_threads : 1;
    q->worker = pni_calloc(c, (size_t)q->workers * sizeof *q->worker);
    if (q->worker && c->limit) pn_context_trim(c);
    for (int k = 0; q->worker && k < q->workers; k++)
      if (open_worker(c, plan, q, k)) break;
  }
  if (pni_failed(c)) {
    pn_population_free(q);
    return NULL;
  }
  charge(c, q);
  return q;
}

void pn_population_free(pn_population *q) {
  if (!q) return;
  pn_context *c = q->c;
  c->held -= q->charged;
  for (int k = 0; q->worker && k < q->workers; k++) {
    if (!q->worker[k].c) continue;
    pn_plan_unref(q->worker[k].plan);
    pn_context_close(q->worker[k].c);
  }
  pni_free(c, q->worker, (size_t)q->workers * sizeof *q->worker);
  pni_free(c, q, sizeof *q);
  pni_object_died(c);
}

/* ---- evaluating ---- */

typedef struct {
  const pn_population *q;
  int64_t rows;
  const double *x;
  double *y;
} job;

/* Worker k's part of the rows. */
static void evaluate(void *data, int64_t begin, int64_t end) {
  const job *j = data;
  const pn_population *q = j->q;
  for (int64_t k = begin; k < end; k++) {
    worker *w = &q->worker[k];
    for (int64_t i = j->rows * k / q->workers; i < j->rows * (k + 1) / q->workers && w->status == PN_OK; i++) {
      double *y = j->y + i * q->m;
      pn_status s = pni_is_over(q->c) ? PN_CANCELLED : pni_plan_call(w->c, w->plan, j->x + i * q->n, &y);
      if (pni_is_outside(s)) {
        pn_context_clear_error(w->c);
        for (int64_t e = 0; e < q->m; e++) y[e] = -INFINITY;
      } else
        w->status = s;
    }
  }
}

pn_tensor *pn_population_evaluate(pn_context *c, pn_population *q, pn_tensor *rows) {
  if (pni_failed(c) || !q || !rows || pni_refuse_capture(c, "a population", "evaluate it outside")) return NULL;
  if (rows->dtype != PN_FLOAT64 || rows->ndim != 2 || rows->shape[1] != q->n) {
    char got[160];
    pni_fail(c, PN_SHAPE, "population: rows must be float64 [N, %lld], got %s", (long long)q->n,
             pni_shape_text(rows->ndim, rows->shape, got));
    return NULL;
  }
  pni_spec spec = {.dtype = PN_FLOAT64, .ndim = 2, .shape = {rows->shape[0], q->m}};
  pn_tensor *y = pni_scoped(c, pni_tensor_new(c, &spec)), *x = y ? pni_contiguous(c, rows) : NULL;
  if (!x) return NULL;
  for (int k = 0; k < q->workers; k++) {
    q->worker[k].status = PN_OK;
    q->worker[k].c->deadline = c->deadline;
  }
  job j = {q, rows->shape[0], pni_data(x), pni_data(y)};
  if (pni_parallel(c, q->workers, 1, evaluate, &j) == PN_OK)
    for (int k = 0; k < q->workers && !pni_failed(c); k++) report(c, &q->worker[k], q->worker[k].status);
  for (int k = 0; k < q->workers; k++) pn_context_clear_error(q->worker[k].c);
  pn_tensor_unref(x);
  return pni_failed(c) ? NULL : y;
}
