/*
** adaptation.c: dual averaging (Hoffman & Gelman 2014, with gamma = 0.05, t0 = 10, kappa = 0.75) and two schedules of
** windows for the mass matrix.
** "stan" (Stan Reference Manual, section on HMC algorithm parameters): 75 iterations for the step size alone, windows
** of 25, 50, 100 ..., 50 iterations for the step size; in less than 150 iterations 15 %, 75 % and 10 %. A mass matrix
** is made at the end of a window, and a step size looked for.
** "overlapping" (Seyboldt, Carlson & Carpenter 2026): a draw enters a foreground and a background window; at a switch
** the background becomes the foreground and another begins. Switches come every 10 draws in the first 30 % of the
** warm-up, then after 80, 120, 180 ... draws unless the next would not fit; the last 15 % are for the step size alone.
** A mass matrix is made of the foreground at every draw (diagonal), or every 20 and at switches; a step size is looked
** for after the first. After the first 30 % the step size follows the mean of 2 min(1, e^D) / (1 + e^D), D the gain of
** energy. The first metric is the identity: theirs, 1 / |gradient|, led chains into other modes (posteriordb's page).
*/
#include <math.h>
#include "adaptation.h"

static const double GAMMA = 0.05, T0 = 10, KAPPA = 0.75;

enum { EARLY_WINDOW = 10, WINDOW = 80, REFRESH = 20, LEAST_DRAWS = 3, SHORT = 4 };

static bool by_scores(const pni_adaptation_plan *p) { return p->estimator == PN_ESTIMATOR_FISHER; }

int64_t pni_adaptation_room(int64_t n, int metric, const pni_adaptation_plan *p) {
  if (p->warmup == 0) return 0;
  return pni_plus(pni_window_room(n, metric, by_scores(p), p->most),
                  pni_estimate_room(n, metric, p->estimator, p->most));
}

static void restart_step(pni_adaptation *a, const pni_chain *h) {
  a->mu = log(10 * h->step);
  a->mean_error = 0;
  a->log_mean_step = 0;
  a->count = 0;
}

/* A window takes what would not hold another of twice its size, the first one excepted (Stan's schedule). */
static void next_window(pni_adaptation *a) {
  int end = a->plan.warmup - a->last, start = a->window_end;
  a->window_end = start + a->window;
  if (start > a->first && a->window_end + 2 * a->window > end) a->window_end = end;
  a->window *= 2;
}

static void plan_stan(pni_adaptation *a) {
  int warmup = a->plan.warmup;
  a->first = 75;
  a->last = 50;
  a->window = 25;
  if (warmup < 20) { /* the step size alone */
    a->first = warmup;
    a->last = 0;
  } else if (warmup < 150) {
    a->first = (int)(0.15 * warmup);
    a->last = (int)(0.1 * warmup);
    a->window = warmup - a->first - a->last;
  }
  a->window_end = a->first;
  if (warmup >= 20) next_window(a);
}

void pni_adaptation_start(pni_adaptation *a, const pni_chain *h, const pni_adaptation_plan *plan, double *memory) {
  const pni_metric *m = &h->metric;
  *a = (pni_adaptation){.plan = *plan};
  if (plan->warmup == 0) return;
  if (plan->schedule == PN_SCHEDULE_STAN) {
    plan_stan(a);
  } else {
    a->first = (int)(0.3 * plan->warmup);
    a->last = (int)(0.15 * plan->warmup);
    a->window = WINDOW;
  }
  a->draws.scores = by_scores(plan);
  a->draws.single = plan->schedule == PN_SCHEDULE_STAN;
  pni_window_start(&a->draws, m->n, m->kind, plan->most, memory);
  memory += pni_window_room(m->n, m->kind, by_scores(plan), plan->most);
  pni_estimate_start(&a->estimate, m->n, m->kind, plan->estimator, plan->most, memory);
  restart_step(a, h);
}

int pni_adaptation_settled(const pni_adaptation *a) { return a->plan.warmup - a->last; }

void pni_adaptation_extend(pni_adaptation *a, int more) { a->plan.warmup += more; }

static void adapt_step(pni_adaptation *a, pni_chain *h, double accept) {
  double t = ++a->count;
  a->mean_error += (a->plan.target - accept - a->mean_error) / (t + T0);
  double log_step = a->mu - a->mean_error * sqrt(t) / GAMMA;
  double weight = pow(t, -KAPPA);
  a->log_mean_step = weight * log_step + (1 - weight) * a->log_mean_step;
  h->step = exp(log_step);
}

pn_status pni_adapt_search(pni_adaptation *a, pni_chain *h) {
  if (a->full) {
    if (a->draws.fore->count >= 2 && (h->status = pni_estimate_metric(&a->estimate, h->c, &a->draws, &h->metric)))
      return h->status;
    bool stan = a->plan.schedule == PN_SCHEDULE_STAN;
    if (stan) pni_window_switch(&a->draws);
    a->full = false;
    a->search = a->estimates++ == 0 || stan;
  }
  if (!a->search) return PN_OK;
  if (pni_chain_reasonable_step(h)) return h->status;
  restart_step(a, h);
  a->search = false;
  return PN_OK;
}

/* Scores of what did not move, or diverged at once, tell of the point it stuck at. */
static void add_draw(pni_adaptation *a, const pni_chain *h, const pni_transition *t) {
  if (by_scores(&a->plan) && (!t->moved || (t->divergent && t->leapfrogs < SHORT))) return;
  pni_window_add(&a->draws, h->at.z, h->at.gradient);
}

static void stan_windows(pni_adaptation *a, const pni_chain *h, int i, const pni_transition *t) {
  if (i < a->first || i >= a->plan.warmup - a->last) return;
  add_draw(a, h, t);
  if (i + 1 != a->window_end) return;
  next_window(a);
  a->full = true; /* the rest before the next iteration: the warm-up does not end here */
}

static void overlapping_windows(pni_adaptation *a, const pni_chain *h, int i, const pni_transition *t) {
  int end = a->plan.warmup - a->last;
  if (i >= end) return;
  add_draw(a, h, t);
  bool early = i < a->first, made = i + 1 == end;
  int window = early ? EARLY_WINDOW : a->window;
  if (a->draws.back->count >= window && (early ? i + 1 + EARLY_WINDOW : i + 1 + window) <= end) {
    pni_window_switch(&a->draws);
    if (!early) a->window += a->window / 2;
    made = true;
  }
  int64_t count = a->draws.fore->count;
  made |= h->metric.kind == PN_METRIC_DENSE || h->metric.kind == PN_METRIC_LOW_RANK
              ? count == LEAST_DRAWS || count % REFRESH == 0
              : true;
  a->full = made && count >= LEAST_DRAWS;
}

void pni_adapt(pni_adaptation *a, pni_chain *h, int i, const pni_transition *t) {
  bool stan = a->plan.schedule == PN_SCHEDULE_STAN;
  adapt_step(a, h, stan || i < a->first ? t->accept : t->symmetric);
  if (stan)
    stan_windows(a, h, i, t);
  else
    overlapping_windows(a, h, i, t);
  if (i + 1 == a->plan.warmup) h->step = exp(a->log_mean_step);
}
