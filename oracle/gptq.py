"""Record what auto-gptq's linear layers allocate, save and free on a CPU.

usage: gptq.py RELEASE FOLDER [RELEASE FOLDER...]

A folder is auto_gptq/nn_modules/qlinear of a release. On a CPU its classes compute as
they do for training, with PyTorch's operators: no kernel of the extension is there. For
each class and number of bits the events of one forward and backward pass of 192 rows
through a weight of 256 × 384 in groups of 64, as operators.py prints them.
"""

import importlib.util
import sys
import types

import torch

from operators import show  # beside this file

ROWS, IN, OUT, GROUP = 192, 256, 384, 64


def linear_of(folder, name):
    for package in ("auto_gptq", "auto_gptq.nn_modules", "auto_gptq.nn_modules.qlinear"):
        sys.modules[package] = types.ModuleType(package)
        sys.modules[package].__path__ = []
    spec = importlib.util.spec_from_file_location(f"auto_gptq.nn_modules.qlinear.{name}", f"{folder}/{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.QuantLinear


def record(release, folder):
    for name, bits in (("qlinear_cuda_old", 4), ("qlinear_cuda_old", 8), ("qlinear_cuda_old", 2), ("qlinear_cuda", 4)):
        layer = linear_of(folder, name)(bits, GROUP, IN, OUT, True)
        x = torch.randn(2, ROWS // 2, IN).half().requires_grad_()
        gradient = torch.empty_like(layer(x))

        def run():
            y = layer(x)
            y.backward(gradient)
            x.grad = None
            del y

        run()
        show(f"{release} {name} {bits}", run)


if __name__ == "__main__":
    torch.set_num_threads(1)
    print("# PyTorch", torch.__version__.split("+")[0], "on a CPU, one thread")
    for release, folder in zip(sys.argv[1::2], sys.argv[2::2]):
        record(release, folder)
