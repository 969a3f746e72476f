/*
** ode.c: solving a system with steps adapted to their error by the method it names, and the gradient of what was
** computed. The gradient is that of the discrete solution with the steps as they were taken (internal numerical
** differentiation: Bock 1981; "discretise, then optimise"): exact for fixed steps, without the instability of
** integrating an adjoint system backwards. The trajectory is kept from the solution to the gradient and made again if
** another came between; with checkpoints only marks are, every so many steps, from which the steps in between are made
** again, the same ones, when their turn comes.
*/
#include "ode.h"
#include <float.h>
#include <string.h>

typedef pn_context C;

/* Step control: Hairer, Norsett & Wanner II.4 and IV.2 (the PI controller of dopri5.f). */
static const double SAFETY = 0.9, BETA = 0.04, SHRINK_MOST = 0.2, GROW_MOST = 10;

/* ---- the object ---- */

static int64_t stride_of(const pni_ode *o) { return pni_plus(2, pni_times(1 + o->method->kept, o->n)); }

static double *take(double **from, int64_t n) {
  double *a = *from;
  *from += n;
  return a;
}

/* What pni_ode_open lays out. */
static int64_t size_of_work(const pni_ode *o) {
  int64_t n = o->n, events = o->set.num_events, whole = pni_times(3, o->total);
  int64_t vectors = pni_times(5 + PNI_ODE_STAGES, n), squares = o->method->implicit ? pni_times(2, pni_times(n, n)) : 0;
  int64_t of_events = pni_plus(o->occurrences, pni_plus(pni_times(4, events), events ? pni_times(2, n) : 0));
  return pni_plus(pni_plus(whole, vectors), pni_plus(pni_plus(squares, pni_times(2, n)), of_events));
}

static void lay_out(pni_ode *o) {
  double *w = o->work;
  int64_t n = o->n, square = o->method->implicit ? n * n : 0, events = o->set.num_events;
  o->in = take(&w, o->total);
  o->from = take(&w, o->total);
  o->back = take(&w, o->total);
  o->y = take(&w, n);
  o->value_bar = take(&w, n);
  o->next_bar = take(&w, n);
  o->slope = take(&w, n);
  o->start_slope = take(&w, n);
  o->slope_bar = take(&w, PNI_ODE_STAGES * n);
  o->jacobian = take(&w, square);
  o->factor = take(&w, square);
  o->in_time = take(&w, n);
  o->row = take(&w, n);
  o->occurred_time = take(&w, o->occurrences);
  o->event_value = take(&w, events);
  o->event_end = take(&w, events);
  o->event_try = take(&w, events);
  o->event_weight = take(&w, events);
  o->event_y = take(&w, events ? n : 0);
  o->event_slope = take(&w, events ? n : 0);
}

static pn_status open_events(C *c, pni_ode *o) {
  int64_t n = o->set.num_events;
  o->event = pni_alloc_array(c, n, sizeof *o->event);
  o->occurred = o->event ? pni_alloc_array(c, 2 * n, sizeof *o->occurred) : NULL;
  if (!o->occurred) return c->status;
  memcpy(o->event, o->set.event, (size_t)n * sizeof *o->event);
  for (int64_t e = 0; e < n; e++) o->occurrences += o->event[e].count;
  o->occurred_step = pni_alloc_array(c, o->occurrences, sizeof *o->occurred_step);
  o->set.event = o->event;
  return c->status;
}

int64_t pni_ode_results(const pn_ode_config *set, int64_t n, int64_t num_times) {
  int64_t size = pni_times(num_times, n);
  for (int e = 0; e < set->num_events; e++)
    size = pni_plus(size, pni_plus(1, pni_times(set->event[e].count, pni_plus(1, n))));
  return size;
}

static pn_status take_memory(C *c, pni_ode *o) {
  if (o->set.num_events && open_events(c, o)) return c->status;
  if (o->method->implicit && !(o->pivot = pni_alloc_array(c, o->n, sizeof *o->pivot))) return c->status;
  o->work_size = size_of_work(o);
  o->work = pni_alloc_array(c, o->work_size, sizeof *o->work);
  if (o->work) lay_out(o);
  return c->status;
}

pn_status pni_ode_open(C *c, pni_ode *o, pn_plan *const *plan, const pn_ode_config *set, int64_t n, int64_t num_times,
                       int64_t total) {
  *o = (pni_ode){.set = *set, .n = n, .num_times = num_times, .total = total};
  o->method = set->method == PN_ROSENBROCK ? &pni_rosenbrock : &pni_dormand_prince;
  o->set.checkpoints = set->checkpoints && plan[PNI_ODE_PULLBACK];
  o->results = pni_ode_results(set, n, num_times);
  for (int k = 0; k < PNI_ODE_PLANS; k++) o->plan[k] = plan[k] ? pn_plan_ref(plan[k]) : NULL;
  if (take_memory(c, o)) pni_ode_close(c, o);
  return c->status;
}

void pni_ode_close(C *c, pni_ode *o) {
  pni_free(c, o->trajectory);
  pni_free(c, o->mark);
  pni_free(c, o->work);
  pni_free(c, o->pivot);
  pni_free(c, o->occurred_step);
  pni_free(c, o->occurred);
  pni_free(c, o->event);
  for (int k = 0; k < PNI_ODE_PLANS; k++) pn_plan_unref(o->plan[k]);
}

/* ---- the trajectory ---- */

static pni_ode_step step_at(const pni_ode *o, int64_t i) {
  double *p = o->trajectory + (o->rolling ? i & 1 : i - o->base) * stride_of(o);
  return (pni_ode_step){p, p + 1, p + 2, p + 2 + o->n};
}

/* Makes room for `count` numbers in place of *room of them. */
static pn_status enlarge(C *c, double **a, int64_t *room, int64_t count) {
  double *fresh = pni_alloc_array(c, count, sizeof *fresh);
  if (!fresh) return c->status;
  if (*room) memcpy(fresh, *a, (size_t)*room * sizeof *fresh);
  pni_free(c, *a);
  *a = fresh;
  *room = count;
  return PN_OK;
}

/* Room for steps up to number `last`. */
static pn_status reserve(C *c, pni_ode *o, int64_t last) {
  int64_t steps = o->rolling ? 2 : last - o->base + 1, stride = stride_of(o), numbers = o->room * stride;
  if (steps <= o->room) return PN_OK;
  int64_t room = o->rolling ? 2 : o->set.checkpoints ? o->interval + 1 : pni_plus(pni_times(2, steps), 30);
  if (enlarge(c, &o->trajectory, &numbers, pni_times(room, stride))) return c->status;
  o->room = room;
  return PN_OK;
}

/* A mark: where the solution stands, after a step that was taken, t and y. */
enum { AT_T, AT_H, AT_BEFORE, AT_TRIED, AT_GIVEN, AT_Y, FIRST_INTERVAL = 8 };

static double *mark_at(const pni_ode *o, int64_t i) { return o->mark + i * (AT_Y + o->n); }

/* At each `interval` steps, of which there are at most as many: else every other mark goes. So with S steps there are
 * less than 2 sqrt(S) marks, and less than 2 sqrt(S) + 8 steps from one to the next. */
static pn_status save_mark(C *c, pni_ode *o, const pni_ode_control *k) {
  int64_t size = AT_Y + o->n;
  if (k->at % o->interval) return PN_OK;
  if (o->marks == o->interval) {
    o->marks /= 2;
    o->interval *= 2;
    for (int64_t i = 1; i < o->marks; i++) memcpy(mark_at(o, i), mark_at(o, 2 * i), (size_t)size * sizeof *o->mark);
  }
  int64_t needed = pni_times(o->marks + 1, size);
  if (needed > o->mark_room && enlarge(c, &o->mark, &o->mark_room, pni_times(o->interval, size))) return c->status;
  double *m = mark_at(o, o->marks++);
  pni_ode_step s = step_at(o, k->at);
  m[AT_T] = *s.t;
  m[AT_H] = k->h;
  m[AT_BEFORE] = k->before;
  m[AT_TRIED] = k->tried;
  m[AT_GIVEN] = (double)k->given;
  memcpy(m + AT_Y, s.y, (size_t)o->n * sizeof *m);
  return PN_OK;
}

/* ---- steps ---- */

/* The length of the first step, by the sizes of y, f and the change of f along a step of Euler's: HNW II.4. */
static pn_status first_length(C *c, const pni_ode *o, double most, double sign, double *h) {
  int64_t n = o->n;
  double d0 = 0, d1 = 0, d2 = 0, *slope = o->slope;
  const double *y = o->in, *start = o->start_slope;
  for (int64_t i = 0; i < n; i++) {
    double scale = pni_ode_scale(o, y[i], 0);
    d0 += y[i] / scale * (y[i] / scale);
    d1 += start[i] / scale * (start[i] / scale);
  }
  d0 = sqrt(d0 / (double)n);
  d1 = sqrt(d1 / (double)n);
  double h0 = fmin(d0 < 1e-5 || d1 < 1e-5 ? 1e-6 : 0.01 * d0 / d1, most);
  for (int64_t i = 0; i < n; i++) o->y[i] = y[i] + sign * h0 * start[i];
  if (pni_ode_slope(c, o, o->in[n] + sign * h0, o->y, slope)) return c->status;
  for (int64_t i = 0; i < n; i++) {
    double e = (slope[i] - start[i]) / pni_ode_scale(o, y[i], 0);
    d2 += e * e;
  }
  d2 = sqrt(d2 / (double)n) / h0;
  double largest = fmax(d1, d2),
         h1 = largest <= 1e-15 ? fmax(1e-6, h0 * 1e-3) : pow(0.01 / largest, o->method->exponent);
  *h = isfinite(d2) ? fmin(fmin(100 * h0, h1), most) : h0;
  return PN_OK;
}

/* 1 or -1: the way of time. */
static double sign_of(const pni_ode *o) {
  const double *t = o->in + o->n;
  return o->num_times > 1 && t[1] < t[0] ? -1 : 1;
}

static pn_status check_times(C *c, const pni_ode *o) {
  const double *t = o->in + o->n, sign = sign_of(o);
  for (int64_t i = 0; i < o->num_times; i++)
    if (!isfinite(t[i]) || (i && !((t[i] - t[i - 1]) * sign > 0)))
      return pni_fail(c, PN_DOMAIN, "odeint: times must be finite and in order, without repeats; number %lld is %g",
                      (long long)i + 1, t[i]);
  return PN_OK;
}

/* The solution stands at step `at`, which lies at (t, y); `slope` is f there. */
static pn_status stand(C *c, pni_ode *o, int64_t at, double t, const double *y, const double *slope) {
  if (reserve(c, o, at)) return c->status;
  pni_ode_step s = step_at(o, at);
  *s.t = t;
  memcpy(s.y, y, (size_t)o->n * sizeof *s.y);
  o->method->begin(o, &s, slope);
  o->jacobian_of = -1;
  return PN_OK;
}

static pn_status start(C *c, pni_ode *o) {
  const double *y = o->in, t = o->in[o->n];
  o->known = false;
  o->steps = o->base = o->marks = 0;
  o->interval = FIRST_INTERVAL;
  o->rolling = o->set.checkpoints || !o->plan[PNI_ODE_PULLBACK];
  if (pni_ode_slope(c, o, t, y, o->start_slope)) return c->status;
  for (int64_t i = 0; i < o->n; i++)
    if (!isfinite(y[i]) || !isfinite(o->start_slope[i]))
      return pni_fail(c, PN_NAN, "odeint: y and dy/dt must be finite at the first time, got %g and %g (element %lld)",
                      y[i], o->start_slope[i], (long long)i + 1);
  return stand(c, o, 0, t, y, o->start_slope);
}

static pn_status too_short(C *c, double t, double h, double error) {
  if (isnan(error)) return pni_fail(c, PN_NAN, "odeint: dy/dt is not finite just after t = %g", t);
  return pni_fail(c, PN_DOMAIN, "odeint: the tolerances ask for a step below %g at t = %g (a singularity?)", h, t);
}

/* Lengths after a step of length h whose error was e. */
static void adapt(const pni_ode *o, pni_ode_control *k, double h, double e) {
  double now = pow(e, o->method->exponent - 0.75 * BETA), shrink;
  if (e <= 1) {
    shrink = fmin(1 / SHRINK_MOST, fmax(1 / GROW_MOST, now / pow(k->before, BETA) / SAFETY));
    k->h = k->rejected ? fmin(h / shrink, h) : h / shrink;
    k->before = fmax(e, 1e-4);
    k->rejected = false;
  } else {
    k->h = isnan(e) ? h / 10 : h / fmin(1 / SHRINK_MOST, now / SAFETY);
    k->rejected = true;
  }
}

/* Does t lie past `end`? */
static bool is_past(const pni_ode *o, double t, double end) { return (t - end) * sign_of(o) > 0; }

/* The solution at the times that the step from *s to *next reaches, and its events; *over: one of them ends it. */
static pn_status give(C *c, pni_ode *o, pni_ode_control *k, const pni_ode_step *s, const pni_ode_step *next, bool *over,
                      double *out) {
  const double *times = o->in + o->n;
  double end = *next->t;
  if (out && o->set.num_events && pni_ode_events_find(c, o, k->at, s, next, &end, over, out)) return c->status;
  for (; k->given < o->num_times && !is_past(o, times[k->given], end); k->given++) {
    double t = times[k->given], *y = out ? out + k->given * o->n : NULL;
    if (y && t == *next->t)
      memcpy(y, next->y, (size_t)o->n * sizeof *y);
    else if (y)
      o->method->between(o, s, next, (t - *s->t) / *s->h, false, y);
  }
  return PN_OK;
}

/* Is the solution asked for between the ends of the step that begins where *k stands? */
static bool is_inside(const pni_ode *o, const pni_ode_control *k, double end) {
  const double *times = o->in + o->n;
  return o->set.num_events || (k->given < o->num_times && is_past(o, end, times[k->given]));
}

/* One step is tried from where *k stands; *taken: it is, and *s.h and *next.t are there. */
static pn_status try_step(C *c, pni_ode *o, pni_ode_control *k, const pni_ode_step *s, const pni_ode_step *next,
                          double most, bool *taken) {
  double sign = sign_of(o), end = o->in[o->n + o->num_times - 1], error = 0, inside = 0;
  double h = fmin(k->h, most), left = fabs(end - *s->t);
  if (h < 10 * DBL_EPSILON * fabs(*s->t) || h < DBL_MIN) return too_short(c, *s->t, h, k->last);
  bool last = 1.01 * h >= left;
  if (last) h = left;
  *s->h = sign * h;
  *next->t = last ? end : *s->t + *s->h;
  if (o->method->step(c, o, k->at, s, *s->h, next, &error)) return c->status;
  if (error <= 1 && o->method->error_between && is_inside(o, k, *next->t)) {
    if (o->method->error_between(c, o, s, next, &inside)) return c->status;
    error = isnan(inside) ? inside : fmax(error, inside);
  }
  adapt(o, k, h, error);
  k->last = error;
  *taken = error <= 1;
  return PN_OK;
}

static double span_of(const pni_ode *o) {
  const double *times = o->in + o->n;
  return fabs(times[o->num_times - 1] - times[0]);
}

static double longest(const pni_ode *o) { return o->set.max_step > 0 ? o->set.max_step : span_of(o); }

/* Goes on from *k. With out until the steps reach past the last time, or an event ends them; out gets the results.
 * Without, along the way that is known, until step `stop`. */
static pn_status march(C *c, pni_ode *o, pni_ode_control *k, int64_t stop, double *out) {
  double most = longest(o), end = o->in[o->n + o->num_times - 1];
  bool over = false;
  while (out ? !over && k->given < o->num_times : k->at < stop) {
    if (pni_check_cancel(c) || reserve(c, o, k->at + 1)) return c->status;
    pni_ode_step s = step_at(o, k->at), next = step_at(o, k->at + 1);
    if (k->tried == o->set.max_steps)
      return pni_fail(c, PN_DOMAIN, "odeint: max_steps = %d steps end at t = %g of %g (%s)", o->set.max_steps, *s.t,
                      end, o->method->failure);
    bool taken = false;
    k->tried++;
    if (try_step(c, o, k, &s, &next, most, &taken)) return c->status;
    if (!taken) continue;
    if (give(c, o, k, &s, &next, &over, out)) return c->status;
    k->at++;
    if (out && o->set.checkpoints && save_mark(c, o, k)) return c->status;
  }
  return PN_OK;
}

pn_status pni_ode_solve(C *c, pni_ode *o, double *out) {
  pni_ode_control k = {.given = 1, .h = o->set.first_step, .before = 1e-4};
  int64_t all = o->num_times * o->n;
  if (check_times(c, o) || start(c, o)) return c->status;
  for (int64_t i = 0; i < o->results; i++) out[i] = i < o->n ? o->in[i] : NAN;
  if (o->set.num_events && pni_ode_events_begin(c, o, o->in[o->n], o->in, out + all)) return c->status;
  if (o->num_times > 1) {
    if (k.h <= 0 && first_length(c, o, fmin(longest(o), span_of(o)), sign_of(o), &k.h)) return c->status;
    if (o->set.checkpoints && save_mark(c, o, &k)) return c->status;
    if (march(c, o, &k, 0, out)) return c->status;
  }
  o->steps = k.at;
  o->given = k.given;
  memcpy(o->from, o->in, (size_t)o->total * sizeof *o->from);
  o->known = true;
  return PN_OK;
}

/* ---- the gradient ---- */

static pn_status ensure_trajectory(C *c, pni_ode *o) {
  if (!o->plan[PNI_ODE_PULLBACK])
    return pni_fail(c, PN_STATE, "odeint: no gradient was asked for when it was made (its inputs needed none)");
  if (o->known && memcmp(o->from, o->in, (size_t)o->total * sizeof *o->in) == 0) return PN_OK;
  double *out = pni_alloc_array(c, o->results, sizeof *out);
  pn_status s = out ? pni_ode_solve(c, o, out) : c->status;
  pni_free(c, out);
  return s;
}

/* The steps from that of the mark to number `end`, as they were. */
static pn_status again(C *c, pni_ode *o, int64_t mark, int64_t end) {
  const double *m = mark_at(o, mark);
  pni_ode_control k = {.at = mark * o->interval,
                       .given = (int64_t)m[AT_GIVEN],
                       .tried = (int)m[AT_TRIED],
                       .h = m[AT_H],
                       .before = m[AT_BEFORE]};
  o->rolling = false;
  o->base = k.at;
  if (pni_ode_slope(c, o, m[AT_T], m + AT_Y, o->slope) || stand(c, o, k.at, m[AT_T], m + AT_Y, o->slope))
    return c->status;
  return march(c, o, &k, end, NULL);
}

/* Back through step i; *m is the last time that is not yet dealt with. */
static pn_status step_adjoint(C *c, pni_ode *o, int64_t i, int64_t *m, const double *g, double *out) {
  int64_t n = o->n;
  const double *times = o->in + n;
  pni_ode_step s = step_at(o, i), next = step_at(o, i + 1);
  memset(o->value_bar, 0, (size_t)n * sizeof *out);
  for (; *m > 0 && (times[*m] - *s.t) / *s.h > 0; --*m) {
    const double *of = g + *m * n;
    double place = times[*m] == *next.t ? 1 : (times[*m] - *s.t) / *s.h;
    o->method->between(o, &s, &next, place, true, o->slope);
    for (int64_t j = 0; j < n; j++) out[n + *m] += of[j] * o->slope[j];
    o->method->between_adjoint(o, &s, &next, place, of);
  }
  if (o->set.num_events && pni_ode_events_adjoint(c, o, i, &s, &next, g, out)) return c->status;
  if (pni_check_cancel(c) || o->method->adjoint(c, o, &s, &next, out)) return c->status;
  memcpy(o->next_bar, o->value_bar, (size_t)n * sizeof *out);
  return PN_OK;
}

/* The gradient in the first time is that of the flow, -dy(t)/dy0 f(t0, y0). */
pn_status pni_ode_adjoint(C *c, pni_ode *o, const double *g, double *out) {
  int64_t n = o->n;
  if (ensure_trajectory(c, o)) return c->status;
  memset(out, 0, (size_t)o->total * sizeof *out);
  memset(o->next_bar, 0, (size_t)n * sizeof *out);
  memset(o->slope_bar, 0, (size_t)(PNI_ODE_STAGES * n) * sizeof *out);
  for (int e = 0; e < o->set.num_events; e++) o->occurred[o->set.num_events + e] = o->occurred[e];
  int64_t m = o->given - 1, from = 0;
  for (int64_t end = o->steps; end > 0; end = from) {
    from = o->set.checkpoints ? (end - 1) / o->interval * o->interval : 0;
    if (o->set.checkpoints && again(c, o, from / o->interval, end)) return c->status;
    for (int64_t i = end - 1; i >= from; i--)
      if (step_adjoint(c, o, i, &m, g, out)) return c->status;
  }
  if (o->steps && o->method->finish(c, o, out)) return c->status;
  for (int64_t i = 0; i < n; i++) {
    out[i] = o->next_bar[i] + g[i];
    out[n] -= o->next_bar[i] * o->start_slope[i];
  }
  return PN_OK;
}
