"""nutpie, diagonal and low rank, on models written in Lua: the densities are ours, through libpenumbra_bridge.so."""
import bridgestan
import clock
import effective

for name in filter(clock.wanted, effective.NAMES):
    path = effective.FOLDER / f"{name}.so"
    names = bridgestan.StanModel(path, warn=False).param_names()
    variables = list(dict.fromkeys(n.split(".")[0] for n in names))
    model = effective.compiled(path, None)
    for who, low_rank in (("nutpie", False), ("nutpie low rank", True)):
        effective.report(name, who, [effective.by_nutpie(model, variables, low_rank, seed)
                                     for seed in range(1, effective.SEEDS + 1)])
