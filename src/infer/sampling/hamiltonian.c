/*
** hamiltonian.c: energies, momenta and the leapfrog. Neal, MCMC using Hamiltonian dynamics (2011); Betancourt,
** A conceptual introduction to Hamiltonian Monte Carlo (2017).
*/
#include <math.h>
#include <string.h>
#include "hamiltonian.h"

static pn_status call(pn_context *c, const pni_density *d, const double *z, double *log_density, double *gradient) {
  if (d->plan) return pni_plan_call(c, d->plan, z, (double *[]){log_density, gradient});
  pn_status s = d->f(d->data, z, log_density, gradient);
  return s == PN_OK || pni_is_outside(s) ? s : pni_fail(c, s, "density: the function failed (%s)", pn_status_name(s));
}

pn_status pni_density_at(pn_context *c, const pni_density *d, int64_t n, const double *z, double *log_density,
                         double *gradient) {
  pn_status s = call(c, d, z, log_density, gradient);
  if (s != PN_OK && !pni_is_outside(s)) return s;
  if (s != PN_OK) pn_context_clear_error(c);
  if (s == PN_OK && *log_density < INFINITY) return PN_OK;
  *log_density = -INFINITY;
  memset(gradient, 0, (size_t)n * sizeof *gradient);
  return PN_OK;
}

int64_t pni_density_size(const pn_plan *plan) {
  int64_t n = plan->tape->ninput == 1 ? plan->tensor[0].numel : 0;
  return n > 0 && pni_plan_is_plain(plan, n, 2, (int64_t[]){1, n}) ? n : 0;
}

pn_status pni_chain_evaluate(pni_chain *h, pni_point *p) {
  if (pni_is_over(h->c)) return h->status = PN_CANCELLED;
  h->gradients++;
  return h->status = pni_density_at(h->c, &h->density, h->metric.n, p->z, &p->log_density, p->gradient);
}

double pni_chain_uniform(pni_chain *h) {
  enum { AHEAD = sizeof h->uniform / sizeof *h->uniform, BATCH = 8 };
  if (h->left % BATCH == 0) {
    if (h->left == 0) {
      pni_fill_uniform_f64(h->rng.key, h->rng.position, 0, AHEAD, h->uniform);
      h->left = AHEAD;
    }
    h->rng.position += pni_fill_positions(PNI_FILL_UNIFORM_F64, BATCH);
  }
  return h->uniform[--h->left ^ (AHEAD - BATCH)];
}

void pni_chain_refresh(pni_chain *h, double *p) {
  uint64_t n = (uint64_t)h->metric.n;
  pni_fill_normal_f64(h->rng.key, h->rng.position, 0, n, p);
  h->rng.position += pni_fill_positions(PNI_FILL_NORMAL_F64, n);
  pni_metric_colour(&h->metric, p);
}

pn_status pni_chain_leapfrog(pni_chain *h, const pni_point *from, double step, pni_point *to, double *velocity) {
  pni_metric_move(&h->metric, from, step, to, velocity);
  if (pni_chain_evaluate(h, to)) return h->status;
  pni_metric_kick(&h->metric, step / 2, to, velocity);
  return PN_OK;
}
