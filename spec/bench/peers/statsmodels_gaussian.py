"""Log likelihood of 64 series of 1000 observations in statsmodels, one series after the other (its filter is compiled and
stops computing covariances once they have settled); without a gradient."""
import numpy as np
from statsmodels.tsa.statespace.kalman_filter import KalmanFilter

import clock


def measure(n, p, steps=1000, batch=64):
    rng = np.random.default_rng(1)
    emission, y = rng.standard_normal((p, n)), rng.standard_normal((batch, p, steps))
    filters = []
    for own in y:
        f = KalmanFilter(k_endog=p, k_states=n, initialization="known", constant=np.zeros(n), stationary_cov=np.eye(n))
        f.bind(np.asfortranarray(own))
        f["design"], f["obs_cov"], f["transition"] = emission, np.eye(p), 0.9 * np.eye(n)
        f["selection"], f["state_cov"] = np.eye(n), np.eye(n)
        filters.append(f)
    clock.row(f"sequence {n}, {p}", "statsmodels", lambda: sum(f.loglike() for f in filters))


measure(4, 2)
measure(10, 4)
