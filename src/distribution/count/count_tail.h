/*
** count_tail.h: logarithms of the two shares of the mass that a number x divides, P(X <= x) and P(X > x). Each kind
** computes both shares of the whole number below x; the smaller one keeps its digits down to where it underflows, from
** there on the logarithm is -inf, unless the kind has a logarithm of its own. Private to files of formulas.
*/
#ifndef PN_DISTRIBUTION_COUNT_COUNT_TAIL_H
#define PN_DISTRIBUTION_COUNT_COUNT_TAIL_H

#include "../formula.h"

/* x below 0, or inf: there the shares are 0 and 1 */
static inline T *before_all(C *c, T *x) { return below(c, x, 0); }
static inline T *after_all(C *c, T *x) { return equals(c, x, INFINITY); }

/* The whole number below x, 0 before and after all */
static inline T *whole_below(C *c, T *x) {
  return pn_floor(c, but(c, pn_logical_or(c, before_all(c, x), after_all(c, x)), 0, x));
}

/* A logarithm with the ends put right. */
static inline T *log_ends(C *c, T *x, T *value, bool upper) {
  value = but(c, before_all(c, x), upper ? 0 : -INFINITY, value);
  return but(c, after_all(c, x), upper ? -INFINITY : 0, value);
}
/* The log of `mine` with the ends put right. */
static inline T *log_tail(C *c, T *x, T *mine, T *other, bool upper) {
  return log_ends(c, x, log_share(c, mine, other), upper);
}

/* log_cdf and log_survival of a kind with log_part(c, d, k, upper), which holds where shares underflow */
#define LOG_PARTS                                                                                                      \
  static T *log_cdf(C *c, D *d, T *x) { return log_ends(c, x, log_part(c, d, whole_below(c, x), false), false); }      \
  static T *log_survival(C *c, D *d, T *x) { return log_ends(c, x, log_part(c, d, whole_below(c, x), true), true); }

/* log_cdf and log_survival of a kind with lower(c, d, k) and upper(c, d, k) */
#define LOG_TAILS                                                                                                      \
  static T *log_cdf(C *c, D *d, T *x) {                                                                                \
    T *k = whole_below(c, x);                                                                                          \
    return log_tail(c, x, lower(c, d, k), upper(c, d, k), false);                                                      \
  }                                                                                                                    \
  static T *log_survival(C *c, D *d, T *x) {                                                                           \
    T *k = whole_below(c, x);                                                                                          \
    return log_tail(c, x, upper(c, d, k), lower(c, d, k), true);                                                       \
  }

/* cdf of a kind with lower(c, d, k) */
#define STEPS                                                                                                          \
  static T *cdf(C *c, D *d, T *x) {                                                                                    \
    return but(c, before_all(c, x), 0, but(c, after_all(c, x), 1, lower(c, d, whole_below(c, x))));                    \
  }

#endif
