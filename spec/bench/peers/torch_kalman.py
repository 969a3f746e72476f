"""Predict and update of 3200 Kalman filters in PyTorch, batched by hand, float64, one thread."""
import math

import torch

import clock

torch.set_num_threads(1)
torch.manual_seed(1)


def step(mean, cov, a, b, q, y, c, d, r):
    mean = mean @ a.T + b
    cov = a @ cov @ a.T + q
    innovation = y - mean @ c.T - d
    half = c @ cov
    s = half @ c.T + r
    lower = torch.linalg.cholesky_ex(s)[0]
    gain = torch.cholesky_solve(half, lower).mT
    white = torch.linalg.solve_triangular(lower, innovation[..., None], upper=False)[..., 0]
    log_prob = (-0.5 * white.square().sum(-1) - lower.diagonal(dim1=-2, dim2=-1).log().sum(-1)
                - 0.5 * y.shape[-1] * math.log(2 * math.pi))
    mean = mean + (gain @ innovation[..., None])[..., 0]
    left = torch.eye(a.shape[0], dtype=a.dtype) - gain @ c
    return mean, left @ cov @ left.mT + gain @ r @ gain.mT, log_prob


def measure(n, p, batch=3200):
    double = torch.float64
    x = [torch.randn(batch, n, dtype=double), torch.eye(n, dtype=double).repeat(batch, 1, 1),
         0.3 * torch.randn(n, n, dtype=double), torch.randn(n, dtype=double), torch.eye(n, dtype=double),
         torch.randn(batch, p, dtype=double), torch.randn(p, n, dtype=double), torch.randn(p, dtype=double),
         torch.eye(p, dtype=double)]
    key = f"Kalman {n}, {p}"
    with torch.no_grad():
        clock.row(key, "PyTorch", lambda: step(*x))
    for t in x:
        t.requires_grad_()

    def gradient():
        mean, cov, log_prob = step(*x)
        torch.autograd.grad(mean.sum() + cov.sum() + log_prob.sum(), x)

    clock.row(key + ", gradient", "PyTorch", gradient)


measure(4, 2)
measure(10, 4)
