"""predict.py: a Python host by ctypes, with NumPy arrays passed without a copy of their own: loads a model script, sets
limits and meets them, predicts, catches an error with its line, cancels from another thread.

    python3 predict.py        (PENUMBRA_LIBRARY: where libpenumbra.so is, if the loader does not find it)
"""
import ctypes as C
import os
import threading
import time
import tracemalloc

import numpy as np

MAX_DIMS = 8
DTYPES = [np.dtype(np.float64), np.dtype(np.float32), np.dtype(np.int64), np.dtype(np.bool_)]  # enum pn_dtype
OK, NOMEM, CANCELLED, SCRIPT, TIME = 0, 1, 13, 15, 16  # of enum pn_status
OUTPUT = C.CFUNCTYPE(None, C.c_void_p, C.c_void_p, C.c_size_t)


class ContextConfig(C.Structure):  # pn_context_config
    _fields_ = [("allocate", C.c_void_p), ("allocator_data", C.c_void_p), ("memory_limit", C.c_size_t),
                ("pool_limit", C.c_size_t), ("seed", C.c_uint64), ("threads", C.c_int)]


class Limits(C.Structure):  # pn_limits
    _fields_ = [("memory", C.c_size_t), ("instructions", C.c_uint64), ("seconds", C.c_double), ("output", C.c_uint64)]


class Config(C.Structure):  # pn_runtime_config
    _fields_ = [("context", ContextConfig), ("limits", Limits), ("libraries", C.c_uint), ("output", OUTPUT),
                ("output_data", C.c_void_p), ("root", C.c_char_p), ("root_writable", C.c_int)]


class Array(C.Structure):  # pn_array
    _fields_ = [("dtype", C.c_int), ("ndim", C.c_int), ("shape", C.c_int64 * MAX_DIMS), ("data", C.c_void_p),
                ("capacity", C.c_int64)]


lib = C.CDLL(os.environ.get("PENUMBRA_LIBRARY", "libpenumbra.so.0"))
for name, result, arguments in [
    ("runtime_new", C.c_int, [C.POINTER(Config), C.POINTER(C.c_void_p)]), ("runtime_close", None, [C.c_void_p]),
    ("runtime_run_string", C.c_int, [C.c_void_p, C.c_char_p, C.c_size_t, C.c_char_p]),
    ("runtime_call", C.c_int, [C.c_void_p, C.c_char_p, C.c_int, C.POINTER(Array), C.c_int, C.POINTER(Array)]),
    ("runtime_message", C.c_char_p, [C.c_void_p]), ("runtime_cancel", None, [C.c_void_p]),
    ("status_name", C.c_char_p, [C.c_int]),
]:
    function = getattr(lib, "pn_" + name)
    function.restype, function.argtypes = result, arguments


class Error(Exception):
    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


class Runtime:
    """A script behind limits; what it prints goes to `output`, a function of a line."""

    def __init__(self, memory=0, seconds=0.0, output=None):
        def show(_, text, length):
            output(C.string_at(text, length).decode(errors="replace"))

        self._show = OUTPUT(show) if output else OUTPUT()  # lives as long as the runtime
        config = Config(limits=Limits(memory=memory, seconds=seconds), output=self._show)
        self._rt = C.c_void_p()
        status = lib.pn_runtime_new(C.byref(config), C.byref(self._rt))
        if status != OK:
            raise Error(status, "no runtime: " + lib.pn_status_name(status).decode())

    def close(self):
        lib.pn_runtime_close(self._rt)
        self._rt = C.c_void_p()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _check(self, status):
        if status != OK:
            raise Error(status, lib.pn_runtime_message(self._rt).decode(errors="replace"))

    def run(self, script, name="script"):
        text = script.encode()
        self._check(lib.pn_runtime_run_string(self._rt, text, len(text), name.encode()))

    def call(self, name, *arrays, results=1):
        """The first `results` results of the global function; each an array of its own."""
        kept = [np.ascontiguousarray(a) for a in arrays]  # the caller's own where it has no gaps
        given = (Array * max(1, len(kept)))()
        for to, a in zip(given, kept):
            if a.dtype not in DTYPES or a.ndim > MAX_DIMS:
                raise TypeError(f"call: an array of {a.dtype} with {a.ndim} axes")
            to.dtype, to.ndim, to.data = DTYPES.index(a.dtype), a.ndim, a.ctypes.data
            to.shape[:a.ndim] = a.shape
        out = (Array * max(1, results))()
        self._check(lib.pn_runtime_call(self._rt, name.encode(), len(kept), given, results, out))
        return [self._copied(a) for a in out[:results]]

    @staticmethod
    def _copied(a):
        shape, dtype = tuple(a.shape[:a.ndim]), DTYPES[a.dtype]
        size = int(np.prod(shape)) * dtype.itemsize
        return np.frombuffer(C.string_at(a.data, size) if size else b"", dtype).reshape(shape)

    def cancel(self):
        lib.pn_runtime_cancel(self._rt)


MODEL = """
print "loaded"
function predict(x) return x:exp(), x:sum() end
function fail(x)
  return x:reshape { 7 }
end
function loop() while true do end end
function grow() local t = {} while true do t[#t + 1] = pn.zeros(1000) end end
function mean(x) return x:mean() end
pn = require "penumbra"
"""


def main():
    wrong, lines = [], []

    def expect(ok, what):
        if not ok:
            wrong.append(what)
            print("not as expected:", what)

    def failure(f):
        began = time.monotonic()
        try:
            f()
            return OK, 0
        except Error as e:
            return e.status, time.monotonic() - began

    with Runtime(memory=64 << 20, seconds=20, output=lines.append) as model:
        model.run(MODEL, "model")
        expect("".join(lines).startswith("loaded"), "what the script printed")
        x = np.arange(3.0)
        y, total = model.call("predict", x, results=2)
        print(y, total)
        expect(np.allclose(y, np.exp(x), rtol=1e-14) and float(total) == 3, "exp and sum")
        part = np.arange(24, dtype=np.float32).reshape(4, 6)[::2, 1:4]  # with gaps
        y, total = model.call("predict", part * 0.1, results=2)
        expect(y.dtype == np.float32 and y.shape == (2, 3) and np.allclose(y, np.exp(part * 0.1)), "a part of an array")
        try:
            model.call("fail", x)
            expect(False, "an error")
        except Error as e:
            print(e)
            expect(e.status == SCRIPT and "model:5:" in str(e), "its line")
        big = np.ones(4 << 20)  # 32 MiB, read where they are: nothing of that size is made here
        tracemalloc.start()
        expect(float(model.call("mean", big)[0]) == 1, "a mean")
        expect(tracemalloc.get_traced_memory()[1] < big.nbytes / 100, "no copy")
        tracemalloc.stop()
        status, took = failure(lambda: model.call("grow"))
        expect(status == NOMEM, "the limit of memory")
        threads, here = [], threading.get_ident()

        def cancel():
            threads.append(threading.get_ident())
            model.cancel()

        timer = threading.Timer(0.05, cancel)
        timer.start()
        status, took = failure(lambda: model.call("loop"))
        timer.join()
        expect(status == CANCELLED and took < 10 and threads != [here], "cancelled from another thread")
        expect(model.call("predict", np.zeros((0, 2)))[0].shape == (0, 2), "it goes on")
    with Runtime(seconds=0.1) as model:
        model.run(MODEL)
        expect(failure(lambda: model.call("loop"))[0] == TIME, "the limit of time")
    print("something is wrong" if wrong else "all as expected")
    return len(wrong)


if __name__ == "__main__":
    raise SystemExit(main())
