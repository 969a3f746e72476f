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

/* A part of a trajectory, in the order in which it was run: its first and last momenta p and velocities v = M^-1 p,
 * the sum of its momenta, its weight, and the point it proposes, whose z and gradient stand in a place [2, n] that is
 * handed on. In a part of one point the first are the last and the sum; those of a longer one stand in `own`. */
typedef struct {
  double *p_first, *v_first, *p_last, *v_last, *rho, *own[3];
  double weight, unit; /* the weight in units of e^unit */
  pni_point proposal;
} part;

/* An end of the whole trajectory and the velocity there; p, v, z and gradient of its own. */
typedef struct {
  pni_point at;
  double *v, *own[3];
} end;

enum { PART_ARRAYS = 7, OTHER_ARRAYS = 12, MOST_PLACES = 21 };

/* The moving end is the last point that was run. Where it stands may be a place that is free again: the next leapfrog
 * goes to one that was taken before. */
typedef struct {
  pni_chain *h;
  pni_point at; /* the moving end */
  double start_energy, sum_accept, sum_symmetric, direction;
  pni_transition *t;
  double *free;   /* what is left of work */
  double **place; /* free ones */
  int places;
} run;

/* A part a level; a place and an array of the whole, an array of the start, eight of the ends. */
int64_t pni_trajectory_room(int64_t n, int max_depth) { return pni_times(n, PART_ARRAYS * max_depth + OTHER_ARRAYS); }

static double *take_some(run *r, int count) {
  double *a = r->free;
  r->free += count * r->h->metric.n;
  return a;
}

static double *take(run *r) { return take_some(r, 1); }

static part new_part(run *r) {
  part s = {.p_first = take(r), .v_first = take(r), .own = {take(r), take(r), take(r)}};
  s.proposal.z = r->place[--r->places];
  s.proposal.gradient = s.proposal.z + r->h->metric.n;
  s.proposal.p = s.p_first;
  return s;
}

/* b, the latest part, ends; s, before it, keeps one of the proposals. */
static void end_part(run *r, const part *b, pni_point *kept, bool taken) {
  double *left = taken ? kept->z : b->proposal.z;
  if (taken) *kept = b->proposal;
  r->place[r->places++] = left;
  r->free = b->p_first;
}

/* The chain goes there. */
static void arrive(pni_chain *h, const pni_point *from) {
  size_t size = (size_t)h->metric.n * sizeof *from->z;
  memcpy(h->at.z, from->z, size);
  memcpy(h->at.gradient, from->gradient, size);
  h->at.log_density = from->log_density;
}

/* b joins a, which comes before it: do the ends of the whole move apart, those of a and the first of b, and those of b
 * and the last of a? */
static bool join(const run *r, part *a, const part *b) {
  double first = 0, last = 0, head_first = 0, head_last = 0, tail_first = 0, tail_last = 0;
  double *rho = a->own[0], *p_last = a->own[1], *v_last = a->own[2];
  for (int64_t i = 0; i < r->h->metric.n; i++) {
    double whole = a->rho[i] + b->rho[i], head = a->rho[i] + b->p_first[i], tail = b->rho[i] + a->p_last[i];
    first += a->v_first[i] * whole;
    last += b->v_last[i] * whole;
    head_first += a->v_first[i] * head;
    head_last += b->v_first[i] * head;
    tail_first += a->v_last[i] * tail;
    tail_last += b->v_last[i] * tail;
    rho[i] = whole;
    p_last[i] = b->p_last[i];
    v_last[i] = b->v_last[i];
  }
  a->rho = rho;
  a->p_last = p_last;
  a->v_last = v_last;
  return first > 0 && last > 0 && head_first > 0 && head_last > 0 && tail_first > 0 && tail_last > 0;
}

/* Adds min(1, e^gain) and 2 min(1, e^gain) / (1 + e^gain). Returns e^-|gain|. */
static double count_gain(double gain, double *accept, double *symmetric) {
  double least = exp(-fabs(gain));
  *accept += gain > 0 ? 1 : least;
  *symmetric += 2 * least / (1 + least);
  return least;
}

/* Brings both weights to the larger unit. */
static void same_unit(part *a, part *b) {
  part *low = a->unit < b->unit ? a : b, *high = low == a ? b : a;
  if (low->unit == high->unit) return;
  low->weight *= exp(low->unit - high->unit);
  low->unit = high->unit;
}

/* One leapfrog: a part of one point, of weight e^gain. False if it diverges. */
static bool leaf(run *r, part *s) {
  enum { LARGE = 600 }; /* 2^20 e^LARGE is finite; beyond are starts far out */
  pni_point *to = &s->proposal;
  if (pni_chain_leapfrog(r->h, &r->at, r->direction * r->h->step, to, s->v_first)) return false;
  r->at = *to;
  double gain = r->start_energy - (to->kinetic - to->log_density);
  if (gain != gain) gain = -INFINITY;
  r->t->leapfrogs++;
  r->t->divergent = gain < -DIVERGENT;
  double least = count_gain(gain, &r->sum_accept, &r->sum_symmetric);
  s->unit = gain > LARGE ? gain : 0;
  s->weight = gain > LARGE ? 1 : gain > 0 ? 1 / least : least;
  s->p_last = s->rho = s->p_first;
  s->v_last = s->v_first;
  return !r->t->divergent;
}

/* 2^depth leapfrogs from r->at. False if they turn or diverge, or on failure. */
static bool grow(run *r, int depth, part *s) {
  if (depth == 0) return leaf(r, s);
  part b = new_part(r);
  bool good = grow(r, depth - 1, s) && grow(r, depth - 1, &b), taken = false;
  if (good) {
    same_unit(s, &b);
    s->weight += b.weight;
    taken = pni_chain_uniform(r->h) * s->weight < b.weight;
    good = join(r, s, &b);
  }
  end_part(r, &b, &s->proposal, taken);
  return good;
}

/* Doubles the trajectory `whole` at one end; false: it is complete. ends[0] is its past, ends[1] its future. */
static bool extend(run *r, end *ends, part *whole) {
  part s = new_part(r);
  int way = pni_chain_uniform(r->h) > 0.5;
  end *seam = &ends[way];
  r->direction = way ? 1 : -1;
  r->at = seam->at;
  bool good = grow(r, r->t->depth, &s), taken = false;
  if (good) {
    r->t->depth++;
    same_unit(whole, &s);
    /* s replaces the proposal with probability min(1, its weight / that of the whole) */
    taken = s.weight > whole->weight || pni_chain_uniform(r->h) * whole->weight < s.weight;
    r->t->moved |= taken;
    whole->weight += s.weight;
    whole->v_first = ends[1 - way].v; /* seen from the far end */
    whole->p_last = seam->at.p;
    whole->v_last = seam->v;
    whole->own[1] = seam->own[0];
    whole->own[2] = seam->own[1];
    good = join(r, whole, &s);
    seam->v = whole->v_last;
    int64_t n = r->h->metric.n;
    seam->at = (pni_point){.z = seam->own[2], .p = whole->p_last, .gradient = seam->own[2] + n};
    memcpy(seam->own[2], r->at.z, (size_t)(2 * n) * sizeof *r->at.z);
  }
  end_part(r, &s, &whole->proposal, taken);
  return good;
}

static end new_end(run *r, double *v) {
  const pni_chain *h = r->h;
  pni_point start = {.z = h->at.z, .p = h->here.p, .gradient = h->at.gradient};
  return (end){start, v, {take(r), take(r), take_some(r, 2)}};
}

/* v: M^-1 p of the start */
static pn_status no_u_turn(run *r, double *v) {
  pni_chain *h = r->h;
  end ends[2] = {new_end(r, v), new_end(r, v)};
  double *place[MOST_PLACES];
  r->place = place;
  while (r->places <= h->max_depth) r->place[r->places++] = take_some(r, 2);
  part whole = {.rho = h->here.p, .own = {take(r)}, .weight = 1, .proposal = {.z = r->place[--r->places]}};
  while (r->t->depth < h->max_depth && extend(r, ends, &whole)) {
  }
  if (h->status) return h->status;
  if (r->t->moved) arrive(h, &whole.proposal);
  r->t->accept = r->sum_accept / r->t->leapfrogs;
  r->t->symmetric = r->sum_symmetric / r->t->leapfrogs;
  return PN_OK;
}

/* Two points by turns. */
static pn_status fixed_length(run *r, double *v) {
  pni_chain *h = r->h;
  pni_point *to, turns[2];
  for (int k = 0; k < 2; k++) turns[k] = (pni_point){.z = take(r), .p = take(r), .gradient = take(r)};
  double gain = 0;
  r->at = (pni_point){.z = h->at.z, .p = h->here.p, .gradient = h->at.gradient};
  for (int k = 0; k < h->max_steps && !r->t->divergent; k++) {
    to = &turns[k % 2];
    if (pni_chain_leapfrog(h, &r->at, h->step, to, v)) return h->status;
    r->at = *to;
    r->t->leapfrogs++;
    gain = r->start_energy - (to->kinetic - to->log_density);
    r->t->divergent = !(gain >= -DIVERGENT);
  }
  if (!r->t->divergent) count_gain(gain, &r->t->accept, &r->t->symmetric);
  r->t->moved = !r->t->divergent && pni_chain_uniform(h) < exp(gain);
  if (r->t->moved) arrive(h, &r->at);
  return PN_OK;
}

pn_status pni_chain_transition(pni_chain *h, pni_transition *t) {
  run r = {.h = h, .t = t, .direction = 1, .free = h->work};
  *t = (pni_transition){0};
  h->left = 0; /* a transition is a function of the generator's position */
  double *velocity = take(&r);
  pni_chain_refresh(h, h->here.p);
  r.start_energy = pni_metric_kinetic(&h->metric, h->here.p, velocity) - h->at.log_density;
  t->energy = r.start_energy;
  return h->max_steps ? fixed_length(&r, velocity) : no_u_turn(&r, velocity);
}

/* Doubled or halved until the acceptance of one leapfrog crosses 0.8. */
pn_status pni_chain_reasonable_step(pni_chain *h) {
  double *velocity = h->work;
  pni_point start = {.z = h->at.z, .p = h->work + h->metric.n, .gradient = h->at.gradient};
  int way = 0;
  for (int k = 0; k < 100 && h->step > 1e-300 && h->step < 1e7; k++) {
    pni_chain_refresh(h, start.p);
    double before = pni_metric_kinetic(&h->metric, start.p, velocity) - h->at.log_density;
    if (pni_chain_leapfrog(h, &start, h->step, &h->here, velocity)) return h->status;
    double gain = before - (h->here.kinetic - h->here.log_density);
    int towards = gain > log(0.8) ? 1 : -1;
    if (way && towards != way) return PN_OK;
    way = towards;
    h->step *= way > 0 ? 2 : 0.5;
  }
  return PN_OK;
}
