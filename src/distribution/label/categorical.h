/*
** categorical.h: what kinds whose parameters 0 and 1 are probs and logits over n classes share.
*/
#ifndef PN_DISTRIBUTION_LABEL_CATEGORICAL_H
#define PN_DISTRIBUTION_LABEL_CATEGORICAL_H

#include "../distribution.h"

enum { PNI_PROBS, PNI_LOGITS };

int64_t pni_classes(const pn_dist *d);
pn_tensor *pni_classes_probs(pn_context *c, const pn_dist *d);  /* derive */
pn_tensor *pni_classes_logits(pn_context *c, const pn_dist *d); /* derive */
/* Normalised log probabilities, [batch, n]; those of an unused probability 0 have no gradient. */
pn_tensor *pni_classes_log_probs(pn_context *c, const pn_dist *d);
/* sum of w v over the last axis, 0 where w = 0 even if v is infinite */
pn_tensor *pni_classes_expected(pn_context *c, pn_tensor *w, pn_tensor *v);
pn_tensor *pni_classes_entropy(pn_context *c, const pn_dist *d);
/* KL of one trial; `name` for the message about unequal numbers of classes. */
pn_tensor *pni_classes_kl(pn_context *c, const pn_dist *p, const pn_dist *q, const char *name);
/* Labels (int64) of shape `out`, which is sample + batch, drawn with `weights` [batch, n], batch of the kind. */
pn_tensor *pni_draw_labels(pn_context *c, const pn_dist *d, pn_tensor *weights, pn_rng *rng, const pni_spec *out);
/* The label as a vector of n numbers, 1 at the label and 0 elsewhere. */
pn_tensor *pni_one_hot(pn_context *c, pn_tensor *label, int64_t n, int dtype);

#endif
