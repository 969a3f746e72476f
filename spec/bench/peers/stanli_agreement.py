"""Are the programs of stan_programs.py the densities of the models in Lua? At random points z and the real numbers s(z)
that stand for the same values in the other, by BridgeStan's interface on both sides: log density(z) - log
density(s(z)) - log |det ds/dz| must be one constant (stanli leaves constants out). Jacobians by central differences.
The environment needs stanli and bridgestan; the models of bridge_models.lua must be there.
   BUILD=build python spec/bench/peers/stanli_agreement.py [NAME]..."""
import sys

import bridgestan
import effective
import numpy as np
import stan_programs
import stanli

STEP = 1e-5
BY_SOLVERS = ("lotka_volterra", "one_comp_mm_elim_abs")  # of relative tolerance 1e-6


def log_det(ours, theirs, z):
    """log |det ds/dz|."""
    rows = []
    for k in range(len(z)):
        up, down = z.copy(), z.copy()
        up[k] += STEP
        down[k] -= STEP
        rows.append((theirs.param_unconstrain(ours.param_constrain(up))
                     - theirs.param_unconstrain(ours.param_constrain(down))) / (2 * STEP))
    return np.linalg.slogdet(np.array(rows))[1]


rng, failed = np.random.default_rng(1), 0
for name in sys.argv[1:] or effective.NAMES:
    ours = bridgestan.StanModel(effective.FOLDER / f"{name}.so", warn=False)
    theirs = stanli.bridgestan_model(stan_code=stan_programs.PROGRAMS[name],
                                     data=stan_programs.data(effective.FOLDER / f"{name}.json", name))
    differences, scale = [], 1
    for _ in range(20):
        z = ours.param_initialize(ours.new_rng(int(rng.integers(2**31))), init_radius=1.0)
        x = ours.param_constrain(z)
        a, b = ours.log_density(z), theirs.log_density(theirs.param_unconstrain(x))
        differences.append(a - b - log_det(ours, theirs, z))
        scale = max(scale, abs(a))
    spread = np.ptp(differences) / scale
    failed += not spread < (1e-4 if name in BY_SOLVERS else 1e-9)
    print(f"{name}: {ours.param_unc_num()} numbers, difference {np.mean(differences):.6g}, its spread over the largest "
          f"log density {spread:.2g}", flush=True)
sys.exit(int(failed > 0))
