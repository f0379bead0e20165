"""As much of PyTorch as the probe touches, so that its tests run without it: modules, a loss, backward,
optimizers, save, and torch.cuda with the counters of standin.py. It computes nothing."""

import os
import sys
import types

import standin

__version__ = "0.0-fake"
if os.environ.get("BROKEN"):
    raise OSError("libcudart.so: cannot open shared object file")


def module(name, **members):
    made = types.ModuleType("torch." + name)
    made.__dict__.update(members)
    sys.modules["torch." + name] = made
    parent, _, last = name.rpartition(".")
    setattr(sys.modules["torch." + parent] if parent else sys.modules["torch"], last, made)
    return made


class Tensor:
    shape, dtype, device = (2, 3), "torch.float32", "cuda:0"

    def backward(self):
        autograd.backward(self)

    def numel(self):
        return 6

    def element_size(self):
        return 4

    def is_contiguous(self):
        return False


class Module:
    def __call__(self, *args, **kwargs):
        return self.forward(*args, **kwargs)

    def forward(self, x=None, **options):
        standin.say("run", type(self).__name__)
        return Tensor()

    def to(self, device):
        return self

    def cuda(self):
        return self


class _Loss(Module):
    pass


class Optimizer:
    def __init__(self):
        pass

    def step(self, closure=None):
        standin.say("run step")
        if closure:
            closure()


class CUDAGraph:
    def capture_begin(self):
        standin.state.capturing = True

    def capture_end(self):
        standin.state.capturing = False


class graph:
    def __init__(self, graph):
        self.graph = graph

    def __enter__(self):
        self.graph.capture_begin()

    def __exit__(self, *error):
        self.graph.capture_end()


class OutOfMemoryError(RuntimeError):
    pass


def save(value, path):
    standin.say("run save")


during_backward = []


def backward(tensors):
    standin.say("run backward")
    for act in during_backward:
        act()


def index_of(device, optional=False):
    return 0 if device is None else int(str(device).rpartition(":")[2])


class device:
    def __init__(self, name):
        self.type, _, index = name.partition(":")
        self.index = int(index) if index else None


gradients = [True]


def is_grad_enabled():
    return gradients[0]


version = module("version", cuda="0.0", hip=None)
module("_C", _cuda_memoryStats=standin.stats, _cuda_resetPeakMemoryStats=standin.reset,
       _cuda_hasPrimaryContext=lambda d: d in standin.contexts)
module("backends")
module("backends.cudnn", version=lambda: None)
module("jit", is_tracing=lambda: False)
nn = module("nn", Module=Module)
module("nn.modules")
module("nn.modules.loss", _Loss=_Loss)
autograd = module("autograd", backward=backward)
optim = module("optim", Optimizer=Optimizer)
module("serialization", save=save)

cuda = module("cuda", is_initialized=lambda: standin.state.initialized, device_count=lambda: standin.DEVICES, synchronize=standin.synchronize,
              is_current_stream_capturing=standin.capturing, get_device_properties=standin.properties, CUDAGraph=CUDAGraph,
              mem_get_info=standin.free_and_total, OutOfMemoryError=OutOfMemoryError,
              is_available=lambda: os.environ.get("FAKE_CUDA", "1") == "1")
module("cuda.graphs", graph=graph)
cuda.graph = graph
module("cuda._utils", _get_device_index=index_of)
memory = module("cuda.memory")


def memory_stats_as_nested_dict(device=None):
    return standin.stats(index_of(device)) if cuda.is_initialized() else {}


def reset_peak_memory_stats(device=None):
    standin.reset(index_of(device))


def max_memory_allocated(device=None):
    return memory.memory_stats_as_nested_dict(device)["allocated_bytes"]["all"]["peak"]


def get_allocator_backend():
    return os.environ.get("FAKE_BACKEND", "native")


def _record_memory_history(max_entries=None):
    standin.say("record", max_entries)


def _snapshot():
    return {"segments": []}


memory._record_memory_history, memory._snapshot = _record_memory_history, _snapshot
for function in (memory_stats_as_nested_dict, reset_peak_memory_stats, max_memory_allocated, get_allocator_backend):
    setattr(memory, function.__name__, function)
    setattr(cuda, function.__name__, function)
