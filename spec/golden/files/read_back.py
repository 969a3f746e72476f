"""Shows that NumPy, safetensors, idx2numpy and Python's csv read what Penumbra writes. Run in the project's
folder after `make`, with those packages installed: python spec/golden/files/read_back.py
"""
import csv
import gzip
import os
import subprocess
import sys
import tempfile
import zipfile

import idx2numpy
import numpy as np
from safetensors import safe_open
from safetensors.numpy import load_file

SCRIPT = r"""
local pn = require "penumbra"
local folder = ...
pn.seed(3)
local x, y = pn.randn{7, 5}, pn.randn({2, 3, 4}, {dtype = "float32"})
local t = {x = x, y = y, n = pn.randint(-5, 5, {6}), mask = x:gt(0), scalar = pn.tensor(2.5), none = pn.zeros{0, 3},
  inner = {list = {pn.ones(1), pn.zeros(2)}}, ["\u{e4} \"q\""] = pn.tensor{0 / 0, 1 / 0, -0.0}}
assert(pn.save(folder .. "/t.safetensors", t, {made = "here \u{fc}"}))
assert(pn.data.save_npz(folder .. "/t.npz", t))
assert(pn.data.save_npz(folder .. "/packed.npz", t, {compressed = true}))
for k, v in pairs(t) do
  if pn.is_tensor(v) and not k:find " " then
    assert(pn.data.save_npy(folder .. "/" .. k .. ".npy", v))
    assert(pn.data.save_npy(folder .. "/" .. k .. ".npy.gz", v))
    assert(pn.data.save_idx(folder .. "/" .. k .. ".idx", v))
  end
end
assert(pn.data.save_csv(folder .. "/x.csv", x, {names = {"a", "b,", "c\"", "d", "e f"}}))
assert(pn.data.save_csv(folder .. "/x.csv.gz", x, {delimiter = ";"}))
"""

checked = 0


def same(name, got, want):
    global checked
    got, want = np.asarray(got), np.asarray(want)
    assert got.shape == want.shape and got.dtype == want.dtype, (name, got.shape, got.dtype, want.shape, want.dtype)
    assert got.tobytes() == want.tobytes(), (name, got, want)
    checked += 1


with tempfile.TemporaryDirectory() as folder:
    script = os.path.join(folder, "write.lua")
    with open(script, "w", encoding="utf-8") as f:
        f.write(SCRIPT)
    environment = dict(os.environ, LUA_PATH="lua/?.lua;lua/?/init.lua", LUA_CPATH="build/lua/?.so")
    subprocess.run(["lua5.4", script, folder], check=True, env=environment)
    at = lambda name: os.path.join(folder, name)
    t = load_file(at("t.safetensors"))
    with safe_open(at("t.safetensors"), "numpy") as f:
        assert f.metadata() == {"made": "here \u00fc"}
    assert set(t) == {"x", "y", "n", "mask", "scalar", "none", "inner.list.1", "inner.list.2", "\u00e4 \"q\""}, set(t)
    assert t["x"].dtype == np.float64 and t["y"].dtype == np.float32 and t["n"].dtype == np.int64
    assert t["mask"].dtype == np.bool_ and t["x"].shape == (7, 5) and t["none"].shape == (0, 3)
    same("mask", t["mask"], t["x"] > 0)
    for file in "t.npz", "packed.npz":
        assert zipfile.ZipFile(at(file)).testzip() is None
        with np.load(at(file), allow_pickle=False) as archive:
            assert set(archive.files) == set(t)
            for name in t:
                same(file + " " + name, archive[name], t[name])
    for name in "x", "y", "n", "mask", "scalar", "none":
        same(name + ".npy", np.load(at(name + ".npy"), allow_pickle=False), t[name])
        with gzip.open(at(name + ".npy.gz")) as f:
            same(name + ".npy.gz", np.load(f, allow_pickle=False), t[name])
        if t[name].ndim == 0:
            continue
        got = idx2numpy.convert_from_file(at(name + ".idx"))
        same(name + ".idx", got.astype(t[name].dtype), t[name])
    rows = list(csv.reader(open(at("x.csv"), newline="")))
    assert rows[0] == ["a", "b,", "c\"", "d", "e f"]
    same("x.csv", np.array(rows[1:], float), t["x"])
    same("x.csv.gz", np.loadtxt(at("x.csv.gz"), delimiter=";"), t["x"])
print(checked, "arrays read back,", "NumPy", np.__version__, "Python", sys.version.split()[0])
