/*
** lane_real.h: what all interleaved kernels are made of: moving a group of matrices into vectors and back, checks,
** Cholesky and substitution. Included with REAL, INTEGER (of the same size), F(name), NAME(name), TARGET and WIDTH,
** the lanes of the widest vector; lane_end.h takes the names back. Vectors are the compiler's own (GCC and Clang), so
** the text is the same for every processor. A lane whose matrix has failed goes on with harmless numbers.
*/

#define FN    static inline TARGET
#define VEC   NAME(vec)
#define MASK  NAME(mask)
#define LANES WIDTH
#define LANE  NAME(lane)
/* m ? x : y for each lane */
#define SELECT(m, x, y) ((VEC)(((MASK)(x) & (m)) | ((MASK)(y) & ~(m))))

typedef REAL VEC __attribute__((vector_size(WIDTH * sizeof(REAL))));
typedef INTEGER MASK __attribute__((vector_size(WIDTH * sizeof(REAL))));
typedef REAL LANE __attribute__((may_alias));

#ifdef PNI_HAS_SHUFFLE
#define PASTE_(kind, w, s) kind##_##w##_##s
#define PASTE(kind, w, s)  PASTE_(kind, w, s)
#define STEP(s)                                                                                                        \
  PNI_UNROLL                                                                                                           \
  for (int i = 0; i < LANES; i++)                                                                                      \
    if (!(i & (s))) {                                                                                                  \
      VEC x = v[i], y = v[i + (s)];                                                                                    \
      v[i] = __builtin_shufflevector(x, y, PASTE(LOW, WIDTH, s));                                                      \
      v[i + (s)] = __builtin_shufflevector(x, y, PASTE(HIGH, WIDTH, s));                                               \
    }

/* Element e of vector l and element l of vector e change places. */
FN void NAME(transpose)(VEC *v) {
  STEP(1)
#if WIDTH > 2
  STEP(2)
#endif
#if WIDTH > 4
  STEP(4)
#endif
#if WIDTH > 8
  STEP(8)
#endif
}
#undef STEP
#undef PASTE
#undef PASTE_

/* `blocks` times LANES elements of each matrix, which lie side by side. */
FN void NAME(interleave_blocks)(VEC *dst, int count, const void *const *src, int blocks) {
  for (int k = 0; k < blocks; k++) {
    VEC v[LANES];
    PNI_UNROLL
    for (int l = 0; l < LANES; l++) memcpy(&v[l], (const REAL *)src[l < count ? l : 0] + k * LANES, sizeof(VEC));
    NAME(transpose)(v);
    PNI_UNROLL
    for (int l = 0; l < LANES; l++) dst[k * LANES + l] = v[l];
  }
}

FN void NAME(deinterleave_blocks)(void *const *dst, int count, const VEC *src, int blocks) {
  for (int k = 0; k < blocks; k++) {
    VEC v[LANES];
    PNI_UNROLL
    for (int l = 0; l < LANES; l++) v[l] = src[k * LANES + l];
    NAME(transpose)(v);
    PNI_UNROLL
    for (int l = 0; l < LANES; l++)
      if (l < count) memcpy((REAL *)dst[l] + k * LANES, &v[l], sizeof(VEC));
  }
}
#endif

/* dst[i * cols + j] takes element [i, j] of every matrix; idle lanes repeat matrix 0. */
FN void NAME(interleave)(VEC *dst, int count, const void *const *src, int rows, int cols, int64_t rs, int64_t cs) {
#ifdef PNI_HAS_SHUFFLE
  if ((cs == 1 || cols == 1) && (rs == cols || rows == 1)) {
    int blocks = rows * cols / LANES, done = blocks * LANES;
    NAME(interleave_blocks)(dst, count, src, blocks);
    for (int l = 0; l < LANES; l++) {
      const REAL *s = src[l < count ? l : 0];
      LANE *d = (LANE *)dst + l;
      for (int e = done; e < rows * cols; e++) d[e * LANES] = s[e];
    }
    return;
  }
#endif
  for (int l = 0; l < LANES; l++) {
    const REAL *s = src[l < count ? l : 0];
    LANE *d = (LANE *)dst + l;
    for (int i = 0; i < rows; i++)
      for (int j = 0; j < cols; j++, d += LANES) *d = s[i * rs + j * cs];
  }
}

FN void NAME(deinterleave)(void *const *dst, int count, const VEC *src, int size) {
  int done = 0;
#ifdef PNI_HAS_SHUFFLE
  done = size / LANES * LANES;
  NAME(deinterleave_blocks)(dst, count, src, size / LANES);
#endif
  for (int l = 0; l < count; l++) {
    REAL *d = dst[l];
    const LANE *s = (const LANE *)src + l;
    for (int e = done; e < size; e++) d[e] = s[e * LANES];
  }
}

/* Reports lanes where 0 * element summed over the elements is not 0. */
FN void NAME(check_sum)(const VEC *zero, int count, int *info) {
  const LANE *z = (const LANE *)zero;
  for (int l = 0; l < count; l++)
    if (!(z[l] == 0)) info[l] = PNI_SMALL_NOT_FINITE;
}

FN void NAME(check_finite)(const VEC *a, int n, int lower_only, int count, int *info) {
  VEC zero = {0};
  for (int i = 0; i < n; i++)
    for (int j = 0; j < (lower_only ? i + 1 : n); j++) zero += a[i * n + j] * 0;
  NAME(check_sum)(&zero, count, info);
}

/* Lanes of `value` that are not above `bound` (pivots) become 1 and are reported as failing at step j. */
FN void NAME(check_pivot)(VEC *value, int positive, int j, int *info) {
  LANE *v = (LANE *)value;
  for (int l = 0; l < LANES; l++)
    if (!(positive ? v[l] > 0 : v[l] != 0)) {
      v[l] = 1;
      if (!info[l]) info[l] = j + 1;
    }
}

FN void NAME(square_root)(VEC *value) {
  LANE *v = (LANE *)value;
  for (int l = 0; l < LANES; l++) v[l] = F(sqrt)(v[l]);
}

/* a (lower triangle) becomes L; inverse receives 1 / L[j, j]. Left-looking, by columns:
 * L[j, j]^2 = a[j, j] - sum_k L[j, k]^2, L[i, j] = (a[i, j] - sum_k L[i, k] L[j, k]) / L[j, j]. */
FN void NAME(cholesky)(VEC *a, int n, VEC *inverse, int *info) {
  for (int j = 0; j < n; j++) {
    const VEC *row = a + j * n;
    VEC d = row[j];
    for (int k = 0; k < j; k++) d -= row[k] * row[k];
    NAME(check_pivot)(&d, 1, j, info);
    NAME(square_root)(&d);
    VEC r = 1 / d;
    inverse[j] = r;
    a[j * n + j] = d;
    int i = j + 1;
    for (; i + 2 <= n; i += 2) {
      VEC *x = a + i * n, *y = x + n, s = x[j], t = y[j];
      for (int k = 0; k < j; k++) {
        s -= x[k] * row[k];
        t -= y[k] * row[k];
      }
      x[j] = s * r;
      y[j] = t * r;
    }
    for (; i < n; i++) {
      VEC *x = a + i * n, s = x[j];
      for (int k = 0; k < j; k++) s -= x[k] * row[k];
      x[j] = s * r;
    }
  }
}

/* b [n, k] becomes op(a)^-1 b with the reciprocals of the diagonal given. Element [i, j] of the triangle is
 * a[i * si + j * sj]; lower: forwards, else backwards. */
FN void NAME(substitute)(const VEC *a, int si, int sj, int lower, const VEC *inverse, VEC *b, int n, int k) {
  for (int step = 0; step < n; step++) {
    int i = lower ? step : n - 1 - step, from = lower ? 0 : i + 1, to = lower ? i : n;
    const VEC *row = a + i * si;
    VEC *x = b + i * k;
    for (int c = 0; c < k; c++) {
      VEC s = x[c];
      for (int j = from; j < to; j++) s -= row[j * sj] * b[j * k + c];
      x[c] = s * inverse[i];
    }
  }
}
