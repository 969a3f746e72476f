"""stanli, a Stan of replayed graphs that needs no compiler, by its own sampler (Stan's NUTS, warm-up 1000) and by
nutpie, which drives it through BridgeStan's interface."""
import time

import clock
import effective
import stan_programs
import stanli


def own(model, seed):
    """Seconds, gradients, draws [chains, draws, n] of stanli's sampler."""
    start = time.process_time()
    fit = model.sample(chains=4, seed=seed, warmup=1000, samples=1000, refresh=0, parallel_chains=1, save_warmup=True)
    seconds = time.process_time() - start
    return seconds, int(fit["n_leapfrog__"].sum()), fit.draws()[:, 1000:]


for name in filter(clock.wanted, effective.NAMES):
    program = stan_programs.PROGRAMS[name]
    data = stan_programs.data(effective.FOLDER / f"{name}.json", name)
    seeds = range(1, effective.SEEDS + 1)
    model = stanli.Model(stan_code=program, data=data)
    effective.report(name, "stanli", [own(model, seed) for seed in seeds])
    whole = stanli.bridgestan_model(stan_code=program, data=data)
    variables = list(dict.fromkeys(n.split(".")[0] for n in whole.param_names()))
    driven = effective.compiled(whole.lib_path, whole.data)
    for who, low_rank in (("stanli by nutpie", False), ("stanli by nutpie, low rank", True)):
        effective.report(name, who, [effective.by_nutpie(driven, variables, low_rank, seed) for seed in seeds])
