/*
** count_test.c: src/math/special_count.c against values of mpmath (spec/golden/math/count.py), each bound the error
** that the function's comment states; the laws of counts give what their one-step samplers give.
*/
#include "../../src/math/random/rng.h"
#include "../../src/math/special.h"
#include "check.h"

typedef struct count_row {
  double x[2], value;
} count_row;

#include "../golden/math/count_golden.h"

#define COUNT(t) (sizeof(t) / sizeof(t)[0])

static double excess(double k, double unused) { return (void)unused, pni_count_excess(k); }

/* relative, below `floor` absolute in its units */
static void sweep(const char *name, double (*f)(double, double), const count_row *row, size_t n, double bound,
                  double floor_) {
  for (size_t i = 0; i < n; i++) {
    double got = f(row[i].x[0], row[i].x[1]), scale = fmax(fabs(row[i].value), floor_);
    if (!check_record(got == row[i].value || fabs(got - row[i].value) <= bound * scale))
      printf("%s(%.17g, %.17g): got %.17g, want %.17g\n", name, row[i].x[0], row[i].x[1], got, row[i].value);
  }
}

static void edges(void) {
  CHECK(pni_count_deviance(3, 0) == INFINITY && pni_count_deviance(3, INFINITY) == INFINITY);
  CHECK(isnan(pni_count_deviance(-1, 2)) && isnan(pni_count_deviance(1, -2)) && isnan(pni_count_deviance(NAN, 2)));
  CHECK(pni_count_deviance_log(3, -INFINITY) == INFINITY && pni_count_deviance_log(0, -INFINITY) == 0);
  CHECK(isnan(pni_count_deviance_log(3, NAN)));
  CHECK(isnan(pni_count_excess(-1)) && isnan(pni_count_excess(NAN)));
}

static void laws(void) {
  static const double rate[] = {1e-8, 0.5, 9, 11, 1e6}, p[] = {1e-9, 0.01, 0.3, 0.5, 0.8, 1};
  for (size_t k = 0; k < COUNT(rate); k++) {
    pni_count_law l;
    pni_poisson_law(&l, rate[k]);
    for (uint64_t i = 0; i < 200; i++) {
      double n = pni_count_from(&l, 3, i, 0.4, 0.3);
      CHECK(n >= 0 && n == floor(n));
    }
  }
  for (size_t k = 0; k < COUNT(p); k++) {
    pni_count_law l;
    pni_binomial_law(&l, 1000, p[k]);
    for (uint64_t i = 0; i < 200; i++) {
      double n = pni_count_from(&l, 3, i, 1, 1); /* a first trial at the edge */
      CHECK(n >= 0 && n <= 1000 && n == floor(n));
    }
  }
}

int main(void) {
  sweep("deviance", pni_count_deviance, golden_deviance, COUNT(golden_deviance), 4e-15, 0);
  sweep("deviance_log", pni_count_deviance_log, golden_deviance_log, COUNT(golden_deviance_log), 4e-15, 0);
  sweep("excess", excess, golden_excess, COUNT(golden_excess), 2e-14, 1);
  edges();
  laws();
  CHECK_DONE();
}
