"""Microseconds of one log density and its gradient, and of nothing else: bs_log_density_gradient of the models written
in Lua and of stanli's, called from one loop in C at the same values, the best of 15 rounds of about 20 ms in turns.
The environment needs stanli, bridgestan and a C compiler; the models of bridge_models.lua must be there.
   BUILD=build python spec/bench/peers/stanli_gradient.py [NAME]..."""
import ctypes
import pathlib
import subprocess
import sys
import tempfile

import bridgestan
import effective
import numpy as np
import stan_programs
import stanli

LOOP = f"#include <{'time'}.h>" + """
typedef int gradient(const void *, _Bool, _Bool, const double *, double *, double *, char **);
double loop(gradient *f, const void *m, const double *z, double *lp, double *g, int n) {
  struct timespec a, b;
  char *error = 0;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
  for (int i = 0; i < n; i++)
    if (f(m, 1, 1, z, lp, g, &error)) return -1;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b);
  return ((double)(b.tv_sec - a.tv_sec) + 1e-9 * (double)(b.tv_nsec - a.tv_nsec)) / n;
}
"""
with tempfile.TemporaryDirectory() as folder:
    source, library = pathlib.Path(folder) / "loop.c", pathlib.Path(folder) / "loop.so"
    source.write_text(LOOP)
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", library, source], check=True)
    loop = ctypes.CDLL(str(library)).loop
loop.restype = ctypes.c_double
pointer = ctypes.POINTER(ctypes.c_double)


def timer(model, z):
    """f(n): seconds of a call, of n."""
    g, lp, z = np.zeros(len(z)), ctypes.c_double(), np.ascontiguousarray(z)
    f = ctypes.cast(model.stanlib.bs_log_density_gradient, ctypes.c_void_p)
    handle = model.model if isinstance(model.model, ctypes.c_void_p) else ctypes.c_void_p(model.model)
    return lambda n: loop(f, handle, z.ctypes.data_as(pointer), ctypes.byref(lp), g.ctypes.data_as(pointer), n)


for name in sys.argv[1:] or effective.NAMES:
    ours = bridgestan.StanModel(effective.FOLDER / f"{name}.so", warn=False)
    theirs = stanli.bridgestan_model(stan_code=stan_programs.PROGRAMS[name],
                                     data=stan_programs.data(effective.FOLDER / f"{name}.json", name))
    z = ours.param_initialize(ours.new_rng(1), init_radius=0.5)
    both = timer(ours, z), timer(theirs, theirs.param_unconstrain(ours.param_constrain(z)))
    least = [f(20) for f in both]
    for _ in range(15):
        for k, f in enumerate(both):
            least[k] = min(least[k], f(max(1, int(0.02 / least[k]))))
    print(f"{name}\t{least[0] * 1e6:.3f}\t{least[1] * 1e6:.3f}\t{least[1] / least[0]:.2f}", flush=True)
