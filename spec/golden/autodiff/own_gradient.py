"""Values of an operation with a gradient of its own: spec/golden/autodiff/own_gradient.lua. Two inputs, y = a sin(b), whose
gradients are declared as d/da = g sin(b) / (1 + g^2) and d/db = g a cos(b): what backward gives for the loss sum(w y),
where g = w, and the gradient of the sum of these gradients, by the chain rule through the declared ones (g is constant
there, and what they contain of a and b is differentiated). With 50 digits.

Run: python3 own_gradient.py   (needs nothing; writes beside itself)
"""
import os
from decimal import Decimal as D, getcontext

getcontext().prec = 50


def series(x, first):  # sin (first = 1) or cos (first = 0)
    term = x if first else D(1)
    total, k = term, first
    while abs(term) > D(10) ** -48:
        term = -term * x * x / ((k + 1) * (k + 2))
        total, k = total + term, k + 2
    return total


def text(values):
    return "{" + ", ".join(repr(float(v)) for v in values) + "}"


a = [D("0.5"), D("-1.25"), D("2")]
b = [D("0.3"), D("1.1"), D("-2.4")]
w = [D("1"), D("-0.5"), D("3")]
sin, cos = [series(x, 1) for x in b], [series(x, 0) for x in b]
rows = {
    "a": a, "b": b, "w": w,
    "y": [x * s for x, s in zip(a, sin)],
    "grad_a": [g * s / (1 + g * g) for g, s in zip(w, sin)],
    "grad_b": [g * x * c for g, x, c in zip(w, a, cos)],
    "second_a": [g * c for g, c in zip(w, cos)],
    "second_b": [g * c / (1 + g * g) - g * x * s for g, x, s, c in zip(w, a, sin, cos)],
}
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "own_gradient.lua"), "w") as file:
    file.write("-- Written by own_gradient.py.\nreturn {own_gradient = {\n")
    file.write("".join("  %s = %s,\n" % (name, text(values)) for name, values in rows.items()) + "}}\n")
