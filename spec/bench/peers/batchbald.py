"""BatchBALD of batchbald_redux 2.0.5 on the draws of a file, as pn.active.batch_bald does it: seconds of the processor,
and the joint information of what it chose. One thread, double.
    python3 batchbald.py draws.npy N outcomes"""
import sys
import time

import numpy as np
import torch
from batchbald_redux import batchbald

torch.set_num_threads(1)
p = torch.tensor(np.load(sys.argv[1])).permute(1, 0, 2).contiguous().log()  # [N, K, C]
n, outcomes = int(sys.argv[2]), int(sys.argv[3])
best, batch = float("inf"), None
for _ in range(3):
    start = time.process_time()
    batch = batchbald.get_batchbald_batch(p, n, outcomes, dtype=torch.double, device="cpu")
    best = min(best, time.process_time() - start)
print("%.6g\t%s\t%s" % (best, list(batch.indices), [round(float(s), 6) for s in batch.scores]))
