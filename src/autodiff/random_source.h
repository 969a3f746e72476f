/*
** random_source.h: random sources, the one way in which a sampler that runs in C draws. A sampler that asked a
** generator for numbers and filled a tensor by itself would be a constant to a capture: replays would repeat its first
** draw. A source is an operation instead. It reserves its positions of the generator once, and a replay reserves as
** many anew and fills again from parameters as they are then: the numbers an eager call would draw.
**
** How a sampler is written so that it replays, the first that does:
**   1. From builders that draw: pn_rand, pn_randn, pn_log_gamma_draw and others. Nothing else is to be done.
**   2. A number per item out of numbers per item (poisson, binomial): a const pni_random_source with `scalar`, and
**        static const pni_random_source source = {.name = "poisson_draw", .nin = 1, .scalar = draw};
**        return pni_source_draw(c, &source, rng, out, &rate);
**   3. A row of numbers per item, or out of rows (multinomial, alias tables): a pni_random_source with `rows`.
**   4. With a gradient (implicit reparametrisation) or with memory of its own: an operation with the flag
**      PNI_OP_DRAW, whose attr begins with key and position, applied by pni_draw_apply (op_gamma.c).
** In all of them the number of positions depends on shapes alone (a rejection sampler numbers its trials within one
** position: the `attempt` of rng.h), and nothing outside the row looks at values: a branch on values asks
** `c->recorder && pni_varies(c, t)` first and then takes the way that is right for all values. A capture in which a
** generator moved by other ways is refused.
*/
#ifndef PN_AUTODIFF_RANDOM_SOURCE_H
#define PN_AUTODIFF_RANDOM_SOURCE_H

#include "op/op.h"

enum { PNI_SOURCE_INPUTS = 4 };

/* What `rows` works on. */
typedef struct pni_draws {
  pni_philox at;                       /* item i draws from position at.position + i * positions */
  const double *in[PNI_SOURCE_INPUTS]; /* see pni_draws_row */
  int64_t period[PNI_SOURCE_INPUTS];   /* items after which the input repeats */
  int64_t width[PNI_SOURCE_INPUTS];    /* numbers per item */
  double *out;                         /* of the whole result */
  int64_t out_width;
} pni_draws;

typedef struct pni_random_source {
  const char *name; /* "poisson_draw" */
  int nin;
  /* Axes of an item: of the inputs, of the result. All 0 with `scalar`. */
  int rank[PNI_SOURCE_INPUTS], out_rank;
  /* Positions per item; 0: one. */
  int positions;
  /* Exactly one of these. A draw is a function of key, position and the item's numbers alone. */
  double (*scalar)(uint64_t key, uint64_t position, const double *x);
  /* Fills the items begin .. end - 1; on any thread: it must not allocate, fail or touch a context. */
  void (*rows)(const pni_draws *d, int64_t begin, int64_t end);
} pni_random_source;

/* The numbers of item i in input k. */
static inline const double *pni_draws_row(const pni_draws *d, int k, int64_t i) {
  return d->in[k] + i % d->period[k] * d->width[k];
}

/* Draws a tensor of shape and dtype `out` (float64, float32 or int64). The axes of in[k] before its item's axes
 * broadcast to those of `out`; values may have any float dtype and are seen as float64. No gradient. Scoped. */
pn_tensor *pni_source_draw(pn_context *c, const pni_random_source *s, pn_rng *rng, const pni_spec *out,
                           pn_tensor *const *in);

/* Reserves positions of rng and applies an operation with PNI_OP_DRAW: key and position become i[0] and i[1] of
 * attr, whose other entries the caller has set. Scoped. */
pn_tensor *pni_draw_apply(pn_context *c, const pni_op *op, pn_rng *rng, uint64_t positions, int nin,
                          pn_tensor *const *in, pni_attr *attr);

#endif
