#!/usr/bin/env python3
"""Golden values of einsum from NumPy: writes einsum_golden.h beside this file.

    python3 einsum.py

A case is its spec, the shapes of its operands and NumPy's result; operand k holds sin(0.7 (i + 1) + k) at its
i-th element, so that the test can make it itself.
"""
from pathlib import Path

import numpy as np

CASES = [
    ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)), ("ij,jk", (3, 4), (4, 2)), ("ij,kj->ik", (3, 4), (2, 4)),
    ("ij->ji", (3, 4)), ("ba", (3, 4)), ("ii->i", (4, 4)), ("ii", (4, 4)), ("iij->j", (3, 3, 2)),
    ("ijkij->k", (2, 3, 4, 2, 3)), ("ij->", (3, 4)), ("i,j->ij", (3,), (4,)), ("i,i->", (5,), (5,)),
    ("bi,bi->b", (3, 4), (3, 4)), ("ij,ij->ij", (3, 4), (3, 4)), ("i,ij,j->", (3,), (3, 4), (4,)),
    ("ab,bc,cd->ad", (2, 3), (3, 4), (4, 2)), ("...ij,...jk->...ik", (2, 1, 3, 4), (5, 4, 2)),
    ("...i->...", (2, 3, 4)), ("...,...", (2, 3), (3,)), ("i...,i...->...", (3, 2), (3, 2)),
    ("...ii->...i", (2, 3, 3)), ("bhqd,bhkd->bhqk", (2, 2, 3, 4), (2, 2, 5, 4)), ("ij,jk->ik", (3, 1), (4, 2)),
    ("ij,ij->i", (1, 4), (3, 1)), (",->", (), ()), (",ij->ji", (), (2, 3)), ("ij,ik->", (2, 3), (2, 4)),
    ("abc,cde,ea->bd", (2, 3, 4), (4, 2, 3), (3, 2)), ("aB,Bc", (2, 3), (3, 2)), ("ij,jk->ik", (2, 0), (0, 3)),
    (" i j , j k -> i k ", (2, 3), (3, 2)), ("ijk,ilm,njm,nlk,abc->", (2, 3, 4), (2, 5, 3), (4, 3, 3), (4, 5, 4),
                                             (2, 2, 2)),
]

out = ["/* einsum_golden.h: written by einsum.py from NumPy. */", "/* clang-format off */",
       "static const struct {", "  const char *spec;", "  int n;", "  struct { int ndim; int64_t shape[8]; } in[5], out;",
       "  double value[128];", "} golden_einsum[] = {"]
for spec, *shapes in CASES:
    x = [np.sin(0.7 * (np.arange(int(np.prod(s))) + 1) + k).reshape(s) for k, s in enumerate(shapes)]
    y = np.einsum(spec.replace(" ", ""), *x)
    assert y.size <= 128
    shape = lambda s: "{%d, {%s}}" % (len(s), ", ".join(map(str, s)) or "0")
    out.append('{"%s", %d, {%s}, %s,\n {%s}},' % (spec, len(x), ", ".join(map(shape, shapes)), shape(y.shape),
                                              ", ".join(float(v).hex() for v in y.ravel()) or "0"))
out.append("};")
Path(__file__).with_name("einsum_golden.h").write_text("\n".join(out) + "\n")
