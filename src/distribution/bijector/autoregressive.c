/*
** autoregressive.c: maps whose Jacobian is triangular; number i is moved as the numbers before it say, through one
** masked network (MADE) for all i.
**   masked   y_i = m_i(y_{<i}) + e^{s_i(y_{<i})} x_i                  log |det| = sum s_i
**            densities take one pass, draws n (Papamakarios, Pavlakou & Murray 2017)
**   inverse  y_i = g_i x_i + (1 - g_i) m_i(x_{<i}), g = sigmoid(s(x_{<i}))   log |det| = sum log g_i
**            draws take one pass, densities n (Kingma et al. 2016, eq. 14)
** The slow direction finds one more number in each of n passes and is exact: a pass sees zeros where the numbers are
** not yet known, and the masks keep those from what is read.
*/
#include "network.h"

typedef pn_tensor T;
typedef pn_context C;
typedef pn_bijector B;
#define LAST ((pn_axes){1, {-1}})

static pn_status check(C *c, B *b) {
  if (pni_network_check(c, b)) return c->status;
  return pni_network_mask(c, b);
}

/* How one direction moves numbers v, given what the network said of the numbers before them. */
typedef T *(*mover)(C *c, T *v, T *shift, T *s);

static T *column(C *c, T *t, int64_t i) { return pn_slice(c, t, -1, i, 1, 1); }

/* log |dy/dx| of each number out of what the network said of its scale; NULL: that itself. */
typedef T *(*slope)(C *c, T *s);

/* log |det|: the sum of the numbers' log slopes. */
static T *log_det_of(C *c, T *s, slope log_slope) { return pn_sum(c, log_slope ? log_slope(c, s) : s, LAST, 0); }

/* All numbers at once, the network seeing `known`. */
static T *fast(C *c, B *b, T *known, T *v, mover move, slope log_slope, T **log_det) {
  T *shift, *s;
  if (pni_network(c, b, known, &shift, &s)) return NULL;
  if (log_det) *log_det = log_det_of(c, s, log_slope);
  return move(c, v, shift, s);
}

static T *append(C *c, T *list, T *next) { return list && next ? pn_concatenate(c, 2, (T *[]){list, next}, -1) : next; }

/* One after the other, the network seeing the results. */
static T *slow(C *c, B *b, T *v, mover move, slope log_slope, T **log_det) {
  int64_t n = v->shape[v->ndim - 1];
  T *known = NULL, *said = NULL, *shift, *s;
  for (int64_t i = 0; i < n; i++) {
    T *seen = known ? pn_pad(c, known, -1, 0, n - i, 0) : pn_zeros(c, (pn_dtype)v->dtype, v->ndim, v->shape);
    if (!seen || pni_network(c, b, seen, &shift, &s)) return NULL;
    T *own = column(c, s, i), *next = move(c, column(c, v, i), column(c, shift, i), own);
    if (!next) return NULL;
    known = append(c, known, next);
    if (log_det) said = append(c, said, own);
  }
  if (log_det) *log_det = log_det_of(c, said ? said : v, said ? log_slope : NULL);
  return known ? known : v;
}

/* ---- masked ---- */

static T *shift_scale(C *c, T *x, T *m, T *s) { return pn_add(c, m, pn_mul(c, pn_exp(c, s), x)); }
static T *unshift_scale(C *c, T *y, T *m, T *s) { return pn_mul(c, pn_exp(c, pn_neg(c, s)), pn_sub(c, y, m)); }

static T *masked_forward_with(C *c, B *b, T *x, T **log_det) { return slow(c, b, x, shift_scale, NULL, log_det); }
static T *masked_inverse_with(C *c, B *b, T *y, T **log_det) { return fast(c, b, y, y, unshift_scale, NULL, log_det); }
static T *masked_forward(C *c, B *b, T *x) { return masked_forward_with(c, b, x, NULL); }
static T *masked_inverse(C *c, B *b, T *y) { return masked_inverse_with(c, b, y, NULL); }
static T *masked_log_abs_det(C *c, B *b, T *x, T *y) {
  (void)x;
  T *m, *s;
  return pni_network(c, b, y, &m, &s) ? NULL : log_det_of(c, s, NULL);
}

const pni_bijector pni_bijector_masked_autoregressive = {
    .name = "masked_autoregressive",
    .doc = "y_i = m_i + e^{s_i} x_i, m and s a masked network of the y before i; forward takes n passes, inverse one",
    .source = "Papamakarios, Pavlakou & Murray 2017; Germain, Gregor, Murray & Larochelle 2015",
    .param = PNI_NETWORK("n", "n"),
    .domain = &pni_constraint_real_vector,
    .codomain = &pni_constraint_real_vector,
    .in = "n",
    .out = "n",
    .flags = PNI_BIJECTOR_SLOW_FORWARD,
    .check = check,
    .forward = masked_forward,
    .inverse = masked_inverse,
    .log_abs_det = masked_log_abs_det,
    .forward_with = masked_forward_with,
    .inverse_with = masked_inverse_with};

/* ---- inverse ---- */

/* m + g (x - m) */
static T *gate(C *c, T *x, T *m, T *s) { return pn_add(c, m, pn_mul(c, pn_sigmoid(c, s), pn_sub(c, x, m))); }
/* m + (y - m) / g, 1 / g = 1 + e^-s */
static T *ungate(C *c, T *y, T *m, T *s) {
  T *scale = pn_add(c, pn_exp(c, pn_neg(c, s)), pni_like(c, s, 1));
  return pn_add(c, m, pn_mul(c, scale, pn_sub(c, y, m)));
}

static T *inverse_forward_with(C *c, B *b, T *x, T **log_det) {
  return fast(c, b, x, x, gate, pn_log_sigmoid, log_det);
}
static T *inverse_inverse_with(C *c, B *b, T *y, T **log_det) { return slow(c, b, y, ungate, pn_log_sigmoid, log_det); }
static T *inverse_forward(C *c, B *b, T *x) { return inverse_forward_with(c, b, x, NULL); }
static T *inverse_inverse(C *c, B *b, T *y) { return inverse_inverse_with(c, b, y, NULL); }
static T *inverse_log_abs_det(C *c, B *b, T *x, T *y) {
  (void)y;
  T *m, *s;
  return pni_network(c, b, x, &m, &s) ? NULL : log_det_of(c, s, pn_log_sigmoid);
}

const pni_bijector pni_bijector_inverse_autoregressive = {
    .name = "inverse_autoregressive",
    .doc = "y_i = g_i x_i + (1 - g_i) m_i, g = sigmoid(s), m and s a masked network of the x before i; "
           "forward takes one pass, inverse n",
    .source = "Kingma, Salimans, Jozefowicz, Chen, Sutskever & Welling 2016; Germain et al. 2015",
    .param = PNI_NETWORK("n", "n"),
    .domain = &pni_constraint_real_vector,
    .codomain = &pni_constraint_real_vector,
    .in = "n",
    .out = "n",
    .flags = PNI_BIJECTOR_SLOW_INVERSE,
    .check = check,
    .forward = inverse_forward,
    .inverse = inverse_inverse,
    .log_abs_det = inverse_log_abs_det,
    .forward_with = inverse_forward_with,
    .inverse_with = inverse_inverse_with};
