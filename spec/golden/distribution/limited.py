"""Values of distributions between limits, with zeros and of ordered labels, for spec/distribution/limited_spec.lua, in 400
digits by mpmath. Prints limited.lua."""
import mpmath as mp

mp.mp.dps = 400


def normal_cdf(x):
    return mp.erfc(-mp.mpf(x) / mp.sqrt(2)) / 2


def normal_pdf(x):
    return mp.exp(-mp.mpf(x) ** 2 / 2) / mp.sqrt(2 * mp.pi)


def logistic_cdf(x):
    return 1 / (1 + mp.exp(-mp.mpf(x)))


def poisson(k, rate):
    return mp.exp(-mp.mpf(rate)) * mp.mpf(rate) ** k / mp.factorial(k)


def weibull_survival(x, scale, k):
    return mp.exp(-(mp.mpf(x) / scale) ** k)


def row(values):
    return "{ " + ", ".join(mp.nstr(v, 17) if isinstance(v, mp.mpf) else repr(v) for v in values) + " }"


print("-- Made by limited.py with mpmath", mp.__version__)
print("return {")
# weibull(scale 2, concentration 1.5) censored to [0.5, 3]: at both ends and between
w = [mp.log(1 - weibull_survival(0.5, 2, mp.mpf("1.5")))]
for x in ["0.7", "2.5"]:
    x = mp.mpf(x)
    w.append(mp.log(mp.mpf("1.5") / 2 * (x / 2) ** mp.mpf("0.5")) - (x / 2) ** mp.mpf("1.5"))
w.append(-(mp.mpf(3) / 2) ** mp.mpf("1.5"))
print("  censored_weibull = { x = { 0.5, 0.7, 2.5, 3.0 }, log_prob =", row(w), "},")
# poisson(4) censored to [2, 6]
p = [mp.log(sum(poisson(k, 4) for k in range(3)))] + [mp.log(poisson(k, 4)) for k in (3, 5)]
p.append(mp.log(1 - sum(poisson(k, 4) for k in range(6))))
print("  censored_poisson = { x = { 2, 3, 5, 6 }, log_prob =", row(p), "},")
# a standard normal between limits, near and far out
print("  truncated_normal = {")
for low, high, x in [(-1, 2, "0.5"), (8, 9, "8.25"), (20, mp.inf, "20.5"), (-9, -8, "-8.25"), (-mp.inf, -20, "-20.5")]:
    if low > 0:
        mass = normal_cdf(-low) - (normal_cdf(-high) if high != mp.inf else 0)
    else:
        mass = normal_cdf(high) - (normal_cdf(low) if low != -mp.inf else 0)
    lp = mp.log(normal_pdf(mp.mpf(x)) / mass)
    text = [("nil" if abs(v) == mp.inf else str(v)) for v in (low, high)]
    print(f"    {{ low = {text[0]}, high = {text[1]}, x = {x}, log_prob = {mp.nstr(lp, 17)} }},")
print("  },")
# poisson(4) given 2 <= x <= 6
total = sum(poisson(k, 4) for k in range(2, 7))
print("  truncated_poisson =", row([mp.log(poisson(k, 4) / total) for k in range(2, 7)]) + ",")
# poisson(1.5) with a hurdle of 0.3 at 0
some = 1 - poisson(0, mp.mpf("1.5"))
print("  hurdle_poisson =", row([mp.log(mp.mpf("0.3"))] + [mp.log(mp.mpf("0.7") * poisson(k, mp.mpf("1.5")) / some)
                                                       for k in range(1, 5)]) + ",")
# labels with cut points -1, 0.5, 2
print("  ordered = {")
for name, cdf in [("ordered_logistic", logistic_cdf), ("ordered_probit", normal_cdf)]:
    for eta in ["0.3", "-25", "25"]:
        at = [mp.mpf(c) - mp.mpf(eta) for c in ("-1", "0.5", "2")]
        up = at[0] > 0  # from the upper tail: differences of small numbers
        f = [cdf(-a) if up else cdf(a) for a in at]
        probs = [1 - f[0], f[0] - f[1], f[1] - f[2], f[2]] if up else [f[0], f[1] - f[0], f[2] - f[1], 1 - f[2]]
        print(f"    {{ kind = \"{name}\", eta = {eta}, log_prob = {row([mp.log(q) for q in probs])} }},")
print("  },")
print("}")
