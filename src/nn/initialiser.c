/*
** initialiser.c: the initialisers. The scaled ones draw with variance gain^2 / fan, where fan is the mean
** of both (xavier), half of the inputs (he) or the inputs (lecun).
*/
#include <math.h>
#include <string.h>
#include "initialiser.h"

static pn_tensor *affine(pn_context *c, pn_tensor *t, double scale, double shift) {
  size_t n = t ? (size_t)t->numel : 0; /* t is fresh: nobody else has seen it */
  for (size_t i = 0; i < n; i++) {
    if (t->dtype == PN_FLOAT64)
      ((double *)pni_data(t))[i] = shift + scale * ((double *)pni_data(t))[i];
    else
      ((float *)pni_data(t))[i] = (float)(shift + scale * (double)((float *)pni_data(t))[i]);
  }
  return (void)c, t;
}

static pn_tensor *gaussian(pn_context *c, const pni_init_call *a, double loc, double scale) {
  return affine(c, pn_randn(c, a->rng, a->dtype, a->ndim, a->shape), scale, loc);
}

static pn_tensor *box(pn_context *c, const pni_init_call *a, double low, double high) {
  return affine(c, pn_rand(c, a->rng, a->dtype, a->ndim, a->shape), high - low, low);
}

static pn_tensor *make_zeros(pn_context *c, const pni_init_call *a) { return pn_zeros(c, a->dtype, a->ndim, a->shape); }

static pn_tensor *make_constant(pn_context *c, const pni_init_call *a) {
  return pn_full(c, a->dtype, a->ndim, a->shape, a->option[0]);
}

static pn_tensor *make_normal(pn_context *c, const pni_init_call *a) {
  return gaussian(c, a, a->option[0], a->option[1]);
}

static pn_tensor *make_uniform(pn_context *c, const pni_init_call *a) { return box(c, a, a->option[0], a->option[1]); }

/* Variance gain^2 / fan, as a normal or as a uniform on +-sqrt(3 variance). */
static pn_tensor *scaled(pn_context *c, const pni_init_call *a, double fan) {
  double s = a->option[0] / sqrt(fan);
  return a->option[1] == 0 ? gaussian(c, a, 0, s) : box(c, a, -s * sqrt(3), s * sqrt(3));
}

static pn_tensor *make_xavier(pn_context *c, const pni_init_call *a) {
  return scaled(c, a, (a->fan_in + a->fan_out) / 2);
}

static pn_tensor *make_he(pn_context *c, const pni_init_call *a) { return scaled(c, a, a->fan_in / 2); }

static pn_tensor *make_lecun(pn_context *c, const pni_init_call *a) { return scaled(c, a, a->fan_in); }

/* Q of a normal matrix [shape[0], the rest], with the signs that make R's diagonal positive: uniform among those with
 * orthonormal rows or columns, whichever are fewer. */
static pn_tensor *make_orthogonal(pn_context *c, const pni_init_call *a) {
  int64_t rows = a->ndim > 1 ? a->shape[0] : 1, rest = 1;
  for (int i = a->ndim > 1; i < a->ndim; i++) rest *= a->shape[i];
  bool tall = rows >= rest;
  pn_tensor *q, *r, *g = pn_randn(c, a->rng, a->dtype, 2, tall ? (int64_t[]){rows, rest} : (int64_t[]){rest, rows});
  if (!g || g->numel == 0) return pn_reshape(c, g, a->ndim, a->shape);
  if (pn_qr(c, g, &q, &r)) return NULL;
  q = pn_mul(c, q, pn_mul(c, pn_sign(c, pn_diagonal(c, r)), pn_scalar(c, a->dtype, a->option[0])));
  return pn_contiguous(c, pn_reshape(c, tall ? q : pn_transpose(c, q, 0, 1), a->ndim, a->shape));
}

static const pni_option none[] = {{0}};
static const pni_option constant_options[] = {{"value", NULL, 0, -HUGE_VAL, HUGE_VAL, false, "of every element"}, {0}};
static const pni_option normal_options[] = {{"loc", NULL, 0, -HUGE_VAL, HUGE_VAL, false, "mean"},
                                            {"scale", NULL, 0.01, 0, HUGE_VAL, false, "standard deviation"},
                                            {0}};
static const pni_option uniform_options[] = {{"low", NULL, -0.05, -HUGE_VAL, HUGE_VAL, false, "lower end"},
                                             {"high", NULL, 0.05, -HUGE_VAL, HUGE_VAL, false, "upper end"},
                                             {0}};
static const pni_option orthogonal_options[] = {{"gain", NULL, 1, 0, HUGE_VAL, PNI_OPTION_CLOSED, "factor"}, {0}};
static const pni_option scaled_options[] = {
    {"gain", NULL, 1, 0, HUGE_VAL, false, "factor on the standard deviation"},
    {"distribution", "normal uniform", 0, 0, 0, false, "normal or uniform, of the same variance"},
    {0}};

const pni_initialiser pni_initialiser_zeros = {"zeros", NULL, "all zero", NULL, none, make_zeros};
const pni_initialiser pni_initialiser_constant = {"constant",       NULL,         "all `value`", NULL,
                                                  constant_options, make_constant};
const pni_initialiser pni_initialiser_normal = {
    "normal", NULL, "normal with mean loc and standard deviation scale", NULL, normal_options, make_normal};
const pni_initialiser pni_initialiser_uniform = {"uniform",       NULL,        "uniform from low to high", NULL,
                                                 uniform_options, make_uniform};
const pni_initialiser pni_initialiser_xavier = {
    "xavier", "glorot", "variance 2 gain^2 / (in + out)", "Glorot & Bengio 2010", scaled_options, make_xavier};
const pni_initialiser pni_initialiser_he = {
    "he", "kaiming", "variance 2 gain^2 / in, for relu", "He, Zhang, Ren & Sun 2015", scaled_options, make_he};
const pni_initialiser pni_initialiser_lecun = {
    "lecun", NULL, "variance gain^2 / in", "LeCun, Bottou, Orr & Mueller 1998", scaled_options, make_lecun};
const pni_initialiser pni_initialiser_orthogonal = {"orthogonal",
                                                    NULL,
                                                    "gain times orthonormal rows or columns of [first axis, the rest]",
                                                    "Saxe et al. 2014",
                                                    orthogonal_options,
                                                    make_orthogonal};

static const pni_initialiser *const rows[] = {
#define X(name) &pni_initialiser_##name,
#include "initialiser.def"
#undef X
};

int pni_initialiser_count(void) { return (int)(sizeof rows / sizeof rows[0]); }
const pni_initialiser *pni_initialiser_at(int i) { return i >= 0 && i < pni_initialiser_count() ? rows[i] : NULL; }

const pni_initialiser *pni_initialiser_find(const char *name) {
  for (int i = 0; name && i < pni_initialiser_count(); i++)
    if (strcmp(rows[i]->name, name) == 0 || (rows[i]->alias && strcmp(rows[i]->alias, name) == 0)) return rows[i];
  return NULL;
}

pn_tensor *pni_initialise(pn_context *c, int i, const pni_init_call *call) {
  double v[PNI_OPTIONS];
  pni_init_call a = *call;
  if (pni_options_read(c, rows[i]->name, rows[i]->options, NULL, v)) return NULL;
  a.option = v;
  return rows[i]->make(c, &a);
}

pn_tensor *pn_initialise(pn_context *c, const char *name, pn_rng *rng, pn_dtype dtype, int ndim, const int64_t *shape,
                         const pn_option *options) {
  if (!PNI_GIVEN(c, "initialise", name) || pni_refuse_capture(c, "initialise", "do it outside")) return NULL;
  const pni_initialiser *row = pni_initialiser_find(name);
  if (!row || dtype > PN_FLOAT32) {
    if (!row)
      pni_fail(c, PN_MISSING, "initialise: there is no initialiser '%s'", name);
    else
      pni_fail(c, PN_DTYPE, "%s: dtype must be float64 or float32, got %s", name, pn_dtype_name(dtype));
    return NULL;
  }
  double v[PNI_OPTIONS], window = 1;
  if (!pni_shape_given(c, "initialise", ndim, shape)) return NULL;
  if (pni_options_read(c, row->name, row->options, options, v)) return NULL;
  for (int i = 0; i < ndim - 2; i++) window *= (double)shape[i];
  pni_init_call call = {.rng = rng, .dtype = dtype, .ndim = ndim, .shape = shape, .option = v};
  call.fan_in = ndim < 1 ? 1 : window * (double)shape[ndim > 1 ? ndim - 2 : 0];
  call.fan_out = ndim < 1 ? 1 : window * (double)shape[ndim - 1];
  return row->make(c, &call);
}
