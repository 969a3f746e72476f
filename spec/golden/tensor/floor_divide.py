"""Values of floor division: Python's integers for int64, whose // is Lua's, and floor(x / y) in IEEE doubles.
Run: python3 floor_divide.py > floor_divide.lua"""
import math

whole = [(7, 2), (-7, 2), (7, -2), (-7, -2), (6, 3), (-6, 3), (0, 5), (2**62, 3), (-2**63, 7), (-2**63, 2)]
real = [(7.5, 2.0), (-7.5, 2.0), (7.5, -2.0), (1.0, 0.1), (-1e300, 1e-5), (0.3, 0.1), (5.0, math.inf), (1e16, 3.0)]

print("-- made by floor_divide.py")
print("return {")
print("  floor_divide = {")
print("    whole = {" + ", ".join(f"{{{hex(x & (2**64 - 1))}, {y}, {hex(x // y & (2**64 - 1))}}}" for x, y in whole) + "},")
text = lambda v: "math.huge" if v == math.inf else repr(v)
print("    real = {" + ", ".join(f"{{{text(x)}, {text(y)}, {float(math.floor(x / y))!r}}}" for x, y in real) + "},")
print("  },")
print("}")
