/*
** ode.c: solving a system by DOPRI5 with steps adapted to its error, and the gradient of what was computed. The
** gradient is that of the discrete solution with the steps as they were taken (internal numerical differentiation: Bock
** 1981; "discretise, then optimise"): exact for fixed steps, without the instability of integrating an adjoint system
** backwards. The trajectory is kept from the solution to the gradient and made again if another came between.
*/
#include <float.h>
#include <math.h>
#include <string.h>
#include "dormand_prince.h"
#include "ode.h"

typedef pn_context C;

/* Step control: Hairer, Norsett & Wanner II.4 and IV.2 (the PI controller of dopri5.f). */
static const double SAFETY = 0.9, BETA = 0.04, SHRINK_MOST = 0.2, GROW_MOST = 10;

/* ---- the object ---- */

static int64_t stride_of(const pni_ode *o) { return pni_plus(2, pni_times(STAGES, o->n)); }

static double *take(double **from, int64_t n) {
  double *a = *from;
  *from += n;
  return a;
}

/* in, from, back [total]; y, slope, value_bar, next_bar [n]; slope_bar [7, n] */
static int64_t work_size(const pni_ode *o) { return pni_plus(pni_times(3, o->total), pni_times(4 + STAGES, o->n)); }

pn_status pni_ode_open(C *c, pni_ode *o, pn_plan *rhs, pn_plan *pullback, const pn_ode_config *set, int64_t n,
                       int64_t num_times, int64_t total) {
  *o = (pni_ode){.set = *set, .n = n, .num_times = num_times, .total = total};
  double *w = o->work = pni_alloc_array(c, work_size(o), sizeof *w);
  if (!w) return c->status;
  o->rhs = pn_plan_ref(rhs);
  o->pullback = pn_plan_ref(pullback);
  o->in = take(&w, total);
  o->from = take(&w, total);
  o->back = take(&w, total);
  o->y = take(&w, n);
  o->value_bar = take(&w, n);
  o->next_bar = take(&w, n);
  o->slope = take(&w, n);
  o->slope_bar = take(&w, STAGES * n);
  return PN_OK;
}

void pni_ode_close(C *c, pni_ode *o) {
  pni_free(c, o->trajectory, (size_t)(o->room * stride_of(o)) * sizeof *o->trajectory);
  pni_free(c, o->work, (size_t)work_size(o) * sizeof *o->work);
  pn_plan_unref(o->rhs);
  pn_plan_unref(o->pullback);
}

/* ---- the plans ---- */

static const double *parameters_of(const pni_ode *o) { return o->in + o->n + o->num_times; }

/* Fills arg with t, y and the parameters; returns how many. */
static int arguments(const pni_ode *o, const double *t, const double *y, const double **arg) {
  const pni_value *v = o->rhs->tape->value.v;
  int k = 2;
  arg[0] = t;
  arg[1] = y;
  for (const double *p = parameters_of(o); k < o->rhs->tape->ninput; k++) {
    arg[k] = p;
    p += v[k].t.numel;
  }
  return k;
}

static pn_status slope_at(C *c, const pni_ode *o, double t, const double *y, double *slope) {
  const double *arg[PNI_OP_INPUTS];
  arguments(o, &t, y, arg);
  return pni_plan_call_each(c, o->rhs, arg, &slope);
}

/* Adds v^T df/dy to `bar` and v^T df/dparameters to `out`. */
static pn_status pull_back(C *c, const pni_ode *o, double t, const double *y, const double *v, double *bar,
                           double *out) {
  const double *arg[PNI_OP_INPUTS];
  double *result[PNI_OP_INPUTS], *at = o->back;
  int n = arguments(o, &t, y, arg);
  int64_t m = o->total - o->num_times;
  arg[n] = v;
  for (int k = 1; k < n; k++) {
    result[k - 1] = at;
    at += o->rhs->tape->value.v[k].t.numel;
  }
  if (pni_plan_call_each(c, o->pullback, arg, result)) return c->status;
  for (int64_t i = 0; i < o->n; i++) bar[i] += o->back[i];
  for (int64_t i = o->n; i < m; i++) out[o->num_times + i] += o->back[i];
  return PN_OK;
}

/* ---- the trajectory ---- */

/* Step i: all of them are there where a gradient may be asked for, else two take turns. */
static pni_ode_step step_at(const pni_ode *o, int64_t i) {
  double *p = o->trajectory + (o->pullback ? i : i & 1) * stride_of(o);
  return (pni_ode_step){p, p + 1, p + 2, p + 2 + o->n};
}

static pn_status reserve(C *c, pni_ode *o, int64_t steps) {
  if (steps <= o->room || (!o->pullback && o->room)) return PN_OK;
  int64_t room = o->pullback ? pni_plus(pni_times(2, steps), 30) : 2, stride = stride_of(o);
  double *fresh = pni_alloc_array(c, pni_times(room, stride), sizeof *fresh);
  if (!fresh) return c->status;
  if (o->room) memcpy(fresh, o->trajectory, (size_t)(o->room * stride) * sizeof *fresh);
  pni_free(c, o->trajectory, (size_t)(o->room * stride) * sizeof *fresh);
  o->trajectory = fresh;
  o->room = room;
  return PN_OK;
}

/* ---- one step ---- */

/* y + h sum_j WEIGHT[stage][j] k_j */
static void stage_value(const pni_ode *o, const pni_ode_step *s, int stage, double h, double *y) {
  int64_t n = o->n;
  for (int64_t i = 0; i < n; i++) {
    double sum = 0;
    for (int j = 0; j < stage && j < STAGES - 1; j++) sum += WEIGHT[stage][j] * s->slope[j * n + i];
    y[i] = s->y[i] + h * sum;
  }
}

static double scale_of(const pni_ode *o, double a, double b) {
  return o->set.atol + o->set.rtol * fmax(fabs(a), fabs(b));
}

/* The step from *s of length h into *next, and its error in units of the tolerance; NaN where it is not finite. */
static pn_status try_step(C *c, const pni_ode *o, const pni_ode_step *s, double h, const pni_ode_step *next,
                          double *error) {
  int64_t n = o->n;
  for (int stage = 1; stage < STAGES; stage++) {
    double *y = stage == STAGES - 1 ? next->y : o->y;
    double *slope = stage == STAGES - 1 ? next->slope : s->slope + stage * n;
    stage_value(o, s, stage, h, y);
    if (slope_at(c, o, *s->t + NODE[stage] * h, y, slope)) return c->status;
  }
  double sum = 0;
  for (int64_t i = 0; i < n; i++) {
    double e = ERROR[STAGES - 1] * next->slope[i];
    for (int j = 0; j < STAGES - 1; j++) e += ERROR[j] * s->slope[j * n + i];
    e *= h / scale_of(o, s->y[i], next->y[i]);
    sum += e * e;
  }
  *error = isfinite(sum) ? sqrt(sum / (double)n) : NAN;
  return PN_OK;
}

/* The length of the first step, by the sizes of y, f and the change of f along a step of Euler's: HNW II.4. */
static pn_status first_length(C *c, const pni_ode *o, const pni_ode_step *s, double most, double sign, double *h) {
  int64_t n = o->n;
  double d0 = 0, d1 = 0, d2 = 0, *slope = o->slope;
  for (int64_t i = 0; i < n; i++) {
    double scale = scale_of(o, s->y[i], 0);
    d0 += s->y[i] / scale * (s->y[i] / scale);
    d1 += s->slope[i] / scale * (s->slope[i] / scale);
  }
  d0 = sqrt(d0 / (double)n);
  d1 = sqrt(d1 / (double)n);
  double h0 = fmin(d0 < 1e-5 || d1 < 1e-5 ? 1e-6 : 0.01 * d0 / d1, most);
  for (int64_t i = 0; i < n; i++) o->y[i] = s->y[i] + sign * h0 * s->slope[i];
  if (slope_at(c, o, *s->t + sign * h0, o->y, slope)) return c->status;
  for (int64_t i = 0; i < n; i++) {
    double e = (slope[i] - s->slope[i]) / scale_of(o, s->y[i], 0);
    d2 += e * e;
  }
  d2 = sqrt(d2 / (double)n) / h0;
  double largest = fmax(d1, d2), h1 = largest <= 1e-15 ? fmax(1e-6, h0 * 1e-3) : pow(0.01 / largest, 0.2);
  *h = isfinite(d2) ? fmin(fmin(100 * h0, h1), most) : h0;
  return PN_OK;
}

/* ---- between the ends of a step ---- */

/* What y(s) is made of: y1 - y, h k_1, h k_7 and h sum_j DENSE_j k_j; and of dy/ds with slope. */
typedef struct {
  double value, first, last, bend;
} blend;

static blend blend_at(double s, bool slope) {
  double r = 1 - s;
  if (slope) return (blend){6 * s * r, r * (1 - 3 * s), s * (3 * s - 2), 2 * s * r * (r - s)};
  return (blend){s * s * (3 - 2 * s), s * r * r, -s * s * r, s * s * r * r};
}

static double bend_of(const pni_ode *o, const pni_ode_step *s, const pni_ode_step *next, int64_t i) {
  double sum = DENSE[STAGES - 1] * next->slope[i];
  for (int j = 0; j < STAGES - 1; j++) sum += DENSE[j] * s->slope[j * o->n + i];
  return sum;
}

static void interpolate(const pni_ode *o, const pni_ode_step *s, const pni_ode_step *next, double t, double *out) {
  if (t == *next->t) {
    memcpy(out, next->y, (size_t)o->n * sizeof *out);
    return;
  }
  blend b = blend_at((t - *s->t) / *s->h, false);
  for (int64_t i = 0; i < o->n; i++) {
    double sum = b.first * s->slope[i] + b.last * next->slope[i] + b.bend * bend_of(o, s, next, i);
    out[i] = s->y[i] + b.value * (next->y[i] - s->y[i]) + *s->h * sum;
  }
}

/* ---- the solution ---- */

static pn_status check_times(C *c, const pni_ode *o, double *sign) {
  const double *t = o->in + o->n;
  *sign = o->num_times > 1 && t[1] < t[0] ? -1 : 1;
  for (int64_t i = 0; i < o->num_times; i++)
    if (!isfinite(t[i]) || (i && !((t[i] - t[i - 1]) * *sign > 0)))
      return pni_fail(c, PN_DOMAIN, "odeint: times must be finite and in order, without repeats; number %lld is %g",
                      (long long)i + 1, t[i]);
  return PN_OK;
}

static pn_status start(C *c, pni_ode *o) {
  o->known = false;
  o->steps = 0;
  if (reserve(c, o, 2)) return c->status;
  pni_ode_step s = step_at(o, 0);
  *s.t = o->in[o->n];
  memcpy(s.y, o->in, (size_t)o->n * sizeof *s.y);
  if (slope_at(c, o, *s.t, s.y, s.slope)) return c->status;
  for (int64_t i = 0; i < o->n; i++)
    if (!isfinite(s.y[i]) || !isfinite(s.slope[i]))
      return pni_fail(c, PN_NAN, "odeint: y and dy/dt must be finite at the first time, got %g and %g (element %lld)",
                      s.y[i], s.slope[i], (long long)i + 1);
  return PN_OK;
}

static pn_status too_short(C *c, double t, double h, double error) {
  if (isnan(error)) return pni_fail(c, PN_NAN, "odeint: dy/dt is not finite just after t = %g", t);
  return pni_fail(c, PN_DOMAIN, "odeint: the tolerances ask for a step below %g at t = %g (a singularity?)", h, t);
}

typedef struct {
  double h, before; /* length of the next step; error of the last one that was taken */
  bool rejected;
} control;

/* Lengths after a step of length h whose error was e. */
static void adapt(control *k, double h, double e) {
  double now = isnan(e) ? 0 : pow(e, 0.2 - 0.75 * BETA), shrink;
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

/* Goes on from step o->steps until the steps reach past the last time; out gets the solution at the times in
 * between. */
static pn_status march(C *c, pni_ode *o, double sign, double most, control *k, double *out) {
  const double *times = o->in + o->n;
  double end = times[o->num_times - 1], error = 0;
  int64_t given = 1;
  for (int tried = 0; given < o->num_times; tried++) {
    if (pni_check_cancel(c) || reserve(c, o, o->steps + 2)) return c->status;
    pni_ode_step s = step_at(o, o->steps), next = step_at(o, o->steps + 1);
    if (tried == o->set.max_steps)
      return pni_fail(c, PN_DOMAIN,
                      "odeint: max_steps = %d steps end at t = %g of %g (stiff, or tolerances out of reach?)",
                      o->set.max_steps, *s.t, end);
    double h = fmin(k->h, most), left = fabs(end - *s.t);
    if (h < 10 * DBL_EPSILON * fabs(*s.t) || h < DBL_MIN) return too_short(c, *s.t, h, error);
    bool last = 1.01 * h >= left;
    if (last) h = left;
    if (try_step(c, o, &s, sign * h, &next, &error)) return c->status;
    adapt(k, h, error);
    if (!(error <= 1)) continue;
    *s.h = sign * h;
    *next.t = last ? end : *s.t + sign * h;
    for (; given < o->num_times && (times[given] - *next.t) * sign <= 0; given++)
      interpolate(o, &s, &next, times[given], out + given * o->n);
    o->steps++;
  }
  return PN_OK;
}

pn_status pni_ode_solve(C *c, pni_ode *o, double *out) {
  double sign;
  if (check_times(c, o, &sign) || start(c, o)) return c->status;
  memcpy(out, o->in, (size_t)o->n * sizeof *out);
  if (o->num_times > 1) {
    const double *times = o->in + o->n;
    double span = fabs(times[o->num_times - 1] - times[0]), most = o->set.max_step > 0 ? o->set.max_step : span;
    control k = {.h = o->set.first_step, .before = 1e-4};
    pni_ode_step s = step_at(o, 0);
    if (k.h <= 0 && first_length(c, o, &s, fmin(most, span), sign, &k.h)) return c->status;
    if (march(c, o, sign, most, &k, out)) return c->status;
  }
  memcpy(o->from, o->in, (size_t)o->total * sizeof *o->from);
  o->known = true;
  return PN_OK;
}

/* ---- the gradient ---- */

/* What the solution at time t, whose gradient is g, hands on to the ends of its step; returns the gradient in t. */
static double output_adjoint(const pni_ode *o, const pni_ode_step *s, const pni_ode_step *next, double t,
                             const double *g) {
  int64_t n = o->n;
  double h = *s->h, place = t == *next->t ? 1 : (t - *s->t) / h, sum = 0;
  blend b = blend_at(place, false), d = blend_at(place, true);
  double *first = o->slope_bar, *last = o->slope_bar + (STAGES - 1) * n;
  for (int64_t i = 0; i < n; i++) {
    o->value_bar[i] += (1 - b.value) * g[i];
    o->next_bar[i] += b.value * g[i];
    first[i] += h * b.first * g[i];
    last[i] += h * b.last * g[i];
    for (int j = 0; j < STAGES; j++) o->slope_bar[j * n + i] += h * b.bend * DENSE[j] * g[i];
    double bend = bend_of(o, s, next, i);
    sum +=
        g[i] * (d.value / h * (next->y[i] - s->y[i]) + d.first * s->slope[i] + d.last * next->slope[i] + d.bend * bend);
  }
  return sum;
}

/* Through the step from *s to *next: next_bar, of y and slope_bar[6], of f there, become value_bar and slope_bar[0]. */
static pn_status step_adjoint(C *c, pni_ode *o, const pni_ode_step *s, const pni_ode_step *next, double *out) {
  int64_t n = o->n;
  double h = *s->h, *bar = o->slope_bar;
  if (pull_back(c, o, *next->t, next->y, bar + (STAGES - 1) * n, o->next_bar, out)) return c->status;
  for (int stage = STAGES - 1; stage > 0; stage--) {
    double *of_stage = o->next_bar; /* d(loss) / d(value of the stage) */
    if (stage < STAGES - 1) {
      memset(of_stage, 0, (size_t)n * sizeof *of_stage);
      stage_value(o, s, stage, h, o->y);
      if (pull_back(c, o, *s->t + NODE[stage] * h, o->y, bar + stage * n, of_stage, out)) return c->status;
    }
    for (int64_t i = 0; i < n; i++) {
      o->value_bar[i] += of_stage[i];
      for (int j = 0; j < stage && j < STAGES - 1; j++) bar[j * n + i] += h * WEIGHT[stage][j] * of_stage[i];
    }
  }
  return PN_OK;
}

static pn_status ensure_trajectory(C *c, pni_ode *o) {
  if (!o->pullback)
    return pni_fail(c, PN_STATE, "odeint: no gradient was asked for when it was made (its inputs needed none)");
  if (o->known && memcmp(o->from, o->in, (size_t)o->total * sizeof *o->in) == 0) return PN_OK;
  size_t numbers = (size_t)(o->num_times * o->n);
  double *out = pni_alloc_array(c, pni_times(o->num_times, o->n), sizeof *out);
  pn_status s = out ? pni_ode_solve(c, o, out) : c->status;
  pni_free(c, out, numbers * sizeof *out);
  return s;
}

/* The gradient in the first time is that of the flow, -dy(t)/dy0 f(t0, y0). */
pn_status pni_ode_adjoint(C *c, pni_ode *o, const double *g, double *out) {
  int64_t n = o->n, m = o->num_times - 1;
  const double *times = o->in + n;
  if (ensure_trajectory(c, o)) return c->status;
  memset(out, 0, (size_t)o->total * sizeof *out);
  memset(o->next_bar, 0, (size_t)n * sizeof *out);
  memset(o->slope_bar, 0, (size_t)(STAGES * n) * sizeof *out);
  double *last = o->slope_bar + (STAGES - 1) * n;
  for (int64_t i = o->steps - 1; i >= 0; i--) {
    pni_ode_step s = step_at(o, i), next = step_at(o, i + 1);
    memset(o->slope_bar, 0, (size_t)((STAGES - 1) * n) * sizeof *out);
    memset(o->value_bar, 0, (size_t)n * sizeof *out);
    for (; m > 0 && (times[m] - *s.t) / *s.h > 0; m--) out[n + m] = output_adjoint(o, &s, &next, times[m], g + m * n);
    if (pni_check_cancel(c) || step_adjoint(c, o, &s, &next, out)) return c->status;
    memcpy(o->next_bar, o->value_bar, (size_t)n * sizeof *out);
    memcpy(last, o->slope_bar, (size_t)n * sizeof *out);
  }
  pni_ode_step s = step_at(o, 0);
  if (o->steps && pull_back(c, o, *s.t, s.y, last, o->next_bar, out)) return c->status;
  for (int64_t i = 0; i < n; i++) {
    out[i] = o->next_bar[i] + g[i];
    out[n] -= o->next_bar[i] * s.slope[i];
  }
  return PN_OK;
}
