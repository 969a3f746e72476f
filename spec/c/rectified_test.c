/*
** rectified_test.c: moments of rectified normal numbers against mpmath (spec/golden/nn/rectified_moments.py), in both tails
** and both types; gradients of first and second order; numbers without doubt; that SELU maps (0, 1) to (0, 1).
*/
#include "../../src/nn/recurrent/nn_op.h"
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

int main(void) {
  pn_context *c = pn_context_new(NULL);
  const function functions[] = {
      {&pni_nn_op_relu_mean, 0, 1e-10, &golden_rectified[0].relu_mean},
      {&pni_nn_op_relu_variance, 0, 1e-10, &golden_rectified[0].relu_variance},
      {&pni_nn_op_exp_below, 0, 1e-12, &golden_rectified[0].below[0]},
      {&pni_nn_op_exp_below, 1, 1e-12, &golden_rectified[0].below[1]},
      {&pni_nn_op_exp_below, 2, 1e-12, &golden_rectified[0].below[2]},
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
  pn_context_close(c);
  CHECK_DONE();
}
