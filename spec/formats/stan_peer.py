"""Files in CmdStan's format, with warm-up, thinning and adaptation, read by the library and by stanio and CmdStanPy.

    python stan_peer.py LUA FOLDER
"""
import logging
import subprocess
import sys

import cmdstanpy
import numpy as np
import stanio

lua, folder = sys.argv[1], sys.argv[2]
logging.getLogger("cmdstanpy").disabled = True
SAMPLER = ["lp__", "accept_stat__", "stepsize__", "treedepth__", "n_leapfrog__", "divergent__", "energy__"]
OURS = ["log_density", "accept", "step_size", "depth", "leapfrogs", "divergent", "energy"]
SHAPES = {"mu": (), "theta": (4,), "Sigma": (2, 3), "cube": (2, 3, 4), "row": (1, 3)}
CHAINS, WARMUP, DRAWS, THIN = 3, 10, 20, 2
rng = np.random.default_rng(7)


def columns():
    names = list(SAMPLER)
    for name, shape in SHAPES.items():
        for index in np.ndindex(*shape[::-1]):  # the first index moves fastest
            names.append(".".join([name] + [str(i + 1) for i in index[::-1]]))
    return names


def line(n):
    values = ["%.6g" % v for v in rng.normal(size=n)]
    values[3:6] = [str(rng.integers(1, 9)), str(rng.integers(1, 99)), str(rng.integers(0, 2))]
    return ",".join(values)


names = columns()
for chain in range(1, CHAINS + 1):
    head = f"""# stan_version_major = 2
# stan_version_minor = 36
# stan_version_patch = 0
# model = made_model
# start_datetime = 2025-01-01 00:00:00 UTC
# method = sample (Default)
#   sample
#     num_samples = {DRAWS}
#     num_warmup = {WARMUP}
#     save_warmup = true
#     thin = {THIN}
#     adapt
#       engaged = true (Default)
#     algorithm = hmc (Default)
#       hmc
#         engine = nuts (Default)
#           nuts
#             max_depth = 10 (Default)
#         metric = diag_e (Default)
#         stepsize = 1 (Default)
#     num_chains = 1 (Default)
# id = {chain} (Default)
# data
#   file = made.json
# random
#   seed = 1
# output
#   file = chain_{chain}.csv
"""
    metric = ", ".join("%.5g" % v for v in np.exp(rng.normal(size=5)))
    lines = [line(len(names)) for _ in range((WARMUP + THIN - 1) // THIN + (DRAWS + THIN - 1) // THIN)]
    cut = (WARMUP + THIN - 1) // THIN
    with open(f"{folder}/chain_{chain}.csv", "w") as out:
        out.write(head + ",".join(names) + "\n" + "\n".join(lines[:cut]) + "\n")
        out.write(f"# Adaptation terminated\n# Step size = {0.5 + chain / 16}\n")
        out.write(f"# Diagonal elements of inverse mass matrix:\n# {metric}\n" + "\n".join(lines[cut:]) + "\n")
        out.write("# \n#  Elapsed Time: 0.01 seconds (Warm-up)\n#                0.02 seconds (Sampling)\n")
        out.write("#                0.03 seconds (Total)\n# \n")

paths = [f"{folder}/chain_{c}.csv" for c in range(1, CHAINS + 1)]
subprocess.run([lua, __file__.replace(".py", ".lua"), folder, str(CHAINS)], check=True)
ours = np.load(folder + "/read.npz")

header, raw = stanio.read_csv(paths)
variables = stanio.parse_header(header)
warm = (WARMUP + THIN - 1) // THIN
for name in SHAPES:
    values = variables[name].extract_reshape(raw)
    assert np.array_equal(values[:, warm:], ours["draws." + name]), name
    assert np.array_equal(values[:, :warm], ours["warmup." + name]), name
for name, own in zip(SAMPLER, OURS):
    assert np.array_equal(variables[name].extract_reshape(raw)[:, warm:], ours["statistics." + own]), name

fit = cmdstanpy.from_csv(paths)
for name in SHAPES:
    theirs = fit.stan_variable(name).reshape((CHAINS, -1) + SHAPES[name], order="C")
    flat = np.concatenate(list(ours["draws." + name]), axis=0)
    assert np.array_equal(fit.stan_variable(name), flat), name
for chain in range(CHAINS):
    assert np.array_equal(fit.inv_metric[chain], ours[f"adaptation.metric_{chain + 1}"])
    assert fit.step_size[chain] == ours[f"adaptation.step_{chain + 1}"]
print("stanio %s, CmdStanPy %s: draws, warm-up, sampler's columns and adaptation alike" % (
    stanio.__version__, cmdstanpy.__version__))
