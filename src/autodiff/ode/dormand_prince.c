/*
** dormand_prince.c: one step of the explicit pair of order 5(4), its interpolant, and the gradients of both. A step
** keeps its first six slopes; the seventh is the first of the next one. Within a gradient the last of slope_bar, of
** that slope, waits for the step before.
*/
#include "dormand_prince.h"
#include <string.h>
#include "ode.h"

typedef pn_context C;

/* y + h sum_j WEIGHT[stage][j] k_j */
static void stage_value(const pni_ode *o, const pni_ode_step *s, int stage, double h, double *y) {
  int64_t n = o->n;
  for (int64_t i = 0; i < n; i++) {
    double sum = 0;
    for (int j = 0; j < stage && j < STAGES - 1; j++) sum += WEIGHT[stage][j] * s->slope[j * n + i];
    y[i] = s->y[i] + h * sum;
  }
}

static void begin(const pni_ode *o, const pni_ode_step *s, const double *slope) {
  memcpy(s->slope, slope, (size_t)o->n * sizeof *slope);
}

static pn_status step(C *c, pni_ode *o, int64_t at, const pni_ode_step *s, double h, const pni_ode_step *next,
                      double *error) {
  int64_t n = o->n;
  (void)at;
  for (int stage = 1; stage < STAGES; stage++) {
    double *y = stage == STAGES - 1 ? next->y : o->y;
    double *slope = stage == STAGES - 1 ? next->slope : s->slope + stage * n;
    stage_value(o, s, stage, h, y);
    if (pni_ode_slope(c, o, *s->t + NODE[stage] * h, y, slope)) return c->status;
  }
  double sum = 0;
  for (int64_t i = 0; i < n; i++) {
    double e = ERROR[STAGES - 1] * next->slope[i];
    for (int j = 0; j < STAGES - 1; j++) e += ERROR[j] * s->slope[j * n + i];
    e *= h / pni_ode_scale(o, s->y[i], next->y[i]);
    sum += e * e;
  }
  *error = isfinite(sum) ? sqrt(sum / (double)n) : NAN;
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

static void between(const pni_ode *o, const pni_ode_step *s, const pni_ode_step *next, double place, bool slope,
                    double *out) {
  blend b = blend_at(place, slope);
  double h = *s->h;
  for (int64_t i = 0; i < o->n; i++) {
    double sum = b.first * s->slope[i] + b.last * next->slope[i] + b.bend * bend_of(o, s, next, i);
    out[i] = slope ? b.value / h * (next->y[i] - s->y[i]) + sum : s->y[i] + b.value * (next->y[i] - s->y[i]) + h * sum;
  }
}

/* ---- the gradient ---- */

static void between_adjoint(pni_ode *o, const pni_ode_step *s, const pni_ode_step *next, double place,
                            const double *g) {
  int64_t n = o->n;
  double h = *s->h;
  blend b = blend_at(place, false);
  double *first = o->slope_bar, *last = o->slope_bar + (STAGES - 1) * n;
  (void)next;
  for (int64_t i = 0; i < n; i++) {
    o->value_bar[i] += (1 - b.value) * g[i];
    o->next_bar[i] += b.value * g[i];
    first[i] += h * b.first * g[i];
    last[i] += h * b.last * g[i];
    for (int j = 0; j < STAGES; j++) o->slope_bar[j * n + i] += h * b.bend * DENSE[j] * g[i];
  }
}

static pn_status adjoint(C *c, pni_ode *o, const pni_ode_step *s, const pni_ode_step *next, double *out) {
  int64_t n = o->n;
  double h = *s->h, *bar = o->slope_bar, *last = bar + (STAGES - 1) * n;
  if (pni_ode_pull_back(c, o, *next->t, next->y, last, o->next_bar, out)) return c->status;
  for (int stage = STAGES - 1; stage > 0; stage--) {
    double *of_stage = o->next_bar; /* d(loss) / d(value of the stage) */
    if (stage < STAGES - 1) {
      memset(of_stage, 0, (size_t)n * sizeof *of_stage);
      stage_value(o, s, stage, h, o->y);
      if (pni_ode_pull_back(c, o, *s->t + NODE[stage] * h, o->y, bar + stage * n, of_stage, out)) return c->status;
    }
    for (int64_t i = 0; i < n; i++) {
      o->value_bar[i] += of_stage[i];
      for (int j = 0; j < stage && j < STAGES - 1; j++) bar[j * n + i] += h * WEIGHT[stage][j] * of_stage[i];
    }
  }
  memcpy(last, bar, (size_t)n * sizeof *bar);
  memset(bar, 0, (size_t)((STAGES - 1) * n) * sizeof *bar);
  return PN_OK;
}

static pn_status finish(C *c, pni_ode *o, double *out) {
  return pni_ode_pull_back(c, o, o->in[o->n], o->in, o->slope_bar + (STAGES - 1) * o->n, o->next_bar, out);
}

const pni_ode_method pni_dormand_prince = {.failure = "stiff, for method = 'rosenbrock', or tolerances out of reach?",
                                           .exponent = 0.2,
                                           .kept = STAGES - 1,
                                           .begin = begin,
                                           .step = step,
                                           .between = between,
                                           .between_adjoint = between_adjoint,
                                           .adjoint = adjoint,
                                           .finish = finish};
