"""What agreement.lua wrote: parameters, data, draws, loss and gradients of a row, and whether a peer finds the same."""
import os
import re

import numpy

FOLDER = os.environ.get("BUILD", "build") + "/peers-data"


class Record:
    def __init__(self, group, key):
        arrays = numpy.load(f"{FOLDER}/{group}-{re.sub('[^0-9A-Za-z]+', '_', key)}.npz")
        self.key, self.parameters, self.gradients, self.data = key, {}, {}, {}
        parts = {"parameter": self.parameters, "gradient": self.gradients}
        for name in arrays.files:
            first, _, rest = name.partition(".")
            if rest and first in parts:
                parts[first][rest] = arrays[name]
            else:
                self.data[name] = arrays[name]
        self.loss = float(self.data.pop("loss"))

    def check(self, loss, gradients, tolerance=1e-4):
        """Stops where the loss or the gradient of a parameter (by the norm of the difference) is not ours."""
        loss = float(loss)
        if not abs(loss - self.loss) <= tolerance * abs(self.loss):
            raise SystemExit(f"{self.key}: the loss is {loss:.8g}, ours {self.loss:.8g}")
        norm = numpy.linalg.norm
        total = sum(float(norm(g)) ** 2 for g in self.gradients.values()) ** 0.5
        for name, ours in self.gradients.items():
            theirs = numpy.asarray(gradients[name])
            if theirs.shape != ours.shape or not norm(theirs - ours) <= 10 * tolerance * (norm(ours) + 1e-4 * total):
                raise SystemExit(f"{self.key}: the gradient of {name} has norm {norm(theirs):.6g}, ours {norm(ours):.6g}"
                                 f", their difference {norm(theirs - ours):.3g}")
