/*
** belief_fusion_test.c: fusing beliefs on a host's arrays against numbers by quadrature (spec/golden/fusion) and
** against Gaussian factors; which sources are kept; refusals; that nothing is allocated.
*/
#include "alloc_sweep.h"

static const double first_scale = 0.57735026918962576451, second_scale = 0.81649658092772603273; /* 3^-1/2, (2/3)^1/2 */

typedef struct {
  double mean[8], scale[8], conflicts[16 * 16];
  unsigned char kept[16];
  pn_fused fused;
} results;

static pn_fused *into(results *r) {
  r->fused = (pn_fused){.mean = r->mean, .scale = r->scale, .conflicts = r->conflicts, .kept = r->kept};
  return &r->fused;
}

/* z ~ N(0, 1), x1 = z + N(0, 1/2), x2 = z + N(0, 2), seen 0.7 and -1.1: the values of two_sensors.lua. */
static void two_sensors(pn_context *c) {
  const double mean[] = {0.7 / 0.5 / 3, -1.1 / 2 / 1.5}, scale[] = {first_scale, second_scale};
  pn_beliefs b = {.sources = 2, .size = 1, .mean = mean, .scale = scale};
  results r;
  CHECK_STATUS(c, pn_beliefs_fuse(c, &b, into(&r)), PN_OK);
  CHECK_NEAR(r.mean[0], 0.2428571428571429, 1e-13);
  CHECK_NEAR(r.scale[0] * r.scale[0], 0.2857142857142857, 1e-13);
  CHECK_NEAR(r.conflicts[1], 11.57048067685015, 1e-12);
  CHECK_NEAR(r.conflicts[2], 1.900522357123366, 1e-12);
  CHECK_NEAR(r.conflicts[0], 0, 0);
  CHECK_INT(r.fused.count, 2);
  b.threshold = 1; /* both directions are above: two that contradict each other */
  CHECK_STATUS(c, pn_beliefs_fuse(c, &b, into(&r)), PN_OK);
  CHECK_INT(r.fused.undecided, 1);
  CHECK_INT(r.kept[0] && r.kept[1], 1);
  const unsigned char present[] = {0, 1};
  b.present = present;
  CHECK_STATUS(c, pn_beliefs_fuse(c, &b, into(&r)), PN_OK);
  CHECK_NEAR(r.mean[0], mean[1], 1e-14);
  CHECK_INT(r.kept[0], 0);
  CHECK_NEAR(r.conflicts[1], 0, 0);
  b.present = (const unsigned char[]){0, 0};
  CHECK_STATUS(c, pn_beliefs_fuse(c, &b, into(&r)), PN_OK);
  CHECK_INT(r.fused.count, 0);
  CHECK_NEAR(r.mean[0], 0, 0);
  CHECK_NEAR(r.scale[0], 1, 1e-15);
}

static pn_natural *factor(pn_context *c, const double *mean, const double *scale, int n) {
  const int64_t size[] = {n};
  double eta[8], precision[8];
  for (int i = 0; i < n; i++) precision[i] = 1 / (scale[i] * scale[i]), eta[i] = mean[i] * precision[i];
  return pn_natural_new(c, "diagonal", pn_from_data(c, PN_FLOAT64, 1, size, eta),
                        pn_from_data(c, PN_FLOAT64, 1, size, precision));
}

/* Five sources of eight numbers, a prior of its own: the product of Gaussian factors over the prior's fourth power. */
static void against_factors(pn_context *c) {
  enum { M = 5, D = 8 };
  double mean[M * D], scale[M * D], m0[D], s0[D];
  for (int k = 0; k < M * D; k++) mean[k] = sin(3.7 * k), scale[k] = 0.3 + 0.5 * fabs(cos(1.3 * k));
  for (int i = 0; i < D; i++) m0[i] = 0.2 * i, s0[i] = 0.9 + 0.1 * i;
  pn_beliefs b = {.sources = M, .size = D, .mean = mean, .scale = scale, .prior_mean = m0, .prior_scale = s0};
  results r;
  CHECK_STATUS(c, pn_beliefs_fuse(c, &b, into(&r)), PN_OK);
  size_t mark = pn_scope_open(c);
  pn_natural *prior = factor(c, m0, s0, D), *all = pn_natural_ref(prior);
  for (int m = 0; m < M; m++) {
    pn_natural *own = factor(c, mean + m * D, scale + m * D, D), *ratio = pn_natural_quotient(c, own, prior);
    pn_natural *next = pn_natural_product(c, all, ratio);
    pn_natural_unref(own);
    pn_natural_unref(ratio);
    pn_natural_unref(all);
    all = next;
  }
  pn_dist *d = pn_natural_to_dist(c, all);
  double want_mean[D], want_variance[D];
  CHECK_STATUS(c, pn_tensor_copy_out(c, pn_dist_mean(c, d), want_mean, D), PN_OK);
  CHECK_STATUS(c, pn_tensor_copy_out(c, pn_dist_variance(c, d), want_variance, D), PN_OK);
  for (int i = 0; i < D; i++) {
    CHECK_NEAR(r.mean[i], want_mean[i], 1e-12);
    CHECK_NEAR(r.scale[i] * r.scale[i], want_variance[i], 1e-12);
  }
  pn_dist_unref(d);
  pn_natural_unref(all);
  pn_natural_unref(prior);
  pn_scope_close(c, mark);
}

/* Kept as pn.fusion.fuse keeps them: one far off is named; of two pairs the one that says more together. */
static void rule(pn_context *c) {
  double mean[4] = {1, 1.1, -3, 0.9}, scale[4] = {0.3, 0.3, 0.3, 0.3};
  pn_beliefs b = {.sources = 4, .size = 1, .mean = mean, .scale = scale, .threshold = 1};
  results r;
  CHECK_STATUS(c, pn_beliefs_fuse(c, &b, into(&r)), PN_OK);
  CHECK_INT(r.kept[0] && r.kept[1] && !r.kept[2] && r.kept[3], 1);
  CHECK_INT(r.fused.undecided, 0);
  const double pairs[4] = {2, 2.05, -1, -1}, scales[4] = {0.3, 0.3, 0.5, 0.5}, sure[4] = {0.3, 0.3, 0.2, 0.2};
  const double further[4] = {2, 2.05, -4, -4};
  b.mean = pairs, b.scale = scales;
  CHECK_STATUS(c, pn_beliefs_fuse(c, &b, into(&r)), PN_OK);
  CHECK_INT(r.kept[0] && r.kept[1] && !r.kept[2] && !r.kept[3], 1);
  b.mean = further, b.scale = sure;
  CHECK_STATUS(c, pn_beliefs_fuse(c, &b, into(&r)), PN_OK);
  CHECK_INT(!r.kept[0] && !r.kept[1] && r.kept[2] && r.kept[3], 1);
  /* a belief that is the prior conflicts with nobody */
  const double blind[2] = {3, 0}, one[2] = {0.01, 1};
  b = (pn_beliefs){.sources = 2, .size = 1, .mean = blind, .scale = one, .threshold = 1e-3};
  CHECK_STATUS(c, pn_beliefs_fuse(c, &b, into(&r)), PN_OK);
  CHECK_INT(r.fused.count, 2);
  CHECK_INT(r.fused.undecided, 0);
}

/* A belief that is the prior in all numbers has moved by nothing but rounding, and is in conflict with nobody. */
static void says_nothing(pn_context *c) {
  for (int k = 0; k < 80; k++) {
    int size = k % 8 + 1;
    double mean[16], scale[16], m0[8], s0[8];
    for (int i = 0; i < size; i++) {
      m0[i] = mean[i] = 0.1 * i, s0[i] = 0.3 + 0.11 * i + 0.013 * k;
      scale[i] = 1 / sqrt(1 / (s0[i] * s0[i])); /* as it comes out of a precision */
      mean[size + i] = 2, scale[size + i] = 0.1;
    }
    pn_beliefs b = {.sources = 2, .size = size, .mean = mean, .scale = scale, .prior_mean = m0, .prior_scale = s0};
    results r;
    CHECK_STATUS(c, pn_beliefs_fuse(c, &b, into(&r)), PN_OK);
    CHECK(r.conflicts[2] == 0 && r.conflicts[1] > 0.5);
  }
}

/* Scales of any size: 2 KL of normals whose scales differ by the factor 2 is 1/4 - 1 + log 4, each of 300 numbers, far
 * below what a product of them could hold. */
static void small_scales(pn_context *c) {
  enum { D = 300 };
  static double mean[2 * D], scale[2 * D], m0[D], s0[D], out[2 * D];
  for (int i = 0; i < D; i++) {
    double s = i % 3 == 0 ? 1e-120 : i % 3 == 1 ? 1e-7 : 3e110;
    s0[i] = 4 * s, scale[i] = 2 * s, scale[D + i] = s;
  }
  double conflicts[4];
  unsigned char kept[2];
  pn_beliefs b = {.sources = 2, .size = D, .mean = mean, .scale = scale, .prior_mean = m0, .prior_scale = s0};
  pn_fused f = {.mean = out, .scale = out + D, .conflicts = conflicts, .kept = kept};
  CHECK_STATUS(c, pn_beliefs_fuse(c, &b, &f), PN_OK);
  CHECK_NEAR(conflicts[1], (0.25 - 1 + log(4)) / (1. / 16 - 1 + log(16)), 1e-12);
  CHECK_NEAR(conflicts[2], (4 - 1 - log(4)) / (0.25 - 1 + log(4)), 1e-12);
}

/* log of the integral of the product of the beliefs of a set over the prior's powers, but for what depends on the
 * number of beliefs: 1 and more numbers, completed squares. */
static double log_product(const pn_beliefs *b, const unsigned char *set) {
  double total = 0;
  for (int i = 0; i < b->size; i++) {
    double m0 = b->prior_mean ? b->prior_mean[i] : 0, s0 = b->prior_scale ? b->prior_scale[i] : 1;
    double precision = 1 / (s0 * s0), eta = m0 * precision, constant = -0.5 * eta * eta / precision - log(s0);
    double square = constant;
    for (int m = 0; m < b->sources; m++) {
      double s = b->scale[m * b->size + i], mean = b->mean[m * b->size + i];
      if (!set[m]) continue;
      precision += 1 / (s * s) - 1 / (s0 * s0);
      eta += mean / (s * s) - m0 / (s0 * s0);
      square += -0.5 * mean * mean / (s * s) - log(s) - constant;
    }
    total += precision > 0 ? square + 0.5 * eta * eta / precision - 0.5 * log(precision) : -INFINITY;
  }
  return total;
}

/* The rule of the header by going through all subsets; conflicts are those that were said. */
static int chosen(const pn_beliefs *b, const double *conflicts, unsigned char *best) {
  int size = 0, there = 0;
  double value = 0;
  for (int m = 0; m < b->sources; m++) there += !b->present || b->present[m];
  for (int code = 1; code < 1 << b->sources; code++) {
    unsigned char set[16];
    int n = 0;
    bool fits = true;
    for (int m = 0; m < b->sources; m++) n += set[m] = code >> m & 1;
    for (int m = 0; m < b->sources; m++) {
      if (set[m] && b->present && !b->present[m]) fits = false;
      for (int k = 0; k < m; k++) {
        double there_and_back = fmin(conflicts[m * b->sources + k], conflicts[k * b->sources + m]);
        if (set[m] && set[k] && there_and_back > b->threshold) fits = false;
      }
    }
    if (!fits || n < size) continue;
    double v = n == there ? 0 : log_product(b, set);
    if (n == size && !(v > value + 1e-9)) continue;
    size = n, value = v;
    memcpy(best, set, sizeof set);
  }
  if (size == 1 && there > 1)
    for (int m = 0; m < b->sources; m++) best[m] = !b->present || b->present[m];
  return size == 1 && there > 1;
}

static void chooses_as_by_all_subsets(pn_context *c) {
  enum { MOST = 7, SIZE = 2 };
  int partial = 0, undecided = 0, failed = 0;
  for (int k = 0; k < 120; k++) {
    double mean[MOST * SIZE], scale[MOST * SIZE], m0[SIZE] = {0.7, -0.2}, s0[SIZE] = {1.5, 2.5};
    unsigned char present[MOST], best[16] = {0};
    int sources = 2 + k % (MOST - 1);
    for (int i = 0; i < sources * SIZE; i++) {
      mean[i] = 3 * sin(17.3 * i + k) + (k % 3 == 0 ? 4.0 * (i / SIZE % 2) : 0);
      scale[i] = 0.2 + (k % 3 == 1 ? 1.6 : 0.6) * fabs(cos(5.1 * i + k)); /* also wider than the prior */
    }
    for (int m = 0; m < sources; m++) present[m] = (m * 7 + k) % 5 != 0;
    pn_beliefs b = {.sources = sources, .size = SIZE, .mean = mean, .scale = scale, .threshold = 0.2 + 0.3 * (k % 7)};
    if (k % 2) b.prior_mean = m0;
    if (k % 4 > 1) b.prior_scale = s0;
    if (k % 5 == 0) b.present = present;
    results r;
    pn_status status = pn_beliefs_fuse(c, &b, into(&r));
    CHECK_INT(r.fused.undecided, chosen(&b, r.conflicts, best));
    CHECK_INT(status, log_product(&b, best) == -INFINITY ? PN_DOMAIN : PN_OK);
    pn_context_clear_error(c);
    failed += status != PN_OK;
    int count = 0, all = 0;
    for (int m = 0; m < sources; m++) {
      CHECK_INT(r.kept[m], best[m]);
      count += best[m], all += !b.present || present[m];
    }
    CHECK_INT(r.fused.count, count);
    partial += count > 1 && count < all, undecided += r.fused.undecided;
    r.fused.conflicts = NULL; /* they are looked at whether they are told or not */
    CHECK(pn_beliefs_fuse(c, &b, &r.fused) == status);
    pn_context_clear_error(c);
    CHECK_INT(r.fused.count, count);
  }
  CHECK(partial > 50 && undecided > 10 && failed > 3);
  /* two pairs alike: that of the first sources; without a threshold all */
  const double mean[] = {2, 2.1, -2, -2.1}, scale[] = {0.3, 0.3, 0.3, 0.3};
  pn_beliefs b = {.sources = 4, .size = 1, .mean = mean, .scale = scale, .threshold = 1};
  results r;
  CHECK_STATUS(c, pn_beliefs_fuse(c, &b, into(&r)), PN_OK);
  CHECK(r.kept[0] && r.kept[1] && !r.kept[2] && !r.kept[3]);
  b.threshold = 0;
  CHECK_STATUS(c, pn_beliefs_fuse(c, &b, into(&r)), PN_OK);
  CHECK_INT(r.fused.count, 4);
}

static void refused(pn_context *c, const pn_beliefs *b, pn_fused *f, pn_status status, const char *text) {
  CHECK(pn_beliefs_fuse(c, b, f) == status);
  CHECK_STR(pn_context_message(c), text);
  CHECK_FAIL(c, status, text);
}

static void refusals(pn_context *c) {
  double mean[4] = {0, 0, 0, 0}, scale[4] = {1, 1, 1, 1}, m0[2] = {0, 0}, s0[2] = {1, 1};
  pn_beliefs good = {.sources = 2, .size = 2, .mean = mean, .scale = scale}, b = good;
  results r;
  static const double never[] = {NAN, INFINITY, -INFINITY}, positive[] = {NAN, INFINITY, 0, -1};
  char text[128];
  for (int i = 0; i < 4; i++) {
    for (int k = 0; k < 3; k++) {
      mean[i] = never[k];
      snprintf(text, sizeof text, "beliefs_fuse: mean of source %d must be finite, got %g", i / 2, never[k]);
      refused(c, &b, into(&r), PN_DOMAIN, text);
      mean[i] = 0;
    }
    for (int k = 0; k < 4; k++) {
      scale[i] = positive[k];
      snprintf(text, sizeof text, "beliefs_fuse: scale of source %d must be positive, got %g", i / 2, positive[k]);
      refused(c, &b, into(&r), PN_DOMAIN, text);
      scale[i] = 1;
    }
  }
  mean[2] = NAN, b.present = (const unsigned char[]){1, 0}; /* what a silent one says is not looked at */
  CHECK_STATUS(c, pn_beliefs_fuse(c, &b, into(&r)), PN_OK);
  mean[2] = 0, b = good;
  static const char *const prior = "beliefs_fuse: the prior must have finite means and positive scales";
  for (int i = 0; i < 2; i++) {
    for (int k = 0; k < 3; k++) {
      m0[i] = never[k], b.prior_mean = m0, b.prior_scale = NULL;
      refused(c, &b, into(&r), PN_DOMAIN, prior);
      m0[i] = 0;
    }
    for (int k = 0; k < 4; k++) {
      s0[i] = positive[k], b.prior_mean = NULL, b.prior_scale = s0;
      refused(c, &b, into(&r), PN_DOMAIN, prior);
      s0[i] = 1;
    }
  }
  b = good, scale[0] = 1.5, scale[2] = 3, scale[1] = scale[3] = 0.1;
  refused(c, &b, into(&r), PN_DOMAIN,
          "beliefs_fuse: the product's precision must be positive, got -0.444444: source 1 knows less than the prior");
  scale[0] = 3, scale[2] = 1.5;
  refused(c, &b, into(&r), PN_DOMAIN,
          "beliefs_fuse: the product's precision must be positive, got -0.444444: source 0 knows less than the prior");
  double three[6] = {0}, scales[6] = {1.5, 1, 1.6, 1, 9, 1};
  b = (pn_beliefs){
      .sources = 3, .size = 2, .mean = three, .scale = scales, .present = (const unsigned char[]){1, 1, 0}};
  refused(c, &b, into(&r), PN_DOMAIN, /* the silent one is not to blame */
          "beliefs_fuse: the product's precision must be positive, got -0.164931: source 1 knows less than the prior");
  for (int i = 0; i < 4; i++) scale[i] = 1;
  for (int sources = -1; sources <= 17; sources += 18) {
    b = good, b.sources = sources;
    snprintf(text, sizeof text, "beliefs_fuse: sources must lie in 0 to 16, got %d", sources);
    refused(c, &b, into(&r), PN_DOMAIN, text);
  }
  b = good, b.size = 0;
  refused(c, &b, into(&r), PN_DOMAIN, "beliefs_fuse: size must be at least 1, got 0");
  b = good, b.threshold = -1;
  refused(c, &b, into(&r), PN_DOMAIN, "beliefs_fuse: threshold must not be negative, got -1");
  b.threshold = NAN;
  refused(c, &b, into(&r), PN_DOMAIN, "beliefs_fuse: threshold must not be negative, got nan");
  static const char *const null = "beliefs_fuse: beliefs and fused must not be NULL",
                           *const nulls = "beliefs_fuse: mean, scale and kept must not be NULL";
  refused(c, &good, NULL, PN_STATE, null);
  refused(c, NULL, into(&r), PN_STATE, null);
  for (int k = 0; k < 5; k++) {
    b = good, into(&r);
    if (k == 0) b.mean = NULL;
    if (k == 1) b.scale = NULL;
    if (k == 2) r.fused.kept = NULL;
    if (k == 3) r.fused.mean = NULL;
    if (k == 4) r.fused.scale = NULL;
    refused(c, &b, &r.fused, PN_STATE, nulls);
  }
  b = (pn_beliefs){.sources = 0, .size = 2}, into(&r)->kept = NULL; /* of nobody: the prior */
  CHECK_STATUS(c, pn_beliefs_fuse(c, &b, &r.fused), PN_OK);
  CHECK(r.fused.count == 0 && r.mean[1] == 0 && r.scale[1] == 1);
  CHECK(pn_beliefs_fuse(NULL, &good, into(&r)) == PN_STATE);
}

static bool work(pn_context *c, const void *data) {
  const double mean[] = {0.4, -0.3}, scale[] = {0.5, 0.6};
  pn_beliefs b = {.sources = 2, .size = 1, .mean = mean, .scale = scale, .threshold = 1};
  results r;
  (void)data;
  return pn_beliefs_fuse(c, &b, into(&r)) == PN_OK;
}

/* KL(n || m) of two beliefs of D numbers, m < 0: of the prior. */
static double divergence(const double *mean, const double *scale, int size, int n, int m) {
  double kl = 0;
  for (int i = 0; i < size; i++) {
    double s = scale[n * size + i], t = m < 0 ? 1 : scale[m * size + i];
    double d = mean[n * size + i] - (m < 0 ? 0 : mean[m * size + i]);
    kl += log(t / s) + (s * s + d * d) / (2 * t * t) - 0.5;
  }
  return kl;
}

/* As many sources as there may be, and fewer: conflicts are divergences over what the source says of the prior. */
static void conflicting(pn_context *c) {
  enum { SIZE = 3 };
  for (int sources = 1; sources <= 16; sources += 5) {
    double mean[16 * SIZE], scale[16 * SIZE];
    results r;
    for (int i = 0; i < sources * SIZE; i++) mean[i] = sin(1.7 * i), scale[i] = 0.3 + 0.25 * (1 + cos(2.3 * i));
    pn_beliefs b = {.sources = sources, .size = SIZE, .mean = mean, .scale = scale};
    CHECK_STATUS(c, pn_beliefs_fuse(c, &b, into(&r)), PN_OK);
    CHECK_INT(r.fused.count, sources);
    for (int m = 0; m < sources; m++)
      for (int n = 0; n < sources; n++)
        CHECK_NEAR(r.conflicts[m * sources + n],
                   m == n ? 0 : divergence(mean, scale, SIZE, n, m) / divergence(mean, scale, SIZE, n, -1), 1e-12);
  }
}

/* A thousand calls make not one request to the allocator. */
static void allocates_nothing(void) {
  sweep_memory m = {0};
  pn_context *c = pn_context_new(
      &(pn_context_config){.allocate = sweep_allocate, .allocator_data = &m, .pool_limit = PN_NO_POOL, .threads = 1});
  m.requests = 0;
  for (int k = 0; k < 1000; k++) CHECK(work(c, NULL));
  CHECK_INT(m.requests, 0);
  pn_context_close(c);
}

int main(void) {
  pn_context *c = pn_context_new(&(pn_context_config){.seed = 1, .threads = 1});
  two_sensors(c);
  against_factors(c);
  rule(c);
  chooses_as_by_all_subsets(c);
  conflicting(c);
  says_nothing(c);
  small_scales(c);
  refusals(c);
  pn_context_close(c);
  allocates_nothing();
  CHECK_DONE();
}
