"""The rows of training.lua in PyTorch, eager, float32, one thread. Of Adam's three forms the fastest counts."""
import math

import torch
from torch import nn
from torch.nn import functional as F

import clock

torch.set_num_threads(1)
torch.manual_seed(1)


class BayesLinear(nn.Module):
    """Outputs drawn from their normal given the weights' means and standard deviations (local reparametrisation)."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.mean = nn.Parameter(torch.randn(inputs, outputs) / math.sqrt(inputs))
        self.rho = nn.Parameter(torch.full((inputs, outputs), -5.0))
        self.bias_mean = nn.Parameter(torch.zeros(outputs))
        self.bias_rho = nn.Parameter(torch.full((outputs,), -5.0))

    def forward(self, x):
        variance = torch.addmm(F.softplus(self.bias_rho).square(), x.square(), F.softplus(self.rho).square())
        mean = torch.addmm(self.bias_mean, x, self.mean)
        return mean + variance.sqrt() * torch.randn_like(mean)

    def kl(self):
        """From N(mean, softplus(rho)^2) to N(0, 1)."""
        total = 0
        for mean, rho in ((self.mean, self.rho), (self.bias_mean, self.bias_rho)):
            scale = F.softplus(rho)
            total = total + (0.5 * (mean.square() + scale.square() - 1) - scale.log()).sum()
        return total


def regression(inputs, net):
    x, y = torch.randn(32, inputs), torch.randn(32, 1)
    return net, lambda: F.mse_loss(net(x), y)


def small():
    return regression(1, nn.Sequential(nn.Linear(1, 50), nn.ReLU(), nn.Linear(50, 1)))


def deep():
    return regression(64, nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1)))


def bayesian():
    net = nn.Sequential(BayesLinear(13, 50), nn.ReLU(), BayesLinear(50, 1))
    x, y, constant = torch.randn(32, 13), torch.randn(32, 1), 32 * (math.log(0.1) + 0.5 * math.log(2 * math.pi))

    def loss():
        ll = (net(x) - y).square().sum() * -50 - constant
        return -(ll * (506 / 32) - (net[0].kl() + net[2].kl())) / 506

    return net, loss


def classifier(batch, inputs, hidden, outputs):
    net = nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, outputs))
    x, label = torch.rand(batch, inputs), torch.arange(batch) % outputs
    return net, lambda: F.cross_entropy(net(x), label)


def autoencoder():
    encoder = nn.Sequential(nn.Linear(784, 200), nn.Tanh(), nn.Linear(200, 200), nn.Tanh(), nn.Linear(200, 80))
    decoder = nn.Sequential(nn.Linear(40, 200), nn.Tanh(), nn.Linear(200, 200), nn.Tanh(), nn.Linear(200, 784))
    return nn.ModuleList([encoder, decoder]), encoder, decoder, torch.rand(100, 784).round()


def vae():
    net, encoder, decoder, x = autoencoder()

    def loss():
        mean, log_variance = encoder(x).chunk(2, 1)
        z = mean + (0.5 * log_variance).exp() * torch.randn_like(mean)
        kl = 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum()
        return (F.binary_cross_entropy_with_logits(decoder(z), x, reduction="sum") + kl) / 100

    return net, loss


def iwae():
    net, encoder, decoder, x = autoencoder()

    def loss():
        mean, log_variance = encoder(x).chunk(2, 1)
        noise = torch.randn(50, 100, 40)
        z = mean + (0.5 * log_variance).exp() * noise
        logits = decoder(z)
        log_w = -F.binary_cross_entropy_with_logits(logits, x.expand_as(logits), reduction="none").sum(2)
        log_w = log_w + 0.5 * (noise.square() + log_variance - z.square()).sum(2)
        return -(log_w.logsumexp(0).mean() - math.log(50))

    return net, loss


def gru():
    net, x = nn.GRU(8, 32), torch.randn(50, 16, 8)
    return net, lambda: net(x)[0].square().mean()


def squares(net, *shape):
    x = torch.randn(*shape)

    def loss():
        out = net(x)
        return (out[0] if isinstance(out, tuple) else out).square().mean()

    return net, loss


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(256, 4, batch_first=True)

    def forward(self, x):
        return self.attention(x, x, x, need_weights=False)


def labelled(net, *shape, kl=None):
    x, label = torch.rand(*shape), torch.arange(shape[0]) % 10
    if kl is None:
        return net, lambda: F.cross_entropy(net(x), label)
    return net, lambda: F.cross_entropy(net(x), label) + kl(net) / 60000


def lenet():
    net = nn.Sequential(nn.Conv2d(1, 20, 5, stride=2), nn.ReLU(), nn.Conv2d(20, 50, 5, stride=2), nn.ReLU(),
                        nn.Flatten(), nn.Linear(800, 500), nn.ReLU(), nn.Linear(500, 10))
    return labelled(net, 100, 1, 28, 28)


class Normal(nn.Module):
    """A parameter with a normal posterior, by mean and logarithm of the scale, and the prior N(0, prior^2)."""

    def __init__(self, prior, *shape, fan):
        super().__init__()
        self.mean = nn.Parameter(torch.randn(shape) / math.sqrt(fan))
        self.log_scale = nn.Parameter(torch.full(shape, -3.0))
        self.prior = prior

    def kl(self):
        variance = (2 * self.log_scale).exp()
        return (0.5 * ((variance + self.mean.square()) / self.prior**2 - 1) - self.log_scale + math.log(self.prior)).sum()


def total_kl(net):
    return sum(m.kl() for m in net.modules() if isinstance(m, Normal))


class MomentLayer(nn.Module):
    """Mean and variance through a linear map with normal weights; ReLU by matching its first two moments."""

    def __init__(self, apply, relu, fan, weight, bias):
        super().__init__()
        self.apply_map, self.relu = apply, relu
        self.w, self.b = Normal(0.1, *weight, fan=fan), Normal(0.1, *bias, fan=fan)

    def forward(self, m, v):
        w, b, s, t = self.w.mean, self.b.mean, (2 * self.w.log_scale).exp(), (2 * self.b.log_scale).exp()
        mean = self.apply_map(m, w, b)
        variance = self.apply_map(m.square() if v is None else m.square() + v, s, t)
        if v is not None:
            variance = variance + self.apply_map(v, w.square(), None)
        if not self.relu:
            return mean, variance
        scale = variance.sqrt()
        a = mean / scale
        cdf, pdf = 0.5 * torch.special.erfc(a * -math.sqrt(0.5)), torch.exp(-0.5 * a.square()) / math.sqrt(2 * math.pi)
        out = mean * cdf + scale * pdf
        return out, (mean.square() + variance) * cdf + mean * scale * pdf - out.square()


class MomentLeNet(nn.Module):
    def __init__(self):
        super().__init__()
        conv = lambda x, w, b: F.conv2d(x, w, b, stride=2)
        self.layers = nn.ModuleList([
            MomentLayer(conv, True, 25, (20, 1, 5, 5), (20,)), MomentLayer(conv, True, 500, (50, 20, 5, 5), (50,)),
            MomentLayer(F.linear, True, 800, (500, 800), (500,)), MomentLayer(F.linear, False, 500, (10, 500), (10,))])

    def forward(self, m):
        v = None
        for k, layer in enumerate(self.layers):
            if k == 2:
                m, v = m.flatten(1), v.flatten(1)
            m, v = layer(m, v)
        return m, v


def lenet_moments():
    net, x, label = MomentLeNet(), torch.rand(100, 1, 28, 28), torch.arange(100) % 10

    def loss():
        m, v = net(x)
        z = m.softmax(-1)
        return F.cross_entropy(m, label) + 0.5 * (v * (z - z.square())).sum(-1).mean() + total_kl(net) / 60000

    return net, loss


class EstimatedLinear(nn.Module):
    def __init__(self, estimator, inputs, outputs):
        super().__init__()
        self.estimator = estimator
        self.w, self.b = Normal(1, outputs, inputs, fan=inputs), Normal(1, outputs, fan=inputs)

    def forward(self, x):
        w, b, s, t = self.w.mean, self.b.mean, self.w.log_scale, self.b.log_scale
        if self.estimator == "local":
            mean = F.linear(x, w, b)
            variance = F.linear(x.square(), (2 * s).exp(), (2 * t).exp())
            return mean + variance.sqrt() * torch.randn_like(mean)
        drawn_b = b + t.exp() * torch.randn_like(b)
        noise = s.exp() * torch.randn_like(w)
        if self.estimator == "weights":
            return F.linear(x, w + noise, drawn_b)
        signs_in = torch.randint(0, 2, x.shape).to(x.dtype) * 2 - 1
        signs_out = torch.randint(0, 2, (x.shape[0], w.shape[0])).to(x.dtype) * 2 - 1
        return F.linear(x, w, drawn_b) + F.linear(x * signs_in, noise) * signs_out


def estimated(estimator):
    net = nn.Sequential(EstimatedLinear(estimator, 784, 400), nn.ReLU(), EstimatedLinear(estimator, 400, 10))
    return labelled(net, 100, 784, kl=total_kl)


def per_example():
    from torch.func import functional_call, grad, vmap

    net = nn.Sequential(nn.Linear(784, 100), nn.ReLU(), nn.Linear(100, 10))
    held = {k: v.detach() for k, v in net.named_parameters()}
    x, label = torch.randn(512, 784), torch.randint(0, 10, (512,))

    def loss(p, a, b):
        return F.cross_entropy(functional_call(net, p, (a[None],)), b[None])

    return lambda: vmap(grad(loss), in_dims=(None, 0, 0))(held, x, label)


def gaussian_process():
    x = torch.linspace(0, 4, 400, dtype=torch.float64)[:, None]
    y = torch.sin(3 * x)[:, 0] + 0.1 * torch.sin(50 * x)[:, 0]
    w, distance, eye = torch.zeros(3, dtype=torch.float64, requires_grad=True), (x - x.T).square(), torch.eye(400)

    def run():
        with torch.no_grad():
            w.zero_()
        optimiser = torch.optim.LBFGS([w], lr=1, max_iter=10, line_search_fn="strong_wolfe")

        def closure():
            optimiser.zero_grad()
            length, scale, noise = w.exp().unbind()
            k = torch.exp(distance * (-0.5 / length.square())) * scale.square() + eye * (noise.square() + 1e-6)
            lower = torch.linalg.cholesky(k)
            z = torch.linalg.solve_triangular(lower, y[:, None], upper=False)
            loss = 0.5 * z.square().sum() + lower.diagonal().log().sum()
            loss.backward()
            return loss

        optimiser.step(closure)

    return run


def measure(key, net, loss, update=True):
    parameters = list(net.parameters())

    def gradients():
        torch.autograd.grad(loss(), parameters)

    def step_of(optimiser):
        def step():
            optimiser.zero_grad()
            loss().backward()
            optimiser.step()

        return step

    if not update:
        return clock.row(key, "PyTorch", gradients)
    forms = ({"foreach": False}, {"foreach": True}, {"fused": True})
    for form in forms:
        clock.row(key, "PyTorch", step_of(torch.optim.Adam(parameters, lr=1e-4, **form)))


# Names as in training.lua.
STEPS = {
    "small": ("1-50-1", small),
    "deep": ("64-64-64-1", deep),
    "bayesian": ("Bayesian 13-50-1", bayesian),
    "classifier": ("784-64-10", lambda: classifier(64, 784, 64, 10)),
    "wide_classifier": ("784-400-20", lambda: classifier(100, 784, 400, 20)),
    "vae": ("VAE", vae),
    "iwae": ("IWAE K=50", iwae),
    "gru": ("GRU 8-32", gru),
    "gru128": ("GRU 64-128", lambda: squares(nn.GRU(64, 128), 100, 32, 64)),
    "lstm128": ("LSTM 64-128", lambda: squares(nn.LSTM(64, 128), 100, 32, 64)),
    "attention": ("attention 4x64", lambda: squares(Attention(), 8, 128, 256)),
    "lenet": ("LeNet5", lenet),
    "lenet_moments": ("LeNet5 moments", lenet_moments),
    "bayesian_local": ("Bayesian 784-400-10, local", lambda: estimated("local")),
    "bayesian_weights": ("Bayesian 784-400-10, weights", lambda: estimated("weights")),
    "bayesian_flipout": ("Bayesian 784-400-10, flipout", lambda: estimated("flipout")),
}


def product():
    """Shows whether the processor level that was asked for is kept: a product of 768 x 768."""
    x = torch.randn(768, 768)
    return lambda: x @ x


OTHERS = {
    "product": ("product 768", product),
    "per_example": ("per-example gradients", per_example),
    "gaussian_process": ("L-BFGS on a GP", gaussian_process),
}

for name, (key, make) in STEPS.items():
    if clock.wanted(name):
        measure(key, *make(), update=name != "gru")
for name, (key, make) in OTHERS.items():
    if clock.wanted(name):
        clock.row(key, "PyTorch", make())
