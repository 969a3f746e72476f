/*
** sweep_infer_test.c: estimators survive the failure of each of their allocations. Loops over the rows, so that a new
** one is swept by being there.
*/
#include "../../src/infer/estimator.h"
#include "alloc_sweep.h"

enum { K = 4, B = 3, D = 2 };

/* Log-densities of draws z = w + noise, so that latents lie below them. */
typedef struct {
  pn_tensor *z, *value;
} drawn;

static bool draw(pn_context *c, drawn *d) {
  const int64_t shape[] = {K, B, D};
  pn_tensor *w = pn_param(c, pn_full(c, PN_FLOAT64, 3, shape, 0.5));
  d->z = w ? pn_add(c, w, pn_randn(c, NULL, PN_FLOAT64, 3, shape)) : NULL;
  d->value = d->z ? pn_neg(c, pn_sum(c, pn_square(c, d->z), (pn_axes){1, {2}}, 0)) : NULL;
  return d->value != NULL;
}

/* What an input of this kind may be. */
static pn_tensor *value_of(pn_context *c, const pni_estimator_input *in, const drawn *d) {
  const int64_t shape[] = {K, B, D};
  if (in->flags & PNI_INPUT_LIST) return d->z;
  if (!*in->axes) return pn_scalar(c, PN_FLOAT64, 0.5);
  if (strcmp(in->axes, "KB") == 0 || strcmp(in->axes, "kB") == 0)
    return pn_mul(c, d->value, pn_scalar(c, PN_FLOAT64, 0.7));
  if (strcmp(in->axes, "KB...") == 0) return d->z;
  return pn_full(c, PN_FLOAT64, 1, shape + 1, 0.25);
}

static bool work(pn_context *c, const void *data) {
  const pni_estimator *row = data;
  const char *names[PNI_ESTIMATOR_INPUTS];
  pn_tensor *values[PNI_ESTIMATOR_INPUTS], *second = NULL;
  drawn d;
  int n = 0;
  if (!draw(c, &d)) return false;
  bool all_optional = row->input[0].flags & PNI_INPUT_OPTIONAL;
  for (int k = 0; k < PNI_ESTIMATOR_INPUTS && row->input[k].name; k++) {
    const pni_estimator_input *in = &row->input[k];
    if (in->flags & PNI_INPUT_OPTIONAL && !(all_optional && k < 2)) continue;
    names[n] = in->name;
    if (!(values[n++] = value_of(c, in, &d))) return false;
  }
  pn_tensor *y = pn_estimate(c, row->name, n, names, values, NULL, &second);
  if (!y || !pn_tensor_requires_grad(y)) return y != NULL;
  return pn_backward(c, pn_sum(c, y, PN_ALL, 0)) == PN_OK;
}

int main(void) {
  for (int i = 0; i < pn_estimator_count(); i++)
    sweep(pn_estimator_name(i), work, pni_estimator_find(pn_estimator_name(i)));
  CHECK_DONE();
}
