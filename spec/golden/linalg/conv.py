#!/usr/bin/env python3
"""Golden values of convolution and pooling from SciPy and plain loops: writes conv_golden.h beside this file.

    python3 conv.py

conv2d is scipy.signal.correlate2d of the zero-padded image with the dilated kernel, every stride-th element;
conv_transpose2d is scipy.signal.convolve2d of the image with zeros put between its elements; conv2d_weight is the
sum over places written out; max_pool2d (with max_pool2d_index) and avg_pool2d (with its adjoint avg_unpool2d) go
over the windows one by one. Element i of operand k is sin(0.7 (i + 1) + k), so that the test can make it itself.
"""
from pathlib import Path

import numpy as np
from scipy.signal import convolve2d, correlate2d


def operand(shape, k):
    return np.sin(0.7 * (np.arange(int(np.prod(shape))) + 1) + k).reshape(shape)


def spread(w, step):
    """Zeros between the elements of the last two axes."""
    out = np.zeros(w.shape[:-2] + tuple((n - 1) * s + 1 for n, s in zip(w.shape[-2:], step)))
    out[..., :: step[0], :: step[1]] = w
    return out


def pad(x, p, value=0.0):
    return np.pad(x, [(0, 0), (0, 0), (p[0], p[0]), (p[1], p[1])], constant_values=value)


def conv2d(x, w, s, p, d, groups, _):
    xp, wd = pad(x, p), spread(w, d)
    ci, co = w.shape[1], w.shape[0] // groups
    return np.array([[sum(correlate2d(xp[n, o // co * ci + i], wd[o, i], "valid") for i in range(ci))
                      for o in range(w.shape[0])] for n in range(x.shape[0])])[:, :, :: s[0], :: s[1]]


def conv_transpose2d(x, w, s, p, d, groups, extra):
    xs, wd = spread(x, s), spread(w, d)
    ci, co = x.shape[1] // groups, w.shape[1]
    full = np.array([[sum(convolve2d(xs[n, i], wd[i, o % co], "full") for i in range(o // co * ci, (o // co + 1) * ci))
                      for o in range(co * groups)] for n in range(x.shape[0])])
    full = np.pad(full, [(0, 0), (0, 0), (0, extra[0]), (0, extra[1])])
    return full[:, :, p[0] : full.shape[2] - p[0], p[1] : full.shape[3] - p[1]]


def conv2d_weight(x, g, s, p, d, groups, kernel):
    xp = pad(x, p)
    ci, co = x.shape[1] // groups, g.shape[1] // groups
    out = np.zeros((g.shape[1], ci, *kernel))
    for o in range(g.shape[1]):
        for i in range(ci):
            for a in range(kernel[0]):
                for b in range(kernel[1]):
                    for r in range(g.shape[2]):
                        for q in range(g.shape[3]):
                            out[o, i, a, b] += (g[:, o, r, q] * xp[:, o // co * ci + i, r * s[0] + a * d[0],
                                                                  q * s[1] + b * d[1]]).sum()
    return out


def windows(x, k, s, p, f, value):
    xp = pad(x, p, value)
    rows = range(0, xp.shape[2] - k[0] + 1, s[0])
    cols = range(0, xp.shape[3] - k[1] + 1, s[1])
    return np.array([[[[f(xp[n, c, i : i + k[0], j : j + k[1]]) for j in cols] for i in rows]
                      for c in range(x.shape[1])] for n in range(x.shape[0])])


CONV = [  # operation, shapes of both operands, stride, padding, dilation, groups, output_padding or kernel
    (conv2d, (1, 1, 5, 5), (1, 1, 3, 3), (1, 1), (0, 0), (1, 1), 1, (0, 0)),
    (conv2d, (2, 3, 6, 5), (4, 3, 3, 2), (2, 1), (1, 1), (1, 1), 1, (0, 0)),
    (conv2d, (2, 4, 7, 6), (6, 2, 2, 3), (1, 2), (2, 0), (2, 1), 2, (0, 0)),
    (conv2d, (2, 3, 4, 4), (2, 3, 1, 1), (1, 1), (0, 0), (1, 1), 1, (0, 0)),
    (conv2d, (1, 3, 4, 4), (3, 1, 2, 2), (3, 2), (2, 3), (1, 2), 3, (0, 0)),
    (conv_transpose2d, (1, 1, 3, 3), (1, 1, 3, 3), (1, 1), (0, 0), (1, 1), 1, (0, 0)),
    (conv_transpose2d, (2, 3, 3, 4), (3, 2, 3, 2), (2, 3), (1, 0), (1, 1), 1, (1, 2)),
    (conv_transpose2d, (2, 4, 3, 2), (4, 3, 2, 3), (2, 1), (1, 1), (2, 1), 2, (0, 0)),
    (conv2d_weight, (2, 3, 6, 5), (2, 4, 3, 6), (2, 1), (1, 1), (1, 1), 1, (3, 2)),
    (conv2d_weight, (2, 4, 7, 6), (2, 2, 9, 2), (1, 2), (2, 0), (2, 1), 2, (2, 3)),
]
POOL = [((1, 1, 4, 4), (2, 2), (2, 2), (0, 0)), ((2, 2, 5, 6), (3, 2), (1, 2), (1, 1)),
        ((1, 2, 7, 5), (2, 3), (3, 2), (1, 0)), ((1, 1, 3, 3), (3, 3), (1, 1), (1, 1))]

out = ["/* conv_golden.h: written by conv.py from SciPy and plain loops. */", "/* clang-format off */",
       "static const struct {", "  const char *op;", "  int64_t x[4], w[4], stride[2], padding[2], dilation[2], groups,"
       " extra[2], out[4];", "  double value[512];", "} golden_conv[] = {"]


def c(values):
    return "{" + ", ".join(str(int(v)) for v in values) + "}"


def numbers(y):
    assert y.size <= 512
    return "{" + ", ".join(float(v).hex() for v in y.ravel()) + "}"


for f, x, w, s, p, d, groups, extra in CONV:
    y = f(operand(x, 0), operand(w, 1), s, p, d, groups, extra)
    out.append('{"%s", %s, %s, %s, %s, %s, %d, %s, %s,\n %s},' % (f.__name__, c(x), c(w), c(s), c(p), c(d), groups,
                                                               c(extra), c(y.shape), numbers(y)))
out += ["};", "static const struct {", "  int64_t x[4], kernel[2], stride[2], padding[2], out[4];",
        "  double max[128], mean[128], inside[128];", "} golden_pool[] = {"]
for x, k, s, p in POOL:
    v = operand(x, 0)
    big = windows(v, k, s, p, np.max, -np.inf)
    mean = windows(v, k, s, p, np.mean, 0.0)
    part = windows(v, k, s, p, np.nanmean, np.nan)
    out.append("{%s, %s, %s, %s, %s,\n %s,\n %s,\n %s}," % (c(x), c(k), c(s), c(p), c(big.shape), numbers(big), numbers(mean),
                                                        numbers(part)))
out.append("};")
Path(__file__).with_name("conv_golden.h").write_text("\n".join(out) + "\n")
