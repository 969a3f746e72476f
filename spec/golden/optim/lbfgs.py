"""Writes lbfgs.lua: what torch.optim.LBFGS with its strong Wolfe line search, torch's schedulers and averaged models give.

Losses of the plateau are positive: below zero torch's relative threshold is on the wrong side of the best one.
Objective of lbfgs: Rosenbrock's function of (x, y) plus sum_k c_k (z_k - 1)^2 with c = (1, 10, 0.1), as trajectories.py;
each step is one iteration, or twenty. (max_eval also limits the trials of torch's line search: it is no limit here.) Run: python3 lbfgs.py > lbfgs.lua
"""
import torch

torch.set_default_dtype(torch.float64)
C = torch.tensor([1.0, 10.0, 0.1])


def run(steps, **options):
    p = [torch.tensor([-0.5, 0.8], requires_grad=True), torch.tensor([0.0, 2.0, -3.0], requires_grad=True)]
    opt = torch.optim.LBFGS(p, line_search_fn="strong_wolfe", **options)
    out = []

    def closure():
        opt.zero_grad()
        (x, y), z = p
        f = (1 - x) ** 2 + 10 * (y - x * x) ** 2 + (C * (z - 1) ** 2).sum()
        f.backward()
        return f

    for _ in range(steps):
        opt.step(closure)
        out.append([a for t in p for a in t.tolist()])
    return out


def plateau(losses, **options):
    w = torch.zeros(1, requires_grad=True)
    opt = torch.optim.SGD([w], lr=1.0)
    s = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, **options)
    out = []
    for loss in losses:
        s.step(loss)
        out.append(opt.param_groups[0]["lr"])
    return out


def averages(decay):
    net = torch.nn.Linear(1, 1, bias=False)
    fn = torch.optim.swa_utils.get_ema_multi_avg_fn(decay) if decay else None
    mean = torch.optim.swa_utils.AveragedModel(net, multi_avg_fn=fn)
    out = []
    for k in range(1, 8):
        with torch.no_grad():
            net.weight.fill_(k * k * 0.1)
        mean.update_parameters(net)
        out.append(mean.module.weight.item())
    return out


def lua(v):
    return "{" + ", ".join(lua(a) for a in v) + "}" if isinstance(v, list) else repr(float(v))


losses = [5.0, 4.0, 4.0, 3.9999, 4.1, 3.0, 3.5, 3.2, 3.3, 3.4, 3.0, 2.9997, 2.0, 2.1, 2.1, 2.1, 1.0, 0.99999, 0.9, 0.95, 0.2]
print("-- Written by lbfgs.py; do not edit.")
print("return {")
print(f"  single = {lua(run(20, max_iter=1, max_eval=1000))},")
print(f"  short = {lua(run(20, max_iter=1, max_eval=1000, history_size=2, lr=0.5))},")
print(f"  whole = {lua(run(3, max_iter=20, max_eval=1000))},")
print(f"  losses = {lua(losses)},")
print(f"  plateau = {lua(plateau(losses, factor=0.5, patience=2))},")
print(f"  cooled = {lua(plateau(losses, factor=0.5, patience=1, cooldown=2, threshold=0.1, min_lr=0.1))},")
print(f"  ema = {lua(averages(0.9))},")
print(f"  swa = {lua(averages(None))},")
print("}")
