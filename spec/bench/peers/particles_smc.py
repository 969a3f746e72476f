"""The bootstrap filter of a linear Gaussian model in `particles`, resampled systematically at each step."""
import numpy as np
import particles
from particles import distributions as dists
from particles import state_space_models as ssm

import clock


class LinearGaussian(ssm.StateSpaceModel):
    def PX0(self):
        return dists.Normal()

    def PX(self, t, xp):
        return dists.Normal(loc=0.9 * xp, scale=0.5)

    def PY(self, t, xp, x):
        return dists.Normal(loc=x, scale=0.7)


def measure(n, steps):
    y = np.random.default_rng(1).standard_normal(steps)
    model = ssm.Bootstrap(ssm=LinearGaussian(), data=y)

    def run():
        particles.SMC(fk=model, N=n, resampling="systematic", ESSrmin=1.0, collect="off").run()

    clock.row(f"bootstrap {n}", "particles", run, 1)


measure(1000, 100)
measure(100000, 20)
measure(1000000, 5)
