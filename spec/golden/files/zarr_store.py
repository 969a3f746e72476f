"""Writes zarr_store.json: stores that ArviZ and zarr-python write, each file of them as hexadecimal digits, and what
they hold. All numbers are halves of whole numbers, so the lists are exact.

    pip install 'zarr<3' 'xarray==2024.11.0' 'arviz<0.23' && python zarr_store.py
"""
import json
import os
import tempfile

import arviz as az
import numpy as np
import zarr


def files_of(folder):
    found = {}
    for root, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(root, name)
            with open(path, "rb") as file:
                found[os.path.relpath(path, folder)] = file.read().hex()
    return dict(sorted(found.items()))


def halves(*shape):
    n = int(np.prod(shape))
    return (np.arange(n).reshape(shape) - n // 3) / 2


def arviz_store(folder, compress):
    posterior = {"mu": halves(2, 4), "theta": halves(2, 4, 3).astype("f4"), "k": np.arange(8).reshape(2, 4).astype("i4")}
    stats = {"lp": halves(2, 4) * -2, "diverging": np.arange(8).reshape(2, 4) % 3 == 1,
             "tree_depth": np.arange(8).reshape(2, 4) % 5, "energy": halves(2, 4) * halves(2, 4)}
    densities = {"y": halves(2, 4, 3) / 4 - 3}
    data = az.from_dict(posterior, sample_stats=stats, log_likelihood=densities, observed_data={"y": halves(3)},
                        coords={"school": ["Aachen", "Łódź", "x"]}, dims={"theta": ["school"]})
    for group in data.groups():
        data[group].attrs = {"made_by": "zarr_store.py"}
        for name in data[group].variables:
            if not compress:
                data[group][name].encoding["compressor"] = None
    data.posterior["mu"].encoding["chunks"] = (1, 3)
    data.posterior["theta"].encoding["chunks"] = (2, 3, 2)
    data.to_zarr(folder)
    expected = {"posterior": posterior, "sample_stats": stats, "log_likelihood": densities,
                "observed_data": {"y": halves(3)}}
    return {g: {k: v.tolist() for k, v in vs.items()} for g, vs in expected.items()}


def zarr_arrays(folder):
    root = zarr.open_group(folder, mode="w")
    expected = {}

    def put(name, values, written=None, **how):
        a = root.create_dataset("g/" + name, shape=values.shape, dtype=values.dtype, compressor=None, **how)
        if written is None:
            a[...] = values
        else:
            a[written] = values[written]
        expected[name] = values.tolist()

    put("fortran", halves(3, 5), chunks=(2, 3), order="F")
    put("fortran_i2", np.arange(24).reshape(2, 3, 4).astype("i2") - 7, chunks=(2, 2, 3), order="F")
    put("big_endian", halves(4).astype(">f8"), chunks=(4,))
    put("big_i4", (np.arange(5) * -70000).astype(">i4"), chunks=(2,))
    put("small", halves(6).astype("f2"), chunks=(4,))
    put("bytes", np.arange(250, 256).astype("u1"), chunks=(10,))
    put("flags", np.array([True, False, True]), chunks=(2,))
    put("alone", np.array(2.5))
    put("nothing", np.zeros((0, 3)), chunks=(1, 3))
    sparse = np.full((4, 4), -1.5)
    sparse[:2, 2:] = halves(2, 2)
    put("sparse", sparse, (slice(0, 2), slice(2, 4)), chunks=(2, 2), fill_value=-1.5)
    ones = np.full(5, 7, dtype="i8")
    ones[3:] = [1, 2]
    put("sparse_i8", ones, slice(3, 5), chunks=(3,), fill_value=7)
    never = np.full(3, np.nan)
    a = root.create_dataset("g/never", shape=never.shape, dtype="f8", compressor=None, fill_value=np.nan)
    zarr.consolidate_metadata(folder)
    return expected


if __name__ == "__main__":
    result = {}
    for name, make in {"arviz": lambda f: arviz_store(f, False), "compressed": lambda f: arviz_store(f, True),
                       "zarr": zarr_arrays}.items():
        with tempfile.TemporaryDirectory() as folder:
            expected = make(os.path.join(folder, "s"))
            files = files_of(os.path.join(folder, "s"))
            if name == "compressed":  # its metadata says enough
                files, expected = {".zmetadata": files[".zmetadata"]}, None
            result[name] = {"files": files, "expected": expected}
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "zarr_store.json"), "w") as out:
        json.dump(result, out, indent=0, ensure_ascii=False)
        out.write("\n")
