"""mpi4py's all_reduce of NumPy arrays, 1 kB to 64 MB, under mpirun: lines name<TAB>value<TAB>unit of rank 0."""
import time

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
for exponent in (10, 14, 18, 20, 22, 24, 26):
    x = np.ones(2**exponent // 4, np.float32)
    y = np.empty_like(x)
    count = 100 if exponent < 18 else 5 if exponent < 24 else 2
    least = float("inf")
    for _ in range(8):
        comm.Barrier()
        start = time.perf_counter()
        for _ in range(count):
            comm.Allreduce(x, y)
        least = min(least, (time.perf_counter() - start) / count)
    if comm.rank == 0:
        print(f"all_reduce {2**exponent} bytes\t{least * 1e6:.6g}\tus", flush=True)
