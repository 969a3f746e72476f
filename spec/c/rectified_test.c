/*
** rectified_test.c: moments of rectified normal numbers against mpmath (spec/golden/nn/rectified_moments.py), in both
** tails and both types; gradients of first and second order; numbers without doubt; that SELU maps (0, 1) to (0, 1).
*/
#include "../../src/nn/moment/activation_moments.h"
#include "check.h"
#include "../golden/nn/rectified_moments.h"

enum { ROWS = sizeof golden_rectified / sizeof *golden_rectified };
static const double selu_alpha = 1.6732632423543772;

typedef struct {
  const pni_op *op;
  double real, allowed;
  const double *want; /* of the first row */
} function;

static pn_tensor *apply(pn_context *c, const function *f, pn_tensor *mu, pn_tensor *v) {
  return pni_apply2(c, f->op, mu, v, &(pni_attr){.r = {f->real}});
}

static double number(pn_context *c, pn_tensor *t) {
  double x = NAN;
  CHECK_STATUS(c, pn_tensor_item(c, t, &x), PN_OK);
  return x;
}

static void values(pn_context *c, const function *f, pn_dtype dtype, double allowed) {
  size_t mark = pn_scope_open(c);
  double mean[ROWS], variance[ROWS], got[ROWS];
  for (int i = 0; i < ROWS; i++) {
    mean[i] = golden_rectified[i].mean;
    variance[i] = golden_rectified[i].variance;
  }
  pn_tensor *mu = pn_from_data(c, PN_FLOAT64, 1, (int64_t[]){ROWS}, mean);
  pn_tensor *v = pn_from_data(c, PN_FLOAT64, 1, (int64_t[]){ROWS}, variance);
  pn_tensor *y = apply(c, f, pn_cast(c, mu, dtype), pn_cast(c, v, dtype));
  CHECK_STATUS(c, pn_tensor_copy_out(c, pn_cast(c, y, PN_FLOAT64), got, ROWS), PN_OK);
  for (int i = 0; i < ROWS; i++) {
    double want = *(const double *)((const char *)f->want + (size_t)i * sizeof *golden_rectified);
    double t = fabs(mean[i]) / sqrt(variance[i]);
    if (dtype == PN_FLOAT32 && t > 5) continue; /* the rounding of the operands is multiplied by t^2 */
    if (!check_record(fabs(got[i] - want) <= allowed * fabs(want)))
      printf("%s(%g, %g; %g): got %.17g, want %.17g (relative %.2g)\n", f->op->name, mean[i], variance[i], f->real,
             got[i], want, fabs(got[i] / want - 1));
  }
  pn_scope_close(c, mark);
}

/* f, its slopes and the slopes of those against differences of the one before. */
static void slopes(pn_context *c, const function *f) {
  static const double at[][2] = {{0, 1}, {0.4, 0.5}, {-0.7, 1.3}, {3, 0.6}, {-4, 1}, {-1, 9}};
  enum { POINTS = sizeof at / sizeof *at };
  for (int i = 0; i < POINTS; i++)
    for (int k = 0; k < 2; k++) {
      size_t mark = pn_scope_open(c);
      double h = 1e-4 * at[i][1], y[3], d[3][2];
      for (int j = 0; j < 3; j++) {
        double mean = at[i][0] + (k == 0) * (j - 1) * h, variance = at[i][1] + (k == 1) * (j - 1) * h;
        pn_tensor *in[] = {pn_param(c, pn_scalar(c, PN_FLOAT64, mean)),
                           pn_param(c, pn_scalar(c, PN_FLOAT64, variance))};
        pn_tensor *out = apply(c, f, in[0], in[1]), *g[2], *gg[2];
        CHECK_STATUS(c, pn_grad(c, out, 2, in, 1, g), PN_OK);
        y[j] = number(c, out);
        for (int m = 0; m < 2; m++) d[j][m] = number(c, g[m]);
        if (j != 1) continue;
        for (int m = 0; m < 2; m++) {
          CHECK_STATUS(c, pn_grad(c, g[m], 2, in, 0, gg), PN_OK);
          y[1] = m == 0 ? number(c, gg[k]) : y[1];
          d[1][m] = number(c, gg[k]);
        }
      }
      double scale = 1e-3 + fabs(d[0][k]), slope = (y[2] - y[0]) / (2 * h), mean_slope = (d[0][k] + d[2][k]) / 2;
      if (!check_record(fabs(slope - mean_slope) <= 1e-6 * scale))
        printf("%s at %g, %g: slope %d is %g, differences %g\n", f->op->name, at[i][0], at[i][1], k, mean_slope, slope);
      for (int m = 0; m < 2; m++) {
        double second = (d[2][m] - d[0][m]) / (2 * h);
        if (!check_record(fabs(second - d[1][m]) <= 1e-5 * (1e-2 + fabs(second))))
          printf("%s at %g, %g: slope %d%d is %g, differences %g\n", f->op->name, at[i][0], at[i][1], m, k, d[1][m],
                 second);
      }
      pn_scope_close(c, mark);
    }
}

/* A variance of 0, and what is no number. */
static void ends(pn_context *c, const function *f, double (*sure)(double x, double real)) {
  static const double x[] = {-3, 0, 2};
  for (int i = 0; i < 3; i++) {
    size_t mark = pn_scope_open(c);
    pn_tensor *in[] = {pn_param(c, pn_scalar(c, PN_FLOAT64, x[i])), pn_param(c, pn_scalar(c, PN_FLOAT64, 0))}, *g[2];
    pn_tensor *y = apply(c, f, in[0], in[1]);
    CHECK_NEAR(number(c, y), sure(x[i], f->real), 1e-15);
    CHECK_STATUS(c, pn_grad(c, y, 2, in, 0, g), PN_OK);
    CHECK(isfinite(number(c, g[0])) && isfinite(number(c, g[1])));
    pn_tensor *one = pn_scalar(c, PN_FLOAT64, 1), *none = pn_scalar(c, PN_FLOAT64, NAN),
              *zero = pn_scalar(c, PN_FLOAT64, 0);
    CHECK(isnan(number(c, apply(c, f, none, one))) && isnan(number(c, apply(c, f, one, none))));
    CHECK(isnan(number(c, apply(c, f, none, zero))));
    CHECK(isnan(number(c, apply(c, f, one, pn_scalar(c, PN_FLOAT64, -1)))));
    pn_scope_close(c, mark);
  }
}

static double nothing(double x, double real) { return (void)x, (void)real, 0; }
static double ramp(double x, double real) { return (void)real, x > 0 ? x : 0; }
static double power(double x, double k) { return x < 0 ? exp(k * x) : 0; }

static void fixed_point(pn_context *c) {
  const double lambda = 1.0507009873554805, a = selu_alpha;
  size_t mark = pn_scope_open(c);
  pn_tensor *mu = pn_scalar(c, PN_FLOAT64, 0), *v = pn_scalar(c, PN_FLOAT64, 1);
  function mean = {&pni_nn_op_relu_mean, 0, 0, NULL}, s0 = {&pni_nn_op_exp_below, 0, 0, NULL}, s1 = s0, var = s0;
  s1.real = 1;
  var = (function){&pni_nn_op_elu_variance, a, 0, NULL};
  double e = number(c, apply(c, &mean, mu, v)),
         below = number(c, apply(c, &s1, mu, v)) - number(c, apply(c, &s0, mu, v));
  CHECK(fabs(lambda * (a * below + e)) < 1e-15);
  CHECK_NEAR(lambda * lambda * number(c, apply(c, &var, mu, v)), 1, 1e-14);
  pn_scope_close(c, mark);
}

/* Mean and variance at once are the two by themselves, to the bit, and so are their gradients, with a graph of their
 * own and without; operands of several blocks, some that repeat or have gaps. */
static void together(pn_context *c, pn_dtype dtype, double allowed) {
  enum { N = 700 };
  size_t mark = pn_scope_open(c);
  double a[N], b[N], weight[2 * N], worst = 0, least = 0;
  for (int i = 0; i < N; i++) {
    a[i] = 6 * sin(1.7 * i);
    b[i] = i % 50 == 7 ? 0 : 0.01 + 2 * fabs(cos(0.3 * i));
    weight[i] = 1 + cos(2.3 * i);
    weight[N + i] = sin(0.9 * i) - 0.5;
  }
  const int64_t n = N, two[] = {2, N};
  pn_tensor *in[] = {pn_param(c, pn_cast(c, pn_from_data(c, PN_FLOAT64, 1, &n, a), dtype)),
                     pn_param(c, pn_cast(c, pn_from_data(c, PN_FLOAT64, 1, &n, b), dtype))};
  pn_tensor *w = pn_cast(c, pn_from_data(c, PN_FLOAT64, 2, two, weight), dtype), *g[3][2];
  pn_tensor *both = pni_apply2(c, &pni_nn_op_relu_moments, in[0], in[1], NULL);
  pn_tensor *each[] = {pni_apply2(c, &pni_nn_op_relu_mean, in[0], in[1], NULL),
                       pni_apply2(c, &pni_nn_op_relu_variance, in[0], in[1], NULL)};
  pn_tensor *apart = pn_stack(c, 2, each, 0);
  pn_tensor *sum = pn_sum(c, pn_mul(c, both, w), PN_ALL, 0), *other = pn_sum(c, pn_mul(c, apart, w), PN_ALL, 0);
  CHECK_STATUS(c, pn_grad(c, sum, 2, in, 1, g[0]), PN_OK); /* (kept: a graph) */
  CHECK_STATUS(c, pn_grad(c, sum, 2, in, 0, g[1]), PN_OK);
  CHECK_STATUS(c, pn_grad(c, other, 2, in, 0, g[2]), PN_OK);
  CHECK(number(c, pn_max(c, pn_abs(c, pn_sub(c, both, apart)), PN_ALL, 0)) == 0);
  for (int k = 0; k < 2; k++)
    for (int m = 0; m < 2; m++)
      worst = fmax(worst, number(c, pn_max(c, pn_abs(c, pn_sub(c, g[m][k], g[2][k])), PN_ALL, 0)));
  CHECK_NEAR(worst, 0, allowed);
  pn_tensor *wide[] = {pn_param(c, pn_cast(c, in[0], PN_FLOAT64)), pn_param(c, pn_cast(c, in[1], PN_FLOAT64))};
  both = pn_mul(c, pni_apply2(c, &pni_nn_op_relu_moments, wide[0], wide[1], NULL), pn_cast(c, w, PN_FLOAT64));
  CHECK_STATUS(c, pn_grad(c, pn_sum(c, both, PN_ALL, 0), 2, wide, 0, g[0]), PN_OK);
  for (int k = 0; k < 2; k++) { /* beside float64, by |x| + 1 */
    pn_tensor *d = pn_abs(c, pn_sub(c, pn_cast(c, g[2][k], PN_FLOAT64), g[0][k]));
    d = pn_div(c, d, pn_add(c, pn_abs(c, g[0][k]), pn_scalar(c, PN_FLOAT64, 1)));
    CHECK_NEAR(number(c, pn_max(c, d, PN_ALL, 0)), 0, 2 * allowed);
  }
  pn_tensor *odd = pn_slice(c, in[0], 0, N - 1, N / 2, -2), *one = pn_slice(c, in[1], 0, 3, 1, 1);
  pn_tensor *copy = pn_contiguous(c, odd), *same = pn_contiguous(c, pn_broadcast_to(c, one, 1, (int64_t[]){N / 2}));
  for (int k = 0; k < 2; k++) {
    const pni_op *op = k ? &pni_nn_op_relu_variance : &pni_nn_op_relu_mean;
    pn_tensor *d = pn_sub(c, pni_apply2(c, op, odd, one, NULL), pni_apply2(c, op, copy, same, NULL));
    least = fmax(least, number(c, pn_max(c, pn_abs(c, d), PN_ALL, 0)));
  }
  CHECK(least == 0);
  pn_scope_close(c, mark);
}

/* ---- activations ---- */

typedef double (*curve)(double x, double a);
static double leaky(double x, double a) { return x > 0 ? x : a * x; }
static double elu(double x, double a) { return x > 0 ? x : a * expm1(x); }
static double hard_tanh(double x, double a) { return (void)a, fmin(fmax(x, -1), 1); }

/* Mean and variance of f(x) by the trapezoid rule. */
static void integrate(curve f, double a, double mean, double variance, double out[2]) {
  enum { STEPS = 400000 };
  double sum = 0, first = 0, second = 0, sigma = sqrt(variance);
  for (int i = 0; i <= STEPS; i++) {
    double t = -12 + 24.0 * i / STEPS, w = exp(-0.5 * t * t), y = f(mean + sigma * t, a);
    sum += w;
    first += w * y;
  }
  for (int i = 0; i <= STEPS; i++) {
    double t = -12 + 24.0 * i / STEPS, d = f(mean + sigma * t, a) - first / sum;
    second += exp(-0.5 * t * t) * d * d;
  }
  out[0] = first / sum;
  out[1] = second / sum;
}

static void check_pair(pn_context *c, const char *what, double mean, double variance, pn_tensor *const *got,
                       const double *want, double allowed) {
  for (int k = 0; k < 2; k++) {
    double x = number(c, got[k]);
    if (!check_record(fabs(x - want[k]) <= allowed * (1e-3 + fabs(want[k]))))
      printf("%s(%g, %g) %d: got %.15g, want %.15g\n", what, mean, variance, k, x, want[k]);
  }
}

static const double places[][2] = {{0, 1}, {0.4, 0.7}, {-1.2, 0.3}, {1.7, 0.2}, {-3, 2}, {6, 0.5}, {0.2, 30}};
enum { PLACES = sizeof places / sizeof *places };

static void matched(pn_context *c) {
  const pni_moment_rule match = {PNI_MATCH_MOMENTS, INFINITY};
  for (int i = 0; i < PLACES; i++) {
    size_t mark = pn_scope_open(c);
    double m = places[i][0], v = places[i][1], want[2];
    pn_tensor *mean = pn_scalar(c, PN_FLOAT64, m), *variance = pn_scalar(c, PN_FLOAT64, v), *got[2];
    CHECK_STATUS(c, pni_leaky_relu_moments(c, &match, NULL, mean, variance, got), PN_OK);
    integrate(leaky, 0, m, v, want);
    check_pair(c, "relu", m, v, got, want, 1e-8);
    CHECK_STATUS(c, pni_leaky_relu_moments(c, &match, pn_scalar(c, PN_FLOAT64, 0.2), mean, variance, got), PN_OK);
    integrate(leaky, 0.2, m, v, want);
    check_pair(c, "leaky_relu", m, v, got, want, 1e-8);
    CHECK_STATUS(c, pni_elu_moments(c, 1.3, 1, mean, variance, got), PN_OK);
    integrate(elu, 1.3, m, v, want);
    check_pair(c, "elu", m, v, got, want, 1e-8);
    CHECK_STATUS(c, pni_hard_tanh_moments(c, &match, mean, variance, got), PN_OK);
    integrate(hard_tanh, 0, m, v, want);
    check_pair(c, "hard_tanh", m, v, got, want, 1e-8);
    pn_scope_close(c, mark);
  }
}

static double logistic(double x) { return 1 / (1 + exp(-x)); }

/* Gates by enumeration of their states; f enters through its first two moments. */
static void gated(pn_context *c) {
  const double sharp[] = {1.5, 10, INFINITY};
  for (int i = 0; i < PLACES; i++)
    for (int k = 0; k < 3; k++) {
      size_t mark = pn_scope_open(c);
      const pni_moment_rule r = {PNI_IDENTITY_HEAVISIDE, sharp[k]};
      double m = places[i][0], v = places[i][1], want[2] = {0}, a = 0.2;
      pn_tensor *mean = pn_scalar(c, PN_FLOAT64, m), *variance = pn_scalar(c, PN_FLOAT64, v), *got[2];
      double z = m == 0 ? (isinf(sharp[k]) ? 0 : 0.5) : logistic(sharp[k] * m);
      want[0] = z * m + (1 - z) * a * m;
      want[1] = (z + (1 - z) * a * a) * (v + m * m) - want[0] * want[0];
      CHECK_STATUS(c, pni_leaky_relu_moments(c, &r, pn_scalar(c, PN_FLOAT64, a), mean, variance, got), PN_OK);
      check_pair(c, "gated leaky_relu", m, v, got, want, 1e-12);
      double u = logistic(sharp[k] * (m - 1)), w = logistic(sharp[k] * (-m - 1));
      want[0] = want[1] = 0;
      for (int s = 0; s < 4; s++) {
        int up = s & 1, down = s >> 1;
        double p = (up ? u : 1 - u) * (down ? w : 1 - w), shift = up - down, open = (1 - up) * (1 - down);
        want[0] += p * (shift + open * m);
        want[1] += p * (shift * shift + 2 * shift * open * m + open * (v + m * m));
      }
      want[1] -= want[0] * want[0];
      CHECK_STATUS(c, pni_hard_tanh_moments(c, &r, mean, variance, got), PN_OK);
      check_pair(c, "gated hard_tanh", m, v, got, want, 1e-12);
      pn_scope_close(c, mark);
    }
}

int main(void) {
  pn_context *c = pn_context_new(NULL);
  const function functions[] = {
      {&pni_nn_op_relu_mean, 0, 1e-10, &golden_rectified[0].relu_mean},
      {&pni_nn_op_relu_variance, 0, 1e-10, &golden_rectified[0].relu_variance},
      {&pni_nn_op_exp_below, 0, 1e-12, &golden_rectified[0].exp_below[0]},
      {&pni_nn_op_exp_below, 1, 1e-12, &golden_rectified[0].exp_below[1]},
      {&pni_nn_op_exp_below, 2, 1e-12, &golden_rectified[0].exp_below[2]},
      {&pni_nn_op_elu_variance, 1, 1e-10, &golden_rectified[0].elu_variance[0]},
      {&pni_nn_op_elu_variance, selu_alpha, 1e-10, &golden_rectified[0].elu_variance[1]},
  };
  double (*const sure[])(double, double) = {ramp, nothing, power, power, power, nothing, nothing};
  for (int i = 0; i < 7; i++) {
    values(c, &functions[i], PN_FLOAT64, functions[i].allowed);
    values(c, &functions[i], PN_FLOAT32, 2e-5);
    slopes(c, &functions[i]);
    ends(c, &functions[i], sure[i]);
  }
  fixed_point(c);
  together(c, PN_FLOAT64, 1e-14);
  together(c, PN_FLOAT32, 1e-6);
  matched(c);
  gated(c);
  pn_context_close(c);
  CHECK_DONE();
}
