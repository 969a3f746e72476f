/*
** ode_event.c: events, numbers g(t, y, parameters) that pass through zero. One is found where its values at the ends of
** a step differ in sign, and located on the interpolant of the step; two passages within one step are not seen. The
** gradient of its time is that of the implicit function, dtau = -(dg at constant t) / (dg/dt along the solution), of
** the discrete solution as elsewhere.
*/
#include <float.h>
#include <string.h>
#include "ode.h"

typedef pn_context C;

/* ---- where results lie ---- */

/* Within the results of events: the number of times that e occurred, then their times, then the states. */
static int64_t number_at(const pni_ode *o, int e) {
  int64_t at = 0;
  for (int k = 0; k < e; k++) at += 1 + o->event[k].count * (1 + o->n);
  return at;
}

/* Of its occurrences among those of all. */
static int64_t first_of(const pni_ode *o, int e) {
  int64_t at = 0;
  for (int k = 0; k < e; k++) at += o->event[k].count;
  return at;
}

/* ---- finding ---- */

static pn_status values_at(C *c, const pni_ode *o, double t, const double *y, double *value) {
  if (pni_ode_event_values(c, o, t, y, value)) return c->status;
  for (int e = 0; e < o->set.num_events; e++)
    if (!isfinite(value[e]))
      return pni_fail(c, PN_NAN, "odeint: event '%s' must be finite, got %g at t = %g", o->event[e].name, value[e], t);
  return PN_OK;
}

pn_status pni_ode_events_begin(C *c, pni_ode *o, double t, const double *y, double *out) {
  memset(o->occurred, 0, (size_t)o->set.num_events * sizeof *o->occurred);
  for (int e = 0; e < o->set.num_events; e++) out[number_at(o, e)] = 0;
  return values_at(c, o, t, y, o->event_value);
}

static bool passes(const pn_ode_event *e, double before, double after) {
  if (before == 0 || (before > 0) == (after > 0 || (after == 0 && before < 0))) return false;
  return e->direction == 0 || (e->direction > 0) == (before < 0);
}

static pn_status value_between(C *c, const pni_ode *o, const pni_ode_step *s, const pni_ode_step *next, int e,
                               double place, double *value) {
  o->method->between(o, s, next, place, false, o->event_y);
  if (values_at(c, o, *s->t + place * *s->h, o->event_y, o->event_try)) return c->status;
  *value = o->event_try[e];
  return PN_OK;
}

/* The place of event e within the step, between ends that differ in sign: by secants that halve the value of an end
 * that stays (Illinois: Dowell & Jarratt 1971), every fourth time by halving the interval. */
static pn_status locate(C *c, const pni_ode *o, const pni_ode_step *s, const pni_ode_step *next, int e, double *place) {
  double a = 0, b = 1, at_a = o->event_value[e], at_b = o->event_end[e], fa = at_a, fb = at_b;
  double least = fmax(2 * DBL_EPSILON, 2 * DBL_EPSILON * fabs(*s->t / *s->h));
  for (int k = 1; b - a > least && at_b != 0; k++) {
    double x = (a * fb - b * fa) / (fb - fa), f = 0;
    if (k % 4 == 0 || !(x > a && x < b)) x = a + (b - a) / 2;
    if (!(x > a && x < b)) break;
    if (value_between(c, o, s, next, e, x, &f)) return c->status;
    if (f == 0 || (f > 0) == (at_b > 0)) {
      b = x;
      at_b = fb = f;
      fa /= 2;
    } else {
      a = x;
      at_a = fa = f;
      fb /= 2;
    }
  }
  *place = fabs(at_a) < fabs(at_b) ? a : b;
  return PN_OK;
}

/* Event e occurs at a place of step `at`. */
static pn_status record(C *c, pni_ode *o, int64_t at, const pni_ode_step *s, const pni_ode_step *next, int e,
                        double place, double *out) {
  int k = o->occurred[e], count = o->event[e].count;
  double t = place == 1 ? *next->t : *s->t + place * *s->h, *results = out + o->num_times * o->n + number_at(o, e);
  if (k == count)
    return pni_fail(c, PN_DOMAIN, "odeint: event '%s' occurs more often than count = %d times, again at t = %g",
                    o->event[e].name, count, t);
  o->occurred_time[first_of(o, e) + k] = results[1 + k] = t;
  o->occurred_step[first_of(o, e) + k] = at;
  o->method->between(o, s, next, place, false, results + 1 + count + k * o->n);
  results[0] = ++o->occurred[e];
  return PN_OK;
}

/* The event that comes next within the step, of those whose places are in event_weight and not NaN; -1: none. */
static int next_event(const pni_ode *o) {
  int found = -1;
  for (int e = 0; e < o->set.num_events; e++)
    if (!isnan(o->event_weight[e]) && (found < 0 || o->event_weight[e] < o->event_weight[found])) found = e;
  return found;
}

pn_status pni_ode_events_find(C *c, pni_ode *o, int64_t at, const pni_ode_step *s, const pni_ode_step *next,
                              double *end, bool *over, double *out) {
  int n = o->set.num_events;
  if (values_at(c, o, *next->t, next->y, o->event_end)) return c->status;
  for (int e = 0; e < n; e++) {
    o->event_weight[e] = NAN;
    if (passes(&o->event[e], o->event_value[e], o->event_end[e]) && locate(c, o, s, next, e, o->event_weight + e))
      return c->status;
  }
  for (int e = next_event(o); e >= 0 && !*over; e = next_event(o)) {
    if (record(c, o, at, s, next, e, o->event_weight[e], out)) return c->status;
    if ((*over = o->event[e].terminal)) *end = o->occurred_time[first_of(o, e) + o->occurred[e] - 1];
    o->event_weight[e] = NAN;
  }
  memcpy(o->event_value, o->event_end, (size_t)n * sizeof *o->event_value);
  return PN_OK;
}

/* ---- the gradient ---- */

/* Of occurrence k of event e. With y' = dy/dt: a gradient of the time is one of y and the parameters by the implicit
 * function; the state moves with the time. */
static pn_status occurrence_adjoint(C *c, pni_ode *o, const pni_ode_step *s, const pni_ode_step *next, int e, int k,
                                    const double *g, double *out) {
  int64_t n = o->n, m = o->total - o->num_times;
  double t = o->occurred_time[first_of(o, e) + k], place = t == *next->t ? 1 : (t - *s->t) / *s->h;
  const double *results = g + o->num_times * n + number_at(o, e), *of_state = results + 1 + o->event[e].count + k * n;
  double of_time = results[1 + k], rate = 0;
  o->method->between(o, s, next, place, true, o->event_slope);
  for (int64_t i = 0; i < n; i++) of_time += of_state[i] * o->event_slope[i];
  memcpy(o->slope, of_state, (size_t)n * sizeof *of_state);
  if (of_time != 0) {
    for (int i = 0; i < o->set.num_events; i++) o->event_weight[i] = i == e;
    o->method->between(o, s, next, place, false, o->event_y);
    if (pni_ode_event_pull_back(c, o, t, o->event_y, o->event_weight, &rate)) return c->status;
    for (int64_t i = 0; i < n; i++) rate += o->back[i] * o->event_slope[i];
    double factor = -of_time / rate;
    if (!isfinite(factor))
      return pni_fail(c, PN_DOMAIN,
                      "odeint: event '%s' at t = %g has no gradient: it does not pass through zero at a rate",
                      o->event[e].name, t);
    for (int64_t i = 0; i < n; i++) o->slope[i] += factor * o->back[i];
    for (int64_t i = n; i < m; i++) out[o->num_times + i] += factor * o->back[i];
  }
  o->method->between_adjoint(o, s, next, place, o->slope);
  return PN_OK;
}

pn_status pni_ode_events_adjoint(C *c, pni_ode *o, int64_t at, const pni_ode_step *s, const pni_ode_step *next,
                                 const double *g, double *out) {
  for (int e = 0; e < o->set.num_events; e++) {
    int *left = &o->occurred[o->set.num_events + e];
    while (*left > 0 && o->occurred_step[first_of(o, e) + *left - 1] == at) {
      --*left;
      if (occurrence_adjoint(c, o, s, next, e, *left, g, out)) return c->status;
    }
  }
  return PN_OK;
}
