/*
** gaussian_sites.c: what each datum says of the weights of a fully connected network, as a Gaussian factor: Kurle,
** Cseke, Klushyn, van der Smagt & Guennemann 2020, equations 5a, 5b and appendix C. With w = m + s eps and g the
** gradient of log p(y_n | x_n, w), means over draws of eps give
**   precision_n = -mean(g eps) / s     precision_mean_n = mean(g) + precision_n m
** and, without a site for each datum, their sum over data and
**   E_q[log r_n] = precision_mean_n' m - precision_n' (m^2 + s^2) / 2 = mean(g' (m - eps (m^2 / s - s) / 2)),
** which is a derivative along one direction of the weights a draw.
*/
#include <math.h>
#include <string.h>
#include "../../nn/layer.h"
#include "site_run.h"

typedef pn_context C;
static const char where[] = "gaussian_sites";
enum { DEFAULT_BUDGET = 1 << 26 };

/* Contiguous operands and the arrays of a problem. */
typedef struct {
  pn_tensor *mean, *scale, *x, *y, *exponent;
  void *weights; /* three arrays of the network's type */
} operands;

/* ---- the network ---- */

/* The option of this name, or what stands for one that the row has not. */
static double option_of(const pn_layer *l, const char *name, double absent) {
  int k = name ? pni_option_find(l->type->options, name) : -1;
  return k < 0 ? absent : l->option[k];
}

static pn_status set_activation(C *c, const pn_layer *l, pni_site_layer *out) {
  const pni_slope *s = l->type->slope;
  if (!s)
    return pni_fail(c, PN_MISSING, "%s: layers must be linear or elementwise activations, got %s", where,
                    l->type->name);
  out->activation = s->kind;
  out->first = option_of(l, s->first, s->first_value), out->second = option_of(l, s->second, s->second_value);
  out->slope = option_of(l, s->factor, 1), out->shift = s->shift;
  return PN_OK;
}

static pn_status add_linear(C *c, const pn_layer *l, pni_site_problem *p) {
  pni_site_layer *own = &p->layer[p->num_layers];
  int64_t before = p->num_layers ? own[-1].out : l->size[0];
  if (p->num_layers == PNI_SITE_LAYERS)
    return pni_fail(c, PN_DOMAIN, "%s: the network must have at most %d linear layers", where, PNI_SITE_LAYERS);
  if (l->size[0] != before)
    return pni_fail(c, PN_SHAPE, "%s: linear layer %d must take %lld inputs, got %lld", where, p->num_layers + 1,
                    (long long)before, (long long)l->size[0]);
  *own = (pni_site_layer){.in = l->size[0], .out = l->size[1], .at = p->weights, .node = p->nodes};
  own->rows = own->in + (l->param[1] != NULL);
  p->weights += own->rows * own->out;
  p->nodes += own->out;
  if (own->out > p->widest) p->widest = own->out;
  p->num_layers++;
  return PN_OK;
}

static pn_status set_layers(C *c, const pn_site_options *o, pni_site_problem *p) {
  if (!PNI_LISTED(c, where, o->num_layers, o->layers)) return c->status;
  for (int k = 0; k < o->num_layers; k++) {
    const pn_layer *l = o->layers[k];
    if (!PNI_GIVEN(c, where, l)) return c->status;
    bool linear = l->type == &pni_layer_linear;
    if (linear && add_linear(c, l, p)) return c->status;
    if (linear) continue;
    if (p->num_layers == 0 || p->layer[p->num_layers - 1].activation != PNI_SLOPE_IDENTITY)
      return pni_fail(c, PN_MISSING, "%s: an activation must follow a linear layer, got %s as layer %d", where,
                      l->type->name, k + 1);
    if (set_activation(c, l, &p->layer[p->num_layers - 1])) return c->status;
  }
  if (p->num_layers == 0) return pni_fail(c, PN_DOMAIN, "%s: the network must have a linear layer", where);
  return PN_OK;
}

/* ---- arguments ---- */

static pn_status expect(C *c, const char *role, const pn_tensor *t, int dtype, int64_t rows, int64_t columns) {
  char got[PNI_SHAPE_TEXT];
  int ndim = columns < 0 ? 1 : 2;
  if (!t) return pni_fail(c, PN_STATE, "%s: %s must be given", where, role);
  if (t->dtype != dtype)
    return pni_fail(c, PN_DTYPE, "%s: %s must be %s, got %s", where, role, pn_dtype_name((pn_dtype)dtype),
                    pn_dtype_name((pn_dtype)t->dtype));
  if (t->ndim == ndim && t->shape[0] == rows && (columns < 0 || t->shape[1] == columns)) return PN_OK;
  if (columns < 0)
    return pni_fail(c, PN_SHAPE, "%s: %s must have shape [%lld], got %s", where, role, (long long)rows,
                    pni_shape_text(t->ndim, t->shape, got));
  return pni_fail(c, PN_SHAPE, "%s: %s must have shape [%lld, %lld], got %s", where, role, (long long)rows,
                  (long long)columns, pni_shape_text(t->ndim, t->shape, got));
}

#define ROW(id, of_labels, has_noise) {#id, of_labels, has_noise},
static const struct {
  const char *name;
  bool labels, noise;
} likelihoods[] = {PNI_SITE_LIKELIHOODS(ROW)};
#undef ROW

static pn_status set_likelihood(C *c, const pn_site_options *o, pni_site_problem *p) {
  int kind = 0;
  while (kind < PNI_SITE_NUM_LIKELIHOODS && !(o->likelihood && strcmp(o->likelihood, likelihoods[kind].name) == 0))
    kind++;
  if (kind == PNI_SITE_NUM_LIKELIHOODS)
    return pni_fail(c, PN_MISSING, "%s: likelihood must be normal, bernoulli or categorical, got %s", where,
                    o->likelihood ? o->likelihood : "none");
  p->likelihood = (pni_site_likelihood)kind;
  p->noise_scale = likelihoods[kind].noise ? o->noise_scale : 1;
  if (!(p->noise_scale > 0) || !isfinite(p->noise_scale))
    return pni_fail(c, PN_DOMAIN, "%s: noise_scale must be a positive number, got %g", where, o->noise_scale);
  return PN_OK;
}

static pn_status check_targets(C *c, const pni_site_problem *p, const pn_tensor *x, const pn_tensor *y) {
  int64_t out = p->layer[p->num_layers - 1].out;
  if (!likelihoods[p->likelihood].labels) return expect(c, "y", y, x->dtype, p->num_data, out);
  if (expect(c, "y", y, PN_INT64, p->num_data, -1)) return c->status;
  for (int64_t n = 0; n < p->num_data; n++) {
    int64_t label = ((const int64_t *)pni_data(y))[n * y->stride[0]];
    if (label < 0 || label >= out)
      return pni_fail(c, PN_DOMAIN, "%s: y must be classes from 0 to %lld, got %lld", where, (long long)out - 1,
                      (long long)label);
  }
  return PN_OK;
}

static pn_status check(C *c, const pn_site_options *o, const pn_tensor *x, const pn_tensor *y, pni_site_problem *p) {
  const int64_t most = (int64_t)1 << 58;
  char got[PNI_SHAPE_TEXT];
  if (!x || !y) return pni_fail(c, PN_STATE, "%s: x and y must be given", where);
  if (pni_refuse_capture(c, where, "call it outside")) return c->status;
  if (set_layers(c, o, p) || set_likelihood(c, o, p)) return c->status;
  if (!pni_is_float(x))
    return pni_fail(c, PN_DTYPE, "%s: x must be float64 or float32, got %s", where, pn_dtype_name((pn_dtype)x->dtype));
  if (x->ndim != 2 || x->shape[0] == 0 || x->shape[1] != p->layer[0].in)
    return pni_fail(c, PN_SHAPE, "%s: x must have shape [N, %lld] with N > 0, got %s", where, (long long)p->layer[0].in,
                    pni_shape_text(x->ndim, x->shape, got));
  p->num_data = x->shape[0];
  if (expect(c, "mean", o->mean, x->dtype, p->weights, -1) || expect(c, "scale", o->scale, x->dtype, p->weights, -1) ||
      check_targets(c, p, x, y) || (o->weights && expect(c, "weights", o->weights, x->dtype, p->num_data, -1)))
    return c->status;
  if (o->draws < 1 || o->draws > most / (p->weights + 1))
    return pni_fail(c, PN_DOMAIN, "%s: draws must be from 1 to %lld, got %lld", where,
                    (long long)(most / (p->weights + 1)), (long long)o->draws);
  if (o->antithetic && o->draws % 2)
    return pni_fail(c, PN_DOMAIN, "%s: draws must be even with antithetic, got %lld", where, (long long)o->draws);
  p->draws = o->draws;
  p->antithetic = o->antithetic != 0;
  return PN_OK;
}

/* ---- the problem ---- */

static double number(const void *array, int dtype, int64_t i) {
  return dtype == PN_FLOAT64 ? ((const double *)array)[i] : (double)((const float *)array)[i];
}
static void put(void *array, int dtype, int64_t i, double v) {
  if (dtype == PN_FLOAT64)
    ((double *)array)[i] = v;
  else
    ((float *)array)[i] = (float)v;
}

/* Loops over all weights: `from` their place in the order of the parameters, `to` by panels. */
#define EACH_WEIGHT(p, from, to)                                                                                       \
  for (int layer = 0; layer < (p)->num_layers; layer++)                                                                \
    for (int64_t i = 0; i < (p)->layer[layer].rows; i++)                                                               \
      for (int64_t j = 0, from, to;                                                                                    \
           j < (p)->layer[layer].out && (from = (p)->layer[layer].at + i * (p)->layer[layer].out + j,                  \
                                        to = (p)->layer[layer].at + pni_site_place(&(p)->layer[layer], i, j), true);   \
           j++)

static pn_status set_weights(C *c, pni_site_problem *p, operands *a) {
  int dtype = a->x->dtype;
  size_t each = (size_t)p->weights * pni_itemsize(a->x);
  if (!(a->weights = pni_alloc_array(c, 3, each))) return c->status;
  char *mean = a->weights, *scale = mean + each, *slant = scale + each;
  EACH_WEIGHT(p, from, to) {
    double m = number(pni_data(a->mean), dtype, from), s = number(pni_data(a->scale), dtype, from);
    if (!(s > 0)) return pni_fail(c, PN_DOMAIN, "%s: scale must be positive, got %g", where, s);
    put(mean, dtype, to, m);
    put(scale, dtype, to, s);
    put(slant, dtype, to, (m * m / s - s) / 2);
  }
  p->mean = mean;
  p->scale = scale;
  p->slant = slant;
  return PN_OK;
}

static pn_status prepare(C *c, const pn_site_options *o, const pn_tensor *x, const pn_tensor *y, pn_rng *rng,
                         pni_site_problem *p, operands *a) {
  if (!(a->x = pni_contiguous(c, x)) || !(a->y = pni_contiguous(c, y)) || !(a->mean = pni_contiguous(c, o->mean)) ||
      !(a->scale = pni_contiguous(c, o->scale)))
    return c->status;
  if (o->weights && !(a->exponent = pni_contiguous(c, o->weights))) return c->status;
  if (set_weights(c, p, a)) return c->status;
  p->x = pni_data(a->x);
  p->y = pni_data(a->y);
  p->exponent = a->exponent ? pni_data(a->exponent) : NULL;
  uint64_t groups = (uint64_t)((p->draws + PNI_SITE_LANES - 1) / PNI_SITE_LANES);
  pni_philox at =
      pni_rng_reserve(c, rng,
                      pni_fill_positions(x->dtype == PN_FLOAT64 ? PNI_FILL_NORMAL_F64 : PNI_FILL_NORMAL_F32,
                                         groups * PNI_SITE_LANES / (p->antithetic ? 2 : 1) * (uint64_t)p->weights));
  p->key = at.key;
  p->position = at.position;
  return PN_OK;
}

static void release(C *c, operands *a) {
  pn_tensor_unref(a->x);
  pn_tensor_unref(a->y);
  pn_tensor_unref(a->mean);
  pn_tensor_unref(a->scale);
  pn_tensor_unref(a->exponent);
  pni_free(c, a->weights);
}

/* ---- results ---- */

/* Natural parameters of one site, or of all together, from sums over draws of g and g eps; what the site says of the
 * posterior by the way. x: inputs of the one datum; then the sum of g of the first layer's first input has a factor 1,
 * and it is that of all inputs but for theirs. NULL: sums of all data. */
static double finish(const pni_site_problem *p, int dtype, const double *sum, const double *product, const void *x,
                     int64_t row, const pn_sites *out) {
  double all = 0, draws = (double)p->draws;
  void *eta = pni_data(out->precision_mean), *lambda = pni_data(out->precision);
  EACH_WEIGHT(p, to, at) {
    double m = number(p->mean, dtype, at), s = number(p->scale, dtype, at), g = sum[at];
    if (x && layer == 0) {
      g = sum[pni_site_place(&p->layer[0], 0, j)];
      if (i < p->layer[0].in) g *= number(x, dtype, i);
    }
    double l = -product[at] / (draws * s), e = g / draws + l * m;
    put(eta, dtype, row * p->weights + to, e);
    put(lambda, dtype, row * p->weights + to, l);
    all += e * m - l * (m * m + s * s) / 2;
  }
  return all;
}

/* All data at once: 2 N + 2 P sums. */
static pn_status total(C *c, pni_site_problem *p, int dtype, size_t budget, const pn_sites *out) {
  int64_t count = pni_plus(pni_times(2, p->num_data), pni_times(2, p->weights));
  double *sums = pni_calloc_array(c, count, sizeof *sums);
  if (!sums) return c->status;
  pni_site_sums s = {.value = sums, .site = sums + p->num_data, .sum = sums + 2 * p->num_data};
  s.product = s.sum + p->weights;
  p->totals = true;
  if (pni_site_run(c, p, dtype, budget, &s) == PN_OK) {
    finish(p, dtype, s.sum, s.product, NULL, 0, out);
    for (int64_t n = 0; n < p->num_data; n++) {
      put(pni_data(out->expected_log_likelihood), dtype, n, s.value[n] / (double)p->draws);
      put(pni_data(out->expected_log_site), dtype, n, s.site[n] / (double)p->draws);
    }
  }
  pni_free(c, sums);
  return c->status;
}

typedef struct {
  const pni_site_problem *p;
  const pni_site_sums *s;
  const pn_sites *out;
  int64_t first;
  int dtype;
} finishing;
enum { FINISHED = 100000 }; /* weights that a thread finishes at a time, at least */

/* Results of data begin .. end - 1 of a part. */
static void finish_some(void *data, int64_t begin, int64_t end) {
  const finishing *f = data;
  const pni_site_problem *p = f->p;
  size_t row = (size_t)p->layer[0].in * pn_dtype_size((pn_dtype)f->dtype);
  for (int64_t k = begin; k < end; k++) {
    const double *own = f->s->each + 2 * k * p->weights;
    const char *x = (const char *)p->x + (size_t)k * row;
    double says = finish(p, f->dtype, own, own + p->weights, x, f->first + k, f->out);
    put(pni_data(f->out->expected_log_likelihood), f->dtype, f->first + k, f->s->value[k] / (double)p->draws);
    put(pni_data(f->out->expected_log_site), f->dtype, f->first + k, says);
  }
}

/* Data first .. first + n - 1 of the problem. */
static pn_status some(C *c, const pni_site_problem *all, int dtype, size_t budget, int64_t first, int64_t n,
                      double *sums, const pn_sites *out) {
  size_t real = pn_dtype_size((pn_dtype)dtype);
  pni_site_problem p = *all;
  bool labels = likelihoods[p.likelihood].labels;
  int64_t width = labels ? 1 : p.layer[p.num_layers - 1].out;
  p.num_data = n;
  p.x = (const char *)p.x + (size_t)(first * p.layer[0].in) * real;
  p.y = (const char *)p.y + (size_t)(first * width) * (labels ? sizeof(int64_t) : real);
  if (p.exponent) p.exponent = (const char *)p.exponent + (size_t)first * real;
  memset(sums, 0, (size_t)(n * (2 * p.weights + 1)) * sizeof(double));
  pni_site_sums s = {.value = sums, .each = sums + n};
  if (pni_site_run(c, &p, dtype, budget, &s)) return c->status;
  return pni_parallel(c, n, 1 + FINISHED / p.weights, finish_some,
                      &(finishing){.p = &p, .s = &s, .out = out, .first = first, .dtype = dtype});
}

/* As many data at a time as the budget has sums for; each part draws the same weights. */
static pn_status one_by_one(C *c, pni_site_problem *p, int dtype, size_t budget, const pn_sites *out) {
  size_t own = (size_t)(2 * p->weights + 1) * sizeof(double), datum = own + pni_site_held(p, dtype);
  int64_t n = (int64_t)(budget / datum);
  if (n < 4) n = 4;
  if (n > p->num_data) n = p->num_data;
  double *sums = pni_alloc_array(c, n, own);
  if (!sums) return c->status;
  for (int64_t first = 0; first < p->num_data && !pni_failed(c); first += n)
    some(c, p, dtype, budget, first, p->num_data - first < n ? p->num_data - first : n, sums, out);
  pni_free(c, sums);
  return c->status;
}

/* Where memory is limited, a quarter of what is left. */
static size_t room_of(const C *c) {
  size_t used = pn_context_memory(c, NULL), left = c->limit > used ? (c->limit - used) / 4 : 0;
  return c->limit && left < DEFAULT_BUDGET ? left + 1 : DEFAULT_BUDGET;
}

static pn_tensor *result(C *c, int dtype, int ndim, const int64_t *shape) {
  pni_spec s = {.dtype = dtype, .ndim = ndim};
  memcpy(s.shape, shape, (size_t)ndim * sizeof *shape);
  return pni_failed(c) ? NULL : pni_scoped(c, pni_tensor_new(c, &s));
}

pn_status pn_gaussian_sites(pn_context *c, const pn_site_options *o, pn_tensor *x, pn_tensor *y, pn_rng *rng,
                            pn_sites *out) {
  if (!PNI_GIVEN(c, "gaussian_sites", o, out)) return c->status;
  pni_site_problem p = {0};
  operands a = {0};
  pn_sites made;
  if (pni_failed(c) || check(c, o, x, y, &p)) return c->status;
  int64_t shape[] = {p.num_data, p.weights};
  made.expected_log_likelihood = result(c, x->dtype, 1, shape);
  made.expected_log_site = result(c, x->dtype, 1, shape);
  made.precision_mean = result(c, x->dtype, o->each ? 2 : 1, o->each ? shape : shape + 1);
  made.precision = result(c, x->dtype, o->each ? 2 : 1, o->each ? shape : shape + 1);
  size_t budget = o->budget ? o->budget : room_of(c);
  if (!pni_failed(c) && prepare(c, o, x, y, rng, &p, &a) == PN_OK) {
    if (o->each)
      one_by_one(c, &p, x->dtype, budget, &made);
    else
      total(c, &p, x->dtype, budget, &made);
  }
  release(c, &a);
  if (!pni_failed(c))
    *out = made;
  else if (p.draws && p.key)
    pni_rng_or_default(c, rng)->state = (pni_philox){p.key, p.position};
  return c->status;
}
