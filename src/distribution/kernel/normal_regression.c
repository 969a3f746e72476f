/*
** normal_regression.c: the log density of n independent normal numbers y under one scale s whose means are a linear
** form in few numbers v, its coefficients C and y being constants of a capture:
**   sum_i log N(y_i; (c + C v)_i, s) = -|M w|^2 / (2 s^2) - n (log s + log(2 pi) / 2),  M = [C | c - y], w = (v, 1).
** With M = Q R once and for all, |M w| = |R w|: a replay costs what R has, k (k + 1) / 2 numbers, and not what the data
** have. Orthogonal transformations are as exact as the sum they replace: the error of R is that of the data's last bits
** (Golub & Van Loan, Matrix Computations, 5.3), so the result is that of the sum to rounding, not to the bit.
*/
#include "density.h"
#include "density_kernel.h"
#include "normal_regression.h"
#include "../formula.h"
#include "../../autodiff/replay/replay.h"

enum { MOST_TERMS = 8, MOST = 64 };
/* Multiplications of the factorisation, which a capture pays once. */
enum { WORK = 1 << 27 };

/* ---- the operation: R [r, k + 1], scale, v...; attr: n. Its gradients under each other: scale, v... ---- */

enum { FACTOR, SCALE, FIRST };

typedef struct {
  int64_t n, k, rows;
  const double *r;
  double scale;
  double w[MOST + 1], u[MOST + 1]; /* (v, 1) and R (v, 1) */
  double square;                   /* |u|^2 */
} problem;

static pn_status infer(C *c, const pni_call *call, pni_spec *out) {
  const T *r = call->in[FACTOR], *scale = call->in[SCALE];
  int64_t k = 0;
  for (int i = FIRST; i < call->nin; i++) {
    k += call->in[i]->numel;
    if (call->in[i]->dtype != scale->dtype || call->in[i]->numel > MOST || k > MOST)
      return pni_fail(c, PN_SHAPE, "%s: at most %d numbers are possible, all of one type", call->op->name, MOST);
  }
  if (r->dtype != PN_FLOAT64 || r->ndim != 2 || r->shape[1] != k + 1 || r->shape[0] > k + 1 || scale->numel != 1 ||
      !pni_is_float(scale) || call->nin < FIRST + 1)
    return pni_fail(c, PN_SHAPE, "%s: needs a factor [.., %lld] and one scale", call->op->name, (long long)k + 1);
  *out = (pni_spec){.dtype = scale->dtype};
  return PN_OK;
}

static double number(const T *t) {
  return t->dtype == PN_FLOAT64 ? *(const double *)pni_data(t) : (double)*(const float *)pni_data(t);
}

/* Rows of R are zero before the diagonal. */
static void solve(const pni_call *call, problem *p) {
  const T *r = call->in[FACTOR];
  p->n = call->attr->i[0];
  p->rows = r->shape[0];
  p->k = r->shape[1] - 1;
  p->r = pni_data(r);
  p->scale = number(call->in[SCALE]);
  double *w = p->w;
  for (int i = FIRST; i < call->nin; i++) {
    const T *v = call->in[i];
    bool plain = v->dtype == PN_FLOAT64 && (v->numel == 1 || pni_is_contiguous(v));
    for (int64_t j = 0; j < v->numel; j++) *w++ = plain ? ((const double *)pni_data(v))[j] : pni_element(v, j);
  }
  *w = 1;
  p->square = 0;
  for (int64_t i = 0; i < p->rows; i++) {
    const double *row = p->r + i * (p->k + 1);
    double u = 0;
    for (int64_t j = i; j <= p->k; j++) u += row[j] * p->w[j];
    p->u[i] = u;
    p->square += u * u;
  }
}

static void write(T *out, int64_t i, double v) {
  if (out->dtype == PN_FLOAT64)
    ((double *)pni_data(out))[i] = v;
  else
    ((float *)pni_data(out))[i] = (float)v;
}

static pn_status eval(C *c, const pni_call *call, T *out) {
  problem p;
  solve(call, &p);
  double z = sqrt(p.square) / p.scale;
  write(out, 0, -0.5 * z * z - (double)p.n * (log(p.scale) + LOG_ROOT_TWO_PI));
  return c->status;
}

/* As the density of one number has it: what is infinitely far away has no slope. */
static pn_status eval_slopes(C *c, const pni_call *call, T *out) {
  problem p;
  pni_call of = *call;
  of.nin--;
  solve(&of, &p);
  double g = number(call->in[of.nin]), s = p.scale, z = sqrt(p.square) / s, factor = z < INFINITY ? -g / (s * s) : 0;
  if (isnan(z)) factor = NAN;
  write(out, 0, z < INFINITY || isnan(z) ? g * (z * z - (double)p.n) / s : 0);
  for (int64_t j = 0; j < p.k; j++) {
    double sum = 0;
    for (int64_t i = 0; i < p.rows && i <= j; i++) sum += p.r[i * (p.k + 1) + j] * p.u[i];
    write(out, j + 1, factor * sum);
  }
  return c->status;
}

static pn_status infer_slopes(C *c, const pni_call *call, pni_spec *out) {
  pni_call of = *call;
  of.nin--;
  if (of.nin < FIRST + 1 || infer(c, &of, out)) return pni_require_axes(c, call, "*");
  *out = (pni_spec){.dtype = call->in[SCALE]->dtype, .ndim = 1, .shape = {call->in[FACTOR]->shape[1]}};
  return PN_OK;
}

/* Numbers that a replay finds where they were. */
static bool prepare(const pni_call *call, T *out, pni_prepared *p) {
  p->plain.call = *call;
  p->plain.out = out;
  return true;
}
static pn_status run(C *c, const pni_prepared *p) { return eval(c, &p->plain.call, p->plain.out); }
static pn_status run_slopes(C *c, const pni_prepared *p) { return eval_slopes(c, &p->plain.call, p->plain.out); }

static const pni_op slopes = {.name = "normal_regression_slopes",
                              .flags = PNI_OP_HIDDEN | PNI_OP_NODIFF | PNI_OP_ANY_DTYPE,
                              .infer = infer_slopes,
                              .eval = eval_slopes,
                              .prepare = prepare,
                              .run = run_slopes};

/* Gradients that are differentiated again: of builders. */
static T *vjp(C *c, T *y, T *g, int k) {
  T *part[MOST_TERMS + 1], *s = pni_in(y, SCALE), *r = pn_cast(c, pni_in(y, FACTOR), (pn_dtype)s->dtype);
  int n = y->nin - FIRST;
  int64_t at = 0;
  for (int i = 0; i < n; i++) {
    part[i] = pn_reshape(c, pni_in(y, FIRST + i), 1, (int64_t[]){pni_in(y, FIRST + i)->numel});
    if (FIRST + i < k) at += pni_in(y, FIRST + i)->numel;
  }
  s = pn_reshape(c, s, 0, NULL);
  part[n] = pn_reshape(c, pni_like(c, s, 1), 1, (int64_t[]){1});
  T *u = pn_matmul(c, r, pn_concatenate(c, n + 1, part, 0)), *of = pni_in(y, k), *v;
  if (k == SCALE) {
    T *square = pn_sum(c, pn_square(c, pn_div(c, u, s)), PN_ALL, 0);
    v = pn_mul(c, g, pn_div(c, plus(c, square, -(double)y->attr->i[0]), s));
  } else {
    T *column = pn_transpose(c, pn_slice(c, r, 1, at, of->numel, 1), 0, 1);
    v = pn_mul(c, pn_neg(c, pn_div(c, g, pn_square(c, s))), pn_matmul(c, column, u));
  }
  return v ? pn_reshape(c, v, of->ndim, of->shape) : NULL;
}

static pn_status vjps(C *c, T *y, T *g, const bool *wanted, T **out) {
  T *in[MOST_TERMS + FIRST + 1];
  for (int k = 0; k < y->nin; k++) in[k] = pni_in(y, k);
  in[y->nin] = g;
  T *all = pni_apply(c, &slopes, y->nin + 1, in, &(pni_attr){.ni = 1, .i = {y->attr->i[0]}});
  int64_t at = 0;
  for (int k = SCALE; k < y->nin && all && !c->status; k++) {
    if (wanted[k]) out[k] = pn_reshape(c, pn_slice(c, all, 0, at, in[k]->numel, 1), in[k]->ndim, in[k]->shape);
    at += in[k]->numel;
  }
  return c->status;
}

static const pni_op op = {.name = "normal_regression",
                          .flags = PNI_OP_HIDDEN | PNI_OP_ANY_DTYPE,
                          .infer = infer,
                          .eval = eval,
                          .prepare = prepare,
                          .run = run,
                          .vjp = vjp,
                          .vjps = vjps};

/* ---- means that are linear ---- */

/* sign C v, C [n, numel of v], or [n] and one number v, or NULL for ones. */
typedef struct {
  T *coefficient, *v;
  double sign;
} term;

typedef struct {
  int64_t n, k;
  int terms;
  term term[MOST_TERMS];
  double *offset; /* [n] */
} form;

static bool is_constant(const C *c, const T *t) { return !pni_varies(c, t) && !(t->flags & PNI_REQUIRES_GRAD); }

/* May stand for each of n numbers: one number, or n along one axis. */
static bool spreads(const T *t, int64_t n) { return t->numel == 1 || (t->ndim == 1 && t->numel == n); }

static bool add_term(form *f, T *coefficient, T *v, double sign) {
  if (f->terms == MOST_TERMS || f->k + v->numel > MOST) return false;
  f->term[f->terms++] = (term){coefficient, v, sign};
  f->k += v->numel;
  return true;
}

/* Adds sign t to the form; false: it is none. */
static bool add_form(const C *c, form *f, T *t, double sign, int depth) {
  if (!spreads(t, f->n) || depth > 16) return false;
  if (is_constant(c, t)) {
    for (int64_t i = 0; i < f->n; i++) f->offset[i] += sign * pni_element(t, t->numel == 1 ? 0 : i);
    return true;
  }
  if (t->numel == 1) return add_term(f, NULL, t, sign);
  T *x = t->op ? t->in[0].t : NULL, *y = t->op && t->nin > 1 ? t->in[1].t : NULL;
  if (!x || t->ndim != 1) return false;
  if (t->op == &pni_op_neg) return add_form(c, f, x, -sign, depth + 1);
  if (t->op == &pni_op_add || t->op == &pni_op_sub)
    return add_form(c, f, x, sign, depth + 1) && add_form(c, f, y, t->op == &pni_op_add ? sign : -sign, depth + 1);
  if (t->op == &pni_op_mul) {
    T *coefficient = is_constant(c, x) ? x : y, *v = coefficient == x ? y : x;
    return is_constant(c, coefficient) && spreads(coefficient, f->n) && v->numel == 1 &&
           add_term(f, coefficient, v, sign);
  }
  return t->op == &pni_op_matmul && x->ndim == 2 && y->ndim == 1 && is_constant(c, x) && add_term(f, x, y, sign);
}

/* Column `at` of M and on. */
static void fill(const form *f, const term *t, double *m, int64_t at) {
  int64_t k = t->v->numel;
  for (int64_t i = 0; i < f->n; i++)
    for (int64_t j = 0; j < k; j++) {
      const T *x = t->coefficient;
      double v = !x ? 1 : x->ndim == 2 ? pni_element(x, i * k + j) : pni_element(x, x->numel == 1 ? 0 : i);
      m[i * (f->k + 1) + at + j] = t->sign * v;
    }
}

/* M [n, k + 1]; NULL with no failure if it is not finite. */
static T *matrix(C *c, const form *f) {
  pni_spec spec = {.dtype = PN_FLOAT64, .ndim = 2, .shape = {f->n, f->k + 1}};
  T *t = pni_scoped(c, pni_tensor_new(c, &spec));
  if (!t) return NULL;
  double *m = pni_data(t);
  int64_t at = 0;
  for (int i = 0; i < f->terms; i++) {
    fill(f, &f->term[i], m, at);
    at += f->term[i].v->numel;
  }
  for (int64_t i = 0; i < f->n; i++) m[i * (f->k + 1) + f->k] = f->offset[i];
  for (int64_t i = 0; i < t->numel; i++)
    if (!isfinite(m[i])) return NULL;
  return t;
}

/* The shorter way for the form, whose offset is c - y. */
static T *by_factor(C *c, const form *f, T *loc, T *scale) {
  T *m = matrix(c, f), *q, *r, *in[MOST_TERMS + FIRST] = {NULL, scale}, *v[MOST_TERMS];
  if (!m || pn_qr(c, m, &q, &r)) return NULL;
  in[FACTOR] = pn_contiguous(c, pn_detach(c, r));
  for (int i = 0; i < f->terms; i++) v[i] = in[FIRST + i] = f->term[i].v;
  if (pni_record_check_instead(c, loc, f->terms, v)) return NULL;
  return pni_apply(c, &op, FIRST + f->terms, in, &(pni_attr){.ni = 1, .i = {f->n}});
}

T *pni_normal_regression(C *c, T *x, T *loc, T *scale) {
  int64_t n = x->numel;
  if (!pni_record_is_plain(c) || x->ndim != 1 || loc->ndim != 1 || loc->numel != n || scale->numel != 1 || n < 2)
    return NULL;
  if (!is_constant(c, x) || is_constant(c, loc) || x->dtype != loc->dtype || scale->dtype != x->dtype) return NULL;
  form f = {.n = n, .offset = pni_alloc_array(c, n, sizeof *f.offset)};
  if (!f.offset) return NULL;
  for (int64_t i = 0; i < n; i++) f.offset[i] = -pni_element(x, i);
  T *y = NULL;
  if (add_form(c, &f, loc, 1, 0) && f.k > 0 && f.k < n && (f.k + 1) * (f.k + 1) <= WORK / n)
    y = by_factor(c, &f, loc, scale);
  pni_free(c, f.offset);
  return y;
}
