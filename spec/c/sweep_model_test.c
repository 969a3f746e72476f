/*
** sweep_model_test.c: distributions, layers, initialisers and optimisers survive the failure of each of
** their allocations. Loops over the rows, so that a new one is swept by being there.
*/
#include "../../src/distribution/distribution.h"
#include "../../src/nn/initialiser.h"
#include "../../src/nn/layer.h"
#include "../../src/nn/optimiser/optimiser.h"
#include "alloc_sweep.h"
#include "layer_case.h"

enum { SIZE = 3 };

/* Gradients of the sum of t, where there are any. */
static bool differentiate(pn_context *c, pn_tensor *t) {
  if (!t) return false;
  if (!pn_tensor_requires_grad(t)) return true;
  return pn_backward(c, pn_sum(c, t, PN_ALL, 0)) == PN_OK;
}

/* As a function of a row that may be missing: that is no failure. */
static bool offered(pn_context *c, pn_tensor *t) {
  if (t) return differentiate(c, t);
  if (pn_context_status(c) != PN_MISSING) return false;
  pn_context_clear_error(c);
  return true;
}

/* ---- distributions ---- */

typedef struct {
  const pni_distribution *kind;
  int variant; /* which of several alternative parameters is given */
  int part;
} dist_case;

/* Parameter k in the variant: its number among the alternatives of its choice must be the variant's. */
static bool given(const dist_case *d, int k) {
  int choice = d->kind->param[k].choice, before = 0, all = 0;
  if (!choice) return true;
  for (int i = 0; i < PNI_DIST_PARAMS && d->kind->param[i].name; i++) {
    if (d->kind->param[i].choice != choice) continue;
    if (i < k) before++;
    all++;
  }
  return before == (d->variant < all ? d->variant : all - 1);
}

/* The largest number of alternatives that one parameter has. */
static int variants(const pni_distribution *kind) {
  int most = 1;
  for (int k = 0; k < PNI_DIST_PARAMS && kind->param[k].name; k++) {
    int all = 0;
    for (int i = 0; i <= k; i++) all += kind->param[k].choice && kind->param[i].choice == kind->param[k].choice;
    most = all > most ? all : most;
  }
  return most;
}

static pn_dist *make_dist(pn_context *c, const dist_case *d) {
  const char *names[PNI_DIST_PARAMS];
  pn_tensor *values[PNI_DIST_PARAMS];
  static const int64_t size[PN_MAX_DIMS] = {SIZE, SIZE, SIZE, SIZE, SIZE, SIZE, SIZE, SIZE};
  int n = 0;
  for (int k = 0; k < PNI_DIST_PARAMS && d->kind->param[k].name; k++) {
    const pni_parameter *p = &d->kind->param[k];
    if (!given(d, k)) continue;
    double example = p->optional ? p->absent : p->example;
    bool member = p->optional ? p->constraint->rank > 0 : example == 0;
    pn_tensor *t =
        member ? pni_constraint_member(c, p->constraint, PN_FLOAT64, size) : pn_scalar(c, PN_FLOAT64, example);
    int more = (int)strlen(p->axes) - p->constraint->rank;
    if (t && more > 0) t = pn_broadcast_to(c, t, (int)strlen(p->axes), size);
    if (!t) return NULL;
    names[n] = p->name;
    values[n++] = p->constraint->discrete ? t : pn_param(c, t);
  }
  return pn_dist_new(c, d->kind->name, n, names, values);
}

/* What is swept apart, since the time of a sweep grows with the square of the allocations. */
enum { DENSITY, PROBABILITY, TAILS, MOMENTS, DIVERGENCE, VALIDATION, VIEWS, PARTS };

static bool use_points(pn_context *c, const pn_dist *d, int part) {
  pn_tensor *x = pn_dist_sample(c, d, NULL, 1, (const int64_t[]){2});
  if (!x) return false;
  if (part == TAILS) return offered(c, pn_dist_log_cdf(c, d, x)) && offered(c, pn_dist_log_survival(c, d, x));
  if (part == PROBABILITY)
    return offered(c, pn_dist_cdf(c, d, x)) && offered(c, pn_dist_icdf(c, d, pn_full(c, PN_FLOAT64, 0, NULL, 0.3)));
  if (!offered(c, pn_dist_log_prob(c, d, x))) return false;
  return !pni_dist_has(d->kind, "rsample") || offered(c, pn_dist_rsample(c, d, NULL, 1, (const int64_t[]){2}));
}

static bool use_values(pn_context *c, const pn_dist *d) {
  if (!offered(c, pn_dist_mean(c, d)) || !offered(c, pn_dist_variance(c, d))) return false;
  if (!offered(c, pn_dist_stddev(c, d)) || !offered(c, pn_dist_mode(c, d))) return false;
  for (int k = 0; k < PNI_DIST_PARAMS && d->kind->param[k].name; k++)
    if (!offered(c, pn_dist_param(c, d, d->kind->param[k].name))) return false;
  return true;
}

static bool use_strict(pn_context *c, const pn_dist *d) {
  pn_dist *strict = pn_dist_validate(c, d, 1);
  bool done = strict && offered(c, pn_dist_log_prob(c, strict, pn_dist_sample(c, strict, NULL, 0, NULL)));
  pn_dist_unref(strict);
  return done;
}

static bool use_views(pn_context *c, const pn_dist *d) {
  pn_dist *wide = pn_dist_expand(c, d, 1, (const int64_t[]){2});
  pn_dist *joint = wide ? pn_dist_independent(c, wide, 1) : NULL;
  bool done = joint && offered(c, pn_dist_entropy(c, joint)) &&
              offered(c, pn_dist_log_prob(c, joint, pn_dist_sample(c, joint, NULL, 0, NULL)));
  pn_dist_unref(joint);
  pn_dist_unref(wide);
  return done;
}

static bool use_dist(pn_context *c, const pn_dist *d, int part) {
  switch (part) {
  case MOMENTS: return use_values(c, d);
  case DIVERGENCE: return offered(c, pn_dist_entropy(c, d)) && offered(c, pn_dist_kl(c, d, d));
  case VALIDATION: return use_strict(c, d);
  case VIEWS: return use_views(c, d);
  default: return use_points(c, d, part);
  }
}

static bool dist_work(pn_context *c, const void *data) {
  const dist_case *which = data;
  pn_dist *d = make_dist(c, which);
  bool done = d && use_dist(c, d, which->part);
  pn_dist_unref(d);
  return done;
}

/* ---- layers ---- */

/* Layers with a state; with a graph of the gradient as well, whose nodes are other ones. */
static bool use_state(pn_context *c, const pn_layer *l, pn_tensor *x) {
  pn_tensor *y, *state[2], *next[2], *g, *w = pn_layer_param(l, 1);
  if (pn_layer_unroll(c, l, x, NULL, PN_MODE_TRAINING, NULL, &y, state) || !differentiate(c, y)) return false;
  if (pn_layer_step(c, l, pn_select(c, x, 0, 1), state, PN_MODE_TRAINING, NULL, next) || !differentiate(c, next[0]))
    return false;
  pn_tensor *loss = pn_sum(c, pn_square(c, y), PN_ALL, 0);
  return loss && pn_grad(c, loss, 1, &w, 1, &g) == PN_OK && differentiate(c, g);
}

/* The moments of an input that is certain, or uncertain. */
static bool use_moments(pn_context *c, const pn_layer *l, pn_tensor *mean, pn_tensor *variance) {
  pn_tensor *m, *v;
  if (pn_layer_moments(c, l, mean, variance, PN_MODE_EVALUATION, &m, &v) != PN_OK) return offered(c, NULL);
  return differentiate(c, m) && (!v || differentiate(c, v));
}

static bool use_layer(pn_context *c, const pn_layer *l, int n, pn_tensor *const *in) {
  for (int mode = PN_MODE_TRAINING; mode <= PN_MODE_MEAN; mode++) {
    pn_tensor *y =
        n == 1 ? pn_layer_forward(c, l, in[0], (pn_mode)mode, NULL) : pn_layer_call(c, l, n, in, (pn_mode)mode, NULL);
    if (!differentiate(c, y) || pn_update_buffers(c, y) != PN_OK) return false;
  }
  if (!differentiate(c, pn_layer_kl(c, l))) return false;
  if (pn_layer_num_states(l) && !use_state(c, l, in[0])) return false;
  if (n > 1 || in[0]->dtype == PN_INT64) return true;
  return use_moments(c, l, in[0], NULL) && use_moments(c, l, in[0], pn_square(c, in[0]));
}

static bool layer_work(pn_context *c, const void *data) {
  layer_case which = layer_case_of(data);
  pn_tensor *in[PNI_LAYER_INPUTS];
  const pn_option *options = which.option[0].name ? which.option : NULL;
  pn_layer *l = pn_layer_new(c, which.name, which.nsizes, which.size, PN_FLOAT64, NULL, options);
  bool done = l && layer_inputs(c, &which, PN_FLOAT64, in) && use_layer(c, l, which.nin, in);
  pn_layer_unref(l);
  return done;
}

/* A buffer whose update a step of an optimiser commits. */
static bool buffer_work(pn_context *c, const void *data) {
  (void)data;
  pn_tensor *w = pn_param(c, pn_scalar(c, PN_FLOAT64, 2)), *b = pn_buffer(c, pn_scalar(c, PN_FLOAT64, 1));
  pn_tensor *y = b ? pn_with_update(c, pn_square(c, w), b, pn_scalar(c, PN_FLOAT64, 5), 0.5) : NULL;
  pn_optim *o = w && y ? pn_optim_new(c, "sgd", 1, &w, NULL, NULL) : NULL;
  double before = 0, after = 0;
  if (o && pn_optim_step(c, o, y) == PN_OK && pn_tensor_item(c, b, &after) == PN_OK) CHECK_NEAR(after, 3, 0);
  if (b && pni_failed(c)) { /* all or nothing */
    pn_context_clear_error(c);
    CHECK_STATUS(c, pn_tensor_item(c, b, &before), PN_OK);
    CHECK(before < 2);
    pni_fail(c, PN_NOMEM, "again");
  }
  pn_optim_unref(o);
  return o && !pni_failed(c);
}

static bool initialise(pn_context *c, const void *data) {
  return pn_initialise(c, data, NULL, PN_FLOAT64, 2, (const int64_t[]){4, SIZE}, NULL) != NULL;
}

/* ---- optimisers ---- */

static bool use_optim(pn_context *c, pn_optim *o, pn_tensor *const *w) {
  double lr;
  for (int k = 0; k < 2; k++) {
    pn_tensor *loss = pn_sum(c, pn_square(c, pn_mul(c, w[0], w[1])), PN_ALL, 0);
    if (!loss || pn_optim_step(c, o, loss) != PN_OK) return false;
  }
  pn_tensor *grads[] = {pn_full(c, PN_FLOAT64, 1, (const int64_t[]){SIZE}, 0.5), NULL};
  if (!grads[0] || pn_optim_apply(c, o, grads) != PN_OK) return false;
  if (pn_optim_set_own(c, o, 1, "lr_scale", 0.5) != PN_OK || pn_optim_step(c, o, pn_sum(c, w[1], PN_ALL, 0)) != PN_OK)
    return false;
  if (pn_optim_get(c, o, "lr", &lr) != PN_OK || pn_optim_set(c, o, "lr", lr / 2) != PN_OK) return false;
  for (int i = 0; i < pn_optim_num_states(o); i++) {
    pn_tensor *state = pn_optim_state(c, o, i);
    if (!state || pn_optim_set_state(c, o, i, state) != PN_OK) return false;
  }
  return true;
}

static bool optim_work(pn_context *c, const void *data) {
  pn_tensor *w[2];
  for (int k = 0; k < 2; k++) {
    pn_tensor *t = pn_full(c, PN_FLOAT64, 1, (const int64_t[]){SIZE}, k + 1.0);
    if (!t || !(w[k] = pn_param(c, t))) return false;
  }
  pn_optim *o = pn_optim_new(c, data, 2, w, NULL, NULL);
  bool done = o && use_optim(c, o, w);
  pn_optim_unref(o);
  return done;
}

/* A step in matrices, of rows that look for its direction: all of it or nothing. */
static bool matrix_work(pn_context *c, const void *data) {
  double before[2] = {0}, after[2] = {0};
  pn_tensor *w[2];
  for (int k = 0; k < 2; k++) {
    pn_tensor *t = pn_full(c, PN_FLOAT64, 2, (const int64_t[]){k ? 2 : 3, k ? 4 : 2}, k + 1.0);
    if (!t || !(w[k] = pn_param(c, t))) return false;
    before[k] = after[k] = k + 1.0;
  }
  pn_optim *o = pn_optim_new(c, data, 2, w, NULL, (const pn_option[]){{"clip_norm", 0.5, NULL}, {0}});
  pn_tensor *loss = o ? pn_sum(c, pn_square(c, pn_matmul(c, w[0], w[1])), PN_ALL, 0) : NULL;
  bool done = loss && pn_optim_step(c, o, loss) == PN_OK;
  for (int k = 0; k < 2; k++) after[k] = *(const double *)pni_data(w[k]);
  CHECK((after[0] < before[0]) == (after[1] < before[1]));
  CHECK(!done || after[0] < before[0]);
  pn_optim_unref(o);
  return done;
}

int main(void) {
  for (int i = 0; i < pni_dist_count(); i++)
    for (int v = 0, most = variants(pni_dist_at(i)); v < most; v++)
      for (int part = 0; part < PARTS; part++)
        sweep(pni_dist_at(i)->name, dist_work, &(dist_case){pni_dist_at(i), v, part});
  for (int i = 0; i < pni_layer_count(); i++) sweep(pni_layer_at(i)->name, layer_work, pni_layer_at(i));
  sweep("buffer", buffer_work, NULL);
  for (int i = 0; i < pni_initialiser_count(); i++)
    sweep(pni_initialiser_at(i)->name, initialise, pni_initialiser_at(i)->name);
  for (int i = 0; i < pni_optimiser_count(); i++)
    sweep(pni_optimiser_at(i)->name, optim_work, pni_optimiser_at(i)->name);
  for (int i = 0; i < pni_optimiser_count(); i++)
    if (pni_optimiser_at(i)->direction) sweep(pni_optimiser_at(i)->name, matrix_work, pni_optimiser_at(i)->name);
  CHECK_DONE();
}
