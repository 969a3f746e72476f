/*
** trajectory.c: transitions of Hamiltonian Monte Carlo. The no-U-turn sampler (Hoffman & Gelman 2014) with
** multinomial weights and biased progressive sampling (Betancourt 2017): a trajectory is doubled forwards or
** backwards until its ends move towards each other, by the test on rho, the sum of its momenta,
**   rho . M^-1 p_first > 0 and rho . M^-1 p_last > 0,
** of the whole trajectory and across the seam of its halves.
*/
#include <math.h>
#include <string.h>
#include "hamiltonian.h"

/* Energy errors above are divergences. */
static const double DIVERGENT = 1000;

/* A part of a trajectory, in the order in which it was run: its first and last momenta p and velocities v = M^-1 p, the
 * sum of its momenta, the log of its weight, and the point it proposes. */
typedef struct {
  double *p_first, *v_first, *p_last, *v_last, *rho;
  double log_weight;
  pni_point proposal;
} part;

enum { PART_ARRAYS = 7 };

typedef struct {
  pni_chain *h;
  double start_energy, sum_accept, sum_symmetric, direction;
  pni_transition *t;
  double *free; /* what is left of work */
  double *scratch;
} run;

/* A part a level and one for the whole; two ends of four arrays, five arrays more. */
int64_t pni_trajectory_room(int64_t n, int max_depth) { return pni_times(n, PART_ARRAYS * (max_depth + 1) + 13); }

static double *take(run *r) {
  double *a = r->free;
  r->free += r->h->metric.n;
  return a;
}

static part new_part(run *r) {
  part s = {take(r), take(r), take(r), take(r), take(r), -INFINITY, {NULL, NULL, NULL, 0}};
  s.proposal.z = take(r);
  s.proposal.gradient = take(r);
  return s;
}

static double log_add(double a, double b) {
  double high = a > b ? a : b, low = a > b ? b : a;
  return high == -INFINITY ? high : high + log1p(exp(low - high));
}

static void copy(const run *r, double *to, const double *from) {
  memcpy(to, from, (size_t)r->h->metric.n * sizeof *to);
}

static void copy_point(const run *r, pni_point *to, const pni_point *from) {
  copy(r, to->z, from->z);
  copy(r, to->gradient, from->gradient);
  to->log_density = from->log_density;
}

/* Do first and last still move apart, rho being `a` (+ `b`)? */
static bool apart(const run *r, const double *v_first, const double *v_last, const double *a, const double *b) {
  double first = 0, last = 0;
  for (int64_t i = 0; i < r->h->metric.n; i++) {
    double rho = b ? a[i] + b[i] : a[i];
    first += v_first[i] * rho;
    last += v_last[i] * rho;
  }
  return first > 0 && last > 0;
}

/* With probability e^(b - a): a's proposal gives way to b's. */
static bool prefer(run *r, double a, double b) { return b > a || pni_chain_uniform(r->h) < exp(b - a); }

/* 2 min(1, e^gain) / (1 + e^gain) */
static double symmetric(double gain) {
  double least = exp(-fabs(gain));
  return 2 * least / (1 + least);
}

/* One leapfrog: a part of one point. False if it diverges. */
static bool leaf(run *r, part *s) {
  pni_chain *h = r->h;
  if (pni_chain_leapfrog(h, &h->here, r->direction * h->step, r->scratch)) return false;
  double kinetic = pni_metric_kinetic(&h->metric, h->here.p, s->v_first);
  double gain = r->start_energy - (kinetic - h->here.log_density);
  if (gain != gain) gain = -INFINITY;
  r->t->leapfrogs++;
  r->t->divergent = gain < -DIVERGENT;
  s->log_weight = gain;
  r->sum_accept += gain > 0 ? 1 : exp(gain);
  r->sum_symmetric += symmetric(gain);
  copy(r, s->v_last, s->v_first);
  copy(r, s->p_first, h->here.p);
  copy(r, s->p_last, h->here.p);
  copy(r, s->rho, h->here.p);
  copy_point(r, &s->proposal, &h->here);
  return !r->t->divergent;
}

/* 2^depth leapfrogs from where h->here stands. False if they turn or diverge, or on failure. */
static bool grow(run *r, int depth, part *s) {
  if (depth == 0) return leaf(r, s);
  double *before = r->free;
  part b = new_part(r);
  bool good = grow(r, depth - 1, s) && grow(r, depth - 1, &b);
  if (good) {
    good = apart(r, s->v_first, b.v_first, s->rho, b.p_first) && apart(r, s->v_last, b.v_last, b.rho, s->p_last);
    double both = log_add(s->log_weight, b.log_weight);
    if (pni_chain_uniform(r->h) < exp(b.log_weight - both)) copy_point(r, &s->proposal, &b.proposal);
    s->log_weight = both;
    for (int64_t i = 0; i < r->h->metric.n; i++) s->rho[i] += b.rho[i];
    copy(r, s->p_last, b.p_last);
    copy(r, s->v_last, b.v_last);
    good &= apart(r, s->v_first, s->v_last, s->rho, NULL);
  }
  r->free = before;
  return good;
}

/* The ends of the whole trajectory: what the moving point is there. */
typedef struct {
  pni_point at;
  double *v;
} end;

static end new_end(run *r, const pni_point *p, const double *v) {
  end e = {{take(r), take(r), take(r), p->log_density}, take(r)};
  copy_point(r, &e.at, p);
  copy(r, e.at.p, p->p);
  copy(r, e.v, v);
  return e;
}

static void move_to(run *r, pni_point *to, const pni_point *from) {
  copy_point(r, to, from);
  copy(r, to->p, from->p);
}

/* Doubles the trajectory `whole` at one end; false: it is complete. ends[0] is its past, ends[1] its future. */
static bool extend(run *r, end *ends, double *rho, double *log_weight, pni_point *sample) {
  pni_chain *h = r->h;
  double *before = r->free;
  part s = new_part(r);
  int way = pni_chain_uniform(h) > 0.5;
  r->direction = way ? 1 : -1;
  move_to(r, &h->here, &ends[way].at);
  bool good = grow(r, r->t->depth, &s);
  if (good) {
    r->t->depth++;
    if (prefer(r, *log_weight, s.log_weight)) {
      copy_point(r, sample, &s.proposal);
      r->t->moved = true;
    }
    *log_weight = log_add(*log_weight, s.log_weight);
    /* the old trajectory from its far end to the seam, then the new part */
    const end *far = &ends[1 - way], *seam = &ends[way];
    good = apart(r, far->v, s.v_first, rho, s.p_first) && apart(r, seam->v, s.v_last, s.rho, seam->at.p);
    for (int64_t i = 0; i < h->metric.n; i++) rho[i] += s.rho[i];
    good &= apart(r, far->v, s.v_last, rho, NULL);
    move_to(r, &ends[way].at, &h->here);
    copy(r, ends[way].v, s.v_last);
  }
  r->free = before;
  return good;
}

static pn_status no_u_turn(run *r) {
  pni_chain *h = r->h;
  double *v = take(r), *rho = take(r), log_weight = 0;
  pni_metric_velocity(&h->metric, h->here.p, v);
  copy(r, rho, h->here.p);
  end ends[2] = {new_end(r, &h->here, v), new_end(r, &h->here, v)};
  pni_point sample = {take(r), NULL, take(r), 0};
  copy_point(r, &sample, &h->at);
  while (r->t->depth < h->max_depth && extend(r, ends, rho, &log_weight, &sample)) {
  }
  if (h->status) return h->status;
  copy_point(r, &h->at, &sample);
  r->t->accept = r->sum_accept / r->t->leapfrogs;
  r->t->symmetric = r->sum_symmetric / r->t->leapfrogs;
  return PN_OK;
}

static pn_status fixed_length(run *r) {
  pni_chain *h = r->h;
  double gain = 0;
  for (int k = 0; k < h->max_steps; k++) {
    if (pni_chain_leapfrog(h, &h->here, h->step, r->scratch)) return h->status;
    r->t->leapfrogs++;
    gain = r->start_energy - (pni_metric_kinetic(&h->metric, h->here.p, r->scratch) - h->here.log_density);
    r->t->divergent = !(gain >= -DIVERGENT);
    if (r->t->divergent) break;
  }
  r->t->accept = r->t->divergent ? 0 : gain > 0 ? 1 : exp(gain);
  r->t->symmetric = r->t->divergent ? 0 : symmetric(gain);
  r->t->moved = !r->t->divergent && pni_chain_uniform(h) < exp(gain);
  if (r->t->moved) copy_point(r, &h->at, &h->here);
  return PN_OK;
}

pn_status pni_chain_transition(pni_chain *h, pni_transition *t) {
  run r = {.h = h, .t = t, .direction = 1};
  *t = (pni_transition){0};
  h->left = 0; /* a transition is a function of the generator's position */
  r.free = h->work;
  r.scratch = take(&r);
  copy_point(&r, &h->here, &h->at);
  pni_chain_refresh(h, h->here.p);
  r.start_energy = pni_metric_kinetic(&h->metric, h->here.p, r.scratch) - h->at.log_density;
  t->energy = r.start_energy;
  return h->max_steps ? fixed_length(&r) : no_u_turn(&r);
}

/* Doubled or halved until the acceptance of one leapfrog crosses 0.8. */
pn_status pni_chain_reasonable_step(pni_chain *h) {
  run r = {.h = h};
  double *velocity = h->work;
  int way = 0;
  for (int k = 0; k < 100 && h->step > 1e-300 && h->step < 1e7; k++) {
    copy_point(&r, &h->here, &h->at);
    pni_chain_refresh(h, h->here.p);
    double before = pni_metric_kinetic(&h->metric, h->here.p, velocity) - h->at.log_density;
    if (pni_chain_leapfrog(h, &h->here, h->step, velocity)) return h->status;
    double gain = before - (pni_metric_kinetic(&h->metric, h->here.p, velocity) - h->here.log_density);
    int towards = gain > log(0.8) ? 1 : -1;
    if (way && towards != way) return PN_OK;
    way = towards;
    h->step *= way > 0 ? 2 : 0.5;
  }
  return PN_OK;
}
