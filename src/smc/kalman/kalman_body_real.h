/*
** kalman_body_real.h: the steps of kalman_real.h for one pair of orders, included with OF(name), N and P, which are
** expressions of `g` or, with FIXED, plain numbers: then all loops become straight code and what is not an operand or a
** result lives in registers. Formulas of the adjoints stand at vjp_predict and vjp_update of smc/kalman/op_kalman.c.
*/
#ifdef FIXED
#define EACH          PNI_UNROLL
#define ROOM(x, size) VEC x[size]
#define PRODUCT_FN    INLINE
#define BOUND(x, y)   (y) /* of a loop: x, or wider ones of the same for every turn */
#define STAGE_FN      static __attribute__((noinline)) TARGET
#define PART_FN       INLINE
#else
#define EACH
#define ROOM(x, size) VEC *x = NAME(take)(g, size)
#define PRODUCT_FN    FN
#define BOUND(x, y)   (x)
#define STAGE_FN      FN
#define PART_FN       static __attribute__((noinline)) TARGET
#endif
#define UPDATE OF(parts)
/* Is a, c the identity? (Of c what is missing becomes 0.) Is x diagonal? Rows of a. */
#ifdef FIXED
#define M              N
#define STILL          false
#define UNIT           false
#define DIAGONAL(x, n) false
#else
#define M              g->s->m
#define STILL          (g->s->still)
#define UNIT           (g->s->unit)
#define DIAGONAL(x, n) NAME(is_diagonal)(x, n)
#endif

/* rows x cols elements of x y from [i, j] on. */
INLINE void OF(block)(MATRIX z, MATRIX x, MATRIX y, int inner, int i, int j, int how, const int rows, const int cols) {
  VEC sum[4][4];
  const VEC *a = x.at + i * x.row, *b = y.at + j * y.col;
  PNI_UNROLL
  for (int r = 0; r < rows; r++) PNI_UNROLL
  for (int s = 0; s < cols; s++) sum[r][s] = (VEC){0};
  EACH for (int l = 0; l < inner; l++, a += x.col, b += y.row) PNI_UNROLL for (int s = 0; s < cols; s++) {
    VEC v = b[s * y.col];
    PNI_HOLD(v); /* else it is read again for each row */
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

/* A strip of rows, `to` columns wide. */
INLINE void OF(strip)(MATRIX z, MATRIX x, MATRIX y, int inner, int i, int to, int how, const int rows) {
  int j = 0;
  EACH for (; j + 4 <= to; j += 4) OF(block)(z, x, y, inner, i, j, how, rows, 4);
  if (j + 2 <= to) OF(block)(z, x, y, inner, i, j, how, rows, 2), j += 2;
  if (j < to) OF(block)(z, x, y, inner, i, j, how, rows, 1);
}

#if WIDTH == 1
/* z = x y, z += x y or z -= x y with x [n, inner], y [inner, k] by BLAS; elements of a row of z stand side by side.
 * What has one row may have any distance between rows. */
static __attribute__((noinline)) TARGET void OF(product)(const STATE *g, MATRIX z, MATRIX x, MATRIX y, int n, int inner,
                                                         int k, int how, bool lower) {
  enum { MOST = 1 << 29, PER_STEP = 16 }; /* multiplications at a time, some hundredths of a second, and in a step */
  bool tx = x.col != 1, ty = y.col != 1;
  int ldx = tx ? x.col : n == 1 ? inner : x.row, ldy = ty ? y.col : inner == 1 ? k : y.row;
  int64_t row = (int64_t)inner * k, most = MOST / (row + 1) + 1;
  for (int64_t i = 0; i < n; i += most) {
    int64_t rows = n - i < most ? n - i : most;
    if (LEAVES(g, rows * row / PER_STEP)) return;
    unsigned before = FLUSH();
    GEMM(tx ? CblasTrans : CblasNoTrans, ty ? CblasTrans : CblasNoTrans, (int)rows, k, inner,
         how == NAME(SUBTRACT) ? -1 : 1, (const REAL *)(x.at + i * x.row), ldx, (const REAL *)y.at, ldy,
         how == NAME(SET) ? 0 : 1, (REAL *)(z.at + i * z.row), z.row);
    KEEP(before);
  }
  (void)lower;
}
#else
/* z = x y, z += x y or z -= x y with x [n, inner], y [inner, k]. lower: of the columns only those up to the
 * diagonal's need be right. */
PRODUCT_FN void OF(product)(const STATE *g, MATRIX z, MATRIX x, MATRIX y, int n, int inner, int k, int how,
                            bool lower) {
  int i = 0;
#if WIDTH == AVX512
  EACH for (; i + 4 <= n; i += 4) OF(strip)(z, x, y, inner, i, lower && i + 4 < k ? i + 4 : k, how, 4);
#endif
  EACH for (; i + 2 <= n; i += 2) OF(strip)(z, x, y, inner, i, lower && i + 2 < k ? i + 2 : k, how, 2);
  if (i < n) OF(strip)(z, x, y, inner, i, lower && i + 1 < k ? i + 1 : k, how, 1);
  (void)g;
}
#endif

/* The same where x (left) or y may be diagonal: then the other one's rows or columns are scaled. */
PART_FN void OF(scale)(const STATE *g, bool diagonal, bool left, MATRIX z, MATRIX x, MATRIX y, int n, int inner, int k,
                       int how, bool lower) {
  if (!diagonal) {
    OF(product)(g, z, x, y, n, inner, k, how, lower);
    return;
  }
  for (int i = 0; i < n; i++)
    for (int j = 0; j < (lower ? i + 1 : k); j++) {
      int a = left ? i : j;
      VEC s = x.at[i * x.row + a * x.col] * y.at[a * y.row + j * y.col], *to = &z.at[i * z.row + j * z.col];
      *to = how == NAME(SET) ? s : how == NAME(ADD) ? *to + s : *to - s;
    }
}

/* to = (x + x^T) / 2 */
PART_FN void OF(symmetric_part)(VEC *to, const VEC *x, int n) {
  EACH for (int i = 0; i < n; i++) {
    EACH for (int j = 0; j < i; j++) to[i * n + j] = to[j * n + i] =
        x[i * n + j] * (REAL)0.5 + x[j * n + i] * (REAL)0.5;
    to[i * n + i] = x[i * n + i];
  }
}

/* The upper triangle from the lower one. */
PART_FN void OF(mirror)(VEC *x, int n) {
  EACH for (int i = 0; i < n; i++) EACH for (int j = 0; j < i; j++) x[j * n + i] = x[i * n + j];
}

INLINE void OF(copy)(VEC *to, const VEC *from, int size) { EACH for (int i = 0; i < size; i++) to[i] = from[i]; }

INLINE void OF(unit)(VEC *x, int n) {
  EACH for (int i = 0; i < n; i++) EACH for (int j = 0; j < n; j++) x[i * n + j] = (VEC){0} + (REAL)(i == j);
}

/* `cols` columns of row i of x in substitute. */
INLINE void OF(substitute_row)(const VEC *l, const VEC *inverse, bool upper, VEC *x, int n, int k, int i,
                               const int cols) {
  VEC s[4];
  PNI_UNROLL for (int c = 0; c < cols; c++) s[c] = x[i * k + c];
  EACH for (int j = BOUND(upper ? i + 1 : 0, 0); j < BOUND(upper ? n : i, n); j++) if (upper ? j > i : j < i) {
    VEC a = l[upper ? j * n + i : i * n + j];
    PNI_UNROLL for (int c = 0; c < cols; c++) s[c] -= a * x[j * k + c];
  }
  PNI_UNROLL for (int c = 0; c < cols; c++) x[i * k + c] = s[c] * inverse[i];
}

/* x = L^-1 x or, upper, L^-T x, for x [n, k] and a lower triangle with the reciprocals of its diagonal given. lower: of
 * the columns only those up to the diagonal's need be right. */
PART_FN void OF(substitute)(const STATE *g, const VEC *l, const VEC *inverse, bool upper, VEC *x, int n, int k,
                            bool lower) {
  EACH for (int step = 0; step < n; step++) {
    int i = upper ? n - 1 - step : step, to = lower ? i + 1 : k, c = 0;
    EACH for (; c + 4 <= to; c += 4) {
      if (LEAVES(g, 4 * n)) return;
      OF(substitute_row)(l, inverse, upper, x + c, n, k, i, 4);
    }
    EACH for (; c < to; c++) OF(substitute_row)(l, inverse, upper, x + c, n, k, i, 1);
  }
  (void)g;
}

/* The lower triangle of l, positive definite, becomes L as in lane_real.h. */
INLINE void OF(cholesky)(const STATE *g, VEC *l, VEC *inverse, int n, MASK *info) {
  EACH for (int j = 0; j < n; j++) {
    VEC d = l[j * n + j];
    EACH for (int k = 0; k < j; k++) d -= l[j * n + k] * l[j * n + k];
    NAME(check_pivot)(&d, 1, j, info);
    NAME(square_root)(&d);
    l[j * n + j] = d;
    inverse[j] = 1 / d;
    EACH for (int i = j + 1; i < n; i++) {
      if (LEAVES(g, j + 1)) return;
      VEC s = l[i * n + j];
      EACH for (int k = 0; k < j; k++) s -= l[i * n + k] * l[j * n + k];
      l[i * n + j] = s * inverse[j];
    }
  }
  (void)g;
}

/* ---- predict ---- */

/* mean_out = a mean + b, cov_out = a cov a^T + the symmetric part of q; cov symmetric. */
STAGE_FN void OF(predict)(STATE *g, VEC *const *in, const VEC *cov, VEC *mean_out, VEC *cov_out) {
  const int n = N, m = M;
  ROOM(t, M * N);
  MATRIX a = ROWS_OF(in[2], n), to = ROWS_OF(cov_out, m);
  OF(copy)(mean_out, in[3], m);
  OF(scale)(g, STILL, true, ROWS_OF(mean_out, 1), a, ROWS_OF(in[0], 1), m, n, 1, NAME(ADD), false);
  OF(scale)(g, STILL, true, ROWS_OF(t, n), a, ROWS_OF((VEC *)cov, n), m, n, n, NAME(SET), false);
  OF(symmetric_part)(cov_out, in[4], m);
  OF(scale)(g, STILL, false, to, ROWS_OF(t, n), TRANSPOSED(a), m, n, m, NAME(ADD), true);
  OF(mirror)(cov_out, m);
  (void)g;
}

INLINE void OF(run_predict)(STATE *g, VEC *out) {
  const int n = N;
  ROOM(cov, N * N);
  OF(symmetric_part)(cov, g->at[1], n);
  OF(predict)(g, g->at, cov, out, out + M);
}

/* ---- update ---- */

/* The parts of an update that its density and its gradient are made of. */
typedef struct UPDATE {
  const VEC *mean, *cov;           /* [n], [n, n], symmetric */
  VEC *c, *r, *v;                  /* [p, n], [p, p], [p], without what is missing */
  VEC *u, *s, *l, *inverse, *gain; /* c P [p, n], S [p, p], its Cholesky factor and reciprocals of that one's diagonal,
                                      K^T [p, n] */
} UPDATE;

/* v = y - c m - d, S = c P c^T + R = L L^T, K^T = S^-1 c P; in: y, c, d, r, observed. */
STAGE_FN void OF(innovation)(const STATE *g, const UPDATE *x, VEC *const *in, const VEC *observed, MASK *info) {
  const int n = N, p = P;
  VEC zero = {0};
  OF(symmetric_part)(x->r, in[3], p);
  EACH for (int i = 0; i < p; i++) x->v[i] = in[0][i] - in[2][i];
  MATRIX mean = ROWS_OF((VEC *)x->mean, 1);
  OF(scale)(g, UNIT, true, ROWS_OF(x->v, 1), ROWS_OF(in[1], n), mean, p, n, 1, NAME(SUBTRACT), false);
  OF(copy)(x->c, in[1], n * p);
  if (observed) NAME(leave_out)(observed, x->c, x->v, x->r, n, p);
  MATRIX c = ROWS_OF(x->c, n), u = ROWS_OF(x->u, n);
  OF(scale)(g, UNIT, true, u, c, ROWS_OF((VEC *)x->cov, n), p, n, n, NAME(SET), false);
  OF(copy)(x->s, x->r, p * p);
  OF(scale)(g, UNIT, false, ROWS_OF(x->s, p), u, TRANSPOSED(c), p, n, p, NAME(ADD), true);
  OF(mirror)(x->s, p);
  EACH for (int i = 0; i < p * p; i++) {
    x->l[i] = x->s[i];
    zero += x->s[i] * 0;
  }
  NAME(check_sum)(&zero, info);
  OF(cholesky)(g, x->l, x->inverse, p, info);
  OF(copy)(x->gain, x->u, n * p);
  OF(substitute)(g, x->l, x->inverse, false, x->gain, p, n, false);
  OF(substitute)(g, x->l, x->inverse, true, x->gain, p, n, false);
  (void)g;
}

/* log N(v; 0, S) = -(log det S + v^T S^-1 v + p log 2 pi) / 2 over the p that were observed. */
INLINE VEC OF(log_density)(STATE *g, const UPDATE *x, const VEC *observed) {
  const int p = P;
  const VEC none = {0}, one = none + 1;
  VEC sum = none, count = none + (REAL)p;
  ROOM(z, P);
  ROOM(diagonal, P);
  OF(copy)(z, x->v, p);
  OF(substitute)(g, x->l, x->inverse, false, z, p, 1, false);
  EACH for (int i = 0; i < p; i++) {
    diagonal[i] = x->l[i * p + i];
    sum += z[i] * z[i] * (REAL)0.5;
    if (observed) count -= SELECT(observed[i] != 0, none, one);
  }
  (void)g;
  return -(sum + NAME(log_products)(diagonal, p) + count * (REAL)0.91893853320467274178);
}

/* cov = (I - K c) P (I - K c)^T + K R K^T as T + (K R - T c^T) K^T with T = P - K u */
STAGE_FN void OF(joseph)(STATE *g, const UPDATE *x, VEC *cov) {
  const int n = N, p = P;
  ROOM(w, N * P);
  MATRIX gain = {x->gain, 1, n}, to = ROWS_OF(cov, n), c = ROWS_OF(x->c, n);
  OF(copy)(cov, x->cov, n * n);
  OF(product)(g, to, gain, ROWS_OF(x->u, n), n, p, n, NAME(SUBTRACT), false);
  OF(scale)(g, DIAGONAL(x->r, p), false, ROWS_OF(w, p), gain, ROWS_OF(x->r, p), n, p, p, NAME(SET), false);
  OF(scale)(g, UNIT, false, ROWS_OF(w, p), to, TRANSPOSED(c), n, n, p, NAME(SUBTRACT), false);
  OF(product)(g, to, ROWS_OF(w, p), TRANSPOSED(gain), n, p, n, NAME(ADD), true);
  OF(mirror)(cov, n);
  (void)g;
}

#define UPDATE_ROOM(x, mean, cov)                                                                                      \
  ROOM(x##_c, N *P);                                                                                                   \
  ROOM(x##_r, P *P);                                                                                                   \
  ROOM(x##_v, P);                                                                                                      \
  ROOM(x##_u, N *P);                                                                                                   \
  ROOM(x##_s, P *P);                                                                                                   \
  ROOM(x##_l, P *P);                                                                                                   \
  ROOM(x##_inverse, P);                                                                                                \
  ROOM(x##_gain, N *P);                                                                                                \
  UPDATE x = {mean, cov, x##_c, x##_r, x##_v, x##_u, x##_s, x##_l, x##_inverse, x##_gain}

/* mean and cov given what in holds: y, c, d, r, observed. */
INLINE void OF(update)(STATE *g, const VEC *mean, const VEC *cov, VEC *const *in, const VEC *observed, VEC *out,
                       MASK *info) {
  const int n = N, p = P;
  UPDATE_ROOM(x, mean, cov);
  OF(innovation)(g, &x, in, observed, info);
  OF(copy)(out, mean, n);
  OF(product)(g, ROWS_OF(out, 1), (MATRIX){x.gain, 1, n}, ROWS_OF(x.v, 1), n, p, 1, NAME(ADD), false);
  OF(joseph)(g, &x, out + n);
  out += n + n * n;
  *out++ = OF(log_density)(g, &x, observed);
  if (!g->s->details) return;
  OF(copy)(out, x.v, p);
  OF(copy)(out + p, x.s, p * p);
  out += p + p * p;
  EACH for (int i = 0; i < n; i++) EACH for (int j = 0; j < p; j++) *out++ = x.gain[j * n + i];
}

INLINE void OF(run_update)(STATE *g, const VEC *observed, VEC *out, MASK *info) {
  ROOM(cov, N * N);
  OF(symmetric_part)(cov, g->at[1], N);
  OF(update)(g, g->at[0], cov, g->at + 2, observed, out, info);
}

INLINE void OF(run_step)(STATE *g, const VEC *observed, VEC *out, MASK *info) {
  ROOM(cov, N * N);
  ROOM(mean, N);
  ROOM(next, N * N);
  OF(symmetric_part)(cov, g->at[1], N);
  OF(predict)(g, g->at, cov, mean, next);
  OF(update)(g, mean, next, g->at + 5, observed, out, info);
}

/* ---- adjoints ---- */

/* The gradients of mean, cov, a, where wanted, from those of the predicted mean dm and cov dp, symmetric. */
STAGE_FN void OF(predict_gradients)(STATE *g, const VEC *dm, const VEC *dp, const VEC *mean, const VEC *cov,
                                    const VEC *matrix, VEC *const *grad) {
  const int n = N, m = M;
  ROOM(t, M * N);
  MATRIX a = ROWS_OF((VEC *)matrix, n);
  if (grad[1] || grad[2])
    OF(scale)(g, STILL, false, ROWS_OF(t, n), ROWS_OF((VEC *)dp, m), a, m, m, n, NAME(SET), false);
  if (grad[0])
    OF(scale)(g, STILL, true, ROWS_OF(grad[0], 1), TRANSPOSED(a), ROWS_OF((VEC *)dm, 1), n, m, 1, NAME(SET), false);
  if (grad[1]) {
    OF(scale)(g, STILL, true, ROWS_OF(grad[1], n), TRANSPOSED(a), ROWS_OF(t, n), n, m, n, NAME(SET), true);
    OF(mirror)(grad[1], n);
  }
  if (grad[2]) {
    EACH for (int i = 0; i < m; i++) EACH for (int j = 0; j < n; j++) grad[2][i * n + j] = dm[i] * mean[j] * (REAL)0.5;
    OF(product)(g, ROWS_OF(grad[2], n), ROWS_OF(t, n), ROWS_OF((VEC *)cov, n), m, n, n, NAME(ADD), false);
    EACH for (int i = 0; i < m * n; i++) grad[2][i] *= 2;
  }
  (void)g;
}

/* dr = (w w^T - S^-1) dl / 2 + K^T G K - the symmetric part of (K^T dm') w^T, with KG = K^T G given. */
INLINE void OF(noise_gradient)(STATE *g, const UPDATE *x, const VEC *w, const VEC *ka, VEC *kg, VEC dl, VEC *dr) {
  const int n = N, p = P;
  ROOM(inverse, P * P);
  OF(unit)(inverse, p);
  OF(substitute)(g, x->l, x->inverse, false, inverse, p, p, true);
  OF(substitute)(g, x->l, x->inverse, true, inverse, p, p, true);
  OF(product)(g, ROWS_OF(dr, p), ROWS_OF(kg, n), (MATRIX){x->gain, 1, n}, p, n, p, NAME(SET), true);
  EACH for (int i = 0; i < p; i++) EACH for (int j = 0; j <= i; j++) {
    VEC density = (w[i] * w[j] - inverse[i * p + j]) * dl, cross = ka[i] * w[j] + w[i] * ka[j];
    dr[i * p + j] += (density - cross) * (REAL)0.5;
  }
  OF(mirror)(dr, p);
  (void)g;
}

/* The gradients of mean, cov (symmetric), y, c, d, r, where wanted, from those of the results dm, dp (symmetric), dl.
 * With w = S^-1 v, e = K^T dm' - dl w and Z = w dm'^T / 2 - K^T G they collapse to
 *   dm = dm' - c^T e, dy = e = -dd, dP = G + c^T Y + Y^T c with Y = Z + dr c / 2, dc = 2 (Z + dr c) P - e m^T. */
STAGE_FN void OF(update_gradients)(STATE *g, const UPDATE *u, const VEC *dm, const VEC *dp, VEC dl, VEC *const *grad) {
  const int n = N, p = P;
  ROOM(w, P);
  ROOM(ka, P);
  ROOM(e, P);
  ROOM(kg, N * P);
  ROOM(dr, P * P);
  ROOM(rc, N * P);
  MATRIX c = ROWS_OF(u->c, n), gain = ROWS_OF(u->gain, n);
  OF(copy)(w, u->v, p);
  OF(substitute)(g, u->l, u->inverse, false, w, p, 1, false);
  OF(substitute)(g, u->l, u->inverse, true, w, p, 1, false);
  OF(product)(g, ROWS_OF(ka, 1), gain, ROWS_OF((VEC *)dm, 1), p, n, 1, NAME(SET), false);
  OF(product)(g, ROWS_OF(kg, n), gain, ROWS_OF((VEC *)dp, n), p, n, n, NAME(SET), false);
  OF(noise_gradient)(g, u, w, ka, kg, dl, dr);
  OF(scale)(g, UNIT, false, ROWS_OF(rc, n), ROWS_OF(dr, p), c, p, p, n, NAME(SET), false);
  EACH for (int i = 0; i < p; i++) {
    e[i] = ka[i] - dl * w[i];
    EACH for (int j = 0; j < n; j++) kg[i * n + j] = w[i] * dm[j] * (REAL)0.5 - kg[i * n + j]; /* Z */
  }
  if (grad[0]) {
    OF(copy)(grad[0], dm, n);
    OF(scale)(g, UNIT, true, ROWS_OF(grad[0], 1), TRANSPOSED(c), ROWS_OF(e, 1), n, p, 1, NAME(SUBTRACT), false);
  }
  if (grad[3]) {
    ROOM(t, N * P);
    EACH for (int i = 0; i < n * p; i++) t[i] = (kg[i] + rc[i]) * 2;
    EACH for (int i = 0; i < p; i++) EACH for (int j = 0; j < n; j++) grad[3][i * n + j] = -e[i] * u->mean[j];
    OF(product)(g, ROWS_OF(grad[3], n), ROWS_OF(t, n), ROWS_OF((VEC *)u->cov, n), p, n, n, NAME(ADD), false);
  }
  if (grad[1]) {
    ROOM(t, N * N);
    EACH for (int i = 0; i < n * p; i++) kg[i] += rc[i] * (REAL)0.5; /* Y */
    OF(scale)(g, UNIT, true, ROWS_OF(t, n), TRANSPOSED(c), ROWS_OF(kg, n), n, p, n, NAME(SET), false);
    EACH for (int i = 0; i < n; i++) EACH for (int j = 0; j < n; j++) grad[1][i * n + j] =
        dp[i * n + j] + (t[i * n + j] + t[j * n + i]);
  }
  EACH for (int i = 0; i < p; i++) {
    if (grad[2]) grad[2][i] = e[i];
    if (grad[4]) grad[4][i] = -e[i];
  }
  if (grad[5]) OF(copy)(grad[5], dr, p * p);
}

INLINE void OF(predict_adjoint)(STATE *g, PIECES *x) {
  ROOM(dp, M * M);
  ROOM(cov, N * N);
  OF(symmetric_part)(dp, g->at[0] + M, M);
  OF(symmetric_part)(cov, g->at[2], N);
  OF(predict_gradients)(g, g->at[0], dp, g->at[1], cov, g->at[3], x->grad + 1);
}

INLINE void OF(update_adjoint)(STATE *g, const VEC *observed, PIECES *x, MASK *info) {
  ROOM(dp, N * N);
  ROOM(cov, N * N);
  OF(symmetric_part)(dp, g->at[0] + N, N);
  OF(symmetric_part)(cov, g->at[2], N);
  UPDATE_ROOM(u, g->at[1], cov);
  OF(innovation)(g, &u, g->at + 3, observed, info);
  OF(update_gradients)(g, &u, g->at[0], dp, g->at[0][N + N * N], x->grad + 1);
  if (observed) NAME(drop_missing)(observed, x->grad + 3, N, P);
}

/* Operands: g; mean, cov, a, b, q; y, c, d, r, observed. The predicted state is computed again. */
INLINE void OF(step_adjoint)(STATE *g, const VEC *observed, PIECES *x, MASK *info) {
  ROOM(dp, N * N);
  ROOM(cov, N * N);
  ROOM(mean, N);
  ROOM(next, N * N);
  ROOM(mean_gradient, N);
  ROOM(next_gradient, N * N);
  VEC *update[6] = {mean_gradient, next_gradient, x->grad[6], x->grad[7], x->grad[8], x->grad[9]};
  OF(symmetric_part)(dp, g->at[0] + N, N);
  OF(symmetric_part)(cov, g->at[2], N);
  OF(predict)(g, g->at + 1, cov, mean, next);
  UPDATE_ROOM(u, mean, next);
  OF(innovation)(g, &u, g->at + 6, observed, info);
  OF(update_gradients)(g, &u, g->at[0], dp, g->at[0][N + N * N], update);
  if (observed) NAME(drop_missing)(observed, x->grad + 6, N, P);
  if (x->grad[4]) OF(copy)(x->grad[4], mean_gradient, N);
  if (x->grad[5]) OF(copy)(x->grad[5], next_gradient, N * N);
  OF(predict_gradients)(g, mean_gradient, next_gradient, g->at[1], cov, g->at[3], x->grad + 1);
}

/* ---- one group ---- */

/* Not part of the caller: each pair of orders has registers and a stack of its own. */
static __attribute__((noinline)) TARGET void OF(run)(STATE *g, const VEC *observed, VEC *out, PIECES *x, MASK *info) {
  switch (g->s->kind) {
  case PNI_KALMAN_PREDICT: OF(run_predict)(g, out); break;
  case PNI_KALMAN_UPDATE: OF(run_update)(g, observed, out, info); break;
  case PNI_KALMAN_STEP: OF(run_step)(g, observed, out, info); break;
  case PNI_KALMAN_PREDICT_ADJOINT: OF(predict_adjoint)(g, x); break;
  case PNI_KALMAN_UPDATE_ADJOINT: OF(update_adjoint)(g, observed, x, info); break;
  case PNI_KALMAN_STEP_ADJOINT: OF(step_adjoint)(g, observed, x, info); break;
  default: break; /* roots: kalman_real.h */
  }
}

#undef EACH
#undef ROOM
#undef PRODUCT_FN
#undef BOUND
#undef STAGE_FN
#undef PART_FN
#undef UPDATE
#undef UPDATE_ROOM
#undef M
#undef STILL
#undef UNIT
#undef DIAGONAL
#undef OF
#undef N
#undef P
#undef FIXED
