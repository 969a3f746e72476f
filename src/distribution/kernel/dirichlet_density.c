/*
** dirichlet_density.c: the log density of Dirichlet(a) as an operation of shares x [..., n] and a [..., n], one number
** per row: with a_0 = sum a_i
**   log p(x) = sum (a_i - 1) log x_i - (sum lgamma(a_i) - lgamma(a_0))
**   d/dx_i = (a_i - 1) / x_i,  d/da_i = log x_i - digamma(a_i) + digamma(a_0)
** A share of 0 stands for a logarithm of the largest size, so that it counts nothing where a_i = 1, and has no slope;
** elsewhere the sum is then beyond any that positive shares have, and infinite. Rows that are no shares have density 0,
** or NaN if one of their numbers is NaN, and no slope.
*/
#include <string.h>
#include "density.h"
#include "density_kernel.h"
#include "../formula.h"

enum { X, A, G };
enum { LONGEST = 64, BLOCK = 512 }; /* of a row; elements of a block of rows */

/* Rows of a block: whole groups of the vector functions if there are some. */
static int64_t rows_of(int64_t n) {
  int64_t rows = BLOCK / n;
  return rows < PNI_VECTOR_GROUP ? rows : rows / PNI_VECTOR_GROUP * PNI_VECTOR_GROUP;
}

static double huge_log(int dtype) { return huge_number(dtype); }
static double far_sum(int dtype) { return dtype == PN_FLOAT64 ? 1e290 : 1e30; }

/* ---- blocks ---- */

PNI_EACH_LEVEL(limit, (double *restrict log_x, double size, int64_t n), (log_x, size, n)) {
  for (int64_t i = 0; i < n; i++) log_x[i] = log_x[i] < -size ? -size : log_x[i];
}
PNI_EACH_LEVEL(terms, (const double *restrict a, const double *restrict gammas, double *restrict log_x, int64_t n),
               (a, gammas, log_x, n)) {
  for (int64_t i = 0; i < n; i++) log_x[i] = (a[i] - 1) * log_x[i] - gammas[i];
}
PNI_EACH_LEVEL(slope_x,
               (const double *restrict x, const double *restrict a, const double *restrict g, double *restrict out,
                int64_t n),
               (x, a, g, out, n)) {
  for (int64_t i = 0; i < n; i++) {
    double t = g[i] * ((a[i] - 1) / x[i]);
    out[i] = x[i] > 0 ? t : 0;
  }
}
/* out: digamma(a) */
PNI_EACH_LEVEL(slope_a,
               (const double *restrict log_x, const double *restrict whole, const double *restrict g,
                double *restrict out, int64_t n),
               (log_x, whole, g, out, n)) {
  for (int64_t i = 0; i < n; i++) out[i] = g[i] * (log_x[i] - (out[i] - whole[i]));
}

static void logarithms(const double *x, double size, double *out, int64_t n) {
  pni_vector_f64(PNI_VECTOR_log, x, 1, out, n);
  limit(out, size, n);
}

/* Rows so short that transposing them would cost more than it saves; even and odd elements apart. */
static void sums(const double *v, int64_t rows, int64_t n, double *out) {
  for (int64_t r = 0; r < rows; r++, v += n) {
    double even = 0, odd = 0;
    int64_t j = 0;
    for (; j + 2 <= n; j += 2) {
      even += v[j];
      odd += v[j + 1];
    }
    out[r] = (j < n ? even + v[j] : even) + odd;
  }
}

/* Numbers that are not >= 0. */
PNI_EACH_LEVEL_OF(int64_t, negatives, (const double *restrict x, int64_t n), (x, n)) {
  int64_t count = 0;
  for (int64_t i = 0; i < n; i++) count += x[i] >= 0 ? 0 : 1;
  return count;
}

/* Which rows are shares? The tolerance of the sum is the simplex's (constraint.c). */
static void find_shares(const double *x, int64_t rows, int64_t n, bool *inside) {
  double sum[BLOCK];
  sums(x, rows, n, sum);
  for (int64_t r = 0; r < rows; r++) inside[r] = fabs(sum[r] - 1) <= 1e-5;
  if (negatives(x, rows * n))
    for (int64_t r = 0; r < rows; r++) inside[r] = inside[r] && negatives(x + r * n, n) == 0;
}
static bool has_nan(const double *x, int64_t n) {
  bool nan = false;
  for (int64_t j = 0; j < n; j++) nan = nan || isnan(x[j]);
  return nan;
}

/* Each number for all of its row. */
static void spread(const double *v, int64_t rows, int64_t n, double *out) {
  for (int64_t r = 0; r < rows; r++, out += n)
    for (int64_t j = 0; j < n; j++) out[j] = v[r];
}

/* Rows outside have no slope. */
static void drop(const bool *inside, int64_t rows, int64_t n, double *slope) {
  for (int64_t r = 0; r < rows; r++)
    if (!inside[r]) memset(slope + r * n, 0, (size_t)n * sizeof *slope);
}

/* ---- rows begin .. end - 1 ---- */

typedef struct {
  int dtype;
  bool one; /* a is one row for all */
  int64_t n;
  char *x, *a, *g, *out;
  int64_t wanted, apart; /* of the gradients */
} work;

/* A block of concentrations: of one row for all as many copies as a block may need. */
static const double *concentrations(const work *w, int64_t at, int64_t rows, double *room) {
  int64_t n = w->n, most = rows_of(n);
  if (!w->one) return pni_doubles(w->dtype, w->a, 1, at * n, rows * n, room);
  const double *a = pni_doubles(w->dtype, w->a, 1, 0, n, room);
  if (a != room) memcpy(room, a, (size_t)n * sizeof *a);
  for (int64_t r = 1; r < most; r++) memcpy(room + r * n, room, (size_t)n * sizeof *a);
  return room;
}

/* lgamma(a), and of the sum of each row */
static void normalise(const double *a, int64_t rows, int64_t n, double *gammas, double *whole) {
  double sum[BLOCK];
  pni_vector_f64(PNI_VECTOR_lgamma, a, 1, gammas, rows * n);
  sums(a, rows, n, sum);
  pni_vector_f64(PNI_VECTOR_lgamma, sum, 1, whole, rows);
}

static void density_rows(void *data, int64_t begin, int64_t end) {
  const work *w = data;
  int64_t n = w->n, most = rows_of(n);
  double room[2][BLOCK], log_x[BLOCK], gammas[BLOCK], whole[BLOCK], size[BLOCK], result[BLOCK];
  bool inside[BLOCK];
  const double *a = w->one ? concentrations(w, 0, most, room[1]) : NULL;
  if (w->one) normalise(a, most, n, gammas, whole);
  for (int64_t at = begin; at < end; at += most) {
    double *out = pni_doubles_place(w->dtype, w->out, at, result), far = far_sum(w->dtype);
    int64_t rows = end - at < most ? end - at : most, count = rows * n;
    const double *x = pni_doubles(w->dtype, w->x, 1, at * n, count, room[0]);
    if (!w->one) a = concentrations(w, at, rows, room[1]);
    if (!w->one) normalise(a, rows, n, gammas, whole);
    logarithms(x, huge_log(w->dtype), log_x, count);
    terms(a, gammas, log_x, count);
    sums(log_x, rows, n, size);
    find_shares(x, rows, n, inside);
    for (int64_t r = 0; r < rows; r++) {
      double t = size[r] < -far ? -INFINITY : size[r] > far ? INFINITY : size[r];
      out[r] = inside[r] ? t + whole[r] : has_nan(x + r * n, n) ? NAN : -INFINITY;
    }
    pni_doubles_write(w->dtype, out, rows, w->out, at);
  }
}

static void score_rows(void *data, int64_t begin, int64_t end) {
  const work *w = data;
  int64_t n = w->n, most = rows_of(n), place = w->wanted & 1 ? w->apart : 0;
  for (int64_t at = begin; at < end; at += most) {
    double room[3][BLOCK], log_x[BLOCK], g[BLOCK], whole[BLOCK], of_row[BLOCK], result[BLOCK];
    bool inside[BLOCK];
    int64_t rows = end - at < most ? end - at : most, count = rows * n;
    const double *x = pni_doubles(w->dtype, w->x, 1, at * n, count, room[0]);
    const double *a = concentrations(w, at, rows, room[1]);
    find_shares(x, rows, n, inside);
    spread(pni_doubles(w->dtype, w->g, 1, at, rows, room[2]), rows, n, g);
    if (w->wanted & 1) {
      double *out = pni_doubles_place(w->dtype, w->out, at * n, result);
      slope_x(x, a, g, out, count);
      drop(inside, rows, n, out);
      pni_doubles_write(w->dtype, out, count, w->out, at * n);
    }
    if (w->wanted & 2) {
      double *out = pni_doubles_place(w->dtype, w->out, place + at * n, result);
      logarithms(x, huge_log(w->dtype), log_x, count);
      pni_vector_f64(PNI_VECTOR_digamma, a, 1, out, count);
      sums(a, rows, n, room[2]);
      pni_vector_f64(PNI_VECTOR_digamma, room[2], 1, whole, rows);
      spread(whole, rows, n, of_row);
      slope_a(log_x, of_row, g, out, count);
      drop(inside, rows, n, out);
      pni_doubles_write(w->dtype, out, count, w->out, place + at * n);
    }
  }
}

/* ---- operations ---- */

/* x [..., n], concentrations like it or [n], and of scores g [...]. */
static pn_status check_rows(pn_context *c, const pni_call *call) {
  const pn_tensor *x = call->in[X];
  char s[PNI_SHAPE_TEXT];
  if (pni_require_axes(c, call, call->in[A]->ndim == 1 ? "...n n ..." : "...n ...n ...")) return c->status;
  if (x->shape[x->ndim - 1] > 0 && x->shape[x->ndim - 1] <= LONGEST) return PN_OK;
  return pni_fail(c, PN_SHAPE, "dirichlet: x must have 1 to %d shares, got %s", (int)LONGEST,
                  pni_shape_text(x->ndim, x->shape, s));
}

static pn_status infer(pn_context *c, const pni_call *call, pni_spec *out) {
  *out = pni_spec_of(call->in[X]);
  out->ndim--;
  return check_rows(c, call);
}

static pn_status infer_scores(pn_context *c, const pni_call *call, pni_spec *out) {
  const pn_tensor *x = call->in[X];
  if (check_rows(c, call)) return c->status;
  if (x->ndim == PN_MAX_DIMS)
    return pni_fail(c, PN_SHAPE, "dirichlet: at most %d axes are possible, got %d", PN_MAX_DIMS - 1, x->ndim);
  *out = (pni_spec){.dtype = x->dtype, .ndim = x->ndim + 1};
  out->shape[0] = call->attr->i[0] == 3 ? 2 : 1;
  memcpy(out->shape + 1, x->shape, (size_t)x->ndim * sizeof *x->shape);
  return PN_OK;
}

static pn_status run(pn_context *c, const pni_call *call, pn_tensor *out,
                     void (*rows)(void *data, int64_t begin, int64_t end)) {
  pn_tensor *in[3] = {NULL};
  bool fine = out->numel > 0;
  for (int k = 0; fine && k < call->nin; k++) fine = (in[k] = pni_contiguous(c, call->in[k])) != NULL;
  if (fine) {
    int64_t n = in[X]->shape[in[X]->ndim - 1];
    work w = {.dtype = in[X]->dtype, .one = in[A]->numel == n, .n = n, .x = pni_data(in[X]), .a = pni_data(in[A])};
    w.g = in[G] ? pni_data(in[G]) : NULL;
    w.out = pni_data(out);
    w.wanted = call->attr->i[0];
    w.apart = in[X]->numel;
    pni_parallel(c, in[X]->numel / n, 8192 / n, rows, &w);
  }
  for (int k = 0; k < 3; k++) pn_tensor_unref(in[k]);
  return c->status;
}
static pn_status eval(pn_context *c, const pni_call *call, pn_tensor *out) { return run(c, call, out, density_rows); }
static pn_status eval_scores(pn_context *c, const pni_call *call, pn_tensor *out) {
  return run(c, call, out, score_rows);
}

static const pni_op op_scores = {
    .name = "dirichlet_scores", .flags = PNI_OP_HIDDEN | PNI_OP_NODIFF, .infer = infer_scores, .eval = eval_scores};

static T *vjp(C *c, T *y, T *g, int k) {
  T *x = pni_in(y, X), *a = pni_in(y, A), *row = pn_unsqueeze(c, g, -1);
  T *shares = pn_unsqueeze(c, pni_constraint_mask(c, &pni_constraint_simplex, x), -1);
  T *inside = pn_logical_and(c, shares, above(c, x, 0)), *safe = only(c, inside, x, 1);
  row = only(c, shares, row, 0);
  if (k == X) return only(c, inside, pn_mul(c, row, pn_div(c, plus(c, a, -1), safe)), 0);
  T *log_x = only(c, inside, pn_log(c, safe), -huge_log(x->dtype)), *whole = pn_sum(c, a, LAST, 1);
  return pni_sum_to(c, pn_mul(c, row, pn_sub(c, log_x, pn_sub(c, pn_digamma(c, a), pn_digamma(c, whole)))), a);
}

/* Of one row of concentrations for all through builders: there is little to do. */
static pn_status vjps(C *c, T *y, T *g, const bool *wanted, T **out) {
  T *x = pni_in(y, X), *a = pni_in(y, A);
  bool fits = x->ndim < PN_MAX_DIMS, both = wanted[A] && a->numel == x->numel;
  pni_attr attr = {.ni = 1, .i = {(wanted[X] ? 1 : 0) | (both ? 2 : 0)}};
  T *all = fits && attr.i[0] ? pni_apply(c, &op_scores, 3, (T *[]){x, a, g}, &attr) : NULL;
  if (wanted[X]) out[X] = fits ? pn_select(c, all, 0, 0) : vjp(c, y, g, X);
  if (wanted[A]) out[A] = fits && both ? pni_sum_to(c, pn_select(c, all, 0, wanted[X]), a) : vjp(c, y, g, A);
  return c->status;
}

static const pni_op op = {
    .name = "dirichlet_log_density", .flags = PNI_OP_HIDDEN, .infer = infer, .eval = eval, .vjp = vjp, .vjps = vjps};

bool pni_dirichlet_fits(const T *a) {
  int64_t n = a->shape[a->ndim - 1];
  return n > 0 && n <= LONGEST;
}

T *pni_dirichlet_log_density(C *c, T *x, T *a) {
  if (!x || !a) return NULL;
  pni_spec all;
  if (pni_broadcast(c, "dirichlet", x, a, &all)) return NULL;
  x = pni_dist_expand_to(c, x, all.ndim, all.shape);
  if (a->ndim != 1) a = pni_dist_expand_to(c, a, all.ndim, all.shape);
  return pni_apply2(c, &op, x, a, NULL);
}
