"""Seconds per call as ours.lua measures them, and the line that the driver reads."""
import math
import sys
import time


def best(f, patience=0.4):
    """Processor time of one call: rounds of about 20 ms, the best one counts (others were disturbed)."""
    now = time.process_time
    n = 1
    f()
    f()
    while True:
        start = now()
        for _ in range(n):
            f()
        spent = now() - start
        if spent > 0.01:
            break
        n = n * 20 if spent < 1e-4 else math.ceil(n * 0.02 / spent)
    least, began, rounds = math.inf, now(), 0
    while rounds < 4 or now() - began < patience:
        start = now()
        for _ in range(n):
            f()
        least, rounds = min(least, (now() - start) / n), rounds + 1
    return least


def wanted(name):
    """Was this row asked for? All are where none is named."""
    return name in sys.argv[1:] or len(sys.argv) == 1


def row(key, who, f, patience=0.4):
    print(f"{key}\t{who}\t{best(f, patience):.6g}", flush=True)
