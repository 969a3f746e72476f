"""The equations of stochastic.lua by torchsde, one thread, float32."""
import time

import nearby
import torch
import torchsde

torch.set_num_threads(1)
PATHS, STEPS = 100000, 1000


class Brownian(torch.nn.Module):
    noise_type, sde_type = "diagonal", "ito"

    def f(self, t, y):
        return 0.5 * y

    def g(self, t, y):
        return 0.3 * y


class Lorenz(torch.nn.Module):
    noise_type, sde_type = "additive", "ito"

    def f(self, t, h):
        x, y, z = h[:, :1], h[:, 1:2], h[:, 2:]
        return torch.cat([10 * (y - x), 28 * x - y - x * z, x * y - 2.67 * z], 1)

    def g(self, t, h):
        return torch.eye(3).expand(h.shape[0], 3, 3)


class Diagonal(Lorenz):
    noise_type = "diagonal"

    def g(self, t, h):
        return torch.ones_like(h)


start = torch.tensor([[1.0, 1.0, 28.0]])
for key, sde, y0, end, method in (
        ("GBM Euler-Maruyama", Brownian(), torch.ones(1, 1), 1.0, "euler"),
        ("GBM Milstein", Brownian(), torch.ones(1, 1), 1.0, "milstein"),
        ("Lorenz Euler-Maruyama", Diagonal(), start, 0.1, "euler"),
        ("Lorenz SRA1", Lorenz(), start, 0.1, "srk")):
    y0, best = y0.expand(PATHS, -1).contiguous(), float("inf")
    with torch.no_grad():
        for _ in range(2):
            began = time.process_time()
            y = torchsde.sdeint(sde, y0, torch.tensor([0.0, end]), dt=end / STEPS, method=method)[1]
            best = min(best, time.process_time() - began)
    nearby.check(key, y.numpy())
    print(f"{key}\ttorchsde\t{best:.6g}", flush=True)
