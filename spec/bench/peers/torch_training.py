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


def measure(key, make, update=True):
    net, loss = make()
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


measure("1-50-1", small)
measure("64-64-64-1", deep)
measure("Bayesian 13-50-1", bayesian)
measure("784-64-10", lambda: classifier(64, 784, 64, 10))
measure("784-400-20", lambda: classifier(100, 784, 400, 20))
measure("VAE", vae)
measure("IWAE K=50", iwae)
measure("GRU 8-32", gru, update=False)
