/* Modified Bessel functions I_n and what the von Mises distribution makes of them (DLMF 10.25 - 10.41). */
#include "special.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>

#define PI         3.14159265358979323846
#define COUNT(a)   ((int)(sizeof(a) / sizeof *(a)))
#define TWO_PI     6.28318530717958647693
#define SERIES_END 30   /* where asymptotic series take over */
#define DEBYE_FROM 1000 /* orders from which three terms are enough: the fourth is below 2.1e-14 */

/* e^-x I_n(x) by its power series, whose terms have one sign (DLMF 10.25.2); 0 < x <= SERIES_END. */
static double power_series(int n, double x) {
  double q = 0.25 * x * x, term = 1, sum = 1;
  for (int k = 1; k < 400; k++) {
    term *= q / ((double)k * ((double)n + k));
    sum += term;
    if (term < 1e-17 * sum) break;
  }
  return n == 0 ? exp(-x) * sum : exp(n * log(0.5 * x) - pni_lgamma(n + 1.0) - x) * sum;
}

/* (-1)^k d^k/dx^k x^(-1/2 - j) = rising(j, k) x^(-1/2 - j - k) */
static double rising(int j, int k) {
  double f = 1;
  for (int i = 0; i < k; i++) f *= 0.5 + j + i;
  return f;
}

/* The same, or its derivative of an order, by Hankel's expansion (DLMF 10.40.1) term by term, for x > SERIES_END and
 * x > n^2. */
static double hankel(int order, int n, double x) {
  double m = 4.0 * n * n, term = 1, sum = rising(0, order);
  for (int k = 1; k < 60; k++) {
    double next = -term * (m - (2.0 * k - 1) * (2.0 * k - 1)) / (8.0 * k * x), part = next * rising(k, order);
    if (fabs(next) > fabs(term) && k > n) break;
    term = next;
    sum += part;
    if (fabs(part) < 1e-17 * fabs(sum)) break;
  }
  sum /= sqrt(TWO_PI * x);
  for (int i = 0; i < order; i++) sum /= -x;
  return sum;
}

/* I_n / I_0 as a product of ratios I_k / I_(k-1) = 1 / (2k/x + I_(k+1) / I_k), downwards (DLMF 10.33); where it is
 * taken up, I is small against I_n. */
static double ratio_down(int n, double x) {
  double r = 0, product = 1;
  for (int k = n + 20 + (int)sqrt(45 * x); k >= 1; k--) {
    r = 1 / (2 * k / x + r);
    if (k <= n) product *= r;
  }
  return product;
}

/* e^-x I_n(x) by Debye's expansion for large n, uniform in x (DLMF 10.41.3; polynomials of Abramowitz and Stegun
 * 9.3.9). */
static double debye(int n, double x) {
  double z = x / n, root = sqrt(1 + z * z), p = 1 / root, q = p * p, r = 1.0 / n;
  double u1 = p * (3 - 5 * q) / 24;
  double u2 = q * (81 - q * (462 - 385 * q)) / 1152;
  double u3 = p * q * (30375 - q * (369603 - q * (765765 - 425425 * q))) / 414720;
  double sum = 1 + r * (u1 + r * (u2 + r * u3));
  double exponent = n * (1 / (root + z) - asinh(1 / z)); /* of sqrt(1 + z^2) - z + log(z / (1 + sqrt(1 + z^2))) */
  return exp(exponent) * sum / sqrt(TWO_PI * n * root);
}

/* e^-|x| I_n(x), n >= 0; odd in x for odd n. 0 at +-inf, NaN for n < 0. Max error 5e-15 for n <= 10, 1e-12 for large
 * n. */
double pni_ive(int n, double x) {
  double size = fabs(x), sign = x < 0 && n % 2 ? -1 : 1;
  if (n < 0 || isnan(x)) return NAN;
  if (size == 0) return n == 0;
  if (isinf(size)) return 0;
  if (size <= SERIES_END) return sign * power_series(n, size);
  if (size > (double)n * n) return sign * hankel(0, n, size);
  return sign * (n > DEBYE_FROM ? debye(n, size) : ratio_down(n, size) * hankel(0, 0, size));
}

/* n (n - 1) ... (n - k + 1) / k! */
static double choose(int n, int k) {
  double f = 1;
  for (int i = 1; i <= k; i++) f *= (double)(n - k + i) / i;
  return f;
}

/* k-th derivative of e^-|x| I_n(x): Hankel's expansion where it holds; below, where n or 1/x is not small and so
 * nothing cancels for long, 2^-k times the central difference of order 2k in n (DLMF 10.29.5, with the factor). At 0,
 * where the factor has a kink, the derivative of I_n. Max error 5e-13 for k = 1, 1e-11 for k = 2, n <= 7. */
double pni_ive_slope(int k, int n, double x) {
  double size = fabs(x), sign = x < 0 && (n + k) % 2 ? -1 : 1, sum = 0;
  if (k < 0 || n < 0 || isnan(x)) return NAN;
  if (k == 0 || isinf(size)) return k ? 0 : pni_ive(n, x);
  if (size == 0) return k >= n && (k - n) % 2 == 0 ? ldexp(choose(k, (k - n) / 2), -k) : 0;
  if (size > SERIES_END && size > (double)n * n) return sign * hankel(k, n, size);
  for (int j = 0; j <= 2 * k; j++)
    sum += (j % 2 ? -1 : 1) * choose(2 * k, j) * pni_ive(n > INT_MAX - k ? n : abs(n - k + j), size);
  return sign * ldexp(sum, -k);
}

/* log I_0(x): the series without its first term below 1, |x| + log of the scaled function above. Even; inf at
 * +-inf. Max error 1e-15. */
double pni_log_i0(double x) {
  double size = fabs(x), q = 0.25 * x * x, term = 1, sum = 0;
  if (!(size < 1)) return isinf(size) ? size : size + pni_log_i0e(size);
  for (int k = 1; k < 20; k++) {
    term *= q / ((double)k * k);
    sum += term;
  }
  return log1p(sum);
}

/* log(e^-x I_0(x)), x >= 0: about -log(2 pi x) / 2 for large x. NaN below 0. Max error 1e-15. */
double pni_log_i0e(double x) {
  if (!(x >= 0)) return NAN;
  if (x > 1e300) return -0.5 * (log(x) + log(TWO_PI)); /* 2 pi x may overflow */
  return x < 1 ? pni_log_i0(x) - x : log(pni_ive(0, x));
}

/* I_1(x) / I_0(x) = sum_j near[j] x^(2j + 1), |x| < 2.4, and 1 - sum_(n >= 1) far[n - 1] x^-n for large x: both from
 * Riccati's equation A' = 1 - A^2 - A / x. */
static const double near[26] = {
    0.5,
    -0.0625,
    0.010416666666666666667,
    -0.0017903645833333333333,
    0.00030924479166666666667,
    -0.000053462275752314814815,
    9.2440812045304232804e-6,
    -1.5984294275758127687e-6,
    2.763921574894035888e-7,
    -4.7792356615320691963e-8,
    8.2640182371904735624e-9,
    -1.4289732706286063933e-9,
    2.4709101129638688878e-10,
    -4.2725759260815411819e-11,
    7.3879276114996417063e-12,
    -1.2774840129204120086e-12,
    2.2089623627917109901e-13,
    -3.8196287944805876395e-14,
    6.6047137666899524606e-15,
    -1.1420545368948260736e-15,
    1.9747843908392948572e-16,
    -3.4146997926261656839e-17,
    5.9045305036088229266e-18,
    -1.0209822996250682503e-18,
    1.7654322481873527791e-19,
    -3.0526983906424277273e-20,
};
static const double far[17] = {0.5,
                               0.125,
                               0.125,
                               0.1953125,
                               0.40625,
                               1.0478515625,
                               3.21875,
                               11.466461181640625,
                               46.478515625,
                               211.27614974975585938,
                               1064.67822265625,
                               5892.0457146167755127,
                               35528.87744140625,
                               231884.63595631718636,
                               1628749.4532470703125,
                               12251067.632866150234,
                               98252781.815467834473};

/* p (p - 1) ... (p - k + 1) */
static double falling(int p, int k) {
  double f = 1;
  for (int i = 0; i < k; i++) f *= p - i;
  return f;
}

/* sum_j near[j] d^k/dx^k x^(2j + 1) */
static double near_sum(int k, double x) {
  double sum = 0;
  for (int j = COUNT(near) - 1; j >= 0 && 2 * j + 1 >= k; j--) sum = sum * x * x + near[j] * falling(2 * j + 1, k);
  return k % 2 ? sum : sum * x;
}

/* I_1(x) / I_0(x), odd; -1 and 1 at the infinities. Max error 1e-15. */
double pni_bessel_ratio(double x) {
  double size = fabs(x);
  if (size < 1) return near_sum(0, x);
  return copysign(size < 50 ? ratio_down(1, size) : 1 - pni_bessel_gap(0, size), x);
}

/* k-th derivative, 0 <= k <= 3, of 1 - I_1(x) / I_0(x), x >= 0: by the series below 1 and from 50 on, between by
 * Riccati's equation and its derivatives. NaN below 0. Max error 2e-15 for k = 0, 1e-12, 2e-10, 2e-8 for k = 1, 2,
 * 3. */
double pni_bessel_gap(int k, double x) {
  if (!(x >= 0) || k < 0 || k > 3) return NAN;
  double sum = 0;
  if (x < 1) return (k == 0) - near_sum(k, x);
  if (x >= 50) {
    double r = 1 / x;
    for (int n = COUNT(far); n >= 1; n--) sum = (sum + far[n - 1] * falling(-n, k)) * r;
    return sum * pow(r, k);
  }
  double a = ratio_down(1, x), b = a / x, first = 1 - a * a - b;
  if (k == 0) return 1 - a;
  if (k == 1) return -first;
  double second = -2 * a * first - (first - b) / x;
  if (k == 2) return -second;
  return 2 * (first * first + a * second) + (second - 2 * (first - b) / x) / x;
}

/* ---- the von Mises distribution around 0, density e^(x cos z) / (2 pi I_0(x)) on -pi <= z <= pi ---- */

/* Nodes in (0, 1) and weights of Gauss's rule with 40 points on [-1, 1], by symmetry half of them. */
static const double node[20] = {
    0.038772417506050821933, 0.11608407067525520848, 0.19269758070137109972, 0.26815218500725368114,
    0.34199409082575847301,  0.41377920437160500152, 0.48307580168617871291, 0.54946712509512820208,
    0.61255388966798023795,  0.67195668461417954838, 0.72731825518992710328, 0.77830565142651938769,
    0.8246122308333116632,   0.86595950321225950382, 0.90209880696887429673, 0.93281280827867653336,
    0.9579168192137916558,   0.97725994998377426266, 0.99072623869945700645, 0.99823770971055920035};
static const double weight[20] = {
    0.077505947978424811264, 0.077039818164247965588, 0.076110361900626242372, 0.0747231690579682642,
    0.072886582395804059061, 0.070611647391286779695, 0.067912045815233903826, 0.064804013456601038075,
    0.061306242492928939167, 0.057439769099391551367, 0.053227846983936824355, 0.048695807635072232061,
    0.043870908185673271992, 0.03878216797447201764,  0.033460195282547847393, 0.027937006980023401098,
    0.022245849194166957262, 0.016421058381907888713, 0.010498284531152813615, 0.0045212770985331912585};

/* What angles from `from` to z <= 0 add up, as multiples of the density at z: out[0] the integral of
** e^(x (cos t - cos z)) from there, or from where that is below e^-40, to z; with slope != 0 out[1] that of it times
** 1 - 2 sin(t/2)^2 - I_1/I_0. The nodes are pairs about the middle, so that sines and cosines of half the distance d to
** it give all of a pair: cos t - cos z = -2 sin((t - z)/2) sin((t + z)/2), t = middle +- d. */
static void rise_to(double x, double from, double z, int slope, double out[2]) {
  double s = sin(0.5 * z), end = s * s + 20 / x, low = fmax(from, end < 1 ? -2 * asin(sqrt(end)) : -PI);
  double half = 0.5 * (z - low), middle = 0.5 * (z + low), sum = 0, slopes = 0;
  double minus_s = sin(-0.5 * half), minus_c = cos(0.5 * half); /* of (middle - z)/2 */
  double plus_s = sin(0.5 * (middle + z)), plus_c = cos(0.5 * (middle + z));
  double at_s = sin(0.5 * middle), at_c = cos(0.5 * middle), gap = slope ? pni_bessel_gap(0, x) : 0;
  for (int i = 0; i < 2 * COUNT(node); i += 2) {
    double d = 0.5 * half * node[i / 2], ds = sin(d), dc = cos(d);
    for (int side = 0; side < 2; side++, ds = -ds) {
      double rise = (minus_s * dc - minus_c * ds) * (plus_s * dc - plus_c * ds), v = at_s * dc - at_c * ds;
      double e = weight[i / 2] * exp(-2 * x * rise);
      sum += e;
      slopes += e * (gap - 2 * v * v);
    }
  }
  out[0] = half * sum;
  out[1] = half * slopes;
}

static double tail(double x, double z, int slope) {
  double out[2];
  rise_to(x, -PI, z, slope, out);
  return out[slope];
}

static double density(double x, double z) {
  double s = sin(0.5 * z);
  return exp(-2 * x * s * s) / (TWO_PI * pni_ive(0, x));
}

/* Probability of angles from -pi to z, concentration x > 0: by Gauss's rule over the smaller tail, which is relative
 * to the density at z, so that it is exact down to underflow. 0 below -pi, 1 above pi. Max error 5e-13, 2e-14 where it
 * is above e^-100. */
double pni_von_mises_cdf(double x, double z) {
  if (!(x > 0) || isinf(x) || isnan(z)) return NAN;
  if (fabs(z) >= PI || z == 0) return z == 0 ? 0.5 : z > 0;
  double part = density(x, z) * tail(x, -fabs(z), 0);
  return z > 0 ? 1 - part : part;
}

/* z with cdf p, 0 <= p <= 1: Newton's method on the logarithm of the smaller tail, held between bounds, from the
 * normal quantile. Max error 1e-13 (absolute, of an angle). */
double pni_von_mises_icdf(double x, double p) {
  if (!(x > 0) || isinf(x) || !(p >= 0 && p <= 1)) return NAN;
  if (p == 0 || p == 1) return p == 0 ? -PI : PI;
  if (p == 0.5) return 0;
  double q = p < 0.5 ? p : 1 - p, low = -PI, high = 0, start = 0.5 * pni_ndtri(q) / sqrt(x);
  double z = x > 1 && start > -0.9 ? 2 * asin(start) : PI * (2 * q - 1);
  for (int i = 0; i < 100; i++) {
    double scaled = tail(x, z, 0), f = density(x, z) * scaled, step = f > 0 ? log(f / q) * scaled : -PI;
    if (step > 0)
      high = z;
    else
      low = z;
    double next = z - step;
    if (!(next > low && next < high)) next = 0.5 * (low + high);
    if (fabs(next - z) <= 1e-16 * fabs(z) || high - low <= 4e-16 * fabs(low)) break;
    z = next;
  }
  return p < 0.5 ? z : -z;
}

/* dz/dx at fixed cdf, -(dF/dx) / density: how a draw moves with the concentration. Odd in z. Max error 1e-12. */
double pni_von_mises_slope(double x, double z) {
  if (!(x > 0) || isinf(x) || !(fabs(z) <= 3.1415927410125733)) return NAN;
  double s = z == 0 ? 0 : tail(x, -fmin(fabs(z), PI), 1);
  return z > 0 ? s : -s;
}

/* Of angles from a to b, -pi <= a <= b <= pi: log probability, and its derivative in x, the mean there of cos t -
 * I_1/I_0. By the density at the angle next to 0, so that neither underflows. */
static void between(double x, double a, double b, double out[2]) {
  double peak = a > 0 ? a : b < 0 ? b : 0, s = sin(0.5 * peak), below[2] = {0}, above[2] = {0};
  if (a < 0) rise_to(x, a, fmin(b, 0), 1, below);
  if (b > 0) rise_to(x, -b, -fmax(a, 0), 1, above);
  double sum = below[0] + above[0];
  out[0] = log(sum) - 2 * x * s * s - log(TWO_PI) - pni_log_i0e(x);
  out[1] = sum > 0 ? (below[1] + above[1]) / sum : 0;
}

/* The same from a over b - a <= 2 pi, which may pass pi. */
static void around(double x, double a, double b, double out[2]) {
  if (b <= PI) {
    between(x, a, b, out);
    return;
  }
  double rest[2];
  between(x, a, PI, out);
  between(x, -PI, b - TWO_PI, rest);
  double log_sum = pni_logaddexp(out[0], rest[0]);
  out[1] = isinf(log_sum) ? 0 : out[1] * exp(out[0] - log_sum) + rest[1] * exp(rest[0] - log_sum);
  out[0] = log_sum;
}

/* Log probability of angles from a upwards to b, -pi <= a <= pi, a <= b <= a + 2 pi, and its derivative in x: where it
 * is most of the mass by what is left. Max error 5e-14 of 1 + |log|. */
void pni_von_mises_log_mass(double x, double a, double b, double out[2]) {
  out[0] = out[1] = NAN;
  if (!(x > 0) || isinf(x) || !(a <= b)) return;
  double rest[2], end = a + TWO_PI;
  around(x, a, fmin(b, end), out);
  if (out[0] < -0.69) return;
  if (b > PI)
    around(x, b - TWO_PI, a, rest);
  else
    around(x, b, end, rest);
  if (!(rest[0] > -INFINITY)) rest[1] = 0;
  out[0] = log1p(-exp(rest[0]));
  out[1] = -exp(rest[0] - out[0]) * rest[1];
}
