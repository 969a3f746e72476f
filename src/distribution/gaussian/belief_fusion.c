/*
** belief_fusion.c: one belief out of those of several sources, each an independent normal for every number, for hosts
** that do it in a loop: on their arrays, without memory of its own. What it computes is said by penumbra.h:
**   precision_i = sum_m s_mi^-2 - (M - 1) s_0i^-2,   mean_i = (sum_m m_mi s_mi^-2 - (M - 1) m_0i s_0i^-2) / precision_i
** over the M sources that are kept. Kurle, Guennemann & van der Smagt 2019, appendix C.
*/
#include <float.h>
#include <math.h>
#include "../../base/context.h"

enum { MOST = 16 }; /* sources: all of their subsets may be gone through */

/* Twice divergences from the prior up to this are the rounding of a belief that is the prior. */
static const double nothing = 2e-12;

static double prior_mean(const pn_beliefs *b, int i) { return b->prior_mean ? b->prior_mean[i] : 0; }
static double prior_scale(const pn_beliefs *b, int i) { return b->prior_scale ? b->prior_scale[i] : 1; }
static bool there(const pn_beliefs *b, int m) { return !b->present || b->present[m]; }

static bool finite_and(double v, bool good) { return isfinite(v) && good; }

static pn_status check_source(pn_context *c, const pn_beliefs *b, int m) {
  const double *mean = b->mean + (size_t)m * (size_t)b->size, *scale = b->scale + (size_t)m * (size_t)b->size;
  bool good = true;
  for (int i = 0; i < b->size; i++) good &= (fabs(mean[i]) <= DBL_MAX) & (scale[i] > 0) & (scale[i] <= DBL_MAX);
  for (int i = 0; i < b->size && !good; i++) {
    if (!isfinite(mean[i]))
      return pni_fail(c, PN_DOMAIN, "beliefs_fuse: mean of source %d must be finite, got %g", m, mean[i]);
    if (!finite_and(scale[i], scale[i] > 0))
      return pni_fail(c, PN_DOMAIN, "beliefs_fuse: scale of source %d must be positive, got %g", m, scale[i]);
  }
  return PN_OK;
}

static pn_status check(pn_context *c, const pn_beliefs *b, const pn_fused *f) {
  if (!b || !f) return pni_fail(c, PN_STATE, "beliefs_fuse: beliefs and fused must not be NULL");
  if (b->sources < 0 || b->sources > MOST)
    return pni_fail(c, PN_DOMAIN, "beliefs_fuse: sources must lie in 0 to %d, got %d", (int)MOST, b->sources);
  if (b->size < 1) return pni_fail(c, PN_DOMAIN, "beliefs_fuse: size must be at least 1, got %d", b->size);
  if (!f->mean || !f->scale || (b->sources && (!b->mean || !b->scale || !f->kept)))
    return pni_fail(c, PN_STATE, "beliefs_fuse: mean, scale and kept must not be NULL");
  if (!(b->threshold >= 0))
    return pni_fail(c, PN_DOMAIN, "beliefs_fuse: threshold must not be negative, got %g", b->threshold);
  for (int i = 0; i < b->size && (b->prior_mean || b->prior_scale); i++)
    if (!finite_and(prior_scale(b, i), prior_scale(b, i) > 0) || !isfinite(prior_mean(b, i)))
      return pni_fail(c, PN_DOMAIN, "beliefs_fuse: the prior must have finite means and positive scales");
  for (int m = 0; m < b->sources; m++)
    if (there(b, m) && check_source(c, b, m)) return c->status;
  return PN_OK;
}

/* Natural parameters of number i of the product over the sources of a set: with the prior's for each but one out. */
static void natural_of(const pn_beliefs *b, unsigned set, int i, double *eta, double *precision) {
  double s0 = prior_scale(b, i), p0 = 1 / (s0 * s0), all = 0, sum = 0, surplus = -1;
  for (int m = 0; m < b->sources; m++) {
    if (!(set >> m & 1u)) continue;
    size_t at = (size_t)m * (size_t)b->size + (size_t)i;
    double p = 1 / (b->scale[at] * b->scale[at]);
    all += p;
    sum += p * b->mean[at];
    surplus += 1;
  }
  *eta = sum - surplus * p0 * prior_mean(b, i), *precision = all - surplus * p0;
}

/* Twice the logarithm of the integral of e^(eta z - precision z^2 / 2), without log(2 pi). */
static double log_normaliser(double eta, double precision) { return eta * eta / precision - log(precision); }

/* Twice the point-wise mutual information of a set, but for what sets of one size share; -inf: there is no product. */
static double information(const pn_beliefs *b, unsigned set) {
  double total = 0;
  for (int i = 0; i < b->size; i++) {
    double eta, precision;
    natural_of(b, set, i, &eta, &precision);
    if (!(precision > 0)) return -INFINITY;
    total += log_normaliser(eta, precision);
    for (int m = 0; m < b->sources; m++) {
      if (!(set >> m & 1u)) continue;
      natural_of(b, 1u << m, i, &eta, &precision);
      total -= log_normaliser(eta, precision);
    }
  }
  return total;
}

static int count(unsigned set) {
  int n = 0;
  for (; set; set &= set - 1) n++;
  return n;
}

/* A sum of logarithms: of a product as long as it stays far from what a double can hold. */
typedef struct {
  double sum, product;
} logs_of;

static void add_log(logs_of *l, double s) {
  bool fits = s > 1e-100 && s < 1e100;
  double next = fits ? l->product * s : l->product;
  if (!fits) l->sum += log(s);
  if (next < 1e-150 || next > 1e150) l->sum += log(next), next = 1;
  l->product = next;
}

static double log_sum(const logs_of *l) { return l->sum + log(l->product); }

/* 2 KL(n || m) into twice[m][n] and 2 KL(n || prior) into moved[n], number by number:
 *   sum_i (s_n^2 + (m_n - m_m)^2) / s_m^2 - 1 + 2 log s_m - 2 log s_n */
static void divergences(const pn_beliefs *b, double (*twice)[MOST], double *moved) {
  int sources = b->sources;
  logs_of logs[MOST], of_prior = {0, 1};
  for (int m = 0; m < sources; m++) {
    moved[m] = 0, logs[m] = (logs_of){0, 1};
    for (int n = 0; n < sources; n++) twice[m][n] = 0;
  }
  for (int i = 0; i < b->size; i++) {
    double mean[MOST], variance[MOST];
    double m0 = prior_mean(b, i), s0 = prior_scale(b, i), p0 = 1 / (s0 * s0);
    if (b->prior_scale) add_log(&of_prior, s0);
    for (int m = 0; m < sources; m++) {
      size_t at = (size_t)m * (size_t)b->size + (size_t)i;
      bool here = there(b, m); /* what a silent one says may be anything */
      double s = here ? b->scale[at] : s0, d;
      mean[m] = here ? b->mean[at] : m0;
      variance[m] = s * s, d = mean[m] - m0;
      add_log(&logs[m], s);
      moved[m] += (variance[m] + d * d) * p0;
    }
    for (int m = 0; m < sources; m++) {
      double precision = 1 / variance[m];
      for (int n = 0; n < sources; n++) {
        double d = mean[n] - mean[m];
        twice[m][n] += (variance[n] + d * d) * precision;
      }
    }
  }
  double own[MOST], log0 = log_sum(&of_prior);
  for (int m = 0; m < sources; m++) own[m] = log_sum(&logs[m]);
  for (int m = 0; m < sources; m++) {
    moved[m] += 2 * (log0 - own[m]) - b->size;
    for (int n = 0; n < sources; n++) twice[m][n] += 2 * (own[m] - own[n]) - b->size;
  }
}

/* Bit n of bad[m]: m and n are in conflict in both directions. */
static void conflicts(const pn_beliefs *b, const pn_fused *f, unsigned *bad) {
  double moved[MOST], c[MOST][MOST];
  divergences(b, c, moved);
  for (int m = 0; m < b->sources; m++)
    for (int n = 0; n < b->sources; n++) {
      bool both = m != n && there(b, m) && there(b, n) && moved[n] > nothing;
      c[m][n] = both ? c[m][n] / moved[n] : 0;
    }
  for (int m = 0; m < b->sources; m++) {
    bad[m] = 0;
    for (int n = 0; n < b->sources; n++) {
      if (f->conflicts) f->conflicts[(size_t)m * (size_t)b->sources + (size_t)n] = c[m][n];
      if (b->threshold > 0 && fmin(c[m][n], c[n][m]) > b->threshold) bad[m] |= 1u << n;
    }
  }
}

static bool agrees(unsigned set, const unsigned *bad) {
  for (int m = 0; m < MOST && set >> m; m++)
    if (set >> m & 1u && bad[m] & set) return false;
  return true;
}

/* The largest set of those that are there without a conflict, of equal ones that with the largest information, of
 * these the smallest as a number, which comes last. */
static unsigned best(const pn_beliefs *b, unsigned all, const unsigned *bad) {
  unsigned found = 0;
  double value = 0;
  int size = 0;
  if (agrees(all, bad)) return all;
  for (unsigned set = (all - 1) & all; set; set = (set - 1) & all) {
    int n = count(set);
    if (n < size || !agrees(set, bad)) continue;
    double v = n > 1 ? information(b, set) : 0;
    if (n > size || v >= value) found = set, value = v, size = n;
  }
  return found;
}

static pn_status product(pn_context *c, const pn_beliefs *b, unsigned set, pn_fused *f) {
  for (int i = 0; i < b->size; i++) {
    double eta, precision;
    natural_of(b, set, i, &eta, &precision);
    if (!(precision > 0)) {
      int weakest = 0;
      double least = INFINITY;
      for (int m = 0; m < b->sources; m++) {
        double s = b->scale[(size_t)m * (size_t)b->size + (size_t)i];
        if (set >> m & 1u && 1 / (s * s) < least) least = 1 / (s * s), weakest = m;
      }
      return pni_fail(c, PN_DOMAIN,
                      "beliefs_fuse: the product's precision must be positive, got %g: source %d knows less than the "
                      "prior",
                      precision, weakest);
    }
    f->mean[i] = eta / precision;
    f->scale[i] = 1 / sqrt(precision);
  }
  return PN_OK;
}

pn_status pn_beliefs_fuse(pn_context *c, const pn_beliefs *b, pn_fused *f) {
  if (!c) return PN_STATE;
  if (pni_failed(c)) return c->status;
  if (check(c, b, f)) return c->status;
  unsigned all = 0, bad[MOST] = {0};
  for (int m = 0; m < b->sources; m++) all |= there(b, m) ? 1u << m : 0;
  if (b->sources && (f->conflicts || b->threshold > 0)) conflicts(b, f, bad);
  unsigned set = best(b, all, bad);
  f->undecided = count(all) > 1 && count(set) == 1; /* no two agree: none is left out */
  if (f->undecided) set = all;
  f->count = count(set);
  for (int m = 0; m < b->sources; m++) f->kept[m] = set >> m & 1u;
  return product(c, b, set, f);
}
