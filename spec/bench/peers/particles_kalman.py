"""One Kalman filter at a time in `particles`; printed as the time of 3200, as the others' rows are."""
import numpy as np
from particles import kalman

import clock


def measure(n, p, batch=3200):
    rng = np.random.default_rng(1)
    a, c = 0.3 * rng.standard_normal((n, n)), rng.standard_normal((p, n))
    before = kalman.MeanAndCov(mean=rng.standard_normal(n), cov=np.eye(n))
    y = rng.standard_normal(p)

    def step():
        kalman.filter_step(c, np.eye(p), kalman.predict_step(a, np.eye(n), before), y)

    print(f"Kalman {n}, {p}\tparticles\t{clock.best(step) * batch:.6g}", flush=True)


measure(4, 2)
measure(10, 4)
