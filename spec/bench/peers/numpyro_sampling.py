"""NUTS of NumPyro, chains side by side and one after another; the better of both counts."""
import posteriors
from jax import random
from numpyro.infer import MCMC, NUTS


def maker(model, d, method):
    def make():
        runs = {}

        def run(n, warmup):
            if (n, warmup) not in runs:
                runs[n, warmup] = MCMC(NUTS(model), num_warmup=warmup, num_samples=n, num_chains=4,
                                       chain_method=method, progress_bar=False)
            return runs[n, warmup]

        state = [None]

        def warm(seed, n):
            mcmc = run(1, n)
            mcmc.post_warmup_state = None
            mcmc.run(random.key(seed), d)
            state[0] = mcmc.last_state

        def block(seed, n):
            mcmc = run(n, 0)
            mcmc.post_warmup_state = state[0]
            mcmc.run(random.key(seed), d, extra_fields=("num_steps",))
            state[0] = mcmc.last_state
            draws = {k: v.block_until_ready() for k, v in mcmc.get_samples(group_by_chain=True).items()}
            return draws, int(mcmc.get_extra_fields()["num_steps"].sum())

        return warm, block

    return make


for name, model in posteriors.MODELS.items():
    for method in ("vectorized", "sequential"):
        posteriors.measure(name, "NumPyro", maker(model, posteriors.data(name), method))
