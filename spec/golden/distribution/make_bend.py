#!/usr/bin/env python3
"""KL(gamma(p, 1) || gamma(q, 1)) with its slopes in p and q around the places where the kernel takes another formula, in
50 digits:

  python3 spec/golden/distribution/make_bend.py > spec/golden/distribution/bend.lua      (needs mpmath)
"""
from mpmath import mp, mpf, loggamma, psi, nstr

mp.dps = 50
SHAPES = ["0.001", "0.5", "3.25", "3.499999", "3.5", "3.75", "5.999", "6.0", "6.5", "11.0", "40.0", "1e6", "1e120"]
RATIOS = ["0.3", "0.4", "0.41", "0.999", "1.0", "1.001", "1.99", "2.0", "2.5", "1e3"]

print("-- Made by make_bend.py: {p, q, KL, dKL/dp, dKL/dq}.")
print("return {")
for i, shape in enumerate(SHAPES):
    for j, ratio in enumerate(RATIOS):
        if (i + j) % 2:
            continue
        p = mpf(float(shape))
        q = mpf(float(shape) * float(ratio))
        kl = loggamma(q) - loggamma(p) - (q - p) * psi(0, p)
        dp, dq = -(q - p) * psi(1, p), psi(0, q) - psi(0, p)
        print("  {%s}," % ", ".join([repr(float(p)), repr(float(q))] + [nstr(v, 17) for v in (kl, dp, dq)]))
print("}")
