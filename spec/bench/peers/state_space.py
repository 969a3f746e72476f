"""The residual variational state-space model of residual.lua, full inference, for a library `ops`: activations by name,
linear(x, w, b), gru(x, parameters, name), scan(step, carry, rest), cat, flip, softplus, sigmoid, exp, log, tanh."""
import math
import re

KINDS = {
    "C.3": dict(transition="highway", activation=dict(transition=["softplus"] * 2, initial=["tanh", "relu"],
                                                      disturbance=["tanh", "relu"])),
    "D.2": dict(transition="highway", activation=dict(transition=["relu", "tanh"], initial=["softsign", "relu"],
                                                      disturbance=["relu", "softsign"],
                                                      emission=["softsign", "softplus"])),
    "E.4": dict(transition="plain", activation=dict(transition=["softsign"], initial=["softplus"],
                                                    disturbance=["softplus"], emission=["softplus"])),
}
LEAST, FLOOR, MOST = 1e-6, 1e-4, 15


def degree(j, n):
    return 1 + j % (n - 1)


def mask(rows, columns, which, n):
    """1 where a unit may see a source (MADE): which of "in", "middle", "out"."""
    source = [i + 1 if which == "in" else degree(i, n) for i in range(rows)]
    unit = [j if which == "out" else degree(j, n) for j in range(columns)]
    return [[float(s <= u) for u in unit] for s in source]


class Model:
    def __init__(self, ops, key, shapes):
        self.ops, self.kind = ops, KINDS[key[:3]]
        self.n = shapes["states.loc"][0]
        numbers = sorted({int(name.split(".")[2]) for name in shapes if name.startswith("states.flow.")})
        self.flow = [f"states.flow.{k}." for k in numbers]
        self.masks = []
        for f in self.flow:
            which = {"hidden_weight": "in", "middle_weight": "middle", "shift_weight": "out"}
            self.masks.append({k: ops.constant(mask(*shapes[f + k], w, self.n)) for k, w in which.items()})
            self.masks[-1]["scale_weight"] = self.masks[-1]["shift_weight"]
        layers = {}
        for name in shapes:
            found = re.match(r"(states\.net|initial|disturbance\.rest\.2|decoder)\.(\d+)\.weight$", name)
            if found:
                layers.setdefault(found[1], []).append(int(found[2]))
        self.layers = {k: [f"{k}.{i}" for i in sorted(v)] for k, v in layers.items()}

    def network(self, p, name, x, activations):
        names = self.layers[name]
        for k, layer in enumerate(names):
            x = self.ops.linear(x, p[layer + ".weight"], p[layer + ".bias"])
            if k < len(names) - 1:
                x = self.ops.activation[activations[k]](x)
        return x

    def start(self, p, e):
        ops = self.ops
        z = p["states.loc"] + ops.exp(p["states.log_scale"]) * e
        for k, f in enumerate(self.flow):
            z = ops.flip(z) if k > 0 else z
            w = {name: p[f + name] * m for name, m in self.masks[k].items()}
            h = ops.tanh(ops.linear(z, w["hidden_weight"], p[f + "hidden_bias"]))
            h = ops.tanh(ops.linear(h, w["middle_weight"], p[f + "middle_bias"]))
            m = ops.linear(h, w["shift_weight"], p[f + "shift_bias"])
            z = m + ops.sigmoid(ops.linear(h, w["scale_weight"], p[f + "scale_bias"])) * (z - m)
        return z

    def move(self, p, z):
        ops, n = self.ops, self.n
        out = self.network(p, "states.net", z, self.kind["activation"]["transition"])
        f = out[:, :n]
        if self.kind["transition"] == "highway":
            f = z + ops.sigmoid(out[:, n:2 * n]) * (f - z)
        return f, ops.softplus(out[:, -n:]) + FLOOR

    def split(self, out):
        return out[:, :self.n], self.ops.softplus(out[:, self.n:]) + LEAST

    def divergence(self, loc, scale):
        return (0.5 * (loc * loc + scale * scale - 1) - self.ops.log(scale)).sum(-1)

    def loss(self, p, y, noise, noise_scale=None):
        ops, activation = self.ops, self.kind["activation"]
        h = ops.gru(ops.cat([y, ops.ones_like(y)]), p, "told.recurrent.1.")
        loc, scale = self.split(self.network(p, "initial", h[0], activation["initial"]))
        lost = self.divergence(loc, scale)
        z1 = self.start(p, loc + scale * noise[0])
        given = ops.linear(h[1:], p["disturbance.from_features.weight"], p["disturbance.from_features.bias"])

        def step(z, now):
            f, g = self.move(p, z)
            x = ops.activation[activation["disturbance"][0]](f @ p["disturbance.from_state.weight"] + now[0])
            loc, scale = self.split(self.network(p, "disturbance.rest.2", x, activation["disturbance"][1:]))
            z = f + g * (loc + scale * now[1])
            return z, (z, self.divergence(loc, scale))

        _, (z, each) = ops.scan(step, z1, (given, noise[1:]))
        z = ops.join(z1, z)
        if "decoder" not in self.layers:
            loc = z[..., :y.shape[-1]]
        else:
            loc = self.network(p, "decoder", z, activation["emission"])
        if noise_scale is None:
            logits = ops.tanh(loc / MOST) * MOST
            ll = ops.log_bernoulli(logits, y).sum(-1)
        else:
            r = (y - loc) / noise_scale
            ll = (-0.5 * r * r - ops.log(noise_scale) - 0.5 * math.log(2 * math.pi)).sum(-1)
        return (lost + each.sum(0) - ll.sum(0)).sum() / (y.shape[0] * y.shape[1] * y.shape[2])


def keys(wanted):
    """The keys of the steps that are asked for."""
    for name, key in (("flights", "C.3"), ("rows", "D.2"), ("traffic", "E.4")):
        if wanted(name):
            yield key
    for steps in (25, 100, 400):
        if wanted(f"t{steps}"):
            yield f"C.3 T {steps}"


def memory_keys(wanted):
    return [f"C.3 memory {steps}" for steps in (25, 100, 400)] if wanted("memory") else []
