"""Sites of single data by quadrature, for spec/continual: writes sites.lua beside this file.

E_q of f(w), w = m + sqrt(v) eps, by Gauss-Hermite; derivatives of the mean by Stein's identities on f alone:
d/dm E f = E[eps f] / sqrt(v), d/dv E f = E[(eps^2 - 1) f] / (2 v). No derivative of f is taken anywhere.
"""
import numpy as np
from scipy.optimize import root
from scipy.integrate import quad

nodes, mass = np.polynomial.hermite_e.hermegauss(120)
mass = mass / mass.sum()


def log_sigmoid(z):
    return -np.logaddexp(0, -z)


def logistic(m, v, x, s):
    """Site of one weight: y = sign s."""
    f = log_sigmoid(s * x * (m + np.sqrt(v) * nodes))
    dm = (mass * nodes * f).sum() / np.sqrt(v)
    dv = (mass * (nodes ** 2 - 1) * f).sum() / (2 * v)
    precision = -2 * dv
    return dm + precision * m, precision, (mass * f).sum()


def logistic_case():
    x, s = [1.2, -.7, 2, .3, -1.5], [1, -1, 1, -1, 1]

    def residual(z):
        m, v = z[0], np.exp(z[1])
        rows = [logistic(m, v, a, b) for a, b in zip(x, s)]
        return [sum(r[0] for r in rows) - m / v, 1 + sum(r[1] for r in rows) - 1 / v]

    m, log_v = root(residual, [0.4, -1.0], tol=1e-14).x
    v = np.exp(log_v)
    rows = [logistic(m, v, a, b) for a, b in zip(x, s)]

    def joint(w):
        return np.exp(-w * w / 2 + sum(log_sigmoid(b * a * w) for a, b in zip(x, s))) / np.sqrt(2 * np.pi)

    evidence = np.log(quad(joint, -12, 12, epsabs=1e-14, epsrel=1e-13)[0])
    kl = -0.5 * np.log(v) + (v + m * m) / 2 - 0.5
    return dict(x=x, y=[(b + 1) // 2 for b in s], mean=m, variance=v, precision_mean=[r[0] for r in rows],
                precision=[r[1] for r in rows], expected=[r[2] for r in rows],
                score=[r[2] - (r[0] * m - r[1] * (m * m + v) / 2) for r in rows], elbo=sum(r[2] for r in rows) - kl, log_evidence=evidence)


def perceptron_case(kind):
    """y from w2 tanh(w1 x): two weights."""
    m, v = np.array([0.6, -0.9]), np.array([0.25, 0.16])
    x, y = [0.7, -1.4, 2.2], [1, 0, 0]
    e1, e2 = np.meshgrid(nodes, nodes, indexing="ij")
    mm = np.outer(mass, mass)
    eta, lam, expected, sd = [], [], [], []
    for a, b in zip(x, y):
        w1, w2 = m[0] + np.sqrt(v[0]) * e1, m[1] + np.sqrt(v[1]) * e2
        f = w2 * np.tanh(w1 * a)
        if kind == "bernoulli":
            g = log_sigmoid((2 * b - 1) * f)
            slope = b - 1 / (1 + np.exp(-f))
        else:
            g = -0.5 * np.log(2 * np.pi * 0.09) - (b - f) ** 2 / 0.18
            slope = (b - f) / 0.09
        dw = [slope * w2 * a / np.cosh(w1 * a) ** 2, slope * np.tanh(w1 * a)]
        row_eta, row_lam, row_sd = [], [], []
        for i, e in enumerate((e1, e2)):
            dm = (mm * e * g).sum() / np.sqrt(v[i])
            precision = -(mm * (e * e - 1) * g).sum() / v[i]
            row_eta.append(dm + precision * m[i])
            row_lam.append(precision)
            # deviation of one draw of the reparametrised estimate of the precision
            h = -dw[i] * e / np.sqrt(v[i])
            row_sd.append(np.sqrt((mm * h * h).sum() - precision ** 2))
        eta.append(row_eta), lam.append(row_lam), sd.append(row_sd)
        expected.append((mm * g).sum())
    return dict(mean=list(m), variance=list(v), x=x, y=y, precision_mean=eta, precision=lam, expected=expected,
                deviation=sd)


def text(value):
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{k} = {text(u)}" for k, u in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return "{ " + ", ".join(text(u) for u in value) + " }"
    return repr(int(value)) if isinstance(value, (int, np.integer)) else f"{float(value):.15g}"


with open(__file__[:-3] + ".lua", "w") as out:
    out.write("-- Written by sites.py: Gaussian sites of single data by quadrature.\nreturn {\n")
    for name, case in (("logistic", logistic_case()), ("bernoulli", perceptron_case("bernoulli")),
                       ("normal", perceptron_case("normal"))):
        out.write(f"  {name} = {{\n")
        for key, value in case.items():
            out.write(f"    {key} = {text(value)},\n")
        out.write("  },\n")
    out.write("}\n")
