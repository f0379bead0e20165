"""A recording stand-in for the GPU, under a PyTorch that runs on the CPU or under the fake one.

torch.cuda stays the Python that it is; what it calls in torch._C is here. Each call is
written to the file that STANDIN_LOG names, so that a test can read the order in
which a program synchronized, read and reset. It measures nothing: the bytes are
what a script says through allocate() and free().
"""

import os
import types

log = []
DEVICES = int(os.environ.get("STANDIN_DEVICES", "1"))
GIB = 1 << 30


class Pool:
    """Current and highest bytes of one device; blocks are reserved in pieces of 2 MiB and never returned."""

    def __init__(self):
        self.allocated = self.reserved = self.allocated_peak = self.reserved_peak = 0

    def change(self, size):
        self.allocated += size
        self.reserved = max(self.reserved, -(-self.allocated // (2 << 20)) * (2 << 20))
        self.allocated_peak = max(self.allocated_peak, self.allocated)
        self.reserved_peak = max(self.reserved_peak, self.reserved)


pools = [Pool() for _ in range(DEVICES)]
contexts = set(range(DEVICES))
state = types.SimpleNamespace(capturing=False, broken=None, initialized=True)


def say(*words):
    line = " ".join(str(w) for w in words)
    log.append(line)
    path = os.environ.get("STANDIN_LOG")
    if path:
        with open(path, "a", encoding="ascii") as f:
            f.write("%d %s\n" % (os.getpid(), line))


def allocate(size, device=0):
    pools[device].change(size)


def free(size, device=0):
    pools[device].change(-size)


def stats(device):
    say("read", device)
    pool = pools[device]

    def of(current, peak):
        return {name: {"current": current, "peak": peak, "allocated": 0, "freed": 0} for name in ("all", "small_pool", "large_pool")}

    return {"allocated_bytes": of(pool.allocated, pool.allocated_peak), "reserved_bytes": of(pool.reserved, pool.reserved_peak),
            "num_alloc_retries": 0, "num_ooms": 0}


def reset(device):
    say("reset", device)
    pool = pools[device]
    pool.allocated_peak, pool.reserved_peak = pool.allocated, pool.reserved


def synchronize(device=None):
    say("synchronize", device)
    if state.capturing:
        raise RuntimeError("operation not permitted when stream is capturing")
    if state.broken:
        raise RuntimeError(state.broken)


def capturing():
    return state.capturing


def properties(device):
    return types.SimpleNamespace(name="stand-in", major=9, minor=0, total_memory=int(os.environ.get("STANDIN_TOTAL", 80 * GIB)))


def free_and_total(device=None):
    return 60 * GIB, 80 * GIB


def install(torch):
    """Under a real PyTorch: the functions of torch.cuda that would ask the driver, and those of torch._C below them."""
    low = {"_cuda_memoryStats": stats, "_cuda_resetPeakMemoryStats": reset,
           "_cuda_hasPrimaryContext": lambda d: d in contexts}
    for name, function in low.items():
        setattr(torch._C, name, function)
    cuda = torch.cuda
    cuda.synchronize, cuda.device_count, cuda.get_device_properties = synchronize, lambda: DEVICES, properties
    cuda.mem_get_info = free_and_total
    cuda.current_device, cuda.set_device, cuda.init = lambda: 0, lambda device: None, lambda: None
    cuda.is_current_stream_capturing = capturing
    cuda.default_generators = tuple(torch.Generator() for _ in range(DEVICES))
    cuda._initialized = True
    cuda.is_available = lambda: False  # the program itself stays on the CPU


def visible(torch):
    """The lab asks for a GPU: say there is one, and put on the CPU what it puts there."""
    torch.cuda.is_available = lambda: True
    if hasattr(torch, "accelerator"):  # optimizers ask it whether a stream is captured
        torch.accelerator.current_accelerator = lambda check_available=False: None

    def on_cpu(function):
        def call(*args, **kwargs):
            if "device" in kwargs and "cuda" in str(kwargs["device"]):
                kwargs["device"] = "cpu"
            return function(*args, **kwargs)

        return call

    for holder, name in ((torch, "zeros"), (torch, "randn"), (torch.nn.Module, "to"), (torch.Tensor, "to")):
        setattr(holder, name, on_cpu(getattr(holder, name)))
