/*
** constraint.c: the sets, and checking tensors against them one member at a time.
*/
#include "constraint.h"
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "../autodiff/op/op.h"

static const pni_constraint *const rows[] = {
#define X(name) &pni_constraint_##name,
#include "constraint.def"
#undef X
};

int pni_constraint_count(void) { return (int)(sizeof rows / sizeof rows[0]); }
const pni_constraint *pni_constraint_at(int i) { return i >= 0 && i < pni_constraint_count() ? rows[i] : NULL; }

/* ---- walking over the members of a tensor ---- */

/* Position of the first non-member (with a mask: of any), or the number of members if there is none; -1 with the reason
 * in c. mask (may be NULL) receives one byte per member. */
static int64_t walk(pn_context *c, const pni_constraint *k, const pn_tensor *x, uint8_t *mask) {
  const int64_t *size = x->shape + x->ndim - k->rank;
  int64_t each = pni_count(k->rank, size), n = pni_count(x->ndim - k->rank, x->shape), first = n;
  if (k->numbers && pni_is_float(x)) {
    pn_tensor *d = pni_contiguous(c, x);
    int64_t bad = d ? pni_scan(k->numbers, (pn_dtype)x->dtype, pni_data(d), n, mask) : 0;
    pn_tensor_unref(d);
    if (!d || bad == 0 || mask) return d ? n - bad : -1;
  }
  if (k->plain && pni_is_float(x) && n > 0 && each > 0) {
    pn_tensor *d = pni_contiguous(c, x);
    bool all = d && pni_all_plain(k->plain, x->dtype, pni_data(d), n, each);
    pn_tensor_unref(d);
    if (all && mask) memset(mask, 1, (size_t)n);
    if (!d || all) return d ? n : -1;
  }
  bool direct = x->dtype == PN_FLOAT64, copies = direct && k->rank > 0;
  pni_spec spec = pni_spec_of(x), one = {.dtype = PN_FLOAT64, .ndim = 1, .shape = {each}};
  spec.dtype = PN_FLOAT64;
  pn_tensor *d = direct ? pni_contiguous(c, x) : pni_tensor_new(c, &spec);
  pn_tensor *scratch = d && copies ? pni_tensor_new(c, &one) : NULL; /* `holds` may overwrite */
  if (!d || (copies && !scratch) || (!direct && pni_copy(c, d, x))) {
    pn_tensor_unref(scratch);
    pn_tensor_unref(d);
    return -1;
  }
  double *v = pni_data(d), *own = scratch ? pni_data(scratch) : NULL;
  for (int64_t i = n - 1; i >= 0; i--) {
    double *member = v + i * each;
    if (own) member = memcpy(own, member, (size_t)each * sizeof *own);
    bool ok = k->holds(member, size);
    if (mask) mask[i] = ok;
    if (!ok) first = i;
  }
  pn_tensor_unref(scratch);
  pn_tensor_unref(d);
  return first;
}

/* A NaN without its sign, which says nothing. */
static double shown(double v) { return isnan(v) ? fabs(v) : v; }

/* "-1" or "[0.5, 0.6, ...]" of member i. */
static void describe(const pni_constraint *k, const pn_tensor *x, int64_t i, char buf[96]) {
  int64_t each = pni_count(k->rank, x->shape + x->ndim - k->rank);
  if (k->rank == 0) {
    snprintf(buf, 96, "%.7g", shown(pni_element(x, i)));
    return;
  }
  int n = snprintf(buf, 96, "[");
  for (int64_t j = 0; j < each && j < 4; j++)
    n += snprintf(buf + n, (size_t)(96 - n), j ? ", %.4g" : "%.4g", shown(pni_element(x, i * each + j)));
  snprintf(buf + n, (size_t)(96 - n), each > 4 ? ", ...]" : "]");
}

static pn_status require(pn_context *c, const pni_constraint *k, const char *where, const char *role,
                         const pn_tensor *x) {
  int64_t n = pni_count(x->ndim - k->rank, x->shape), i = walk(c, k, x, NULL);
  if (i < 0 || i == n) return c->status;
  char got[96];
  describe(k, x, i, got);
  const char *must = k->rank == 0 && !isfinite(pni_element(x, i)) ? "finite" : k->must;
  return pni_fail(c, PN_DOMAIN, "%s: %s must be %s, got %s", where, role, must, got);
}

/* The check as an operation without a result, so that a plan makes it anew. attr: the constraint and the
 * two names, which are static. */
static const pni_constraint *constraint_of(const pni_call *call) {
  return (const pni_constraint *)(intptr_t)call->attr->i[0];
}

static pn_status check_rank(pn_context *c, const pni_call *call) {
  const pn_tensor *x = call->in[0];
  int rank = constraint_of(call)->rank;
  if (x->ndim >= rank) return PN_OK;
  return pni_fail(c, PN_SHAPE, "%s: tensor must have at least %d axes, got %d", call->op->name, rank, x->ndim);
}

static pn_status infer_check(pn_context *c, const pni_call *call, pni_spec *out) {
  *out = (pni_spec){.dtype = PN_BOOL};
  return check_rank(c, call);
}

static pn_status eval_check(pn_context *c, const pni_call *call, pn_tensor *out) {
  const int64_t *i = call->attr->i;
  *(uint8_t *)pni_data(out) = 1;
  return require(c, (const pni_constraint *)(intptr_t)i[0], (const char *)(intptr_t)i[1], (const char *)(intptr_t)i[2],
                 call->in[0]);
}

/* Numbers that lie there one after the other. */
static bool prepare_check(const pni_call *call, pn_tensor *out, pni_prepared *p) {
  const pn_tensor *x = call->in[0];
  p->plain.call = *call;
  p->plain.out = out;
  return constraint_of(call)->numbers && pni_is_float(x) && pni_is_contiguous(x);
}

static pn_status run_check(pn_context *c, const pni_prepared *p) {
  const pni_call *call = &p->plain.call;
  const pn_tensor *x = call->in[0];
  if (pni_scan(constraint_of(call)->numbers, (pn_dtype)x->dtype, pni_data(x), x->numel, NULL) == 0) return PN_OK;
  return eval_check(c, call, p->plain.out);
}

static const pni_op check = {.name = "require",
                             .flags = PNI_OP_ANY_DTYPE | PNI_OP_NODIFF | PNI_OP_HIDDEN | PNI_OP_CHECK,
                             .infer = infer_check,
                             .eval = eval_check,
                             .prepare = prepare_check,
                             .run = run_check};

pn_status pni_constraint_require(pn_context *c, const pni_constraint *k, const char *where, const char *role,
                                 const pn_tensor *x) {
  if (pni_failed(c)) return c->status;
  if (!c->recorder) return require(c, k, where, role, x);
  pni_attr a = {.ni = 3, .i = {(int64_t)(intptr_t)k, (int64_t)(intptr_t)where, (int64_t)(intptr_t)role}};
  pni_apply1(c, &check, (pn_tensor *)(uintptr_t)x, &a);
  return c->status;
}

/* The mask as an operation, so that a plan computes it anew. attr: the constraint. */
static pn_status infer_mask(pn_context *c, const pni_call *call, pni_spec *out) {
  if (check_rank(c, call)) return c->status;
  *out = pni_spec_of(call->in[0]);
  out->dtype = PN_BOOL;
  out->ndim -= constraint_of(call)->rank;
  return PN_OK;
}

static pn_status eval_mask(pn_context *c, const pni_call *call, pn_tensor *out) {
  return walk(c, constraint_of(call), call->in[0], pni_data(out)) < 0 ? c->status : PN_OK;
}

static const pni_op within = {.name = "within",
                              .flags = PNI_OP_ANY_DTYPE | PNI_OP_NODIFF | PNI_OP_HIDDEN,
                              .infer = infer_mask,
                              .eval = eval_mask};

/* The same of floats and a set of numbers, as a kernel. */
enum { MASK_BLOCK = 256 };
static void mask_row(pn_dtype dtype, const void *data, int64_t n, char *const *p, const int64_t *s) {
  const pni_constraint *k = (const pni_constraint *)(intptr_t) * (const int64_t *)data;
  const size_t size = pn_dtype_size(dtype);
  if (s[1] == 1) pni_scan(k->numbers, dtype, p[1], n, (uint8_t *)p[0]);
  for (int64_t at = 0; s[1] != 1 && at < n; at += MASK_BLOCK) {
    double room[MASK_BLOCK];
    int64_t some = n - at < MASK_BLOCK ? n - at : MASK_BLOCK;
    for (int64_t i = 0; i < some; i++)
      memcpy((char *)room + (size_t)i * size, p[1] + (at + i) * s[1] * (int64_t)size, size);
    pni_scan(k->numbers, dtype, room, some, (uint8_t *)p[0] + at);
  }
}
static void mask_f64(void *data, int64_t n, char *const *p, const int64_t *s) { mask_row(PN_FLOAT64, data, n, p, s); }
static void mask_f32(void *data, int64_t n, char *const *p, const int64_t *s) { mask_row(PN_FLOAT32, data, n, p, s); }

static const pni_op number_within = {.name = "within",
                                     .flags = PNI_OP_ANY_DTYPE | PNI_OP_NODIFF | PNI_OP_HIDDEN,
                                     .infer = infer_mask,
                                     .map = (const pni_map_kernel[4]){mask_f64, mask_f32}};

bool pni_constraint_all(const pni_constraint *k, const pn_tensor *x) {
  return k->numbers && pni_is_float(x) && pni_is_contiguous(x) &&
         pni_scan(k->numbers, (pn_dtype)x->dtype, pni_data(x), x->numel, NULL) == 0;
}

pn_tensor *pni_constraint_mask(pn_context *c, const pni_constraint *k, const pn_tensor *x) {
  pni_attr a = {.ni = 1, .i = {(int64_t)(intptr_t)k}};
  return pni_apply1(c, x && k->numbers && pni_is_float(x) ? &number_within : &within, (pn_tensor *)(uintptr_t)x, &a);
}

pn_tensor *pni_constraint_member(pn_context *c, const pni_constraint *k, pn_dtype dtype, const int64_t *size) {
  if (!k->member) return pn_full(c, dtype, k->rank, size, 1);
  pn_tensor *d = pn_zeros(c, PN_FLOAT64, k->rank, size);
  if (!d) return NULL;
  k->member(pni_data(d), size);
  return pn_cast(c, d, dtype);
}

/* ---- scalars ---- */

static bool real(double *x, const int64_t *size) { return (void)size, isfinite(*x); }
static bool extended_real(double *x, const int64_t *size) { return (void)size, !isnan(*x); }
static bool positive(double *x, const int64_t *size) { return (void)size, *x > 0 && isfinite(*x); }
static bool nonnegative(double *x, const int64_t *size) { return (void)size, *x >= 0 && isfinite(*x); }
static bool unit_interval(double *x, const int64_t *size) { return (void)size, *x >= 0 && *x <= 1; }
static bool open_unit_interval(double *x, const int64_t *size) { return (void)size, *x > 0 && *x < 1; }
static void half(double *x, const int64_t *size) { (void)size, *x = 0.5; }
static bool angle(double *x, const int64_t *size) { return (void)size, fabs(*x) <= PNI_ANGLE_HOLDS; }
static void zero(double *x, const int64_t *size) { (void)size, *x = 0; }
static bool boolean(double *x, const int64_t *size) { return (void)size, *x == 0 || *x == 1; }
static bool nonnegative_integer(double *x, const int64_t *size) {
  return (void)size, *x >= 0 && *x == floor(*x) && isfinite(*x);
}

/* ---- vectors ---- */

static bool real_vector(double *x, const int64_t *size) {
  for (int64_t i = 0; i < size[0]; i++)
    if (!isfinite(x[i])) return false;
  return true;
}

/* Unnormalised logarithms: -inf stands for weight zero, but not everywhere. */
static bool log_weights(double *x, const int64_t *size) {
  double best = -INFINITY;
  for (int64_t i = 0; i < size[0]; i++) {
    if (!(x[i] < INFINITY)) return false;
    best = fmax(best, x[i]);
  }
  return best > -INFINITY;
}

/* The tolerance allows for probabilities computed in float32. */
static bool positive_vector(double *x, const int64_t *size) {
  for (int64_t i = 0; i < size[0]; i++)
    if (!(x[i] > 0) || !isfinite(x[i])) return false;
  return true;
}

static bool simplex(double *x, const int64_t *size) {
  double sum = 0;
  for (int64_t i = 0; i < size[0]; i++) {
    if (!(x[i] >= 0)) return false;
    sum += x[i];
  }
  return fabs(sum - 1) <= 1e-5;
}

static void uniform_simplex(double *x, const int64_t *size) {
  for (int64_t i = 0; i < size[0]; i++) x[i] = 1 / (double)size[0];
}

/* ---- matrices ---- */

/* A row at a time without a branch inside. */
static bool lower_cholesky(double *x, const int64_t *size) {
  int64_t n = size[0];
  for (int64_t i = 0; i < n; i++) {
    const double *row = x + i * n;
    int bad = !(row[i] > 0);
    for (int64_t j = 0; j <= i; j++) bad |= !(fabs(row[j]) <= DBL_MAX);
    for (int64_t j = i + 1; j < n; j++) bad |= row[j] != 0;
    if (bad) return false;
  }
  return true;
}

/* Symmetric to rounding, and every pivot of its Cholesky factorisation (done in place) positive. */
static bool positive_definite(double *x, const int64_t *size) {
  int64_t n = size[0];
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j <= i; j++) {
      double a = x[i * n + j], b = x[j * n + i];
      if (!isfinite(a) || !(fabs(a - b) <= 1e-6 * (fabs(x[i * n + i]) + fabs(x[j * n + j])))) return false;
    }
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j <= i; j++) {
      double s = x[i * n + j];
      for (int64_t k = 0; k < j; k++) s -= x[i * n + k] * x[j * n + k];
      if (i == j && !(s > 0)) return false;
      x[i * n + j] = i == j ? 1 / sqrt(s) : s * x[j * n + j];
    }
  return true;
}

static void identity(double *x, const int64_t *size) {
  for (int64_t i = 0; i < size[0]; i++) x[i * size[0] + i] = 1;
}

/* ---- rows ---- */

#define ROW(id, text, rank_, discrete_, member_)                                                                       \
  const pni_constraint pni_constraint_##id = {                                                                         \
      .name = #id, .must = text, .rank = rank_, .discrete = discrete_, .holds = id, .member = member_};
/* A set of vectors. */
#define VECTOR(id, text, plain_, member_)                                                                              \
  const pni_constraint pni_constraint_##id = {                                                                         \
      .name = #id, .must = text, .rank = 1, .holds = id, .plain = plain_, .member = member_};
/* A set of numbers with its ends (both 0 where it is no interval); what follows are its `numbers`. */
#define NUMBER(id, text, discrete_, low_, high_, member_, ...)                                                         \
  const pni_constraint pni_constraint_##id = {.name = #id,                                                             \
                                              .must = text,                                                            \
                                              .discrete = discrete_,                                                   \
                                              .low = low_,                                                             \
                                              .high = high_,                                                           \
                                              .holds = id,                                                             \
                                              .numbers = &(const pni_numbers){__VA_ARGS__},                            \
                                              .member = member_};

NUMBER(real, "a finite number", false, -INFINITY, INFINITY, NULL, PNI_FINITE, 0, 0)
NUMBER(extended_real, "a number", false, 0, 0, NULL, PNI_CLOSED, -INFINITY, INFINITY)
NUMBER(positive, "positive", false, 0, INFINITY, NULL, PNI_ABOVE, 0, DBL_MAX)
NUMBER(nonnegative, "not negative", false, 0, INFINITY, NULL, PNI_CLOSED, 0, DBL_MAX)
NUMBER(unit_interval, "between 0 and 1", false, 0, 1, half, PNI_CLOSED, 0, 1)
NUMBER(open_unit_interval, "above 0 and below 1", false, 0, 1, half, PNI_ABOVE, 0, 1 - DBL_EPSILON / 2)
NUMBER(angle, "an angle from -pi to pi", false, -PNI_ANGLE_END, PNI_ANGLE_END, zero, PNI_CLOSED, -PNI_ANGLE_HOLDS,
       PNI_ANGLE_HOLDS)
NUMBER(boolean, "0 or 1", true, 0, 0, NULL, PNI_ENDS, 0, 1)
NUMBER(nonnegative_integer, "a whole number not below 0", true, 0, 0, NULL, PNI_WHOLE, 0, DBL_MAX)
VECTOR(log_weights, "logarithms below inf, not all -inf", &pni_plain_real, NULL)
VECTOR(real_vector, "a vector of finite numbers", &pni_plain_real, NULL)
VECTOR(positive_vector, "a vector of positive numbers", &pni_plain_positive, NULL)
VECTOR(simplex, "probabilities that sum to 1", &pni_plain_simplex, uniform_simplex)
ROW(lower_cholesky, "a lower triangular matrix with positive diagonal", 2, false, identity)
ROW(positive_definite, "a symmetric positive definite matrix", 2, false, identity)

/* Sets whose ends are the distribution's: it tests them in in_support. */
#define OPEN(id, text, discrete_, holds_, member_)                                                                     \
  const pni_constraint pni_constraint_##id = {                                                                         \
      .name = #id, .must = text, .discrete = discrete_, .holds = holds_, .member = member_};

OPEN(interval, "between the distribution's ends", false, real, NULL)
OPEN(half_line, "not below the distribution's lower end", false, real, NULL)
OPEN(point, "the distribution's point", true, real, NULL)
OPEN(integer_interval, "a whole number from 0 to the number of classes - 1", true, nonnegative_integer, zero)
OPEN(trials, "a whole number from 0 to the number of trials", true, nonnegative_integer, zero)
