"""Does nutpie, on models written in Lua through libpenumbra_bridge.so, draw from what pn.nuts draws from? Means and
mean squares of all latent variables, by the difference over its Monte Carlo error; fails above 4 (of a normal law that
is 1 of 16,000). The environment needs nutpie and bridgestan.
   BUILD=build python spec/bench/peers/nutpie_agreement.py [NAME]...      eight schools and a regression without any"""
import os
import subprocess
import sys

import arviz
import bridgestan
import effective
import numpy as np

NAMES = sys.argv[1:] or ["eight_schools_noncentered", "kidscore_momiq"]
PATHS = {"LUA_PATH": "lua/?.lua;lua/?/init.lua;;", "LUA_CPATH": os.environ.get("BUILD", "build") + "/lua/?.so;;"}
subprocess.run([os.environ.get("LUA", "lua5.4"), "spec/bench/peers/bridge_models.lua", effective.FOLDER, *NAMES],
               check=True, env=os.environ | PATHS)


def moments(x):
    """Mean and its Monte Carlo error of each row of [n, chains, draws]."""
    return np.array([(v.mean(), v.std(ddof=1) / np.sqrt(float(arviz.ess(v, method="mean")))) for v in x])


worst = 0
for name in NAMES:
    path = effective.FOLDER / f"{name}.so"
    stan = bridgestan.StanModel(path, warn=False)
    variables = list(dict.fromkeys(n.split(".")[0] for n in stan.param_names()))
    model = effective.compiled(path, None)
    ours = np.load(effective.FOLDER / f"{name}.npz")["draws"]
    middle = ours.mean((0, 1))
    for who, low_rank in (("diagonal", False), ("low rank", True)):
        seconds, gradients, x = effective.by_nutpie(model, variables, low_rank, 1)
        z = []
        for power in (1, 2):
            a, b = (moments(np.moveaxis((y - middle * (power - 1)) ** power, 2, 0)) for y in (ours, x))
            z.append(np.abs(a[:, 0] - b[:, 0]) / np.hypot(a[:, 1], b[:, 1]))
        worst = max(worst, np.max(z))
        print(f"{name}, {who}: {x.shape[2]} numbers, {gradients} gradients, {seconds:.2f} s; largest difference of a "
              f"mean {z[0].max():.2f}, of a mean square {z[1].max():.2f} Monte Carlo errors", flush=True)
sys.exit(int(worst > 4))
