"""Reference values for implicit.h, from mpmath at 40 digits.

Run: python3 make_implicit.py   (needs mpmath, scipy; writes beside itself)
"""
import os
import mpmath as mp
from scipy.stats import gamma

mp.mp.dps = 40
HERE = os.path.dirname(os.path.abspath(__file__))


def slope(a, z):
    """dz/da at fixed P(a, e^z) = -(dP/da) / (x p(x)), x = e^z."""
    a, z = mp.mpf(a), mp.mpf(z)
    x = mp.e ** z
    if x > mp.mpf(10) ** -30:
        by_a = mp.diff(lambda t: mp.gammainc(t, 0, x, regularized=True), a, h=min(a, 1) * mp.mpf(10) ** -16)
    else:  # P = x^a / Gamma(a + 1) to all digits
        by_a = x ** a / mp.gamma(a + 1) * (z - mp.digamma(a + 1))
    return -by_a / (mp.e ** (a * z - x) / mp.gamma(a))


with open(os.path.join(HERE, "implicit.h"), "w") as f:
    f.write("/* Written by make_implicit.py: rows {a, z, dz/da} and {a, E[z], var[z]} of z = log Gamma(a, 1). */\n")
    f.write("static const double log_gamma_slope[][3] = {\n")
    for a in (1e-3, 0.1, 0.9, 1.5, 8.0, 12.5, 300.0):
        for p in (1e-6, 0.05, 0.5, 0.95, 1 - 1e-6):
            x = gamma(a).ppf(p)
            z = float(mp.log(x)) if x > 1e-300 else float((mp.log(mp.mpf(p)) + mp.loggamma(mp.mpf(a) + 1)) / a)
            f.write("    {%r, %r, %s},\n" % (a, z, mp.nstr(slope(a, z), 17)))
    f.write("};\nstatic const double log_gamma_draw[][3] = {\n")
    for a in (1e-3, 0.2, 1.0, 3.7, 1e4):
        f.write("    {%r, %s, %s},\n" % (a, mp.nstr(mp.digamma(a), 17), mp.nstr(mp.psi(1, a), 17)))
    f.write("};\n")
