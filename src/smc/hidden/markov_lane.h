/*
** markov_lane.h: what forward pass and adjoint of hidden Markov models have in common. Sequences go through side by
** side, up to 16 to a block: element (k, lane) of a row of states stands at k * lanes + lane. Blocks are dealt to a
** fixed number of groups, so that sums over sequences do not depend on the number of threads.
*/
#ifndef PN_SMC_HIDDEN_MARKOV_LANE_H
#define PN_SMC_HIDDEN_MARKOV_LANE_H

#include "hidden_markov.h"

enum { PNI_MARKOV_LANES = 16, PNI_MARKOV_GROUPS = 8 };
/* A sum of products below this may have lost terms that underflowed. */
#define PNI_MARKOV_FLOOR 1e-280

/* One group's room. */
typedef struct pni_markov_room {
  const pni_markov *m;
  pni_watch *watch;
  int64_t first, lanes; /* of the block at hand */
  int64_t apart;        /* matrices in `weight`: 1 if all lanes share one, else lanes */
  int64_t loaded;       /* row of the transition that is in `weight`, or -1 */
  double *log_weight;   /* [j, k, apart]: log p(k | j), in the direction of the pass */
  double *weight;       /* e^(that - top) */
  double top[PNI_MARKOV_LANES];
  double *before, *log_before; /* p(z | ...) of the step before, and its logarithm */
  double *sum;                 /* over j of before[j] weight[j, k] */
  double *row[3];              /* states by lanes, for the pass */
} pni_markov_room;

/* Doubles that a room takes. */
int64_t pni_markov_room_size(const pni_markov *m);
void pni_markov_room_init(pni_markov_room *r, const pni_markov *m, pni_watch *watch, double *memory);
/* Goes to the block of sequences with this number. */
void pni_markov_room_enter(pni_markov_room *r, int64_t block);
int64_t pni_markov_blocks(const pni_markov *m);
int64_t pni_markov_groups(const pni_markov *m);

/* Time of the pass's step s. */
static inline int64_t pni_markov_time(const pni_markov *m, int64_t s) { return m->backward ? m->steps - 1 - s : s; }
/* Row of the transition between steps s - 1 and s of the pass, s >= 1. */
static inline int64_t pni_markov_row(const pni_markov *m, int64_t s) {
  int64_t t = m->backward ? m->steps - s : s;
  return m->transition->shape[0] == 1 ? 0 : t;
}

/* Weights of the transition into step s. */
void pni_markov_load(pni_markov_room *r, int64_t s);
/* sum[k] from `before`. */
void pni_markov_sums(pni_markov_room *r);
/* log sum_j e^(log_before[j] + log_weight[j, k]) of one column. */
double pni_markov_log_sum(const pni_markov_room *r, int64_t k, int64_t lane);

#endif
