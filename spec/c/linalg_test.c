/*
** linalg_test.c: linear algebra against NumPy and SciPy, against itself one matrix at a time, through both
** paths of small matrices, on strided, broadcast and empty batches, and where no factorisation exists.
*/
#include "../../src/autodiff/op/op.h"
#include "../../src/tensor/lapack/effort.h"
#include "../../src/tensor/lapack/factor.h"
#include "../../src/tensor/lapack/linalg.h"
#include "../golden/linalg/linalg_golden.h"
#include "alloc_sweep.h"
#include "gradient.h"
#include "untouched.h"

#define SHAPE(...)                                                                                                     \
  (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]) { __VA_ARGS__ }

typedef pn_tensor T;
typedef pn_context C;

static T *mt(C *c, T *x) { return pn_transpose(c, x, -2, -1); }
static T *random_tensor(C *c, pn_dtype d, int ndim, const int64_t *shape) { return pn_randn(c, NULL, d, ndim, shape); }

/* x x^T + n I */
static T *positive(C *c, T *x) {
  int64_t n = x ? x->shape[x->ndim - 1] : 0;
  T *shift = pn_mul(c, pn_eye(c, (pn_dtype)x->dtype, n, n), pn_scalar(c, (pn_dtype)x->dtype, (double)n));
  return pn_add(c, pn_matmul(c, x, mt(c, x)), shift);
}

/* x + n I: far from singular, not symmetric. */
static T *regular(C *c, T *x) {
  int64_t n = x ? x->shape[x->ndim - 1] : 0;
  return pn_add(c, x, pn_mul(c, pn_eye(c, (pn_dtype)x->dtype, n, n), pn_scalar(c, (pn_dtype)x->dtype, (double)n)));
}

/* Largest |x - y| / max(1, max |y|), NaN if shapes differ. */
static double distance(C *c, T *x, T *y) {
  double d = 0, scale = 1;
  if (!x || !y || x->ndim != y->ndim || memcmp(x->shape, y->shape, (size_t)x->ndim * sizeof *x->shape) != 0) return NAN;
  if (x->numel == 0) return 0;
  pn_tensor_item(c, pn_max(c, pn_abs(c, pn_sub(c, x, y)), PN_ALL, 0), &d);
  pn_tensor_item(c, pn_max(c, pn_abs(c, y), PN_ALL, 0), &scale);
  return d / fmax(1, scale);
}
#define CHECK_SAME(c, x, y, tolerance) CHECK(distance(c, x, y) <= (tolerance))

static void golden(C *c, T *x, const double *want, int64_t size) {
  double got[2048];
  CHECK_STATUS(c, pn_tensor_copy_out(c, x, got, size), PN_OK);
  bool ok = true;
  for (int64_t i = 0; i < size; i++) ok = ok && fabs(got[i] - want[i]) <= 1e-10 * fmax(1, fabs(want[i]));
  CHECK(ok);
}
#define GOLDEN(c, x, name) golden(c, x, golden_##name, (int64_t)(sizeof golden_##name / sizeof(double)))

#define GOLDENS(tag, batch, n, k)                                                                                      \
  static void goldens_##tag(C *c) {                                                                                    \
    size_t mark = pn_scope_open(c);                                                                                    \
    T *a = pn_from_data(c, PN_FLOAT64, SHAPE(batch, n, n), golden_a_##tag);                                            \
    T *p = pn_from_data(c, PN_FLOAT64, SHAPE(batch, n, n), golden_p_##tag);                                            \
    T *b = pn_from_data(c, PN_FLOAT64, SHAPE(batch, n, k), golden_b_##tag);                                            \
    GOLDEN(c, pn_cholesky(c, p), cholesky_##tag);                                                                      \
    GOLDEN(c, pn_solve_triangular(c, a, b, 0, 0), solve_triangular_##tag);                                             \
    GOLDEN(c, pn_solve_triangular(c, a, b, 1, 1), solve_triangular_upper_t_##tag);                                     \
    GOLDEN(c, pn_cholesky_solve(c, pn_cholesky(c, p), b), cholesky_solve_##tag);                                       \
    GOLDEN(c, pn_solve(c, a, b), solve_##tag);                                                                         \
    GOLDEN(c, pn_inverse(c, a), inverse_##tag);                                                                        \
    GOLDEN(c, pn_logdet(c, a), logdet_##tag);                                                                          \
    GOLDEN(c, pn_det_sign(c, a), det_sign_##tag);                                                                      \
    GOLDEN(c, pn_det(c, a), det_##tag);                                                                                \
    pn_scope_close(c, mark);                                                                                           \
  }
GOLDENS(s, 3, 4, 2)
GOLDENS(l, 2, 20, 3)

/* ---- both paths of small matrices ---- */

static T *on_path(C *c, int path, int kind, int flags, T *a, T *b) {
  pni_spec s = pni_spec_of(b ? b : a);
  if (kind >= PNI_LANE_LOGDET && kind <= PNI_LANE_DET_SIGN) s.ndim -= 2;
  T *out = pni_scoped(c, pni_tensor_new(c, &s));
  return out && pni_linalg(c, "test", path, kind, flags, a, b, out) == PN_OK ? out : NULL;
}

static void paths_agree(C *c, pn_dtype dtype, int64_t n, int64_t batch) {
  size_t mark = pn_scope_open(c);
  double tolerance = dtype == PN_FLOAT64 ? 1e-12 : 1e-4;
  int64_t k = n % 5 + 1;
  T *x = random_tensor(c, dtype, SHAPE(batch, n, n)), *p = positive(c, x), *a = regular(c, x);
  T *b = random_tensor(c, dtype, SHAPE(batch, n, k));
  T *rows = pn_flip(c, a, 1); /* the diagonal of flipped rows is small: exchanges happen */
  for (int kind = 0; kind < PNI_LANE_KINDS; kind++) {
    if (kind == PNI_LANE_DET && dtype == PN_FLOAT32 && n > 16) continue; /* beyond what float32 holds */
    bool system = kind == PNI_LANE_TRIANGULAR || kind == PNI_LANE_CHOLESKY_SOLVE || kind == PNI_LANE_SOLVE;
    T *m = kind == PNI_LANE_CHOLESKY ? p : kind >= PNI_LANE_SOLVE ? rows : a;
    for (int flags = 0; flags < (kind == PNI_LANE_TRIANGULAR ? 4 : 1); flags++)
      CHECK_SAME(c, on_path(c, PNI_PATH_SMALL, kind, flags, m, system ? b : NULL),
                 on_path(c, PNI_PATH_LAPACK, kind, flags, m, system ? b : NULL), tolerance);
  }
  /* matrices and right sides read through other strides */
  CHECK_SAME(c, on_path(c, PNI_PATH_SMALL, PNI_LANE_SOLVE, 0, mt(c, rows), pn_flip(c, b, 2)),
             on_path(c, PNI_PATH_LAPACK, PNI_LANE_SOLVE, 0, mt(c, rows), pn_flip(c, b, 2)), tolerance);
  CHECK_SAME(c, on_path(c, PNI_PATH_SMALL, PNI_LANE_TRIANGULAR, PNI_UPPER, mt(c, a), b),
             on_path(c, PNI_PATH_LAPACK, PNI_LANE_TRIANGULAR, PNI_UPPER, mt(c, a), b), tolerance);
  pn_scope_close(c, mark);
}

/* Every instruction set gives the same bits, for groups full or not. */
static void instruction_sets(C *c, pn_dtype dtype, int n, int count) {
  size_t mark = pn_scope_open(c);
  int lanes, info[PNI_LANE_COUNT];
  size_t size = pn_dtype_size(dtype), bytes = (size_t)(n * n) * size;
  T *x = random_tensor(c, dtype, SHAPE(count, n, n)), *p = positive(c, x),
    *b = random_tensor(c, dtype, SHAPE(count, n, n));
  const void *a_at[PNI_LANE_COUNT], *b_at[PNI_LANE_COUNT];
  void *out[PNI_LANE_COUNT];
  static unsigned char got[3][PNI_LANE_COUNT * 32 * 32 * 8];
  static _Alignas(64) unsigned char scratch[(3 * 32 * 32 + 32) * 64];
  memset(got, 0, sizeof got);
  for (int kind = 0; kind <= PNI_LANE_MATMUL - (n > PNI_LANE_PRODUCT); kind++) {
    pni_lane_matrix s = {
        .kind = (pni_lane_problem)kind, .n = n, .k = n, .inner = n, .a_row = n, .a_col = 1, .b_row = n, .b_col = 1};
    for (int level = 0; level <= PNI_LANE_BEST; level++) {
      pni_lane_group group = dtype == PN_FLOAT64 ? pni_lane_f64(level, &lanes) : pni_lane_f32(level, &lanes);
      for (int first = 0; first < count; first += lanes) {
        int here = count - first < lanes ? count - first : lanes;
        for (int l = 0; l < here; l++) {
          a_at[l] = (const char *)pni_data(p) + (size_t)(first + l) * bytes;
          b_at[l] = (const char *)pni_data(b) + (size_t)(first + l) * bytes;
          out[l] = got[level] + (size_t)(first + l) * bytes;
        }
        group(&s, scratch, here, a_at, b_at, out, info);
      }
    }
    CHECK(memcmp(got[0], got[1], sizeof got[0]) == 0);
    CHECK(memcmp(got[0], got[2], sizeof got[0]) == 0);
  }
  pn_scope_close(c, mark);
}

/* A matrix's result does not depend on its neighbours in a group. */
static void neighbours(C *c, pn_dtype dtype) {
  size_t mark = pn_scope_open(c);
  T *x = random_tensor(c, dtype, SHAPE(37, 6, 6)), *p = positive(c, x);
  T *whole = on_path(c, PNI_PATH_SMALL, PNI_LANE_CHOLESKY, 0, p, NULL);
  for (int64_t i = 0; i < 37; i += 9) {
    T *one = on_path(c, PNI_PATH_SMALL, PNI_LANE_CHOLESKY, 0, pn_slice(c, p, 0, i, 1, 1), NULL);
    CHECK_SAME(c, one, pn_slice(c, whole, 0, i, 1, 1), 0);
  }
  pn_scope_close(c, mark);
}

/* ---- a batch is its matrices one by one ---- */

typedef T *(*unary)(C *c, T *x);

static void batch_is_loop(C *c, unary f, int64_t n, bool definite) {
  size_t mark = pn_scope_open(c);
  T *x = random_tensor(c, PN_FLOAT64, SHAPE(2, 3, n, n)), *a = definite ? positive(c, x) : regular(c, x);
  T *all = f(c, a), *strided = f(c, mt(c, a)), *copied = f(c, pn_contiguous(c, mt(c, a)));
  CHECK_SAME(c, strided, copied, 1e-13);
  for (int64_t i = 0; i < 2; i++)
    for (int64_t j = 0; j < 3; j++) {
      T *one = f(c, pn_select(c, pn_select(c, a, 0, i), 0, j));
      CHECK_SAME(c, pn_select(c, pn_select(c, all, 0, i), 0, j), one, 1e-13);
    }
  pn_scope_close(c, mark);
}

static T *solve_lower(C *c, T *a, T *b) { return pn_solve_triangular(c, a, b, 0, 0); }
typedef T *(*binary)(C *c, T *a, T *b);

/* Leading axes broadcast either way, and a vector is one column. */
static void broadcasts(C *c, binary f, int64_t n) {
  size_t mark = pn_scope_open(c);
  T *a = regular(c, random_tensor(c, PN_FLOAT64, SHAPE(n, n)));
  T *many = regular(c, random_tensor(c, PN_FLOAT64, SHAPE(5, 1, n, n)));
  T *b = random_tensor(c, PN_FLOAT64, SHAPE(3, n, 1)), *v = random_tensor(c, PN_FLOAT64, SHAPE(n));
  T *shared = f(c, a, b), *both = f(c, many, b), *vector = f(c, many, v);
  for (int64_t i = 0; i < 3; i++) CHECK_SAME(c, pn_select(c, shared, 0, i), f(c, a, pn_select(c, b, 0, i)), 1e-12);
  for (int64_t i = 0; i < 5; i++) {
    T *m = pn_select(c, pn_select(c, many, 0, i), 0, 0);
    CHECK_SAME(c, pn_select(c, pn_select(c, both, 0, i), 0, 2), f(c, m, pn_select(c, b, 0, 2)), 1e-12);
    CHECK_SAME(c, pn_select(c, pn_select(c, vector, 0, i), 0, 0), f(c, m, v), 1e-12);
  }
  CHECK_SAME(c, pn_unsqueeze(c, f(c, a, v), 1), f(c, a, pn_unsqueeze(c, v, 1)), 1e-13);
  pn_scope_close(c, mark);
}

/* ---- nothing to do ---- */

static void empty(C *c) {
  size_t mark = pn_scope_open(c);
  T *none = pn_zeros(c, PN_FLOAT64, SHAPE(2, 0, 0)), *no_batch = pn_zeros(c, PN_FLOAT32, SHAPE(0, 3, 3));
  unary square[] = {pn_cholesky, pn_inverse};
  for (int i = 0; i < 2; i++) {
    CHECK_SAME(c, square[i](c, none), none, 0);
    CHECK_SAME(c, square[i](c, no_batch), no_batch, 0);
  }
  CHECK_SAME(c, pn_logdet(c, none), pn_zeros(c, PN_FLOAT64, SHAPE(2)), 0);
  CHECK_SAME(c, pn_det(c, none), pn_full(c, PN_FLOAT64, SHAPE(2), 1), 0);
  CHECK_SAME(c, pn_det_sign(c, none), pn_full(c, PN_FLOAT64, SHAPE(2), 1), 0);
  CHECK_SAME(c, pn_det(c, no_batch), pn_zeros(c, PN_FLOAT32, SHAPE(0)), 0);
  T *b = pn_zeros(c, PN_FLOAT64, SHAPE(2, 0, 3)), *a = pn_zeros(c, PN_FLOAT64, SHAPE(3, 3));
  T *no_column = pn_zeros(c, PN_FLOAT64, SHAPE(3, 0));
  binary system[] = {pn_solve, pn_cholesky_solve, solve_lower};
  for (int i = 0; i < 3; i++) {
    CHECK_SAME(c, system[i](c, none, b), b, 0);
    CHECK_SAME(c, system[i](c, a, no_column), no_column, 0);
    T *w = pn_param(c, none), *r = pn_param(c, b), *in[] = {w, r}, *g[2];
    CHECK_STATUS(c, pn_grad(c, pn_sum(c, system[i](c, w, r), PN_ALL, 0), 2, in, 0, g), PN_OK);
    CHECK_SAME(c, g[1], b, 0);
  }
  T *w = pn_param(c, none), *g = NULL;
  CHECK_STATUS(c, pn_grad(c, pn_sum(c, pn_cholesky(c, w), PN_ALL, 0), 1, &w, 0, &g), PN_OK);
  CHECK_STATUS(c, pn_grad(c, pn_sum(c, pn_logdet(c, w), PN_ALL, 0), 1, &w, 0, &g), PN_OK);
  pn_scope_close(c, mark);
}

/* ---- failures ---- */

/* `count` identity matrices of order n, with one element of matrix i changed. */
static T *spoilt(C *c, int64_t count, int64_t n, int64_t i, int64_t row, int64_t col, double value) {
  T *eye = pn_contiguous(c, pn_broadcast_to(c, pn_eye(c, PN_FLOAT64, n, n), SHAPE(2, count / 2, n, n)));
  if (eye) ((double *)pni_data(eye))[(i * n + row) * n + col] = value;
  return eye;
}

static void failures(C *c) {
  const int64_t batch[] = {2, 8, 40};
  for (int b = 0; b < 3; b++)
    for (int64_t n = 3; n <= 20; n += 17) {
      size_t mark = pn_scope_open(c);
      int64_t i = batch[b] - 1;
      char name[64];
      snprintf(name, sizeof name, "matrix [2, %lld] of the batch must be", (long long)batch[b] / 2);
      T *v = pn_full(c, PN_FLOAT64, SHAPE(n), 1);
      T *minor = spoilt(c, batch[b], n, i, 1, 1, -1), *zero = spoilt(c, batch[b], n, i, 1, 1, 0);
      T *nan = spoilt(c, batch[b], n, i, 2, 0, NAN), *inf = spoilt(c, batch[b], n, i, 2, 0, INFINITY);
      CHECK(pn_cholesky(c, minor) == NULL);
      CHECK(strstr(pn_context_message(c), name) != NULL);
      CHECK_FAIL(c, PN_SINGULAR, "leading minor of order 2");
      CHECK(pn_cholesky(c, zero) == NULL);
      CHECK_FAIL(c, PN_SINGULAR, "leading minor of order 2");
      CHECK(pn_cholesky(c, nan) == NULL);
      CHECK(strstr(pn_context_message(c), name) != NULL);
      CHECK_FAIL(c, PN_NAN, "finite");
      CHECK(pn_solve(c, zero, v) == NULL);
      CHECK(strstr(pn_context_message(c), name) != NULL);
      CHECK_FAIL(c, PN_SINGULAR, "step 2");
      CHECK(pn_inverse(c, zero) == NULL);
      CHECK_FAIL(c, PN_SINGULAR, "invertible");
      CHECK(pn_solve(c, inf, v) == NULL);
      CHECK_FAIL(c, PN_NAN, "finite");
      CHECK(pn_det(c, nan) == NULL);
      CHECK_FAIL(c, PN_NAN, "det: ");
      CHECK(pn_solve_triangular(c, zero, v, 0, 0) == NULL);
      CHECK_FAIL(c, PN_SINGULAR, "place 2 of its diagonal");
      CHECK(pn_solve_triangular(c, nan, v, 0, 0) == NULL);
      CHECK_FAIL(c, PN_NAN, "finite");
      CHECK(pn_solve_triangular(c, nan, v, 1, 0) != NULL); /* the other triangle is not read */
      CHECK(pn_cholesky_solve(c, zero, v) == NULL);
      CHECK_FAIL(c, PN_SINGULAR, "place 2 of its diagonal");
      /* determinants of singular matrices are numbers */
      CHECK_NEAR(pni_element(pn_logdet(c, zero), i), -INFINITY, 0);
      CHECK_NEAR(pni_element(pn_det(c, zero), i), 0, 0);
      CHECK_NEAR(pni_element(pn_det_sign(c, zero), i), 0, 0);
      CHECK_NEAR(pni_element(pn_det(c, minor), i), -1, 0);
      CHECK_NEAR(pni_element(pn_det_sign(c, minor), i), -1, 0);
      CHECK_NEAR(pni_element(pn_logdet(c, minor), 0), 0, 0);
      pn_scope_close(c, mark);
    }
  size_t mark = pn_scope_open(c);
  /* the matrix is counted in its own batch */
  T *two = spoilt(c, 2, 3, 1, 0, 0, 0), *sides = pn_full(c, PN_FLOAT64, SHAPE(5, 2, 1, 3, 2), 1);
  CHECK(pn_solve(c, two, sides) == NULL);
  CHECK_FAIL(c, PN_SINGULAR, "solve: matrix [2, 1] of the batch must be");
  CHECK(pn_solve(c, pn_zeros(c, PN_FLOAT64, SHAPE(3, 3)), sides) == NULL);
  CHECK_FAIL(c, PN_SINGULAR, "solve: matrix must be");
  CHECK(pn_cholesky_solve(c, pn_full(c, PN_FLOAT64, SHAPE(3, 3), NAN), pn_slice(c, sides, -1, 0, 1, 1)) == NULL);
  CHECK_FAIL(c, PN_NAN, "cholesky_solve: matrix must be finite");
  CHECK(pn_cholesky(c, pn_zeros(c, PN_FLOAT64, SHAPE(2, 2))) == NULL);
  CHECK_FAIL(c, PN_SINGULAR, "cholesky: matrix must be positive definite");
  CHECK(pn_cholesky(c, pn_zeros(c, PN_FLOAT64, SHAPE(2, 3))) == NULL);
  CHECK_FAIL(c, PN_SHAPE, "[..., n, n], got [2, 3]");
  CHECK(pn_cholesky(c, pn_zeros(c, PN_INT64, SHAPE(2, 2))) == NULL);
  CHECK_FAIL(c, PN_DTYPE, "got int64");
  CHECK(pn_solve(c, pn_eye(c, PN_FLOAT64, 2, 2), pn_zeros(c, PN_FLOAT64, SHAPE(3, 1))) == NULL);
  CHECK_FAIL(c, PN_SHAPE, "solve: right side of a matrix [2, 2] must be [..., 2, k] or [2], got [3, 1]");
  CHECK(pn_solve(c, pn_eye(c, PN_FLOAT64, 2, 2), pn_scalar(c, PN_FLOAT64, 1)) == NULL);
  CHECK_FAIL(c, PN_SHAPE, "got []");
  CHECK(pn_solve(c, pn_eye(c, PN_FLOAT64, 2, 2), pn_zeros(c, PN_FLOAT32, SHAPE(2))) == NULL);
  CHECK_FAIL(c, PN_DTYPE, "float64 and float32");
  pn_scope_close(c, mark);
}

/* NaN in a right side stays in its column. */
static void nan_columns(C *c, int64_t n, int64_t batch) {
  size_t mark = pn_scope_open(c);
  binary system[] = {pn_solve, pn_cholesky_solve, solve_lower};
  T *a = regular(c, random_tensor(c, PN_FLOAT64, SHAPE(n, n)));
  T *b = pn_full(c, PN_FLOAT64, SHAPE(batch, n, 2), 1);
  for (int64_t i = 0; b && i < n; i++) ((double *)pni_data(b))[2 * i] = NAN;
  for (int i = 0; i < 3; i++) {
    T *x = system[i](c, a, b);
    CHECK(x && isnan(pni_element(x, 0)) && isfinite(pni_element(x, 1)));
    x = system[i](c, a, pn_slice(c, b, 2, 0, 1, 1)); /* right sides as rows */
    CHECK(x && isnan(pni_element(x, 0)) && isfinite(pni_element(x, n)));
  }
  pn_scope_close(c, mark);
}

/* ---- gradients ---- */

static T *f_cholesky(C *c, T *const *x) { return pn_cholesky(c, x[0]); }
static T *f_lower(C *c, T *const *x) { return pn_solve_triangular(c, x[0], x[1], 0, 0); }
static T *f_upper_t(C *c, T *const *x) { return pn_solve_triangular(c, x[0], x[1], 1, 1); }
static T *f_cholesky_solve(C *c, T *const *x) { return pn_cholesky_solve(c, x[0], x[1]); }
static T *f_solve(C *c, T *const *x) { return pn_solve(c, x[0], x[1]); }
static T *f_inverse(C *c, T *const *x) { return pn_inverse(c, x[0]); }
static T *f_logdet(C *c, T *const *x) { return pn_logdet(c, x[0]); }
static T *f_det(C *c, T *const *x) { return pn_det(c, x[0]); }

static void gradients(C *c) {
  size_t mark = pn_scope_open(c);
  T *x = random_tensor(c, PN_FLOAT64, SHAPE(5, 3, 3)), *a = pn_param(c, regular(c, x));
  T *p = pn_param(c, positive(c, x)), *b = random_tensor(c, PN_FLOAT64, SHAPE(5, 3, 2));
  T *system[] = {a, pn_param(c, b)}, *vector[] = {a, pn_param(c, random_tensor(c, PN_FLOAT64, SHAPE(3)))};
  T *shared[] = {pn_param(c, pn_select(c, a, 0, 1)), pn_param(c, b)};
  T *rows[] = {shared[0], pn_param(c, pn_slice(c, b, 2, 0, 1, 1))};
  gradient_check(c, "cholesky", f_cholesky, 1, &p);
  gradient_check(c, "inverse", f_inverse, 1, &a);
  gradient_check(c, "logdet", f_logdet, 1, &a);
  gradient_check(c, "det", f_det, 1, &a);
  gradient_function f[] = {f_lower, f_upper_t, f_cholesky_solve, f_solve};
  for (int i = 0; i < 4; i++) {
    gradient_check(c, "system", f[i], 2, system);
    gradient_check(c, "system of vectors", f[i], 2, vector);
    gradient_check(c, "system with one matrix", f[i], 2, shared);
    gradient_check(c, "system with one matrix, one column", f[i], 2, rows);
  }
  pn_scope_close(c, mark);
}

/* ---- memory ---- */

static bool factor_and_solve(C *c, const void *data) {
  int64_t n = *(const int64_t *)data;
  T *x = random_tensor(c, PN_FLOAT64, SHAPE(9, n, n));
  T *a = x ? pn_param(c, regular(c, x)) : NULL, *p = a ? positive(c, a) : NULL, *v = pn_select(c, x, 0, 0);
  T *y = pn_add(c, pn_solve(c, a, v), pn_cholesky_solve(c, pn_cholesky(c, p), v));
  y = pn_add(c, y, pn_solve_triangular(c, mt(c, a), pn_inverse(c, a), 0, 1));
  y = pn_add(c, pn_sum(c, y, PN_ALL, 0), pn_sum(c, pn_add(c, pn_logdet(c, a), pn_det(c, a)), PN_ALL, 0));
  return y && pn_backward(c, y) == PN_OK;
}

/* A million matrices: no limit is near, and no bit depends on the number of threads. */
static void million(void) {
  enum { COUNT = 1000000, N = 4 };
  static float first[COUNT / 8][N * N];
  for (int way = 0; way < 2; way++) {
    C *c = pn_context_new(&(pn_context_config){.seed = 8, .threads = way ? 3 : 1});
    size_t mark = pn_scope_open(c);
    T *x = pn_randn(c, NULL, PN_FLOAT32, SHAPE(COUNT, N, N)),
      *p = pn_add(c, pn_matmul(c, x, mt(c, x)), pn_eye(c, PN_FLOAT32, N, N));
    T *l = pn_cholesky(c, p), *some = l ? pn_contiguous(c, pn_slice(c, l, 0, 0, COUNT / 8, 8)) : NULL;
    CHECK(distance(c, pn_matmul(c, l, mt(c, l)), p) < 1e-4);
    if (some && way) CHECK(memcmp(pni_data(some), first, sizeof first) == 0);
    if (some) memcpy(first, pni_data(some), sizeof first);
    CHECK(some != NULL);
    pn_scope_close(c, mark);
    pn_context_close(c);
  }
}

/* With 100 seconds left, at a pace that is known: what takes 50 may begin, what takes 200 is refused; without a limit,
 * and of few operations, nothing is. */
static void effort(void) {
  C *c = pn_context_new(NULL);
  c->pace[0] = 1e-6;
  c->pace[1] = 4e-6;
  CHECK(pni_check_effort(c, "try", PN_FLOAT64, 700, 300, 2e9) == PN_OK);
  pn_context_set_deadline(c, 100);
  CHECK(pni_check_effort(c, "try", PN_FLOAT64, 700, 300, 1e8) == PN_OK);
  c->pace[0] = 50 / 1e9;
  c->pace[1] = 200 / 1e9;
  CHECK(pni_check_effort(c, "try", PN_FLOAT64, 700, 300, 1e9) == PN_OK);
  CHECK(pni_check_effort(c, "try", PN_FLOAT64, 700, 300, 4e9) == PN_CANCELLED);
  CHECK_FAIL(c, PN_CANCELLED, "try of a matrix of 700 by 300 takes about 2e+02 seconds, and 1e+02 are left");
  CHECK(pni_check_effort(c, "try", PN_FLOAT32, 700, 300, 1e9) == PN_CANCELLED);
  CHECK_FAIL(c, PN_CANCELLED, "takes about 2e+02 seconds");
  pn_context_close(c);
}

/* ---- what is read ---- */

/* A number that is not finite at each place: refused where the problem reads it, else without influence; of matrices
 * by rows, by columns, and within larger ones. */
static void places(C *c, int64_t n, double value) {
  for (int64_t at = 0; at < n * n; at++)
    for (int layout = 0; layout < 3; layout++) {
      size_t mark = pn_scope_open(c);
      int64_t i = at / n, j = at % n, m = n + 2, shape[2] = {m, m};
      T *large = pn_mul(c, pn_eye(c, PN_FLOAT64, m, m), pn_scalar(c, PN_FLOAT64, 3)),
        *b = pn_zeros(c, PN_FLOAT64, 2, shape);
      if (!layout) large = pn_contiguous(c, pn_slice(c, pn_slice(c, large, 0, 0, n, 1), 1, 0, n, 1));
      ((double *)pni_data(large))[layout == 1 ? j * m + i : i * (layout ? m : n) + j] = value;
      T *a = layout ? pn_slice(c, pn_slice(c, large, 0, 0, n, 1), 1, 0, n, 1) : large;
      if (layout == 1) a = mt(c, a);
      b = pn_slice(c, pn_slice(c, b, 0, 0, n, 1), 1, 0, 1, 1);
      for (int kind = 0; kind < PNI_LANE_KINDS; kind++)
        for (int flags = 0; flags < (kind == PNI_LANE_TRIANGULAR ? 4 : 1); flags++)
          for (int path = PNI_PATH_LAPACK; path <= PNI_PATH_SMALL; path++) {
            if (kind == PNI_LANE_TRIA) continue;
            bool triangle = kind == PNI_LANE_TRIANGULAR || kind == PNI_LANE_CHOLESKY_SOLVE;
            bool reads = !triangle || (flags & PNI_UPPER ? j >= i : i >= j);
            T *x = on_path(c, path, kind, flags, a, triangle || kind == PNI_LANE_SOLVE ? b : NULL);
            if ((x == NULL) != reads) printf("order %d, kind %d, path %d, place %d\n", (int)n, kind, path, (int)at);
            CHECK((x == NULL) == reads);
            if (reads) CHECK_FAIL(c, PN_NAN, "test: matrix must be finite, got inf or nan");
            if (!triangle || i != j) continue;
            ((double *)pni_data(large))[i * (layout ? m : n) + i] = 0;
            CHECK(on_path(c, path, kind, flags, a, b) == NULL);
            char text[64];
            snprintf(text, sizeof text, "got 0 at place %d of its diagonal", (int)i + 1);
            CHECK_FAIL(c, PN_SINGULAR, text);
            ((double *)pni_data(large))[i * (layout ? m : n) + i] = value;
          }
      pn_scope_close(c, mark);
    }
}

/* Matrices in any memory are what their copies are. */
static void views(C *c, int64_t n) {
  size_t mark = pn_scope_open(c);
  T *large = random_tensor(c, PN_FLOAT64, SHAPE(2, n + 3, n + 2)), *b = random_tensor(c, PN_FLOAT64, SHAPE(2, n, 2));
  T *part = pn_slice(c, pn_slice(c, large, 1, 1, n, 1), 2, 2, n, 1), *twice = regular(c, part);
  T *kept = pn_contiguous(c, pn_add(c, large, pn_scalar(c, PN_FLOAT64, (double)n)));
  T *list[] = {pn_slice(c, pn_slice(c, kept, 1, 1, n, 1), 2, 2, n, 1),
               mt(c, pn_slice(c, pn_slice(c, kept, 1, 0, n, 1), 2, 1, n, 1)), pn_flip(c, pn_flip(c, twice, 1), 2),
               pn_flip(c, twice, 1)};
  for (int k = 0; k < 4; k++)
    for (int kind = 0; kind < PNI_LANE_KINDS; kind++)
      for (int flags = 0; flags < (kind == PNI_LANE_TRIANGULAR ? 4 : 1); flags++)
        for (int path = PNI_PATH_LAPACK; path <= (n <= 32 ? PNI_PATH_SMALL : PNI_PATH_LAPACK); path++) {
          bool system = kind == PNI_LANE_TRIANGULAR || kind == PNI_LANE_CHOLESKY_SOLVE || kind == PNI_LANE_SOLVE;
          if (kind == PNI_LANE_TRIA || kind == PNI_LANE_CHOLESKY) continue;
          T *a = list[k], *copy = pn_contiguous(c, a), *right = system ? pn_flip(c, b, 1) : NULL;
          T *got = on_path(c, path, kind, flags, a, right), *want = on_path(c, path, kind, flags, copy, right);
          CHECK_SAME(c, got, want, 1e-10);
        }
  pn_scope_close(c, mark);
}

/* So many right sides of one matrix that they are solved in parts: each is what it is alone. */
static void many_sides(C *c) {
  enum { N = 300, COUNT = 800 };
  size_t mark = pn_scope_open(c);
  binary system[] = {pn_solve, pn_cholesky_solve, solve_lower};
  T *a = regular(c, random_tensor(c, PN_FLOAT64, SHAPE(N, N))), *b = random_tensor(c, PN_FLOAT64, SHAPE(COUNT, N, 1));
  for (int i = 0; i < 3; i++) {
    T *x = system[i](c, a, b);
    for (int64_t k = 0; k < COUNT; k += k < 740 ? 185 : 1)
      CHECK_SAME(c, pn_select(c, x, 0, k), system[i](c, a, pn_select(c, b, 0, k)), 1e-12);
  }
  pn_scope_close(c, mark);
}

/* Powers of 2 on a diagonal that goes on with 1, in order and with two rows exchanged: det and its parts. */
static void extreme_determinants(C *c) {
  static const struct {
    int power[6];
    double sign;
  } of[] = {{{900, 900, 900, -900, -900, -900}, 1},
            {{-900, 900, -900, 900, 900, -900}, -1},
            {{300, 300, 300, 300, 0, 0}, 1},
            {{-300, -300, -300, -300, 0, 0}, -1},
            {{900, 900, 900, 900, 900, 900}, 1},
            {{500, 523, 0, 0, 0, 0}, 1},
            {{-900, -900, -900, -900, -900, -900}, 1},
            {{500, -1000, -522, 0, 0, 0}, -1},
            {{7, 0, 2, -3, 1, -1}, -1}};
  for (size_t k = 0; k < sizeof of / sizeof *of; k++)
    for (int64_t n = 6; n <= 36; n += 15) {
      size_t mark = pn_scope_open(c);
      T *a = pn_contiguous(c, pn_eye(c, PN_FLOAT64, n, n));
      int total = 0;
      double *v = pni_data(a);
      for (int i = 0; i < 6; i++) {
        v[i * n + i] = ldexp(i ? 1 : of[k].sign, of[k].power[i]);
        total += of[k].power[i];
      }
      T *exchanged = pn_add(c, a, pn_scalar(c, PN_FLOAT64, 0)); /* rows 1 and 3 */
      double *w = pni_data(exchanged);
      memcpy(w + n, v + 3 * n, (size_t)n * sizeof *w);
      memcpy(w + 3 * n, v + n, (size_t)n * sizeof *w);
      for (int path = PNI_PATH_LAPACK; path <= (n <= 32 ? PNI_PATH_SMALL : PNI_PATH_LAPACK); path++)
        for (int turn = 0; turn < 2; turn++) {
          T *m = turn ? exchanged : a;
          double sign = turn ? -of[k].sign : of[k].sign, out[3] = {NAN, NAN, NAN};
          for (int kind = 0; kind < 3; kind++)
            pn_tensor_item(c, on_path(c, path, PNI_LANE_LOGDET + kind, 0, m, NULL), &out[kind]);
          CHECK_NEAR(out[0], total * log(2), total ? 1e-13 : 1e-12);
          CHECK_NEAR(out[1], sign * ldexp(1, total), 0);
          CHECK_NEAR(out[2], sign, 0);
        }
      pn_scope_close(c, mark);
    }
}

/* ---- what is refused before it begins ---- */

/* Operations of each problem, by its formula, at a pace of one in a second (float32: in two). */
static void efforts(void) {
  static const struct {
    int kind; /* -1 - k: factorisation k */
    int64_t m, n, k;
    const char *text;
  } of[] = {{PNI_LANE_CHOLESKY, 900, 900, 900, "900 by 900 takes about 2.4e+08 seconds"},       /* n^3 / 3 */
            {PNI_LANE_TRIANGULAR, 900, 900, 300, "900 by 900 takes about 2.4e+08 seconds"},     /* n^2 k */
            {PNI_LANE_CHOLESKY_SOLVE, 900, 900, 150, "900 by 900 takes about 2.4e+08 seconds"}, /* 2 n^2 k */
            {PNI_LANE_SOLVE, 700, 700, 100, "700 by 700 takes about 3.3e+08 seconds"},   /* 2 n^3 / 3 + 2 n^2 k */
            {PNI_LANE_INVERSE, 500, 500, 500, "500 by 500 takes about 3.3e+08 seconds"}, /* 8 n^3 / 3 */
            {PNI_LANE_LOGDET, 700, 700, 0, "700 by 700 takes about 2.3e+08 seconds"},    /* 2 n^3 / 3 */
            {PNI_LANE_DET, 30000, 30000, 0, "30000 by 30000 takes about 1.8e+13 seconds"},
            {PNI_LANE_DET_SIGN, 800, 800, 0, "800 by 800 takes about 3.4e+08 seconds"},
            {-1 - PNI_FACTOR_QR, 500, 400, 0, "500 by 400 takes about 2.6e+08 seconds"}, /* 3.2 m n min(m, n) */
            {-1 - PNI_FACTOR_QR, 400, 500, 0, "400 by 500 takes about 2.6e+08 seconds"},
            {-1 - PNI_FACTOR_EIGH, 350, 350, 0, "350 by 350 takes about 2.4e+08 seconds"}, /* 5.5 n^3 */
            {-1 - PNI_FACTOR_SVD, 300, 250, 0, "300 by 250 takes about 2.4e+08 seconds"},  /* 13 m n min(m, n) */
            {-1 - PNI_FACTOR_SVD, 16384, 30000, 0, "16384 by 30000 takes about 1e+14 seconds"}};
  C *c = pn_context_new(NULL);
  c->pace[0] = 1;
  c->pace[1] = 2;
  pn_context_set_deadline(c, 100);
  for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
    size_t mark = pn_scope_open(c);
    T *a = untouched(c, PN_FLOAT64, of[i].m, of[i].n), *b = untouched(c, PN_FLOAT64, of[i].n, of[i].k);
    T *out = untouched(c, PN_FLOAT64, of[i].m, of[i].k ? of[i].k : 1);
    bool system =
        of[i].kind == PNI_LANE_TRIANGULAR || of[i].kind == PNI_LANE_CHOLESKY_SOLVE || of[i].kind == PNI_LANE_SOLVE;
    if (of[i].kind < 0)
      CHECK_STATUS(c, pni_factor(c, "test", -1 - of[i].kind, a, out), PN_CANCELLED);
    else {
      if (!of[i].k) out->ndim = 0, out->numel = 1;
      CHECK_STATUS(c, pni_linalg(c, "test", PNI_PATH_CHOICE, of[i].kind, 0, a, system ? b : NULL, out), PN_CANCELLED);
    }
    char text[96];
    snprintf(text, sizeof text, "time limit: test of a matrix of %s, and ", of[i].text);
    CHECK_FAIL(c, PN_CANCELLED, text);
    pn_scope_close(c, mark);
  }
  CHECK_STATUS(c, pni_check_effort(c, "try", PN_FLOAT64, 1, 1, 2e8 - 1), PN_OK);
  CHECK_STATUS(c, pni_check_effort(c, "try", PN_FLOAT32, 7, 3, 2e8), PN_CANCELLED);
  CHECK_FAIL(c, PN_CANCELLED, "try of a matrix of 7 by 3 takes about 4e+08 seconds, and 1e+02 are left");
  pn_context_set_deadline(c, 1e-9);
  CHECK_STATUS(c, pni_check_effort(c, "try", PN_FLOAT64, 1, 1, 2e8), PN_CANCELLED);
  CHECK_FAIL(c, PN_CANCELLED, "takes about 2e+08 seconds, and 0 are left");
  pn_context_set_deadline(c, 0);
  static const int64_t sides[][2] = {{30001, 2}, {2, 30001}};
  for (int i = 0; i < 2; i++) {
    CHECK_STATUS(c,
                 pni_factor(c, "qr", PNI_FACTOR_QR, untouched(c, PN_FLOAT64, sides[i][0], sides[i][1]),
                            untouched(c, PN_FLOAT64, 1, 1)),
                 PN_SHAPE);
    CHECK_FAIL(c, PN_SHAPE, "qr: sides of a matrix must be at most 30000");
  }
  CHECK_STATUS(
      c, pni_factor(c, "svd", PNI_FACTOR_SVD, untouched(c, PN_FLOAT32, 16385, 16386), untouched(c, PN_FLOAT32, 1, 1)),
      PN_SHAPE);
  CHECK_FAIL(c, PN_SHAPE, "svd: the shorter side of a matrix must be at most 16384");
  T *large = untouched(c, PN_FLOAT64, 30001, 30001), *one = untouched(c, PN_FLOAT64, 1, 1),
    *wide = untouched(c, PN_FLOAT64, 1, (int64_t)1 << 31);
  CHECK_STATUS(c, pni_linalg(c, "inverse", PNI_PATH_CHOICE, PNI_LANE_INVERSE, 0, large, NULL, large), PN_SHAPE);
  CHECK_FAIL(c, PN_SHAPE, "inverse: order of a matrix must be at most 30000");
  CHECK_STATUS(c, pni_linalg(c, "solve", PNI_PATH_CHOICE, PNI_LANE_SOLVE, 0, one, wide, wide), PN_SHAPE);
  CHECK_FAIL(c, PN_SHAPE, "solve: order of a matrix must be at most 30000");
  pn_context_close(c);
  /* the pace is measured once for a type, and leaves nothing behind */
  c = pn_context_new(NULL);
  size_t before = pn_context_memory(c, NULL);
  pn_context_set_deadline(c, 1000);
  CHECK_STATUS(c, pni_check_effort(c, "try", PN_FLOAT32, 1, 1, 2e8), PN_OK);
  double pace = c->pace[1];
  CHECK(pace > 1e-14 && pace < 1e-7 && c->pace[0] == 0);
  CHECK_STATUS(c, pni_check_effort(c, "try", PN_FLOAT32, 1, 1, 2e8), PN_OK);
  CHECK(c->pace[1] == pace);
  CHECK_INT((int64_t)pn_context_memory(c, NULL), (int64_t)before);
  pn_context_close(c);
}

int main(void) {
  C *c = pn_context_new(&(pn_context_config){.seed = 3, .threads = 2});
  goldens_s(c);
  goldens_l(c);
  for (int64_t n = 1; n <= 32; n += n < 16 ? 1 : 4) {
    paths_agree(c, PN_FLOAT64, n, 1 + 5 * (n % 4));
    paths_agree(c, PN_FLOAT32, n, 1 + 9 * (n % 4));
  }
  for (int n = 1; n <= 32; n += n < 16 ? 1 : 4) {
    instruction_sets(c, PN_FLOAT64, n, n % 8 + 1);
    instruction_sets(c, PN_FLOAT32, n, n % 16 + 1);
  }
  neighbours(c, PN_FLOAT64);
  neighbours(c, PN_FLOAT32);
  const int64_t orders[] = {1, 4, 23, 36};
  for (int i = 0; i < 4; i++) {
    batch_is_loop(c, pn_cholesky, orders[i], true);
    batch_is_loop(c, pn_inverse, orders[i], false);
    batch_is_loop(c, pn_logdet, orders[i], false);
    broadcasts(c, pn_solve, orders[i]);
    broadcasts(c, pn_cholesky_solve, orders[i]);
    broadcasts(c, solve_lower, orders[i]);
    nan_columns(c, orders[i], 2);
    nan_columns(c, orders[i], 9);
  }
  for (int64_t n = 1; n <= 9; n += n < 3 ? 1 : 3) {
    places(c, n, NAN);
    places(c, n, INFINITY);
    views(c, n);
  }
  views(c, 36);
  many_sides(c);
  extreme_determinants(c);
  empty(c);
  failures(c);
  gradients(c);
  CHECK_INT(pn_context_objects(c), 0);
  pn_context_close(c);
  sweep("small systems", factor_and_solve, &orders[1]);
  sweep("larger systems", factor_and_solve, &orders[2]);
  sweep("systems", factor_and_solve, &orders[3]);
  million();
  effort();
  efforts();
  CHECK_DONE();
}
