/*
** biject_to.c: for each set a map from all numbers (or vectors) onto it: how a parameter that must stay in a set is
** trained, sampled and initialised without one.
*/
#include <string.h>
#include "bijector.h"

enum { LONGEST = 2 };

typedef struct {
  const pni_constraint *set;
  const char *kind[LONGEST]; /* a chain if there is a second */
} target;

/* A boundary that a set includes is reached in the limit alone. */
static const target rows[] = {
    {&pni_constraint_real, {"identity"}},
    {&pni_constraint_extended_real, {"identity"}},
    {&pni_constraint_real_vector, {"identity"}},
    {&pni_constraint_log_weights, {"identity"}},
    {&pni_constraint_positive, {"exp"}},
    {&pni_constraint_nonnegative, {"exp"}},
    {&pni_constraint_unit_interval, {"sigmoid"}},
    {&pni_constraint_open_unit_interval, {"sigmoid"}},
    {&pni_constraint_symmetric_interval, {"tanh"}},
    {&pni_constraint_ordered_vector, {"ordered"}},
    {&pni_constraint_simplex, {"softmax_centred"}},
    {&pni_constraint_open_simplex, {"softmax_centred"}},
    {&pni_constraint_positive_vector, {"exp"}},
    {&pni_constraint_real_matrix, {"identity"}},
    {&pni_constraint_mean_and_variance, {"mean_and_variance"}},
    {&pni_constraint_mean_and_covariance, {"mean_and_covariance"}},
    {&pni_constraint_correlation_cholesky, {"correlation_cholesky"}},
    {&pni_constraint_lower_cholesky, {"cholesky"}},
    {&pni_constraint_positive_definite, {"cholesky", "cholesky_outer"}},
};

static const pni_constraint *find(const char *set) {
  for (int i = 0; i < pni_constraint_count(); i++)
    if (strcmp(pni_constraint_at(i)->name, set) == 0) return pni_constraint_at(i);
  return NULL;
}

static pn_bijector *refuse(pn_context *c, const char *set) {
  const pni_constraint *k = find(set);
  if (!k)
    pni_fail(c, PN_MISSING, "biject_to: there is no set '%s'", set);
  else if (k->discrete)
    pni_fail(c, PN_MISSING, "biject_to: values of '%s' are discrete: no bijector reaches them", set);
  else if (k == &pni_constraint_interval)
    pni_fail(c, PN_MISSING, "biject_to: ends of the interval must be given");
  else if (k == &pni_constraint_half_line)
    pni_fail(c, PN_MISSING, "biject_to: the lower end of the half-line must be given");
  else
    pni_fail(c, PN_MISSING, "biject_to: there is no bijector onto '%s'", set);
  return NULL;
}

/* The chain of two bijectors, whose references it takes over. */
static pn_bijector *chain(pn_context *c, pn_bijector *first, pn_bijector *second) {
  pn_bijector *b = first && second ? pn_bijector_compose(c, "chain", 2, (pn_bijector *[]){first, second}) : NULL;
  pn_bijector_unref(first);
  pn_bijector_unref(second);
  return b;
}

/* low + (high - low) sigmoid(x) */
static pn_bijector *between(pn_context *c, pn_tensor *low, pn_tensor *high) {
  size_t mark = pn_scope_open(c);
  pn_tensor *width = pn_sub(c, high, low);
  bool rising = width && pni_constraint_require(c, &pni_constraint_positive, "biject_to", "high - low", width) == PN_OK;
  pn_bijector *stretch = rising ? pn_bijector_new(c, "affine", 2, NULL, (pn_tensor *[]){low, width}) : NULL;
  pn_scope_close(c, mark);
  return stretch ? chain(c, pn_bijector_new(c, "sigmoid", 0, NULL, NULL), stretch) : NULL;
}

/* pi tanh(x) */
static pn_bijector *around(pn_context *c) {
  size_t mark = pn_scope_open(c);
  pn_tensor *zero = pn_scalar(c, PN_FLOAT64, 0), *end = pn_scalar(c, PN_FLOAT64, PNI_ANGLE_END);
  pn_bijector *stretch = end ? pn_bijector_new(c, "affine", 2, NULL, (pn_tensor *[]){zero, end}) : NULL;
  pn_scope_close(c, mark);
  return stretch ? chain(c, pn_bijector_new(c, "tanh", 0, NULL, NULL), stretch) : NULL;
}

/* low + e^x */
static pn_bijector *beyond(pn_context *c, pn_tensor *low) {
  size_t mark = pn_scope_open(c);
  pn_tensor *one = pni_like(c, low, 1);
  pn_bijector *shift = one ? pn_bijector_new(c, "affine", 2, NULL, (pn_tensor *[]){low, one}) : NULL;
  pn_scope_close(c, mark);
  return shift ? chain(c, pn_bijector_new(c, "exp", 0, NULL, NULL), shift) : NULL;
}

pn_bijector *pn_biject_to(pn_context *c, const char *set, pn_tensor *low, pn_tensor *high) {
  if (!PNI_GIVEN(c, "biject_to", set)) return NULL;
  if (low && high && strcmp(set, "interval") == 0) return between(c, low, high);
  if (strcmp(set, "angle") == 0) return around(c);
  if (low && strcmp(set, "half_line") == 0) return beyond(c, low);
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    if (strcmp(rows[i].set->name, set) != 0) continue;
    pn_bijector *first = pn_bijector_new(c, rows[i].kind[0], 0, NULL, NULL);
    return rows[i].kind[1] ? chain(c, first, pn_bijector_new(c, rows[i].kind[1], 0, NULL, NULL)) : first;
  }
  return refuse(c, set);
}
