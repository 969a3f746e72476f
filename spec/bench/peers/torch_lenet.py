"""The rows of lenet.lua in PyTorch, eager, float32, one thread. Of Adam's three forms the fastest counts."""
import math

import torch
from torch import nn
from torch.nn import functional as F

import clock
from agreement import Record

torch.set_num_threads(1)
torch.manual_seed(1)
DRAWS, N, DELTA, PRIOR = 5, 60000, 0.1, 0.1


class Network(nn.Module):
    """Layers of means and logarithms of scales as they stand in a record; linear ones have weights [out, in]."""

    def __init__(self, record):
        super().__init__()
        self.names, values = {}, record.parameters
        places = sorted({int(k.split(".")[-2]) for k in values})
        self.means, self.scales = nn.ParameterList(), nn.ParameterList()
        for place in places:
            for kind in ("weight", "bias"):
                for prefix, list in (("net.", self.means), ("log_scale.", self.scales)):
                    name = f"{prefix}{place}.{kind}"
                    name = name if name in values else f"{place}.{kind}" if prefix == "net." else None
                    if name in values:
                        x = torch.from_numpy(values[name])
                        list.append(nn.Parameter(x.T.contiguous() if x.ndim == 2 else x.clone()))
                        self.names[name] = list[-1]
        self.images = self.means[0].ndim == 4

    def layers(self):
        """(map, mean and log-scale of weight, of bias, is it the last) of each."""
        count = len(self.means) // 2
        for k in range(count):
            w, b = self.means[2 * k], self.means[2 * k + 1]
            s, t = (self.scales[2 * k], self.scales[2 * k + 1]) if len(self.scales) else (None, None)
            yield (conv if w.ndim == 4 else F.linear), w, b, s, t, k == count - 1

    def forward(self, x):
        for apply, w, b, _, _, last in self.layers():
            x = x.flatten(1) if apply is F.linear and x.ndim == 4 else x
            x = apply(x, w, b)
            x = x if last else torch.relu(x)
        return x

    def dropped(self, x):
        for apply, w, b, _, _, last in self.layers():
            if apply is F.linear:
                x = F.dropout(x.flatten(1), 0.5, self.training)
            x = apply(x, w, b)
            x = x if last else torch.relu(x)
        return x

    def moments(self, m, gates=False):
        v = None
        for apply, w, b, s, t, last in self.layers():
            if apply is F.linear and m.ndim == 4:
                m, v = m.flatten(1), v.flatten(1)
            mean = apply(m, w, b)
            variance = apply(m.square() if v is None else m.square() + v, (2 * s).exp(), (2 * t).exp())
            if v is not None:
                variance = variance + apply(v, w.square(), None)
            if last:
                return mean, variance
            if gates:
                z = (mean > 0).to(mean.dtype)
                m, v = mean * z, variance * z
                continue
            scale = variance.sqrt()
            a = mean / scale
            cdf, pdf = 0.5 * torch.special.erfc(a * -math.sqrt(0.5)), torch.exp(-0.5 * a.square()) / math.sqrt(2 * math.pi)
            m = mean * cdf + scale * pdf
            v = (mean.square() + variance) * cdf + mean * scale * pdf - m.square()

    def local(self, x):
        for apply, w, b, s, t, last in self.layers():
            x = x.flatten(1) if apply is F.linear and x.ndim == 4 else x
            mean, variance = apply(x, w, b), apply(x.square(), (2 * s).exp(), (2 * t).exp())
            x = mean + variance.sqrt() * torch.randn_like(mean)
            x = x if last else torch.relu(x)
        return x

    def drawn(self):
        """The network with one draw of all weights."""
        draws = [(apply, w + s.exp() * torch.randn_like(w), b + t.exp() * torch.randn_like(b), last)
                 for apply, w, b, s, t, last in self.layers()]

        def forward(x):
            for apply, w, b, last in draws:
                x = x.flatten(1) if apply is F.linear and x.ndim == 4 else x
                x = apply(x, w, b)
                x = x if last else torch.relu(x)
            return x

        return forward

    def kl(self):
        total = 0
        for m, s in zip(self.means, self.scales):
            total = total + (0.5 * (((2 * s).exp() + m.square()) / PRIOR**2 - 1) - s + math.log(PRIOR)).sum()
        return total


def conv(x, w, b):
    return F.conv2d(x, w, b, stride=2)


def second_order(net, x, label, gates):
    m, v = net.moments(x, gates)
    z = m.softmax(-1)
    return net.kl() / N + F.cross_entropy(m, label) + 0.5 * (v * (z - z.square())).sum(-1).mean()


def evidential(net, x, label, noise=None):
    m, v = net.moments(x)
    f = m + v.sqrt() * (torch.randn(DRAWS, *m.shape) if noise is None else noise)
    alpha = f.clamp(-15, 15).exp()
    total = alpha.sum(-1)
    kl = (total.lgamma() - alpha.lgamma().sum(-1) - math.lgamma(10)
          + ((alpha - 1) * (alpha.digamma() - total.digamma()[..., None])).sum(-1)).mean()
    log_p = f.log_softmax(-1).gather(-1, label[None, :, None].expand(DRAWS, -1, 1))[..., 0]
    return (kl + 1 - math.log(DELTA) / N).sqrt() - (log_p.logsumexp(0) - math.log(DRAWS)).mean()


def dropped(net, x, label):
    if not net.training:
        return F.cross_entropy(net.dropped(x), label)
    return F.cross_entropy(net.dropped(x.repeat(DRAWS, 1, 1, 1)), label.repeat(DRAWS))


def evidential_output(net, x):
    m, v = net.moments(x)
    p = (m + v.sqrt() * torch.randn(DRAWS, *m.shape)).softmax(-1)
    return p.mean(0), p.var(0, unbiased=False)


# Loss, loss of the agreement, output.
ROWS = {
    "plain": (lambda net, x, y: F.cross_entropy(net(x), y), None, lambda net, x: net(x)),
    "gates": (lambda net, x, y: second_order(net, x, y, True), None, lambda net, x: net.moments(x, True)),
    "matching": (lambda net, x, y: second_order(net, x, y, False), None, lambda net, x: net.moments(x)),
    "evidential": (evidential, evidential, evidential_output),
    "local": (lambda net, x, y: net.kl() / N + F.cross_entropy(net.local(x), y),
              lambda net, x, y: net.kl() / N + F.cross_entropy(net(x), y), lambda net, x: net.local(x)),
    "dropout 5": (dropped, None,
                  lambda net, x: net.dropped(x.repeat(DRAWS, 1, 1, 1)).view(DRAWS, -1, 10).softmax(-1).mean(0)),
}


def load(key, loss):
    record = Record("lenet", key)
    net, data = Network(record), {k: torch.from_numpy(v) for k, v in record.data.items()}
    x, y = data["x"], data["labels"]
    more = (data["noise"],) if "noise" in data else ()
    net.train(key != "LeNet5 dropout 5")
    value = loss(net, x, y, *more)
    gradients = torch.autograd.grad(value, list(net.names.values()), allow_unused=True)
    found = {k: torch.zeros_like(p) if g is None else g for (k, p), g in zip(net.names.items(), gradients)}
    record.check(value.detach(), {k: (g.T if g.ndim == 2 else g).numpy() for k, g in found.items()})
    net.train()
    return net, x, y


def measure(name):
    loss, checked, output = ROWS[name]
    net, x, y = load("LeNet5 " + name, checked or loss)
    for form in ({"foreach": False}, {"foreach": True}, {"fused": True}):
        optimiser = torch.optim.Adam(net.parameters(), lr=1e-4, **form)

        def step():
            optimiser.zero_grad()
            loss(net, x, y).backward()
            optimiser.step()

        clock.row(f"LeNet5 {name} step", "PyTorch", step)

    def forward():
        with torch.no_grad():
            output(net, x)

    clock.row(f"LeNet5 {name} forward", "PyTorch", forward)


def certificate(key, drawn, draws=2, floor=1e-5):
    """Sums of errors and log-losses of draws, and the divergence in double, as a certificate needs them."""
    net, x, y = load(key, lambda net, x, y: F.cross_entropy(net(x), y))

    def run():
        with torch.no_grad():
            errors = losses = 0
            for _ in range(draws):
                f = drawn(net)(x)
                errors = errors + (f.argmax(-1) != y).double().sum().item()
                p = f.log_softmax(-1).gather(-1, y[:, None])[:, 0]
                losses = losses + (p.clamp(min=math.log(floor)).double() / math.log(floor)).sum().item()
            total = sum((0.5 * (((2 * s).exp() + m.square()) / PRIOR**2 - 1) - s + math.log(PRIOR)).sum().item()
                        for m, s in zip(map(torch.Tensor.double, net.means), map(torch.Tensor.double, net.scales)))
            return errors, losses, total

    print(f"{key}\tPyTorch\t{clock.best(run) / draws / len(x):.6g}", flush=True)


for name in ROWS:
    if clock.wanted(name.split()[0]):
        measure(name)
if clock.wanted("certificate"):
    certificate("certificate dense", lambda net: net.local)
    certificate("certificate convolutional", Network.drawn)
