"""Bounds of linear Gaussian systems with restricted posteriors, for spec/gap: writes linear_gaussian.lua beside this file.

masks: BFGS from random starts over all elements of linear Gaussian q(z_t | C_t) = N(G z + W x + o, L L^T) that a mask
lets through; the bound is E log p(x, z) - E log q from the joint moments of x and z, residual by residual.

dense: systems that change with time, with inputs, gaps and data of another law. q(z_t | z_(t-1), x seen) is found by
conditioning the dense joint normal of all z and x, without any recursion.
"""
import numpy as np
from scipy.optimize import minimize

rng = np.random.default_rng(3)


def moments(steps):
    """Mean and covariance of (z_1 .. z_T, x_1 .. x_T) by the map from all noises."""
    T, n, p = len(steps), steps[0]["q"].shape[0], steps[0]["c"].shape[0]
    size = T * (n + p)
    back, const, noise = np.eye(size), np.zeros(size), np.zeros((size, size))
    for t, s in enumerate(steps):
        z, x = slice(t * n, (t + 1) * n), slice(T * n + t * p, T * n + (t + 1) * p)
        if t:
            back[z, (t - 1) * n:t * n] = -s["a"]
        const[z], noise[z, z] = s["b"], s["q"]
        back[x, z], const[x], noise[x, x] = -s["c"], s["d"], s["r"]
    inv = np.linalg.inv(back)
    return inv @ const, inv @ noise @ inv.T


def log_normal_mean(mean, cov, own_mean, own_cov):
    """E log N(x; own_mean, own_cov) for x ~ N(mean, cov)."""
    off = mean - own_mean
    solve = np.linalg.solve(own_cov, cov + np.outer(off, off))
    return -.5 * (len(mean) * np.log(2 * np.pi) + np.linalg.slogdet(own_cov)[1] + np.trace(solve))


# ---- every linear Gaussian q by BFGS ----

def mask_of(name, T):
    see = {"full": lambda t, s: True, "partial": lambda t, s: s <= t, "dks": lambda t, s: s >= t,
           "dvbf": lambda t, s: s == t, "storn": lambda t, s: s <= t, "dkf": lambda t, s: True,
           "semi": lambda t, s: s <= t or (t == 0 and s < 3), "vrnn": lambda t, s: s <= t}[name]
    states = {"storn": lambda t, s: False, "dkf": lambda t, s: False, "vrnn": lambda t, s: s < t}.get(
        name, lambda t, s: s == t - 1)
    return (np.array([[see(t, s) for s in range(T)] for t in range(T)]),
            np.array([[states(t, s) for s in range(T)] for t in range(T)]))


def bound(theta, steps, data_mean, data_cov, seen, states):
    T, n, p = len(steps), steps[0]["q"].shape[0], steps[0]["c"].shape[0]
    wide_w, wide_g = np.kron(seen, np.ones((n, p))) > 0, np.kron(states, np.ones((n, n))) > 0
    w, g = np.zeros((T * n, T * p)), np.zeros((T * n, T * n))
    k = wide_w.sum()
    w[wide_w], theta = theta[:k], theta[k:]
    k = wide_g.sum()
    g[wide_g], theta = theta[:k], theta[k:]
    o, theta = theta[:T * n], theta[T * n:]
    noise, entropy, tri = np.zeros((T * n, T * n)), 0, np.tril_indices(n)
    for t in range(T):
        low = np.zeros((n, n))
        low[tri], theta = theta[:len(tri[0])], theta[len(tri[0]):]
        entropy += n / 2 * np.log(2 * np.pi * np.e) + np.diag(low).sum()
        low[np.diag_indices(n)] = np.exp(np.diag(low))
        noise[t * n:(t + 1) * n, t * n:(t + 1) * n] = low @ low.T
    inv = np.linalg.inv(np.eye(T * n) - g)
    to_z = inv @ w
    mean = np.concatenate([inv @ (w @ data_mean + o), data_mean])
    cov = np.block([[to_z @ data_cov @ to_z.T + inv @ noise @ inv.T, to_z @ data_cov],
                    [data_cov @ to_z.T, data_cov]])
    total = entropy
    for t, s in enumerate(steps):
        pick = np.zeros((n, T * (n + p)))
        pick[:, t * n:(t + 1) * n] = np.eye(n)
        if t:
            pick[:, (t - 1) * n:t * n] = -s["a"]
        total += log_normal_mean(pick @ mean, pick @ cov @ pick.T, s["b"], s["q"])
        pick = np.zeros((p, T * (n + p)))
        pick[:, T * n + t * p:T * n + (t + 1) * p] = np.eye(p)
        pick[:, t * n:(t + 1) * n] = -s["c"]
        total += log_normal_mean(pick @ mean, pick @ cov @ pick.T, s["d"], s["r"])
    return total


def best(steps, name, starts):
    T, n, p = len(steps), steps[0]["q"].shape[0], steps[0]["c"].shape[0]
    mean, cov = moments(steps)
    mean, cov = mean[T * n:], cov[T * n:, T * n:]
    seen, states = mask_of(name, T)
    size = seen.sum() * n * p + states.sum() * n * n + T * n + T * n * (n + 1) // 2
    found = []
    for _ in range(starts):
        r = minimize(lambda th: -bound(th, steps, mean, cov, seen, states), rng.normal(size=size) * .3, method="BFGS",
                     options={"gtol": 1e-9, "maxiter": 5000})
        found.append(-r.fun)
    return max(found)


def scalar(T, a, q, r, p1):
    m = lambda v: np.array([[v]])
    return [dict(a=m(a), b=np.zeros(1), q=m(q if t else p1), c=m(1.), d=np.zeros(1), r=m(r)) for t in range(T)]


def masks_case():
    small = scalar(3, .9, .19, .25, 1.)
    plane = [dict(a=np.array([[1, .3], [-.2, .8]]), b=np.array([.1, -.2]), q=np.array([[.2, .05], [.05, .3]]),
                  c=np.array([[1, .5]]), d=np.array([.3]), r=np.array([[.4]])) for _ in range(3)]
    return dict(scalar={k: best(small, k, 4) for k in ("full", "partial", "semi", "dks", "dvbf", "storn", "dkf", "vrnn")},
                plane={k: best(plane, k, 3) for k in ("partial", "dvbf", "storn")})


# ---- dense conditioning ----

def conditional(mean, cov, of, given):
    """Gain, mean at zero and covariance of elements `of` given elements `given`."""
    gain = np.linalg.solve(cov[np.ix_(given, given)], cov[np.ix_(given, of)]).T if len(given) else np.zeros((len(of), 0))
    return gain, mean[of] - gain @ mean[given], cov[np.ix_(of, of)] - gain @ cov[np.ix_(given, of)]


def dense(steps, data, seen, observed):
    T, n, p = len(steps), steps[0]["q"].shape[0], steps[0]["c"].shape[0]
    mean, cov = moments(steps)
    data_mean, data_cov = moments(data)
    offset = len(data) * data[0]["q"].shape[0]
    data_mean, data_cov = data_mean[offset:], data_cov[offset:, offset:]
    there = [k for k in range(T * p) if observed[k // p, k % p]]
    gaps = []
    for t in range(T):
        z = list(range(t * n, (t + 1) * n))
        before = list(range((t - 1) * n, t * n)) if t else []
        gain, _, var = conditional(mean, cov, z, before + [T * n + k for k in there])
        by_x = gain[:, len(before):]
        known = [i for i, k in enumerate(there) if seen[t, k // p]]
        own = data_cov[np.ix_(there, there)]
        hidden = [i for i in range(len(there)) if i not in known]
        _, _, rest = conditional(np.zeros(len(there)), own, hidden, known)
        spread = by_x[:, hidden] @ rest @ by_x[:, hidden].T
        gaps.append(.5 * np.trace(np.linalg.solve(var, spread)))
    x = [T * n + k for k in there]
    log_p = log_normal_mean(data_mean[there], data_cov[np.ix_(there, there)], mean[x], cov[np.ix_(x, x)])
    return dict(gaps=gaps, log_likelihood=log_p)


def dense_case():
    T, n, p, m = 4, 2, 2, 1
    a = rng.normal(size=(T, n, n)) * .6
    c = rng.normal(size=(p, n))
    root = rng.normal(size=(T, n, n)) * .4
    q = root @ root.transpose(0, 2, 1) + .1 * np.eye(n)
    r = np.array([[.5, .1], [.1, .3]])
    m0, p0 = np.array([.5, -1.]), np.array([[1., .2], [.2, .5]])
    b_u, d_u, u, d = rng.normal(size=(n, m)), rng.normal(size=(p, m)), rng.normal(size=(T, m)), rng.normal(size=p)
    observed = np.ones((T, p), bool)
    observed[1, 0] = observed[2, 0] = observed[2, 1] = False

    def steps_of(scale):
        out = []
        for t in range(T):
            s = dict(a=a[t] * scale, b=b_u @ u[t], q=q[t], c=c, d=d + d_u @ u[t], r=r * scale)
            if t == 0:
                s["b"], s["q"] = s["a"] @ m0 + s["b"], s["a"] @ p0 @ s["a"].T + s["q"]
            out.append(s)
        return out
    seen, _ = mask_of("partial", T)
    hold = seen.copy()
    hold[:, :3] = True
    dks, _ = mask_of("dks", T)
    full = np.ones((T, p), bool)
    return dict(transition=a, transition_cov=q, emission=c, emission_cov=r, initial_mean=m0, initial_cov=p0,
                transition_input=b_u, emission_input=d_u, emission_offset=d, inputs=u, scale=1.4,
                partial=dense(steps_of(1), steps_of(1.4), seen, full),
                hold=dense(steps_of(1), steps_of(1.4), hold, full), dks=dense(steps_of(1), steps_of(1.4), dks, full),
                missing=dense(steps_of(1), steps_of(1.4), seen, observed))


def text(value):
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{k} = {text(u)}" for k, u in value.items()) + " }"
    if isinstance(value, (list, tuple, np.ndarray)):
        return "{ " + ", ".join(text(u) for u in value) + " }"
    return f"{float(value):.15g}"


with open(__file__[:-3] + ".lua", "w") as out:
    out.write("-- Written by linear_gaussian.py: bounds of restricted linear Gaussian posteriors.\nreturn {\n")
    for name, case in (("masks", masks_case()), ("dense", dense_case())):
        out.write(f"  {name} = {{\n")
        for key, value in case.items():
            out.write(f"    {key} = {text(value)},\n")
        out.write("  },\n")
    out.write("}\n")
