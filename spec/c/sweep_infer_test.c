/*
** sweep_infer_test.c: estimators survive the failure of each of their allocations. Loops over the rows, so that a new
** one is swept by being there.
*/
#include "../../src/infer/estimator/estimator.h"
#include "alloc_sweep.h"

enum { K = 4, B = 3, D = 2 };

/* Log-densities of draws z = w + noise and z w, so that latents lie below them, one below the other. */
typedef struct {
  pn_tensor *z, *later, *value;
} drawn;

static bool draw(pn_context *c, drawn *d) {
  const int64_t shape[] = {K, B, D};
  pn_tensor *w = pn_param(c, pn_full(c, PN_FLOAT64, 3, shape, 0.5));
  d->z = w ? pn_add(c, w, pn_randn(c, NULL, PN_FLOAT64, 3, shape)) : NULL;
  d->later = d->z ? pn_mul(c, d->z, w) : NULL;
  d->value = d->later ? pn_neg(c, pn_sum(c, pn_square(c, pn_add(c, d->z, d->later)), (pn_axes){1, {2}}, 0)) : NULL;
  return d->value != NULL;
}

/* What an input of this kind may be. */
static pn_tensor *value_of(pn_context *c, const pni_estimator_input *in, const drawn *d) {
  const int64_t shape[] = {K, B, D};
  if (in->flags & PNI_INPUT_LIST) return d->z;
  if (!*in->axes) return pn_scalar(c, PN_FLOAT64, 0.5);
  if (strcmp(in->axes, "KB") == 0 || strcmp(in->axes, "kB") == 0)
    return pn_mul(c, d->value, pn_scalar(c, PN_FLOAT64, 0.7));
  if (strcmp(in->axes, "B") == 0) return pn_mean(c, d->value, (pn_axes){1, {0}}, 0);
  if (strcmp(in->axes, "KB...") == 0) return d->z;
  return pn_full(c, PN_FLOAT64, 1, shape + 1, 0.25);
}

static bool work(pn_context *c, const void *data) {
  const pni_estimator *row = data;
  const char *names[PNI_ESTIMATOR_INPUTS + 1];
  pn_tensor *values[PNI_ESTIMATOR_INPUTS + 1], *second = NULL;
  drawn d;
  int n = 0;
  if (!draw(c, &d)) return false;
  bool all_optional = row->input[0].flags & PNI_INPUT_OPTIONAL;
  for (int k = 0; k < PNI_ESTIMATOR_INPUTS && row->input[k].name; k++) {
    const pni_estimator_input *in = &row->input[k];
    if (in->flags & PNI_INPUT_OPTIONAL && !(all_optional && k < 2)) continue;
    names[n] = in->name;
    if (!(values[n++] = value_of(c, in, &d))) return false;
    if (!(in->flags & PNI_INPUT_LIST)) continue;
    names[n] = in->name;
    values[n++] = d.later;
  }
  const pn_option options[] = {{"num_data", 30, NULL}, {0}};
  bool sized = strcmp(row->name, "map") == 0;
  pn_tensor *y = pn_estimate(c, row->name, n, names, values, sized ? options : NULL, &second);
  if (!y || !pn_tensor_requires_grad(y)) return y != NULL;
  return pn_backward(c, pn_sum(c, y, PN_ALL, 0)) == PN_OK;
}

/* Streams, and draws of equal weight. */
static bool keep(pn_context *c, const void *data) {
  static const char *const what[] = {"log_mean", "standard_error", "elbo", "effective_sample_size", "pareto_k"};
  const int64_t shape[] = {30, B};
  (void)data;
  pn_tensor *x = pn_randn(c, NULL, PN_FLOAT64, 2, shape), *places = pn_sir(c, NULL, x, 3);
  pn_weight_stream *s = places ? pn_weight_stream_new(c, 60) : NULL;
  bool done = s && pn_weight_stream_add(c, s, x) == PN_OK && pn_weight_stream_add(c, s, x) == PN_OK &&
              pn_weight_stream_count(s) == 60;
  for (int i = 0; i < 5 && done; i++) done = pn_weight_stream_get(c, s, what[i]) != NULL;
  pn_weight_stream_unref(s);
  return done;
}

/* Plans of transport and distances of images. */
static bool carry(pn_context *c, const void *data) {
  const int64_t cost[] = {2, 3, 4}, a[] = {2, 3}, b[] = {2, 4};
  (void)data;
  pn_tensor *x = pn_rand(c, NULL, PN_FLOAT64, 3, cost);
  return pn_transport(c, x, pn_full(c, PN_FLOAT64, 2, a, 1), pn_full(c, PN_FLOAT64, 2, b, 2)) &&
         pn_image_transport(c, x, pn_rand(c, NULL, PN_FLOAT64, 3, cost));
}

/* Sites of data, each and all, of a network of two layers. */
enum { SITE_DATA = 3, SITE_WEIGHTS = 2 * 3 + 3 + 3 * 2 };

static bool say_all(pn_context *c, const pn_layer *const *layers) {
  const int64_t shape[] = {SITE_DATA, 2}, weights = SITE_WEIGHTS;
  pn_site_options o = {.num_layers = 3, .layers = layers, .likelihood = "bernoulli", .draws = 20, .budget = 1};
  pn_tensor *x = pn_randn(c, NULL, PN_FLOAT64, 2, shape), *y = pn_zeros(c, PN_FLOAT64, 2, shape);
  o.mean = pn_zeros(c, PN_FLOAT64, 1, &weights);
  o.scale = pn_full(c, PN_FLOAT64, 1, &weights, 0.3);
  o.weights = pn_rand(c, NULL, PN_FLOAT64, 1, shape);
  pn_sites s;
  if (!x || !y || !o.mean || !o.scale || !o.weights || pn_gaussian_sites(c, &o, x, y, NULL, &s)) return false;
  o.each = 1;
  return pn_gaussian_sites(c, &o, pn_transpose(c, x, 0, 0), y, NULL, &s) == PN_OK;
}

static bool say(pn_context *c, const void *data) {
  const int64_t sizes[] = {2, 3, 2};
  const pn_option bare[] = {{"bias", 0, NULL}, {0}};
  (void)data;
  pn_layer *l[] = {pn_layer_new(c, "linear", 2, sizes, PN_FLOAT64, NULL, NULL),
                   pn_layer_new(c, "tanh", 0, NULL, PN_FLOAT64, NULL, NULL),
                   pn_layer_new(c, "linear", 2, sizes + 1, PN_FLOAT64, NULL, bare)};
  bool done = l[0] && l[1] && l[2] && say_all(c, (const pn_layer *const *)l);
  for (int k = 0; k < 3; k++) pn_layer_unref(l[k]);
  return done;
}

/* What Lua never asks for. */
static void misuse(void) {
  pn_context *c = pn_context_new(NULL);
  size_t mark = pn_scope_open(c);
  pn_tensor *x = pn_zeros(c, PN_FLOAT64, 2, (const int64_t[]){2, 2});
  const struct {
    const char *estimator, *name;
    pn_tensor *value;
    pn_status status;
  } bad[] = {{"iwea", "log_w", x, PN_MISSING},
             {NULL, "log_w", x, PN_STATE},
             {"iwae", "log_p", x, PN_DOMAIN},
             {"iwae", "log_w", NULL, PN_STATE}};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    CHECK(!pn_estimate(c, bad[i].estimator, 1, &bad[i].name, &bad[i].value, NULL, NULL));
    CHECK(pn_context_status(c) == bad[i].status);
    pn_context_clear_error(c);
  }
  CHECK(!pn_estimate(c, "iwae", 2, NULL, (pn_tensor *[]){x, x}, NULL, NULL));
  CHECK(pn_context_status(c) == PN_DOMAIN);
  pn_context_clear_error(c);
  CHECK(!pn_estimate(c, "iwae", 0, NULL, NULL, NULL, NULL) && pn_context_status(c) == PN_STATE);
  pn_context_clear_error(c);
  CHECK(pn_estimator_name(-1) == NULL && pn_estimator_name(pn_estimator_count()) == NULL);
  pn_weight_stream *s = pn_weight_stream_ref(pn_weight_stream_new(c, 0));
  CHECK(pn_weight_stream_add(c, s, NULL) == PN_STATE);
  pn_context_clear_error(c);
  pn_weight_stream_unref(s);
  CHECK(pn_weight_stream_add(c, s, x) == PN_OK && !pn_weight_stream_get(c, s, "mean"));
  CHECK(pn_context_status(c) == PN_MISSING);
  pn_context_clear_error(c);
  pn_weight_stream_unref(s);
  CHECK(!pn_weight_stream_new(c, -1) && pn_context_status(c) == PN_DOMAIN);
  pn_context_clear_error(c);
  pn_scope_close(c, mark);
  CHECK(pn_context_objects(c) == 0);
  pn_context_close(c);
}

int main(void) {
  misuse();
  sweep("streams", keep, NULL);
  sweep("transport", carry, NULL);
  sweep("sites", say, NULL);
  for (int i = 0; i < pn_estimator_count(); i++)
    sweep(pn_estimator_name(i), work, pni_estimator_find(pn_estimator_name(i)));
  CHECK_DONE();
}
