"""Writes bernoulli.lua: log mass of a Bernoulli variable by logits, its derivative in the logits and the derivative of
that, from mpmath with 700 digits.

Run: python3 bernoulli.py > bernoulli.lua
"""
import mpmath as mp

mp.mp.dps = 700
LOGITS = [-700, -40, -3, -0.5, 0, 0.25, 2, 30, 600]


def mass(x, l):
    return mp.log(1 / (1 + mp.exp(-l))) if x else -mp.log1p(mp.exp(l))


def score(x, l):
    return 1 / (1 + mp.exp(l)) if x else -1 / (1 + mp.exp(-l))


def curvature(l):
    return -mp.exp(l) / (1 + mp.exp(l)) ** 2


def text(values):
    return "{" + ", ".join(mp.nstr(v, 17) for v in values) + "}"


print("-- Written by bernoulli.py; do not edit. [1] for x = 0, [2] for x = 1.")
print("return {")
logits = [mp.mpf(l) for l in LOGITS]
print(f"  logits = {text(logits)},")
print(f"  bernoulli_log_mass = {{{text(mass(0, l) for l in logits)}, {text(mass(1, l) for l in logits)}}},")
print(f"  bernoulli_score = {{{text(score(0, l) for l in logits)}, {text(score(1, l) for l in logits)}}},")
print(f"  curvature = {text(curvature(l) for l in logits)},")
print("}")
