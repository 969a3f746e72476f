/* Special functions of real arguments: pure, reentrant, no allocation, no errno contract.
 *
 * Everywhere: NaN in gives NaN out; an argument outside the domain gives NaN; infinities and poles give
 * the limit where there is one. Each definition's comment states formula, source, edges and the worst
 * relative error seen on a dense random sweep against 50-digit arithmetic (spec/golden/math). */
#ifndef PN_MATH_SPECIAL_H
#define PN_MATH_SPECIAL_H

/* special.c: logarithms and exponentials without cancellation */
double pni_log1mexp(double x);            /* log(1 - e^x), x <= 0 */
double pni_log1pexp(double x);            /* log(1 + e^x), the softplus */
double pni_logexpm1(double y);            /* log(e^y - 1), y >= 0, inverse of the softplus */
double pni_logaddexp(double a, double b); /* log(e^a + e^b) */
double pni_sigmoid(double x);             /* 1 / (1 + e^-x) */
double pni_logit(double p);               /* log(p / (1 - p)) */
double pni_log_sigmoid(double x);         /* -log(1 + e^-x) */
double pni_xlogy(double x, double y);     /* x log y, 0 at x = 0 */
double pni_xlog1py(double x, double y);   /* x log(1 + y), 0 at x = 0 */
double pni_log1p_gap(double x);           /* x - log(1 + x) >= 0, x >= -1 */

/* special_erf.c: error function and normal distribution */
double pni_erf(double x);
double pni_erfc(double x);
double pni_erfcx(double x);              /* e^(x^2) erfc(x) */
double pni_erfcx_slope(int n, double x); /* its n-th derivative, n >= 0 */
double pni_erfinv(double y);             /* -1 <= y <= 1 */
double pni_erfcinv(double y);            /* 0 <= y <= 2 */
double pni_ndtr(double x);               /* normal distribution function */
double pni_log_ndtr(double x);           /* its logarithm */
double pni_ndtri(double p);              /* normal quantile, 0 <= p <= 1 */
double pni_log_ndtri(double y);          /* x with log Phi(x) = y, y <= 0 */

/* special_gamma.c: the gamma function and its logarithmic derivatives */
double pni_lgamma(double x);                /* log|Gamma(x)| */
double pni_lgamma1p(double a);              /* log Gamma(1 + a), a > -1/2, relative accuracy at 0 */
double pni_stirling_error(double z);        /* log Gamma(z) - [(z-1/2) log z - z + log(2 pi)/2], z > 0 */
double pni_stirling_slope(int n, double z); /* its n-th derivative, n >= 0 */
double pni_digamma(double x);
double pni_trigamma(double x);
double pni_polygamma(int n, double x); /* d^n/dx^n digamma(x), n >= 0 */
double pni_lbeta(double a, double b);  /* log B(a, b), a, b >= 0 */

/* special_count.c: parts of the masses of counts */
double pni_count_deviance(double k, double m);     /* k log(k/m) + m - k, k, m >= 0 */
double pni_count_deviance_log(double k, double l); /* the same of l = log m */
double pni_count_excess(double k);                 /* log k! - (k log k - k), k >= 0 */
extern const double pni_count_excess_whole[16];    /* of 0 .. 15 */
/* log densities by them, of Gamma(a, 1) and of Beta(a, b) */
double pni_log_gamma_density(double a, double x);
double pni_log_beta_density(double a, double b, double x);

/* special_incgamma.c: regularised incomplete gamma functions, a >= 0, x >= 0 */
double pni_gammainc(double a, double x);        /* P(a, x), lower */
double pni_gammaincc(double a, double x);       /* Q(a, x) = 1 - P(a, x), upper */
double pni_gammainc_grad_a(double a, double x); /* dP(a, x)/da */
double pni_gammaincinv(double a, double p);     /* x with P(a, x) = p */
double pni_gammainccinv(double a, double q);    /* x with Q(a, x) = q */

/* special_implicit.c: derivatives of random variables in their parameters */
double pni_log_gamma_slope(double a, double z); /* dz/da at fixed P(a, e^z) */

/* special_incbeta.c: regularised incomplete beta function, a > 0, b > 0, 0 <= x <= 1 */
double pni_betainc(double a, double b, double x);    /* I_x(a, b) */
double pni_betaincc(double a, double b, double x);   /* 1 - I_x(a, b) */
double pni_betaincinv(double a, double b, double p); /* x with I_x(a, b) = p */
/* slope[0] = dI_x(a, b)/da, slope[1] = dI_x(a, b)/db */
void pni_betainc_slopes(double a, double b, double x, double slope[2]);

/* special_bessel.c: modified Bessel functions */
double pni_ive(int n, double x);              /* e^-|x| I_n(x), n >= 0 */
double pni_ive_slope(int k, int n, double x); /* its k-th derivative, k >= 0; that of I_n at 0 */
double pni_log_i0(double x);                  /* log I_0(x) */
double pni_log_i0e(double x);                 /* log(e^-x I_0(x)), x >= 0 */
double pni_bessel_ratio(double x);            /* I_1(x) / I_0(x) */
double pni_bessel_gap(int k, double x);       /* k-th derivative of 1 - I_1(x) / I_0(x), x >= 0, k <= 3 */
/* von Mises with concentration x around 0, angles -pi <= z <= pi */
double pni_von_mises_cdf(double x, double z);
double pni_von_mises_icdf(double x, double p);
double pni_von_mises_slope(double x, double z); /* dz/dx at fixed cdf */
/* log probability of angles from a up to b <= a + 2 pi, and its derivative in x */
void pni_von_mises_log_mass(double x, double a, double b, double out[2]);

/* special_divergence.c: of two events of probability q and p, and what it allows */
double pni_bernoulli_kl(double q, double p);
double pni_bernoulli_kl_inverse(int which, double x, double c); /* which = 0 .. 3 */

/* special_expint.c */
double pni_expintx(double x);            /* e^x E_1(x), x >= 0 */
double pni_expint_tail(int n, double x); /* e^x Gamma(1 - n, x), n >= 1 */

#endif
