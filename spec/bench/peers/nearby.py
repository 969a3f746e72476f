"""Are the ends of a peer's paths those that ours.lua found, within the errors of both means?"""
import os

import numpy as np


def check(key, ends):
    name = "".join(c if c.isalnum() else "_" for c in key)
    ours = np.load(f"{os.environ.get('BUILD', 'build')}/peers-data/stochastic-{name}.npz")
    ends = np.asarray(ends, dtype=np.float64)
    off = np.abs(ends.mean(0) - ours["mean"]) / (2 ** 0.5 * ours["se"])
    if not (off < 5).all():
        raise SystemExit(f"{key}: mean {ends.mean(0)}, ours {ours['mean']}: {off} standard errors apart")
