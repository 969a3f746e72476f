/*
** sampler.c: chains of Hamiltonian Monte Carlo, side by side in threads. A chain is a function of its stream of the
** generator: neither threads nor the cut into runs change a bit.
*/
#include <limits.h>
#include <math.h>
#include <string.h>
#include "adaptation.h"
#include "sampler.h"

enum { STATISTICS = 7, TRIES = 100, WARMUP = 300, STAN_WARMUP = 1000, LENGTHENED = 4 };

/* Chains agree, and with themselves, when R-hat is below. */
static const double AGREEMENT = 1.1;

typedef struct {
  pni_chain h;
  pni_adaptation adaptation;
  double *memory; /* of everything below, in the sampler's context */
  double *draws;  /* [draws, n] */
  double *statistics;
  int iteration;
} chain;

struct pn_sampler {
  pn_context *c;
  pn_sampler_config set;
  pni_adaptation_plan plan;
  int warmup; /* iterations; plan.most at most */
  int look;   /* the iteration at which more may be added, 0: none */
  int first;  /* number of the first chain */
  bool part;  /* do other processes have chains, too? */
  int64_t n;
  int64_t room; /* numbers in a chain's memory */
  chain *chain;
};

/* ---- settings ---- */

static pn_status read_config(pn_context *c, const pn_sampler_config *given, pn_sampler_config *set) {
  static const pn_sampler_config absent = {0};
  *set = given ? *given : absent;
  if (set->chains == 0) set->chains = 4;
  if (set->metric == 0) set->metric = PN_METRIC_LOW_RANK;
  if (set->estimator == 0) set->estimator = PN_ESTIMATOR_FISHER;
  if (set->schedule == 0) set->schedule = PN_SCHEDULE_OVERLAPPING;
  if (set->draws == 0) set->draws = 1000;
  if (set->max_depth == 0) set->max_depth = 10;
  if (set->target_accept == 0) set->target_accept = 0.8;
  if (set->radius == 0) set->radius = 2;
  if (set->chains < 1 || set->chains > 1024)
    return pni_fail(c, PN_DOMAIN, "sampler: chains must be 1 to 1024, got %d", set->chains);
  if (set->warmup < -1 || set->draws < 1)
    return pni_fail(c, PN_DOMAIN, "sampler: warmup and draws must be positive, got %d and %d", set->warmup, set->draws);
  if (set->metric < 0 || set->metric > PN_METRIC_DENSE || set->estimator < 0 || set->estimator > PN_ESTIMATOR_STAN ||
      set->schedule < 0 || set->schedule > PN_SCHEDULE_STAN)
    return pni_fail(c, PN_DOMAIN,
                    "sampler: metric, estimator and schedule must be PN_METRIC_, PN_ESTIMATOR_ and "
                    "PN_SCHEDULE_ values, got %d, %d and %d",
                    set->metric, set->estimator, set->schedule);
  if (set->warmup > INT_MAX - set->draws || set->draws > INT_MAX - LENGTHENED * STAN_WARMUP)
    return pni_fail(c, PN_DOMAIN, "sampler: warmup and draws must be at most %d in all, got %d and %d", INT_MAX,
                    set->warmup, set->draws);
  if (set->max_depth < 1 || set->max_depth > 20)
    return pni_fail(c, PN_DOMAIN, "sampler: max_depth must be 1 to 20, got %d", set->max_depth);
  if (set->max_steps < 0)
    return pni_fail(c, PN_DOMAIN, "sampler: max_steps must not be negative, got %d", set->max_steps);
  if (!(set->target_accept > 0 && set->target_accept < 1))
    return pni_fail(c, PN_DOMAIN, "sampler: target_accept must lie between 0 and 1, got %g", set->target_accept);
  if (!(set->step_size >= 0 && set->step_size < INFINITY) || !(set->radius > 0 && set->radius < INFINITY))
    return pni_fail(c, PN_DOMAIN, "sampler: step_size and radius must be positive, got %g and %g", set->step_size,
                    set->radius);
  return PN_OK;
}

/* The default may become LENGTHENED times as long; Stan's schedule is laid out beforehand. */
static void plan_warmup(pn_sampler *s) {
  bool given = s->set.warmup != 0, stan = s->set.schedule == PN_SCHEDULE_STAN;
  s->warmup = s->set.warmup > 0 ? s->set.warmup : given ? 0 : stan ? STAN_WARMUP : WARMUP;
  s->plan = (pni_adaptation_plan){.warmup = s->warmup,
                                  .most = given || stan ? s->warmup : LENGTHENED * s->warmup,
                                  .estimator = s->set.estimator,
                                  .schedule = s->set.schedule,
                                  .target = s->set.target_accept};
}

/* ---- making ---- */

static double *take(double **from, size_t n) {
  double *a = *from;
  *from += n;
  return a;
}

static int64_t room_of(const pn_sampler *s) {
  int64_t metric = pni_metric_room(s->n, s->set.metric);
  int64_t work =
      pni_plus(pni_trajectory_room(s->n, s->set.max_depth), pni_adaptation_room(s->n, s->set.metric, &s->plan));
  int64_t draws = pni_times(s->set.draws, pni_plus(s->n, STATISTICS));
  return pni_plus(pni_plus(pni_times(5, s->n), metric), pni_plus(work, draws));
}

static void lay_out(const pn_sampler *s, chain *k) {
  size_t n = (size_t)s->n;
  double *m = k->memory;
  pni_chain *h = &k->h;
  h->at = (pni_point){.z = take(&m, n), .gradient = take(&m, n), .log_density = -INFINITY};
  h->here = (pni_point){.z = take(&m, n), .p = take(&m, n), .gradient = take(&m, n)};
  pni_metric_start(&h->metric, s->n, s->set.metric, take(&m, (size_t)pni_metric_room(s->n, s->set.metric)));
  h->work = take(&m, (size_t)pni_trajectory_room(s->n, s->set.max_depth));
  double *adaptation = take(&m, (size_t)pni_adaptation_room(s->n, s->set.metric, &s->plan));
  k->draws = take(&m, (size_t)s->set.draws * n);
  k->statistics = m;
  h->max_depth = s->set.max_depth;
  h->max_steps = s->set.max_steps;
  h->step = s->set.step_size > 0 ? s->set.step_size : 1;
  pni_adaptation_start(&k->adaptation, h, &s->plan, adaptation);
}

/* A chain's failure becomes the caller's. */
static pn_status report(pn_context *c, const pni_chain *h) {
  return h->status == PN_OK ? c->status : pni_child_failed(c, h->c, h->status);
}

/* A context with a copy of the density. */
static pn_status open_chain(pn_context *c, const pni_density *d, chain *k) {
  pni_chain *h = &k->h;
  h->c = pni_context_child(c);
  if (!h->c) return c->status;
  h->density = *d;
  if (d->plan && !(h->density.plan = pn_plan_copy(h->c, d->plan))) h->status = h->c->status;
  return report(c, h);
}

static bool is_finite(const pni_point *p, int64_t n) {
  double sum = p->log_density;
  for (int64_t i = 0; i < n; i++) sum += p->gradient[i];
  return isfinite(sum);
}

static pn_status find_start(pn_context *c, pn_sampler *s, chain *k, const double *start) {
  pni_chain *h = &k->h;
  int tries = start ? 1 : TRIES;
  for (int t = 0; t < tries; t++) {
    for (int64_t i = 0; i < s->n; i++) h->at.z[i] = start ? start[i] : s->set.radius * (2 * pni_chain_uniform(h) - 1);
    if (pni_chain_evaluate(h, &h->at)) return report(c, h);
    if (!is_finite(&h->at, s->n)) continue;
    if (s->set.step_size == 0 && pni_chain_reasonable_step(h)) return report(c, h);
    pni_adaptation *a = &k->adaptation;
    a->mu = log(10 * h->step);
    return PN_OK;
  }
  if (start)
    return pni_fail(c, PN_DOMAIN, "sampler: the density must be positive at the start and its gradient finite");
  return pni_fail(c, PN_DOMAIN, "sampler: no start with positive density and finite gradient was found in %d tries",
                  TRIES);
}

static pn_status make_chains(pn_context *c, pn_sampler *s, const pni_density *d, const double *start, pn_rng *rng) {
  pni_philox root = pni_rng_reserve(c, rng, 1);
  root = pni_philox_split(&root, root.position);
  for (int k = 0; k < s->set.chains; k++)
    if (!(s->chain[k].memory = pni_calloc_array(c, s->room, sizeof(double)))) return c->status;
  for (int k = 0; k < s->set.chains; k++) {
    chain *q = &s->chain[k];
    lay_out(s, q);
    q->h.rng = pni_philox_split(&root, (uint64_t)(s->first + k));
    if (open_chain(c, d, q) || find_start(c, s, q, start ? start + k * s->n : NULL)) return c->status;
  }
  return PN_OK;
}

static pn_status check_start(pn_context *c, const pn_sampler *s, const pn_tensor *start) {
  if (!start ||
      (start->dtype == PN_FLOAT64 && start->ndim == 2 && start->shape[0] == s->set.chains && start->shape[1] == s->n))
    return PN_OK;
  char got[PNI_SHAPE_TEXT];
  return pni_fail(c, PN_SHAPE, "sampler: start must be float64 [%d, %lld], got %s", s->set.chains, (long long)s->n,
                  pni_shape_text(start->ndim, start->shape, got));
}

static pn_sampler *make(pn_context *c, const pni_density *d, int64_t n, const pn_sampler_config *config, int first,
                        pn_tensor *start, pn_rng *rng) {
  if (pni_failed(c) || pni_refuse_capture(c, "a sampler", "run it outside")) return NULL;
  pn_sampler *s = pni_calloc(c, sizeof *s);
  if (!s) return NULL;
  s->c = c;
  pni_object_born(c);
  if (read_config(c, config, &s->set) == PN_OK) {
    s->n = n;
    s->part = first >= 0;
    s->first = first >= 0 ? first : 0;
    plan_warmup(s);
    s->room = room_of(s);
    s->chain = pni_failed(c) ? NULL : pni_calloc_array(c, s->set.chains, sizeof *s->chain);
    pn_tensor *from = s->chain && start && check_start(c, s, start) == PN_OK ? pni_contiguous(c, start) : NULL;
    if (!pni_failed(c)) make_chains(c, s, d, from ? pni_data(from) : NULL, rng);
    if (s->plan.most > s->warmup && !pni_failed(c)) s->look = pni_adaptation_settled(&s->chain->adaptation);
    pn_tensor_unref(from);
  }
  if (!pni_failed(c)) return s;
  pn_sampler_free(s);
  return NULL;
}

pn_sampler *pni_sampler_new(pn_context *c, const pni_density *d, int64_t n, const pn_sampler_config *config,
                            pn_tensor *start, pn_rng *rng) {
  return make(c, d, n, config, -1, start, rng);
}

static pn_sampler *of_plan(pn_context *c, const pn_plan *plan, const pn_sampler_config *config, int first,
                           pn_tensor *start, pn_rng *rng) {
  if (!PNI_GIVEN(c, "sampler_new", plan)) return NULL;
  int64_t n = pni_density_size(plan);
  if (!n) {
    pni_fail(c, PN_SHAPE, "sampler: the plan must give a log density [1] and its gradient [n] at z [n], all float64");
    return NULL;
  }
  return make(c, &(pni_density){.plan = (pn_plan *)plan}, n, config, first, start, rng);
}

pn_sampler *pn_sampler_new(pn_context *c, const pn_plan *plan, const pn_sampler_config *config, pn_tensor *start,
                           pn_rng *rng) {
  return of_plan(c, plan, config, -1, start, rng);
}

pn_sampler *pni_sampler_new_part(pn_context *c, const pn_plan *plan, const pn_sampler_config *config, int first,
                                 pn_tensor *start, pn_rng *rng) {
  return of_plan(c, plan, config, first, start, rng);
}

void pn_sampler_free(pn_sampler *s) {
  if (!s) return;
  pn_context *c = s->c;
  for (int k = 0; s->chain && k < s->set.chains; k++) {
    pni_free(c, s->chain[k].memory);
    if (s->chain[k].h.c) pn_plan_unref(s->chain[k].h.density.plan);
    if (s->chain[k].h.c) pn_context_close(s->chain[k].h.c);
  }
  pni_free(c, s->chain);
  pni_free(c, s);
  pni_object_died(c);
}

/* ---- running ---- */

static void keep(const pn_sampler *s, chain *k, const pni_transition *t) {
  int64_t at = k->iteration - s->warmup;
  const pni_chain *h = &k->h;
  memcpy(k->draws + at * s->n, h->at.z, (size_t)s->n * sizeof *k->draws);
  double row[STATISTICS] = {h->at.log_density, t->accept, h->step, t->depth, t->leapfrogs, t->divergent, t->energy};
  memcpy(k->statistics + at * STATISTICS, row, sizeof row);
}

static pn_status iterate(const pn_sampler *s, chain *k) {
  pni_transition t;
  pni_chain *h = &k->h;
  double step = h->step;
  pni_philox rng = h->rng;
  pn_status status = pni_adapt_search(&k->adaptation, h);
  if (status == PN_OK) { /* what was found stays */
    step = h->step;
    rng = h->rng;
    status = pni_chain_transition(h, &t);
  }
  if (status) { /* as if it had not begun */
    h->step = step;
    h->rng = rng;
    return status;
  }
  if (k->iteration < s->warmup)
    pni_adapt(&k->adaptation, h, k->iteration, &t);
  else
    keep(s, k, &t);
  k->iteration++;
  return PN_OK;
}

typedef struct {
  pn_sampler *s;
  int until;
} job;

static void run_chains(void *data, int64_t begin, int64_t end) {
  const job *j = data;
  for (int64_t k = begin; k < end; k++)
    while (j->s->chain[k].iteration < j->until && iterate(j->s, &j->s->chain[k]) == PN_OK) {
    }
}

int pn_sampler_iteration(const pn_sampler *s) {
  if (!s) return 0;
  int least = s->chain[0].iteration;
  for (int k = 1; k < s->set.chains; k++)
    if (s->chain[k].iteration < least) least = s->chain[k].iteration;
  return least;
}

int pn_sampler_finished(const pn_sampler *s) { return s ? pn_sampler_iteration(s) == s->warmup + s->set.draws : 0; }

int pn_sampler_warmup(const pn_sampler *s) { return s ? s->warmup : 0; }

int64_t pn_sampler_gradients(const pn_sampler *s) {
  int64_t sum = 0;
  for (int k = 0; s && k < s->set.chains; k++) sum += s->chain[k].h.gradients;
  return sum;
}

/* All chains up to iteration `until`. */
static pn_status run_until(pn_context *c, pn_sampler *s, int until) {
  job j = {s, until};
  for (int k = 0; k < s->set.chains; k++) {
    s->chain[k].h.status = PN_OK;
    pn_context_clear_error(s->chain[k].h.c);
  }
  if (pni_parallel_children(c, s->chain->h.c, s->set.chains, run_chains, &j)) return c->status;
  for (int k = 0; k < s->set.chains; k++)
    if (report(c, &s->chain[k].h)) return c->status;
  return PN_OK;
}

/* Count, mean and sum of squares of number i in one half of a chain's foreground window: what the background has, or
 * what it has not. */
static double half_of(const pni_window *w, int later, int64_t i, double *mean, double *square) {
  const pni_window_sums *f = w->fore, *b = w->back;
  double nf = (double)f->count, nb = (double)b->count, n = nf - nb;
  if (later) {
    *mean = b->mean_x[i];
    *square = b->square_x[i];
    return nb;
  }
  *mean = (nf * f->mean_x[i] - nb * b->mean_x[i]) / n;
  double apart = *mean - b->mean_x[i];
  *square = f->square_x[i] - b->square_x[i] - n * nb / nf * apart * apart;
  return n;
}

/* Of the halves of the chains' windows: count, means [n], sums of squares [n] each. */
static void take_windows(const pn_sampler *s, double *out) {
  for (int k = 0; k < 2 * s->set.chains; k++, out += 1 + 2 * s->n)
    for (int64_t i = 0; i < s->n; i++)
      out[0] = half_of(&s->chain[k / 2].adaptation.draws, k % 2, i, out + 1 + i, out + 1 + s->n + i);
}

/* Split R-hat of number i over halves of windows, those of unequal length weighed alike. */
static double r_hat(const double *windows, int64_t halves, int64_t n, int64_t i) {
  double sum = 0, within = 0, between = 0, length = 0, count = (double)halves;
  for (int64_t k = 0; k < halves; k++) {
    const double *w = windows + k * (1 + 2 * n);
    if (!(w[0] >= 2)) return INFINITY;
    sum += w[1 + i] / count;
    within += w[1 + n + i] / (w[0] - 1) / count;
    length += w[0] / count;
  }
  for (int64_t k = 0; k < halves; k++) {
    double mean = windows[k * (1 + 2 * n) + 1 + i];
    between += (mean - sum) * (mean - sum) / (count - 1);
  }
  return sqrt((length - 1) / length + between / within);
}

/* All chains have come to s->look: is the warm-up to be longer? */
static void judge(pn_sampler *s, const double *windows, int64_t halves) {
  bool agree = true;
  for (int64_t i = 0; i < s->n; i++) agree &= r_hat(windows, halves, s->n, i) < AGREEMENT;
  s->look = 0;
  if (agree) return;
  s->warmup += s->plan.warmup;
  for (int k = 0; k < s->set.chains; k++) pni_adaptation_extend(&s->chain[k].adaptation, s->plan.warmup);
  if (s->warmup < s->plan.most) s->look = pni_adaptation_settled(&s->chain->adaptation);
}

static pn_status look(pn_context *c, pn_sampler *s) {
  int64_t halves = 2 * s->set.chains, room = pni_times(halves, 1 + 2 * s->n);
  double *windows = pni_alloc_array(c, room, sizeof *windows);
  if (!windows) return c->status;
  take_windows(s, windows);
  judge(s, windows, halves);
  pni_free(c, windows);
  return PN_OK;
}

static bool at_look(const pn_sampler *s) { return s->look && pn_sampler_iteration(s) == s->look; }

bool pni_sampler_halted(const pn_sampler *s) { return s->part && at_look(s); }

pn_tensor *pni_sampler_windows(pn_context *c, const pn_sampler *s) {
  pni_spec spec = {.dtype = PN_FLOAT64, .ndim = 2, .shape = {2 * (int64_t)s->set.chains, 1 + 2 * s->n}};
  pn_tensor *t = pni_failed(c) ? NULL : pni_scoped(c, pni_tensor_new(c, &spec));
  if (t) take_windows(s, pni_data(t));
  return t;
}

pn_status pni_sampler_judge(pn_context *c, pn_sampler *s, pn_tensor *windows) {
  char got[PNI_SHAPE_TEXT];
  if (pni_failed(c)) return c->status;
  if (!pni_sampler_halted(s)) return pni_fail(c, PN_STATE, "sampler: no windows are to be judged now");
  if (windows->dtype != PN_FLOAT64 || windows->ndim != 2 || windows->shape[0] < 2 * s->set.chains ||
      windows->shape[1] != 1 + 2 * s->n)
    return pni_fail(c, PN_SHAPE, "sampler: windows must be float64 [2 chains, %lld], got %s", (long long)(1 + 2 * s->n),
                    pni_shape_text(windows->ndim, windows->shape, got));
  pn_tensor *x = pni_contiguous(c, windows);
  if (x) judge(s, pni_data(x), x->shape[0]);
  pn_tensor_unref(x);
  return c->status;
}

pn_status pn_sampler_run(pn_context *c, pn_sampler *s, int n) {
  if (!PNI_GIVEN(c, "sampler_run", s) || pni_refuse_capture(c, "a sampler", "run it outside")) return c->status;
  int now = pn_sampler_iteration(s), left = n > 0 ? n : 0;
  int until = left < INT_MAX - now ? now + left : INT_MAX;
  for (bool again = true; again;) {
    int end = s->warmup + s->set.draws;
    again = s->look && s->look < until;
    if (run_until(c, s, again ? s->look : until < end ? until : end)) return c->status;
    if (pni_sampler_halted(s)) return PN_OK;
    if (at_look(s) && look(c, s)) return c->status;
  }
  return PN_OK;
}

/* ---- results ---- */

static int64_t kept(const pn_sampler *s) {
  int n = pn_sampler_iteration(s) - s->warmup;
  return n > 0 ? n : 0;
}

/* One array of the chains as a tensor [chains, rows, columns]. */
static pn_tensor *gather(pn_context *c, const pn_sampler *s, int64_t rows, int64_t columns, size_t field) {
  pni_spec spec = {.dtype = PN_FLOAT64, .ndim = 3, .shape = {s->set.chains, rows, columns}};
  pn_tensor *t = pni_failed(c) ? NULL : pni_scoped(c, pni_tensor_new(c, &spec));
  for (int k = 0; t && k < s->set.chains; k++) {
    const double *from;
    memcpy(&from, (const char *)&s->chain[k] + field, sizeof from);
    if (rows) memcpy((double *)pni_data(t) + k * rows * columns, from, (size_t)(rows * columns) * sizeof *from);
  }
  return t;
}

pn_tensor *pn_sampler_draws(pn_context *c, const pn_sampler *s) {
  if (!PNI_GIVEN(c, "sampler_draws", s)) return NULL;
  return gather(c, s, kept(s), s->n, offsetof(chain, draws));
}

pn_tensor *pn_sampler_statistics(pn_context *c, const pn_sampler *s) {
  if (!PNI_GIVEN(c, "sampler_statistics", s)) return NULL;
  return gather(c, s, kept(s), STATISTICS, offsetof(chain, statistics));
}

pn_tensor *pn_sampler_metric(pn_context *c, const pn_sampler *s) {
  if (!PNI_GIVEN(c, "sampler_metric", s)) return NULL;
  bool diagonal = s->set.metric == PN_METRIC_DIAGONAL;
  pni_spec spec = {.dtype = PN_FLOAT64, .ndim = diagonal ? 2 : 3, .shape = {s->set.chains, s->n, s->n}};
  pn_tensor *t = pni_failed(c) ? NULL : pni_scoped(c, pni_tensor_new(c, &spec));
  for (int k = 0; t && k < s->set.chains; k++) {
    const pni_metric *m = &s->chain[k].h.metric;
    if (diagonal)
      memcpy((double *)pni_data(t) + k * s->n, m->inverse, (size_t)s->n * sizeof(double));
    else
      pni_metric_matrix(m, (double *)pni_data(t) + k * s->n * s->n);
  }
  return t;
}
