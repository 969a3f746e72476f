"""NUTS of NumPyro, chains side by side and one after another; the better of both counts."""
import posteriors
from jax import random
from numpyro.infer import MCMC, NUTS


def maker(model, d, method):
    def make():
        made, current = {}, [None]

        def warm(seed, n):
            if n not in made:  # the short warm-up is for blocks of 100 draws, the long one for 1000
                made[n] = MCMC(NUTS(model), num_warmup=n, num_samples=100 if n == 500 else 1000, num_chains=4,
                               chain_method=method, progress_bar=False)
            current[0] = made[n]
            current[0].warmup(random.PRNGKey(seed), d)

        def block(seed, n):
            mcmc = current[0]
            mcmc.run(random.PRNGKey(seed), d, extra_fields=("num_steps",))
            mcmc.post_warmup_state = mcmc.last_state
            draws = {k: v.block_until_ready() for k, v in mcmc.get_samples(group_by_chain=True).items()}
            return draws, int(mcmc.get_extra_fields()["num_steps"].sum())

        return warm, block

    return make


for name, model in posteriors.MODELS.items():
    for method in ("vectorized", "sequential"):
        posteriors.measure(name, "NumPyro", maker(model, posteriors.data(name), method), again=False)
