"""What nutpie_sampling.py and stanli_sampling.py share: the posteriors that reference_posteriors.lua has written,
effective draws, nutpie on a library with BridgeStan's interface, and rows."""
import os
import pathlib
import time
import warnings

warnings.filterwarnings("ignore")

import arviz  # noqa: E402
import nutpie  # noqa: E402
import numpy as np  # noqa: E402
from nutpie import _lib  # noqa: E402
from nutpie.compile_stan import CompiledStanModel  # noqa: E402

SEEDS = int(os.environ.get("SEEDS", 3))
FOLDER = pathlib.Path(os.environ.get("BUILD", "build")).resolve() / "peers-data" / "bridge"
NAMES = sorted(p.stem for p in FOLDER.glob("*.so"))


def effective(x):
    """The least of bulk, tail and squares over all columns of draws [chains, draws, n]."""
    apart = (x - x.mean((0, 1))) ** 2
    ways = (x, "bulk"), (x, "tail"), (apart, "bulk")
    return min(float(arviz.ess(v[:, :, j], method=m)) for v, m in ways for j in range(x.shape[2]))


def report(name, who, runs):
    """runs: (seconds, gradients, draws [chains, draws, n]) of each seed."""
    rows = {"gradients": [], "draw": [], "gradient": []}
    for seconds, gradients, x in runs:
        n = effective(x)
        rows["gradients"].append(gradients / n)
        rows["draw"].append(seconds / n)
        rows["gradient"].append(seconds / gradients)
    for what, values in rows.items():
        print(f"{what} {name}\t{who}\t{sorted(values)[len(values) // 2]:.6g}", flush=True)


def compiled(library, data):
    """The model of a library, as nutpie's compile_stan_model gives it; data as JSON."""
    model = CompiledStanModel(code="", library=_lib.StanLibrary(str(library)), dims={}, _coords={}, data=None,
                              model=None)
    inner = _lib.StanModel(model.library, {}, {}, {}, 1, data, None)
    return CompiledStanModel(code="", library=model.library, dims={}, _coords={}, data={}, model=inner)


def by_nutpie(model, variables, low_rank, seed, **settings):
    """nutpie with its own warm-up: seconds, gradients, draws [chains, draws, n] of these variables."""
    start = time.process_time()
    sampler = nutpie.sample(model, draws=1000, chains=4, cores=1, seed=seed, progress_bar=False, blocking=False,
                            low_rank_modified_mass_matrix=low_rank, **settings)
    sampler._sampler.wait(None)  # sampler.wait() is this, and makes the trace, which is no part of the time
    seconds = time.process_time() - start
    trace = sampler.wait()
    gradients = int(trace.sample_stats["n_steps"].values.sum() + trace.warmup_sample_stats["n_steps"].values.sum())
    columns = [trace.posterior[v].values for v in variables]
    return seconds, gradients, np.concatenate([c.reshape(*c.shape[:2], -1) for c in columns], 2)
