/*
** vector_test.c: the vector functions at every level this processor has, against long double arithmetic: error in
** units of the last place over the whole range, edges, independence of place, stride and length.
** With -v it prints the largest error of every function, type and level and where it was.
*/
#include <float.h>
#include <stdlib.h>
#include "../../src/base/processor.h"
#include "../../src/math/special.h"
#include "../../src/math/vector/vector.h"
#include "check.h"

typedef long double wide;

#define ROOT_HALF 0.707106781186547524400844362104849039L
#define LN2       0.693147180559945309417232121458176568L
#define PHI_0     0.398942280401432677939946059934381868L /* 1/sqrt(2 pi) */

/* ---- references ---- */

static wide r_exp(wide x) { return expl(x); }
static wide r_expm1(wide x) { return expm1l(x); }
static wide r_log(wide x) { return logl(x); }
static wide r_log1p(wide x) { return log1pl(x); }
static wide r_log1mexp(wide x) { return x > -LN2 ? logl(-expm1l(x)) : log1pl(-expl(x)); }
static wide r_tanh(wide x) { return tanhl(x); }
static wide r_sigmoid(wide x) { return 1 / (1 + expl(-x)); }
static wide r_softplus(wide x) { return x > 5000 ? x : log1pl(expl(x)); }
static wide r_log_sigmoid(wide x) { return -r_softplus(-x); }
static wide r_sin(wide x) { return sinl(x); }
static wide r_cos(wide x) { return cosl(x); }
static wide r_erf(wide x) { return erfl(x); }
static wide r_erfc(wide x) { return erfcl(x); }

static wide r_erfcx(wide x) {
  if (x < 60) return x < -27 ? INFINITY : expl(x * x) * erfcl(x);
  wide t = 1 / (2 * x * x);
  return (1 - t * (1 - 3 * t * (1 - 5 * t * (1 - 7 * t)))) / x * 0.564189583547756286948079451560772586L;
}

/* The argument's rounding error times the slope is added. */
static wide r_ndtr(wide x) {
  wide t = -x * ROOT_HALF;
  if (!(t > 1 && t < 40)) return 0.5L * erfcl(t);
  wide d = fmal(-x, ROOT_HALF, -t);
  return 0.5L * (erfcl(t) - 2 * 0.564189583547756286948079451560772586L * d * expl(-t * t));
}
static wide r_log_ndtr(wide x) {
  if (x > 0) return log1pl(-r_ndtr(-x));
  return x > -10 ? logl(r_ndtr(x)) : logl(0.5L * r_erfcx(-x * ROOT_HALF)) - 0.5L * x * x;
}

/* Newton steps on the smaller tail, from double precision. */
static wide lower_quantile(wide p, wide start) {
  wide x = start;
  for (int i = 0; i < 3; i++) {
    wide step = (r_ndtr(x) - p) / (PHI_0 * expl(-0.5L * x * x));
    x -= step / (1 + 0.5L * x * step);
  }
  return x;
}
static wide r_ndtri(wide p) {
  if (!(p > 0 && p < 1)) return pni_ndtri((double)p);
  if (fabsl(p - 0.5L) < 0.2L) {
    wide x = pni_ndtri((double)p);
    for (int i = 0; i < 3; i++) x -= (0.5L * erfl(x * ROOT_HALF) - (p - 0.5L)) / (PHI_0 * expl(-0.5L * x * x));
    return x;
  }
  return p < 0.5L ? lower_quantile(p, pni_ndtri((double)p)) : -lower_quantile(1 - p, -pni_ndtri((double)p));
}
static wide r_erfinv(wide y) {
  if (!(fabsl(y) < 1)) return pni_erfinv((double)y);
  wide x = pni_erfinv((double)y), size = fabsl(y);
  if (size < 0.5L) {
    if (size < 1e-18L) return y * 0.886226925452758013649083741670572591L;
    for (int i = 0; i < 3; i++) x -= (erfl(x) - y) * 0.886226925452758013649083741670572591L * expl(x * x);
    return x;
  }
  x = lower_quantile(0.5L * (1 - size), -fabsl(x) / ROOT_HALF) * ROOT_HALF;
  return y > 0 ? -x : x;
}

static wide r_lgamma(wide x) { return lgammal(x); }

/* psi^(k)/k! at the zero of digamma, k = 1, 2, ... (mpmath) */
static const wide digamma_taylor[12] = {
    0.9676722454476211704274L,  -0.4427631689835921060929L,  0.2584997609556510106244L,  -0.1639427054424065275043L,
    0.1078240506912623657572L,  -0.07219956125645471092612L, 0.04880428816414310722509L, -0.03316112647484735929226L,
    0.02259764823221810465962L, -0.0154247659049489591388L,  0.01053879161661217538812L, -0.00720453438635686824097L};

/* Taylor's series around the zero, recurrence and asymptotic series elsewhere. */
static wide r_digamma(wide x) {
  if (x < 0 || x == 0) return pni_digamma((double)x);
  wide h = (x - 0x1.762d86356be3fp+0L) - 9.549995429965697715e-17L; /* the zero in two parts */
  if (fabsl(h) < 0.02L) {
    wide sum = 0;
    for (int i = 11; i >= 0; i--) sum = sum * h + digamma_taylor[i];
    return h * sum;
  }
  wide below = 0;
  for (; x < 30; x += 1) below += 1 / x;
  wide t = x < 1e100L ? 1 / (x * x) : 0;
  wide s =
      t * (1 / 12.0L - t * (1 / 120.0L - t * (1 / 252.0L - t * (1 / 240.0L - t * (1 / 132.0L - t * 691 / 32760)))));
  return logl(x) - 0.5L / x - s - below;
}

/* I_0 and the ratio I_1 / I_0 by series and continued fraction (DLMF 10.25.2, 10.33), in long double */
static wide i0_series(wide x) {
  wide term = 1, sum = 1;
  for (int k = 1; k < 200; k++) sum += term *= 0.25L * x * x / ((wide)k * k);
  return sum;
}
/* I_0 - 1 for small x */
static wide i0_rest(wide x) {
  wide term = 0.25L * x * x, sum = term;
  for (int k = 2; k < 40; k++) sum += term *= 0.25L * x * x / ((wide)k * k);
  return sum;
}
/* log(e^-x I_0(x) sqrt(2 pi x)) by Hankel's series */
static wide i0_far(wide x) {
  wide term = 1, sum = 0;
  for (int k = 1; k < 30; k++) {
    term *= (2.0L * k - 1) * (2.0L * k - 1) / (8 * k * x);
    sum += term;
  }
  return log1pl(sum);
}
static wide r_log_i0e(wide x) {
  if (!(x >= 0)) return NAN;
  if (x < 2) return log1pl(i0_rest(x)) - x;
  if (x < 30) return logl(i0_series(x)) - x;
  return i0_far(x) - 0.5L * logl(x) - 0.918938533204672741780329736405617640L;
}
static wide r_log_i0(wide x) {
  wide size = fabsl(x);
  if (size < 2) return log1pl(i0_rest(size));
  return isinf(size) ? size : size < 30 ? logl(i0_series(size)) : size + r_log_i0e(size);
}
static wide r_bessel_gap(wide x) {
  if (!(x >= 0)) return NAN;
  if (x > 100) { /* the solution of Riccati's equation in 1 / x (special_bessel.c) */
    const wide far[] = {
        0.5L, 0.125L, 0.125L, 0.1953125L, 0.40625L, 1.0478515625L, 3.21875L, 11.466461181640625L, 46.478515625L};
    wide sum = 0;
    for (int n = 8; n >= 0; n--) sum = (sum + far[n]) / x;
    return sum;
  }
  wide r = 0;
  for (int k = 60 + (int)sqrtl(60 * x); k >= 1; k--) r = 1 / (2 * k / x + r);
  return x == 0 ? 1 : 1 - r;
}

/* ---- one function ---- */

typedef struct row {
  const char *name;
  pni_vector_function f;
  wide (*reference)(wide);
  double low, high; /* where most of the sweep lies */
  double limit;     /* ULP */
} row;

static const row rows[] = {
    {"exp", PNI_VECTOR_exp, r_exp, -746, 710, 1},
    {"expm1", PNI_VECTOR_expm1, r_expm1, -40, 40, 1.8},
    {"log", PNI_VECTOR_log, r_log, 0, 10, 1},
    {"log1p", PNI_VECTOR_log1p, r_log1p, -1, 3, 1},
    {"log1mexp", PNI_VECTOR_log1mexp, r_log1mexp, -3, 0, 2.2},
    {"tanh", PNI_VECTOR_tanh, r_tanh, -5, 5, 2.5},
    {"sigmoid", PNI_VECTOR_sigmoid, r_sigmoid, -40, 40, 2.5},
    {"log_sigmoid", PNI_VECTOR_log_sigmoid, r_log_sigmoid, -10, 40, 1.7},
    {"softplus", PNI_VECTOR_softplus, r_softplus, -40, 10, 1.7},
    {"sin", PNI_VECTOR_sin, r_sin, -100, 100, 1},
    {"cos", PNI_VECTOR_cos, r_cos, -100, 100, 1},
    {"erf", PNI_VECTOR_erf, r_erf, -6, 6, 1.3},
    {"erfc", PNI_VECTOR_erfc, r_erfc, -6, 28, 3.3},
    {"erfcx", PNI_VECTOR_erfcx, r_erfcx, -27, 60, 3},
    {"erfinv", PNI_VECTOR_erfinv, r_erfinv, -1, 1, 7},
    {"ndtr", PNI_VECTOR_ndtr, r_ndtr, -39, 9, 5.3},
    {"log_ndtr", PNI_VECTOR_log_ndtr, r_log_ndtr, -40, 9, 5.3},
    {"ndtri", PNI_VECTOR_ndtri, r_ndtri, 0, 1, 7},
    {"lgamma", PNI_VECTOR_lgamma, r_lgamma, 0, 30, 3.3},
    {"digamma", PNI_VECTOR_digamma, r_digamma, 0, 30, 5},
    {"log_i0", PNI_VECTOR_log_i0, r_log_i0, -30, 30, 4},
    {"log_i0e", PNI_VECTOR_log_i0e, r_log_i0e, 0, 30, 6},
    {"bessel_gap", PNI_VECTOR_bessel_gap, r_bessel_gap, 0, 30, 9},
};
#ifndef POINTS
#define POINTS (1 << 16) /* the limits hold for 2^21 too */
#endif
enum { ROWS = sizeof rows / sizeof *rows, SWEEP = POINTS };

/* Distance in units of the last place of the reference, whose type has `digits` bits and least exponent `low`. */
static double ulp_error(wide got, wide want, int digits, int low, wide largest) {
  if (isnan(got) || isnan(want)) return isnan(got) && isnan(want) ? 0 : INFINITY;
  int e;
  frexpl(want, &e);
  wide unit = ldexpl(1, (e - digits > low ? e - digits : low));
  if (isinf(got)) return isinf(want) ? (got > 0) == (want > 0) ? 0 : INFINITY : fabsl(want) >= largest ? 0 : INFINITY;
  if (isinf(want) || fabsl(want) > largest) return fabsl(got) == largest ? 1 : INFINITY;
  return (double)(fabsl(got - want) / unit);
}

static uint64_t step(uint64_t *state) {
  *state += UINT64_C(0x9E3779B97F4A7C15);
  uint64_t z = *state;
  z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
  return z ^ (z >> 31);
}

static const double edges[] = {0.0,
                               -0.0,
                               1,
                               -1,
                               0.5,
                               -0.5,
                               2,
                               INFINITY,
                               -INFINITY,
                               NAN,
                               0x1p-1074,
                               -0x1p-1074,
                               0x1p-1022,
                               0x1p-1030,
                               1e-300,
                               -1e-300,
                               1e-20,
                               -1e-20,
                               0x1p-149,
                               0x1p-126,
                               3e38,
                               1e300,
                               -1e300,
                               DBL_MAX,
                               -DBL_MAX,
                               709.78271289338397,
                               709.782712893384,
                               -708.3964185322641,
                               -745.1332191019411,
                               -745.2,
                               88.7228394,
                               88.72284,
                               -87.33655,
                               -103.97208,
                               -104,
                               1.4616321449683623,
                               1.5,
                               2.5,
                               8,
                               6,
                               -37.5,
                               37.5,
                               -38.4,
                               -38.6,
                               26.5,
                               27.2,
                               27.3,
                               28,
                               0.425,
                               0.925,
                               0.075,
                               0.85,
                               1e6,
                               -1e6,
                               1048576,
                               1e22,
                               3.14159265358979323846,
                               1.57079632679489661923,
                               355,
                               5419351,
                               1e-8,
                               -0.6931471805599453,
                               -0.3465735902799726,
                               0.3465735902799726,
                               -36.7,
                               0x1.fffffffffffffp-1,
                               0x1.0000000000001p0};
enum { EDGES = sizeof edges / sizeof *edges };

#define SWEEPS(T, suffix, bits_type, digits_, low_, largest_)                                                          \
  static void sweep_##suffix(const row *r, int level, bool verbose) {                                                  \
    static T x[SWEEP], y[SWEEP];                                                                                       \
    uint64_t state = 7;                                                                                                \
    for (int i = 0; i < SWEEP; i++) {                                                                                  \
      uint64_t w = step(&state);                                                                                       \
      bits_type b = (bits_type)w;                                                                                      \
      memcpy(&x[i], &b, sizeof b);                                                                                     \
      if (i % 4) x[i] = (T)(r->low + (r->high - r->low) * ((double)(w >> 11) * 0x1p-53));                              \
      if (i % 8 == 1) x[i] = (T)((i & 8 ? r->low : r->high) * exp(-(double)(w >> 40) * 0x1p-24 * 40));                 \
      if (r->f == PNI_VECTOR_sin || r->f == PNI_VECTOR_cos)                                                            \
        if (i % 16 == 3) x[i] = (T)((double)(w >> 45) * 1.57079632679489661923); /* close to a zero */                 \
      if (i < EDGES) x[i] = (T)edges[i];                                                                               \
    }                                                                                                                  \
    pni_vector_at(level)->suffix[r->f](x, y, SWEEP / PNI_VECTOR_GROUP);                                                \
    int beyond = 0;                                                                                                    \
    double worst = 0;                                                                                                  \
    T at = 0;                                                                                                          \
    for (int i = 0; i < SWEEP; i++) {                                                                                  \
      double e = ulp_error((wide)y[i], r->reference((wide)x[i]), digits_, low_, (wide)largest_);                       \
      if (r->f == PNI_VECTOR_lgamma && x[i] < 0 && isfinite(x[i])) e = 0; /* a scalar function's affair */             \
      if (e > worst) worst = e, at = x[i];                                                                             \
      if (e > r->limit && ++beyond <= 5)                                                                               \
        printf("%s %s %s(%.17g): got %.17g, want %.17Lg, %.3g ULP\n", pni_cpu_level_name(level), #suffix, r->name,     \
               (double)x[i], (double)y[i], r->reference((wide)x[i]), e);                                               \
    }                                                                                                                  \
    check_record(beyond == 0);                                                                                         \
    if (verbose)                                                                                                       \
      printf("%-8s %s %-12s %5.2f ULP at %.17g\n", pni_cpu_level_name(level), #suffix, r->name, worst, (double)at);    \
  }
SWEEPS(double, f64, uint64_t, 53, -1074, DBL_MAX)
SWEEPS(float, f32, uint32_t, 24, -149, FLT_MAX)

/* ---- independence of place ---- */

#define PLACES(T, suffix)                                                                                              \
  static void places_##suffix(const row *r) {                                                                          \
    enum { N = 600 };                                                                                                  \
    static T x[N * 3], whole[N], part[N], strided[N];                                                                  \
    uint64_t state = 3;                                                                                                \
    for (int i = 0; i < N * 3; i++)                                                                                    \
      x[i] = (T)(r->low + (r->high - r->low) * ((double)(step(&state) >> 11) * 0x1p-53));                              \
    pni_vector_##suffix(r->f, x, 1, whole, N);                                                                         \
    for (int start = 0; start < 20; start++)                                                                           \
      for (int n = 0; n < 70; n++) {                                                                                   \
        part[n] = -12345;                                                                                              \
        pni_vector_##suffix(r->f, x + start, 1, part, n);                                                              \
        CHECK(memcmp(part, whole + start, (size_t)n * sizeof(T)) == 0);                                                \
        CHECK(part[n] == -12345);                                                                                      \
      }                                                                                                                \
    pni_vector_##suffix(r->f, x, 3, strided, N);                                                                       \
    for (int i = 0; i < N / 3; i++) CHECK(memcmp(&strided[i], &whole[3 * i], sizeof(T)) == 0);                         \
    pni_vector_##suffix(r->f, x, 0, part, N);                                                                          \
    for (int i = 0; i < N; i++) CHECK(memcmp(&part[i], &whole[0], sizeof(T)) == 0);                                    \
    memcpy(part, x, sizeof part);                                                                                      \
    pni_vector_##suffix(r->f, part, 1, part, N); /* in place */                                                        \
    CHECK(memcmp(part, whole, sizeof part) == 0);                                                                      \
  }
PLACES(double, f64)
PLACES(float, f32)

/* ---- exp leaves its ends out where a block has no element there, and gives the same bits ---- */

#define BLOCKS(T, suffix, low, high)                                                                                   \
  static void blocks_##suffix(int level) {                                                                             \
    enum { N = 6 * 256 + 5 * PNI_VECTOR_GROUP };                                                                       \
    static T x[N], near[N], far[N];                                                                                    \
    const T ends[] = {(T)low, (T)(low - 0.5), (T)(high + 2), -INFINITY, INFINITY, PAYLOAD(T)};                         \
    uint64_t state = 11;                                                                                               \
    for (int i = 0; i < N; i++) x[i] = (T)(low + (high - low) * ((double)(step(&state) >> 11) * 0x1p-53));             \
    x[1] = (T)(0.999 * low), x[N - 2] = (T)(0.999 * high);                                                             \
    pni_vector_at(level)->suffix[PNI_VECTOR_exp](x, near, N / PNI_VECTOR_GROUP);                                       \
    for (int i = 0; i < N; i++) CHECK(ulp_error((wide)near[i], expl((wide)x[i]), DIGITS(T), LEAST(T), MOST(T)) <= 1);  \
    for (int i = 0; i < N; i += 37) x[i] = ends[i / 256 % 6];                                                          \
    pni_vector_at(level)->suffix[PNI_VECTOR_exp](x, far, N / PNI_VECTOR_GROUP);                                        \
    for (int i = 0; i < N; i++)                                                                                        \
      if (i % 37)                                                                                                      \
        CHECK(memcmp(&far[i], &near[i], sizeof(T)) == 0);                                                              \
      else                                                                                                             \
        CHECK(ulp_error((wide)far[i], expl((wide)x[i]), DIGITS(T), LEAST(T), MOST(T)) <= 1);                           \
  }
#define DIGITS(T) (sizeof(T) == sizeof(double) ? 53 : 24)
#define LEAST(T)  (sizeof(T) == sizeof(double) ? -1074 : -149)
#define MOST(T)   (sizeof(T) == sizeof(double) ? (wide)DBL_MAX : (wide)FLT_MAX)
/* a NaN whose lowest bits are not 0 */
#define PAYLOAD(T) (sizeof(T) == sizeof(double) ? (T)nan("0x155") : (T)nanf("0x155"))
BLOCKS(double, f64, -708, 708)
BLOCKS(float, f32, -87, 87)

/* ---- Bernoulli variables: the sum of log masses, whose errors add up like a walk, and a multiple of the slopes, with
 * logits of several sizes, and of the sign that leaves no mass to the other value ---- */

#define MASSES(T, suffix)                                                                                              \
  static void masses_##suffix(double reach) {                                                                          \
    enum { N = 4200 };                                                                                                 \
    static T x[N], l[N], out[N + 1];                                                                                   \
    const double epsilon = ldexp(1, -DIGITS(T)), least = ldexp(1, LEAST(T));                                           \
    const T g = (T)-1.5;                                                                                               \
    uint64_t state = 5;                                                                                                \
    for (int n = 0; n <= N; n += n < 70 ? 1 : n < 2030 ? 653 : n < 2110 ? 1 : 697)                                     \
      for (int size = 0; size < 5; size++) {                                                                           \
        wide sum = 0;                                                                                                  \
        for (int i = 0; i < n; i++) {                                                                                  \
          uint64_t w = step(&state);                                                                                   \
          x[i] = (T)(w & 1);                                                                                           \
          l[i] = (T)((size == 4 ? (w & 1 ? 1 : -1) : (w & 2 ? 1 : -1)) * ((double)(w >> 11) * 0x1p-53) *               \
                     (size == 0   ? 1                                                                                  \
                      : size == 1 ? 8                                                                                  \
                      : size == 2 ? 40                                                                                 \
                                  : reach));                                                                           \
          sum -= r_softplus(x[i] > 0 ? -(wide)l[i] : (wide)l[i]);                                                      \
        }                                                                                                              \
        double got = pni_log_masses_##suffix(x, l, n), allowed = (4 + 2 * sqrt((double)n)) * epsilon;                  \
        CHECK(fabs(got - (double)sum) <= allowed * fabs((double)sum) + least);                                         \
        out[n] = 77;                                                                                                   \
        pni_mass_slopes_##suffix(x, l, g, out, n);                                                                     \
        CHECK(out[n] == 77);                                                                                           \
        for (int i = 0; i < n; i++) {                                                                                  \
          wide want = (wide)g * (x[i] > 0 ? r_sigmoid(-(wide)l[i]) : -r_sigmoid((wide)l[i]));                          \
          CHECK(ulp_error((wide)out[i], want, DIGITS(T), LEAST(T), MOST(T)) <= 4);                                     \
        }                                                                                                              \
      }                                                                                                                \
  }
MASSES(double, f64)
MASSES(float, f32)

/* ---- signs of zero, which no distance sees, and exact values ---- */

static void zeros(void) {
  const double minus = -0.0;
  double y;
  const pni_vector_function odd[] = {PNI_VECTOR_expm1, PNI_VECTOR_log1p, PNI_VECTOR_tanh,
                                     PNI_VECTOR_sin,   PNI_VECTOR_erf,   PNI_VECTOR_erfinv};
  for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
    pni_vector_f64(odd[i], &minus, 1, &y, 1);
    CHECK(y == 0 && signbit(y));
  }
  const struct {
    pni_vector_function f;
    double x, y;
  } exact[] = {{PNI_VECTOR_exp, 0, 1},        {PNI_VECTOR_log, 1, 0},          {PNI_VECTOR_cos, 0, 1},
               {PNI_VECTOR_ndtr, 0, 0.5},     {PNI_VECTOR_ndtri, 0.5, 0},      {PNI_VECTOR_sigmoid, 0, 0.5},
               {PNI_VECTOR_lgamma, 1, 0},     {PNI_VECTOR_lgamma, 2, 0},       {PNI_VECTOR_erfc, 0, 1},
               {PNI_VECTOR_erfcx, 0, 1},      {PNI_VECTOR_tanh, 50, 1},        {PNI_VECTOR_tanh, -INFINITY, -1},
               {PNI_VECTOR_erf, -30, -1},     {PNI_VECTOR_ndtr, 40, 1},        {PNI_VECTOR_expm1, -900, -1},
               {PNI_VECTOR_softplus, 60, 60}, {PNI_VECTOR_erfinv, 1, INFINITY}};
  for (size_t i = 0; i < sizeof exact / sizeof *exact; i++)
    for (int level = 0; level <= pni_cpu_level(); level++) {
      double in[PNI_VECTOR_GROUP], out[PNI_VECTOR_GROUP];
      for (int l = 0; l < PNI_VECTOR_GROUP; l++) in[l] = exact[i].x;
      pni_vector_at(level)->f64[exact[i].f](in, out, 1);
      CHECK(out[0] == exact[i].y);
    }
  double inf = INFINITY;
  pni_vector_f64(PNI_VECTOR_log_ndtr, &inf, 1, &y, 1);
  CHECK(y == 0 && signbit(y));
  pni_vector_f64(PNI_VECTOR_digamma, &minus, 1, &y, 1);
  CHECK(y == INFINITY);
}

int main(int argc, char **argv) {
  bool verbose = argc > 1 && strcmp(argv[1], "-v") == 0;
  CHECK_INT(ROWS, PNI_VECTORS);
  for (int i = 0; i < ROWS; i++) {
    for (int level = 0; level <= pni_cpu_level(); level++) {
      sweep_f64(&rows[i], level, verbose);
      sweep_f32(&rows[i], level, verbose);
    }
    places_f64(&rows[i]);
    places_f32(&rows[i]);
  }
  for (int level = 0; level <= pni_cpu_level(); level++) {
    blocks_f64(level);
    blocks_f32(level);
  }
  masses_f64(760);
  masses_f32(110);
  zeros();
  CHECK_DONE();
}
