"""The importance weighted autoencoders of mnist.lua by PyTorch: the same networks and initial laws, pixels drawn anew
in each epoch, minibatches, Adam, rates and bound, one thread, float32.
  mnist.lua --data FOLDER --test_images test.npy               writes the test images, black and white
  mnist_torch.py FOLDER test.npy iwae1|iwae2 --epochs 3 --seed 1 --draws 1000 --images 1000 --results iwae.runs"""
import argparse
import gzip
import math
import time

import numpy
import torch
from torch import nn

SIZES = {"iwae1": ([50], [[200, 200]]), "iwae2": ([100, 50], [[200, 200], [100, 100]])}
LOG_2_PI = math.log(2 * math.pi)


def layers(sizes):
    parts = []
    for k in range(len(sizes) - 1):
        linear = nn.Linear(sizes[k], sizes[k + 1])
        nn.init.xavier_normal_(linear.weight)
        nn.init.zeros_(linear.bias)
        parts += [linear, nn.Tanh()]
    return nn.Sequential(*parts[:-1])


def log_normal(z, output):
    loc, log_variance = output.chunk(2, -1)
    return -0.5 * ((z - loc).square() / log_variance.exp() + log_variance + LOG_2_PI).sum(-1)


class Autoencoder(nn.Module):
    """Posteriors up from the data, priors down to it: backward, as in the paper."""

    def __init__(self, latent, hidden, mean):
        super().__init__()
        self.encoder, self.prior, below = nn.ModuleList(), nn.ModuleList(), 784
        for n, sizes in zip(latent, hidden):
            self.encoder.append(layers([below, *sizes, 2 * n]))
            below = n
        for level in range(len(latent) - 1):
            self.prior.append(layers([latent[level + 1], *reversed(hidden[level + 1]), 2 * latent[level]]))
        self.decoder = layers([latent[0], *reversed(hidden[0]), 784])
        if mean is not None:
            mean = mean.clamp(1e-3, 1 - 1e-3)
            self.decoder[-1].bias.data.copy_((mean / (1 - mean)).log())

    def log_weights(self, x, draws):
        total, z, below = 0, [], x
        for level, net in enumerate(self.encoder):
            output = net(below)
            loc, log_variance = output.chunk(2, -1)
            shape = (draws, *loc.shape) if level == 0 else loc.shape
            z.append(loc + (0.5 * log_variance).exp() * torch.randn(shape))
            total = total - log_normal(z[-1], output)
            below = z[-1]
        for level, net in enumerate(self.prior):
            total = total + log_normal(z[level], net(z[level + 1]))
        total = total - 0.5 * (z[-1].square() + LOG_2_PI).sum(-1)
        logits = self.decoder(z[0])
        return total + (x * logits - nn.functional.softplus(logits)).sum(-1)


def bound(model, images, draws):
    sums = []
    with torch.no_grad():
        for x in images.split(20):
            parts = [torch.logsumexp(model.log_weights(x, 100), 0) for _ in range(draws // 100)]
            sums.append(torch.logsumexp(torch.stack(parts), 0) - math.log(draws // 100 * 100))
    return torch.cat(sums).double().mean().item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("test")
    parser.add_argument("model", choices=list(SIZES))
    for name, value in [("epochs", 3), ("seed", 1), ("draws", 1000), ("images", 1000)]:
        parser.add_argument("--" + name, type=int, default=value)
    parser.add_argument("--results")
    o = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(o.seed)
    with gzip.open(o.folder + "/train-images-idx3-ubyte.gz") as file:
        raw = numpy.frombuffer(file.read(), numpy.uint8, offset=16)
    train = torch.tensor(raw.astype(numpy.float32) / 255).reshape(-1, 784)
    test = torch.tensor(numpy.load(o.test))[:o.images].float()
    two = o.model == "iwae2"
    model = Autoencoder(*SIZES[o.model], train.mean(0) if two else None)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    steps, step, start = o.epochs * (len(train) // 20), 0, time.process_time()
    for _ in range(o.epochs):
        for rows in torch.randperm(len(train)).split(20):
            optimiser.param_groups[0]["lr"] = 1e-4 + 0.5 * (1e-3 - 1e-4) * (1 + math.cos(math.pi * step / steps))
            x = (torch.rand(len(rows), 784) < train[rows]).float()
            loss = math.log(50) - torch.logsumexp(model.log_weights(x, 50), 0).mean()
            optimiser.zero_grad()
            loss.backward()
            if two:
                nn.utils.clip_grad_norm_(model.parameters(), 50)
            optimiser.step()
            step += 1
    minutes = (time.process_time() - start) / 60
    line = (f"by=torch model={o.model} epochs={o.epochs} draws={o.draws} images={len(test)} seed={o.seed} "
            f"bound={bound(model, test, o.draws):.6g} minutes={minutes:.4g}")
    print(line)
    if o.results:
        with open(o.results, "a") as file:
            file.write(line + "\n")


main()
