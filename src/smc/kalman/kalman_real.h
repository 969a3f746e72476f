/*
** kalman_real.h: a step of the Kalman filter for one element type and one instruction set, included as
** lane_matrix_real.h is. Formulas: Anderson and Moore (1979), "Optimal Filtering", sections 3.1 and 5.5; the covariance
** after an observation in Joseph's form, which is a sum of two congruences and so keeps positive semidefinite.
*/

#include "../../tensor/lane/lane_real.h"

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

/* What a group works with: operands, then free vectors. */
typedef struct NAME(group_state) {
  const pni_kalman *s;
  pni_kalman_lanes *lanes;
  VEC *at[PNI_KALMAN_INPUTS], *free;
} NAME(group_state);
#define STATE NAME(group_state)

/* Small states take no time that counts. Of large ones each loop looks at the clock: is the rest to be left? */
#if WIDTH == 1
#define LEAVES(g, steps) ((g)->lanes->watch && pni_watch_leaves((g)->lanes->watch, (steps)))
#define WATCH(g)         ((g)->lanes->watch)
#else
#define LEAVES(g, steps) false
#define WATCH(g)         NULL
#endif

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

FN bool NAME(is_diagonal)(const VEC *x, int n) {
  MASK other = {0};
  for (int i = 0; i < n; i++)
    for (int j = 0; j < i; j++) other |= x[i * n + j] != 0;
  for (int l = 0; l < LANES; l++)
    if (other[l]) return false;
  return true;
}

/* Groups take turns so that the same filters' gradients are added whatever the number of lanes. */
#define TURNS (AVX512 / WIDTH)

/* Where the gradient of each wanted operand is to stand, else NULL; sums over groups of shared ones, TURNS each. */
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
    x->sum[k] = wanted && o->shared ? NAME(take)(g, size * TURNS) : NULL;
    for (int i = 0; x->sum[k] && lanes->first && i < size * TURNS; i++) x->sum[k][i] = (VEC){0};
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
    VEC *sum = x->sum[k] + lanes->number % TURNS;
    for (int i = 0; i < size; i++) sum[i * TURNS] += x->grad[k][i];
    for (int i = 0; lanes->last && i < size; i++) {
      const LANE *at = (const LANE *)&x->sum[k][i * TURNS];
      REAL total = 0;
      for (int l = 0; l < LANES * TURNS; l++) total += at[l];
      ((REAL *)lanes->out[k][0])[i] = total;
    }
  }
}

/* Of what was not observed only the state has a gradient; grad: of y, c, d, r. */
FN void NAME(drop_missing)(const VEC *observed, VEC *const *grad, int n, int p) {
  VEC none = {0};
  for (int i = 0; i < p; i++) {
    MASK here = observed[i] != 0;
    if (grad[0]) grad[0][i] = SELECT(here, grad[0][i], none);
    if (grad[2]) grad[2][i] = SELECT(here, grad[2][i], none);
    for (int j = 0; grad[1] && j < n; j++) grad[1][i * n + j] = SELECT(here, grad[1][i * n + j], none);
    for (int j = 0; grad[3] && j < p; j++)
      grad[3][i * p + j] = SELECT(here & (observed[j] != 0), grad[3][i * p + j], none);
  }
}

/* log of a product of any number. */
FN VEC NAME(log_products)(const VEC *x, int n) {
  VEC sum = NAME(log_product)(x, n < PNI_KALMAN_LANES ? n : PNI_KALMAN_LANES);
  for (int i = PNI_KALMAN_LANES; i < n; i += PNI_KALMAN_LANES)
    sum += NAME(log_product)(x + i, n - i < PNI_KALMAN_LANES ? n - i : PNI_KALMAN_LANES);
  return sum;
}

/* Any orders. */
#define OF(name) NAME(name##_any)
#define N        g->s->n
#define P        g->s->p
#include "kalman_body_real.h"

/* ---- on roots (formulas: autodiff/op/op_tria.c) ---- */

FN void NAME(root_predict)(STATE *g, VEC *out, MASK *info) {
  int n = g->s->n;
  VEC *x = NAME(take)(g, 2 * n * n), zero = {0};
  MATRIX a = ROWS_OF(g->at[2], n);
  for (int i = 0; i < n; i++) out[i] = g->at[3][i];
  NAME(product_any)(g, ROWS_OF(out, 1), a, ROWS_OF(g->at[0], 1), n, n, 1, NAME(ADD), false);
  NAME(product_any)(g, ROWS_OF(x, 2 * n), a, ROWS_OF(g->at[1], n), n, n, n, NAME(SET), false);
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) x[i * 2 * n + n + j] = g->at[4][i * n + j];
  for (int i = 0; i < 2 * n * n; i++) zero += x[i] * 0;
  NAME(check_sum)(&zero, info);
  NAME(triangularise)(x, n, 2 * n, WATCH(g));
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) out[n + i * n + j] = x[i * 2 * n + j];
}

/* x [p + n, width] = [r, diag(1 - observed), c l; 0, 0, l], without the middle where all is observed. */
FN void NAME(root_array)(STATE *g, const VEC *observed, VEC *x, VEC *v, int width, MASK *info) {
  int n = g->s->n, p = g->s->p;
  const VEC none = {0}, one = none + 1;
  VEC *c = g->at[3], *l = g->at[1], zero = {0};
  for (int i = 0; i < (p + n) * width; i++) x[i] = none;
  NAME(product_any)(g, ROWS_OF(x + width - n, width), ROWS_OF(c, n), ROWS_OF(l, n), p, n, n, NAME(SET), false);
  for (int i = 0; i < p; i++) {
    MASK here = observed ? observed[i] != 0 : one != 0;
    VEC *row = x + i * width;
    for (int j = 0; j < p; j++) row[j] = SELECT(here, g->at[5][i * p + j], none);
    if (observed) row[p + i] = SELECT(here, none, one);
    for (int j = width - n; j < width; j++) row[j] = SELECT(here, row[j], none);
    v[i] = SELECT(here, v[i], none);
  }
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) x[(p + i) * width + width - n + j] = l[i * n + j];
  for (int i = 0; i < (p + n) * width; i++) zero += x[i] * 0;
  NAME(check_sum)(&zero, info);
}

FN void NAME(root_update)(STATE *g, const VEC *observed, VEC *out, MASK *info) {
  int n = g->s->n, p = g->s->p, width = n + p + (observed ? p : 0);
  VEC *x = NAME(take)(g, (n + p) * width), *v = NAME(take)(g, p), *d = NAME(take)(g, p), *inverse = NAME(take)(g, p);
  VEC squares = {0}, count = squares + (REAL)p, one = squares + 1;
  for (int i = 0; i < p; i++) v[i] = g->at[2][i] - g->at[4][i];
  NAME(product_any)(g, ROWS_OF(v, 1), ROWS_OF(g->at[3], n), ROWS_OF(g->at[0], 1), p, n, 1, NAME(SUBTRACT), false);
  NAME(root_array)(g, observed, x, v, width, info);
  NAME(triangularise)(x, n + p, width, WATCH(g));
  for (int i = 0; i < p; i++) {
    d[i] = x[i * width + i];
    NAME(check_pivot)(&d[i], 1, i, info);
    inverse[i] = 1 / d[i];
    for (int j = 0; j < i; j++) v[i] -= x[i * width + j] * v[j];
    v[i] *= inverse[i];
    squares += v[i] * v[i] * (REAL)0.5;
    if (observed) count -= SELECT(observed[i] != 0, one * 0, one);
  }
  for (int i = 0; i < n; i++) out[i] = g->at[0][i];
  MATRIX gain = ROWS_OF(x + p * width, width);
  NAME(product_any)(g, ROWS_OF(out, 1), gain, ROWS_OF(v, 1), n, p, 1, NAME(ADD), false);
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) out[n + i * n + j] = x[(p + i) * width + p + j];
  out[n + n * n] = -(squares + NAME(log_products)(d, p) + count * (REAL)0.91893853320467274178);
}

/* Small orders that are frequent, without missing observations. */
#if WIDTH > BASE
#define FIXED
#define OF(name) NAME(name##_2_1)
#define N        2
#define P        1
#include "kalman_body_real.h"
#define FIXED
#define OF(name) NAME(name##_4_2)
#define N        4
#define P        2
#include "kalman_body_real.h"
#endif

FN void NAME(choose)(STATE *g, const VEC *observed, VEC *out, PIECES *x, MASK *info) {
  if (g->s->kind == PNI_KALMAN_ROOT_PREDICT || g->s->kind == PNI_KALMAN_ROOT_UPDATE) {
    if (g->s->kind == PNI_KALMAN_ROOT_PREDICT)
      NAME(root_predict)(g, out, info);
    else
      NAME(root_update)(g, observed, out, info);
    return;
  }
#if WIDTH > BASE
  int n = g->s->n == g->s->m ? g->s->n : 0, p = g->s->p;
  if (!observed && n == 2 && p <= 1) {
    NAME(run_2_1)(g, NULL, out, x, info);
    return;
  }
  if (!observed && n == 4 && (p == 2 || !p)) {
    NAME(run_4_2)(g, NULL, out, x, info);
    return;
  }
#endif
  NAME(run_any)(g, observed, out, x, info);
}

static TARGET void NAME(group)(const pni_kalman *s, pni_kalman_lanes *lanes) {
  STATE g = {.s = s, .lanes = lanes, .free = lanes->scratch};
  MASK state = {0};
  PIECES x;
  NAME(fetch)(&g);
  const VEC *observed = s->masked ? g.at[s->nin - 1] : NULL;
  if (s->kind >= PNI_KALMAN_PREDICT_ADJOINT) {
    NAME(start)(&g, &x);
    NAME(choose)(&g, observed, NULL, &x, &state);
    NAME(finish)(&g, &x);
  } else {
    VEC *row = NAME(take)(&g, (int)s->size);
    NAME(choose)(&g, observed, row, NULL, &state);
    NAME(deinterleave)(lanes->out[0], lanes->count, row, (int)s->size);
  }
  for (int l = 0; l < lanes->count; l++) lanes->info[l] = (int)state[l];
}

#undef PIECES
#undef TURNS
#undef INLINE
#undef MATRIX
#undef ROWS_OF
#undef TRANSPOSED
#undef STATE
#undef LEAVES
#undef WATCH
#include "../../tensor/lane/lane_end.h"
