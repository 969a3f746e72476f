"""Reference values for src/nn/moment/op_rectified_moments.c: spec/golden/nn/rectified_moments.h, from the textbook forms at
120 digits, where nothing that cancels matters.

    python3 spec/golden/nn/rectified_moments.py > spec/golden/nn/rectified_moments.h      (needs mpmath)
"""
from mpmath import mp, mpf, exp, sqrt, ncdf, npdf, nstr

mp.dps = 120


def below(mu, v, k):
    return exp(k * mu + mpf(k * k) * v / 2) * ncdf(-(mu + k * v) / sqrt(v))


def relu(mu, v):
    s = sqrt(v)
    return s * npdf(mu / s) + mu * ncdf(mu / s), (mu**2 + v) * ncdf(mu / s) + mu * s * npdf(mu / s)


def elu_variance(mu, v, a):
    e, e2 = relu(mu, v)
    s0, s1, s2 = (below(mu, v, k) for k in range(3))
    return a * a * (s2 - 2 * s1 + s0) + e2 - (a * (s1 - s0) + e) ** 2


print("/* rectified_moments.h: made by rectified_moments.py; relu_moments gives relu_mean and relu_variance. */")
print("static const struct {\n  double mean, variance, relu_mean, relu_variance, exp_below[3], elu_variance[2];\n} golden_rectified[] = {")
for mean in (0, 1e-3, 0.3, 1, 2, 4, 6, 9.5, 12, 25, 35):
    for variance in (1e-10, 1e-4, 4e-4, 0.01, 0.25, 1, 1.44, 9, 100):
        for sign in (1, -1):
            if mean == 0 and sign == -1:
                continue
            mu, v = mpf(float(sign * mean)), mpf(float(variance))
            e, e2 = relu(mu, v)
            row = [mu, v, e, e2 - e * e] + [below(mu, v, k) for k in range(3)]
            row += [elu_variance(mu, v, mpf(1)), elu_variance(mu, v, mpf(float(1.6732632423543772)))]
            if abs(mu) / sqrt(v) < 36:
                text = [nstr(x, 18) for x in row]
                print("    {%s, {%s}, {%s}}," % (", ".join(text[:4]), ", ".join(text[4:7]), ", ".join(text[7:])))
print("};")
