/*
** sde_adapt.c: steps adapted to their error, on one Brownian path: a step is compared with the two of half its length
** on the same path, and where they agree to the tolerance these two are taken. (So no increment is thrown away when a
** step is refused, which would change the law: Gaines & Lyons 1997. Schemes must be of strong order 1 for the noise, or
** steps that depend on the path lead to another limit.) All paths of a chunk take the same steps: those of the one with
** the largest error.
*/
#include <math.h>
#include <string.h>
#include "sde_number.h"
#include "sde_worker.h"

typedef pn_context C;
typedef pni_sde_worker W;
typedef pni_sde_part part;

static const double SAFETY = 0.8, SHRINK_MOST = 0.2, GROW_MOST = 4;

/* ---- the steps that were taken ---- */

static pn_status begin_grid(const pni_sde *o, W *w, pni_sde_grid *g) {
  enum { ROOM = 62 };
  *g = (pni_sde_grid){.c = w->c};
  g->given = pni_alloc_array(w->c, o->num_times, sizeof *g->given);
  g->t = pni_alloc_array(w->c, ROOM + 1, sizeof *g->t);
  if (!g->given || !g->t) {
    pni_free(w->c, g->given);
    pni_free(w->c, g->t);
    *g = (pni_sde_grid){0};
    return w->c->status;
  }
  g->room = ROOM;
  g->t[0] = o->times[0];
  g->given[0] = 0;
  return PN_OK;
}

static pn_status add_step(W *w, pni_sde_grid *g, double end) {
  if (g->steps == g->room) {
    int64_t room = 2 * g->room + 1;
    double *t = pni_alloc_array(w->c, pni_plus(room, 1), sizeof *t);
    if (!t) return w->c->status;
    memcpy(t, g->t, (size_t)(g->steps + 1) * sizeof *t);
    pni_free(w->c, g->t);
    g->t = t;
    g->room = room;
  }
  g->t[++g->steps] = end;
  return PN_OK;
}

/* ---- one step ---- */

/* From the state at hand, into w->result, with no check of it. */
static pn_status try(const pni_sde *o, W *w, const part *p, double t, double end) {
  if (pni_check_cancel(w->c)) return w->c->status;
  pni_sde_motions(o, w, p, 0, t, end);
  return pni_sde_advance(o, w, t, end - t);
}

/* The largest error of a path's y, in units of the tolerance (root mean square); infinite where it is not finite. */
static double error_of(const pni_sde *o, const part *p, const char *before, const char *whole, const char *halves) {
  double most = 0;
  for (int64_t r = 0; r < p->paths; r++) {
    double sum = 0;
    for (int64_t i = r * o->n; i < (r + 1) * o->n; i++) {
      double y = pni_sde_number(o, halves, i), size = fmax(fabs(pni_sde_number(o, before, i)), fabs(y));
      double e = (y - pni_sde_number(o, whole, i)) / (o->set.atol + o->set.rtol * size);
      sum += e * e;
    }
    if (!(sum <= HUGE_VAL)) return HUGE_VAL; /* NaN */
    most = fmax(most, sum);
  }
  return sqrt(most / (double)o->n);
}

/* The step from t over `half` to `end`, with room for two states: that at hand and that after the halves. */
static pn_status compare(const pni_sde *o, W *w, const part *p, double t, double half, double end, char *room,
                         double *error) {
  size_t bytes = (size_t)pni_sde_state_bytes(o);
  char *state = pni_sde_state_of(w), *result = pni_data(w->result), *before = room, *halves = room + bytes;
  memcpy(before, state, bytes);
  if (try(o, w, p, t, half)) return w->c->status;
  memcpy(state, result, bytes);
  if (try(o, w, p, half, end)) return w->c->status;
  memcpy(halves, result, bytes);
  memcpy(state, before, bytes);
  if (try(o, w, p, t, end)) return w->c->status;
  *error = error_of(o, p, before, result, halves);
  return PN_OK;
}

/* ---- all steps ---- */

static pn_status too_short(const pni_sde *o, W *w, double t, double h, double error) {
  if (!isfinite(error))
    return pni_fail(w->c, PN_NAN, "sde: y is not finite just after t = %g, however short the step", t);
  if (!o->set.own_start && pni_sde_check_length(w->c, o, t, h / 2)) return w->c->status;
  return pni_fail(w->c, PN_DOMAIN, "sde: the tolerances ask for a step below %g at t = %g", h, t);
}

/* The length after a step of length h with that error: the local error of strong order p is h^(p + 1/2). */
static double next_length(const pni_sde *o, double h, double error) {
  double best = SAFETY * pow(fmax(error, 1e-10), -1 / (o->set.order + 0.5));
  return h * fmin(fmax(best, SHRINK_MOST), GROW_MOST);
}

typedef struct {
  double t, h;
  int64_t given; /* times that were reached */
} place;

static pn_status march(pni_sde *o, W *w, const part *p, pni_sde_grid *g, char *room, char *out) {
  double least = ldexp(1, ilogb(o->set.tolerance));
  place at = {o->times[0], o->set.first_step, 1};
  if (!(at.h > 0)) at.h = (o->times[o->num_times - 1] - o->times[0]) / 128;
  for (int64_t tried = 0; at.given < o->num_times; tried++) {
    double end = o->times[at.given], error = 0, h = o->set.step > 0 ? fmin(at.h, o->set.step) : at.h;
    if (tried == o->set.max_steps)
      return pni_fail(w->c, PN_DOMAIN, "sde: max_steps = %lld steps end at t = %g of %g", (long long)o->set.max_steps,
                      at.t, o->times[o->num_times - 1]);
    double left = end - at.t;
    bool last = h * 1.01 >= left;
    if (!last) end = at.t + fmin(h, left / 2); /* no short one at the end */
    double half = at.t + (end - at.t) / 2;
    if (half - at.t < least || end - half < least) return too_short(o, w, at.t, end - at.t, 0);
    if (compare(o, w, p, at.t, half, end, room, &error)) return w->c->status;
    at.h = next_length(o, end - at.t, error);
    if (!(error <= 1)) {
      if (at.h < 2 * least) return too_short(o, w, at.t, at.h, error);
      continue;
    }
    memcpy(pni_sde_state_of(w), room + pni_sde_state_bytes(o), (size_t)pni_sde_state_bytes(o));
    if (add_step(w, g, half) || add_step(w, g, end)) return w->c->status;
    at.t = end;
    if (last) {
      g->given[at.given] = g->steps;
      pni_sde_give(o, w, p, at.given++, out);
    }
  }
  return PN_OK;
}

pn_status pni_sde_adapt(pni_sde *o, W *w, const part *p, char *out) {
  size_t bytes = 2 * (size_t)pni_sde_state_bytes(o);
  pni_sde_grid *g = &o->grid[p->number];
  if (begin_grid(o, w, g)) return w->c->status;
  char *room = pni_alloc(w->c, bytes);
  if (!room) return w->c->status;
  pni_sde_first_state(o, w, p);
  pni_sde_give(o, w, p, 0, out);
  march(o, w, p, g, room, out);
  pni_free(w->c, room);
  return w->c->status;
}
