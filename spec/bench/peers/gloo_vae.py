"""The same step of a variational autoencoder (spec/mpi/vae_step.lua) by PyTorch's DistributedDataParallel over gloo, and
gloo's all_reduce: lines name<TAB>value<TAB>unit of rank 0.
  gloo_vae.py RANKS step|weak|all_reduce"""
import os
import sys
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(784, 400), nn.ReLU(), nn.Linear(400, 40))
        self.decoder = nn.Sequential(nn.Linear(20, 400), nn.ReLU(), nn.Linear(400, 784))

    def forward(self, x):
        loc, log_scale = self.encoder(x).chunk(2, 1)
        log_scale = log_scale * 0.5
        z = loc + log_scale.exp() * torch.randn_like(loc)
        nats = nn.functional.binary_cross_entropy_with_logits(self.decoder(z), x, reduction="none").sum(1)
        kl = ((loc.square() + (2 * log_scale).exp() - 1) * 0.5 - log_scale).sum(1)
        return (nats + kl).mean()


def best(count, rounds, f):
    least = float("inf")
    for _ in range(rounds):
        dist.barrier()
        start = time.perf_counter()
        for _ in range(count):
            f()
        least = min(least, (time.perf_counter() - start) / count)
    return least


def step(rank, size, weak):
    torch.manual_seed(1)
    model = nn.parallel.DistributedDataParallel(Autoencoder())
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    x = (torch.rand(256 if weak else 512 // size, 784) > 0.5).float()

    def once():
        opt.zero_grad()
        model(x).backward()
        opt.step()

    for _ in range(3):
        once()
    value = best(1, 40, once)
    if rank == 0:
        print(f"step\t{value * 1e3:.6g}\tms", flush=True)


def all_reduce(rank):
    for exponent in (10, 14, 18, 20, 22, 24, 26):
        t = torch.ones(2**exponent // 4)
        count = 100 if exponent < 18 else 5 if exponent < 24 else 2
        value = best(count, 8, lambda: dist.all_reduce(t))
        t.fill_(1)
        if rank == 0:
            print(f"all_reduce {2**exponent} bytes\t{value * 1e6:.6g}\tus", flush=True)


def run(rank, size, what, path):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="file://" + path, rank=rank, world_size=size)
    if what == "all_reduce":
        all_reduce(rank)
    else:
        step(rank, size, what == "weak")
    dist.destroy_process_group()


if __name__ == "__main__":
    ranks = int(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(run, (ranks, sys.argv[2], os.path.join(folder, "meeting")), ranks)
