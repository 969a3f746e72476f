/*
** kalman_real.h: a step of the Kalman filter for one element type and one instruction set, included as small_real.h
** is. Formulas: Anderson and Moore (1979), "Optimal Filtering", sections 3.1 and 5.5; the covariance after an
** observation in Joseph's form, which is a sum of two congruences and so keeps positive semidefinite.
*/

#include "lane_real.h"

#define INLINE static inline __attribute__((always_inline)) TARGET

/* A matrix in vectors: element [i, j] is at[i * row + j * col]. */
typedef struct NAME(matrix) {
  VEC *at;
  int row, col;
} NAME(matrix);
#define MATRIX           NAME(matrix)
#define ROWS_OF(x, cols) ((MATRIX){(x), (cols), 1})
#define TRANSPOSED(x)    ((MATRIX){(x).at, (x).col, (x).row})

enum { NAME(SET), NAME(ADD), NAME(SUBTRACT) };

/* rows x cols elements of x y from [i, j] on. */
INLINE void NAME(block)(MATRIX z, MATRIX x, MATRIX y, int inner, int i, int j, int how, const int rows,
                        const int cols) {
  VEC sum[2][4];
  const VEC *a = x.at + i * x.row, *b = y.at + j * y.col;
  PNI_UNROLL
  for (int r = 0; r < rows; r++) PNI_UNROLL
  for (int s = 0; s < cols; s++) sum[r][s] = (VEC){0};
  for (int l = 0; l < inner; l++, a += x.col, b += y.row) PNI_UNROLL
  for (int s = 0; s < cols; s++) {
    VEC v = b[s * y.col];
    PNI_UNROLL
    for (int r = 0; r < rows; r++) sum[r][s] += a[r * x.row] * v;
  }
  PNI_UNROLL
  for (int r = 0; r < rows; r++) PNI_UNROLL
  for (int s = 0; s < cols; s++) {
    VEC *to = z.at + (i + r) * z.row + (j + s) * z.col;
    *to = how == NAME(SET) ? sum[r][s] : how == NAME(ADD) ? *to + sum[r][s] : *to - sum[r][s];
  }
}

/* z = x y, z += x y or z -= x y with x [n, inner], y [inner, k]. lower: of the columns only those up to the
 * diagonal's need be right. */
FN void NAME(product)(MATRIX z, MATRIX x, MATRIX y, int n, int inner, int k, int how, bool lower) {
  for (int i = 0; i < n; i += 2) {
    int rows = n - i > 1 ? 2 : 1, to = lower && i + rows < k ? i + rows : k, j = 0;
    if (rows == 2) {
      for (; j + 4 <= to; j += 4) NAME(block)(z, x, y, inner, i, j, how, 2, 4);
      for (; j + 2 <= to; j += 2) NAME(block)(z, x, y, inner, i, j, how, 2, 2);
      for (; j < to; j++) NAME(block)(z, x, y, inner, i, j, how, 2, 1);
    } else {
      for (; j + 4 <= to; j += 4) NAME(block)(z, x, y, inner, i, j, how, 1, 4);
      for (; j < to; j++) NAME(block)(z, x, y, inner, i, j, how, 1, 1);
    }
  }
}

/* x = (x + x^T) / 2 */
FN void NAME(symmetrise)(VEC *x, int n) {
  for (int i = 0; i < n; i++)
    for (int j = 0; j < i; j++) x[i * n + j] = x[j * n + i] = x[i * n + j] * (REAL)0.5 + x[j * n + i] * (REAL)0.5;
}

/* The upper triangle from the lower one. */
FN void NAME(mirror)(VEC *x, int n) {
  for (int i = 0; i < n; i++)
    for (int j = 0; j < i; j++) x[j * n + i] = x[i * n + j];
}

/* What a group works with: operands, then free vectors. */
typedef struct NAME(group_state) {
  const pni_kalman *s;
  pni_kalman_lanes *lanes;
  VEC *at[PNI_KALMAN_INPUTS], *free;
} NAME(group_state);
#define STATE NAME(group_state)

FN VEC *NAME(take)(STATE *g, int vectors) {
  VEC *x = g->free;
  g->free += vectors;
  return x;
}

/* All operands: shared ones stay where the first group put them. Idle lanes repeat lane 0. */
FN void NAME(fetch)(STATE *g) {
  for (int k = 0; k < g->s->nin; k++) {
    const pni_kalman_operand *x = &g->s->in[k];
    const void **from = g->lanes->in[k];
    g->at[k] = NAME(take)(g, x->rows * x->cols);
    if (x->shared && !g->lanes->first) continue;
    for (int l = x->shared ? 1 : g->lanes->count; l < LANES; l++) from[l] = from[0];
    NAME(interleave)(g->at[k], from, x->rows, x->cols, x->row, x->col);
  }
}

/* ---- predict ---- */

FN void NAME(run_predict)(STATE *g, VEC *out) {
  int n = g->s->n;
  VEC *mean = g->at[0], *cov = g->at[1], *b = g->at[3], *q = g->at[4], *t = NAME(take)(g, n * n);
  MATRIX a = ROWS_OF(g->at[2], n), to = ROWS_OF(out + n, n);
  NAME(symmetrise)(cov, n);
  for (int i = 0; i < n; i++) out[i] = b[i];
  NAME(product)(ROWS_OF(out, 1), a, ROWS_OF(mean, 1), n, n, 1, NAME(ADD), false);
  NAME(product)(ROWS_OF(t, n), a, ROWS_OF(cov, n), n, n, n, NAME(SET), false);
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) to.at[i * n + j] = q[i * n + j] * (REAL)0.5 + q[j * n + i] * (REAL)0.5;
  NAME(product)(to, ROWS_OF(t, n), TRANSPOSED(a), n, n, n, NAME(ADD), true);
  NAME(mirror)(to.at, n);
}

/* ---- update ---- */

/* What is missing observes nothing and is a unit innovation by itself: its row of c and its v are 0, its row and
 * column of R those of the identity. */
FN void NAME(leave_out)(const VEC *observed, VEC *c, VEC *v, VEC *r, int n, int p) {
  VEC none = {0}, one = none + 1;
  for (int i = 0; i < p; i++) {
    MASK here = observed[i] != 0;
    v[i] = SELECT(here, v[i], none);
    for (int j = 0; j < n; j++) c[i * n + j] = SELECT(here, c[i * n + j], none);
    for (int j = 0; j < p; j++) {
      MASK both = here & (observed[j] != 0);
      r[i * p + j] = SELECT(both, r[i * p + j], i == j ? one : none);
    }
  }
}

/* The parts of an update that its density and its gradient are made of. */
typedef struct NAME(update) {
  VEC *cov, *c, *r, *v;     /* [n, n], [p, n], [p, p], [p]; c, r, v without what is missing */
  VEC *u, *s, *l, *inverse; /* c P [p, n], S [p, p], its Cholesky factor and reciprocals of that one's diagonal */
  VEC *gain;                /* K^T [p, n] */
} NAME(update);
#define UPDATE NAME(update)

/* v = y - c m - d, S = c P c^T + R = L L^T, K^T = S^-1 c P */
FN void NAME(innovation)(STATE *g, UPDATE *x, int from, MASK *info) {
  int n = g->s->n, p = g->s->p;
  VEC **in = g->at + from, zero = {0};
  bool partial = g->s->nin > from + 6;
  x->cov = in[1];
  x->c = in[3];
  x->v = NAME(take)(g, p);
  x->r = NAME(take)(g, p * p);
  x->u = NAME(take)(g, n * p);
  x->s = NAME(take)(g, p * p);
  x->l = NAME(take)(g, p * p);
  x->inverse = NAME(take)(g, p);
  x->gain = NAME(take)(g, n * p);
  NAME(symmetrise)(x->cov, n);
  for (int i = 0; i < p; i++) {
    x->v[i] = in[2][i] - in[4][i];
    for (int j = 0; j < p; j++) x->r[i * p + j] = in[5][i * p + j] * (REAL)0.5 + in[5][j * p + i] * (REAL)0.5;
  }
  NAME(product)(ROWS_OF(x->v, 1), ROWS_OF(x->c, n), ROWS_OF(in[0], 1), p, n, 1, NAME(SUBTRACT), false);
  if (partial) {
    x->c = NAME(take)(g, n * p);
    for (int i = 0; i < n * p; i++) x->c[i] = in[3][i];
    NAME(leave_out)(in[6], x->c, x->v, x->r, n, p);
  }
  MATRIX c = ROWS_OF(x->c, n), u = ROWS_OF(x->u, n), s = ROWS_OF(x->s, p);
  NAME(product)(u, c, ROWS_OF(x->cov, n), p, n, n, NAME(SET), false);
  for (int i = 0; i < p * p; i++) x->s[i] = x->r[i];
  NAME(product)(s, u, TRANSPOSED(c), p, n, p, NAME(ADD), true);
  NAME(mirror)(x->s, p);
  for (int i = 0; i < p * p; i++) {
    x->l[i] = x->s[i];
    zero += x->s[i] * 0;
  }
  NAME(check_sum)(&zero, info);
  NAME(cholesky)(x->l, p, x->inverse, info);
  for (int i = 0; i < n * p; i++) x->gain[i] = x->u[i];
  NAME(substitute)(x->l, p, 1, 1, x->inverse, x->gain, p, n);
  NAME(substitute)(x->l, 1, p, 0, x->inverse, x->gain, p, n);
}

/* log N(v; 0, S) = -(log det S + v^T S^-1 v + p log 2 pi) / 2 over the p that were observed. */
FN VEC NAME(log_density)(STATE *g, const UPDATE *x, const VEC *observed) {
  int p = g->s->p;
  const VEC none = {0}, one = none + 1;
  VEC sum = none, count = none, *z = NAME(take)(g, p), *diagonal = NAME(take)(g, p);
  for (int i = 0; i < p; i++) {
    z[i] = x->v[i];
    count += observed ? SELECT(observed[i] != 0, one, none) : one;
  }
  NAME(substitute)(x->l, p, 1, 1, x->inverse, z, p, 1);
  for (int i = 0; i < p; i++) {
    diagonal[i] = x->l[i * p + i];
    sum += z[i] * z[i] * (REAL)0.5;
  }
  return -(sum + NAME(log_product)(diagonal, p) + count * (REAL)0.91893853320467274178);
}

/* cov = (I - K c) P (I - K c)^T + K R K^T */
FN void NAME(joseph)(STATE *g, const UPDATE *x, VEC *cov) {
  int n = g->s->n, p = g->s->p;
  VEC *m = NAME(take)(g, n * n), *t = NAME(take)(g, n * n), *kr = NAME(take)(g, n * p);
  MATRIX gain = {x->gain, 1, n}, to = ROWS_OF(cov, n);
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) m[i * n + j] = (VEC){0} + (REAL)(i == j);
  NAME(product)(ROWS_OF(m, n), gain, ROWS_OF(x->c, n), n, p, n, NAME(SUBTRACT), false);
  NAME(product)(ROWS_OF(t, n), ROWS_OF(m, n), ROWS_OF(x->cov, n), n, n, n, NAME(SET), false);
  NAME(product)(ROWS_OF(kr, p), gain, ROWS_OF(x->r, p), n, p, p, NAME(SET), false);
  NAME(product)(to, ROWS_OF(t, n), TRANSPOSED(ROWS_OF(m, n)), n, n, n, NAME(SET), true);
  NAME(product)(to, ROWS_OF(kr, p), TRANSPOSED(gain), n, p, n, NAME(ADD), true);
  NAME(mirror)(cov, n);
}

FN void NAME(run_update)(STATE *g, VEC *out, MASK *info) {
  int n = g->s->n, p = g->s->p;
  const VEC *observed = g->s->nin > 6 ? g->at[6] : NULL;
  UPDATE x;
  NAME(innovation)(g, &x, 0, info);
  for (int i = 0; i < n; i++) out[i] = g->at[0][i];
  NAME(product)(ROWS_OF(out, 1), (MATRIX){x.gain, 1, n}, ROWS_OF(x.v, 1), n, p, 1, NAME(ADD), false);
  NAME(joseph)(g, &x, out + n);
  out += n + n * n;
  *out++ = NAME(log_density)(g, &x, observed);
  if (!g->s->details) return;
  for (int i = 0; i < p; i++) *out++ = x.v[i];
  for (int i = 0; i < p * p; i++) *out++ = x.s[i];
  for (int i = 0; i < n; i++)
    for (int j = 0; j < p; j++) *out++ = x.gain[j * n + i];
}

/* ---- adjoints: formulas at vjp_predict and vjp_update of autodiff/op_kalman.c ---- */

/* Where the gradient of each wanted operand is to stand, else NULL; sums over groups of shared ones. */
typedef struct NAME(pieces) {
  VEC *grad[PNI_KALMAN_INPUTS], *sum[PNI_KALMAN_INPUTS];
} NAME(pieces);
#define PIECES NAME(pieces)

/* Idle lanes have no gradient. The sums must lie where they lay for the group before. */
FN void NAME(start)(STATE *g, PIECES *x) {
  const pni_kalman_lanes *lanes = g->lanes;
  for (int l = lanes->count; l < LANES; l++)
    for (int i = 0; i < g->s->in[0].cols; i++) ((LANE *)g->at[0])[i * LANES + l] = 0;
  for (int k = 1; k < g->s->nin; k++) {
    const pni_kalman_operand *o = &g->s->in[k];
    int size = o->rows * o->cols;
    bool wanted = g->s->wanted >> k & 1;
    x->sum[k] = wanted && o->shared ? NAME(take)(g, size) : NULL;
    for (int i = 0; x->sum[k] && lanes->first && i < size; i++) x->sum[k][i] = (VEC){0};
  }
  for (int k = 1; k < g->s->nin; k++)
    x->grad[k] = g->s->wanted >> k & 1 ? NAME(take)(g, g->s->in[k].rows * g->s->in[k].cols) : NULL;
}

FN void NAME(finish)(STATE *g, PIECES *x) {
  const pni_kalman_lanes *lanes = g->lanes;
  for (int k = 1; k < g->s->nin; k++) {
    int size = g->s->in[k].rows * g->s->in[k].cols;
    if (x->grad[k] && !x->sum[k]) NAME(deinterleave)(lanes->out[k], lanes->count, x->grad[k], size);
    if (!x->sum[k]) continue;
    for (int i = 0; i < size; i++) x->sum[k][i] += x->grad[k][i];
    for (int i = 0; lanes->last && i < size; i++) {
      const LANE *at = (const LANE *)&x->sum[k][i];
      REAL total = 0;
      for (int l = 0; l < LANES; l++) total += at[l];
      ((REAL *)lanes->out[k][0])[i] = total;
    }
  }
}

FN void NAME(predict_adjoint)(STATE *g) {
  int n = g->s->n;
  PIECES x;
  NAME(start)(g, &x);
  VEC *dm = g->at[0], *dp = dm + n, *mean = g->at[1], *cov = g->at[2], *t = NAME(take)(g, n * n);
  MATRIX a = ROWS_OF(g->at[3], n);
  NAME(symmetrise)(dp, n);
  NAME(product)(ROWS_OF(t, n), ROWS_OF(dp, n), a, n, n, n, NAME(SET), false);
  if (x.grad[1]) NAME(product)(ROWS_OF(x.grad[1], 1), TRANSPOSED(a), ROWS_OF(dm, 1), n, n, 1, NAME(SET), false);
  if (x.grad[2]) {
    NAME(product)(ROWS_OF(x.grad[2], n), TRANSPOSED(a), ROWS_OF(t, n), n, n, n, NAME(SET), true);
    NAME(mirror)(x.grad[2], n);
  }
  if (x.grad[3]) {
    NAME(symmetrise)(cov, n);
    for (int i = 0; i < n; i++)
      for (int j = 0; j < n; j++) x.grad[3][i * n + j] = dm[i] * mean[j] * (REAL)0.5;
    NAME(product)(ROWS_OF(x.grad[3], n), ROWS_OF(t, n), ROWS_OF(cov, n), n, n, n, NAME(ADD), false);
    for (int i = 0; i < n * n; i++) x.grad[3][i] *= 2;
  }
  NAME(finish)(g, &x);
}

/* dr = (w w^T - S^-1) dl / 2 + K^T G K - the symmetric part of (K^T dm') w^T, with KG = K^T G given. */
FN void NAME(noise_gradient)(STATE *g, const UPDATE *x, const VEC *w, const VEC *ka, VEC *kg, VEC dl, VEC *dr) {
  int n = g->s->n, p = g->s->p;
  VEC *inverse = NAME(take)(g, p * p);
  for (int i = 0; i < p; i++)
    for (int j = 0; j < p; j++) inverse[i * p + j] = (VEC){0} + (REAL)(i == j);
  NAME(substitute)(x->l, p, 1, 1, x->inverse, inverse, p, p);
  NAME(substitute)(x->l, 1, p, 0, x->inverse, inverse, p, p);
  NAME(product)(ROWS_OF(dr, p), ROWS_OF(kg, n), (MATRIX){x->gain, 1, n}, p, n, p, NAME(SET), true);
  for (int i = 0; i < p; i++)
    for (int j = 0; j <= i; j++) {
      VEC density = (w[i] * w[j] - inverse[i * p + j]) * dl, cross = ka[i] * w[j] + w[i] * ka[j];
      dr[i * p + j] += (density - cross) * (REAL)0.5;
    }
  NAME(mirror)(dr, p);
}

/* Of what was not observed only the state has a gradient. */
FN void NAME(drop_missing)(const VEC *observed, PIECES *x, int n, int p) {
  VEC none = {0};
  for (int i = 0; i < p; i++) {
    MASK here = observed[i] != 0;
    if (x->grad[3]) x->grad[3][i] = SELECT(here, x->grad[3][i], none);
    if (x->grad[5]) x->grad[5][i] = SELECT(here, x->grad[5][i], none);
    for (int j = 0; x->grad[4] && j < n; j++) x->grad[4][i * n + j] = SELECT(here, x->grad[4][i * n + j], none);
    for (int j = 0; x->grad[6] && j < p; j++)
      x->grad[6][i * p + j] = SELECT(here & (observed[j] != 0), x->grad[6][i * p + j], none);
  }
}

/* With w = S^-1 v, e = K^T dm' - dl w and Z = w dm'^T / 2 - K^T G the gradients collapse to
 *   dm = dm' - c^T e, dy = e = -dd, dP = G + c^T Y + Y^T c with Y = Z + dr c / 2, dc = 2 (Z + dr c) P - e m^T. */
FN void NAME(update_adjoint)(STATE *g, MASK *info) {
  int n = g->s->n, p = g->s->p;
  PIECES x;
  UPDATE u;
  NAME(start)(g, &x);
  NAME(innovation)(g, &u, 1, info);
  VEC *dm = g->at[0], *dp = dm + n, dl = dm[n + n * n], *w = NAME(take)(g, p), *ka = NAME(take)(g, p);
  VEC *e = NAME(take)(g, p), *kg = NAME(take)(g, n * p), *dr = NAME(take)(g, p * p), *rc = NAME(take)(g, n * p);
  VEC *t = NAME(take)(g, n * n);
  MATRIX c = ROWS_OF(u.c, n), gain = ROWS_OF(u.gain, n);
  NAME(symmetrise)(dp, n);
  for (int i = 0; i < p; i++) w[i] = u.v[i];
  NAME(substitute)(u.l, p, 1, 1, u.inverse, w, p, 1);
  NAME(substitute)(u.l, 1, p, 0, u.inverse, w, p, 1);
  NAME(product)(ROWS_OF(ka, 1), gain, ROWS_OF(dm, 1), p, n, 1, NAME(SET), false);
  NAME(product)(ROWS_OF(kg, n), gain, ROWS_OF(dp, n), p, n, n, NAME(SET), false);
  NAME(noise_gradient)(g, &u, w, ka, kg, dl, dr);
  NAME(product)(ROWS_OF(rc, n), ROWS_OF(dr, p), c, p, p, n, NAME(SET), false);
  for (int i = 0; i < p; i++) e[i] = ka[i] - dl * w[i];
  for (int i = 0; i < p; i++)
    for (int j = 0; j < n; j++) kg[i * n + j] = w[i] * dm[j] * (REAL)0.5 - kg[i * n + j]; /* Z */
  if (x.grad[1]) {
    for (int i = 0; i < n; i++) x.grad[1][i] = dm[i];
    NAME(product)(ROWS_OF(x.grad[1], 1), TRANSPOSED(c), ROWS_OF(e, 1), n, p, 1, NAME(SUBTRACT), false);
  }
  if (x.grad[4]) {
    for (int i = 0; i < n * p; i++) t[i] = (kg[i] + rc[i]) * 2;
    for (int i = 0; i < p; i++)
      for (int j = 0; j < n; j++) x.grad[4][i * n + j] = -e[i] * g->at[1][j];
    NAME(product)(ROWS_OF(x.grad[4], n), ROWS_OF(t, n), ROWS_OF(u.cov, n), p, n, n, NAME(ADD), false);
  }
  if (x.grad[2]) {
    for (int i = 0; i < n * p; i++) kg[i] += rc[i] * (REAL)0.5; /* Y */
    NAME(product)(ROWS_OF(t, n), TRANSPOSED(c), ROWS_OF(kg, n), n, p, n, NAME(SET), false);
    for (int i = 0; i < n; i++)
      for (int j = 0; j < n; j++) x.grad[2][i * n + j] = dp[i * n + j] + (t[i * n + j] + t[j * n + i]);
  }
  for (int i = 0; i < p; i++) {
    if (x.grad[3]) x.grad[3][i] = e[i];
    if (x.grad[5]) x.grad[5][i] = -e[i];
  }
  for (int i = 0; x.grad[6] && i < p * p; i++) x.grad[6][i] = dr[i];
  if (g->s->nin > 7) NAME(drop_missing)(g->at[7], &x, n, p);
  NAME(finish)(g, &x);
}

static TARGET void NAME(group)(const pni_kalman *s, pni_kalman_lanes *lanes) {
  STATE g = {.s = s, .lanes = lanes, .free = lanes->scratch};
  MASK state = {0};
  NAME(fetch)(&g);
  if (s->kind == PNI_KALMAN_PREDICT_ADJOINT)
    NAME(predict_adjoint)(&g);
  else if (s->kind == PNI_KALMAN_UPDATE_ADJOINT)
    NAME(update_adjoint)(&g, &state);
  else {
    VEC *row = NAME(take)(&g, (int)s->size);
    if (s->kind == PNI_KALMAN_PREDICT)
      NAME(run_predict)(&g, row);
    else
      NAME(run_update)(&g, row, &state);
    NAME(deinterleave)(lanes->out[0], lanes->count, row, (int)s->size);
  }
  for (int l = 0; l < lanes->count; l++) lanes->info[l] = (int)state[l];
}

#undef PIECES
#undef INLINE
#undef MATRIX
#undef ROWS_OF
#undef TRANSPOSED
#undef STATE
#undef UPDATE
#include "lane_end.h"
