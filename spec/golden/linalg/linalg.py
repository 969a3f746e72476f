#!/usr/bin/env python3
"""Golden values of the linear algebra rows from NumPy and SciPy: writes linalg_golden.h beside this file.

    python3 linalg.py

Arrays are row-major; `a` is a batch of general matrices, `p` of positive definite ones, `b` right sides.
Factors whose signs are free (qr, eigh, svd) are checked by reconstruction; of them only what is unique is
stored: |r|, eigenvalues, singular values. Rows checked so: cholesky, solve_triangular, cholesky_solve, solve,
inverse, logdet, det, det_sign, packed_qr, packed_eigh, packed_svd.
"""
from pathlib import Path

import numpy as np
from scipy.linalg import cho_solve, solve_triangular

rng = np.random.default_rng(7)
out = ["/* linalg_golden.h: written by linalg.py from NumPy and SciPy. */", "/* clang-format off */"]


def emit(name, values):
    flat = np.asarray(values, dtype=np.float64).ravel()
    body = ", ".join(float(v).hex() for v in flat)
    out.append(f"static const double golden_{name}[{flat.size}] = {{{body}}};")


for tag, n, batch, k in (("s", 4, 3, 2), ("l", 20, 2, 3)):  # below and above the interleaved path's limit
    a = rng.normal(size=(batch, n, n))
    p = a @ a.transpose(0, 2, 1) + np.eye(n)
    b = rng.normal(size=(batch, n, k))
    chol = np.linalg.cholesky(p)
    emit(f"a_{tag}", a)
    emit(f"p_{tag}", p)
    emit(f"b_{tag}", b)
    emit(f"cholesky_{tag}", chol)
    emit(f"solve_triangular_{tag}", [solve_triangular(a[i], b[i], lower=True) for i in range(batch)])
    emit(f"solve_triangular_upper_t_{tag}", [solve_triangular(a[i], b[i], trans="T") for i in range(batch)])
    emit(f"cholesky_solve_{tag}", [cho_solve((chol[i], True), b[i]) for i in range(batch)])
    emit(f"solve_{tag}", np.linalg.solve(a, b))
    emit(f"inverse_{tag}", np.linalg.inv(a))
    sign, logdet = np.linalg.slogdet(a)
    emit(f"logdet_{tag}", logdet)
    emit(f"det_sign_{tag}", sign)
    emit(f"det_{tag}", np.linalg.det(a))
    emit(f"eigh_{tag}", np.linalg.eigvalsh(p))
    emit(f"svd_{tag}", np.linalg.svd(a[:, :, : n - 1], compute_uv=False))
    emit(f"qr_{tag}", np.abs(np.linalg.qr(a[:, :, : n - 1])[1]))

Path(__file__).with_name("linalg_golden.h").write_text("\n".join(out) + "\n")
