"""Writes divergence.lua: normal_divergence, the sum of KL(normal(m, s) | normal(0, p)) by its integral with 30 digits,
normal_divergence_slope, its derivative in log s, that in m, relu_slope, leaky_relu and its slope; log_scale_variance,
normal_draw with the noise given, and its derivative in the variance, normal_draw_slope.

Run: python3 divergence.py > divergence.lua
"""
import mpmath as mp

mp.mp.dps = 30
LOC, LOG_SCALE, PRIOR = [0, -1.5, 0.25, 3], [-3, -0.5, 0.75, 0.1], mp.mpf("0.7")


def density(x, m, s):
    return mp.exp(-(((x - m) / s) ** 2) / 2) / (s * mp.sqrt(2 * mp.pi))


def divergence(m, log_s):
    s = mp.exp(log_s)

    def term(x):
        log_ratio = -(((x - m) / s) ** 2) / 2 - log_s + ((x / PRIOR) ** 2) / 2 + mp.log(PRIOR)
        return density(x, m, s) * log_ratio

    return mp.quad(term, [m - 12 * s, m - 4 * s, m, m + 4 * s, m + 12 * s])


def text(values):
    return "{" + ", ".join(mp.nstr(mp.mpf(v), 17) for v in values) + "}"


print("-- Written by divergence.py; do not edit.")
print("return {")
print(f"  loc = {text(LOC)},")
print(f"  log_scale = {text(LOG_SCALE)},")
print(f"  prior = {mp.nstr(PRIOR, 17)},")
print(f"  normal_divergence = {mp.nstr(sum(divergence(m, s) for m, s in zip(LOC, LOG_SCALE)), 17)},")
slopes = [mp.diff(lambda s, m=m: divergence(m, s), mp.mpf(s)) for m, s in zip(LOC, LOG_SCALE)]
print(f"  normal_divergence_slope = {text(slopes)},")
print(f"  loc_slope = {text(mp.diff(lambda m, s=s: divergence(m, s), mp.mpf(m)) for m, s in zip(LOC, LOG_SCALE))},")
print(f"  relu_slope = {{g = {text([2, 2, 2])}, y = {text([-1, 0, 0.5])}, value = {text([0, 0, 2])}}},")
leak = [v if v > 0 else mp.mpf("0.25") * v for v in (-1, 0, 0.5)]
slope = [2 if v > 0 else mp.mpf("0.25") * 2 for v in (-1, 0, 0.5)]
print(f"  leaky_relu = {{slope = 0.25, x = {text([-1, 0, 0.5])}, value = {text(leak)}}},")
print(f"  leaky_relu_slope = {{g = {text([2, 2, 2])}, value = {text(slope)}}},")
variance = [mp.exp(2 * mp.mpf(s)) for s in LOG_SCALE]
noise = [mp.mpf(e) for e in (1, -0.5, 2, 0.25)]
print(f"  log_scale_variance = {text(variance)},")
print(f"  noise = {text(noise)},")
print(f"  normal_draw = {text(m + mp.sqrt(v) * e for m, v, e in zip(LOC, variance, noise))},")
print(f"  normal_draw_slope = {text(e / (2 * mp.sqrt(v)) for v, e in zip(variance, noise))},")
print("}")
