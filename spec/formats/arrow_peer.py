"""pyarrow takes the columns that the library exports, and the library those that pyarrow exports, by addresses.

    python arrow_peer.py LUA FOLDER      (BUILD: where libpenumbra.so is)
"""
import ctypes
import gc
import os

import numpy as np
import pyarrow as pa

lib = ctypes.CDLL(os.path.join(os.environ.get("BUILD", "build"), "libpenumbra.so"))
P, I, L = ctypes.c_void_p, ctypes.c_int, ctypes.c_int64


def declare(name, result, *arguments):
    f = getattr(lib, name)
    f.restype, f.argtypes = result, arguments
    return f


context_new = declare("pn_context_new", P, P)
context_close = declare("pn_context_close", None, P)
message = declare("pn_context_message", ctypes.c_char_p, P)
clear = declare("pn_context_clear_error", None, P)
scope_open, scope_close = declare("pn_scope_open", ctypes.c_size_t, P), declare("pn_scope_close", None, P,
                                                                                 ctypes.c_size_t)
from_data = declare("pn_from_data", P, P, I, I, P, P)
archive_new, archive_free = declare("pn_archive_new", P, P), declare("pn_archive_free", None, P)
archive_add = declare("pn_archive_add", I, P, P, ctypes.c_char_p, P)
archive_find = declare("pn_archive_find", P, P, ctypes.c_char_p)
data_of, numel, ndim = declare("pn_tensor_data", P, P), declare("pn_tensor_numel", L, P), declare("pn_tensor_ndim", I, P)
shape_of, dtype_of = declare("pn_tensor_shape", ctypes.POINTER(L), P), declare("pn_tensor_dtype", I, P)
exported = declare("pn_arrow_export", I, P, P, P, P)
imported = declare("pn_arrow_import", P, P, P, P)
DTYPES = [np.float64, np.float32, np.int64, np.bool_]

c = context_new(None)
rng = np.random.default_rng(3)
columns = {"d": rng.normal(size=13), "f": rng.normal(size=13).astype("f4"), "i": rng.integers(-2**62, 2**62, 13),
           "b": rng.random(13) < 0.5, "wide": rng.normal(size=(13, 3)), "deep": rng.integers(0, 9, (13, 2, 2)),
           "flags": rng.random((13, 5)) < 0.5}

# from here to pyarrow
mark, archive = scope_open(c), archive_new(c)
for name, values in columns.items():
    shape = (L * values.ndim)(*values.shape)
    t = from_data(c, DTYPES.index(values.dtype.type), values.ndim, shape, values.ctypes.data)
    assert t and archive_add(c, archive, name.encode(), t) == 0, message(c)
schema, array = ctypes.create_string_buffer(72), ctypes.create_string_buffer(80)
assert exported(c, archive, schema, array) == 0, message(c)
archive_free(archive)
scope_close(c, mark)
batch = pa.RecordBatch._import_from_c(ctypes.addressof(array), ctypes.addressof(schema))
batch.validate(full=True)
assert batch.schema.names == list(columns) and batch.num_rows == 13
for name, values in columns.items():
    assert np.array_equal(np.array(batch.column(name).to_pylist(), dtype=values.dtype), values), name
part = batch.slice(4, 6)
single = batch.column("d")
del batch
gc.collect()
assert np.array_equal(single.to_numpy(), columns["d"]) and part.column("wide").to_pylist() == columns["wide"][4:10].tolist()


def take(batch):
    """What the library makes of a batch, or its message."""
    schema, array = ctypes.create_string_buffer(72), ctypes.create_string_buffer(80)
    batch._export_to_c(ctypes.addressof(array), ctypes.addressof(schema))
    archive = imported(c, schema, array)
    assert not any(array[56 + 8 + k] != b"\0" for k in range(8)), "released"  # the release of the array
    if not archive:
        text = message(c).decode()
        clear(c)
        return text
    found = {}
    for name in batch.schema.names:
        t = archive_find(archive, name.encode())
        shape = [shape_of(t)[k] for k in range(ndim(t))]
        dtype = np.dtype(DTYPES[dtype_of(t)])
        found[name] = np.frombuffer(ctypes.string_at(data_of(t), numel(t) * dtype.itemsize), dtype).reshape(shape)
    archive_free(archive)
    return found


# and from pyarrow back, slices with their offsets among them
for rows in (part, part.slice(1, 3), part.slice(0, 0)):
    found = take(rows)
    for name, values in found.items():
        wanted = rows.column(name).to_pylist()
        assert values.tolist() == wanted, (name, values, wanted)
narrow = {t: pa.array([1, None, 3], getattr(pa, t)()) for t in ("float64", "float32", "float16")}
narrow.update({t + "_": pa.array([1, 2, 3], getattr(pa, t)()) for t in ("int8", "uint8", "int16", "uint16", "int32",
                                                                        "uint32", "int64", "uint64")})
found = take(pa.record_batch(narrow).slice(0, 3))
for t in ("float64", "float32", "float16"):
    assert found[t][0] == 1 and np.isnan(found[t][1]) and found[t][2] == 3
    assert found[t].dtype == (np.float64 if t == "float64" else np.float32)
assert all(found[n].tolist() == [1, 2, 3] and found[n].dtype == np.int64 for n in narrow if n.endswith("_"))
for values, text in ((pa.array([1, None]), "lacks a value"), (pa.array(["a"]), "no tensor holds"),
                     (pa.array(["a", "b", "a"]).dictionary_encode(), "dictionary"), (pa.array([[1], [2, 3]]), "no tensor"),
                     (pa.array([2**64 - 1], pa.uint64()), "int64 cannot"),
                     (pa.array([[1.0, 2.0], None], pa.list_(pa.float64(), 2)), "lacks a list")):
    got = take(pa.record_batch({"x": values}))
    assert isinstance(got, str) and text in got, (got, text)
del part, single
gc.collect()
context_close(c)
print("pyarrow %s: columns of both sides alike, slices, missing numbers and refusals" % pa.__version__)
