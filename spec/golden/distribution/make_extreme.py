"""Values and slopes at the ends of what doubles can say: spec/golden/distribution/extreme.lua, from nothing but formulas in mpmath
at 400 digits, slopes by central differences there.

Run: python3 make_extreme.py   (needs mpmath; writes beside itself)
"""
import inspect
import os
from mpmath import mp, mpf, exp, log, log1p, expm1, sqrt, pi, erf, erfc
from make import lua

mp.dps = 400
entries = []
TAILS = ["log_cdf", "log_survival"]


def phi(z):
    return exp(-z * z / 2) / sqrt(2 * pi)


def between(u, v):
    """Mass of the standard normal between u and v."""
    t = lambda z: erfc(z / sqrt(mpf(2))) / 2
    return t(u) - t(v) if u > 0 else t(-v) - t(-u)


def shares(lower, upper):
    """Functions of x from both shares of the mass."""
    return dict(cdf=lower, log_cdf=lambda x: log(lower(x)), log_survival=lambda x: log(upper(x)))


def half_normal(scale):
    return shares(lambda x: erf(x / scale / sqrt(mpf(2))), lambda x: erfc(x / scale / sqrt(mpf(2))))


def gumbel(loc, scale):
    rise = lambda x: exp(-(x - loc) / scale)
    return shares(lambda x: exp(-rise(x)), lambda x: -expm1(-rise(x)))


def bernoulli(probs=None, logits=None):
    p = probs if probs is not None else 1 / (1 + exp(-logits))
    return shares(lambda x: 1 - p, lambda x: p)


def continuous_bernoulli(probs=None, logits=None):
    l = logits if logits is not None else log(probs / (1 - probs))
    return dict(icdf=lambda p: log1p(p * expm1(l)) / l,
                **shares(lambda x: expm1(l * x) / expm1(l), lambda x: expm1(-l * (1 - x)) / expm1(-l)))


def log_uniform(low, high):
    w = log(high / low)
    return dict(mean=(high - low) / w, variance=(high ** 2 - low ** 2) / (2 * w) - ((high - low) / w) ** 2)


def weibull(scale, concentration):
    m = lambda n: mp.gamma(1 + n / concentration)
    return dict(mean=scale * m(1), variance=scale ** 2 * (m(2) - m(1) ** 2))


def kumaraswamy(concentration1, concentration0):
    a, b = concentration1, concentration0
    return dict(log_prob=lambda x: log(a * b) + (a - 1) * log(x) + (b - 1) * log1p(-x ** a))


def truncated_normal(loc, scale, low, high):
    a, b = (low - loc) / scale, (high - loc) / scale
    mass = between(a, b)
    shift = (phi(a) - phi(b)) / mass
    second = 1 + (a * phi(a) - b * phi(b)) / mass
    z = lambda x: (x - loc) / scale
    return dict(log_prob=lambda x: log(phi(z(x)) / scale / mass), mean=loc + scale * shift,
                variance=scale ** 2 * (second - shift ** 2), entropy=log(sqrt(2 * pi) * scale * mass) + second / 2,
                **shares(lambda x: between(a, z(x)) / mass, lambda x: between(z(x), b) / mass))


def series(ratio):
    """sum of 1 + t_1 + t_1 t_2 + ..., t_n = ratio(n)"""
    total, term, n = mpf(1), mpf(1), 0
    while term > mpf(10) ** -mp.dps * total:
        n += 1
        term *= ratio(n)
        total += term
    return total


def gamma_shares(a, x):
    """P(a, x) and Q(a, x)"""
    p = exp(a * log(x) - x - mp.loggamma(a + 1)) * series(lambda n: x / (a + n))
    return p, 1 - p


def beta_shares(a, b, x):
    """I_x(a, b) and what is left"""
    if x > 0.5:
        return beta_shares(b, a, 1 - x)[::-1]
    norm = mp.loggamma(a + b) - mp.loggamma(a + 1) - mp.loggamma(b)
    p = exp(norm + a * log(x) + b * log1p(-x)) * series(lambda n: (a + b + n - 1) * x / (a + n))
    return p, 1 - p


def logs(lower, upper):
    both = shares(lower, upper)
    return {k: both[k] for k in TAILS}


def beta(concentration1, concentration0):
    a, b = concentration1, concentration0
    f = lambda x: beta_shares(a, b, x)
    norm = mp.loggamma(a) + mp.loggamma(b) - mp.loggamma(a + b)
    return dict(**logs(lambda x: f(x)[0], lambda x: f(x)[1]), log_prob=lambda x: (a - 1) * log(x) + (b - 1) * log1p(-x) - norm)


def poisson(rate):
    f = lambda x: gamma_shares(x + 1, rate)
    return logs(lambda x: f(x)[1], lambda x: f(x)[0])


def zero_inflated_poisson(gate, rate):
    none = gate + (1 - gate) * exp(-rate)
    mass = lambda k: (1 - gate) * exp(k * log(rate) - rate - mp.loggamma(k + 1))
    share = lambda x: gamma_shares(x + 1, rate)
    # terms below 1e-30 are left out
    some = lambda: mp.fsum(-m * log(m) for m in map(mass, range(1, int(rate + 40 * rate ** 0.5 + 40))) if m)
    return dict(log_prob=lambda x: log(none) if x == 0 else log(mass(x)), entropy=lambda x: some() - none * log(none),
                **logs(lambda x: gate + (1 - gate) * share(x)[1], lambda x: (1 - gate) * share(x)[0]))


def negative_binomial(total_count, probs):
    f = lambda x: beta_shares(x + 1, total_count, probs)
    return logs(lambda x: f(x)[1], lambda x: f(x)[0])


def gamma_poisson(concentration, rate):
    return negative_binomial(concentration, 1 / (1 + rate))


def binomial(total_count, probs):
    f = lambda x: beta_shares(x + 1, total_count - x, probs)
    return logs(lambda x: f(x)[1], lambda x: f(x)[0])


def low_rank_multivariate_normal(loc, cov_factor, cov_diag):
    """of two numbers and one factor, by the inverse of a 2 by 2 matrix"""
    (w,), (v,) = cov_factor
    a, b, k = w * w + cov_diag[0], v * v + cov_diag[1], w * v
    det = w * w * cov_diag[1] + v * v * cov_diag[0] + cov_diag[0] * cov_diag[1]

    def log_prob(x):
        y, z = x[0] - loc[0], x[1] - loc[1]
        return -(b * y * y - 2 * k * y * z + a * z * z) / det / 2 - log(det) / 2 - log(2 * pi)
    return dict(log_prob=log_prob)


def gamma(concentration, rate):
    a, b = concentration, rate
    return dict(**logs(lambda x: gamma_shares(a, b * x)[0], lambda x: gamma_shares(a, b * x)[1]), log_prob=lambda x: a * log(b) + (a - 1) * log(x) - b * x - mp.loggamma(a))


def inverse_gamma(concentration, rate):
    g = gamma(concentration, rate)
    return dict(log_prob=lambda x: g["log_prob"](1 / x) - 2 * log(x), log_cdf=lambda x: g["log_survival"](1 / x),
                log_survival=lambda x: g["log_cdf"](1 / x))


def chi2(df):
    return gamma(df / 2, mpf(1) / 2)


def horseshoe(scale):
    """e^u E_1(u) by its asymptotic series: for large x"""
    def log_prob(x):
        u = (x / scale) ** 2 / 2
        return log(mp.fsum((-1) ** n * mp.factorial(n) / u ** (n + 1) for n in range(40))) - log(2 * pi ** 3) / 2 - log(scale)
    return dict(log_prob=log_prob)


def pareto(scale, alpha):
    return dict(log_prob=lambda x: log(alpha) + alpha * log(scale / x) - log(x),
                **shares(lambda x: -expm1(alpha * log(scale / x)), lambda x: exp(alpha * log(scale / x))))


def exact(v):
    return [exact(e) for e in v] if isinstance(v, list) else v if v is None else mpf(v)


def rounded(v):
    return [rounded(e) for e in v] if isinstance(v, list) else float(v)


def case(law, params, x=None, of=(), slopes=(), seconds=(), **flags):
    """of: functions at x (or of the law); slopes, seconds: (function, parameter or x) whose derivative is asked for.
    narrow = True: float32 must say the same as float64 of the rounded numbers."""
    params = {k: exact(v) for k, v in params.items()}

    def value(f, **change):
        g = law(**{k: change.get(k, v) for k, v in params.items()})[f]
        return g(change.get("x", exact(x))) if callable(g) else g

    def entry(f, v, **more):
        entries.append(dict(row=law.__name__, params={k: rounded(p) for k, p in params.items()}, x=x, of=f, **more,
                            **flags, value=float(v)))
    for f in of:
        entry(f, value(f))
    for order, pairs in ((1, slopes), (2, seconds)):
        for f, by in pairs:
            at = mpf(x) if by == "x" else params[by]
            h = (abs(at) or 1) * mpf(10) ** -30
            low, mid, high = (value(f, **{by: at + k * h}) for k in (-1, 0, 1))
            entry(f, (high - low) / (2 * h) if order == 1 else (high - 2 * mid + low) / h ** 2, by=by, order=order)


def all_slopes(law, f, x=True):
    return [(f, p) for p in inspect.signature(law).parameters] + ([(f, "x")] if x else [])


case(half_normal, dict(scale=0.1), 1e-10, TAILS)
case(half_normal, dict(scale=2.0), 1.0, TAILS, all_slopes(half_normal, "log_survival"))
case(gumbel, dict(loc=0.0, scale=1.5), -1440.0, ["log_survival"], all_slopes(gumbel, "log_survival"))
for p in (dict(logits=55.0), dict(logits=-55.0), dict(logits=800.0), dict(probs=2e-10), dict(probs=1 - 2.0 ** -50)):
    case(bernoulli, p, 0.0, TAILS + ([] if p.get("logits") == 800.0 else ["cdf"]), [(f, k) for f in TAILS for k in p])
for l in (17.6, 0.0051, -0.0051, 1e-4, -17.6, 600.0):
    for x in (1e-9, 0.3, 1 - 2.0 ** -30):
        case(continuous_bernoulli, dict(logits=l), x, ["cdf"] + TAILS, [(f, k) for f in TAILS for k in ("logits", "x")])
for l in (40.0, -40.0, 80.0, -80.0, 600.0, -600.0, 3.0, -3.0):
    for p in (0.0, 2.0 ** -100, 2.0 ** -60, 0.5, 1 - 2.0 ** -20, 1.0):
        case(continuous_bernoulli, dict(logits=l), p, ["icdf"], [("icdf", k) for k in ("x", "logits") if 0 < p < 1], narrow=True)
case(log_uniform, dict(low=84547.25, high=84684.5), None, ["mean", "variance"])
case(log_uniform, dict(low=0.5, high=1.25), None, ["mean", "variance"], [("variance", "low"), ("variance", "high")])
case(log_uniform, dict(low=0.5, high=1.5), None, ["mean", "variance"])
for k in (19.0, 21.0, 3e5, 1e8):
    case(weibull, dict(scale=1.5, concentration=k), None, ["mean", "variance"], [("variance", "concentration")])
for a, b, x in ((90.0, 100.0, 1e-6), (30.0, 2.5, 1e-12)):
    case(kumaraswamy, dict(concentration1=a, concentration0=b), x, ["log_prob"], all_slopes(kumaraswamy, "log_prob"),
         all_slopes(kumaraswamy, "log_prob"))
# far out on one side, across loc with both ends far away, narrow at loc and far from it, just beyond narrow
for loc, scale, low, high, x in ((0.0, 15.0, 4500.0, 6000.0, 4501.0), (0.0, 10.0, -30.0, 970.0, 529.0),
                                 (0.5, 10.0, -400.0, 590.0, 589.0), (0.25, 4.0, 160.0, 162.0, 161.5),
                                 (0.0, 32.0, 0.0, 2.0 ** -15, 2.0 ** -27), (0.0, 4.0, -123.0, -122.996, -122.997),
                                 (0.5, 2.0, 1.0, 1.4, 1.2), (0.5, 2.0, -1.0, 1.4, 1.2), (0.0, 1.0, -9.5, -7.0, -7.5)):
    p = dict(loc=loc, scale=scale, low=low, high=high)
    case(truncated_normal, p, x, ["log_prob", "mean", "variance", "entropy", "cdf"] + TAILS)
    if high < 1e-3:
        continue  # slopes are what is left of numbers 1e12 times as large
    case(truncated_normal, p, x, [],
         [s for f in ["log_prob"] + TAILS for s in all_slopes(truncated_normal, f)] +
         all_slopes(truncated_normal, "mean", False) + all_slopes(truncated_normal, "variance", False),
         all_slopes(truncated_normal, "log_prob"))

for a in (999.0, 1001.0, 1.6e6, 1e8):
    for z in (-6, 0.25, 1, 20):
        x = a * (1 + z / a ** 0.5)
        case(gamma, dict(concentration=a, rate=8.0), x / 8, ["log_prob"], all_slopes(gamma, "log_prob"), narrow=True)
        case(inverse_gamma, dict(concentration=a, rate=8.0), 8 / x, ["log_prob"], all_slopes(inverse_gamma, "log_prob"),
             narrow=True)
        case(chi2, dict(df=2 * a), 2 * x, ["log_prob"], all_slopes(chi2, "log_prob"), narrow=True)
for x in (1e5, 1e12, 1e200, 1e300):
    case(horseshoe, dict(scale=0.5), x, ["log_prob"], all_slopes(horseshoe, "log_prob"))
case(pareto, dict(scale=1e-9, alpha=0.125), 1e305, ["log_prob"] + TAILS, all_slopes(pareto, "log_prob"))

for a, b in ((999.0, 1.5), (1.5, 1001.0), (9386812.0, 1602.5), (1e8, 1e8), (10.0, 5e7)):
    for z in (-3, 0.25, 6):
        m = a / (a + b)
        x = m + z * (m * (1 - m) / (a + b)) ** 0.5
        if 0 < x < 1:
            case(beta, dict(concentration1=a, concentration0=b), x, ["log_prob"], narrow=1 - x > 1e-3)
# shares below 1e-308
mp.dps = 700
for a, b, x in ((10.0, 7.0, 1e-300), (10.0, 7.0, 130.0), (0.25, 2.0, 700.0), (1000.0, 1.0, 3500.0), (1000.0, 1.0, 200.0),
                (3.0, 2.0, 380.0), (2.5, 1.0, 1.25)):
    for law, params, at in ((gamma, dict(concentration=a, rate=b), x), (chi2, dict(df=2 * a), 2 * b * x),
                            (inverse_gamma, dict(concentration=a, rate=b), 1 / x)):
        case(law, params, at, TAILS, [("log_survival" if b * x > a else "log_cdf", k) for k in params] if law is gamma else [])
for a, b, x in ((100.0, 3.0, 4e-7), (0.5, 190.0, 0.9999), (1000.0, 1000.0, 0.08), (1000.0, 1000.0, 0.9), (2.5, 4.0, 0.25)):
    case(beta, dict(concentration1=a, concentration0=b), x, TAILS, all_slopes(beta, "log_cdf") if x < 0.5 else [])
for r, x in ((1e-3, 200.0), (1000.0, 3.0), (1000.0, 3500.0), (2.5, 400.0), (4.0, 5.0)):
    case(poisson, dict(rate=r), x, TAILS, [(f, "rate") for f in TAILS])
# sums of a gate and e^-rate that 1 - (1 - gate) (1 - e^-rate) has no digits of
for g, r in ((0.0, 40.0), (0.0, 0.5), (2.0 ** -40, 30.0), (2.0 ** -40, 20.0), (0.25, 9.0), (0.75, 2.0 ** -60), (1.0, 3.0)):
    law, p = zero_inflated_poisson, dict(gate=g, rate=r)
    case(law, p, 0.0, ["log_prob", "entropy", "log_cdf"], [(f, k) for f in ("log_prob", "log_cdf") for k in p] +
         ([("entropy", "rate")] if g < 1 else []) + ([("entropy", "gate")] if 0 < g < 1 else []),
         [("log_prob", k) for k in p] if r > 1 else [], narrow=g < 1)
    if g < 1:
        case(law, p, 3.0, ["log_prob"] + TAILS, [(f, k) for f in TAILS for k in p], narrow=r > 1)
for g, r in ((0.0, 800.0), (1e-310, 720.0)):
    case(zero_inflated_poisson, dict(gate=g, rate=r), 0.0, ["log_prob", "log_cdf", "entropy"], narrow=g == 0)
for n, p, x in ((58.0, 1 - 2.0 ** -20, 0.0), (4000.0, 0.25, 3500.0), (4000.0, 0.25, 100.0), (10.0, 0.5, 4.0)):
    case(binomial, dict(total_count=n, probs=p), x, TAILS, [(f, "probs") for f in TAILS])
for r, p, x in ((0.75, 2e-12, 0.0), (300.0, 0.25, 2500.0), (3.0, 2e-12, 60.0), (2000.0, 0.375, 30.0), (2.0, 0.25, 1.0)):
    case(negative_binomial, dict(total_count=r, probs=p), x, TAILS, [(f, k) for f in TAILS for k in ("total_count", "probs")])
for r, b, x in ((300.0, 3.0, 2500.0), (3.0, 1e12, 60.0), (2000.0, 1.5, 60.0), (2.0, 3.0, 1.0)):
    case(gamma_poisson, dict(concentration=r, rate=b), x, TAILS, [(f, k) for f in TAILS for k in ("concentration", "rate")])
for d in ([2.0 ** -30, 4.0], [2.0 ** -30, 2.0 ** -31], [1.0, 2.0]):
    for x in ([-0.75, 1.5], [25.0, -50.0], [1.0, 1.0]):
        case(low_rank_multivariate_normal, dict(loc=[0.25, -0.5], cov_factor=[[-1.0], [2.0]], cov_diag=d), x, ["log_prob"],
             narrow=True)

if __name__ == "__main__":
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "extreme.lua"), "w") as f:
        f.write("-- Written by make_extreme.py.\nreturn {\n")
        for e in entries:
            names = ", ".join('%s = "%s"' % (k, e.pop(k)) for k in ("row", "of", "by") if e.get(k))
            f.write("  {%s, %s},\n" % (names, lua({k: v for k, v in e.items() if k != "by"})[1:-1]))
        f.write("}\n")
