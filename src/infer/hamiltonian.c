/*
** hamiltonian.c: energies, momenta and the leapfrog. Neal, MCMC using Hamiltonian dynamics (2011); Betancourt,
** A conceptual introduction to Hamiltonian Monte Carlo (2017).
*/
#include <cblas.h>
#include <math.h>
#include <string.h>
#include "hamiltonian.h"

/* Failures that say that the density is 0 there. */
static bool is_outside(pn_status s) { return s == PN_DOMAIN || s == PN_SINGULAR || s == PN_NAN; }

static bool interrupted(const pni_chain *h) {
  if (atomic_load_explicit(&h->parent->cancelled, memory_order_relaxed)) return true;
  return h->parent->deadline && pni_now() > h->parent->deadline;
}

pn_status pni_chain_evaluate(pni_chain *h, pni_point *p) {
  int64_t n = h->metric.n;
  if (interrupted(h)) return h->status = PN_CANCELLED;
  pn_status s = pni_plan_call(h->c, h->plan, p->z, (double *[]){&p->log_density, p->gradient});
  if (s != PN_OK && !is_outside(s)) return h->status = s;
  if (s != PN_OK) pn_context_clear_error(h->c);
  if (s == PN_OK && p->log_density == p->log_density) return PN_OK;
  p->log_density = -INFINITY;
  memset(p->gradient, 0, (size_t)n * sizeof *p->gradient);
  return PN_OK;
}

double pni_chain_uniform(pni_chain *h) {
  double u;
  pni_fill_uniform_f64(h->rng.key, h->rng.position, 0, 1, &u);
  h->rng.position += pni_fill_positions(PNI_FILL_UNIFORM_F64, 1);
  return u;
}

/* With M^-1 = L L^T, M = L^-T L^-1, so p = L^-T u. */
void pni_chain_refresh(pni_chain *h, double *p) {
  const pni_metric *m = &h->metric;
  pni_fill_normal_f64(h->rng.key, h->rng.position, 0, (uint64_t)m->n, p);
  h->rng.position += pni_fill_positions(PNI_FILL_NORMAL_F64, (uint64_t)m->n);
  if (m->dense)
    cblas_dtrsv(CblasRowMajor, CblasLower, CblasTrans, CblasNonUnit, (int)m->n, m->factor, (int)m->n, p, 1);
  else
    for (int64_t i = 0; i < m->n; i++) p[i] /= sqrt(m->inverse[i]);
}

void pni_metric_velocity(const pni_metric *m, const double *p, double *out) {
  if (m->dense)
    cblas_dsymv(CblasRowMajor, CblasLower, (int)m->n, 1, m->inverse, (int)m->n, p, 1, 0, out, 1);
  else
    for (int64_t i = 0; i < m->n; i++) out[i] = m->inverse[i] * p[i];
}

double pni_metric_kinetic(const pni_metric *m, const double *p, double *velocity) {
  double sum = 0;
  pni_metric_velocity(m, p, velocity);
  for (int64_t i = 0; i < m->n; i++) sum += p[i] * velocity[i];
  return sum / 2;
}

pn_status pni_chain_leapfrog(pni_chain *h, pni_point *p, double step, double *velocity) {
  int64_t n = h->metric.n;
  for (int64_t i = 0; i < n; i++) p->p[i] += step / 2 * p->gradient[i];
  pni_metric_velocity(&h->metric, p->p, velocity);
  for (int64_t i = 0; i < n; i++) p->z[i] += step * velocity[i];
  if (pni_chain_evaluate(h, p)) return h->status;
  for (int64_t i = 0; i < n; i++) p->p[i] += step / 2 * p->gradient[i];
  return PN_OK;
}
