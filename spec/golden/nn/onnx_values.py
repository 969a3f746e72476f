"""Writes onnx_values.json: of each network of onnx_cases.lua the file that pn.nn.save_onnx writes, once onnx.checker has
accepted it, and what onnxruntime computes by it of the inputs there (those of few numbers).

    python spec/golden/nn/onnx_values.py lua5.4      (onnx, onnxruntime, numpy; LUA_PATH and LUA_CPATH set)
"""
import json
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime

here = os.path.dirname(os.path.abspath(__file__))
with tempfile.TemporaryDirectory() as folder:
    subprocess.run([sys.argv[1], os.path.join(here, "../../formats/onnx_peer.lua"), folder], check=True)
    result = {}
    for name in open(folder + "/names.txt").read().split():
        path = f"{folder}/{name}.onnx"
        onnx.checker.check_model(path, full_check=True)
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        arrays, values, k = np.load(f"{folder}/{name}.npz"), [], 1
        dtype = {"tensor(float)": "f4", "tensor(int64)": "i8", "tensor(double)": "f8"}[session.get_inputs()[0].type]
        while f"x_{k}" in arrays:
            (y,) = session.run(["y"], {"x": arrays[f"x_{k}"].astype(dtype)})
            values.append([float("%.9g" % v) for v in y.ravel()] if y.size <= (2000 if k == 1 else 300) else None)
            k += 1
        with open(path, "rb") as file:
            result[name] = {"file": file.read().hex(), "y": values}
with open(os.path.join(here, "onnx_values.json"), "w") as out:
    json.dump(result, out, indent=0, sort_keys=True)
    out.write("\n")
