"""Writes two_sensors.lua: two sensors of one number, everything by quadrature of densities.

z ~ N(0, 1), x1 = z + N(0, 1/2), x2 = z + N(0, 2) (variances), seen x1 = 0.7, x2 = -1.1.
Run with mpmath: python3 two_sensors.py > two_sensors.lua
"""
import mpmath as mp

mp.mp.dps = 30
X, V = (mp.mpf("0.7"), mp.mpf("-1.1")), (mp.mpf("0.5"), mp.mpf(2))
POINTS = [mp.mpf(k) / 2 for k in range(-24, 25)]  # the integrals are cut in pieces


def normal(x, mean, variance):
    return mp.exp(-((x - mean) ** 2) / (2 * variance)) / mp.sqrt(2 * mp.pi * variance)


def integral(f):
    return mp.quad(f, POINTS)


def likelihood(m, z):
    return normal(X[m], z, V[m])


def prior(z):
    return normal(z, 0, 1)


def joint(z):
    return prior(z) * likelihood(0, z) * likelihood(1, z)


marginal = [integral(lambda z, m=m: prior(z) * likelihood(m, z)) for m in (0, 1)]
evidence = integral(joint)


def belief(m, z):
    return prior(z) * likelihood(m, z) / marginal[m]


def divergence(q, p):
    return integral(lambda z: q(z) * mp.log(q(z) / p(z)))


def conflict(m, n):
    def q(z):
        return belief(n, z)
    return divergence(q, lambda z: belief(m, z)) / divergence(q, prior)


mean = integral(lambda z: z * joint(z)) / evidence
variance = integral(lambda z: z * z * joint(z)) / evidence - mean ** 2


def mixture(z):
    return (belief(0, z) + belief(1, z)) / 2


ind = sum(integral(lambda z, m=m: belief(m, z) * mp.log(joint(z) / belief(m, z))) for m in (0, 1)) / 2
moe = integral(lambda z: mixture(z) * mp.log(joint(z) / mixture(z)))
c = [integral(lambda z, m=m: belief(m, z) * joint(z) / mixture(z)) for m in (0, 1)]
values = {
    "fused_mean": mean, "fused_variance": variance, "log_evidence": mp.log(evidence),
    "information": mp.log(evidence / (marginal[0] * marginal[1])),
    "conflict_12": conflict(0, 1), "conflict_21": conflict(1, 0),
    "ind": ind, "ind_gap": mp.log(evidence) - ind, "moe": moe, "moe_limit": (mp.log(c[0]) + mp.log(c[1])) / 2,
}
print("-- Written by two_sensors.py.")
print("return {")
for name, value in values.items():
    print("  %s = %s," % (name, mp.nstr(value, 16)))
print("}")
