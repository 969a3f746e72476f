/*
** bridge_density.c: evaluators, one for each thread that is there at the same time, and the densities' Hessians by
** differences of their gradients.
*/
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "bridge.h"

/* ---- evaluators ---- */

static void free_evaluator(bridge_evaluator *e) {
  for (int k = 0; k < DENSITIES; k++) pn_target_free(e->target[k]);
  if (e->c) pn_context_close(e->c);
  free(e->z);
  free(e);
}

void bridge_free_evaluators(bs_model *m) {
  while (m->idle) {
    bridge_evaluator *e = m->idle;
    m->idle = e->next;
    free_evaluator(e);
  }
}

static bridge_evaluator *new_evaluator(const bs_model *m) {
  bridge_evaluator *e = calloc(1, sizeof *e);
  if (!e) return NULL;
  e->c = pn_context_new(&(pn_context_config){.threads = 1});
  e->z = malloc((size_t)(4 * m->n + m->values) * sizeof *e->z);
  if (!e->c || !e->z) return free_evaluator(e), NULL;
  e->gradient = e->z + m->n;
  e->theta = e->gradient + m->n;
  e->piece = e->theta + m->n;
  e->values = e->piece + m->n;
  return e;
}

/* The master without jacobian is made when somebody asks for it. Under the lock. */
static int find_master(bs_model *m, int density, char **error, const char *where) {
  if (m->master[density]) return 0;
  if (pn_runtime_target(m->runtime, "bridge.plain", m->masters, &m->master[density]) == PN_OK) return 0;
  return bridge_fail(error, where, "%s", pn_runtime_message(m->runtime));
}

static bridge_evaluator *borrow(bs_model *m, int density, char **error, const char *where) {
  if (find_master(m, density, error, where)) return NULL;
  bridge_evaluator *e = m->idle ? m->idle : new_evaluator(m);
  if (!e) return bridge_fail(error, where, "not enough memory"), NULL;
  if (!e->target[density]) e->target[density] = pn_target_copy(e->c, m->master[density]);
  if (e->target[density]) {
    if (m->idle == e) m->idle = e->next;
    return e;
  }
  bridge_fail(error, where, "%s", pn_context_message(e->c));
  pn_context_clear_error(e->c);
  if (m->idle != e) free_evaluator(e);
  return NULL;
}

bridge_evaluator *bridge_borrow(bs_model *m, int density, char **error, const char *where) {
  pthread_mutex_lock(&m->lock);
  bridge_evaluator *e = borrow(m, density, error, where);
  pthread_mutex_unlock(&m->lock);
  return e;
}

void bridge_return(bs_model *m, bridge_evaluator *e) {
  pthread_mutex_lock(&m->lock);
  e->next = m->idle;
  m->idle = e;
  pthread_mutex_unlock(&m->lock);
}

int bridge_evaluate(const bs_model *m, bridge_evaluator *e, int density, const double *theta, double *lp,
                    double *gradient, char **error, const char *where) {
  const double *z = theta;
  if (m->unc_order) bridge_from_host(m->unc_order, m->n, theta, e->z), z = e->z;
  double *g = m->unc_order ? e->gradient : gradient;
  if (pn_target_evaluate(e->c, e->target[density], z, lp, g) != PN_OK) {
    bridge_fail(error, where, "%s", pn_context_message(e->c));
    pn_context_clear_error(e->c);
    return -1;
  }
  if (m->unc_order) bridge_to_host(m->unc_order, m->n, g, gradient);
  return 0;
}

/* ---- differences ---- */

/* The point theta + t step direction, where direction NULL is axis `axis`; its gradient into e->piece. */
static int gradient_at(const bs_model *m, bridge_evaluator *e, int density, const double *theta,
                       const double *direction, int64_t axis, double t, char **error, const char *where) {
  double lp;
  memcpy(e->theta, theta, (size_t)m->n * sizeof *theta);
  if (direction)
    for (int64_t i = 0; i < m->n; i++) e->theta[i] += t * direction[i];
  else
    e->theta[axis] += t;
  if (bridge_evaluate(m, e, density, e->theta, &lp, e->piece, error, where)) return -1;
  if (isfinite(lp)) return 0;
  return bridge_fail(error, where, "the density is 0 near theta_unc: a Hessian by differences needs it positive there");
}

/* Derivative of the gradient along the direction (NULL: the axis): (8 (g(h) - g(-h)) - g(2h) + g(-2h)) / 12h. */
static int differentiate(const bs_model *m, bridge_evaluator *e, int density, const double *theta,
                         const double *direction, int64_t axis, double h, double *out, char **error,
                         const char *where) {
  static const struct { double step, weight; } stencil[] = {{1, 8}, {-1, -8}, {2, -1}, {-2, 1}};
  memset(out, 0, (size_t)m->n * sizeof *out);
  for (int k = 0; k < 4; k++) {
    if (gradient_at(m, e, density, theta, direction, axis, stencil[k].step * h, error, where)) return -1;
    for (int64_t i = 0; i < m->n; i++) out[i] += stencil[k].weight * e->piece[i] / (12 * h);
  }
  return 0;
}

static double step_of(double theta) { return pow(DBL_EPSILON, 0.2) * fmax(1, fabs(theta)); }

/* A step along v in which no coordinate goes further than its own; 0 if v is 0, NaN where v is not finite. */
static double step_along(int64_t n, const double *theta, const double *v) {
  double h = INFINITY;
  for (int64_t i = 0; i < n; i++) {
    if (!isfinite(v[i])) return NAN;
    if (v[i] != 0) h = fmin(h, step_of(theta[i]) / fabs(v[i]));
  }
  return isinf(h) ? 0 : h;
}

static int hessian_at(const bs_model *m, bridge_evaluator *e, int density, const double *theta, double *hessian,
                      char **error, const char *where) {
  int64_t n = m->n;
  for (int64_t i = 0; i < n; i++)
    if (differentiate(m, e, density, theta, NULL, i, step_of(theta[i]), hessian + i * n, error, where)) return -1;
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j < i; j++)
      hessian[i * n + j] = hessian[j * n + i] = 0.5 * (hessian[i * n + j] + hessian[j * n + i]);
  return 0;
}

static int product_at(const bs_model *m, bridge_evaluator *e, int density, const double *theta, const double *v,
                      double *out, char **error, const char *where) {
  double h = step_along(m->n, theta, v);
  if (isnan(h)) return bridge_fail(error, where, "vector must be finite");
  if (h > 0) return differentiate(m, e, density, theta, v, 0, h, out, error, where);
  memset(out, 0, (size_t)m->n * sizeof *out);
  return 0;
}

/* ---- the interface ---- */

/* (The interface says const: what changes of a model is under its lock.) */

int bs_log_density(const bs_model *m, bool propto, bool jacobian, const double *theta_unc, double *lp,
                   char **error_msg) {
  static const char where[] = "log_density";
  (void)propto;
  if (bridge_check(error_msg, where, "m theta_unc lp", 3, (const void *[]){m, theta_unc, lp})) return -1;
  bridge_evaluator *e = bridge_borrow((bs_model *)m, jacobian, error_msg, where);
  if (!e) return -1;
  int failed = bridge_evaluate(m, e, jacobian, theta_unc, lp, e->piece, error_msg, where);
  bridge_return((bs_model *)m, e);
  return failed;
}

int bs_log_density_gradient(const bs_model *m, bool propto, bool jacobian, const double *theta_unc, double *val,
                            double *grad, char **error_msg) {
  static const char where[] = "log_density_gradient";
  (void)propto;
  if (bridge_check(error_msg, where, "m theta_unc val grad", 4, (const void *[]){m, theta_unc, val, grad})) return -1;
  bridge_evaluator *e = bridge_borrow((bs_model *)m, jacobian, error_msg, where);
  if (!e) return -1;
  int failed = bridge_evaluate(m, e, jacobian, theta_unc, val, grad, error_msg, where);
  bridge_return((bs_model *)m, e);
  return failed;
}

int bs_log_density_hessian(const bs_model *m, bool propto, bool jacobian, const double *theta_unc, double *val,
                           double *grad, double *hessian, char **error_msg) {
  static const char where[] = "log_density_hessian";
  (void)propto;
  if (bridge_check(error_msg, where, "m theta_unc val grad hessian", 5,
                   (const void *[]){m, theta_unc, val, grad, hessian}))
    return -1;
  bridge_evaluator *e = bridge_borrow((bs_model *)m, jacobian, error_msg, where);
  if (!e) return -1;
  int failed = bridge_evaluate(m, e, jacobian, theta_unc, val, grad, error_msg, where) ||
               hessian_at(m, e, jacobian, theta_unc, hessian, error_msg, where);
  bridge_return((bs_model *)m, e);
  return failed ? -1 : 0;
}

int bs_log_density_hessian_vector_product(const bs_model *m, bool propto, bool jacobian, const double *theta_unc,
                                          const double *vector, double *val, double *hvp, char **error_msg) {
  static const char where[] = "log_density_hessian_vector_product";
  (void)propto;
  if (bridge_check(error_msg, where, "m theta_unc vector val hvp", 5, (const void *[]){m, theta_unc, vector, val, hvp}))
    return -1;
  bridge_evaluator *e = bridge_borrow((bs_model *)m, jacobian, error_msg, where);
  if (!e) return -1;
  int failed = bridge_evaluate(m, e, jacobian, theta_unc, val, hvp, error_msg, where) ||
               product_at(m, e, jacobian, theta_unc, vector, hvp, error_msg, where);
  bridge_return((bs_model *)m, e);
  return failed ? -1 : 0;
}
