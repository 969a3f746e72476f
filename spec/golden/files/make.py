"""Writes the fixtures of spec/c/file_test.c with the packages themselves: NumPy (.npy, .npz, CSV),
safetensors, idx2numpy, Python's csv and gzip. Run in this folder:

    pip install numpy safetensors idx2numpy && python make.py

expected.txt has a line per array: file, name in it ("-": the only one), dtype once loaded, sizes
joined by x ("-": none), values.
"""
import csv
import gzip
import glob
import io
import os

import idx2numpy
import numpy as np
from numpy.lib import format as npy
from safetensors import TensorSpec, serialize
from safetensors.numpy import save_file

expected = []


def loaded_dtype(a):
    if a.dtype == np.bool_:
        return "bool"
    if a.dtype.kind in "iu":
        return "int64"
    return "float32" if a.dtype.itemsize < 8 else "float64"


def text(v):
    if isinstance(v, (bool, np.bool_)):
        return str(int(v))
    return str(int(v)) if isinstance(v, (int, np.integer)) else "%.17g" % float(v)


def expect(file, name, a, dtype=None):
    a = np.asarray(a)
    shape = "x".join(map(str, a.shape)) or "-"
    expected.append(" ".join([file, name, dtype or loaded_dtype(a), shape] + [text(v) for v in a.ravel()]))


def put_npy(file, a, version=None):
    with open(file, "wb") as f:
        npy.write_array(f, a, version=version)
    expect(file, "-", a)


values = np.array([[0.1, -2.5, 3e300], [float("inf"), float("nan"), -0.0]])
small = np.array([[0.1, -2.5, 3e30], [1.5, float("nan"), float("-inf")]], np.float32)
integers = np.array([[1, -2, 3], [-(2**62), 2**62 + 1, 0]])
halves = np.array([0.1, -2.5, 65504, 6e-8, 0, float("inf"), float("nan")], np.float16)

put_npy("f8.npy", values)
put_npy("f4.npy", small)
put_npy("i8.npy", integers)
put_npy("b1.npy", np.array([True, False, True]))
put_npy("f2.npy", halves)
put_npy("f8_big.npy", values.astype(">f8"))
put_npy("f4_big.npy", small.astype(">f4"))
put_npy("i8_big.npy", integers.astype(">i8"))
put_npy("f2_big.npy", halves.astype(">f2"))
put_npy("i4_big.npy", np.array([[-5, 70000]], ">i4"))
for kind, low, high in [("i4", -(2**31), 2**31 - 1), ("i2", -(2**15), 2**15 - 1), ("i1", -128, 127),
                        ("u1", 0, 255), ("u2", 0, 65535), ("u4", 0, 2**32 - 1), ("u8", 0, 2**63 - 1)]:
    put_npy(kind + ".npy", np.array([low, 1, 2, high], kind))
put_npy("fortran.npy", np.asfortranarray(np.arange(24.0).reshape(2, 3, 4)))
put_npy("fortran_i2_big.npy", np.asfortranarray(np.arange(6).reshape(2, 3).astype(">i2")))
put_npy("version2.npy", values, (2, 0))
put_npy("version3.npy", values, (3, 0))
put_npy("scalar.npy", np.array(2.5))
put_npy("empty.npy", np.zeros((3, 0)))
put_npy("axes8.npy", np.arange(2.0).reshape(1, 1, 1, 1, 1, 1, 1, 2))
a = np.arange(12.0).reshape(3, 4)
with gzip.GzipFile("gz.npy.gz", "wb", mtime=0) as f:
    npy.write_array(f, a)
expect("gz.npy.gz", "-", a)
# what cannot be read
for name, a in [("bad_complex.npy", np.array([1j])), ("bad_string.npy", np.array(["ab"])),
                ("bad_struct.npy", np.array([(1, 2.0)], [("a", "i4"), ("b", "f8")])),
                ("bad_object.npy", np.array([None])), ("bad_u8.npy", np.array([2**63], "u8")),
                ("bad_axes9.npy", np.zeros((1,) * 9))]:
    np.save(name, a)

members = {"w": values, "layer.b": small, "n": integers, "\u00e4": np.array([True]), "s": np.array(7)}
np.savez("stored.npz", **members)
np.savez_compressed("deflated.npz", **members, zeros=np.zeros(5000))
np.savez("no_members.npz")
for name, a in members.items():
    expect("stored.npz", name, a)
    expect("deflated.npz", name, a)
expect("deflated.npz", "zeros", np.zeros(5000))

tensors = {"net.0.weight": small, "net.0.bias": values, "count": integers, "mask": np.array([True, False]),
           "half": halves, "i4": np.array([-7, 8], np.int32), "i2": np.array([[-7], [8]], np.int16),
           "i1": np.array([-7, 8], np.int8), "u1": np.array([250], np.uint8), "u2": np.array([65000], np.uint16),
           "u4": np.array([4000000000], np.uint32), "u8": np.array([5], np.uint64), "scalar": np.array(1.25),
           "none": np.zeros((0, 3), np.float32), "quote\"\u00e4\\": np.array([1.0])}
save_file(tensors, "all.safetensors", metadata={"made by": "safetensors \u00fc \"quoted\""})
for name, a in tensors.items():
    expect("all.safetensors", name, a)
# what Penumbra writes itself, byte for byte
plain = {"b": small, "a": values, "k": integers, "m": np.array([True, False, True]), "z": np.array(3.0)}
save_file(plain, "plain.safetensors", metadata={"key": "text"})
for name, a in plain.items():
    expect("plain.safetensors", name, a)
save_file({}, "no_tensors.safetensors")
bf = np.array([1.0, -2.5, 3.140625, float("inf"), 2.0**-130], np.float32)
with open("bf16.safetensors", "wb") as f:
    bits = (bf.view(np.uint32) >> 16).astype("<u2")
    f.write(serialize({"w": TensorSpec(dtype="bfloat16", shape=[5], data_ptr=bits.ctypes.data, data_len=bits.nbytes)}))
expect("bf16.safetensors", "w", bf)

for kind, a in [("u1", np.arange(24).reshape(2, 3, 4).astype(np.uint8)), ("i1", np.array([-128, 127], np.int8)),
                ("i2", np.array([[-300, 300]], np.int16)), ("i4", np.array([-70000, 70000], np.int32)),
                ("f4", small), ("f8", values)]:
    idx2numpy.convert_to_file(kind + ".idx", a)
    expect(kind + ".idx", "-", a)
with gzip.GzipFile("u1.idx.gz", "wb", mtime=0) as f:
    f.write(open("u1.idx", "rb").read())
expect("u1.idx.gz", "-", np.arange(24).reshape(2, 3, 4))

table = np.array([[1, 0.1, -2e-5], [2, 123456789.123456789, 1e300], [3, float("nan"), 5e-324]])


def put_csv(file, content, a, packed=False):
    data = content.encode()
    with gzip.GzipFile(file, "wb", mtime=0) if packed else open(file, "wb") as f:
        f.write(data)
    expect(file, "-", a, "float64")


def written(rows, **options):
    out = io.StringIO()
    csv.writer(out, **options).writerows(rows)
    return out.getvalue()


rows = [[repr(float(v)) for v in row] for row in table]
header = ["id", "a, \"quoted\"\nname", "last"]
put_csv("excel.csv", written([header] + rows), table)  # CRLF, quotes where needed
put_csv("quoted.csv", written([header] + rows, quoting=csv.QUOTE_ALL), table)
put_csv("semicolon.csv", written(rows, delimiter=";", lineterminator="\n"), table)
put_csv("tab.csv", written([header] + rows, delimiter="\t", lineterminator="\n"), table)
put_csv("bar.csv.gz", written([header] + rows, delimiter="|", lineterminator="\n"), table, True)
out = io.StringIO()
np.savetxt(out, table)
put_csv("savetxt.csv", out.getvalue(), table)
out = io.StringIO()
np.savetxt(out, table, delimiter=",", header="x,y,z", comments="", fmt="%.18e")
put_csv("savetxt_comma.csv", out.getvalue(), table)
put_csv("bom.csv", "\ufeffx,y\n\n1,2\n  \n3,4", [[1, 2], [3, 4]])
put_csv("missing.csv", "a,b,c\n1,,NA\nNaN,?,n/a\nnull,None,-inf\ntrue,FALSE,+1.5e+2\n",
        [[1, np.nan, np.nan], [np.nan] * 3, [np.nan, np.nan, -np.inf], [1, 0, 150]])
put_csv("one_column.csv", "x\n1\n2\n", [[1], [2]])
put_csv("header_only.csv", "x,y\n", np.zeros((0, 2)))
put_csv("text_column.csv", "date,v,w\n2020-01-01,1,2\n2020-01-02,3,4\n", [[1, 2], [3, 4]])
rng = np.random.default_rng(1)
bits = rng.integers(0, 2**64, 300, dtype=np.uint64).view(np.float64)
bits = bits[np.isfinite(bits)][:200].reshape(-1, 4)
put_csv("digits.csv", written([["%.17g" % v for v in row] for row in bits], lineterminator="\n"), bits)
hard = ["9007199254740993", "1e23", "8.5e-323", "179769313486231570000e289", "0.1e-5000", "2.2250738585072011e-308",
        "123456789012345678901234567890", "0.000000000000000000000000000000000000000000000001e48", "1e22", "-0",
        "9007199254740992e-22", "4503599627370496.5"]
put_csv("hard.csv", "\n".join(hard) + "\n", np.array([[float(h)] for h in hard]))

with open("expected.txt", "w", encoding="utf-8") as f:
    f.write("\n".join(expected) + "\n")

for file in glob.glob("*.safetensors"):  # the package makes them private
    os.chmod(file, 0o644)
