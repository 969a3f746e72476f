"""onnx.checker accepts what the library writes, and onnxruntime computes the same of several sizes of input.

    python onnx_peer.py LUA FOLDER
"""
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime

lua, folder = sys.argv[1], sys.argv[2]
subprocess.run([lua, __file__.replace(".py", ".lua"), folder], check=True)
names = open(folder + "/names.txt").read().split()
worst = {"tensor(float)": 0.0, "tensor(double)": 0.0}
for name in names:
    model = onnx.load(f"{folder}/{name}.onnx")
    onnx.checker.check_model(model, full_check=True)
    assert [(o.domain, o.version) for o in model.opset_import] == [("", 18)] and model.ir_version == 8
    session = onnxruntime.InferenceSession(f"{folder}/{name}.onnx", providers=["CPUExecutionProvider"])
    arrays, kind = np.load(f"{folder}/{name}.npz"), session.get_outputs()[0].type
    declared = session.get_outputs()[0].shape
    k = 1
    while f"x_{k}" in arrays:
        x, y = arrays[f"x_{k}"], arrays[f"y_{k}"]
        given = {"tensor(float)": np.float32, "tensor(int64)": np.int64, "tensor(double)": np.float64}
        (out,) = session.run(["y"], {"x": x.astype(given[session.get_inputs()[0].type])})
        assert out.shape == y.shape, (name, out.shape, y.shape)
        assert all(isinstance(d, str) or d == n for d, n in zip(declared, y.shape)), (name, declared, y.shape)
        off = np.max(np.abs(out - y)) / max(1.0, np.max(np.abs(y)))
        assert off < (2e-6 if kind == "tensor(float)" else 1e-14), (name, k, off)
        worst[kind] = max(worst[kind], off)
        k += 1
    assert k > 2
print("onnx %s, onnxruntime %s: %d networks within %.1e (float32), %.1e (float64)" % (
    onnx.__version__, onnxruntime.__version__, len(names), worst["tensor(float)"], worst["tensor(double)"]))
