"""ArviZ reads what the library writes, to the bit, and finds the same diagnostics; the library reads what ArviZ writes.

    python arviz_peer.py LUA FOLDER
"""
import subprocess
import sys

import arviz as az
import numpy as np
import xarray as xr

lua, folder = sys.argv[1], sys.argv[2]
side = __file__.replace(".py", ".lua")
STATS = {"log_density": "lp", "accept": "acceptance_rate", "step_size": "step_size", "depth": "tree_depth",
         "leapfrogs": "n_steps", "divergent": "diverging", "energy": "energy"}


def same(a, b, what):
    a, b = np.asarray(a), np.asarray(b)
    assert a.shape == b.shape and a.dtype == b.dtype, (what, a.shape, b.shape, a.dtype, b.dtype)
    assert a.tobytes() == b.tobytes(), what


subprocess.run([lua, side, "write", folder], check=True)
data, ours = az.from_zarr(folder + "/ours.zarr"), np.load(folder + "/ours.npz")
assert set(data.groups()) == {"posterior", "sample_stats", "observed_data", "log_likelihood", "posterior_predictive",
                              "prior"}, data.groups()
for name in data.posterior.data_vars:
    same(data.posterior[name], ours["draws." + name], name)
for name, theirs in STATS.items():
    values = data.sample_stats[theirs]
    same(values.astype("f8"), ours["statistics." + name], name)
assert data.sample_stats.diverging.dtype == bool and data.sample_stats.n_steps.dtype == "i8"
same(data.log_likelihood.y, ours["log_likelihood.y"], "log_likelihood")
same(data.observed_data.y, ours["y"], "y")
assert data.posterior.theta.dims == ("chain", "draw", "school")
assert list(data.posterior.school.values)[6] == "St. Paul's" and list(data.posterior.chain.values) == [0, 1, 2, 3]
one = xr.open_zarr(folder + "/ours.zarr", group="posterior")
same(one.theta, ours["draws.theta"], "xarray")

summary, mine = az.summary(data, round_to="none", kind="all"), np.load(folder + "/summary.npz")
names = [line.strip() for line in open(folder + "/names.txt")]
rows = {name: mine["rows"][k] for k, name in enumerate(names)}
worst = 0.0
for name, row in summary.iterrows():
    if name.startswith("theta["):
        name = "theta[%d]" % (list(data.posterior.school.values).index(name[6:-1]) + 1)
    elif "[" in name:
        name = "%s[%d]" % (name.split("[")[0], int(name.split("[")[1][:-1]) + 1)
    theirs = np.array([row["mean"], row["sd"], row["r_hat"], row["ess_bulk"], row["ess_tail"], row["mcse_mean"]])
    worst = max(worst, np.max(np.abs(theirs / rows[name] - 1)))
assert worst < 1e-6, worst
waic, loo = az.waic(data), 0
for y in np.moveaxis(data.log_likelihood.y.values, -1, 0):  # az.loo takes one efficiency for all, of the parameters
    weights, _ = az.psislw(-y.ravel(), reff=az.ess(np.exp(y), method="mean", relative=True))
    loo += np.logaddexp.reduce(weights + y.ravel())
assert abs(loo - mine["loo"][0]) < 1e-9, (loo, mine["loo"][0])
p_waic = mine["loo"][3] * (1 - 1 / 2000)  # ArviZ divides the variances by the number of draws, not by one less
assert abs(waic.p_waic - p_waic) < 1e-9 and abs(waic.elpd_waic - (mine["loo"][2] + mine["loo"][3] / 2000)) < 1e-9

rng = np.random.default_rng(1)
wanted = {"mu": rng.normal(size=(3, 40)), "w": rng.normal(size=(3, 40, 2, 3)).astype("f4")}
stats = {"lp": rng.normal(size=(3, 40)), "diverging": rng.random((3, 40)) < 0.1,
         "tree_depth": rng.integers(1, 9, (3, 40)), "energy": rng.normal(size=(3, 40))}
density = {"y": rng.normal(size=(3, 40, 5))}
made = az.from_dict(wanted, sample_stats=stats, log_likelihood=density, observed_data={"y": np.arange(5.0)})
made.to_zarr(folder + "/compressed.zarr")
for g in made.groups():  # as the library's message says
    for v in made[g].variables:
        made[g][v].encoding["compressor"] = None
made.posterior["w"].encoding["chunks"] = (2, 7, 2, 2)
made.to_zarr(folder + "/theirs.zarr")
subprocess.run([lua, side, "read", folder], check=True)
read = np.load(folder + "/theirs_read.npz")
for name, values in wanted.items():
    same(values, read["draws." + name], name)
for name, theirs in STATS.items():
    if theirs in stats:
        same(stats[theirs].astype("f8"), read["statistics." + name], name)
same(density["y"], read["log_likelihood.y"], "log_likelihood")
back = az.from_zarr(folder + "/back.zarr")
for name, values in wanted.items():
    same(values, back.posterior[name], name)
print("arviz %s, xarray %s: draws and statistics of both sides to the bit; summaries within %.1e" % (
    az.__version__, xr.__version__, worst))
