"""The dense network of lenet.lua with means and variances in pytagi 0.2.1 (which refuses LeNet5's strides), its rectifier
by matching moments (MixtureReLU), one thread. What passes is the same, what a step does is not: it updates means and variances of the weights by Gaussian
conditioning (Goulet, Nguyen & Amiri 2021), with no loss, so nothing is held to ours."""
import sys

import numpy as np

import clock

try:
    import pytagi
    from pytagi import nn
except ImportError as why:  # it wants libraries of Open MPI from the system
    sys.exit(print(f"pytagi cannot be loaded: {why}", file=sys.stderr))

pytagi.manual_seed(1)
BATCH = 100


def main():
    net = nn.Sequential(nn.Linear(784, 500), nn.MixtureReLU(), nn.Linear(500, 500), nn.MixtureReLU(), nn.Linear(500, 10))
    net.set_threads(1)
    updater = nn.OutputUpdater(net.device)
    rng = np.random.default_rng(1)
    x = rng.random((BATCH, 784), dtype=np.float32).ravel()
    y = np.zeros((BATCH, 10), dtype=np.float32)
    y[np.arange(BATCH), np.arange(BATCH) % 10] = 1
    noise = np.full(BATCH * 10, 0.01, dtype=np.float32)

    def forward():
        net(x)
        return net.get_outputs()

    def step():
        net(x)
        updater.update(output_states=net.output_z_buffer, mu_obs=y.ravel(), var_obs=noise,
                       delta_states=net.input_delta_z_buffer)
        net.backward()
        net.step()

    mean, variance = forward()
    assert len(mean) == BATCH * 10 and np.isfinite(mean).all() and (np.asarray(variance) > 0).all()
    clock.row("dense matching step", "pytagi", step)
    clock.row("dense matching forward", "pytagi", forward)


if clock.wanted("dense"):
    main()
