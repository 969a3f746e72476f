"""Cases of distributions of real numbers from nothing but their densities, in mpmath at 40 digits.

A family gives its log density, distribution function, moments and entropy as formulas; for ordinary parameters each
is checked here against quadrature of the density, so that a wrong formula stops the script.
"""
import inspect
from mpmath import mp, mpf, inf

mp.dps = 40


def number(v):
    return float(v)


class Family:
    """formulas(**parameters) gives a dict: log_pdf, ends (low, high), and any of cdf, sf, mean, variance, entropy, mode,
    cuts (where to split integrals); shares: logarithms of cdf and sf are asked for only where these are numbers."""

    def __init__(self, formulas):
        self.formulas = formulas
        self.name = formulas.__name__
        self.parameters = list(inspect.signature(formulas).parameters)

    def at(self, values):
        return Member(self.formulas(**{k: mpf(v) for k, v in zip(self.parameters, values) if v is not None}))

    def named(self, values):
        return {k: v for k, v in zip(self.parameters, values) if v is not None}


class Member:
    def __init__(self, d):
        self.d = d

    def __getattr__(self, name):
        return self.__dict__["d"].get(name)

    def pdf(self, x):
        return mp.exp(self.log_pdf(x))

    def integral(self, f, low=None, high=None):
        """of f(x) p(x)"""
        a, b = self.ends
        a, b = (a if low is None else max(a, low)), (b if high is None else min(b, high))
        cuts = [a] + sorted(t for t in self.cuts or () if a < t < b) + [b]
        def weighed(x):  # nodes may round to an end, where one factor is infinite
            value = f(x) * self.pdf(x)
            return value if mp.isfinite(value) else mpf(0)
        mp.dps = 25
        value = mp.quad(weighed, cuts, maxdegree=8)
        mp.dps = 40
        return value

    def quantile(self, p):
        """by bisection, then secant; in the tail that is smaller"""
        p = mpf(p)
        low, high = self.ends
        f = (lambda x: mp.log(self.cdf(x) / p)) if p <= 0.5 or not self.sf else (lambda x: -mp.log(self.sf(x) / (1 - p)))
        a = low if low > -inf else mpf(-1)
        while low == -inf and self.cdf(a) > p:
            a *= 4
        b = high if high < inf else mpf(1)
        while high == inf and self.cdf(b) < p:
            b *= 4
        for _ in range(400):
            if a > 0 and b / a > 4:
                m = mp.sqrt(a * b)
            elif b < 0 and a / b > 4:
                m = -mp.sqrt(a * b)
            elif a == 0 and b < 1e-3:
                m = b / 1024
            else:
                m = (a + b) / 2
            inside = self.cdf(m)
            if inside == 0 or f(m) < 0:
                a = m
            else:
                b = m
            if abs(b - a) <= 0.05 * max(abs(a), abs(b)):
                break
        x = (a + b) / 2
        for _ in range(40):  # Newton's method on the logarithm of the smaller tail
            tail = self.cdf(x) if p <= 0.5 or not self.sf else self.sf(x)
            step = f(x) * tail / self.pdf(x)
            move = x * mp.exp(-step / x) if a > 0 else x - step
            x = min(max(move, (x + a) / 2), (x + b) / 2)
            if abs(step) <= 1e-20 * abs(x) or (low < 0 and abs(x) < 1e-25):
                break
        return mpf(0) if abs(x) < 1e-17 and low < 0 < high else x

    def check(self):
        def near(got, want, what):
            assert abs(got - want) <= 1e-9 * max(1, abs(want)), (what, got, want)
        near(self.integral(lambda x: 1), 1, "mass")
        if self.mean is not None and mp.isfinite(self.mean):
            near(self.integral(lambda x: x), self.mean, "mean")
        if self.variance is not None and mp.isfinite(self.variance):
            near(self.integral(lambda x: (x - self.mean) ** 2), self.variance, "variance")
        if self.entropy is not None:
            near(self.integral(lambda x: -self.log_pdf(x)), self.entropy, "entropy")
        if self.cdf is not None:
            a, b = self.ends
            for x in (self.cuts or ())[:3]:
                near(self.integral(lambda x: 1, high=x), self.cdf(x), "cdf")


def case(family, values, x, p=None, extreme=False, heavy=False, check=True, far=(), **more):
    """x: functions of the member or numbers. heavy: moments that draws cannot show. far: values for the density alone."""
    m = family.at(values)
    if check and not extreme:
        m.check()
    x = [float(v) for v in x]
    out = dict(params=family.named(values), extreme=extreme or None, heavy=heavy or None, x=x,
               log_prob=[number(m.log_pdf(mpf(v))) for v in x])
    if far:
        out["far_x"] = [float(v) for v in far]
        out["far_log_prob"] = [number(m.log_pdf(mpf(float(v)))) for v in far]
    if m.cdf:
        out["cdf"] = [number(m.cdf(mpf(v))) for v in x]
        def tail(part, rest):
            return mp.log(part) if part < 0.5 else mp.log1p(-rest)
        if m.sf:
            parts = [(mpf(v), m.cdf(mpf(v)), m.sf(mpf(v))) for v in x]
            kept = [q for q in parts if not m.shares or min(q[1], q[2]) > mpf(10) ** -290]
            out["tail_x"] = [number(q[0]) for q in kept]
            out["log_cdf"] = [number(tail(q[1], q[2])) for q in kept]
            out["log_survival"] = [number(tail(q[2], q[1])) for q in kept]
        if p:
            out["p"] = p
            out["icdf"] = [number(m.quantile(v)) for v in p]
    for key in ("mean", "variance", "entropy", "mode"):
        if m.d.get(key) is not None:
            out[key] = number(m.d[key])
    out.update(more)
    return out


def kl(p, q):
    """E_p[log p - log q] of two members by quadrature; inf if q does not cover p."""
    if q.ends[0] > p.ends[0] or q.ends[1] < p.ends[1]:
        return inf
    cuts = set(p.cuts or ()) | set(q.cuts or ())
    joint = Member(dict(p.d, cuts=sorted(cuts)))
    return joint.integral(lambda x: p.log_pdf(x) - q.log_pdf(x))


def kls(family, pairs):
    return [(family.named(a), family.named(b), number(kl(family.at(a), family.at(b)))) for a, b in pairs]
