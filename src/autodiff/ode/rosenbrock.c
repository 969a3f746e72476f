/*
** rosenbrock.c: one step of RODASP for stiff systems, its interpolant, and the gradients of both. The Jacobian comes
** from a plan, once a step; a step solves six linear systems of one matrix and keeps what they give, u. The gradient
** differentiates all of it: solves with the transposed matrix, and what the Jacobian itself depends on, by the plan of
** second derivatives. (With E u = r, a gradient g of u is lambda = E^-T g of r, and of J it is lambda u^T.)
*/
#include "rosenbrock.h"
#include <string.h>
#include "../../tensor/lapack/effort.h"
#include "../../tensor/lapack/lapack.h"
#include "ode.h"

typedef pn_context C;

static const pni_lapack *const F = &pni_lapack_f64;

static const double PROBE = 0.8;

/* ---- the linear systems ---- */

/* The factors of I / (h GAMMA) - J; *regular: there are some, and they are of use. LAPACK wants columns: those of the
 * transposed matrix are the rows that we have. */
static pn_status factorise(C *c, const pni_ode *o, double h, bool transposed, bool *regular) {
  int64_t n = o->n;
  double diagonal = 1 / (h * GAMMA), size = (double)n;
  *regular = isfinite(diagonal) && F->finite((pni_matrix){o->jacobian, n, n, n, 1}, 0);
  if (!*regular) return PN_OK;
  if (n > 100 && pni_check_effort(c, "odeint", PN_FLOAT64, n, n, 2.0 / 3 * size * size * size)) return c->status;
  if (transposed)
    memcpy(o->factor, o->jacobian, (size_t)(n * n) * sizeof *o->factor);
  else
    F->transpose(o->factor, o->jacobian, n, n);
  for (int64_t i = 0; i < n * n; i++) o->factor[i] = -o->factor[i];
  for (int64_t i = 0; i < n; i++) o->factor[i * n + i] += diagonal;
  *regular = F->lu(o->factor, o->pivot, (int)n) == 0 && F->divisible(o->factor, n + 1, (int)n);
  return PN_OK;
}

static void solve(const pni_ode *o, double *b) { F->lu_solve_rows(o->factor, o->pivot, b, (int)o->n, 1); }

/* y + sum_j weight_j u_j over the first `count` */
static void combine(const pni_ode *o, const pni_ode_step *s, const double *weight, int count, double *y) {
  int64_t n = o->n;
  for (int64_t i = 0; i < n; i++) {
    double sum = 0;
    for (int j = 0; j < count; j++) sum += weight[j] * s->slope[j * n + i];
    y[i] = s->y[i] + sum;
  }
}

/* ---- a step ---- */

static void begin(const pni_ode *o, const pni_ode_step *s, const double *slope) { (void)o, (void)s, (void)slope; }

/* u_i into the step, with the factors there; o->row holds f(t, y). */
static pn_status one_solve(C *c, const pni_ode *o, const pni_ode_step *s, int stage, double h) {
  int64_t n = o->n;
  double *u = s->slope + stage * n;
  const double *f = o->row;
  if (stage) {
    combine(o, s, STAGE[stage], stage, o->y);
    if (pni_ode_slope(c, o, *s->t + PLACE[stage] * h, o->y, o->slope)) return c->status;
    f = o->slope;
  }
  for (int64_t i = 0; i < n; i++) {
    double sum = 0;
    for (int j = 0; j < stage; j++) sum += COUPLING[stage][j] * s->slope[j * n + i];
    u[i] = f[i] + sum / h + h * IN_TIME[stage] * o->in_time[i];
  }
  solve(o, u);
  return PN_OK;
}

static pn_status step(C *c, pni_ode *o, int64_t at, const pni_ode_step *s, double h, const pni_ode_step *next,
                      double *error) {
  int64_t n = o->n;
  bool regular;
  double sum = 0;
  if (o->jacobian_of != at) {
    if (pni_ode_jacobian(c, o, *s->t, s->y) || pni_ode_slope(c, o, *s->t, s->y, o->row)) return c->status;
    o->jacobian_of = at;
  }
  *error = NAN;
  if (factorise(c, o, h, false, &regular) || !regular) return c->status;
  for (int stage = 0; stage < SOLVES; stage++)
    if (one_solve(c, o, s, stage, h)) return c->status;
  combine(o, s, LAST, SOLVES, next->y);
  for (int64_t i = 0; i < n; i++) {
    double e = s->slope[(SOLVES - 1) * n + i] / pni_ode_scale(o, s->y[i], next->y[i]);
    sum += e * e;
  }
  if (isfinite(sum)) *error = sqrt(sum / (double)n);
  return PN_OK;
}

/* ---- between the ends of a step ---- */

static void between(const pni_ode *o, const pni_ode_step *s, const pni_ode_step *next, double place, bool slope,
                    double *out) {
  double r = 1 - place, h = *s->h;
  for (int64_t i = 0; i < o->n; i++) {
    double bend[2] = {0, 0};
    for (int j = 0; j < SOLVES; j++)
      for (int k = 0; k < 2; k++) bend[k] += BEND[k][j] * s->slope[j * o->n + i];
    if (slope)
      out[i] = (next->y[i] - s->y[i] + (r - place) * bend[0] + place * (2 * r - place) * bend[1]) / h;
    else
      out[i] = r * s->y[i] + place * (next->y[i] + r * (bend[0] + place * bend[1]));
  }
}

/* By the residual at PROBE: with r = f - dy/dt, (I / (h GAMMA) - J)^-1 r is the error where the system is stiff, and
 * vanishes with h elsewhere. What is stiff is damped at the end of a step, so that its error there does not tell of the
 * one in between, which is largest near PROBE (with other methods of the family it is zero in the middle). */
static pn_status error_between(C *c, pni_ode *o, const pni_ode_step *s, const pni_ode_step *next, double *error) {
  int64_t n = o->n;
  double *f = o->slope, *slope = o->back, sum = 0;
  between(o, s, next, PROBE, false, o->y);
  between(o, s, next, PROBE, true, slope);
  if (pni_ode_slope(c, o, *s->t + PROBE * *s->h, o->y, f)) return c->status;
  for (int64_t i = 0; i < n; i++) f[i] -= slope[i];
  solve(o, f);
  for (int64_t i = 0; i < n; i++) {
    double e = f[i] / pni_ode_scale(o, s->y[i], next->y[i]);
    sum += e * e;
  }
  *error = isfinite(sum) ? sqrt(sum / (double)n) : NAN;
  return PN_OK;
}

/* ---- the gradient ---- */

static void between_adjoint(pni_ode *o, const pni_ode_step *s, const pni_ode_step *next, double place,
                            const double *g) {
  int64_t n = o->n;
  double r = 1 - place;
  (void)s, (void)next;
  for (int64_t i = 0; i < n; i++) {
    o->value_bar[i] += r * g[i];
    o->next_bar[i] += place * g[i];
    for (int j = 0; j < SOLVES; j++) o->slope_bar[j * n + i] += place * r * (BEND[0][j] + place * BEND[1][j]) * g[i];
  }
}

/* Back through the solve of a stage: its slope_bar becomes lambda. */
static pn_status solve_adjoint(C *c, pni_ode *o, const pni_ode_step *s, int stage, double *out) {
  int64_t n = o->n;
  double h = *s->h, *bar = o->slope_bar, *lambda = bar + stage * n, *of_stage = stage ? o->next_bar : o->value_bar;
  solve(o, lambda);
  if (stage) {
    combine(o, s, STAGE[stage], stage, o->y);
    memset(of_stage, 0, (size_t)n * sizeof *of_stage);
  }
  const double *y = stage ? o->y : s->y;
  if (pni_ode_pull_back(c, o, *s->t + PLACE[stage] * h, y, lambda, of_stage, out)) return c->status;
  for (int64_t i = 0; stage && i < n; i++) {
    o->value_bar[i] += of_stage[i];
    for (int j = 0; j < stage; j++)
      bar[j * n + i] += STAGE[stage][j] * of_stage[i] + COUPLING[stage][j] / h * lambda[i];
  }
  return PN_OK;
}

static pn_status adjoint(C *c, pni_ode *o, const pni_ode_step *s, const pni_ode_step *next, double *out) {
  int64_t n = o->n;
  double h = *s->h, *bar = o->slope_bar;
  bool regular;
  (void)next;
  o->jacobian_of = -1;
  if (pni_ode_jacobian(c, o, *s->t, s->y) || factorise(c, o, h, true, &regular)) return c->status;
  if (!regular) return pni_fail(c, PN_SINGULAR, "odeint: the step at t = %g has no gradient", *s->t);
  for (int64_t i = 0; i < n; i++) {
    o->value_bar[i] += o->next_bar[i];
    for (int j = 0; j < SOLVES; j++) bar[j * n + i] += LAST[j] * o->next_bar[i];
  }
  for (int stage = SOLVES - 1; stage >= 0; stage--)
    if (solve_adjoint(c, o, s, stage, out)) return c->status;
  for (int j = 0; j < SOLVES; j++)
    if (pni_ode_curvature(c, o, *s->t, s->y, bar + j * n, s->slope + j * n, h * IN_TIME[j], o->value_bar, out))
      return c->status;
  memset(bar, 0, (size_t)(SOLVES * n) * sizeof *bar);
  return PN_OK;
}

static pn_status finish(C *c, pni_ode *o, double *out) {
  (void)o, (void)out;
  return c->status;
}

const pni_ode_method pni_rosenbrock = {.failure = "tolerances out of reach?",
                                       .exponent = 0.25,
                                       .kept = SOLVES,
                                       .implicit = true,
                                       .begin = begin,
                                       .step = step,
                                       .error_between = error_between,
                                       .between = between,
                                       .between_adjoint = between_adjoint,
                                       .adjoint = adjoint,
                                       .finish = finish};
