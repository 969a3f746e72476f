/*
** belief_fusion.c: one belief out of those of several sources, each an independent normal for every number, for hosts
** that do it in a loop: on their arrays, without memory of its own. What it computes is said by penumbra.h:
**   precision_i = sum_m s_mi^-2 - (M - 1) s_0i^-2,   mean_i = (sum_m m_mi s_mi^-2 - (M - 1) m_0i s_0i^-2) / precision_i
** over the M sources that are kept. Kurle, Guennemann & van der Smagt 2019, appendix C.
*/
#include <math.h>
#include "../../base/context.h"

enum { MOST = 16 }; /* sources: all of their subsets may be gone through */

/* Divergences from the prior up to this are the rounding of a belief that is the prior. */
static const double nothing = 1e-12;

static double prior_mean(const pn_beliefs *b, int i) { return b->prior_mean ? b->prior_mean[i] : 0; }
static double prior_scale(const pn_beliefs *b, int i) { return b->prior_scale ? b->prior_scale[i] : 1; }
static bool there(const pn_beliefs *b, int m) { return !b->present || b->present[m]; }

/* log r - (1 - 1 / r^2 - d^2) / 2 = KL of a normal from another one with r times its scale, d of those apart. */
static double divergence(double mean, double scale, double other_mean, double other_scale) {
  double r = scale / other_scale, d = (mean - other_mean) / other_scale;
  return 0.5 * (r * r + d * d - 1) - log(r);
}

/* KL(n || m) of two sources, of n and the prior where m < 0. */
static double apart(const pn_beliefs *b, int n, int m) {
  const double *mean = b->mean + (size_t)n * (size_t)b->size, *scale = b->scale + (size_t)n * (size_t)b->size;
  double total = 0;
  for (int i = 0; i < b->size; i++) {
    size_t at = m < 0 ? 0 : (size_t)m * (size_t)b->size + (size_t)i;
    total += m < 0 ? divergence(mean[i], scale[i], prior_mean(b, i), prior_scale(b, i))
                   : divergence(mean[i], scale[i], b->mean[at], b->scale[at]);
  }
  return total;
}

static bool finite_and(double v, bool good) { return isfinite(v) && good; }

static pn_status check_source(pn_context *c, const pn_beliefs *b, int m) {
  const double *mean = b->mean + (size_t)m * (size_t)b->size, *scale = b->scale + (size_t)m * (size_t)b->size;
  for (int i = 0; i < b->size; i++) {
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
  for (int i = 0; i < b->size; i++)
    if (!finite_and(prior_scale(b, i), prior_scale(b, i) > 0) || !isfinite(prior_mean(b, i)))
      return pni_fail(c, PN_DOMAIN, "beliefs_fuse: the prior must have finite means and positive scales");
  for (int m = 0; m < b->sources; m++)
    if (there(b, m) && check_source(c, b, m)) return c->status;
  return PN_OK;
}

/* Natural parameters of number i of the product over the sources of a set. */
static void natural_of(const pn_beliefs *b, unsigned set, int i, double *eta, double *precision) {
  double p0 = 1 / (prior_scale(b, i) * prior_scale(b, i)), all = p0, sum = p0 * prior_mean(b, i);
  for (int m = 0; m < b->sources; m++) {
    if (!(set >> m & 1u)) continue;
    size_t at = (size_t)m * (size_t)b->size + (size_t)i;
    double p = 1 / (b->scale[at] * b->scale[at]);
    all += p - p0;
    sum += p * b->mean[at] - p0 * prior_mean(b, i);
  }
  *eta = sum, *precision = all;
}

/* The logarithm of the integral of e^(eta z - precision z^2 / 2), without log(2 pi) / 2. */
static double log_normaliser(double eta, double precision) { return 0.5 * (eta * eta / precision - log(precision)); }

/* Point-wise mutual information of a set; -inf where there is no product. */
static double information(const pn_beliefs *b, unsigned set) {
  double total = 0;
  for (int i = 0; i < b->size; i++) {
    double eta, precision, first, from;
    natural_of(b, 0, i, &eta, &precision);
    from = log_normaliser(eta, precision);
    natural_of(b, set, i, &eta, &precision);
    if (!(precision > 0)) return -INFINITY;
    total += log_normaliser(eta, precision) - from;
    for (int m = 0; m < b->sources; m++) {
      if (!(set >> m & 1u)) continue;
      natural_of(b, 1u << m, i, &eta, &first);
      total -= log_normaliser(eta, first) - from;
    }
  }
  return total;
}

static int count(unsigned set) {
  int n = 0;
  for (; set; set &= set - 1) n++;
  return n;
}

/* Bit n of bad[m]: m and n are in conflict in both directions. */
static void conflicts(const pn_beliefs *b, const pn_fused *f, unsigned *bad) {
  double moved[MOST], c[MOST][MOST];
  for (int n = 0; n < b->sources; n++) moved[n] = there(b, n) ? apart(b, n, -1) : 0;
  for (int m = 0; m < b->sources; m++)
    for (int n = 0; n < b->sources; n++)
      c[m][n] = m != n && there(b, m) && moved[n] > nothing ? apart(b, n, m) / moved[n] : 0;
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

/* The largest set of those that are there without a conflict, of equal ones that with the largest information. */
static unsigned best(const pn_beliefs *b, unsigned all, const unsigned *bad) {
  unsigned found = 0;
  double value = 0;
  int size = 0;
  if (agrees(all, bad)) return all;
  for (unsigned set = (all - 1) & all; set; set = (set - 1) & all) {
    int n = count(set);
    if (n < size || !agrees(set, bad)) continue;
    double v = n > 1 ? information(b, set) : 0;
    if (n > size || v > value || (v == value && set < found)) found = set, value = v, size = n;
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
