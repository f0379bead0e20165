#!/usr/bin/env python3
"""The parts of gpu_check.sh that are no run of a model.

    gpu_check_report.py guard                       exit 2 and say which is missing: PyTorch or a GPU
    gpu_check_report.py environment DEVICE FILE     what runs here, and the driver's reading before and after a context
    gpu_check_report.py fraction FOLDER CASE SHARE  a fraction of the card that makes that training retry
    gpu_check_report.py gather FOLDER OUT           the readings and snapshots of FOLDER in few files
    gpu_check_report.py compare OUT                 predicted against measured, of the records in OUT

Only the standard library; PyTorch where a GPU is asked.
"""

import ctypes
import json
import os
import platform
import subprocess
import sys
import tarfile


def guard():
    try:
        import torch
    except Exception as e:  # whatever importing it raises
        print("PyTorch is missing: %s" % e, file=sys.stderr)
        return 2
    try:
        available = torch.cuda.is_available() and torch.cuda.device_count() > 0
    except Exception as e:
        print("a GPU is missing: %s" % e, file=sys.stderr)
        return 2
    if not available:
        print("a GPU is missing: PyTorch %s finds none" % torch.__version__, file=sys.stderr)
        return 2
    return 0


class Memory(ctypes.Structure):
    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]


class Driver:
    """The driver's own reading of a device, by the place on the bus; None where it cannot be asked."""

    def __init__(self):
        try:
            self.nvml = ctypes.CDLL("libnvidia-ml.so.1")
            self.ready = self.nvml.nvmlInit_v2() == 0
        except OSError:
            self.nvml, self.ready = None, False

    def read(self, uuid):
        if not self.ready or not uuid:
            return None
        handle, memory = ctypes.c_void_p(), Memory()
        name = uuid if uuid.startswith(("GPU-", "MIG-")) else "GPU-" + uuid
        if self.nvml.nvmlDeviceGetHandleByUUID(name.encode(), ctypes.byref(handle)) != 0:
            return None
        if self.nvml.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory)) != 0:
            return None
        return {"total_bytes": memory.total, "free_bytes": memory.free, "used_bytes": memory.used}


def smi():
    """Every card as nvidia-smi lists it, before this process has a context."""
    query = "index,uuid,name,pci.bus_id,driver_version,memory.total,memory.reserved,memory.used,memory.free"
    try:
        done = subprocess.run(["nvidia-smi", "--query-gpu=" + query, "--format=csv,noheader"], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired) as e:
        return {"reason": str(e)}
    return {"columns": query, "rows": done.stdout.strip().splitlines(), "status": done.returncode}


def environment(device, path):
    driver, before_all = Driver(), smi()
    import torch

    index = torch.device(device).index or 0
    properties = torch.cuda.get_device_properties(index)
    uuid = str(getattr(properties, "uuid", "") or first_uuid(before_all, index))
    readings = [("before the context", driver.read(uuid))]
    torch.cuda.init()
    free, total = torch.cuda.mem_get_info(index)
    readings.append(("after the context", driver.read(uuid)))
    x = torch.ones(1, device=device)
    readings.append(("after the first tensor", driver.read(uuid)))
    y = torch.ones(64, 64, device=device)
    _ = y @ y
    torch.cuda.synchronize(index)
    readings.append(("after the first product", driver.read(uuid)))
    report = {
        "python": platform.python_version(), "torch": torch.__version__, "cuda": torch.version.cuda, "hip": torch.version.hip,
        "device": {"index": index, "name": properties.name, "uuid": uuid, "total_memory": properties.total_memory,
                   "compute_capability": "%d.%d" % (properties.major, properties.minor), "free_bytes": free, "total_bytes": total},
        "settings": {n: v for n, v in os.environ.items() if n.endswith("ALLOC_CONF") or n.endswith("VISIBLE_DEVICES")},
        "nvidia_smi": before_all, "driver": [{"when": when, "memory": memory} for when, memory in readings],
        "reserved_bytes": torch.cuda.memory_reserved(index), "allocated_bytes": torch.cuda.memory_allocated(index),
    }
    del x, y
    with open(path, "x", encoding="utf-8") as f:
        json.dump(report, f, indent=1)
    return 0


def first_uuid(listed, index):
    rows = listed.get("rows") or []
    return rows[index].split(", ")[1] if index < len(rows) else ""


def lines(path):
    with open(path, encoding="utf-8") as f:
        return [json.loads(line) for line in f]


def fraction(folder, case, share):
    """Between what was allocated and what was reserved: enough to live, too little to keep a cache.

    A share below 0 is that much less than what was allocated: not enough.
    """
    share = float(share)
    phases = [r for r in lines(os.path.join(folder, case + ".jsonl")) if "phase" in r]
    allocated = max(p["peak"]["allocated_bytes"] for p in phases)
    reserved = max(p["peak"]["reserved_bytes"] for p in phases)
    total = phases[0]["device_total_bytes"]
    room = allocated + share * (reserved - allocated if share > 0 else allocated)
    print("%.6f" % (room / total))
    return 0


def gather(folder, out):
    """One file of readings, one of snapshots."""
    names = sorted(os.listdir(folder))
    with open(os.path.join(out, "readings.jsonl"), "x", encoding="utf-8") as f:
        for name in names:
            if name.endswith(".jsonl"):
                for line in lines(os.path.join(folder, name)):
                    f.write(json.dumps({"file": name[:-6], **line}, separators=(",", ":")) + "\n")
    with tarfile.open(os.path.join(out, "snapshots.tar.gz"), "x:gz", compresslevel=9) as tar:
        for name in names:
            if name.endswith(".snapshot.json"):
                tar.add(os.path.join(folder, name), name)
    return 0


def peaks_measured(out):
    """The peaks of each phase and step of each case, of our own protocol."""
    table = {}
    for r in lines(os.path.join(out, "readings.jsonl")):
        if "phase" in r and "peak" in r:
            table.setdefault(r["file"], {})[(r["phase"], r["step"] or 0)] = r["peak"]
    return table


def compare(out):
    """Predicted against measured, phase by phase: like scopes, and no verdict."""
    with open(os.path.join(out, "floodmark.json"), encoding="utf-8") as f:
        records = json.load(f)
    measured, rows = peaks_measured(out), []
    for case, estimate in records.get("estimates", {}).items():
        for phase in estimate["ranks"][0]["phases"]:
            key = (phase["name"], phase["step"])
            peak = measured.get(case, {}).get(key) or measured.get(case, {}).get((phase["name"], 0))
            if peak is None:
                continue
            for scope in ("allocated", "reserved"):
                rows.append({"case": case, "phase": phase["name"], "step": phase["step"], "scope": scope,
                             "predicted_bytes": phase["peak_%s_bytes" % scope], "predicted_low_bytes": phase.get("peak_%s_low_bytes" % scope),
                             "predicted_high_bytes": phase.get("peak_%s_high_bytes" % scope), "measured_bytes": peak["%s_bytes" % scope]})
    records["comparison"] = rows
    with open(os.path.join(out, "floodmark.json"), "w", encoding="utf-8") as f:
        json.dump(records, f, indent=1)
    for r in rows:
        predicted = r["predicted_bytes"] if r["predicted_bytes"] is not None else "%s to %s" % (r["predicted_low_bytes"], r["predicted_high_bytes"])
        print("%(case)s %(phase)s %(step)s %(scope)s" % r, "predicted", predicted, "measured", r["measured_bytes"])
    return 0


def main(arguments):
    commands = {"guard": guard, "environment": environment, "fraction": fraction, "gather": gather, "compare": compare}
    if not arguments or arguments[0] not in commands:
        print(__doc__, file=sys.stderr)
        return 64
    return commands[arguments[0]](*arguments[1:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
