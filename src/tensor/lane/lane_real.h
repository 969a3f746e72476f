/*
** lane_real.h: what all interleaved kernels are made of: moving a group of matrices into vectors and back
** (lane_move_real.h), checks, logarithms, Cholesky and rotations. Included with REAL, INTEGER (of the
** same size), F(name), NAME(name), TARGET and WIDTH, the lanes of the widest vector; lane_end.h takes the names back.
** Vectors are the compiler's own (GCC and Clang), so the text is the same for every processor. A lane whose matrix has
** failed goes on with harmless numbers.
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

#include "lane_move_real.h"

/* What lanes report: 0, PNI_LANE_NOT_FINITE or the number of the step that failed; the first report stays. */

/* Reports lanes where 0 * element summed over the elements is not 0. */
FN void NAME(check_sum)(const VEC *zero, MASK *info) { *info |= ~(*zero == 0) & PNI_LANE_NOT_FINITE; }

FN void NAME(check_finite)(const VEC *a, int n, int lower_only, MASK *info) {
  VEC zero = {0};
  for (int i = 0; i < n; i++)
    for (int j = 0; j < (lower_only ? i + 1 : n); j++) zero += a[i * n + j] * 0;
  NAME(check_sum)(&zero, info);
}

/* Lanes of `value` that are not above 0 (not positive: that are 0) become 1 and report step j. */
FN void NAME(check_pivot)(VEC *value, int positive, int j, MASK *info) {
  MASK bad = positive ? ~(*value > 0) : *value == 0;
  VEC one = (VEC){0} + 1;
  *info |= bad & (*info == 0) & (j + 1);
  *value = SELECT(bad, one, *value);
}

FN void NAME(square_root)(VEC *value) {
  LANE *v = (LANE *)value;
  for (int l = 0; l < LANES; l++) v[l] = F(sqrt)(v[l]);
}

#define FIRST(c) VEC p = (VEC){0} + (c);
#define NEXT(c)  p = p * z + (c);
/* log(x[0] x[1] ... x[n - 1]), x normal and above 0, n <= 32: the exponents are added, what is left of each is
 * m in [1/sqrt 2, sqrt 2) and the product of these cannot overflow. log m as in vector/elementary_real.h. */
FN VEC NAME(log_product)(const VEC *x, int n) {
  const MASK low = (MASK){0} + ((INTEGER)1 << DIGITS) - 1, base = (MASK){0} + (INTEGER)ROOT_HALF_BITS;
  const MASK shift = (MASK){0} + (INTEGER)(ONE_BITS - ROOT_HALF_BITS), bias = (MASK){0} + (INTEGER)BIAS;
  VEC product = (VEC){0} + 1;
  MASK power = {0};
  for (int i = 0; i <= n; i++) {
    MASK shifted = (MASK)(i < n ? x[i] : product) + shift;
    VEC m = (VEC)((shifted & low) + base);
    power += (shifted >> DIGITS) - bias;
    product = i < n ? product * m : m;
  }
  VEC k = __builtin_convertvector(power, VEC), f = product - 1, s = f / (2 + f), z = s * s, h = f * f * (REAL)0.5;
  POLY_LOG(FIRST, NEXT)
  return k * LN2_HIGH + (f - (h - (s * (z * p + h) + k * LN2_LOW)));
}
#undef FIRST
#undef NEXT

/* a (lower triangle) becomes L; inverse receives 1 / L[j, j]. Left-looking, by columns:
 * L[j, j]^2 = a[j, j] - sum_k L[j, k]^2, L[i, j] = (a[i, j] - sum_k L[i, k] L[j, k]) / L[j, j]. */
FN void NAME(cholesky)(VEC *a, int n, VEC *inverse, MASK *info) {
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

FN bool NAME(all_zero)(const VEC *x) {
  const LANE *at = (const LANE *)x;
  for (int l = 0; l < LANES; l++)
    if (at[l] != 0) return false;
  return true;
}

/* c, s with c a + s b = r, c b - s a = 0; a becomes r > 0. Where b is 0 nothing turns, whatever other lanes do. */
FN void NAME(rotation)(VEC *a, VEC b, VEC *cosine, VEC *sine) {
  const VEC none = {0}, one = none + 1;
  VEC x = SELECT(*a < 0, -*a, *a), y = SELECT(b < 0, -b, b), most = SELECT(x > y, x, y);
  VEC scale = 1 / SELECT(most > NORMAL_MIN, most, one);
  x = *a * scale;
  y = b * scale;
  VEC r = x * x + y * y;
  NAME(square_root)(&r);
  VEC inverse = 1 / SELECT(r > 0, r, one);
  MASK turns = (r > 0) & (b != 0);
  *cosine = SELECT(turns, x * inverse, one);
  *sine = SELECT(turns, y * inverse, none);
  *a = SELECT(turns, SELECT(most > NORMAL_MIN, most * r, r), *a);
}

/* x [n, k], k >= n, becomes [l 0] by rotations of two columns each. Other than reflections these keep small elements
 * that stand beside large ones to all their digits. watch: may be NULL. */
FN void NAME(triangularise)(VEC *x, int n, int k, pni_watch *watch) {
  const VEC one = (VEC){0} + 1;
  for (int i = 0; i < n; i++) {
    VEC *u = x + i * k, c, s;
    for (int j = i + 1; j < k; j++) {
      if (NAME(all_zero)(u + j)) continue;
      if (watch && pni_watch_leaves(watch, n - i)) return;
      NAME(rotation)(u + i, u[j], &c, &s);
      u[j] = (VEC){0};
      for (VEC *y = u + k; y < x + n * k; y += k) {
        VEC first = c * y[i] + s * y[j];
        y[j] = c * y[j] - s * y[i];
        y[i] = first;
      }
    }
    VEC sign = SELECT(u[i] < 0, -one, one);
    for (VEC *y = u; y < x + n * k; y += k) y[i] = y[i] * sign + 0; /* no -0 */
  }
}
