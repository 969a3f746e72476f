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
  worker *worker;
};

/* ---- making ---- */

static pn_status check_plan(pn_context *c, const pn_plan *p, pn_population *q) {
  q->n = p->tape->ninput == 1 ? p->tensor[0].numel : -1;
  q->m = p->nout == 1 ? p->tensor[p->out[0]].numel : -1;
  if (q->n < 1 || q->m < 1 || !pni_plan_is_plain(p, q->n, 1, &q->m))
    return pni_fail(c, PN_SHAPE, "population: the plan must have one input [n] and one result [m], float64");
  if (p->tape->event.n)
    return pni_fail(c, PN_STATE, "population: the plan draws at random, which side by side has no order");
  return PN_OK;
}

static pn_status open_worker(pn_context *c, const pn_plan *plan, worker *w) {
  w->c = pni_context_child(c);
  if (!w->c) return c->status;
  w->plan = pn_plan_copy(w->c, plan);
  return w->plan ? PN_OK : pni_child_failed(c, w->c, w->c->status);
}

pn_population *pn_population_new(pn_context *c, const pn_plan *plan) {
  if (!PNI_GIVEN(c, "population_new", plan) || pni_refuse_capture(c, "a population", "make it outside")) return NULL;
  pn_population *q = pni_calloc(c, sizeof *q);
  if (!q) return NULL;
  q->c = c;
  pni_object_born(c);
  if (check_plan(c, plan, q) == PN_OK) {
    q->workers = c->num_threads;
    q->worker = pni_calloc_array(c, q->workers, sizeof *q->worker);
    for (int k = 0; q->worker && k < q->workers; k++)
      if (open_worker(c, plan, &q->worker[k])) break;
  }
  if (pni_failed(c)) {
    pn_population_free(q);
    return NULL;
  }
  return q;
}

void pn_population_free(pn_population *q) {
  if (!q) return;
  pn_context *c = q->c;
  for (int k = 0; q->worker && k < q->workers; k++) {
    if (!q->worker[k].c) continue;
    pn_plan_unref(q->worker[k].plan);
    pn_context_close(q->worker[k].c);
  }
  pni_free(c, q->worker);
  pni_free(c, q);
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
      pn_status s = pni_is_over(w->c) ? PN_CANCELLED : pni_plan_call(w->c, w->plan, j->x + i * q->n, &y);
      if (pni_is_outside(s)) {
        pn_context_clear_error(w->c);
        for (int64_t e = 0; e < q->m; e++) y[e] = -INFINITY;
      } else
        w->status = s;
    }
  }
}

pn_tensor *pn_population_evaluate(pn_context *c, pn_population *q, pn_tensor *rows) {
  if (!PNI_GIVEN(c, "population_evaluate", q, rows) || pni_refuse_capture(c, "a population", "evaluate it outside"))
    return NULL;
  if (rows->dtype != PN_FLOAT64 || rows->ndim != 2 || rows->shape[1] != q->n) {
    char got[PNI_SHAPE_TEXT];
    pni_fail(c, PN_SHAPE, "population: rows must be float64 [N, %lld], got %s", (long long)q->n,
             pni_shape_text(rows->ndim, rows->shape, got));
    return NULL;
  }
  pni_spec spec = {.dtype = PN_FLOAT64, .ndim = 2, .shape = {rows->shape[0], q->m}};
  pn_tensor *y = pni_scoped(c, pni_tensor_new(c, &spec)), *x = y ? pni_contiguous(c, rows) : NULL;
  if (!x) return NULL;
  for (int k = 0; k < q->workers; k++) q->worker[k].status = PN_OK;
  job j = {q, rows->shape[0], pni_data(x), pni_data(y)};
  if (pni_parallel_children(c, q->worker->c, q->workers, evaluate, &j) == PN_OK)
    for (int k = 0; k < q->workers && !pni_failed(c); k++)
      if (q->worker[k].status) pni_child_failed(c, q->worker[k].c, q->worker[k].status);
  for (int k = 0; k < q->workers; k++) pn_context_clear_error(q->worker[k].c);
  pn_tensor_unref(x);
  return pni_failed(c) ? NULL : y;
}
