"""Divergences of a normal posterior N(m, s^2) from priors of weights: reference values of weight_priors.lua.

log-uniform: E log|t + e| - E log|e| by mpmath quadrature, t = |m| / s, e standard normal, the singularity at -t being a
break point. Horseshoe of scale r: E_q log q(w) - E_q log p(w), p by its density with an exponential integral (the exact
divergence of the marginal, below the hierarchy's), and the least divergence of q(w) q(v) q(a) from p(w | v) p(v | a)
p(a), inverse gammas found by coordinate ascent on numbers that quadrature gives, not by the closed form.

    python weight_priors.py > weight_priors.lua
"""
from mpmath import mp, mpf, quad, log, exp, sqrt, pi, inf, e1, npdf, gamma, digamma, loggamma, euler

mp.dps = 30


def log_uniform(m, s):
    t = abs(mpf(m)) / mpf(s)
    points = sorted([-inf, -t - 8, -t - 1, -t, -t + 1, -t + 8, mpf(0), mpf(8), inf])
    mean = quad(lambda e: npdf(e) * (log(abs(t + e)) if t + e != 0 else mpf(0)), points)
    return mean + (euler + log(2)) / 2


def inverse_gamma_mean(f, c, b):
    """E f(v), v ~ inverse_gamma(c, b), by quadrature over log v."""
    def each(u):
        return f(exp(u)) * exp(c * log(b) - loggamma(c) - c * u - b * exp(-u))
    centre = log(b)
    return quad(each, [centre + k for k in (-8, -4, -2, -1, 0, 1, 2, 4, 8, 16, 32, 64, 130)])


def horseshoe_joint(m, s, r):
    m, s, r = mpf(m), mpf(s), mpf(r)
    e, t = m ** 2 + s ** 2, 1 / r ** 2
    a, b = mpf(1), mpf(1)
    for _ in range(4000):
        b_new = 1 / a + e / 2  # E 1/a = 1 / A for concentration 1
        a_new = t + 1 / b_new
        done = abs(a_new - a) + abs(b_new - b) < mpf(10) ** -28
        a, b = a_new, b_new
        if done:
            break
    one = mpf(1)

    def log_ig(x, c, d):
        return c * log(d) - loggamma(c) - (c + 1) * log(x) - d / x
    ea = lambda f: inverse_gamma_mean(f, one, a)
    ev = lambda f: inverse_gamma_mean(f, one, b)
    mean_inverse_a, mean_log_a = ea(lambda x: 1 / x), ea(log)
    mean_inverse_v, mean_log_v = ev(lambda x: 1 / x), ev(log)
    q_a, q_v = ea(lambda x: log_ig(x, one, a)), ev(lambda x: log_ig(x, one, b))
    q_w = -log(2 * pi * s ** 2) / 2 - mpf(1) / 2
    p_w = -log(2 * pi) / 2 - mean_log_v / 2 - e * mean_inverse_v / 2
    half = mpf(1) / 2
    p_v = -half * mean_log_a - loggamma(half) - (half + 1) * mean_log_v - mean_inverse_a * mean_inverse_v
    p_a = half * log(t) - loggamma(half) - (half + 1) * mean_log_a - t * mean_inverse_a
    return q_w + q_v + q_a - p_w - p_v - p_a


def horseshoe_marginal(m, s, r):
    m, s, r = mpf(m), mpf(s), mpf(r)

    def log_p(w):
        u = (w / r) ** 2 / 2
        return log(exp(u) * e1(u)) - log(r) - log(2 * pi ** 3) / 2 if u < 500 else \
            log((1 - 1 / u + 2 / u ** 2 - 6 / u ** 3 + 24 / u ** 4 - 120 / u ** 5) / u) - log(r) - log(2 * pi ** 3) / 2
    points = sorted(set([m + k * s for k in (-14, -6, -3, -1, 0, 1, 3, 6, 14)] + [mpf(0)]))
    cross = quad(lambda w: npdf(w, m, s) * (log_p(w) if w != 0 else 0), points)
    return -log(2 * pi * s ** 2) / 2 - mpf(1) / 2 - cross


print("-- By weight_priors.py: mean, scale [, scale of the prior], values.")
print("return {\n  log_uniform = {")
for m, s in ((0, 1), (0.5, 1), (-1.3, 0.4), (2, 0.1), (0.01, 3), (5, 0.001), (40, 1e-5)):
    print("    { %r, %r, %s }," % (m, s, mp.nstr(log_uniform(m, s), 17)))
print("  },\n  horseshoe = { -- of the hierarchy, of the marginal")
for m, s, r in ((0, 1, 1), (0.5, 1, 1), (-1.3, 0.4, 0.3), (2, 0.1, 1), (0.01, 0.3, 2), (30, 0.5, 0.1)):
    print("    { %r, %r, %r, %s, %s }," % (m, s, r, mp.nstr(horseshoe_joint(m, s, r), 17),
                                           mp.nstr(horseshoe_marginal(m, s, r), 17)))
print("  },\n}")
