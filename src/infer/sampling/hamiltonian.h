/*
** hamiltonian.h: the motion that Hamiltonian Monte Carlo follows: positions z, momenta p ~ normal(0, M), energy
**   H(z, p) = -log density(z) + p^T M^-1 p / 2.
** The inverse of the mass matrix M (mass_matrix.h) is an estimate of the covariance of z.
** A chain has a context, a density, a generator and memory of its own, so chains run in threads;
** after the first step it allocates nothing.
*/
#ifndef PN_INFER_SAMPLING_HAMILTONIAN_H
#define PN_INFER_SAMPLING_HAMILTONIAN_H

#include "../../autodiff/replay/plan.h"
#include "mass_matrix.h"

/* z [n] -> log density, gradient [n]: a plan of the chain's context, or else a host's function. */
typedef struct pni_density {
  pn_plan *plan;
  pn_density f;
  void *data;
} pni_density;

/* Failures of a density that say that it is 0 there. */
static inline bool pni_is_outside(pn_status s) { return s == PN_DOMAIN || s == PN_SINGULAR || s == PN_NAN; }

/* Log density and gradient at z. Outside of the support, where a factorisation fails or the log density is no number
 * below infinity, it is -inf and the gradient 0. Other failures are c's. */
pn_status pni_density_at(pn_context *c, const pni_density *d, int64_t n, const double *z, double *log_density,
                         double *gradient);

/* Counters and settings of one transition. */
typedef struct pni_transition {
  double accept;    /* mean acceptance probability min(1, e^D) over the trajectory, D the gain of energy */
  double symmetric; /* mean of 2 min(1, e^D) / (1 + e^D), the same for D and -D */
  double energy;
  int depth, leapfrogs;
  bool divergent;
  bool moved;
} pni_transition;

typedef struct pni_chain {
  pn_context *c; /* a child of the sampler's */
  pni_density density;
  pni_philox rng;
  double uniform[32]; /* made ahead within a transition, in batches that the generator counts as they are begun */
  int left;           /* of them */
  pni_metric metric;
  pni_point at;      /* where the chain stands (its p has no meaning) */
  pni_point here;    /* scratch; its p is where a trajectory starts */
  double *work;      /* of trajectory.c */
  double step;       /* of the leapfrog */
  int max_depth;     /* 2^max_depth - 1 leapfrogs at most */
  int max_steps;     /* static trajectories: leapfrogs each; 0: doubled until they turn */
  int64_t gradients; /* evaluations of the density so far */
  pn_status status;
} pni_chain;

/* Numbers that `work` holds. */
int64_t pni_trajectory_room(int64_t n, int max_depth);

/* n of a plan z [n] -> log density [1], gradient [n], all float64; 0 if it is of another kind. */
int64_t pni_density_size(const pn_plan *plan);
/* Log density and gradient at p->z, as pni_density_at. Failures are the chain's status. */
pn_status pni_chain_evaluate(pni_chain *h, pni_point *p);
/* p ~ normal(0, M) */
void pni_chain_refresh(pni_chain *h, double *p);
/* One leapfrog step of size `step` (negative: backwards) to another point; velocity = M^-1 p there. */
pn_status pni_chain_leapfrog(pni_chain *h, const pni_point *from, double step, pni_point *to, double *velocity);
/* Uniform on (0, 1]. */
double pni_chain_uniform(pni_chain *h);

/* trajectory.c: one transition of h->at. The multinomial no-U-turn sampler, or, with max_steps, a trajectory of a fixed
 * number of leapfrogs with one acceptance. The chain stays where it was if it is interrupted. */
pn_status pni_chain_transition(pni_chain *h, pni_transition *t);
/* A step size at which one leapfrog is accepted with probability about 0.8. */
pn_status pni_chain_reasonable_step(pni_chain *h);

#endif
