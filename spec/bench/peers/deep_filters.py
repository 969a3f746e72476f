"""What switching.lua measures, in terms of a library's operations `ops`: the filter of RSGLS-ISSM and ARSGLS as those of
penumbra.models compute it (published recursion, proposals that look at y), for complete series. Where the transition
is the identity and one number is observed, a Kalman step is of rank one."""
import math
from types import SimpleNamespace

import numpy

LOG_2_PI = math.log(2 * math.pi)


def read(folder, key):
    arrays = numpy.load(f"{folder}/switching-{key.replace(' ', '_')}.npz")
    parameters = {k[len("parameter."):]: arrays[k] for k in arrays.files if k.startswith("parameter.")}
    return parameters, {k: arrays[k] for k in arrays.files if not k.startswith("parameter.")}


def quadratic(x, variance, ops):
    return -0.5 * ((x * x / variance + ops.log(variance)).sum(-1) + x.shape[-1] * LOG_2_PI)


def times(a, x):
    return (a @ x[..., None])[..., 0]


class Filter:
    def __init__(self, ops, parameters, particles):
        self.ops, self.p, self.particles = ops, parameters, particles
        self.num, self.auxiliary = parameters["bases.bases.s"].shape[0], "emission.net.1.weight" in parameters
        self.n, self.k = parameters["prior_mean"].shape[0], parameters["bases.bases.s"].shape[1]
        # float32 adds more to variances
        self.floor = 1e-6 if "32" in str(parameters["prior_mean"].dtype) else 1e-8

    # ---- networks ----

    def linear(self, name, x):
        return self.ops.linear(x, self.p[name + ".weight"], self.p.get(name + ".bias"))

    def halves(self, y):
        size = y.shape[-1] // 2
        return y[..., :size], self.ops.softplus(y[..., size:]) ** 2 + self.floor

    def surroundings(self, given):
        """What all steps need beside the particles, [T, ...]."""
        ops, steps = self.ops, given["u"].shape[0]
        e = self.p["inputs.embedding.weight"][given["series"]]
        u = ops.cat([given["u"], ops.expand(e, (steps,) + tuple(e.shape))])
        u = ops.leaky(self.linear("inputs.layer.1", u))
        at = {"first": self.linear("switch.first", u), "u": self.linear("switch.offset.u", u)}
        d = self.p["bases.bases.d"]
        at["d"] = (u @ d.reshape(-1, d.shape[-1]).T).reshape(*u.shape[:2], *d.shape[:2])
        if "c" in given:
            at["c"] = given["c"]
        if "y" in given:
            h, at["y"], k = ops.cat([given["y"], u]), given["y"], 1
            while f"encoder.stem.{k}.1.weight" in self.p:
                h = ops.leaky(self.linear(f"encoder.stem.{k}.1", h))
                if k == 2:
                    at["z_loc"], at["z_variance"] = self.halves(self.linear("encoder.z.1", h))
                k += 1
            at["s_loc"], at["s_variance"] = self.halves(self.linear("encoder.s.1", h))
        return at

    def held(self):
        """The bases side by side, once for a pass."""
        b, flat = "bases.bases.", lambda x: x.reshape(self.num, -1)
        names = ["a", "c"] if self.auxiliary else []
        scales = [self.ops.exp(-self.p[b + x]) for x in ("q", "r", "s")]
        return (self.ops.cat([flat(self.p[b + x]) for x in names] + scales[:2]),
                self.ops.cat([flat(self.p[b + "f"]), scales[2]]))

    def weights(self, s):
        h = self.linear("bases.net.3", self.ops.leaky(self.linear("bases.net.1", s)))
        return self.ops.softmax(h[..., :self.num]), self.ops.softmax(h[..., self.num:])

    def system(self, held, w, at):
        n, all_of, m = self.n, w @ held[0], SimpleNamespace(a=None, c=None)
        first = 0
        if self.auxiliary:
            p = self.p["bases.bases.r"].shape[1]
            m.a = all_of[..., :n * n].reshape(*w.shape[:-1], n, n)
            m.c = all_of[..., n * n:n * n + p * n].reshape(*w.shape[:-1], p, n)
            first = n * n + p * n
        m.q = all_of[..., first:first + n] ** 2 + self.floor
        m.r = all_of[..., first + n:] ** 2 + self.floor
        if not self.auxiliary:
            m.q = m.q * at["c"]
        m.d = self.ops.weigh(w, at["d"])
        return m

    def offset(self, s, at):
        return self.linear("switch.offset.rest.2", self.ops.leaky(self.linear("switch.offset.s", s) + at["u"]))

    def recurrence(self, held, w):
        x, k, n = w @ held[1], self.k, self.n
        return x[..., :k * n].reshape(*w.shape[:-1], k, n), x[..., k * n:] ** 2 + self.floor

    # ---- Gaussians ----

    def product(self, loc, cov, q_loc, q_variance):
        return self.update(loc, cov, q_loc - loc, None, q_variance)

    def update(self, mean, cov, innovation, c, variance):
        """Joseph's form; c None is the identity."""
        ops = self.ops
        half = cov if c is None else c @ cov
        lower = ops.cholesky((half if c is None else half @ c.mT) + ops.diag(variance))
        gain = ops.cholesky_solve(lower, half).mT
        white = ops.solve(lower, innovation[..., None])[..., 0]
        log_p = -0.5 * (white * white).sum(-1) - ops.log(ops.diagonal(lower)).sum(-1) - 0.5 * white.shape[-1] * LOG_2_PI
        left = ops.eye(mean) - (gain if c is None else gain @ c)
        return (mean + times(gain, innovation), left @ cov @ left.mT + (gain * variance[..., None, :]) @ gain.mT, log_p)

    def draw(self, loc, cov, noise):
        return loc + times(self.ops.cholesky(cov), noise)

    # ---- the filter ----

    def step(self, held, state, at, noise, first):
        ops = self.ops
        mean, cov = state["mean"], state["cov"]
        if first:
            loc, variance = self.halves(at["first"])
            total = variance + at["s_variance"]
            log_z = quadratic(at["s_loc"] - loc, total, ops)
            s = (loc + (at["s_loc"] - loc) * (variance / total)
                 + ops.sqrt(variance * at["s_variance"] / total) * noise["s"])
        else:
            f, variance = self.recurrence(held, state["w"])
            loc, law = times(f, mean) + self.offset(state["s"], at), f @ cov @ f.mT + ops.diag(variance)
            loc, law, log_z = self.product(loc, law, at["s_loc"], at["s_variance"])
            s = self.draw(loc, law, noise["s"])
        log_w = log_z - quadratic(s - at["s_loc"], at["s_variance"], ops)
        w, carried = self.weights(s)
        m = self.system(held, w, at)
        if self.auxiliary:
            mean, cov = times(m.a, mean), m.a @ cov @ m.a.mT + ops.diag(m.q)
            about = times(m.c, mean) + m.d
            loc, law, log_z = self.product(about, m.c @ cov @ m.c.mT + ops.diag(m.r), at["z_loc"], at["z_variance"])
            z = self.draw(loc, law, noise["z"])
            loc, variance = self.emitted(z)
            log_w = (log_w + log_z - quadratic(z - at["z_loc"], at["z_variance"], ops)
                     + quadratic(at["y"] - loc, variance, ops))
            mean, cov, _ = self.update(mean, cov, z - about, m.c, m.r)
        else:
            c, cov = at["c"], cov + ops.diag(m.q)
            half = times(cov, c)
            variance = (half * c).sum(-1, keepdims=True) + m.r
            v = at["y"] - (mean * c).sum(-1, keepdims=True) - m.d
            log_w = log_w + quadratic(v, variance, ops)
            mean, cov = mean + half * (v / variance), cov - half[..., None] * (half / variance)[..., None, :]
        return {"s": s, "w": carried, "mean": mean, "cov": cov}, log_w

    def emitted(self, z):
        ops = self.ops
        h = ops.leaky(self.linear("emission.net.3", ops.leaky(self.linear("emission.net.1", z))))
        return self.halves(self.linear("emission.net.5", h))

    def run(self, given, noise, resampling=True):
        """Log-evidence [B], and the particles and logarithms of weights after the last step."""
        ops, at, held = self.ops, self.surroundings(given), self.held()
        size, log_n = given["y"].shape[1], math.log(self.particles)

        def step(carry, now):
            state, log_w = carry
            at, noise = now
            if resampling:
                log_w, state = ops.resample(log_w, state, noise["u"], log_n)
            state, log_weight = self.step(held, state, at, noise, False)
            log_w = log_w + log_weight
            increment = ops.logsumexp(log_w)
            return (state, log_w - increment), increment

        wide = (self.particles, size)
        state = {"mean": ops.expand(self.p["prior_mean"], wide + (self.n,)),
                 "cov": ops.expand(ops.diag(ops.exp(-2 * self.p["prior_log_inverse_scale"])), wide + (self.n, self.n))}
        now = tuple({k: x[0] for k, x in part.items()} for part in (at, noise))
        state, log_w = self.step(held, state, *now, True)
        increment = ops.logsumexp(log_w) - log_n
        rest = tuple({k: x[1:] for k, x in part.items()} for part in (at, noise))
        carry, increments = ops.scan(step, (state, log_w - increment - log_n), rest)
        return increment + increments.sum(0), carry

    def loss(self, given, noise, resampling=True):
        y = given["y"]
        return -self.run(given, noise, resampling)[0].sum() / (y.shape[0] * y.shape[1])

    # ---- forecasts ----

    def paths(self, given, noise, future, count, more):
        """Joint paths of the steps after a batch, [steps, count, B, 1]."""
        ops, held = self.ops, self.held()
        _, (state, log_w) = self.run(given, noise)
        state = ops.ancestors(log_w, state, count, more["u"])
        now = {"s": state["s"], "w": state["w"], "x": self.draw(state["mean"], state["cov"], more["x0"])}

        def step(now, given):
            at, noise = given
            f, variance = self.recurrence(held, now["w"])
            s = times(f, now["x"]) + self.offset(now["s"], at) + ops.sqrt(variance) * noise["s"]
            w, carried = self.weights(s)
            m = self.system(held, w, at)
            x = (now["x"] if m.a is None else times(m.a, now["x"])) + ops.sqrt(m.q) * noise["x"]
            z = (x * at["c"]).sum(-1, keepdims=True) if m.c is None else times(m.c, x)
            z = z + m.d + ops.sqrt(m.r) * noise["z"]
            if self.auxiliary:
                loc, variance = self.emitted(z)
                z = loc + ops.sqrt(variance) * noise["y"]
            return {"s": s, "w": carried, "x": x}, z

        return ops.scan(step, now, (self.surroundings(future), more["steps"]))[1]


def noise_of(filter, steps, size, normal, uniform):
    """All draws of a pass at once."""
    out = {"s": normal(steps, filter.particles, size, filter.k), "u": uniform(steps, 1, size)}
    if filter.auxiliary:
        out["z"] = normal(steps, filter.particles, size, filter.p["bases.bases.r"].shape[1])
    return out


def more_noise_of(filter, steps, size, count, normal, uniform):
    """All draws of paths."""
    p = filter.p["bases.bases.r"].shape[1]
    each = {"s": normal(steps, count, size, filter.k), "x": normal(steps, count, size, filter.n),
            "z": normal(steps, count, size, p), "y": normal(steps, count, size, 1)}
    return {"u": uniform(1, size), "x0": normal(count, size, filter.n), "steps": each}


def check(key, loss, norm, given):
    """Stops if ours is another loss, or has another gradient. (Before training gradients are huge and partly cancel.)"""
    double = given["loss"].dtype == numpy.float64
    for name, theirs, close in (("loss", loss, 1e-8 if double else 1e-3), ("norm", norm, 1e-6 if double else 2e-2)):
        if not numpy.isclose(float(theirs), float(given[name]), rtol=close, atol=close):
            raise SystemExit(f"{key}: {name} {float(theirs)!r}, ours {float(given[name])!r}")


KINDS = ("RSGLS-ISSM", "ARSGLS")


def keys(wanted):
    """(key, particles) of the rows of training steps that were asked for."""
    for kind in KINDS:
        if wanted("steps"):
            yield f"{kind} float32", 10
            yield f"{kind} float64", 10
        if wanted("growth"):
            for n in (1, 10, 100):
                yield f"{kind} particles {n}", n
            for n in (8, 16, 32) if kind == "ARSGLS" else ():
                yield f"{kind} states {n}", 10
