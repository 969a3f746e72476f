"""Reference values for spec/c/count_test.c: deviance and excess of counts to 400 digits, count_golden.h.

Run: python3 count.py   (needs mpmath; writes beside itself)
"""
import os
import random
from mpmath import mp, mpf, exp, log, loggamma

mp.dps = 400
random.seed(4)


def deviance(k, m):
    return mpf(m) if k == 0 else mpf(k) * (log(mpf(k)) - log(mpf(m))) + mpf(m) - mpf(k)


def deviance_log(k, l):
    return exp(mpf(l)) if k == 0 else mpf(k) * (log(mpf(k)) - mpf(l)) + exp(mpf(l)) - mpf(k)


def excess(k):
    return mpf(0) if k == 0 else loggamma(mpf(k) + 1) - mpf(k) * log(mpf(k)) + mpf(k)


def size():
    k = 10 ** random.uniform(-8, 16)
    return float(int(k)) if random.random() < 0.5 else k


tables = {
    "deviance": (deviance, [(0.0, 0.0), (0.0, 3.5), (3.0, 3.0), (5.0, 1e-320), (1e9, 1e300), (1e-300, 1e-290)]
                 + [(k, abs(k * (1 + random.choice((-1, 1)) * 10 ** random.uniform(-12, 0.3)))) for k in (size() for _ in range(120))]
                 + [(size(), 10 ** random.uniform(-300, 18)) for _ in range(80)]),
    "deviance_log": (deviance_log, [(0.0, -800.0), (0.0, 2.0), (7.0, -1e6), (1e9, -750.0), (3.0, 600.0)]
                     + [(size(), random.uniform(-2000, 40)) for _ in range(80)]),
    "excess": (excess, [(float(k), 0) for k in range(20)] + [(1e-300, 0), (1e300, 0), (0.5, 0), (15.999999, 0)] + [(size(), 0) for _ in range(150)]),
}

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "count_golden.h"), "w") as f:
    f.write("/* count_golden.h: written by count.py from mpmath; {{k, m}, value}. */\n/* clang-format off */\n")
    for name, (g, rows) in tables.items():
        f.write("static const count_row golden_%s[] = {\n" % name)
        for a, b in rows:
            f.write("{{%r, %r}, %s},\n" % (a, float(b), repr(float(g(a, b) if name != "excess" else g(a)))))
        f.write("};\n")
