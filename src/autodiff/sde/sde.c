/*
** sde.c: solving a stochastic differential equation by steps of a plan, and the gradient of what was computed
** ("discretise, then optimise"). Paths go in chunks, each through all its steps before the next one, side by side in
** threads; gradients of shared parameters are summed chunk by chunk in order: no number of threads changes a bit. What
** is kept of the states is kept from the solution to the gradient, and made again if another came between.
*/
#include <math.h>
#include <string.h>
#include "sde_number.h"
#include "sde_worker.h"

typedef pn_context C;

/* ---- the object ---- */

static pn_status count_parameters(C *c, pni_sde *o, const bool *own) {
  int first = o->step->tape->ninput - o->parameters;
  o->own = pni_alloc_array(c, o->parameters, sizeof *o->own);
  if (!o->own) return c->status;
  for (int k = 0; k < o->parameters; k++) {
    int64_t n = o->step->tensor[first + k].numel;
    o->own[k] = own[k];
    if (own[k])
      o->of_path += n / o->set.rows;
    else
      o->shared += n;
  }
  o->total = pni_plus(pni_times(o->set.paths, o->n + o->of_path), o->shared);
  return PN_OK;
}

pn_status pni_sde_open(C *c, pni_sde *o, pn_plan *step, pn_plan *pullback, const pni_sde_config *set, const bool *own,
                       int64_t num_times) {
  const pn_tensor *v = step->tensor;
  int y = set->area ? 4 : 3;
  *o = (pni_sde){.set = *set, .num_times = num_times, .c = c, .dtype = v[y].dtype};
  o->parameters = step->tape->ninput - y - 1;
  o->n = v[y].numel / set->rows / set->states;
  o->chunks = (set->paths + set->rows - 1) / set->rows;
  o->step = pn_plan_ref(step);
  o->pullback = pn_plan_ref(pullback);
  if (count_parameters(c, o, own)) return c->status;
  int64_t bytes = pni_times(o->total, (int64_t)pni_sde_item(o));
  o->in = pni_alloc_array(c, bytes, 1);
  o->from = pni_alloc_array(c, pullback ? bytes : 0, 1);
  o->times = pni_alloc_array(c, num_times, sizeof *o->times);
  o->from_times = pni_alloc_array(c, num_times, sizeof *o->times);
  o->given = pni_alloc_array(c, num_times, sizeof *o->given);
  o->partial = pni_alloc_array(c, pullback ? pni_times(o->chunks, o->shared) : 0, sizeof *o->partial);
  if (set->adaptive && !(o->grid = pni_calloc_array(c, o->chunks, sizeof *o->grid))) return c->status;
  return o->in && o->from && o->times && o->from_times && o->given && o->partial ? PN_OK : c->status;
}

/* The steps that were found, whose memory is the workers'. */
static void close_grid(pni_sde *o) {
  for (int64_t k = 0; o->grid && k < o->chunks; k++) {
    pni_sde_grid *g = &o->grid[k];
    if (!g->c) continue;
    pni_free(g->c, g->t);
    pni_free(g->c, g->given);
    *g = (pni_sde_grid){0};
  }
}

static void close_workers(pni_sde *o) {
  close_grid(o);
  if (o->grid) o->known = false;
  for (int k = 0; o->worker && k < o->workers; k++) pni_sde_worker_close(o, &o->worker[k]);
  pni_free(o->c, o->worker);
  o->worker = NULL;
  o->workers = 0;
}

static void forget(pni_sde *o) {
  pni_free(o->c, o->kept);
  o->kept = NULL;
  o->kept_bytes = 0;
  o->known = false;
}

void pni_sde_close(C *c, pni_sde *o) {
  close_workers(o);
  forget(o);
  pni_free(c, o->grid);
  pni_free(c, o->own);
  pni_free(c, o->in);
  pni_free(c, o->from);
  pni_free(c, o->times);
  pni_free(c, o->from_times);
  pni_free(c, o->given);
  pni_free(c, o->partial);
  pn_plan_unref(o->step);
  pn_plan_unref(o->pullback);
}

/* ---- the workers ---- */

static pn_status open_child(C *c, const pni_sde *o, pni_sde_worker *w) {
  w->c = pni_context_child(c);
  if (!w->c) return c->status;
  w->child = true;
  w->step = pn_plan_copy(w->c, o->step);
  w->pullback = w->step && o->pullback ? pn_plan_copy(w->c, o->pullback) : NULL;
  if (!pni_failed(w->c)) pni_sde_worker_open(w->c, o, w);
  return w->c->status ? pni_child_failed(c, w->c, w->c->status) : PN_OK;
}

/* As many as threads, of which none is idle. */
static pn_status open_workers(C *c, pni_sde *o) {
  int n = c->num_threads;
  if (n > o->chunks) n = (int)o->chunks;
  if (o->worker && o->workers == n) return PN_OK;
  close_workers(o);
  o->worker = pni_calloc_array(c, n, sizeof *o->worker);
  if (!o->worker) return c->status;
  o->workers = n;
  if (n > 1) {
    for (int k = 0; k < n; k++)
      if (open_child(c, o, &o->worker[k])) return c->status;
    return PN_OK;
  }
  o->worker[0].step = pn_plan_ref(o->step);
  o->worker[0].pullback = pn_plan_ref(o->pullback);
  return pni_sde_worker_open(c, o, &o->worker[0]);
}

typedef struct {
  pni_sde *o;
  char *out;
  const char *g; /* NULL: the solution is asked for */
} job;

static pn_status do_chunk(const job *j, pni_sde_worker *w, int64_t chunk) {
  pni_sde *o = j->o;
  char *kept = o->kept ? o->kept + (size_t)(chunk * o->kept_slots * pni_sde_state_bytes(o)) : NULL;
  if (!j->g) return pni_sde_forward(o, w, chunk, kept, j->out);
  return pni_sde_backward(o, w, chunk, kept, j->g, j->out, o->partial + chunk * o->shared);
}

/* Each worker's share of the chunks. */
static void do_shares(void *data, int64_t begin, int64_t end) {
  const job *j = data;
  const pni_sde *o = j->o;
  for (int64_t k = begin; k < end; k++) {
    pni_sde_worker *w = &o->worker[k];
    pni_sde_worker_begin(o, w);
    for (int64_t i = o->chunks * k / o->workers; i < o->chunks * (k + 1) / o->workers && w->status == PN_OK; i++)
      w->status = do_chunk(j, w, i);
  }
}

/* The first failure of the chunks as they are numbered is the one that is told. */
static pn_status run(C *c, job *j) {
  pni_sde *o = j->o;
  for (int k = 0; k < o->workers; k++) o->worker[k].status = PN_OK;
  if (!o->worker[0].child) {
    do_shares(j, 0, 1);
    return c->status;
  }
  if (pni_parallel_children(c, o->worker[0].c, o->workers, do_shares, j) == PN_OK)
    for (int k = 0; k < o->workers && !pni_failed(c); k++)
      if (o->worker[k].status) pni_child_failed(c, o->worker[k].c, o->worker[k].status);
  for (int k = 0; k < o->workers; k++) pn_context_clear_error(o->worker[k].c);
  return c->status;
}

/* (On steps as they are given, since none were found yet.) */
static pn_status probe(C *c, pni_sde *o) {
  close_grid(o);
  if (o->probed) return PN_OK;
  pni_sde_worker *w = &o->worker[0];
  pni_sde_worker_begin(o, w);
  pn_status s = pni_sde_probe(o, w);
  if (s && w->child) {
    pni_child_failed(c, w->c, s);
    pn_context_clear_error(w->c);
  }
  o->probed = s == PN_OK;
  return c->status;
}

/* ---- the steps ---- */

/* Whole steps of at most `most` that make up a length; a rounding error makes none more. */
static double steps_in(double length, double most) { return most > 0 ? fmax(ceil(length / most * (1 - 1e-12)), 1) : 1; }

static pn_status check_times(C *c, const pni_sde *o) {
  const double *t = o->times;
  for (int64_t i = 0; i < o->num_times; i++)
    if (!isfinite(t[i]) || (i && !(t[i] > t[i - 1])))
      return pni_fail(c, PN_DOMAIN, "sde: times must be finite and increase, number %lld is %g", (long long)i + 1,
                      t[i]);
  if (o->set.tree && !o->set.own_start && t[0] < o->set.start)
    return pni_fail(c, PN_DOMAIN, "sde: the path begins at %g, after the first time %g", o->set.start, t[0]);
  return PN_OK;
}

pn_status pni_sde_check_length(C *c, const pni_sde *o, double t, double h) {
  double cell = o->set.tolerance > 0 ? ldexp(1, ilogb(o->set.tolerance)) : 0;
  if (!o->set.tree || h >= cell) return PN_OK;
  return pni_fail(c, PN_DOMAIN,
                  "sde: a step of %g at t = %g is shorter than the tolerance %g of the path, within which it is no "
                  "Brownian motion: make the path with a smaller one",
                  h, t, cell);
}

static pn_status count_steps(C *c, pni_sde *o) {
  const double *t = o->times;
  double sum = 0;
  for (int64_t i = 0; i < o->num_times; i++) {
    double n = i ? steps_in(t[i] - t[i - 1], o->set.step) : 0;
    sum += n;
    if (!(sum <= (double)o->set.max_steps))
      return pni_fail(c, PN_DOMAIN, "sde: steps of %g from t = %g to %g are more than max_steps = %lld", o->set.step,
                      t[0], t[o->num_times - 1], (long long)o->set.max_steps);
    if (i && pni_sde_check_length(c, o, t[i - 1], (t[i] - t[i - 1]) / n)) return c->status;
    o->given[i] = (int64_t)sum;
  }
  o->steps = (int64_t)sum;
  return PN_OK;
}

/* Of adaptive steps on a path of their own: cells that no sensible step is shorter than. */
static pn_status settle_steps(C *c, pni_sde *o) {
  if (check_times(c, o)) return c->status;
  if (!o->set.adaptive) return count_steps(c, o);
  o->steps = o->num_times - 1; /* one at least from time to time: what the probe sees */
  for (int64_t i = 0; i < o->num_times; i++) o->given[i] = i;
  if (!o->set.own_start || o->num_times < 2) return PN_OK;
  o->set.tolerance = ldexp(1, ilogb(o->times[o->num_times - 1] - o->times[0]) - 24);
  return PN_OK;
}

/* For states that are kept, if a gradient may be asked for. Those of adaptive steps, whose number is not known, are
 * made again for it. */
static pn_status make_room(C *c, pni_sde *o) {
  bool keeps = o->pullback && !o->set.adaptive;
  o->kept_slots = pni_sde_slots(o, o->steps);
  int64_t bytes = keeps ? pni_times(pni_times(o->chunks, o->kept_slots), pni_sde_state_bytes(o)) : 0;
  if (bytes == o->kept_bytes) return PN_OK;
  forget(o);
  if (bytes) o->kept = pni_alloc_array(c, bytes, 1);
  if (bytes && !o->kept) return c->status;
  o->kept_bytes = bytes;
  return PN_OK;
}

/* ---- the solution and its gradient ---- */

pn_status pni_sde_solve(C *c, pni_sde *o, void *out) {
  o->known = false;
  if (settle_steps(c, o) || make_room(c, o) || open_workers(c, o) || probe(c, o)) return c->status;
  job j = {.o = o, .out = out};
  if (run(c, &j)) return c->status;
  if (o->pullback) memcpy(o->from, o->in, (size_t)o->total * pni_sde_item(o));
  memcpy(o->from_times, o->times, (size_t)o->num_times * sizeof *o->times);
  o->from_key = o->key;
  o->known = true;
  return PN_OK;
}

static pn_status ensure_states(C *c, pni_sde *o) {
  if (!o->pullback)
    return pni_fail(c, PN_STATE, "sde: no gradient was asked for when it was made (its inputs needed none)");
  if (open_workers(c, o)) return c->status;
  if (o->known && o->from_key == o->key && memcmp(o->from, o->in, (size_t)o->total * pni_sde_item(o)) == 0 &&
      memcmp(o->from_times, o->times, (size_t)o->num_times * sizeof *o->times) == 0)
    return PN_OK;
  int64_t bytes = pni_times(pni_times(o->num_times, pni_times(o->set.paths, o->n)), (int64_t)pni_sde_item(o));
  char *out = pni_alloc_array(c, bytes, 1);
  pn_status s = out ? pni_sde_solve(c, o, out) : c->status;
  pni_free(c, out);
  return s;
}

pn_status pni_sde_adjoint(C *c, pni_sde *o, const void *g, void *out) {
  if (ensure_states(c, o)) return c->status;
  job j = {.o = o, .out = out, .g = g};
  if (run(c, &j)) return c->status;
  int64_t first = o->set.paths * o->n;
  for (int64_t i = 0; i < o->shared; i++) {
    double sum = 0;
    for (int64_t k = 0; k < o->chunks; k++) sum += o->partial[k * o->shared + i];
    if (o->dtype == PN_FLOAT64)
      ((double *)out)[first + i] = sum;
    else
      ((float *)out)[first + i] = (float)sum;
  }
  return PN_OK;
}
