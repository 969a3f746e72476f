/*
** distribution.h: a kind of distribution is one const descriptor, a distribution a kind with values for its
** parameters. Constructors, messages, help, manual and test battery read the descriptor; nothing else
** names a distribution. To add one: <name>.c with the descriptor at its bottom, a line in distribution.def,
** golden values in spec/golden/distribution.
**
** Shapes: a value has shape sample + batch + event. Parameters are kept as given; their shapes without the
** event axes broadcast to the batch. The functions of a kind see parameters that broadcast and may return
** anything that broadcasts to what the comment says; evaluate.c expands.
**
** Draws replay in compiled functions only if the sampler is made of builders that draw (pn_rand, pn_randn,
** pn_log_gamma_draw) or is a random source: autodiff/random_source.h says how one is written, in four forms. A
** function of a kind that branches on values of a tensor t (to skip work, to choose a formula) asks
** `c->recorder && pni_varies(c, t)` first, and then takes the way that is right for all values.
*/
#ifndef PN_DISTRIBUTION_DISTRIBUTION_H
#define PN_DISTRIBUTION_DISTRIBUTION_H

#include "constraint.h"
#include "../autodiff/op/op.h"

enum { PNI_DIST_PARAMS = 8 };
enum { PNI_USES = 10000 }; /* of parts in a distribution or bijector, however deep they lie */

/* Distributions in distributions, bijectors in bijectors, and these in those, nest at most so deep: functions of a
 * whole call those of its parts, each level on the C stack. */
enum { PNI_NESTING = 100 };

typedef struct pni_distribution pni_distribution;

typedef struct pni_parameter {
  const char *name;
  const pni_constraint *constraint;
  /* Event axes, one letter each, "" for a number. Equal letters in a kind mean equal sizes. */
  const char *axes;
  int choice; /* parameters with the same non-zero choice are alternatives: exactly one is given */
  bool optional;
  double absent; /* value of an optional parameter that was not given */
  /* An alternative out of the one that was given. */
  pn_tensor *(*derive)(pn_context *c, const pn_dist *d);
  bool kept; /* derive when the distribution is made, once */
  char size; /* the value is the size of the event axis with this letter: one whole number, no batch; 0: it is not */
  double example; /* a value for tests where a member of the constraint does not do; 0: it does */
} pni_parameter;

enum {
  PNI_DIST_DISCRETE = 1, /* log_prob is the log of a mass */
  PNI_DIST_INTEGER = 2,  /* values are int64 (labels); otherwise of the parameters' dtype */
  PNI_DIST_TOTAL = 4,    /* the formula of log_prob holds outside the support as well: no check */
  /* In float32 all functions but log_prob and draws are computed in float64: what they pass through has a wider range,
   * or cancels. */
  PNI_DIST_IN_DOUBLE = 8,
  PNI_DIST_KL_ANY = 16, /* its divergence is for a partner of any kind, on either side */
  PNI_DIST_ROUNDED = 32 /* a copy in float64 whose results become float32 */
};

/* Functions of the distribution alone: result of shape batch + event (entropy: batch). */
#define PNI_DIST_VALUES X(mean) X(variance) X(mode) X(entropy)
/* Functions of a value: sample + batch. (icdf: of a probability.) A kind with a cdf has log_cdf and log_survival: where
 * they are NULL they are log(cdf) and log(1 - cdf), else they are exact in both tails. */
#define PNI_DIST_POINTS X(log_prob) X(cdf) X(icdf) X(log_cdf) X(log_survival)
/* Draws: exactly `out`, which is sample + batch + event; log_prob excepted, all of these may be NULL. */
#define PNI_DIST_DRAWS X(sample) X(rsample)

struct pni_distribution {
  const char *name; /* "gamma" */
  const char *doc;  /* formula and meaning in one line */
  const char *source;
  const char *moments;                  /* mean, variance, mode as formulas, for help; may be NULL */
  const char *call;                     /* composites: what the constructor takes, "base, bijector"; else NULL */
  pni_parameter param[PNI_DIST_PARAMS]; /* up to the first without name; positional order */
  const pni_constraint *support;
  const char *event; /* event axes by the letters of the parameters, a capital for one more ("Nn" is n + 1 by n), or by
                      * fixed sizes ("2"); "" for numbers */
  int flags;
  /* What no single parameter shows (low below high): "<kind>: <role> must be ..., got ...". May be NULL. */
  pn_status (*check)(pn_context *c, const pn_dist *d);
  /* Is it PNI_DIST_TOTAL with these parameters? May be NULL. */
  bool (*total)(const pn_dist *d);
  /* Supports that depend on parameters: bool of shape sample + batch. NULL: support->holds decides. */
  pn_tensor *(*in_support)(pn_context *c, const pn_dist *d, pn_tensor *x);
#define X(name) pn_tensor *(*name)(pn_context * c, const pn_dist *d);
  PNI_DIST_VALUES
#undef X
#define X(name) pn_tensor *(*name)(pn_context * c, const pn_dist *d, pn_tensor *x);
  PNI_DIST_POINTS
#undef X
/* sample NULL: rsample without gradient. */
#define X(name) pn_tensor *(*name)(pn_context * c, const pn_dist *d, pn_rng *rng, const pni_spec *out);
  PNI_DIST_DRAWS
#undef X
  /* log_prob summed over the last axis of the own batch in one pass; NULL with no failure: by log_prob. May be NULL. */
  pn_tensor *(*log_prob_rows)(pn_context *c, const pn_dist *d, pn_tensor *x);
  /* rsample and the log density of the draws where they share work; NULL: one after the other. */
  pn_tensor *(*rsample_with)(pn_context *c, const pn_dist *d, pn_rng *rng, const pni_spec *out, pn_tensor **log_prob);
  /* Composites: KL(p || q) of two of the kind, joint own batch. NULL: see kl_pairs.def. */
  pn_tensor *(*kl)(pn_context *c, const pn_dist *p, const pn_dist *q);
};

struct pn_dist {
  int32_t refs;
  pn_context *ctx;
  const pni_distribution *kind;
  pn_tensor *param[PNI_DIST_PARAMS]; /* NULL: an alternative that was not given and is not kept */
  uint32_t given;                    /* bit k: param[k] came from the caller */
  int dtype;                         /* of the parameters */
  /* sizes of batch axes, then of event axes; the first of them that independent() moved count as event */
  int64_t shape[PN_MAX_DIMS];
  int batch_ndim, event_ndim;
  int validate; /* values outside the support: 0 as the context says, 1 refused, -1 density 0 */
  int moved;    /* batch axes that independent() made event axes; the kind's own batch is batch + moved */
  /* the kind's; composites have their own */
  const pni_constraint *support;
  int flags;
  /* composites: what they are made of; the batch of a part broadcasts to the kind's own batch */
  pn_dist **part;
  int nparts;
  int uses; /* of parts, and of parts in these */
  pn_bijector *map;
  int depth;     /* levels of parts below it, bijectors among them */
  pn_dist *next; /* when it is freed: another one that is */
};

/* *depth becomes that of a whole with a part of depth `part`, if it was not more. PN_DOMAIN: deeper than
 * PNI_NESTING. */
pn_status pni_nest(pn_context *c, const char *where, int *depth, int part);
/* A whole whose parts are themselves wholes may use one part many times over, and sixty lines of a script make 2^60
 * uses of it: functions of a whole go through all of them. Adds 1 + `part`, the uses within one more part, to those in
 * *uses. PN_DOMAIN: more than PNI_USES. */
pn_status pni_use(pn_context *c, const char *where, int *uses, int part);

/* Parameter k, derived if it was not given. Scoped or borrowed. */
pn_tensor *pni_dist_param(pn_context *c, const pn_dist *d, int k);
static inline bool pni_dist_given(const pn_dist *d, int k) { return (d->given >> k & 1) != 0; }
/* The kind's own batch: what its functions see. */
static inline int pni_dist_base_ndim(const pn_dist *d) { return d->batch_ndim + d->moved; }
static inline int pni_dist_kind_event_ndim(const pn_dist *d) { return d->event_ndim - d->moved; }
/* t repeated to exactly this shape; t itself if it has it. */
pn_tensor *pni_dist_expand_to(pn_context *c, pn_tensor *t, int ndim, const int64_t *shape);
/* d if it is of float64, else its like in `room` with the parameters in float64, which are scoped; not of composites.
 * NULL where that fails. */
const pn_dist *pni_dist_in_double(pn_context *c, const pn_dist *d, pn_dist *room);
/* Sum over the axes that independent() moved, the last ones of t. */
pn_tensor *pni_dist_sum_moved(pn_context *c, const pn_dist *d, pn_tensor *t);
/* PN_OK if parameter `low` is below parameter `high` everywhere; else PN_DOMAIN "<kind>: <high> must be above <low>,
 * got ..."; parameters by their numbers. */
pn_status pni_dist_require_order(pn_context *c, const pn_dist *d, int low, int high);
/* A distribution of the kind without parameters or shape. New. */
pn_dist *pni_dist_shell(pn_context *c, const pni_distribution *kind);
/* Records that a function does not exist; returns NULL. */
pn_tensor *pni_dist_missing(pn_context *c, const pn_dist *d, const char *function);
/* Does the kind offer the function ("mean")? */
bool pni_dist_has(const pni_distribution *kind, const char *function);

int pni_dist_count(void);
const pni_distribution *pni_dist_at(int i);
const pni_distribution *pni_dist_find(const char *name);

typedef pn_tensor *(*pni_kl)(pn_context *c, const pn_dist *p, const pn_dist *q);
/* The closed form for two kinds, or NULL. The result has the shape of the joint base batch. */
pni_kl pni_kl_find(const pni_distribution *p, const pni_distribution *q);
/* What is known of KL(p || q) before any parameter is: no closed form, one, or that it is infinite because values of p
 * lie outside the support of q. */
typedef enum pni_kl_state { PNI_KL_MISSING, PNI_KL_FORMULA, PNI_KL_INFINITE } pni_kl_state;
pni_kl_state pni_kl_known(const pni_distribution *p, const pni_distribution *q);

#define X(name) extern const pni_distribution pni_dist_##name;
#include "distribution.def"
#undef X
#define X(p, q) pn_tensor *pni_kl_##p##_##q(pn_context *c, const pn_dist *p_, const pn_dist *q_);
#include "kl_pairs.def"
#undef X

#endif
