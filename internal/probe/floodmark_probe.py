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
MOST_TENSORS, MOST_VALUES, MOST_TEXT, MOST_LINE = 64, 32, 256, 64 << 10


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
    """Lines of JSON in a file of this process alone, each written by one write(2).

    A name in a folder is chosen when the first line is due, so that the many
    children that have nothing to say leave no file.
    """

    def __init__(self, folder=None, path=None):
        self.folder = folder and os.path.abspath(folder)  # the program may change directory
        self.fixed = path and os.path.abspath(path)
        self.forked_from = None
        self.restart()

    def restart(self):
        """Begin a stream of one's own; a forked child shares nothing with its parent's."""
        self.lock = threading.RLock()  # the old one may be held by a thread that does not exist here
        self.path = self.fd = self.identity = None
        self.complaint = None
        self.torn = False

    def write(self, kind, **fields):
        try:
            with self.lock:
                if self.path is None:
                    self._create()
                self._append(encode(kind, fields))
        except Exception as error:  # a full disk must not end the program
            self._complain(error)

    def start(self):
        try:
            with self.lock:
                if self.path is None:
                    self._create()
        except Exception as error:
            self._complain(error)

    def _create(self):
        self.path = self.fixed or self._name()
        self._open(os.O_CREAT | os.O_EXCL)
        self._append(encode("process", process_fields(self.forked_from)))

    def _name(self):
        rank = rank_fields()["rank"]
        who = "process" if rank is None else "rank-%05d" % rank
        return os.path.join(self.folder, "%s.%s.%d.%d.jsonl" % (who, short(socket.gethostname(), 64).replace(os.sep, "_"),
                                                                 os.getpid(), time.time_ns()))

    def _open(self, flags):
        fd = os.open(self.path, os.O_WRONLY | os.O_APPEND | getattr(os, "O_CLOEXEC", 0) | flags, 0o644)
        self.fd = out_of_the_way(fd)
        status = os.fstat(self.fd)
        self.identity = (status.st_dev, status.st_ino)

    def _append(self, data):
        if not self._is_ours():
            self._open(0)
        if self.torn:
            data = b"\n" + data
        written = os.write(self.fd, data)
        self.torn = written != len(data)
        if self.torn:
            raise OSError("only %d of %d bytes were written" % (written, len(data)))

    def _is_ours(self):
        """Programs close descriptors that are not theirs, and then get their numbers for files of their own."""
        try:
            status = os.fstat(self.fd)
        except OSError:
            return False
        return (status.st_dev, status.st_ino) == self.identity

    def _complain(self, error):
        if self.complaint is None:
            self.complaint = str(error)
            try:
                sys.stderr.write("floodmark_probe: readings are lost: %s\n" % error)
            except Exception:
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
        "host": socket.gethostname(), "boot_id": read_text("/proc/sys/kernel/random/boot_id"),
        "python": sys.version.split()[0], "executable": sys.executable, "argv": [short(a) for a in argv[:MOST_TENSORS]],
        "cwd": folder, "phases": setting("PHASES", "1") != "0",
        "settings": {k: short(v) for k, v in os.environ.items() if k.startswith(SETTING)},
        "visible": {k: os.environ.get(k) for k in VISIBLE},
    }
    fields.update(rank_fields())
    return fields


# --- What a phase is given, and what came of it -----------------------------------------


def tensors_in(value, name="", found=None, depth=0):
    """[(name, tensor)] of nested containers; plain numbers and texts as they are."""
    found = [] if found is None else found
    if len(found) > 64 * MOST_TENSORS:
        return found
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        found.append((name or "input", value))
    elif isinstance(value, (bool, int, float, str)):
        found.append((name or "value", value))
    elif depth < 4 and isinstance(value, Mapping):
        for key, item in value.items():
            tensors_in(item, name + "." + str(key) if name else str(key), found, depth + 1)
    elif depth < 4 and isinstance(value, (list, tuple)):
        for i, item in enumerate(value[: 4 * MOST_TENSORS]):
            tensors_in(item, "%s.%d" % (name, i) if name else str(i), found, depth + 1)
    return found


def describe(inputs, may_read):
    """Shapes, formats and a hash of what a phase is given; contents only where reading them disturbs nothing."""
    if inputs is None:
        return None
    described = {"tensors": [], "more": 0, "values": {}, "sha256": None, "sha256_reason": None, "given": None}
    if isinstance(inputs, str):
        described["given"] = short(inputs)
        return described
    found = tensors_in(inputs)
    tensors = [(name, v) for name, v in found if hasattr(v, "shape")]
    described["more"] = max(0, len(tensors) - MOST_TENSORS)
    for name, v in tensors[:MOST_TENSORS]:
        described["tensors"].append({"name": short(name, 128), "shape": [int(n) for n in v.shape],
                                     "dtype": str(v.dtype).replace("torch.", ""), "device": short(getattr(v, "device", ""), 32)})
    for name, v in [(n, v) for n, v in found if not hasattr(v, "shape")][:MOST_VALUES]:
        described["values"][short(name, 128)] = finite(v) if isinstance(v, (int, float)) else short(v)
    described["sha256"], described["sha256_reason"] = content_hash(tensors) if may_read else (None, "stream_capture")
    return described


def content_hash(tensors):
    """(hash, None) of names, formats, shapes and contents, or (None, why not)."""
    most = number(setting("HASH_BYTES")) or 256 << 10
    if not tensors:
        return None, "no_tensors"
    if sum(bytes_of(v) for _, v in tensors) > most:
        return None, "too_large"
    digest = hashlib.sha256()
    for name, v in tensors:
        digest.update(("%s|%s|%s|" % (name, v.dtype, tuple(v.shape))).encode())
        try:
            if not v.is_contiguous():  # a copy would allocate on the device
                return None, "not_contiguous"
            digest.update(contents(v))
        except Exception as error:
            return None, short("%s: %s" % (type(error).__name__, error))
    return digest.hexdigest(), None


def bytes_of(v):
    count = 1
    for n in v.shape:
        count *= int(n)
    return count * (v.element_size() if hasattr(v, "element_size") else 8)


def contents(v):
    """The bytes of a tensor, without numpy and without a new tensor on its device."""
    import ctypes

    host = v.detach().cpu()
    size = host.numel() * host.element_size()
    return ctypes.string_at(host.data_ptr(), size) if size else b""


def finite(value):
    return value if isinstance(value, int) or abs(value) < float("inf") else None


def loss_of(value):
    """The number that a one-element tensor holds, or a model's output calls its loss."""
    value = getattr(value, "loss", value)
    if isinstance(value, (list, tuple)) and len(value) == 1:
        value = value[0]
    if not hasattr(value, "numel") or value.numel() != 1 or not hasattr(value, "item") or not value.is_floating_point():
        return None
    return float(value.item())


def result_of(value):
    """What lets two runs be compared: the loss, or a hash of small outputs."""
    try:
        loss = loss_of(value)
        if loss is not None:
            return {"loss": finite(loss), "sha256": None, "reason": None if finite(loss) is not None else "not_finite"}
        tensors = [(n, v) for n, v in tensors_in(value) if hasattr(v, "shape")]
        digest, reason = content_hash(tensors)
        return {"loss": None, "sha256": digest, "reason": reason}
    except Exception as error:
        return {"loss": None, "sha256": None, "reason": short("%s: %s" % (type(error).__name__, error))}


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


def leaves(stats, path=()):
    """(path, {current, peak, …}) of every statistic in the nested dictionary."""
    for key, value in stats.items():
        if isinstance(value, dict):
            if "peak" in value:
                yield path + (key,), value
            else:
                yield from leaves(value, path + (key,))


class Window:
    """What one phase knows of one device: its start, and the highest so far."""

    def __init__(self, start):
        self.start, self.since = start, "phase" if start else "process"
        self.allocated = self.reserved = None
        self.resets = 0
        self.events = None

    def raise_to(self, stats):
        self.allocated = max(self.allocated or 0, stats["allocated_bytes"]["all"]["peak"])
        self.reserved = max(self.reserved or 0, stats["reserved_bytes"]["all"]["peak"])


def levels(stats):
    return {"allocated_bytes": stats["allocated_bytes"]["all"]["current"],
            "reserved_bytes": stats["reserved_bytes"]["all"]["current"]}


class Counters:
    """The memory counters of torch.cuda, shared with everybody who reads or resets them.

    The counters keep one peak since one reset. Whoever resets them ends the
    window of all others, so before each reset the peak is handed to every
    phase that is open, and to the program if it asks for its own.
    """

    def __init__(self, torch, probe):
        self.torch, self.probe = torch, probe
        memory = torch.cuda.memory
        self.stats, self.reset = memory.memory_stats_as_nested_dict, memory.reset_peak_memory_stats
        self.kept = {}  # device: {path: peak since the program's own reset}
        self.peaks = {}  # device: highest (allocated, reserved) that any reset ended
        self.captures = 0  # begun by this process and not ended, on whatever stream

    def share(self):
        """Give the program its own peaks: since its own last reset, not since ours."""
        memory, cuda = self.torch.cuda.memory, self.torch.cuda

        @functools.wraps(self.stats)
        def memory_stats_as_nested_dict(device=None):
            return self.with_kept(device, self.stats(device))

        @functools.wraps(self.reset)
        def reset_peak_memory_stats(device=None):
            index = self.index(device)
            with self.probe.lock:
                if index is not None and index in self.devices():
                    self.hand_over(index, self.stats(index))
                self.kept.pop(index, None)
                return self.reset(device)

        for module in (memory, cuda):
            module.memory_stats_as_nested_dict = memory_stats_as_nested_dict
            module.reset_peak_memory_stats = reset_peak_memory_stats
        self.share_accelerator(reset_peak_memory_stats)

    def share_accelerator(self, reset):
        """torch.accelerator reads and resets the same counters by another way."""
        package = getattr(self.torch, "accelerator", None)
        memory = getattr(package, "memory", None)
        if not hasattr(memory, "memory_stats") or not hasattr(memory, "reset_peak_memory_stats"):
            return
        original = memory.memory_stats

        @functools.wraps(original)
        def memory_stats(*args, **kwargs):
            flat = original(*args, **kwargs)
            for path, peak in self.kept.get(self.index(args[0] if args else None), {}).items():
                key = ".".join(path) + ".peak"
                if key in flat:
                    flat[key] = max(flat[key], peak)
            return flat

        for module in (package, memory):
            module.memory_stats = memory_stats
            if self.torch.version.cuda or self.torch.version.hip:
                module.reset_peak_memory_stats = lambda device_index=None, /: reset(device_index)

    def index(self, device):
        try:
            return self.torch.cuda._utils._get_device_index(device, optional=True)
        except Exception:
            return None

    def with_kept(self, device, stats):
        kept = self.kept.get(self.index(device)) if self.kept else None
        if kept:
            for path, leaf in leaves(stats):
                leaf["peak"] = max(leaf["peak"], kept.get(path, 0))
        return stats

    def devices(self):
        """Ordinals of the devices that this process has a context on; asking creates none."""
        cuda = self.torch.cuda
        if not cuda.is_initialized():
            return []
        has = getattr(self.torch._C, "_cuda_hasPrimaryContext", None)
        return [d for d in range(cuda.device_count()) if has is None or has(d)]

    def capturing(self):
        if self.captures > 0:
            return True
        cuda = self.torch.cuda
        return bool(cuda.is_initialized() and hasattr(cuda, "is_current_stream_capturing") and cuda.is_current_stream_capturing())

    def synchronize(self, devices):
        for device in devices:
            self.torch.cuda.synchronize(device)

    def hand_over(self, device, stats):
        """Before a reset: the peak goes to each open phase, and to the whole of the process."""
        ended = [stats[name]["all"]["peak"] for name in ("allocated_bytes", "reserved_bytes")]
        self.peaks[device] = [max(pair) for pair in zip(ended, self.peaks.get(device, ended))]
        for phase in self.probe.open:
            if phase.readings == "protocol":
                window = phase.windows.setdefault(device, Window(None))
                window.raise_to(stats)
                window.resets += 1

    def begin(self, device):
        """Read, hand the peaks over, reset. The window of the phase that begins."""
        stats = self.stats(device)
        window = Window(levels(stats))
        window.events = events(stats)
        self.hand_over(device, stats)
        kept = self.kept.setdefault(device, {})
        for path, leaf in leaves(stats):
            kept[path] = max(leaf["peak"], kept.get(path, 0))
        self.reset(device)
        return window

    def end(self, device, window):
        """Read, and what the end line says of the device."""
        stats = self.stats(device)
        window.raise_to(stats)
        fields = {"device": device, "start": window.start,
                  "peak": {"allocated_bytes": window.allocated, "reserved_bytes": window.reserved},
                  "end": levels(stats), "peak_since": window.since, "windows": window.resets + 1, "reason": None}
        fields.update(self.device_bytes(device))
        fields.update(difference(events(stats), window.events))
        return fields

    def whole(self, device):
        """Since the process began: only read, no reset and no waiting."""
        stats = self.stats(device)
        last = [stats[name]["all"]["peak"] for name in ("allocated_bytes", "reserved_bytes")]
        allocated, reserved = (max(pair) for pair in zip(last, self.peaks.get(device, last)))
        fields = {"device": device, "peak": {"allocated_bytes": allocated, "reserved_bytes": reserved}, "end": levels(stats)}
        fields.update(self.device_bytes(device))
        return fields

    def device_bytes(self, device):
        """Free and total bytes of the whole device; the driver counts everybody on it."""
        try:
            free, total = self.torch.cuda.mem_get_info(device)
        except Exception:
            free = total = None
        return {"device_free_bytes": free, "device_total_bytes": total}

    def describe(self, device):
        """The line "device"."""
        get = self.torch.cuda.get_device_properties(device)
        bus = [getattr(get, "pci_%s_id" % part, None) for part in ("domain", "bus", "device")]
        fields = {"device": device, "name": get.name, "uuid": text_of(getattr(get, "uuid", None)),
                  "pci": None if None in bus else "%08x:%02x:%02x.0" % tuple(bus),
                  "capability": "%d.%d" % (get.major, get.minor), "total_bytes": get.total_memory,
                  "free_bytes": self.device_bytes(device)["device_free_bytes"], "allocator": self.allocator()}
        return fields

    def allocator(self):
        """The backend, since it changes what the peak of reserved means."""
        settings = {name: os.environ.get(name) for name in ALLOCATOR}
        try:
            backend = self.torch.cuda.memory.get_allocator_backend()
        except Exception:  # PyTorch 1.13 cannot be asked, but knows both
            text = settings["PYTORCH_CUDA_ALLOC_CONF"] or ""
            backend = "cudaMallocAsync" if "backend:cudaMallocAsync" in text.replace(" ", "") else "native"
        return {"backend": backend, "settings": settings,
                "peak_reserved": "upper_bound" if backend == "cudaMallocAsync" else "peak"}


def events(stats):
    return {name: stats.get(name) for name in ("num_alloc_retries", "num_ooms")}


def difference(end, start):
    """How often it happened in between; unknown where the start is, or somebody reset the count."""
    result = {}
    for name, last in end.items():
        first = (start or {}).get(name)
        known = last is not None and first is not None and last >= first
        result[name] = last - first if known else None
    return result


def text_of(value):
    return None if value is None else str(value)


# --- Phases -----------------------------------------------------------------------------

# Phases that run one thing: model code inside them belongs to them and is no forward of its own.
LEAVES = {"forward", "backward", "loss", "prefill", "decode", "optimizer_step"}


class Phase:
    """One named interval: begin, run, end. Context manager; hold() keeps outputs until the last reading."""

    def __init__(self, probe, name, inputs=None, step=None, pass_=None, seen="declared", by="phase", module=None):
        self.probe, self.name, self.inputs = probe, name, inputs
        self.step, self.pass_, self.seen, self.by, self.module = step, pass_, seen, by, module
        self.id = self.parent = self.fields = self.started = self.reason = None
        self.readings, self.windows, self.outputs = "none", {}, None
        self.leaf = seen != "declared" and name in LEAVES
        self.thread, self.threads, self.truncated = threading.get_ident(), False, None
        self.ends_step = None  # the optimizer whose step this is

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
        self.stream = stream
        self.lock = threading.RLock()
        self.torch = self.counters = None
        self.hooking = False
        self.forget()

    def forget(self):
        """Begin anew, in a forked child too: phases that were open stay the parent's."""
        self.open, self.seen_devices = [], set()
        self.ids = self.completed = self.steps = 0
        self.busy = self.trained = self.stopped = self.rank_known = False
        self.since_step = set()  # names of phases since the last optimizer step
        self.truncated = self.refusal = None
        self.optimizers = weakref.WeakKeyDictionary()
        self.snapshots = 0
        self.generating, self.counted = [], {}
        self.first = {n for n in (setting("FIRST") or "").split(",") if n}

    def note(self, code, text):
        self.stream.write("note", code=code, text=short(text, 2000))

    def guarded(self, act, *args):
        """The program must not fail by a fault of ours: say it, and go on."""
        try:
            return act(*args)
        except Exception as error:
            self.note("probe_fault", "%s: %s: %s" % (getattr(act, "__name__", "probe"), type(error).__name__, error))
            return None

    # The protocol.

    def begin(self, phase):
        with self.lock:
            self.guarded(self._begin, phase)
            if phase.leaf:
                self.busy = True
        phase.started = time.monotonic_ns()
        if self.refusal:
            self.end(phase)

    def _begin(self, phase):
        self.ids += 1
        phase.id = self.ids
        around = [p for p in self.open if p.thread == phase.thread]
        phase.parent = around[-1].id if around else None
        if len(around) != len(self.open):
            for p in self.open + [phase]:
                p.threads = True
        if phase.truncated is None:
            phase.truncated, self.truncated = self.truncated, None
        capturing = self.counters is not None and self.counters.capturing()
        described = describe(phase.inputs, not capturing)
        phase.inputs = None  # the program may want to free them
        starts = self.read_starts(phase, capturing)
        phase.fields = {"id": phase.id, "parent": phase.parent, "name": phase.name, "step": phase.step,
                        "pass": phase.pass_, "seen": phase.seen, "by": phase.by, "module": phase.module,
                        "inputs": described}
        self.open.append(phase)
        self.stream.write("begin", readings=phase.readings, readings_reason=phase.reason, devices=starts, **phase.fields)

    def read_starts(self, phase, capturing):
        if capturing:
            phase.reason = "stream_capture"
            return []
        if self.counters is None:
            phase.reason = "no_context"
            return []
        phase.readings = "protocol"
        try:
            devices = self.counters.devices()
            self.meet(devices)
            self.counters.synchronize(devices)
            for device in devices:
                phase.windows[device] = self.counters.begin(device)
        except Exception as error:
            phase.readings, phase.reason = "none", "failed"
            self.note("reading_failed", "at the start of %s: %s: %s" % (phase.name, type(error).__name__, error))
        return [{"device": d, "start": w.start} for d, w in phase.windows.items()]

    def end(self, phase, error=None):
        with self.lock:
            devices = self.guarded(self._read_end, phase, error) or []
            duration = time.monotonic_ns() - phase.started
            if phase in self.open:
                self.open.remove(phase)
            self.busy = any(p.leaf for p in self.open)
            result = None
            if error is None and phase.outputs is not None and phase.reason != "stream_capture":
                result = result_of(phase.outputs)
            phase.outputs = None
            self.guarded(self._write_end, phase, error, devices, duration, result)
            self.guarded(self.check_budget, phase, devices)
        if self.refusal and error is None:
            self.refuse(*self.refusal)

    def _read_end(self, phase, error):
        if phase.reason == "stream_capture" or self.counters is None:
            return []
        if self.counters.capturing():
            phase.readings, phase.reason = "none", "stream_capture"
            return [self.unread(d, w, "stream_capture") for d, w in phase.windows.items()]
        if phase.reason == "failed":
            return []
        phase.readings = "protocol"
        try:
            devices = self.counters.devices()
            self.meet(devices)
            self.counters.synchronize(devices)
        except Exception as fault:
            phase.readings, phase.reason = "none", "failed"
            why = short("%s: %s" % (type(fault).__name__, fault))
            return [self.unread(d, w, why) for d, w in phase.windows.items()]
        if not devices:
            phase.readings, phase.reason = "none", "no_context"
        if status_of(error) == "out_of_memory":
            self.guarded(self.snapshot, devices)
        return [self.read_device(phase, d) for d in devices]

    def read_device(self, phase, device):
        window = phase.windows.setdefault(device, Window(None))
        try:
            return self.counters.end(device, window)
        except Exception as fault:
            return self.unread(device, window, short("%s: %s" % (type(fault).__name__, fault)))

    def unread(self, device, window, reason):
        """What is left of a phase whose last reading was impossible: its start, and nothing invented."""
        nothing = {"allocated_bytes": None, "reserved_bytes": None}
        return {"device": device, "start": window.start, "peak": nothing, "end": nothing, "peak_since": window.since,
                "windows": window.resets + 1, "device_free_bytes": None, "device_total_bytes": None,
                "num_alloc_retries": None, "num_ooms": None, "reason": reason}

    def _write_end(self, phase, error, devices, duration, result):
        self.completed += 1
        self.since_step.add(phase.name)
        if phase.ends_step is not None and error is None:
            self.ended_step(phase.ends_step)
        self.stream.write("end", readings=phase.readings, readings_reason=phase.reason, status=status_of(error),
                          error=error_fields(error), duration_ns=duration, devices=devices, result=result,
                          threads=phase.threads, truncated_tokens=phase.truncated, **(phase.fields or {}))

    def check_budget(self, phase, devices):
        """Allocated bytes only: what is reserved could be less on a smaller card."""
        budget = number(setting("BUDGET"))
        if budget is None or self.steps > 1 or (self.steps == 1 and phase.name != "optimizer_step"):
            return
        for d in devices:
            if (d["peak"]["allocated_bytes"] or 0) > budget and self.refusal is None:
                self.refusal = (budget, d["device"], phase, d["peak"]["allocated_bytes"], d["device_total_bytes"],
                                "the phase allocated more than the budget")

    def refuse(self, budget, device, phase, allocated, total, reason):
        """End the program. Only after the line of the phase: what is completed is written."""
        self.refusal = None
        self.stream.write("guard", budget_bytes=budget, device=device, name=phase and phase.name, step=phase and phase.step,
                          allocated_bytes=allocated, total_bytes=total, reason=reason)
        sys.stderr.write("floodmark_probe: stopped: cuda:%d, budget %d bytes: %s\n" % (device, budget, reason))
        raise SystemExit(3)

    # What is said once: devices, ranks, snapshots.

    def meet(self, devices):
        """Describe each device when its context is first seen."""
        self.tell_rank()
        for device in devices:
            if device in self.seen_devices:
                continue
            self.seen_devices.add(device)
            fields = self.guarded(self.counters.describe, device)
            if fields:
                self.stream.write("device", **fields)
            self.guarded(self.record_history)
            total, budget = fields and fields["total_bytes"], number(setting("BUDGET"))
            if budget is not None and total is not None and total < budget:
                self.refusal = (budget, device, None, None, total, "the device has fewer bytes than the budget")

    def tell_torch(self):
        torch = self.torch
        self.stream.write("torch", torch=torch.__version__, cuda=torch.version.cuda, hip=getattr(torch.version, "hip", None),
                          cudnn=self.guarded(cudnn_version, torch), extensions=extensions())

    def tell_rank(self):
        """mp.spawn sets no variable: only torch.distributed knows such a rank."""
        if self.rank_known:
            return
        distributed = sys.modules.get("torch.distributed")
        if distributed is None or not distributed.is_available() or not distributed.is_initialized():
            return
        self.rank_known = True
        rank, world = distributed.get_rank(), distributed.get_world_size()
        if (rank, world) != (rank_fields()["rank"], rank_fields()["world_size"]):
            self.stream.write("rank", rank=rank, world_size=world)

    def record_history(self):
        """Only when asked: the history costs time with every allocation."""
        if setting("SNAPSHOT") is None or self.snapshots < 0 or len(self.seen_devices) > 1:
            return
        memory = self.torch.cuda.memory
        if "max_entries" in inspect.signature(memory._record_memory_history).parameters:
            memory._record_memory_history(max_entries=100000)
        elif "trace_alloc_max_entries" in inspect.signature(memory._record_memory_history).parameters:
            memory._record_memory_history(True, trace_alloc_max_entries=100000)
        else:
            memory._record_memory_history(True)
        attach = getattr(self.torch._C, "_cuda_attach_out_of_memory_observer", None)
        if attach is not None:  # it speaks before Python unwinds and frees what filled the memory
            attach(lambda device, *_: self.guarded(self.snapshot, [device]))

    def snapshot(self, devices):
        folder = setting("SNAPSHOT")
        if folder is None or self.snapshots >= 1:
            return
        self.snapshots += 1
        device = devices[0] if devices else None
        path = os.path.join(folder, os.path.basename(self.stream.path or "process") + ".pickle")
        try:
            import pickle

            with open(path, "xb") as f:
                pickle.dump(self.torch.cuda.memory._snapshot(), f)
            self.stream.write("snapshot", path=path, device=device, bytes=os.path.getsize(path), reason=None)
        except Exception as error:
            self.stream.write("snapshot", path=None, device=device, bytes=None, reason=short(error))

    # Steps.

    def step(self):
        """The number of the step that is being made: the first is 1."""
        return self.steps + 1

    def count(self, name):
        """How many there were outside training, this one included: 1 is the cold one."""
        self.counted[name] = self.counted.get(name, 0) + 1
        return self.counted[name]

    def tokenized(self, outputs):
        """Tokens that a fast tokenizer cut off, until the next phase takes the count."""
        encodings = getattr(outputs, "encodings", None)
        if not encodings:
            return
        lost = [sum(1 for s, a in zip(o.special_tokens_mask, o.attention_mask) if a and not s)
                for e in encodings for o in e.overflowing]
        self.truncated = (self.truncated or 0) + sum(lost)
        if lost:
            self.stream.write("tokens", truncated=sum(lost), sequences=sum(1 for e in encodings if e.overflowing))

    def ended_step(self, optimizer):
        """Several optimizers may share a step: it ends when one of them has made more than any before."""
        made = self.optimizers.get(optimizer, 0) + 1
        self.optimizers[optimizer] = made
        if made > self.steps:
            self.steps = made
            self.since_step.clear()
        self.trained = True
        most = number(setting("STEPS"))
        if most is not None and self.steps >= most and not self.stopped:
            self.stopped = True
            self.stream.write("steps", steps=self.steps)

    def missing(self, name, reason):
        self.stream.write("missing", name=name, step=self.step(), reason=reason)

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

    def is_open(self, name):
        return any(p.name == name for p in self.open)

    def skips(self, name):
        """A phase inside one of its own name is part of it, and what runs backwards runs nothing of its own."""
        return self.stopped or self.is_open(name) or self.is_open("backward")

    def finish(self):
        """The last line, which says that the interpreter ended by itself; the counters are only read."""
        devices = []
        torch = sys.modules.get("torch")
        try:
            if torch is not None and torch.cuda.is_initialized():
                counters = self.counters or Counters(torch, self)
                devices = [counters.whole(d) for d in counters.devices()]
        except Exception as error:
            self.note("reading_failed", "at exit: %s: %s" % (type(error).__name__, error))
        for name in sorted(self.first if not self.stream.forked_from else ()):
            self.stream.write("missing", name=name, step=None, reason="asked to come first, but no Trainer could do it")
        if not self.stream.forked_from or self.stream.path:
            self.stream.write("exit", phases=self.completed, steps=self.steps, devices=devices)


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
TRAINER = (
    ("evaluate", "evaluation"), ("predict", "evaluation"), ("_save_checkpoint", "save"), ("save_model", "save"),
    ("_prepare_inputs", "inputs"), ("_load_from_checkpoint", "resume"), ("_load_optimizer_and_scheduler", "resume"),
)
INSIDE = {"transfer": {"model_load"}, "inputs": set()}  # not a phase of its own inside these


class Hooks:
    """Wrappers around what programs call, put in as soon as its module is imported."""

    def __init__(self, probe):
        self.probe = probe
        self.is_compiling = never
        self.on_import = {name: [] for name, _, _, _ in CALLS}
        for module, path, name, seen in CALLS:
            self.on_import[module].append(functools.partial(self.wrap, path=path, name=name, seen=seen))
        self.on_import["torch"] = [self.hook_torch]
        self.on_import["transformers.trainer"] = [self.hook_trainer]
        self.on_import["transformers.generation.utils"] = [self.hook_generate]
        self.on_import["transformers.tokenization_utils_base"] = [self.hook_tokenizer]
        self.on_import["transformers.modeling_utils"].append(self.hook_model_loss)

    def imported(self, module):
        """Called when a module has been run, or is found to have been."""
        for hook in self.on_import.pop(module.__name__, ()):
            self.probe.guarded(hook, module)

    def told(self, name, by, reason=None):
        self.probe.stream.write("hook", name=name, by=by, installed=reason is None, reason=reason)

    # One call, one phase.

    def wrap(self, module, path, name, seen="hooked"):
        """Replace a function or method by one that makes a phase of each call."""
        by = "%s.%s" % (module.__name__, path)
        owner, _, attribute = path.rpartition(".")
        holder = getattr(module, owner, None) if owner else module
        if holder is None or not hasattr(holder, attribute):
            self.told(name, by, "this version has no such function")
            return
        original = inspect.getattr_static(holder, attribute)
        function = original.__func__ if isinstance(original, (classmethod, staticmethod)) else original
        wrapped = self.phase_of(function, name, seen, by)
        setattr(holder, attribute, type(original)(wrapped) if function is not original else wrapped)
        parent = sys.modules.get(module.__name__.rpartition(".")[0])
        if not owner and getattr(parent, attribute, None) is original:
            setattr(parent, attribute, wrapped)  # torch.save is torch.serialization.save
        self.told(name, by)

    def phase_of(self, function, name, seen, by):
        if getattr(function, "floodmark", False):
            return function
        probe, hooks = self.probe, self

        @functools.wraps(function)
        def call(*args, **kwargs):
            if hooks.is_compiling() or probe.skips(name) or any(probe.is_open(n) for n in INSIDE.get(name, ())):
                return function(*args, **kwargs)
            phase = Phase(probe, name, hooks.given(args, kwargs), step_of(probe, name), None, seen, by, class_of(args))
            return probe.run(phase, function, args, kwargs)

        call.floodmark = True
        return call

    def given(self, args, kwargs):
        return {k: v for k, v in list(enumerate(args)) + list(kwargs.items())}

    # PyTorch.

    def hook_torch(self, torch):
        probe = self.probe
        probe.torch, probe.counters = torch, Counters(torch, probe)
        probe.tell_torch()
        probe.counters.share()
        compiler = getattr(torch, "compiler", None)
        self.is_compiling = getattr(compiler, "is_compiling", None) or getattr(torch._utils, "is_compiling", None) or never
        self.hook_modules(torch)
        self.hook_backward(torch)
        self.hook_optimizers(torch)
        for hook in (self.hook_capture,):
            probe.guarded(hook, torch)
        for name in ("torch.serialization", "torch.nn", "torch.onnx", "torch.export"):
            if name in sys.modules:
                self.imported(sys.modules[name])

    def hook_modules(self, torch):
        """A call of a module that no other phase is inside of is a forward; one of a loss is a loss."""
        module, probe, hooks = torch.nn.Module, self.probe, self
        original = module.__call__

        @functools.wraps(original)
        def __call__(self, *args, **kwargs):
            if hooks.is_compiling() or probe.busy:
                return original(self, *args, **kwargs)
            return hooks.forward(original, self, args, kwargs)

        module.__call__ = __call__
        loss = torch.nn.modules.loss._Loss
        loss.__call__ = self.phase_of(original, "loss", "hooked", "torch.nn.modules.loss")
        self.told("forward", "torch.nn.Module.__call__")
        self.told("loss", "torch.nn.modules.loss")
        for name in ("to", "cuda"):
            setattr(module, name, self.phase_of(getattr(module, name), "transfer", "hooked", "torch.nn.Module." + name))
        self.told("transfer", "torch.nn.Module.to")

    def forward(self, original, module, args, kwargs):
        probe = self.probe
        name, seen, rule = self.forward_name(module, kwargs)
        if name is None or probe.stopped or probe.is_open("backward") or probe.is_open("model_load"):
            return original(module, *args, **kwargs)
        phase = Phase(probe, name, self.given(args, kwargs), self.forward_step(name), None, seen, rule, type(module).__name__)
        phase.leaf = True
        if name == "decode" and probe.generating:  # it lasts until generate returns
            probe.generating[-1].begin_decode(phase)
            return original(module, *args, **kwargs)
        outputs = probe.run(phase, original, (module,) + args, kwargs)
        if name == "prefill" and probe.generating:
            probe.generating[-1].prefilled = True
        return outputs

    def forward_name(self, module, kwargs):
        """(name, seen, by) of a forward, from what is open and what it is given."""
        probe, by = self.probe, "torch.nn.Module.__call__"
        if probe.generating:
            return probe.generating[-1].name_forward()
        cache = kwargs.get("past_key_values", kwargs.get("cache"))
        if self.torch_grad_enabled() or probe.is_open("evaluation"):
            return "forward", "hooked", by
        if cache is not None and cached_tokens(cache):
            return "decode", "inferred", "a cache that holds tokens, without gradients"
        if kwargs.get("use_cache"):
            return "prefill", "inferred", "an empty cache, without gradients"
        if probe.trained:
            return "evaluation", "inferred", "a forward without gradients after an optimizer step"
        return "forward", "hooked", by

    def forward_step(self, name):
        probe = self.probe
        if probe.is_open("evaluation") or name == "evaluation":
            return None
        if self.torch_grad_enabled() or probe.trained:
            return probe.step()
        if probe.generating:
            return probe.generating[-1].number
        return probe.count(name)

    def torch_grad_enabled(self):
        return self.probe.torch.is_grad_enabled()

    def hook_backward(self, torch):
        probe = self.probe
        original = torch.autograd.backward

        @functools.wraps(original)
        def backward(tensors, *args, **kwargs):
            if self.is_compiling() or probe.skips("backward"):
                return original(tensors, *args, **kwargs)
            phase = Phase(probe, "backward", None, probe.step(), None, "hooked", "torch.autograd.backward")
            probe.begin(phase)
            try:
                original(tensors, *args, **kwargs)
                phase.outputs = tensors
            except BaseException as error:
                probe.end(phase, error)
                raise
            probe.end(phase)

        torch.autograd.backward = backward
        self.told("backward", "torch.autograd.backward")

    def hook_optimizers(self, torch):
        """Each class of optimizers has a step of its own, which is wrapped when the first of them is made."""
        optimizer = torch.optim.Optimizer
        original = optimizer.__init__

        @functools.wraps(original)
        def __init__(self_, *args, **kwargs):
            original(self_, *args, **kwargs)
            self.probe.guarded(self.hook_step, type(self_))

        optimizer.__init__ = __init__
        self.told("optimizer_step", "torch.optim.Optimizer.step")

    def hook_step(self, kind):
        function = kind.step
        if getattr(function, "floodmark", False):
            return
        probe = self.probe

        @functools.wraps(function)
        def step(optimizer, *args, **kwargs):
            if self.is_compiling() or probe.skips("optimizer_step"):
                return function(optimizer, *args, **kwargs)
            closure = args[0] if args else kwargs.get("closure")
            number = probe.optimizers.get(optimizer, 0) + 1
            if closure is None and number > probe.steps:
                self.look_back(number)
            phase = Phase(probe, "optimizer_step", None, number, None, "hooked", "torch.optim.Optimizer.step", kind.__name__)
            phase.leaf = closure is None  # a closure runs forward and backward inside
            phase.ends_step = optimizer
            return probe.run(phase, function, (optimizer,) + args, kwargs)

        step.floodmark = True
        kind.step = step

    def look_back(self, number):
        """A step without a forward or backward before it: they happened where no hook could see them."""
        for name in ("forward", "backward"):
            if name not in self.probe.since_step:
                self.probe.missing(name, "no %s was seen before optimizer step %d" % (name, number))

    def hook_capture(self, torch):
        """Count captures, in which nothing may synchronize; the whole of one is a phase."""
        counters, probe = self.probe.counters, self.probe
        graph, context = torch.cuda.CUDAGraph, torch.cuda.graphs.graph

        def counting(function, change):
            @functools.wraps(function)
            def call(*args, **kwargs):
                try:
                    return function(*args, **kwargs)
                finally:
                    counters.captures = max(0, counters.captures + change)

            return call

        graph.capture_begin = counting(graph.capture_begin, 1)
        graph.capture_end = counting(graph.capture_end, -1)
        enter, leave = context.__enter__, context.__exit__

        @functools.wraps(enter)
        def __enter__(self):
            self.floodmark = None if probe.stopped else Phase(probe, "graph_capture", None, None, None, "hooked", "torch.cuda.graph")
            if self.floodmark:
                probe.begin(self.floodmark)
            return enter(self)

        @functools.wraps(leave)
        def __exit__(self, kind, error, trace):
            try:
                return leave(self, kind, error, trace)
            finally:
                if self.floodmark:
                    probe.end(self.floodmark, error)

        context.__enter__, context.__exit__ = __enter__, __exit__
        self.told("graph_capture", "torch.cuda.graph")

    # Hugging Face.

    def hook_generate(self, module):
        mixin, probe = module.GenerationMixin, self.probe
        original = mixin.generate
        has_prefill = hasattr(mixin, "_prefill")

        @functools.wraps(original)
        def generate(model, *args, **kwargs):
            if self.is_compiling() or probe.skips("generate"):
                return original(model, *args, **kwargs)
            generation = Generation(probe, probe.count("generate"), has_prefill)
            phase = Phase(probe, "generate", self.given(args, kwargs), generation.number, None, "hooked",
                          "transformers.GenerationMixin.generate", type(model).__name__)
            probe.generating.append(generation)
            return probe.run(phase, generation.run(original), (model,) + args, kwargs)

        mixin.generate = generate
        self.told("generate", "transformers.GenerationMixin.generate")
        if has_prefill:
            self.hook_prefill(mixin)
        else:
            self.told("prefill", "the first forward of generate")

    def hook_prefill(self, mixin):
        probe, original = self.probe, mixin._prefill

        @functools.wraps(original)
        def _prefill(model, *args, **kwargs):
            generation = probe.generating[-1] if probe.generating else None
            if generation is None or generation.prefilled or probe.skips("prefill"):
                return original(model, *args, **kwargs)
            phase = Phase(probe, "prefill", self.given(args, kwargs), generation.number, None, "hooked",
                          "transformers.GenerationMixin._prefill", type(model).__name__)
            outputs = probe.run(phase, original, (model,) + args, kwargs)
            generation.prefilled = True
            return outputs

        mixin._prefill = _prefill
        self.told("prefill", "transformers.GenerationMixin._prefill")

    def hook_model_loss(self, module):
        """Models that compute their loss inside forward take the function from this property."""
        model = module.PreTrainedModel
        original = inspect.getattr_static(model, "loss_function", None)
        if not isinstance(original, property):
            self.told("loss", "transformers.PreTrainedModel.loss_function", "this version has no such function")
            return
        made = {}

        def get(this):
            function = original.fget(this)
            if self.is_compiling():
                return function
            if function not in made:
                made[function] = self.phase_of(function, "loss", "hooked", "transformers.PreTrainedModel.loss_function")
            return made[function]

        model.loss_function = property(get, original.fset, original.fdel)
        self.told("loss", "transformers.PreTrainedModel.loss_function")

    def hook_tokenizer(self, module):
        """Fast tokenizers keep what they cut off; slow ones do not say."""
        base, probe = module.PreTrainedTokenizerBase, self.probe
        original = base.__call__

        @functools.wraps(original)
        def __call__(tokenizer, *args, **kwargs):
            outputs = original(tokenizer, *args, **kwargs)
            probe.guarded(probe.tokenized, outputs)
            return outputs

        base.__call__ = __call__
        self.told("tokens", "transformers.PreTrainedTokenizerBase.__call__")

    def hook_trainer(self, module):
        trainer, probe = module.Trainer, self.probe
        original = trainer.__init__

        @functools.wraps(original)
        def __init__(this, *args, **kwargs):
            for kind in type(this).__mro__:
                for method, name in TRAINER:
                    if method in vars(kind):
                        by = "%s.%s" % (kind.__name__, method)
                        setattr(kind, method, self.phase_of(vars(kind)[method], name, "hooked", by))
            original(this, *args, **kwargs)
            probe.guarded(self.register, this)

        trainer.__init__ = __init__
        for method, name in TRAINER:
            self.told(name, "Trainer." + method, None if hasattr(trainer, method) else "this version has no such function")

    def register(self, trainer):
        """The callback joins by itself; one that the program gave already is told its trainer."""
        handler = trainer.callback_handler
        ours = [c for c in handler.callbacks if getattr(c, "floodmark", False)]
        if not ours:
            ours = [callback_class()(self.probe)]
            trainer.add_callback(ours[0])
        ours[0].trainer = weakref.ref(trainer)


class Generation:
    """One call of generate: its prefill, and its decode from the second forward until it returns."""

    def __init__(self, probe, number, has_prefill):
        self.probe, self.number, self.has_prefill = probe, number, has_prefill
        self.prefilled, self.decode = False, None

    def name_forward(self):
        if self.prefilled:
            return "decode", "hooked", "from the first forward after prefill until generate returns"
        if self.has_prefill:
            return None, None, None
        return "prefill", "inferred", "the first forward of generate"

    def begin_decode(self, phase):
        self.decode = phase
        self.probe.begin(phase)

    def run(self, original):
        def call(*args, **kwargs):
            try:
                outputs = original(*args, **kwargs)
            except BaseException as error:
                self.close(error)
                raise
            self.close(None)
            return outputs

        return call

    def close(self, error):
        self.probe.generating.remove(self)
        if self.decode is not None:
            self.probe.end(self.decode, error)
        elif error is None:
            self.probe.stream.write("missing", name="decode", step=self.number,
                                    reason="no forward was seen after prefill" if self.prefilled else "no prefill was seen")


def callback_class():
    """Made when needed: it derives from a class of transformers."""
    from transformers import TrainerCallback

    class FloodmarkCallback(TrainerCallback):
        """Counts for --first: after the first step the Trainer saves and evaluates once."""

        floodmark = True

        def __init__(self, probe):
            self.probe, self.trainer = probe, None

        def on_step_end(self, args, state, control, **kwargs):
            first = (setting("FIRST") or "").split(",")
            if state.global_step != 1:
                return
            if "save" in first:
                control.should_save = True
                self.probe.first.discard("save")
            trainer = self.trainer and self.trainer()
            if "evaluation" in first and trainer is not None and trainer.eval_dataset is not None:
                control.should_evaluate = True
                self.probe.first.discard("evaluation")

    return FloodmarkCallback


def never():
    return False


def step_of(probe, name):
    return probe.step() if name in ("inputs", "loss") and not probe.is_open("evaluation") else None


def class_of(args):
    return type(args[0]).__name__ if args and hasattr(args[0], "__dict__") else None


def cached_tokens(cache):
    try:
        return cache.get_seq_length() > 0
    except Exception:
        return isinstance(cache, (tuple, list)) and len(cache) > 0


def cudnn_version(torch):
    return torch.backends.cudnn.version()


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
        self.hooks, self.asking = hooks, set()

    def find_spec(self, name, path=None, target=None):
        if name not in self.hooks.on_import or name in self.asking:
            return None
        self.asking.add(name)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self.asking.discard(name)
        if spec is not None and hasattr(spec.loader, "exec_module"):
            run = spec.loader.exec_module

            def exec_module(module):
                run(module)
                self.hooks.imported(module)

            try:
                spec.loader.exec_module = exec_module
            except AttributeError:
                self.hooks.told(name, name, "its loader cannot be watched")
        return spec


PROBE = []  # the one of this process, once it is started


def start(folder=None, path=None):
    """The probe of this process, or None where nobody asked for one."""
    if not PROBE:
        folder = folder or setting("OUT")
        if folder is None and path is None:
            return None
        probe = Probe(Stream(folder, path))
        PROBE.append(probe)
        probe.stream.start()
        atexit.register(probe.finish)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=functools.partial(forked, probe, os.getpid()))
        watch_errors(probe)
    return PROBE[0]


def forked(probe, parent):
    """The child of a fork has its own stream and no phases; the device is not its own either."""
    probe.stream.forked_from = os.getppid()
    probe.stream.restart()
    probe.lock = threading.RLock()
    probe.forget()


def watch_errors(probe):
    """An error that ends the program is written even when it comes between phases."""
    before = sys.excepthook

    def excepthook(kind, error, trace):
        probe.stream.write("uncaught", status=status_of(error), error=error_fields(error))
        before(kind, error, trace)

    sys.excepthook = excepthook


def install(folder=None):
    """Hook what is imported already, and what will be."""
    probe = start(folder)
    if probe is None or probe.hooking or setting("PHASES", "1") == "0":
        return probe
    probe.hooking = True
    hooks = Hooks(probe)
    sys.meta_path.insert(0, Finder(hooks))
    for name in ["torch"] + [n for n in list(hooks.on_import) if n != "torch"]:
        if name in sys.modules and name in hooks.on_import:
            hooks.imported(sys.modules[name])
    return probe


def chain(folder):
    """Run the sitecustomize that would have been run without this one."""
    here = os.path.realpath(folder)
    others = [p for p in sys.path if os.path.realpath(p or os.curdir) != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


# --- For programs that import this file -------------------------------------------------


class Unmeasured:
    """A phase where nothing is recorded."""

    def hold(self, outputs):
        return outputs

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return False


class phase:  # noqa: N801, it reads as a statement
    """``with phase("save", inputs=batch) as p:`` or ``@phase("save")`` above a function.

    p.hold(outputs) keeps what the phase made until the last reading; a decorated
    function's result is kept by itself.
    """

    def __init__(self, name, inputs=None, step=None):
        self.arguments, self.inner = (str(name), inputs, step), None

    def _make(self, inputs=None):
        name, given, step = self.arguments
        probe = start()
        if probe is None or setting("PHASES", "1") == "0":
            return Unmeasured()
        if probe.counters is None and "torch" in sys.modules:
            probe.torch = sys.modules["torch"]
            probe.counters = Counters(probe.torch, probe)
            probe.counters.share()
        return Phase(probe, name, inputs if given is None else given, step)

    def __enter__(self):
        self.inner = self._make()
        return self.inner.__enter__()

    def __exit__(self, *error):
        return self.inner.__exit__(*error)

    def __call__(self, function):
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError("a generator runs after it returns: use `with phase(…)` inside %s" % function.__name__)
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def wait(*args, **kwargs):
                with self._make({**dict(enumerate(args)), **kwargs}) as p:
                    return p.hold(await function(*args, **kwargs))

            return wait

        @functools.wraps(function)
        def call(*args, **kwargs):
            with self._make({**dict(enumerate(args)), **kwargs}) as p:
                return p.hold(function(*args, **kwargs))

        return call


def trainer_callback(folder=None):
    """For ``Trainer(callbacks=[trainer_callback()])``: evaluation and save with their true boundaries."""
    probe = install(folder)
    if probe is None:
        raise RuntimeError("FLOODMARK_PROBE_OUT names no folder, so that nothing would be recorded")
    return callback_class()(probe)


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
    except ImportError as error:
        raise Impossible("pytorch", "PyTorch is missing: %s" % error)
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
    probe = start(path=options.output) or start(path=os.devnull)
    try:
        torch, device = lab_device(options.device)
    except Impossible as error:
        probe.stream.write("impossible", missing=error.missing, detail=short(error))
        sys.stderr.write("floodmark_probe: measurement impossible: %s\n" % error)
        return 2
    probe.torch, probe.counters = torch, Counters(torch, probe)
    probe.tell_torch()
    order = ["forward", "loss", "backward", "optimizer_step"] if options.train else ["cold_forward", "warmup", "warm_forward"]
    fields = {k: v for k, v in vars(options).items() if k not in ("command", "output")}
    probe.stream.write("lab", blocks=BLOCKS, seed=SEED, order=["model_load", "inputs"] + order, process="one",
                       empty_cache_between_repeats=False, **fields)
    try:
        Lab(torch, device, probe, options).run()
    except Exception as error:
        sys.stderr.write("floodmark_probe: %s: %s\n" % (type(error).__name__, error))
        return 1
    return 0


if __name__ == "sitecustomize":
    _folder = os.path.dirname(os.path.abspath(__file__))
    if setting("OUT"):
        try:
            import floodmark_probe

            floodmark_probe.install()
        except Exception as error:
            sys.stderr.write("floodmark_probe: not started: %s\n" % error)
    chain(_folder)
elif __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
