"""Gaussian sites as in sites.lua, in PyTorch: vmap over draws and data of grad, and for the sums vjp and jvp of all data
at once, in chunks of draws, float32, one thread. The best of some chunk sizes counts."""
import torch
from torch.func import grad_and_value, jvp, vjp, vmap

import clock

torch.set_num_threads(1)
torch.manual_seed(1)

CASES = [("Yacht", [6, 16, 16, 1], 25, "normal", 2048, [16, 64, 256]),
         ("Spam", [57, 32, 32, 1], 50, "bernoulli", 512, [4, 16, 64]),
         ("MNIST", [784, 64, 64, 10], 400, "categorical", 4, [1, 4])]


def log_p(likelihood, layers, x, y):
    for k in range(0, len(layers), 2):
        x = x @ layers[k] + layers[k + 1]
        x = torch.tanh(x) if k + 2 < len(layers) else x
    if likelihood == "normal":
        return -0.5 * ((y - x[..., 0]) / 0.5) ** 2
    if likelihood == "bernoulli":
        return -torch.nn.functional.softplus((1 - 2 * y) * x[..., 0])
    return (torch.log_softmax(x, -1) * y).sum(-1)


def measure(name, widths, n, likelihood, draws, chunks):
    mean = []
    for a, b in zip(widths, widths[1:]):
        mean += [0.1 * torch.randn(a, b), 0.1 * torch.randn(b)]
    scale = [torch.full_like(m, 0.1) for m in mean]
    x = torch.randn(n, widths[0])
    y = (torch.nn.functional.one_hot(torch.randint(0, 10, (n,)), 10).float() if likelihood == "categorical"
         else torch.randn(n) if likelihood == "normal" else (torch.randn(n) > 0).float())
    one = grad_and_value(lambda w, a, b: log_p(likelihood, w, a, b))
    gradients = vmap(vmap(one, (None, 0, 0)), (0, None, None))

    def each(eps, w):
        g, value = gradients(w, x, y)
        return [value.sum(0)] + [v.sum(0) for v in g] + [torch.einsum("sn...,s...->n...", v, e) for v, e in zip(g, eps)]

    def of_draw(eps, w):
        def f(*w):
            return log_p(likelihood, w, x, y)

        along = tuple(m - e * (m * m / s - s) / 2 for m, s, e in zip(mean, scale, eps))
        _, site = jvp(f, tuple(w), along)
        value, back = vjp(f, *w)
        return value, site, back(torch.ones(n))

    def total(eps, w):
        value, site, g = vmap(of_draw)(eps, w)
        return [value.sum(0), site.sum(0)] + [v.sum(0) for v in g] + [(v * e).sum(0) for v, e in zip(g, eps)]

    for key, part in (("sites, " + name, each), ("sums of sites, " + name, total)):
        best = float("inf")
        for chunk in chunks:
            def run(part=part, chunk=chunk):
                sums = None
                for _ in range(draws // chunk):
                    eps = [torch.randn(chunk, *m.shape) for m in mean]
                    more = part(eps, [m + s * e for m, s, e in zip(mean, scale, eps)])
                    if sums is None:
                        sums = [v.clone() for v in more]
                    else:
                        for s, v in zip(sums, more):
                            s += v
                return sums

            best = min(best, clock.best(run) / draws)
        print(f"{key}\tPyTorch\t{best:.6g}", flush=True)


for case in CASES:
    measure(*case)
