"""Readings of PyTorch's memory counters around the phases of a program.

Used in three ways: injected into a program that stays as it is (this file, under
the name sitecustomize.py too, in a folder of PYTHONPATH), imported by it
(``from floodmark_probe import phase``), or run (``floodmark_probe.py lab``).
It writes lines of JSON into the folder that FLOODMARK_PROBE_OUT names.

Around each phase, for every device that the process has a context on: name the
phase and its inputs, synchronize, read, reset the peaks of that device, run while
keeping the outputs, synchronize, read both peaks and both levels, write at once.
Six readings a phase and device; none is invented where one could not be taken.

It needs Python 3.9 and the standard library; PyTorch from 1.13 on is used where the
program imports it. Whatever goes wrong in here, the program goes on.
"""

import atexit
import contextlib
import functools
import hashlib
import importlib.machinery
import importlib.util
import inspect
import json
import os
import socket
import sys
import threading
import time
import weakref
from collections.abc import Mapping

VERSION = 1

SETTING = "FLOODMARK_PROBE_"
HOST = socket.gethostname()

# Who tells a process its rank, the most reliable first: launchers of PyTorch set RANK for
# the process itself, while SLURM_PROCID may belong to a launcher above it.
RANKS = (
    ("RANK", "LOCAL_RANK", "WORLD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMIX_RANK", "LOCAL_RANK", "PMIX_SIZE"),
    ("PMI_RANK", "MPI_LOCALRANKID", "PMI_SIZE"),
    ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS"),
)
VISIBLE = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "SLURM_JOB_ID", "SLURM_NODEID")
ALLOCATOR = (
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_HIP_ALLOC_CONF",
    "PYTORCH_NO_CUDA_MEMORY_CACHING",
    "PYTORCH_NO_HIP_MEMORY_CACHING",
)
EXTENSIONS = ("transformers", "accelerate", "peft", "trl", "deepspeed", "safetensors", "bitsandbytes", "flash_attn",
              "xformers", "triton", "apex", "lightning", "datasets", "diffusers", "torchao", "torchvision")

# Bounds that keep a line under 64 KiB.
MOST_PARTS, MOST_TENSORS, MOST_VALUES, MOST_TEXT, MOST_LINE = 4096, 64, 32, 256, 64 << 10


def setting(name, default=None):
    return os.environ.get(SETTING + name, default) or default


def number(text):
    """The whole number that a text spells, or None."""
    try:
        return int(text)
    except (TypeError, ValueError):
        return None


def short(value, most=MOST_TEXT):
    text = value if isinstance(value, str) else str(value)
    return text if len(text) <= most else text[: most - 1] + "…"


def read_text(path):
    try:
        with open(path, encoding="ascii") as f:
            return f.read().strip()
    except (OSError, ValueError):
        return None


# --- The stream: one file of lines for this process -------------------------------------


class Stream:
    """Lines of JSON in a file of this process alone, each written by one write(2)."""

    def __init__(self, folder=None, path=None):
        self.folder = folder and os.path.abspath(folder)  # the program may change directory
        self.fixed = path and os.path.abspath(path)
        self.forked_from = None
        self.restart()

    def restart(self):
        """Begin anew; a forked child has a file of its own, and only when it has something to say."""
        self.lock = threading.RLock()  # the old one may be held by a thread that the child does not have
        self.path = self.fd = self.identity = None
        self.torn = self.complained = False

    def write(self, kind=None, **fields):
        """One line; without a kind only the first line of the stream, if it is still due."""
        try:
            with self.lock:
                if self.path is None:
                    self._create()
                if kind:
                    self._append(encode(kind, fields))
        except Exception as error:  # a full disk must not end the program
            self._complain(error)

    def _create(self):
        rank = rank_fields()["rank"]
        who = "process" if rank is None else "rank-%05d" % rank
        name = "%s.%s.%d.%d.jsonl" % (who, HOST.replace(os.sep, "_")[:64], os.getpid(), time.time_ns())
        self.path = self.fixed or os.path.join(self.folder, name)
        self._open(os.O_CREAT | os.O_EXCL)
        self._append(encode("process", process_fields(self.forked_from)))

    def _open(self, flags):
        fd = os.open(self.path, os.O_WRONLY | os.O_APPEND | getattr(os, "O_CLOEXEC", 0) | flags, 0o644)
        self.fd = out_of_the_way(fd)
        status = os.fstat(self.fd)
        self.identity = (status.st_dev, status.st_ino)

    def _append(self, data):
        if not self._is_ours():
            self._open(0)
        data = b"\n" + data if self.torn else data
        self.torn = os.write(self.fd, data) != len(data)

    def _is_ours(self):
        """Programs close descriptors that are not theirs, and then get their numbers for files of their own."""
        try:
            status = os.fstat(self.fd)
        except OSError:
            return False
        return (status.st_dev, status.st_ino) == self.identity

    def _complain(self, error):
        if not self.complained:
            self.complained = True
            complain("readings are lost: %s" % error)


def complain(text):
    try:
        sys.stderr.write("floodmark_probe: %s\n" % text)
    except Exception:  # the program closed it
        pass


def out_of_the_way(fd):
    """The descriptor under a high number: some programs rely on the next free one."""
    try:
        import fcntl

        high = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 200)
    except (ImportError, OSError, ValueError):
        return fd
    os.close(fd)
    return high


def encode(kind, fields):
    line = {"v": VERSION, "type": kind, "t_ns": time.time_ns(), "mono_ns": time.monotonic_ns()}
    line.update(fields)
    data = json.dumps(line, separators=(",", ":"), default=short).encode("ascii")
    if len(data) >= MOST_LINE:
        for name in ("inputs", "argv", "settings"):
            if name in line:
                line[name] = None
        line["cut"] = True
        data = json.dumps(line, separators=(",", ":"), default=short).encode("ascii")
    return data + b"\n"


def rank_fields():
    for rank, local, world in RANKS:
        value = number(os.environ.get(rank))
        if value is not None:
            return {"rank": value, "local_rank": number(os.environ.get(local)),
                    "world_size": number(os.environ.get(world)), "rank_from": rank}
    return {"rank": None, "local_rank": number(os.environ.get("LOCAL_RANK")), "world_size": None, "rank_from": None}


def process_fields(forked_from):
    try:
        folder = os.getcwd()
    except OSError:  # it was deleted
        folder = None
    argv = getattr(sys, "orig_argv", None) or getattr(sys, "argv", [])  # argv is not set yet in a sitecustomize
    fields = {
        "probe": VERSION, "run": setting("RUN"), "pid": os.getpid(), "ppid": os.getppid(), "forked_from": forked_from,
        "host": HOST, "boot_id": read_text("/proc/sys/kernel/random/boot_id"),
        "python": sys.version.split()[0], "executable": sys.executable, "argv": [short(a) for a in argv[:MOST_TENSORS]],
        "cwd": folder, "phases": setting("PHASES", "1") != "0",
        "settings": {k: short(v) for k, v in os.environ.items() if k.startswith(SETTING)},
        "visible": {k: os.environ.get(k) for k in VISIBLE},
    }
    fields.update(rank_fields())
    return fields


# --- What a phase is given, and what came of it -----------------------------------------


def is_tensor(value):
    """Asked of the type: a proxy that records operations would record the question."""
    return hasattr(type(value), "shape") and hasattr(type(value), "dtype")


def parts_of(value, name="", found=None, depth=0):
    """[(name, tensor, number or text)] of nested containers."""
    found = [] if found is None else found
    if is_tensor(value) or isinstance(value, (bool, int, float, str)):
        found.append((name or "input", value))
    elif depth < 4 and isinstance(value, (Mapping, list, tuple)):
        items = value.items() if isinstance(value, Mapping) else enumerate(value)
        for key, item in items:
            if len(found) > MOST_PARTS:
                break
            parts_of(item, "%s.%s" % (name, key) if name else str(key), found, depth + 1)
    return found


def tensors_of(value):
    return [(name, v) for name, v in parts_of(value) if is_tensor(v)]


def describe(inputs, may_read):
    """Shapes, formats and a hash of what a phase is given; contents only where reading them disturbs nothing."""
    if inputs is None:
        return None
    given = short(inputs) if isinstance(inputs, str) else None
    tensors = tensors_of(inputs)
    values = [] if given else [(n, v) for n, v in parts_of(inputs) if not is_tensor(v)][:MOST_VALUES]
    digest, reason = content_hash(tensors) if may_read else (None, "stream_capture")
    return {
        "tensors": [{"name": short(n, 128), "shape": [int(s) for s in v.shape], "dtype": str(v.dtype).replace("torch.", ""),
                     "device": short(getattr(v, "device", ""), 32)} for n, v in tensors[:MOST_TENSORS]],
        "more": max(0, len(tensors) - MOST_TENSORS), "values": {short(n, 128): short_value(v) for n, v in values},
        "sha256": digest, "sha256_reason": reason, "given": given,
    }


def short_value(v):
    return finite(v) if isinstance(v, (int, float)) else short(v)


def finite(v):
    return v if isinstance(v, int) or abs(v) < float("inf") else None  # JSON knows no other numbers


def content_hash(tensors):
    """(hash, None) of names, formats, shapes and contents, or (None, why not)."""
    most, digest = number(setting("HASH_BYTES")) or 256 << 10, hashlib.sha256()
    if not tensors:
        return None, "no_tensors"
    try:
        if sum(v.numel() * v.element_size() for _, v in tensors) > most:
            return None, "too_large"
        for name, v in tensors:
            if not is_plain(v):
                return None, "not_plain"
            digest.update(("%s|%s|%s|" % (name, v.dtype, tuple(v.shape))).encode())
            digest.update(contents(v))
    except Exception as error:
        return None, fault_text(error)
    return digest.hexdigest(), None


def is_plain(v):
    """One block of memory that can be copied to the host as it is. A tensor that is spread over
    ranks would communicate, and one that is not contiguous would allocate on its device."""
    return type(v).__name__ in ("Tensor", "Parameter") and v.is_contiguous()


def contents(v):
    import ctypes

    host = v.detach().cpu()
    size = host.numel() * host.element_size()
    return ctypes.string_at(host.data_ptr(), size) if size and host.data_ptr() else b""


def result_of(value):
    """What lets two runs be compared: the loss, or a hash of small outputs."""
    result = {"loss": None, "sha256": None, "reason": None}
    try:
        loss = getattr(value, "loss", value)
        loss = loss[0] if isinstance(loss, (list, tuple)) and len(loss) == 1 else loss
        if is_tensor(loss) and loss.numel() == 1 and is_plain(loss) and loss.is_floating_point():
            result["loss"] = finite(float(loss.item()))
            result["reason"] = "not_finite" if result["loss"] is None else None
        else:
            result["sha256"], result["reason"] = content_hash(tensors_of(value))
    except Exception as error:
        result["reason"] = fault_text(error)
    return result


def fault_text(error):
    return short("%s: %s" % (type(error).__name__, error))


def status_of(error):
    if error is None:
        return "ok"
    if isinstance(error, (KeyboardInterrupt, SystemExit, GeneratorExit)):
        return "interrupted"
    if type(error).__name__ == "OutOfMemoryError" or "out of memory" in str(error).lower():
        return "out_of_memory"
    return "failed"


def error_fields(error):
    return error if error is None else {"type": type(error).__name__, "message": short(error, 4000)}


# --- The counters -----------------------------------------------------------------------

PAIR = ("allocated_bytes", "reserved_bytes")
NOTHING = dict.fromkeys(PAIR)


def levels(stats, which="current"):
    """Allocated and reserved of one reading, so that both belong to one moment."""
    return {name: stats[name]["all"][which] for name in PAIR}


def higher(a, b):
    return {name: max(a[name], b[name]) for name in PAIR} if a else b


def leaves(stats, path=()):
    """(path, {current, peak, …}) of every statistic in the nested dictionary."""
    for key, value in stats.items():
        if isinstance(value, dict) and "peak" in value:
            yield path + (key,), value
        elif isinstance(value, dict):
            yield from leaves(value, path + (key,))


def replace(holder, name, by):
    """Put by(original, …) in the place of holder.name; it keeps the looks of the original."""
    original = getattr(holder, name)

    @functools.wraps(original)
    def call(*args, **kwargs):
        return by(original, *args, **kwargs)

    setattr(holder, name, call)
    return original


class Window:
    """What one phase knows of one device: its start, and the highest so far. No start: the context came later."""

    def __init__(self, stats=None):
        self.start = stats and levels(stats)
        self.events = {name: (stats or {}).get(name) for name in ("num_alloc_retries", "num_ooms")}
        self.peak, self.resets = None, 0

    def line(self, device, stats=None, reason=None):
        """The device in the line "end"; what was not read is null."""
        return {"device": device, "start": self.start, "peak": self.peak if stats else NOTHING,
                "end": levels(stats) if stats else NOTHING, "peak_since": "phase" if self.start else "process",
                "windows": self.resets + 1, "reason": reason, "device_free_bytes": None, "device_total_bytes": None,
                **self.since(stats or {})}

    def since(self, stats):
        """How often it happened in between; unknown where the start is, or where somebody reset the count."""
        pairs = {name: (first, stats.get(name)) for name, first in self.events.items()}
        return {name: None if None in p or p[1] < p[0] else p[1] - p[0] for name, p in pairs.items()}


class Counters:
    """The memory counters of torch.cuda, shared with everybody who reads or resets them.

    A counter keeps one peak since one reset, and whoever resets it ends the window of all
    others. So before each reset the peak is handed to every phase that is open, and kept for
    the program, which must see its own peak since its own reset.
    """

    def __init__(self, torch, probe):
        self.torch, self.probe = torch, probe
        memory = torch.cuda.memory
        self.stats, self.reset = memory.memory_stats_as_nested_dict, memory.reset_peak_memory_stats
        self.kept = {}  # device: {path: peak since the program's own reset}
        self.peaks = {}  # device: highest pair that a reset ended since the process began
        self.captures = 0  # begun by this process and not ended, on whatever stream

    def share(self):
        """Everything in torch.cuda that reads a peak goes through one function, and all that resets it through another."""
        for module in (self.torch.cuda.memory, self.torch.cuda):
            replace(module, "memory_stats_as_nested_dict", self.stats_for_program)
            replace(module, "reset_peak_memory_stats", self.reset_for_program)
        package = getattr(self.torch, "accelerator", None)  # another way to the same counters
        if hasattr(package, "memory") and (self.torch.version.cuda or self.torch.version.hip):
            for module in (package.memory, package):
                if hasattr(module, "memory_stats") and hasattr(module, "reset_peak_memory_stats"):
                    replace(module, "memory_stats", self.flat_stats_for_program)
                    replace(module, "reset_peak_memory_stats", self.reset_for_program)

    def index(self, device):
        try:
            return self.torch.cuda._utils._get_device_index(device, optional=True)
        except Exception:
            return None

    def stats_for_program(self, original, device=None):
        stats = self.stats(device)
        kept = self.kept.get(self.index(device), {}) if self.kept else {}
        for path, leaf in leaves(stats) if kept else ():
            leaf["peak"] = max(leaf["peak"], kept.get(path, 0))
        return stats

    def flat_stats_for_program(self, original, *device):
        stats = original(*device)
        if not self.kept:
            return stats  # to ask for the current device could create a context
        for path, peak in self.kept.get(self.index(device[0] if device else None), {}).items():
            key = ".".join(path) + ".peak"
            if key in stats:
                stats[key] = max(stats[key], peak)
        return stats

    def reset_for_program(self, original, device=None):
        with self.probe.lock:
            index = self.index(device)
            if index in self.devices():
                self.hand_over(index, self.stats(index))
            self.kept.pop(index, None)
            return self.reset(device)

    def devices(self):
        """Ordinals of the devices that this process has a context on; asking creates none."""
        if not self.torch.cuda.is_initialized():
            return []
        has = getattr(self.torch._C, "_cuda_hasPrimaryContext", None)
        return [d for d in range(self.torch.cuda.device_count()) if has is None or has(d)]

    def capturing(self):
        cuda = self.torch.cuda
        return self.captures > 0 or bool(cuda.is_initialized() and cuda.is_current_stream_capturing())

    def synchronize(self, devices):
        for device in devices:
            self.torch.cuda.synchronize(device)

    def hand_over(self, device, stats):
        """Before a reset: the peak goes to each open phase, and to the whole of the process."""
        peak = levels(stats, "peak")
        self.peaks[device] = higher(self.peaks.get(device), peak)
        for phase in self.probe.open:
            if phase.readings == "protocol":
                window = phase.windows.setdefault(device, Window())
                window.peak = higher(window.peak, peak)
                window.resets += 1

    def begin(self, device):
        """Read, hand the peaks over, reset: the window of the phase that begins."""
        stats = self.stats(device)
        self.hand_over(device, stats)
        kept = self.kept.setdefault(device, {})
        kept.update({path: max(leaf["peak"], kept.get(path, 0)) for path, leaf in leaves(stats)})
        self.reset(device)
        return Window(stats)

    def end(self, device, window):
        stats = self.stats(device)
        window.peak = higher(window.peak, levels(stats, "peak"))
        return {**window.line(device, stats), **self.device_bytes(device)}

    def whole(self, device):
        """Since the process began: only read, without waiting and without a reset."""
        stats = self.stats(device)
        peak = higher(self.peaks.get(device), levels(stats, "peak"))
        return {"device": device, "peak": peak, "end": levels(stats), **self.device_bytes(device)}

    def device_bytes(self, device):
        """Free and total bytes of the whole device: the driver counts everybody on it."""
        try:
            free, total = self.torch.cuda.mem_get_info(device)
        except Exception:
            free = total = None
        return {"device_free_bytes": free, "device_total_bytes": total}

    def describe(self, device):
        """The line "device"."""
        has = self.torch.cuda.get_device_properties(device)
        bus = tuple(getattr(has, "pci_%s_id" % part, None) for part in ("domain", "bus", "device"))
        uuid = getattr(has, "uuid", None)
        return {"device": device, "name": has.name, "uuid": None if uuid is None else str(uuid),
                "pci": None if None in bus else "%08x:%02x:%02x.0" % bus, "capability": "%d.%d" % (has.major, has.minor),
                "total_bytes": has.total_memory, "free_bytes": self.device_bytes(device)["device_free_bytes"],
                "allocator": self.allocator()}

    def allocator(self):
        """The backend, since it changes what the peak of reserved means."""
        settings = {name: os.environ.get(name) for name in ALLOCATOR}
        try:
            backend = self.torch.cuda.memory.get_allocator_backend()
        except Exception:  # PyTorch 1.13 has both, and cannot be asked
            text = settings["PYTORCH_CUDA_ALLOC_CONF"] or ""
            backend = "cudaMallocAsync" if "backend:cudaMallocAsync" in text.replace(" ", "") else "native"
        return {"backend": backend, "settings": settings,
                "peak_reserved": "upper_bound" if backend == "cudaMallocAsync" else "peak"}


# --- Phases -----------------------------------------------------------------------------


class Phase:
    """One named interval: begin, run, end. As a context manager, hold() keeps outputs until the last reading."""

    def __init__(self, probe, name, inputs=None, step=None, pass_=None, seen="declared", by="phase", module=None):
        self.probe, self.name, self.inputs, self.module = probe, name, inputs, module
        self.step, self.pass_, self.seen, self.by = step, pass_, seen, by
        self.id = self.fields = self.reason = self.outputs = None
        self.readings, self.windows = "none", {}
        self.leaf = False  # model code inside is no phase of its own
        self.ends_step = None  # the optimizer whose step this is
        self.generated = None  # tokens a sequence
        self.thread, self.threads = threading.get_ident(), False
        self.started = time.monotonic_ns()

    def hold(self, outputs):
        """Keep what the phase made until its last reading, and let it be the check of its result."""
        self.outputs = outputs
        return outputs

    def __enter__(self):
        self.probe.begin(self)
        return self

    def __exit__(self, kind, error, trace):
        self.probe.end(self, error)
        return False


class Probe:
    """The phases that are open, the steps that were made, and the stream that hears of both."""

    def __init__(self, stream):
        self.stream, self.hooking = stream, False
        self.torch = self.counters = None
        self.forget()

    def forget(self):
        """Begin anew, in a forked child too: phases that were open stay the parent's."""
        self.lock = threading.RLock()
        self.open, self.met, self.generating = [], set(), []
        self.ids = self.completed = self.steps = 0
        self.busy = self.stopped = self.rank_known = self.dumped = False
        self.since_step, self.counted = set(), {}
        self.optimizers = weakref.WeakKeyDictionary()  # optimizer: its steps
        self.cut = {"truncated": 0, "sequences": 0, "calls": 0}
        self.truncated = self.refusal = None
        self.first = {n for n in (setting("FIRST") or "").split(",") if n}

    def note(self, code, text):
        self.stream.write("note", code=code, text=short(text, 2000))

    def use(self, torch):
        """PyTorch is there: read its counters from now on, and share them with the program."""
        if self.counters is None:
            self.torch, self.counters = torch, Counters(torch, self)
            self._tell_torch()
            self.counters.share()

    def guarded(self, act, *args):
        """The program must not fail by a fault of ours: say it, and go on."""
        try:
            return act(*args)
        except Exception as error:
            self.note("probe_fault", "%s: %s" % (getattr(act, "__name__", "probe"), fault_text(error)))
            return None

    # The protocol.

    def begin(self, phase):
        with self.lock:
            self.guarded(self._begin, phase)
            self.busy = any(p.leaf for p in self.open)
        phase.started = time.monotonic_ns()
        if self.refusal:
            self.end(phase)

    def _begin(self, phase):
        capturing = self.counters is not None and self.counters.capturing()
        described, phase.inputs = describe(phase.inputs, not capturing), None  # the program may want to free them
        starts = self._starts(phase, capturing)
        around = [p for p in self.open if p.thread == phase.thread]
        self.ids += 1
        phase.id = self.ids
        phase.fields = {"id": phase.id, "parent": around[-1].id if around else None, "name": phase.name, "step": phase.step,
                        "pass": phase.pass_, "seen": phase.seen, "by": phase.by, "module": phase.module, "inputs": described,
                        "truncated_tokens": self.truncated}
        self.truncated = None
        self.open.append(phase)
        if len(around) + 1 != len(self.open):
            for p in self.open:
                p.threads = True
        self.stream.write("begin", readings=phase.readings, readings_reason=phase.reason, devices=starts, **phase.fields)

    def _starts(self, phase, capturing):
        if capturing or self.counters is None:
            phase.reason = "stream_capture" if capturing else "no_context"
            return []
        phase.readings = "protocol"
        try:
            for device in self._wait():
                phase.windows[device] = self.counters.begin(device)
        except Exception as error:
            phase.readings, phase.reason = "none", "failed"
            self.note("reading_failed", "at the start of %s: %s" % (phase.name, fault_text(error)))
        return [{"device": d, "start": w.start} for d, w in phase.windows.items()]

    def _wait(self):
        """Synchronize every device that this process has a context on."""
        devices = self.counters.devices()
        self._meet(devices)
        self.counters.synchronize(devices)
        return devices

    def end(self, phase, error=None):
        with self.lock:
            if phase not in self.open:  # it was begun in another process, or could not be
                return
            devices = self.guarded(self._ends, phase, error) or []
            duration = time.monotonic_ns() - phase.started
            self.open.remove(phase)
            self.busy = any(p.leaf for p in self.open)
            self.guarded(self._finish, phase, error, devices, duration)
        if self.refusal and error is None:
            self._refuse(*self.refusal)

    def _ends(self, phase, error):
        if self.counters is None or phase.reason == "stream_capture":
            return []
        if phase.reason == "failed":
            return [w.line(d, reason="no reading at the start") for d, w in phase.windows.items()]
        try:
            if self.counters.capturing():
                raise Unreadable("stream_capture")
            devices = self._wait()
        except Exception as fault:
            phase.readings, phase.reason = "none", fault.args[0] if isinstance(fault, Unreadable) else "failed"
            return [w.line(d, reason=fault_text(fault)) for d, w in phase.windows.items()]
        phase.readings, phase.reason = ("protocol", None) if devices else ("none", "no_context")
        if status_of(error) == "out_of_memory":
            self.guarded(self.snapshot, devices)
        return [self._end_of(phase, d) for d in devices]

    def _end_of(self, phase, device):
        window = phase.windows.setdefault(device, Window())
        try:
            return self.counters.end(device, window)
        except Exception as fault:
            return window.line(device, reason=fault_text(fault))

    def _finish(self, phase, error, devices, duration):
        """After the last reading: compare the outputs, let them go, write at once."""
        readable = error is None and phase.outputs is not None and phase.reason != "stream_capture"
        result = result_of(phase.outputs) if readable else None
        phase.outputs = None
        if result and phase.generated is not None:
            result["generated_tokens"] = phase.generated
        self.completed += 1
        self.since_step.add(phase.name)
        self.stream.write("end", readings=phase.readings, readings_reason=phase.reason, status=status_of(error),
                          error=error_fields(error), duration_ns=duration, devices=devices, result=result,
                          threads=phase.threads, **phase.fields)
        if phase.ends_step is not None and error is None:
            self._ended_step(phase.ends_step)
        self._check_budget(phase, devices)

    # The guard. It speaks after the line of the phase: what is completed is written.

    def _check_budget(self, phase, devices):
        """Allocated bytes only: what is reserved could be less on a smaller card."""
        budget = number(setting("BUDGET"))
        if budget is None or self.steps > (1 if phase.name == "optimizer_step" else 0):
            return
        for d in devices:
            if self.refusal is None and (d["peak"]["allocated_bytes"] or 0) > budget:
                self.refusal = (budget, d["device"], phase, d["peak"]["allocated_bytes"], d.get("device_total_bytes"),
                                "the phase allocated more than the budget")

    def _refuse(self, budget, device, phase, allocated, total, reason):
        self.refusal = None
        self.stream.write("guard", budget_bytes=budget, device=device, name=phase and phase.name, step=phase and phase.step,
                          allocated_bytes=allocated, total_bytes=total, reason=reason)
        complain("stopped on cuda:%d, budget %d bytes: %s" % (device, budget, reason))
        raise SystemExit(3)

    # What is said once: devices, ranks, versions, snapshots.

    def _meet(self, devices):
        self._tell_rank()
        for device in devices:
            if device in self.met:
                continue
            self.met.add(device)
            fields = self.guarded(self.counters.describe, device) or {"device": device, "total_bytes": None}
            self.stream.write("device", **fields)
            if setting("SNAPSHOT") and len(self.met) == 1:
                self.guarded(self._record_history)
            total, budget = fields["total_bytes"], number(setting("BUDGET"))
            if None not in (budget, total) and total < budget:
                self.refusal = (budget, device, None, None, total, "the device has fewer bytes than the budget")

    def _tell_torch(self):
        version = self.torch.version
        self.stream.write("torch", torch=str(self.torch.__version__), cuda=version.cuda, hip=getattr(version, "hip", None),
                          cudnn=self.guarded(self.torch.backends.cudnn.version), extensions=extensions())

    def _tell_rank(self):
        """mp.spawn sets no variable: only torch.distributed knows such a rank."""
        distributed = sys.modules.get("torch.distributed")
        if self.rank_known or not distributed or not distributed.is_available() or not distributed.is_initialized():
            return
        self.rank_known = True
        known, said = rank_fields(), {"rank": distributed.get_rank(), "world_size": distributed.get_world_size()}
        if any(known[name] != value for name, value in said.items()):
            self.stream.write("rank", **said)

    def _record_history(self):
        """Only when asked: the history costs time with every allocation."""
        record = self.torch.cuda.memory._record_memory_history
        takes = inspect.signature(record).parameters
        if "max_entries" in takes:
            record(max_entries=100000)
        elif "trace_alloc_max_entries" in takes:
            record(True, trace_alloc_max_entries=100000)
        else:
            record(True)
        attach = getattr(self.torch._C, "_cuda_attach_out_of_memory_observer", None)
        if attach is not None:  # it speaks before Python unwinds and frees what filled the memory
            attach(lambda device, *_: self.guarded(self.snapshot, [device]))

    def snapshot(self, devices):
        folder, device = setting("SNAPSHOT"), devices[0] if devices else None
        if folder is None or self.dumped:
            return
        self.dumped = True
        path = os.path.join(folder, os.path.basename(self.stream.path or "process") + ".pickle")
        try:
            import pickle

            with open(path, "xb") as f:
                pickle.dump(self.torch.cuda.memory._snapshot(), f)
            self.stream.write("snapshot", path=path, device=device, bytes=os.path.getsize(path), reason=None)
        except Exception as error:
            self.stream.write("snapshot", path=None, device=device, bytes=None, reason=fault_text(error))

    # Steps and counts.

    def step(self):
        """The step that is being made: the first is 1."""
        return self.steps + 1

    def _ended_step(self, optimizer):
        """Several optimizers may share a step: it ends when one of them has made more than any before."""
        made = self.optimizers[optimizer] = self.optimizers.get(optimizer, 0) + 1
        if made <= self.steps:
            return
        self.steps = made
        self.since_step.clear()
        if self.steps == number(setting("STEPS")):
            self.stopped = True
            self.stream.write("steps", steps=self.steps)

    def count(self, name):
        """How many there were outside training, this one included: 1 is the cold one."""
        self.counted[name] = self.counted.get(name, 0) + 1
        return self.counted[name]

    def missing(self, name, step, reason):
        self.stream.write("missing", name=name, step=step, reason=reason)

    def tokenized(self, outputs):
        """Tokens that a fast tokenizer cut off; it is told at the 1st, 2nd, 4th, 8th … call that did."""
        encodings = getattr(outputs, "encodings", None)
        if not encodings:
            return
        lost = [sum(1 for s, a in zip(o.special_tokens_mask, o.attention_mask) if a and not s)
                for e in encodings for o in e.overflowing]
        self.truncated = (self.truncated or 0) + sum(lost)
        if lost:
            self.cut["truncated"] += sum(lost)
            self.cut["sequences"] += sum(1 for e in encodings if e.overflowing)
            self.cut["calls"] += 1
            if self.cut["calls"] & (self.cut["calls"] - 1) == 0:
                self.stream.write("tokens", **self.cut)

    # Running a function as a phase.

    def run(self, phase, function, args, kwargs):
        self.begin(phase)
        try:
            phase.outputs = outputs = function(*args, **kwargs)
        except BaseException as error:
            self.end(phase, error)
            raise
        self.end(phase)
        return outputs

    def is_open(self, *names):
        return any(p.name in names for p in self.open)

    def exit(self):
        """The last line, which says that the interpreter ended by itself; the counters are only read."""
        if self.stream.forked_from is not None and self.stream.path is None:
            return  # a child that had nothing to say
        for name in sorted(self.first):
            self.missing(name, None, "asked to come first, but no Trainer could do it")
        devices, torch = [], sys.modules.get("torch")
        try:
            if torch is not None and torch.cuda.is_initialized():
                counters = self.counters or Counters(torch, self)
                devices = [counters.whole(d) for d in counters.devices()]
        except Exception as error:
            self.note("reading_failed", "at exit: " + fault_text(error))
        if self.cut["calls"]:
            self.stream.write("tokens", **self.cut)
        self.stream.write("exit", phases=self.completed, steps=self.steps, devices=devices)


class Unreadable(Exception):
    """A reading that must not be tried now."""


# --- Hooks: the phases of a program that stays as it is ---------------------------------

# (module, attribute, phase, seen): functions and methods whose calls are phases. Where torch.load or a
# reader of tensors is called by itself, that it loads a model is a conclusion.
CALLS = (
    ("torch.serialization", "save", "save", "hooked"),
    ("torch.serialization", "load", "model_load", "inferred"),
    ("torch.onnx", "export", "export", "hooked"),
    ("torch.export", "export", "export", "hooked"),
    ("torch.distributed.checkpoint", "save", "save", "hooked"),
    ("safetensors.torch", "save_file", "save", "hooked"),
    ("safetensors.torch", "save_model", "save", "hooked"),
    ("safetensors.torch", "load_file", "model_load", "inferred"),
    ("transformers.modeling_utils", "PreTrainedModel.from_pretrained", "model_load", "hooked"),
    ("transformers.modeling_utils", "PreTrainedModel.save_pretrained", "save", "hooked"),
    ("peft.peft_model", "PeftModel.from_pretrained", "model_load", "hooked"),
    ("peft.peft_model", "PeftModel.save_pretrained", "save", "hooked"),
    ("peft.tuners.tuners_utils", "BaseTuner.merge_and_unload", "merge", "hooked"),
    ("peft.tuners.lora.model", "LoraModel.merge_and_unload", "merge", "hooked"),
    ("accelerate.accelerator", "Accelerator.save_state", "save", "hooked"),
    ("accelerate.accelerator", "Accelerator.load_state", "resume", "hooked"),
    ("diffusers.pipelines.pipeline_utils", "DiffusionPipeline.from_pretrained", "model_load", "hooked"),
    ("diffusers.pipelines.pipeline_utils", "DiffusionPipeline.save_pretrained", "save", "hooked"),
    ("deepspeed.runtime.engine", "DeepSpeedEngine.save_checkpoint", "save", "hooked"),
    ("deepspeed.runtime.engine", "DeepSpeedEngine.load_checkpoint", "resume", "hooked"),
)
# The methods of a Hugging Face Trainer, whatever class overrides them. Its events on_evaluate and on_save
# come after the fact, so that only these are the true boundaries.
TRAINER = {"evaluate": "evaluation", "predict": "evaluation", "_save_checkpoint": "save", "save_model": "save",
           "_prepare_inputs": "inputs", "_load_from_checkpoint": "resume", "_load_optimizer_and_scheduler": "resume"}
# A phase is part of these when they are open, and of one of its own name.
PART_OF = {"transfer": ("model_load", "resume"), "model_load": ("resume",), "forward": ("model_load", "resume")}


class Hooks:
    """Wrappers around what programs call, put in as soon as its module is imported."""

    def __init__(self, probe):
        self.probe = probe
        self.is_compiling = self.is_tracing = lambda: False
        self.on_import = {}
        for module, path, name, seen in CALLS:
            self.on_import.setdefault(module, []).append(functools.partial(self.wrap, path=path, name=name, seen=seen))
        for module, hook in (("torch", self.hook_torch), ("transformers.trainer", self.hook_trainer),
                             ("transformers.generation.utils", self.hook_generate),
                             ("transformers.modeling_utils", self.hook_model_loss),
                             ("transformers.tokenization_utils_base", self.hook_tokenizer)):
            self.on_import.setdefault(module, []).append(hook)

    def imported(self, module):
        """Called when a module has been run, or is found to have been."""
        for hook in self.on_import.pop(module.__name__, ()):
            self.probe.guarded(hook, module)

    def told(self, name, by, reason=None):
        self.probe.stream.write("hook", name=name, by=by, installed=reason is None, reason=reason)

    def aside(self, name):
        """Not now: what is traced or compiled must not see us, and the rest is part of what is open."""
        probe = self.probe
        return (self.is_compiling() or probe.stopped or self.is_tracing()
                or probe.is_open("backward", name, *PART_OF.get(name, ())))

    # One call, one phase.

    def wrap(self, module, path, name, seen="hooked"):
        """Make a phase of each call of a function or method."""
        by = "%s.%s" % (module.__name__, path)
        owner, _, attribute = path.rpartition(".")
        holder = getattr(module, owner, None) if owner else module
        if not hasattr(holder, attribute):
            self.told(name, by, "this version has no such function")
            return
        original = inspect.getattr_static(holder, attribute)
        bound = isinstance(original, (classmethod, staticmethod))
        wrapped = self.phase_of(original.__func__ if bound else original, name, seen, by)
        setattr(holder, attribute, type(original)(wrapped) if bound else wrapped)
        parent = sys.modules.get(module.__name__.rpartition(".")[0])
        if getattr(parent, attribute, None) is original:
            setattr(parent, attribute, wrapped)  # torch.save is torch.serialization.save
        self.told(name, by)

    def phase_of(self, function, name, seen, by):
        if hasattr(function, "floodmark"):
            return function

        @functools.wraps(function)
        def call(*args, **kwargs):
            if self.aside(name):
                return function(*args, **kwargs)
            phase = Phase(self.probe, name, given(args, kwargs), self.step_of(name), None, seen, by, class_of(args))
            phase.leaf = name == "loss"
            return self.probe.run(phase, function, args, kwargs)

        call.floodmark = True
        return call

    def step_of(self, name):
        of_a_step = name in ("inputs", "loss") and not self.probe.is_open("evaluation")
        return self.probe.step() if of_a_step else None

    # PyTorch.

    def hook_torch(self, torch):
        probe = self.probe
        probe.use(torch)
        self.is_compiling = getattr(getattr(torch, "compiler", None), "is_compiling", self.is_compiling)
        self.is_tracing = torch.jit.is_tracing
        for hook in (self.hook_modules, self.hook_losses, self.hook_backward, self.hook_optimizers, self.hook_capture):
            probe.guarded(hook, torch)
        for name in [n for n in self.on_import if n in sys.modules]:
            self.imported(sys.modules[name])

    def hook_modules(self, torch):
        """A call of a module that is part of no other phase is a forward. This is the hot path: each module
        inside comes by here, so it asks two things only, and a compiler sees the first as a constant."""
        module, probe, hooks = torch.nn.Module, self.probe, self
        original = module.__call__

        @functools.wraps(original)
        def __call__(self, *args, **kwargs):
            if hooks.is_compiling() or probe.busy:
                return original(self, *args, **kwargs)
            return hooks.forward(original, self, args, kwargs)

        module.__call__ = __call__
        self.told("forward", "torch.nn.Module.__call__")
        for name in ("to", "cuda"):
            replace(module, name, self.transfer)
        self.told("transfer", "torch.nn.Module.to")

    def transfer(self, original, module, *args, **kwargs):
        named = list(args) + list(kwargs.values())
        moves = original.__name__ == "cuda" or any(isinstance(a, (str, int, self.probe.torch.device)) for a in named)
        if not moves or self.aside("transfer"):
            return original(module, *args, **kwargs)
        phase = Phase(self.probe, "transfer", None, None, None, "hooked", "torch.nn.Module.to", type(module).__name__)
        return self.probe.run(phase, original, (module,) + args, kwargs)

    def hook_losses(self, torch):
        loss = torch.nn.modules.loss._Loss
        loss.__call__ = self.phase_of(torch.nn.Module.__call__.__wrapped__, "loss", "hooked", "torch.nn.modules.loss")
        self.told("loss", "torch.nn.modules.loss")

    def forward(self, original, module, args, kwargs):
        probe = self.probe
        name, step, seen, by = probe.guarded(self.name_forward, kwargs) or (None,) * 4
        if name is None or self.aside(name):
            return original(module, *args, **kwargs)
        phase = Phase(probe, name, given(args, kwargs), step, None, seen, by, type(module).__name__)
        phase.leaf = True
        if name == "decode" and probe.generating:
            probe.generating[-1].begin_decode(phase)
            return original(module, *args, **kwargs)
        outputs = probe.run(phase, original, (module,) + args, kwargs)
        if name == "prefill" and probe.generating:
            probe.generating[-1].prefilled = True
        return outputs

    def name_forward(self, kwargs):
        """(name, step, seen, by) of a forward, from what is open and what it is given."""
        probe, hooked = self.probe, ("hooked", "torch.nn.Module.__call__")
        if probe.generating:
            return probe.generating[-1].name_forward()
        if probe.is_open("evaluation"):
            return ("forward", None) + hooked
        if probe.torch.is_grad_enabled():
            return ("forward", probe.step()) + hooked
        if probe.steps:
            return "evaluation", None, "inferred", "a forward without gradients after an optimizer step"
        if cached_tokens(kwargs.get("past_key_values")):
            return "decode", probe.count("decode"), "inferred", "a cache that holds tokens, without gradients"
        if kwargs.get("use_cache"):
            return "prefill", probe.count("prefill"), "inferred", "no cache yet, without gradients"
        return ("forward", probe.count("forward")) + hooked

    def hook_backward(self, torch):
        def backward(original, tensors, *args, **kwargs):
            if self.aside("backward"):
                return original(tensors, *args, **kwargs)
            phase = Phase(self.probe, "backward", None, self.probe.step(), None, "hooked", "torch.autograd.backward")
            phase.leaf = True
            with phase:
                original(tensors, *args, **kwargs)
                phase.hold(tensors)

        replace(torch.autograd, "backward", backward)
        self.told("backward", "torch.autograd.backward")

    def hook_optimizers(self, torch):
        """Each class of optimizers has a step of its own, which is wrapped when the first of them is made."""

        def made(original, optimizer, *args, **kwargs):
            original(optimizer, *args, **kwargs)
            if not hasattr(type(optimizer).step, "floodmark"):
                replace(type(optimizer), "step", self.step)
                type(optimizer).step.floodmark = True

        replace(torch.optim.Optimizer, "__init__", made)
        self.told("optimizer_step", "torch.optim.Optimizer.step")

    def step(self, original, optimizer, *args, **kwargs):
        probe = self.probe
        if self.aside("optimizer_step"):
            return original(optimizer, *args, **kwargs)
        closure = args[0] if args else kwargs.get("closure")
        made = probe.guarded(self.look_back, optimizer, closure)
        phase = Phase(probe, "optimizer_step", None, made, None, "hooked", "torch.optim.Optimizer.step", type(optimizer).__name__)
        phase.leaf = closure is None  # a closure runs forward and backward inside
        phase.ends_step = optimizer
        return probe.run(phase, original, (optimizer,) + args, kwargs)

    def look_back(self, optimizer, closure):
        """The number of this step, which a forward and a backward must have come before, seen or not."""
        made = self.probe.optimizers.get(optimizer, 0) + 1
        if closure is None and made > self.probe.steps:
            for name in sorted({"forward", "backward"} - self.probe.since_step):
                self.probe.missing(name, made, "no %s was seen before optimizer step %d" % (name, made))
        return made

    def hook_capture(self, torch):
        """Nothing may wait or read inside a capture; the whole of one is a phase, begun before and ended after it."""
        graph, context, counters = torch.cuda.CUDAGraph, torch.cuda.graphs.graph, self.probe.counters

        def begin(original, *args, **kwargs):
            counters.captures += 1
            return original(*args, **kwargs)

        def end(original, *args, **kwargs):
            try:
                return original(*args, **kwargs)
            finally:
                counters.captures = max(0, counters.captures - 1)

        def enter(original, this):
            this.floodmark = None
            if not self.probe.stopped:
                this.floodmark = Phase(self.probe, "graph_capture", seen="hooked", by="torch.cuda.graph").__enter__()
            return original(this)

        def leave(original, this, kind, error, trace):
            try:
                return original(this, kind, error, trace)
            finally:
                if this.floodmark:
                    this.floodmark.__exit__(kind, error, trace)

        for holder, name, by in ((graph, "capture_begin", begin), (graph, "capture_end", end),
                                 (context, "__enter__", enter), (context, "__exit__", leave)):
            replace(holder, name, by)
        self.told("graph_capture", "torch.cuda.graph")

    # Hugging Face.

    def hook_generate(self, module):
        mixin, probe, by = module.GenerationMixin, self.probe, "transformers.GenerationMixin."
        has_prefill = hasattr(mixin, "_prefill")

        def generate(original, model, *args, **kwargs):
            if self.aside("generate"):
                return original(model, *args, **kwargs)
            generation = Generation(probe, probe.count("generate"), has_prefill)
            phase = Phase(probe, "generate", given(args, kwargs), generation.number, None, "hooked", by + "generate",
                          type(model).__name__)
            return probe.run(phase, functools.partial(generation.run, original, phase), (model,) + args, kwargs)

        def prefill(original, model, *args, **kwargs):
            generation = probe.generating[-1] if probe.generating else None
            if generation is None or generation.prefilled or self.aside("prefill"):
                return original(model, *args, **kwargs)
            phase = Phase(probe, "prefill", given(args, kwargs), generation.number, None, "hooked", by + "_prefill",
                          type(model).__name__)
            phase.leaf = generation.prefilled = True
            return probe.run(phase, original, (model,) + args, kwargs)

        replace(mixin, "generate", generate)
        self.told("generate", by + "generate")
        if has_prefill:
            replace(mixin, "_prefill", prefill)
        self.told("prefill", by + "_prefill" if has_prefill else "the first forward of generate")

    def hook_model_loss(self, module):
        """Models that compute their loss inside forward take the function from this property."""
        model, by = module.PreTrainedModel, "transformers.PreTrainedModel.loss_function"
        original = inspect.getattr_static(model, "loss_function", None)
        if not isinstance(original, property):
            self.told("loss", by, "this version has no such function")
            return
        made = {}

        def get(this):
            function = original.fget(this)
            if self.is_compiling():
                return function
            if function not in made:
                made[function] = self.phase_of(function, "loss", "hooked", by)
            return made[function]

        model.loss_function = property(get, original.fset, original.fdel)
        self.told("loss", by)

    def hook_tokenizer(self, module):
        """Fast tokenizers keep what they cut off; slow ones do not say."""

        def tokenize(original, *args, **kwargs):
            outputs = original(*args, **kwargs)
            self.probe.guarded(self.probe.tokenized, outputs)
            return outputs

        replace(module.PreTrainedTokenizerBase, "__call__", tokenize)
        self.told("tokens", "transformers.PreTrainedTokenizerBase.__call__")

    def hook_trainer(self, module):
        def made(original, trainer, *args, **kwargs):
            self.probe.guarded(self.hook_methods, type(trainer))
            original(trainer, *args, **kwargs)
            self.probe.guarded(self.register, trainer)

        replace(module.Trainer, "__init__", made)
        for method, name in TRAINER.items():
            has = hasattr(module.Trainer, method)
            self.told(name, "Trainer." + method, None if has else "this version has no such function")

    def hook_methods(self, trainer):
        for kind in trainer.__mro__:
            for method in [m for m in TRAINER if inspect.isfunction(vars(kind).get(m))]:
                setattr(kind, method, self.phase_of(vars(kind)[method], TRAINER[method], "hooked", "Trainer." + method))

    def register(self, trainer):
        """The callback joins by itself; one that the program gave already is told its trainer."""
        ours = [c for c in trainer.callback_handler.callbacks if hasattr(c, "floodmark")]
        if not ours:
            ours = [trainer_callback()]
            trainer.add_callback(ours[0])
        ours[0].floodmark = weakref.ref(trainer)


class Generation:
    """One call of generate: its prefill, and its decode from the next forward until it returns."""

    def __init__(self, probe, number, has_prefill):
        self.probe, self.number, self.has_prefill = probe, number, has_prefill
        self.prefilled, self.decode = False, None

    def name_forward(self):
        """(name, step, seen, by), or (None, …) for model code before a prefill that is hooked itself."""
        if self.prefilled:
            return "decode", self.number, "hooked", "from the first forward after prefill until generate returns"
        name = None if self.has_prefill else "prefill"
        return name, self.number, "inferred", "the first forward of generate"

    def begin_decode(self, phase):
        self.decode = phase
        self.probe.begin(phase)

    def run(self, original, phase, model, *args, **kwargs):
        self.probe.generating.append(self)
        try:
            outputs = original(model, *args, **kwargs)
            phase.generated = generated_tokens(model, args, kwargs, outputs)
            self.close(None)
        except BaseException as error:
            self.close(error)
            raise
        if self.decode is None and phase.generated != 1:
            self.probe.missing("decode", self.number, "no forward was seen after prefill")
        return outputs

    def close(self, error):
        if self in self.probe.generating:
            self.probe.generating.remove(self)
        if self.decode is not None:
            self.probe.end(self.decode, error)


def generated_tokens(model, args, kwargs, outputs):
    """New tokens a sequence, or None where the prompt's length cannot be told."""
    try:
        made = getattr(outputs, "sequences", outputs).shape[-1]
        if model.config.is_encoder_decoder:
            return made - 1
        prompt = kwargs.get("input_ids", kwargs.get("inputs", args[0] if args else None))
        return made - prompt.shape[-1]
    except Exception:
        return None


def given(args, kwargs):
    return {**dict(enumerate(args)), **kwargs}


def class_of(args):
    """The class of the object whose method it is, of the model that is saved; no texts and numbers."""
    return type(args[0]).__name__ if args and hasattr(args[0], "__dict__") else None


def cached_tokens(cache):
    if isinstance(cache, (tuple, list)):  # the form that they had before transformers 4.36
        return len(cache) > 0
    return hasattr(cache, "get_seq_length") and cache.get_seq_length() > 0


def extensions():
    """Versions of what is installed, without importing any of it."""
    from importlib import metadata

    found = []
    for name in EXTENSIONS:
        try:
            found.append({"name": name, "version": metadata.version(name)})
        except Exception:
            continue
    return found


# --- Starting by itself -----------------------------------------------------------------


class Finder:
    """Lets every import take its way, and tells the hooks when a module they wait for has been run."""

    def __init__(self, hooks):
        self.hooks = hooks

    def find_spec(self, name, path=None, target=None):
        if name not in self.hooks.on_import:
            return None
        finders = [f for f in sys.meta_path if f is not self and hasattr(f, "find_spec")]
        spec = next(filter(None, (f.find_spec(name, path, target) for f in finders)), None)
        try:
            replace(spec.loader, "exec_module", self.run)
        except AttributeError:
            self.hooks.told(name, name, "not found, or its loader cannot be watched")
        return spec

    def run(self, original, module):
        original(module)
        self.hooks.imported(module)


PROBE = []  # the one of this process, once it is started


def start(folder=None, path=None):
    """The probe of this process, or None where nobody asked for one."""
    folder = folder or setting("OUT")
    if not PROBE and (folder or path):
        probe = Probe(Stream(folder, path))
        PROBE.append(probe)
        probe.stream.write()
        atexit.register(probe.exit)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=functools.partial(forked, probe))
        replace(sys, "excepthook", functools.partial(uncaught, probe))
    return PROBE[0] if PROBE else None


def forked(probe):
    """The child of a fork has its own stream, and none of the phases."""
    probe.stream.forked_from = os.getppid()
    probe.stream.restart()
    probe.forget()


def uncaught(probe, original, kind, error, trace):
    """An error that ends the program is written even when it comes between phases."""
    probe.stream.write("uncaught", status=status_of(error), error=error_fields(error))
    original(kind, error, trace)


def verifying():
    return setting("PHASES") == "0"


def install(folder=None):
    """Hook what is imported already, and what will be."""
    probe = start(folder)
    if probe is None or probe.hooking or verifying():
        return probe
    probe.hooking = True
    hooks = Hooks(probe)
    sys.meta_path.insert(0, Finder(hooks))
    for name in ["torch"] + list(hooks.on_import):
        if name in sys.modules and name in hooks.on_import:
            hooks.imported(sys.modules[name])
    return probe


def chain(folder):
    """Run the sitecustomize that would have been run without this one."""
    here = os.path.realpath(folder)
    others = [p for p in sys.path if os.path.realpath(p or os.curdir) != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


# --- For programs that import this file -------------------------------------------------


class Unmeasured(contextlib.AbstractContextManager):
    """A phase where nothing is recorded."""

    def hold(self, outputs):
        return outputs

    def __exit__(self, *error):
        return False


class phase:  # noqa: N801, it reads as a statement
    """``with phase("save", inputs=batch) as p:`` or ``@phase("save")`` above a function.

    p.hold(outputs) keeps what the phase made until the last reading; the result of a
    decorated function is kept by itself.
    """

    def __init__(self, name, inputs=None, step=None):
        self.name, self.inputs, self.step = str(name), inputs, step
        self.inner = []  # one object may be entered again before it is left

    def _make(self, inputs=None):
        probe = start()
        if probe is None or verifying():
            return Unmeasured()
        if "torch" in sys.modules:
            probe.guarded(probe.use, sys.modules["torch"])
        return Phase(probe, self.name, inputs if self.inputs is None else self.inputs, self.step)

    def __enter__(self):
        self.inner.append(self._make())
        return self.inner[-1].__enter__()

    def __exit__(self, *error):
        return self.inner.pop().__exit__(*error)

    def __call__(self, function):
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError("a generator runs after it returns: use `with phase(…)` inside %s" % function.__name__)
        if inspect.iscoroutinefunction(function):

            async def call(*args, **kwargs):
                with self._make(given(args, kwargs)) as p:
                    return p.hold(await function(*args, **kwargs))

        else:

            def call(*args, **kwargs):
                with self._make(given(args, kwargs)) as p:
                    return p.hold(function(*args, **kwargs))

        return functools.wraps(function)(call)


def trainer_callback(folder=None):
    """For ``Trainer(callbacks=[trainer_callback()])``: evaluation and save with their true boundaries.

    The boundaries come from the methods of the Trainer, which this hooks before the Trainer
    is made; the callback itself does what --first asks for.
    """
    probe = install(folder)
    if probe is None:
        raise RuntimeError("FLOODMARK_PROBE_OUT names no folder, so that nothing would be recorded")
    from transformers import TrainerCallback

    class FloodmarkCallback(TrainerCallback):
        floodmark = None  # the Trainer, once it is made

        def on_step_end(self, args, state, control, **kwargs):
            if state.global_step != 1:
                return
            trainer = self.floodmark and self.floodmark()
            if "save" in probe.first:
                control.should_save = True
            if "evaluation" in probe.first and trainer is not None and trainer.eval_dataset is not None:
                control.should_evaluate = True
            probe.first -= {n for n, due in (("save", control.should_save), ("evaluation", control.should_evaluate)) if due}

    return FloodmarkCallback()


# --- The lab network --------------------------------------------------------------------

BLOCKS, SEED = 2, 0


class Impossible(Exception):
    """Nothing to measure with: which of the two is missing, and why."""

    def __init__(self, missing, detail):
        super().__init__(detail)
        self.missing = missing


def lab_device(name):
    """(torch, device). Never a CPU: a figure of one is no measurement of a GPU."""
    try:
        import torch
    except ModuleNotFoundError as error:
        raise Impossible("pytorch", "PyTorch is missing: %s" % error)
    except Exception as error:  # an OSError, where a library of the driver is missing
        raise Impossible("pytorch", "PyTorch cannot be imported: %s" % fault_text(error))
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise Impossible("device", "no device %s: %s" % (name, error))
    if device.type != "cuda":
        raise Impossible("device", "%s is no GPU that torch.cuda speaks to" % name)
    if not torch.cuda.is_available():
        raise Impossible("cuda", "PyTorch %s finds no GPU" % torch.__version__)
    if (device.index or 0) >= torch.cuda.device_count():
        raise Impossible("device", "%s does not exist: there are %d" % (name, torch.cuda.device_count()))
    return torch, torch.device("cuda", device.index or 0)


class Lab:
    """A small dense network built here, synthetic inputs, and the phases of the protocol around them."""

    def __init__(self, torch, device, probe, options):
        self.torch, self.device, self.probe, self.options = torch, device, probe, options
        self.dtype = getattr(torch, options.dtype)

    def phase(self, name, inputs=None, step=None, pass_=None):
        return Phase(self.probe, name, inputs, step, pass_, by="lab")

    def build(self):
        nn, width = self.torch.nn, self.options.width
        layers = [m for _ in range(BLOCKS) for m in (nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))]
        return nn.Sequential(*layers).to(device=self.device, dtype=self.dtype)

    def tensor(self, generator):
        o = self.options
        host = self.torch.randn(o.batch, o.context, o.width, generator=generator)
        return host.to(device=self.device, dtype=self.dtype)

    def run(self):
        torch, o = self.torch, self.options
        torch.cuda.set_device(self.device)
        torch.manual_seed(SEED)
        torch.cuda.init()
        torch.zeros(1, device=self.device)  # the context belongs to no phase
        with self.phase("model_load") as p:
            model = p.hold(self.build())
        generator = torch.Generator().manual_seed(SEED)
        with self.phase("inputs", {"batch": o.batch, "context": o.context, "width": o.width}) as p:
            x = p.hold(self.tensor(generator))
            target = self.tensor(generator) if o.train else None
        if o.train:
            self.train(model, x, target)
        else:
            self.infer(model, x)

    def infer(self, model, x):
        with self.torch.no_grad():
            with self.phase("cold_forward", x, 1, "first") as p:
                p.hold(model(x))
            if self.options.warmup:
                with self.phase("warmup", x, None, "warmup") as p:
                    for _ in range(self.options.warmup):
                        out = model(x)
                    p.hold(out)
                    del out
            for i in range(self.options.repeats):
                with self.phase("warm_forward", x, i + 1, "repeat") as p:
                    p.hold(model(x))

    def train(self, model, x, target):
        optimizer = self.torch.optim.AdamW(model.parameters(), lr=1e-3)
        for i in range(1 + self.options.warmup + self.options.repeats):
            pass_ = "first" if i == 0 else "warmup" if i <= self.options.warmup else "repeat"
            with self.phase("forward", x, i + 1, pass_) as p:
                out = p.hold(model(x))
            with self.phase("loss", None, i + 1, pass_) as p:
                loss = p.hold(self.torch.nn.functional.mse_loss(out, target))
            with self.phase("backward", None, i + 1, pass_):
                loss.backward()
            del out, loss
            with self.phase("optimizer_step", None, i + 1, pass_) as p:
                p.ends_step = optimizer
                optimizer.step()
            optimizer.zero_grad(set_to_none=True)


def lab_options(arguments):
    import argparse

    parser = argparse.ArgumentParser(prog="floodmark_probe.py", description="Measure the lab network on one GPU.")
    parser.add_argument("command", choices=["lab"])
    parser.add_argument("--device", required=True)
    for name, value in (("batch", 2), ("context", 128), ("width", 1024), ("warmup", 3), ("repeats", 5)):
        parser.add_argument("--" + name, type=int, default=value)
    parser.add_argument("--dtype", choices=["float32", "float16", "bfloat16", "float64"], default="float32")
    parser.add_argument("--train", action="store_true")
    parser.add_argument("--output", help="a new file for the lines; without it, FLOODMARK_PROBE_OUT")
    return parser.parse_args(arguments)


def main(arguments):
    """0 done, 1 failed, 2 nothing to measure with, 64 misused (argparse's own 2 would say the wrong thing)."""
    try:
        options = lab_options(arguments)
    except SystemExit as stop:
        return 64 if stop.code else 0
    if options.output and os.path.lexists(options.output):
        complain("%s exists, and no result is overwritten" % options.output)
        return 1
    probe = None if options.output else start()
    if probe is None and not options.output:
        complain("name a new file with --output")
        return 64
    try:
        torch, device = lab_device(options.device)
    except Impossible as error:
        if probe:
            probe.stream.write("impossible", missing=error.missing, detail=short(error))
        complain("measurement impossible: %s" % error)
        return 2
    return run_lab(probe or start(path=options.output), torch, device, options)


def run_lab(probe, torch, device, options):
    probe.use(torch)
    order = ["forward", "loss", "backward", "optimizer_step"] if options.train else ["cold_forward", "warmup", "warm_forward"]
    fields = {k: v for k, v in vars(options).items() if k not in ("command", "output")}
    probe.stream.write("lab", blocks=BLOCKS, seed=SEED, order=["model_load", "inputs"] + order, process="one",
                       empty_cache_between_repeats=False, **fields)
    try:
        Lab(torch, device, probe, options).run()
    except Exception as error:
        complain(fault_text(error))
        return 1
    return 0


if __name__ == "sitecustomize":
    if setting("OUT"):
        try:
            import floodmark_probe

            floodmark_probe.install()
        except Exception as _error:
            complain("not started: %s" % _error)
    chain(os.path.dirname(os.path.abspath(__file__)))
elif __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
