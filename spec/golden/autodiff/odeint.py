"""Solutions of differential equations and their gradients: spec/golden/autodiff/odeint.lua, by SciPy's DOP853 with relative
tolerance 1e-12 (absolute 1e-13). A gradient (of sum_ij w_ij y_j(t_i), with w_ij = 1 / (1 + i + 2 j), counted from 0: what
the operation odeint_adjoint gives) comes from the sensitivity equations dS/dt = (df/dy) S + df/dp solved beside the
system, S the derivative of y in (y0, parameters); that in a time is w_i . f(t_i, y(t_i)).

Run: python3 odeint.py   (needs scipy; writes beside itself)
"""
import os
import numpy as np
from scipy.integrate import solve_ivp

np.set_printoptions(floatmode="unique")


def lotka_volterra(t, y, p):
    u, v = y
    f = [(p[0] - p[1] * v) * u, (p[3] * u - p[2]) * v]
    fy = [[p[0] - p[1] * v, -p[1] * u], [p[3] * v, p[3] * u - p[2]]]
    fp = [[u, -u * v, 0, 0], [0, 0, -v, u * v]]
    return f, fy, fp


def michaelis_menten(t, y, p):
    """One compartment, absorption of first order: dose 30, volume 2."""
    ka, km, vm = p
    c = y[0]
    e = np.exp(-ka * t)
    f = [15 * ka * e - vm / 2 * c / (km + c)]
    fy = [[-vm / 2 * km / (km + c) ** 2]]
    fp = [[15 * e * (1 - ka * t), vm / 2 * c / (km + c) ** 2, -c / (km + c) / 2]]
    return f, fy, fp


def van_der_pol(t, y, p):
    a, b = y
    mu = p[0]
    return [b, mu * (1 - a * a) * b - a], [[0, 1], [-2 * mu * a * b - 1, mu * (1 - a * a)]], [[0], [(1 - a * a) * b]]


def solve(system, y0, p, times):
    n, m = len(y0), len(y0) + len(p)

    def whole(t, z):
        f, fy, fp = system(t, z[:n], p)
        s = z[n:].reshape(n, m)
        ds = np.array(fy) @ s
        ds[:, n:] += np.array(fp)
        return np.concatenate([f, ds.ravel()])

    start = np.concatenate([y0, np.eye(n, m).ravel()])
    z = solve_ivp(whole, (times[0], times[-1]), start, method="DOP853", rtol=1e-12, atol=1e-13, t_eval=times).y.T
    y, s = z[:, :n], z[:, n:].reshape(-1, n, m)
    w = 1 / (1 + np.arange(len(times))[:, None] + 2 * np.arange(n)[None, :])
    g = np.einsum("ij,ijk->k", w, s)
    gt = [w[i] @ np.array(system(times[i], y[i], p)[0]) for i in range(1, len(times))]
    return y, g[:n], g[n:], gt


def text(x):
    x = np.asarray(x)
    return "{" + ", ".join(text(e) if e.ndim else repr(float(e)) for e in x) + "}"


rows = []
for name, system, y0, p, times in [
        ("lotka_volterra", lotka_volterra, [33.9, 5.9], [0.55, 0.028, 0.8, 0.024], np.arange(0, 20.5, 2)),
        ("lotka_volterra", lotka_volterra, [10.0, 12.0], [1.1, 0.06, 1.2, 0.04], np.arange(5, -0.5, -1)),
        ("michaelis_menten", michaelis_menten, [0.0], [0.8, 0.9, 1.0], np.arange(0, 10.5, 1)),
        ("michaelis_menten", michaelis_menten, [0.0], [3.0, 0.02, 2.5], np.arange(0, 10.5, 1)),
        ("van_der_pol", van_der_pol, [2.0, 0.0], [20.0], np.array([0, 1, 5, 12, 14, 20]))]:
    y, gy, gp, gt = solve(system, np.array(y0), np.array(p), np.asarray(times, float))
    rows.append('  {system = "%s", y0 = %s, parameters = %s, times = %s,\n    odeint = %s,\n    odeint_adjoint = {y0 = %s, '
                'parameters = %s,\n      times = %s}},' % (name, text(y0), text(p), text(times), text(y), text(gy), text(gp),
                                                           text(gt)))
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "odeint.lua"), "w") as file:
    file.write("-- Written by odeint.py.\nreturn {\n" + "\n".join(rows) + "\n}\n")
