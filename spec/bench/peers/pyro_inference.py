"""The rows of inference.lua in Pyro: of Trace_ELBO, TraceMeanField_ELBO and JitTrace_ELBO (RenyiELBO with alpha = 0, whose
particles stand side by side) the fastest counts."""
import json
import os
import pathlib
import time

import clock
import pyro
import pyro.distributions as dist
import torch
from pyro import infer, optim
from pyro.infer.autoguide import AutoNormal
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(1)
pyro.enable_validation(False)
FOLDER = pathlib.Path(os.environ.get("BUILD", "build")) / "peers-data"


def data(name, *keys):
    given = json.loads((FOLDER / f"{name}.json").read_text())
    return [torch.tensor(given[key], dtype=torch.float64) for key in keys]


def logistic(x, y):
    beta = pyro.sample("beta", dist.Normal(x.new_zeros(15), 1).to_event(1))
    with pyro.plate("rows", 690):
        pyro.sample("y", dist.Bernoulli(logits=(x @ beta.unsqueeze(-1)).squeeze(-1)), obs=y)


def eight_schools(y, sigma):
    mu = pyro.sample("mu", dist.Normal(y.new_zeros(()), 5))
    tau = pyro.sample("tau", dist.HalfCauchy(y.new_full((), 5.0)))
    with pyro.plate("schools", 8):
        eta = pyro.sample("eta", dist.Normal(y.new_zeros(()), 1))
        pyro.sample("y", dist.Normal(mu + tau * eta, sigma), obs=y)


def vae():
    def net(*sizes):
        layers = [f for a, b in zip(sizes, sizes[1:]) for f in (nn.Linear(a, b), nn.Tanh())]
        return nn.Sequential(*layers[:-1])

    encoder, decoder = net(784, 200, 200, 80), net(40, 200, 200, 784)

    def model(x):
        pyro.module("decoder", decoder)
        with pyro.plate("rows", 100):
            z = pyro.sample("z", dist.Normal(x.new_zeros(40), 1).to_event(1))
            pyro.sample("x", dist.Bernoulli(logits=decoder(z)).to_event(1), obs=x)

    def guide(x):
        pyro.module("encoder", encoder)
        mean, log_variance = encoder(x).chunk(2, 1)
        with pyro.plate("rows", 100):
            pyro.sample("z", dist.Normal(mean, (0.5 * log_variance).exp()).to_event(1))

    return model, guide, [torch.rand(100, 784).round()]


def measure(name, model, guide, given, draws):
    several = {"num_particles": draws, "vectorize_particles": True, "max_plate_nesting": 1}
    losses = {"elbo": [infer.Trace_ELBO(), infer.TraceMeanField_ELBO(),
                       infer.JitTrace_ELBO(ignore_jit_warnings=True)],
              "iwae": [infer.RenyiELBO(alpha=0, **several)]}
    for estimator, list_ in losses.items():
        for loss in list_:
            pyro.clear_param_store()
            start = time.process_time()
            svi = infer.SVI(model, guide(model) if guide is AutoNormal else guide, optim.Adam({"lr": 1e-4}), loss)
            svi.step(*given)
            if loss is list_[0]:
                print(f"{estimator} {name} first\tPyro\t{time.process_time() - start:.6g}", flush=True)
            clock.row(f"{estimator} {name}", "Pyro", lambda: svi.step(*given))


torch.set_default_dtype(torch.float64)
measure("eight_schools", eight_schools, AutoNormal, data("eight_schools", "y", "sigma"), 10)
measure("logistic", logistic, AutoNormal, data("logistic", "x", "y"), 10)
torch.set_default_dtype(torch.float32)
measure("VAE", *vae(), 50)
