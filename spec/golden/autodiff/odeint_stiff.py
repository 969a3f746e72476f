"""Solutions of stiff differential equations and their sensitivities: spec/golden/autodiff/odeint_stiff.lua, by SciPy's
Radau with relative tolerance 1e-12. A gradient (of sum_ij w_ij y_j(t_i), w_ij = 1 / (1 + i + 2 j) / scale_j, counted
from 0) comes from the sensitivity equations dS/dt = (df/dy) S + df/dp solved beside the system, S the derivative of y in
(y0, parameters). The script stops unless it agrees to 1e-6 (of what a change of a scale gives) with differences.

Robertson's kinetics (1966) and van der Pol's equation with mu = 1000: Hairer & Wanner, Solving Ordinary Differential
Equations II, sections IV.1 and IV.10. A linear system with eigenvalues -1 and -1e6 has its closed form in the spec.

Run: python3 odeint_stiff.py   (needs scipy; writes beside itself)
"""
import os
import numpy as np
from scipy.integrate import solve_ivp

np.set_printoptions(floatmode="unique")


def robertson(t, y, p):
    a, b, c = y
    k1, k2, k3 = p
    f = [k3 * b * c - k1 * a, k1 * a - k3 * b * c - k2 * b * b, k2 * b * b]
    fy = [[-k1, k3 * c, k3 * b], [k1, -k3 * c - 2 * k2 * b, -k3 * b], [0, 2 * k2 * b, 0]]
    fp = [[-a, 0, b * c], [a, -b * b, -b * c], [0, b * b, 0]]
    return f, fy, fp


def van_der_pol(t, y, p):
    a, b = y
    mu = p[0]
    return [b, mu * (1 - a * a) * b - a], [[0, 1], [-2 * mu * a * b - 1, mu * (1 - a * a)]], [[0], [(1 - a * a) * b]]


def weights(times, scale):
    n = len(scale)
    return 1 / (1 + np.arange(len(times))[:, None] + 2 * np.arange(n)[None, :]) / np.array(scale)


def solve(system, y0, p, times, scale):
    n, m = len(y0), len(y0) + len(p)

    def whole(t, z):
        f, fy, fp = system(t, z[:n], p)
        s = z[n:].reshape(n, m)
        ds = np.array(fy, float) @ s
        ds[:, n:] += np.array(fp)
        return np.concatenate([f, ds.ravel()])

    start = np.concatenate([y0, np.eye(n, m).ravel()])
    size = np.concatenate([scale, np.outer(scale, 1 / np.concatenate([scale, p])).ravel()])
    z = solve_ivp(whole, (times[0], times[-1]), start, method="Radau", rtol=1e-12, atol=1e-13 * size, t_eval=times).y.T
    y, s = z[:, :n], z[:, n:].reshape(-1, n, m)
    g = np.einsum("ij,ijk->k", weights(times, scale), s)
    return y, g[:n], g[n:]


def differences(system, y0, p, times, scale):
    """Central differences of order 4 of the weighted sum of solutions without sensitivities, by Radau."""
    def loss(x):
        q = x[len(y0):]

        def jacobian(t, y):
            return np.array(system(t, y, q)[1], float)

        y = solve_ivp(lambda t, y: system(t, y, q)[0], (times[0], times[-1]), x[:len(y0)], method="Radau", jac=jacobian,
                      rtol=3e-13, atol=1e-14 * np.array(scale), t_eval=times).y.T
        return (y * weights(times, scale)).sum()

    x = np.concatenate([y0, p])
    g = []
    for k, size in enumerate(np.concatenate([scale, p])):
        h = np.zeros(len(x))
        h[k] = 1e-3 * size
        g.append((8 * (loss(x + h) - loss(x - h)) - loss(x + 2 * h) + loss(x - 2 * h)) / (12 * h[k]))
    return np.array(g)


def text(x):
    x = np.asarray(x)
    return "{" + ", ".join(text(e) if e.ndim else repr(float(e)) for e in x) + "}"


rows = []
for name, system, y0, p, times, scale in [
        ("robertson", robertson, [1.0, 0.0, 0.0], [0.04, 3e7, 1e4], [0, 0.4, 40, 4e4], [1, 1e-5, 1]),
        ("van_der_pol", van_der_pol, [2.0, 0.0], [1000.0], [0, 500, 1000, 1500, 2000], [1, 1e-3])]:
    arguments = system, np.array(y0), np.array(p), np.asarray(times, float), scale
    y, gy, gp = solve(*arguments)
    off = (np.concatenate([gy, gp]) - differences(*arguments)) * np.concatenate([scale, p])
    print(name, gy, gp, off)
    assert np.max(np.abs(off)) < 1e-6
    rows.append('  {system = "%s", y0 = %s, parameters = %s, times = %s, scale = %s,\n    y = %s,\n    gradient = {y0 = %s, '
                'parameters = %s}},' % (name, text(y0), text(p), text(times), text(scale), text(y), text(gy), text(gp)))
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "odeint_stiff.lua"), "w") as file:
    file.write("-- Written by odeint_stiff.py.\nreturn {\n" + "\n".join(rows) + "\n}\n")
