/*
** natural_gaussian.c: the factors of natural_gaussian.h. With eta = precision_mean and Lambda = precision,
**   product (eta_a + eta_b, Lambda_a + Lambda_b),  quotient by differences,  power t (t eta, t Lambda)
**   log Z = log int r = eta . Lambda^-1 eta / 2 + n log(2 pi) / 2 - log det(Lambda) / 2,  Lambda positive
**   E_q[log r] = eta . m - (m . Lambda m + tr(Lambda S)) / 2  for q of mean m and covariance S
** (Wainwright & Jordan 2008, sec. 3; Minka 2001 for sites.)
*/
#include "natural_gaussian.h"
#include <string.h>
#include "../formula.h"

typedef pn_natural N;

static const char *const forms[] = {"scalar", "diagonal", "full"};

static int eta_rank(const N *s) { return s->form == PNI_SCALAR ? 0 : 1; }
static int lambda_rank(const N *s) { return s->form == PNI_FULL ? 2 : eta_rank(s); }

/* ---- references ---- */

pn_natural *pn_natural_ref(N *s) {
  if (s) s->refs++;
  return s;
}

void pn_natural_unref(N *s) {
  if (!s || --s->refs > 0) return;
  pn_context *c = s->ctx;
  pn_tensor_unref(s->precision_mean);
  pn_tensor_unref(s->precision);
  pni_free(c, s);
  pni_object_died(c);
}

/* Of tensors that fit each other. */
static N *make(C *c, pni_natural_form form, T *eta, T *lambda) {
  N *s = eta && lambda ? pni_calloc(c, sizeof *s) : NULL;
  if (!s) return NULL;
  *s = (N){.refs = 1, .ctx = c, .form = form};
  s->precision_mean = pn_tensor_ref(eta);
  s->precision = pn_tensor_ref(lambda);
  pni_object_born(c);
  return s;
}

/* ---- making ---- */

static pn_status check_shapes(C *c, const N *s) {
  const T *eta = s->precision_mean, *lambda = s->precision;
  int re = eta_rank(s), rl = lambda_rank(s);
  char a[PNI_SHAPE_TEXT], b[PNI_SHAPE_TEXT];
  if (!pni_is_float(eta) || lambda->dtype != eta->dtype)
    return pni_fail(c, PN_DTYPE, "natural: parameters must have one float dtype, got %s and %s",
                    pn_dtype_name((pn_dtype)eta->dtype), pn_dtype_name((pn_dtype)lambda->dtype));
  bool fits = eta->ndim >= re && lambda->ndim >= rl;
  for (int i = 0; fits && i < rl; i++) fits = lambda->shape[lambda->ndim - 1 - i] == eta->shape[eta->ndim - 1];
  if (!fits)
    return pni_fail(c, PN_SHAPE, "natural: precision must fit a %s precision_mean of shape %s, got shape %s",
                    forms[s->form], pni_shape_text(eta->ndim, eta->shape, a),
                    pni_shape_text(lambda->ndim, lambda->shape, b));
  T head = {.ndim = eta->ndim - re}, tail = {.ndim = lambda->ndim - rl};
  memcpy(head.shape, eta->shape, sizeof head.shape);
  memcpy(tail.shape, lambda->shape, sizeof tail.shape);
  pni_spec joint;
  return pni_broadcast(c, "natural: batches", &head, &tail, &joint);
}

pn_natural *pn_natural_new(C *c, const char *form, T *precision_mean, T *precision) {
  if (!PNI_GIVEN(c, "natural_new", form, precision_mean, precision)) return NULL;
  for (int k = 0; k < 3; k++) {
    if (strcmp(form, forms[k]) != 0) continue;
    N *s = make(c, (pni_natural_form)k, precision_mean, precision);
    if (s && check_shapes(c, s) == PN_OK) return s;
    pn_natural_unref(s);
    return NULL;
  }
  pni_fail(c, PN_MISSING, "natural: form must be scalar, diagonal or full, got '%s'", form);
  return NULL;
}

static T *mv(C *c, T *m, T *v) { return pn_squeeze(c, pn_matmul(c, m, pn_unsqueeze(c, v, -1)), -1); }

pn_natural *pn_natural_of(C *c, D *d) {
  if (!PNI_GIVEN(c, "natural_of", d)) return NULL;
  bool normal = d->kind == &pni_dist_normal && d->moved <= 1;
  bool joint = d->kind == &pni_dist_multivariate_normal && d->moved == 0;
  if (!normal && !joint) {
    pni_fail(c, PN_MISSING, "natural: there are no natural parameters of %s with %d event axes", d->kind->name,
             d->event_ndim);
    return NULL;
  }
  size_t mark = pn_scope_open(c);
  T *m = pn_dist_mean(c, d), *lambda;
  if (joint)
    lambda = pn_dist_param(c, d, "precision_matrix");
  else
    lambda = pn_reciprocal(c, pn_dist_variance(c, d));
  N *s = make(c,
              joint      ? PNI_FULL
              : d->moved ? PNI_DIAGONAL
                         : PNI_SCALAR,
              joint ? mv(c, lambda, m) : pn_mul(c, lambda, m), lambda);
  pn_scope_close(c, mark);
  return s;
}

/* ---- asking ---- */

const char *pn_natural_form(const N *s) { return s ? forms[s->form] : NULL; }
pn_tensor *pn_natural_precision(const N *s) { return s ? s->precision : NULL; }
pn_tensor *pn_natural_precision_mean(const N *s) { return s ? s->precision_mean : NULL; }

/* ---- arithmetic ---- */

static T *matrix(C *c, const N *s) { return s->form == PNI_FULL ? s->precision : pn_diag_embed(c, s->precision); }

/* a and sign b added; a diagonal one joins a full one as a matrix. */
static N *combine(C *c, const N *a, const N *b, double sign) {
  if (!a || !b || pni_failed(c)) return NULL;
  if ((a->form == PNI_SCALAR) != (b->form == PNI_SCALAR)) {
    pni_fail(c, PN_SHAPE, "natural: factors must be of numbers or of vectors alike, got %s and %s", forms[a->form],
             forms[b->form]);
    return NULL;
  }
  bool same = a->form == b->form;
  size_t mark = pn_scope_open(c);
  T *la = same ? a->precision : matrix(c, a), *lb = same ? b->precision : matrix(c, b);
  T *eta = sign > 0 ? pn_add(c, a->precision_mean, b->precision_mean) : pn_sub(c, a->precision_mean, b->precision_mean);
  N *s = make(c, same ? a->form : PNI_FULL, eta, sign > 0 ? pn_add(c, la, lb) : pn_sub(c, la, lb));
  pn_scope_close(c, mark);
  return s;
}

pn_natural *pn_natural_product(C *c, const N *a, const N *b) {
  if (!PNI_GIVEN(c, "natural_product", a, b)) return NULL;
  return combine(c, a, b, 1);
}
pn_natural *pn_natural_quotient(C *c, const N *a, const N *b) {
  if (!PNI_GIVEN(c, "natural_quotient", a, b)) return NULL;
  return combine(c, a, b, -1);
}

pn_natural *pn_natural_power(C *c, const N *a, T *exponent) {
  if (!PNI_GIVEN(c, "natural_power", a, exponent)) return NULL;
  size_t mark = pn_scope_open(c);
  T *te = exponent, *tl = exponent;
  for (int i = 0; i < eta_rank(a); i++) te = pn_unsqueeze(c, te, -1);
  for (int i = 0; i < lambda_rank(a); i++) tl = pn_unsqueeze(c, tl, -1);
  N *s = make(c, a->form, pn_mul(c, te, a->precision_mean), pn_mul(c, tl, a->precision));
  pn_scope_close(c, mark);
  return s;
}

/* ---- values ---- */

static T *over_vector(C *c, const N *s, T *t) { return s->form == PNI_SCALAR ? t : pn_sum(c, t, LAST, 0); }

/* Lambda x */
static T *times_precision(C *c, const N *s, T *x) {
  return s->form == PNI_FULL ? mv(c, s->precision, x) : pn_mul(c, s->precision, x);
}

pn_tensor *pn_natural_log_factor(C *c, const N *s, T *x) {
  if (!PNI_GIVEN(c, "natural_log_factor", s, x)) return NULL;
  T *half = times(c, times_precision(c, s, x), 0.5);
  return over_vector(c, s, pn_mul(c, x, pn_sub(c, s->precision_mean, half)));
}

/* PN_DOMAIN unless Lambda is positive (definite). */
static pn_status require_positive(C *c, const N *s, const char *where) {
  const pni_constraint *k = s->form == PNI_FULL ? &pni_constraint_positive_definite : &pni_constraint_positive;
  return pni_constraint_require(c, k, where, "precision", s->precision);
}

/* Lambda^-1 eta; lower receives the Cholesky factor of a full Lambda. */
static T *location(C *c, const N *s, T **lower) {
  if (s->form != PNI_FULL) return pn_div(c, s->precision_mean, s->precision);
  *lower = pn_cholesky(c, s->precision);
  return pn_squeeze(c, pn_cholesky_solve(c, *lower, pn_unsqueeze(c, s->precision_mean, -1)), -1);
}

pn_tensor *pn_natural_log_normaliser(C *c, const N *s) {
  if (!PNI_GIVEN(c, "natural_log_normaliser", s) || require_positive(c, s, "log_normaliser")) return NULL;
  T *lower = NULL, *m = location(c, s, &lower);
  T *half = times(c, over_vector(c, s, pn_mul(c, s->precision_mean, m)), 0.5);
  double n = s->form == PNI_SCALAR ? 1 : (double)s->precision_mean->shape[s->precision_mean->ndim - 1];
  T *log_det = s->form == PNI_FULL ? pn_sum(c, pn_log(c, pn_diagonal(c, lower)), LAST, 0)
                                   : times(c, over_vector(c, s, pn_log(c, s->precision)), 0.5);
  return plus(c, pn_sub(c, half, log_det), n * LOG_ROOT_TWO_PI);
}

/* tr(Lambda S) of a full Lambda, S = L L^T or a diagonal of variances */
static T *trace(C *c, const N *s, D *q) {
  if (q->kind != &pni_dist_multivariate_normal)
    return pn_sum(c, pn_mul(c, pn_diagonal(c, s->precision), pn_dist_variance(c, q)), LAST, 0);
  T *l = pn_dist_param(c, q, "scale_tril");
  return pn_sum(c, pn_mul(c, pn_matmul(c, s->precision, l), l), (pn_axes){2, {-2, -1}}, 0);
}

pn_tensor *pn_natural_expected_log(C *c, const N *s, D *q) {
  if (!PNI_GIVEN(c, "natural_expected_log", s, q)) return NULL;
  if (q->event_ndim != eta_rank(s)) {
    pni_fail(c, PN_SHAPE, "expected_log: %s must have %d event axes for a %s factor, got %d", q->kind->name,
             eta_rank(s), forms[s->form], q->event_ndim);
    return NULL;
  }
  T *m = pn_dist_mean(c, q), *at_mean = pn_natural_log_factor(c, s, m);
  T *spread = s->form == PNI_FULL ? trace(c, s, q) : over_vector(c, s, pn_mul(c, s->precision, pn_dist_variance(c, q)));
  return pn_sub(c, at_mean, times(c, spread, 0.5));
}

/* ---- as a distribution ---- */

static pn_dist *joint(C *c, const N *s) {
  T *lower = NULL, *m = location(c, s, &lower);
  static const char *const names[] = {"loc", "precision_matrix"};
  return m ? pn_dist_new(c, "multivariate_normal", 2, names, (T *[]){m, s->precision}) : NULL;
}

pn_dist *pn_natural_to_dist(C *c, const N *s) {
  if (!PNI_GIVEN(c, "natural_to_dist", s)) return NULL;
  size_t mark = pn_scope_open(c);
  pn_dist *d = NULL, *base = NULL;
  if (require_positive(c, s, "to_distribution") == PN_OK) {
    if (s->form == PNI_FULL)
      d = joint(c, s);
    else
      base = pn_dist_new(c, "normal", 2, NULL, (T *[]){location(c, s, NULL), pn_rsqrt(c, s->precision)});
    if (base) d = pn_dist_independent(c, base, eta_rank(s));
  }
  pn_dist_unref(base);
  pn_scope_close(c, mark);
  return d;
}
