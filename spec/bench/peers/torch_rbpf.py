"""Rao-Blackwellised filters in PyTorch: 64 particles for each of 50 series, 3 labels, 10 steps, float64, one thread."""
import math

import torch

import clock

torch.set_num_threads(1)
torch.manual_seed(1)
LABELS, NUM, BATCH, STEPS = 3, 64, 50, 10
FLOOR = 0.5 * NUM


def kalman(mean, cov, a, q, y, c, r, identity):
    mean = (a @ mean[..., None])[..., 0]
    cov = a @ cov @ a.mT + q
    innovation = y - (c @ mean[..., None])[..., 0]
    half = c @ cov
    lower = torch.linalg.cholesky_ex(half @ c.mT + r)[0]
    gain = torch.cholesky_solve(half, lower).mT
    white = torch.linalg.solve_triangular(lower, innovation[..., None], upper=False)[..., 0]
    log_prob = (-0.5 * white.square().sum(-1) - lower.diagonal(dim1=-2, dim2=-1).log().sum(-1)
                - 0.5 * y.shape[-1] * math.log(2 * math.pi))
    left = identity - gain @ c
    return mean + (gain @ innovation[..., None])[..., 0], left @ cov @ left.mT + gain @ r @ gain.mT, log_prob


def draw(log_p):
    """A label each by its cumulative probabilities; the slope of its log-probability, of value 0."""
    cumulative = log_p.detach().exp().cumsum(-1)
    u = torch.rand(*log_p.shape[:-1], 1, dtype=log_p.dtype) * cumulative[..., -1:]
    s = (u > cumulative).sum(-1)
    chosen = log_p.gather(-1, s[..., None])[..., 0]
    return s, chosen - chosen.detach()


def resample(log_w, s, mean, cov):
    """Systematic, in series whose effective sample size is at most FLOOR."""
    with torch.no_grad():
        w = log_w.exp()
        due = 1 / w.square().sum(0) <= FLOOR
        if not due.any():
            return log_w, s, mean, cov
        cumulative = w.T.cumsum(-1)
        at = (torch.arange(NUM, dtype=w.dtype) + torch.rand(BATCH, 1, dtype=w.dtype)) / NUM * cumulative[:, -1:]
        ancestors = torch.searchsorted(cumulative.contiguous(), at.contiguous()).clamp_(max=NUM - 1).T
        own = torch.arange(NUM)[:, None]
        ancestors = torch.where(due, ancestors, own)
    log_w = torch.where(due, torch.full_like(log_w, -math.log(NUM)), log_w)
    series = torch.arange(BATCH)
    return log_w, s[ancestors, series], mean[ancestors, series], cov[ancestors, series]


def run(y, mean0, cov0, a, c, q, r, logits, identity):
    log_w = torch.full((NUM, BATCH), -math.log(NUM), dtype=y.dtype)
    evidence = 0
    log_p = logits.log_softmax(-1)
    for t in range(STEPS):
        if t == 0:
            s = torch.randint(LABELS, (NUM, BATCH))
            mean, cov, slope = mean0.expand(NUM, BATCH, -1), cov0.expand(NUM, BATCH, -1, -1), 0
        else:
            log_w, s, mean, cov = resample(log_w, s, mean, cov)
            s, slope = draw(log_p[s])
        mean, cov, log_prob = kalman(mean, cov, a[s], q[s], y[t], c[s], r[s], identity)
        log_w = log_w + log_prob + slope
        increment = log_w.logsumexp(0)
        log_w = log_w - increment
        evidence = evidence + increment
    return evidence


def measure(n, p):
    double = torch.float64
    x = [0.5 / n ** 0.5 * torch.randn(LABELS, n, n, dtype=double), torch.randn(LABELS, p, n, dtype=double),
         torch.eye(n, dtype=double).repeat(LABELS, 1, 1), torch.eye(p, dtype=double).repeat(LABELS, 1, 1),
         torch.randn(LABELS, LABELS, dtype=double)]
    identity = torch.eye(n, dtype=double)
    prior = torch.zeros(n, dtype=double), identity
    y = torch.randn(STEPS, BATCH, p, dtype=double)
    key = f"RBPF {n}, {p}"
    with torch.no_grad():
        clock.row(key, "PyTorch", lambda: run(y, *prior, *x, identity))
    for t in x:
        t.requires_grad_()
    clock.row(key + ", gradient", "PyTorch",
              lambda: torch.autograd.grad(run(y, *prior, *x, identity).sum(), x))


measure(4, 2)
measure(10, 4)
