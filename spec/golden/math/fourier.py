"""Reference values for spec/c/fourier_test.c: numpy.fft.fft and rfft of numbers that both compute exactly, fourier_golden.h.

Run: python3 fourier.py   (needs numpy; writes beside itself)
"""
import os
import numpy as np

LENGTHS = [1, 2, 3, 4, 5, 6, 7, 8, 15, 16, 17, 30, 31, 60, 64, 77]


def part(n, a, b, m):
    return np.array([((a * j * j + b * j) % m - m // 2) / 64 for j in range(n)])


with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "fourier_golden.h"), "w") as f:
    f.write("/* fourier_golden.h: written by fourier.py from numpy; {re, im} of a length's transform. */\n/* clang-format off */\n")
    f.write("static const int64_t golden_length[] = {%s};\n" % ", ".join(map(str, LENGTHS)))
    for name, transform in (("complex", lambda n: np.fft.fft(part(n, 7, 3, 101) + 1j * part(n, 5, 11, 89))),
                            ("real", lambda n: np.fft.rfft(part(n, 7, 3, 101)))):
        f.write("static const double golden_%s[][2] = {\n" % name)
        for n in LENGTHS:
            f.writelines("{%r, %r},\n" % (float(v.real), float(v.imag)) for v in transform(n))
        f.write("};\n")
