"""Discrete Fourier transforms by numpy.fft, and convolutions by numpy.convolve. Writes fourier_values.lua beside
itself."""
from pathlib import Path

import numpy as np

rng = np.random.default_rng(7)


def lua(v):
    v = np.asarray(v)
    return repr(float(v)) if v.ndim == 0 else "{" + ", ".join(lua(w) for w in v) + "}"


def parts(z):
    return np.stack([z.real, z.imag], -1)


lines = []
for n in (1, 2, 3, 4, 5, 7, 8, 9, 12, 13, 30, 31, 37):
    z = np.round(rng.normal(size=n), 3) + 1j * np.round(rng.normal(size=n), 3)
    x = np.round(rng.normal(size=n), 3)
    lines.append("  {n = %d, z = %s, fft = %s, ifft = %s, x = %s, rfft = %s, fftfreq = %s, rfftfreq = %s, irfft = %s}," % (
        n, lua(parts(z)), lua(parts(np.fft.fft(z))), lua(parts(np.fft.ifft(z))), lua(x), lua(parts(np.fft.rfft(x))),
        lua(np.fft.fftfreq(n, 0.25)), lua(np.fft.rfftfreq(n, 0.25)),
        lua(np.fft.irfft(z[:n // 2 + 1], n))))
x = np.round(rng.normal(size=(2, 5, 3)), 3)
y = np.round(rng.normal(size=4), 3)
more = dict(x=x, fft=parts(np.fft.fft(x, axis=1)), rfft=parts(np.fft.rfft(x, axis=1)), y=y,
            convolve=np.apply_along_axis(np.convolve, 1, x, y))
text = "-- Made by fourier_values.py.\nreturn {\n  lengths = {\n%s\n  },\n%s\n}\n" % (
    "\n".join("  " + line for line in lines), "\n".join("  %s = %s," % (k, lua(v)) for k, v in more.items()))
Path(__file__).with_suffix(".lua").write_text(text)
