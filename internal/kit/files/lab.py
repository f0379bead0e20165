#!/usr/bin/env python3
"""The lab to take along: estimate, environment and measure, without Floodmark.

    python lab.py estimate --parameters 7000000000 --bits 16 --reserve-gib 4
    python lab.py environment --device cuda:0
    python lab.py measure --device cuda:0 --batch 2 --context 128 --width 1024 \\
        --dtype float32 --warmup 3 --repeats 5 --output measure-1.jsonl

estimate and environment need the standard library alone; measure needs PyTorch
and a GPU that you may use, downloads nothing, and never takes a CPU for a GPU.
Exit status: 0 done, 1 an error, 2 PyTorch or the GPU is missing, 64 the command
line is wrong.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
from fractions import Fraction

DONE, ERROR, IMPOSSIBLE, USAGE = 0, 1, 2, 64
GB, GIB = 10**9, 2**30
EXCLUDED = ("activations", "gradients", "KV cache", "optimizer states", "temporary tensors",
            "the CUDA context and libraries", "what the allocator holds unused")
SETTINGS = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF",
            "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
EXTENSIONS = ("accelerate", "bitsandbytes", "deepspeed", "flash-attn", "peft", "transformers", "triton", "vllm", "xformers")


def say(text=""):
    print(text)


def fail(text, status):
    print("lab: " + text, file=sys.stderr)
    return status


# --- estimate: arithmetic for a model of which only the size is known ---------------------


def estimate(options):
    """parameters × bits ÷ 8, rounded up to a byte; 7,000,000,000 × 16 bits is 14,000,000,000."""
    if options.parameters < 1 or not 1 <= options.bits <= 64 or options.reserve_gib < 0:
        return fail("parameters is at least 1, bits 1 to 64, and a reserve is not negative", USAGE)
    weights = -(-options.parameters * options.bits // 8)
    reserve = int(options.reserve_gib * GIB)
    if options.json:
        say(json.dumps({"parameters": options.parameters, "bits": options.bits, "weights_bytes": weights, "reserve_bytes": reserve,
                        "total_bytes": weights + reserve, "excluded": EXCLUDED}, indent=2))
        return DONE
    rows = [("weights", weights, "calculated: %s parameters × %d bits" % (format(options.parameters, ","), options.bits))]
    if reserve:
        rows += [("reserve", reserve, "assumed by you"), ("both", weights + reserve, "a preparation assumption, no proof for any card")]
    say("%-8s %20s %12s %12s" % ("", "bytes", "GB", "GiB"))
    for name, count, how in rows:
        say("%-8s %20s %12.2f %12.2f  %s" % (name, format(count, ","), count / GB, count / GIB, how))
    if options.bits < 16:
        say("%d bits is a theoretical payload: without scales, and with no module kept wider" % options.bits)
    say("not included: " + ", ".join(EXCLUDED))
    return DONE


# --- environment: what programs run on here; it only looks --------------------------------


def environment(options):
    facts = {
        "device": options.device,
        "python": platform.python_version(),
        "pytorch": version("torch"),
        "backend": backend(),
        "settings": {name: os.environ.get(name) for name in SETTINGS},
        "extensions": {name: version(name) for name in EXTENSIONS},
        "cards": cards(),
    }
    if options.json:
        say(json.dumps(facts, indent=2))
        return DONE
    for name in ("device", "python", "pytorch", "backend"):
        say("%-10s %s" % (name, shown(facts[name])))
    for name, value in facts["settings"].items():
        say("%s=%s" % (name, shown(value)))
    for name, value in facts["extensions"].items():
        if value is not None:
            say("%-14s %s" % (name, value))
    if facts["cards"] is None:
        say("cards      — (nvidia-smi is not here or does not answer)")
    for card in facts["cards"] or ():
        say("card %s  %s  %s  total %s MiB  free %s MiB  driver %s" % tuple(shown(card[k]) for k in ("index", "name", "uuid", "total_mib", "free_mib", "driver")))
    return DONE


def shown(value):
    return "—" if value is None else str(value)


def version(name):
    """Of what is installed, without importing it; None when it is not."""
    from importlib import metadata

    try:
        return metadata.version(name)
    except Exception:
        return None


def backend():
    """cuda or hip with its version, as PyTorch was built; None without PyTorch. No context is made."""
    try:
        import torch
    except Exception:
        return None
    for name in ("cuda", "hip"):
        if getattr(torch.version, name, None):
            return "%s %s" % (name, getattr(torch.version, name))
    return "cpu only"


def cards():
    """What nvidia-smi says; a value that it does not know is None, never 0."""
    fields = ("index", "name", "uuid", "memory.total", "memory.free", "driver_version")
    names = ("index", "name", "uuid", "total_mib", "free_mib", "driver")
    try:
        out = subprocess.run(["nvidia-smi", "--query-gpu=" + ",".join(fields), "--format=csv,noheader,nounits"],
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=20, check=True).stdout.decode("utf-8", "replace")
    except (OSError, subprocess.SubprocessError):
        return None
    known = lambda cell: None if cell.startswith("[") else cell
    return [dict(zip(names, (known(cell.strip()) for cell in line.split(",")))) for line in out.splitlines() if line.strip()]


# --- measure: the lab network, phase by phase ---------------------------------------------


def measure(options):
    """Guards first, so that nothing is written where nothing can be measured."""
    import floodmark_probe as probe

    if options.output and os.path.lexists(options.output):
        return fail("%s already exists and is never overwritten; choose a new name for each result" % options.output, ERROR)
    try:
        probe.lab_device(options.device)
    except probe.Impossible as missing:
        return fail("nothing can be measured here: %s" % missing, IMPOSSIBLE)
    output = options.output or "measure-%d.jsonl" % os.getpid()
    arguments = ["lab", "--output", output]
    for name in ("device", "batch", "context", "width", "dtype", "warmup", "repeats"):
        arguments += ["--" + name, str(getattr(options, name))]
    status = probe.main(arguments + (["--train"] if options.train else []))
    table(output)
    say("readings: %s (Floodmark reads it: floodmark explain %s)" % (output, output))
    return status


def table(path):
    """Six readings a phase: allocated and reserved at its start, peak and end, in GiB."""
    say("%-16s %4s  %s  %s" % ("phase, GiB", "step", "allocated: start  peak   end", "reserved: start  peak   end"))
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            try:
                entry = json.loads(line)
            except ValueError:
                continue  # cut off by whatever ended the process
            if entry.get("type") == "end":
                for device in entry.get("devices") or ():
                    cells = [gib(device.get(when), counter) for counter in ("allocated_bytes", "reserved_bytes") for when in ("start", "peak", "end")]
                    note = "" if entry.get("status") == "ok" else "  %s" % entry.get("status")
                    say("%-16s %4s  %17s %6s %6s  %15s %6s %6s%s" % (entry.get("name"), shown(entry.get("step")), *cells, note))
    say("a peak is absolute: what was there at the start is inside it; reserved holds allocated, and the two are never added")


def gib(levels, counter):
    count = (levels or {}).get(counter)
    return "—" if count is None else "%.2f" % (count / GIB)


# --- the command line ---------------------------------------------------------------------


class Parser(argparse.ArgumentParser):
    def error(self, message):  # argparse would end with 2, which means something else here
        self.print_usage(sys.stderr)
        self.exit(USAGE, "lab: %s\n" % message)


def commands():
    parser = Parser(prog="lab.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    every = parser.add_subparsers(dest="command", required=True, parser_class=Parser)
    one = every.add_parser("estimate", help="the payload of a parameter count")
    one.add_argument("--parameters", type=int, required=True)
    one.add_argument("--bits", type=int, default=16)
    one.add_argument("--reserve-gib", type=Fraction, default=Fraction(0))
    one.add_argument("--json", action="store_true")
    one = every.add_parser("environment", help="Python, PyTorch, backend, settings, cards")
    one.add_argument("--device", default=None)
    one.add_argument("--json", action="store_true")
    one = every.add_parser("measure", help="the lab network on one GPU")
    one.add_argument("--device", required=True)
    for name, value in (("batch", 1), ("context", 16), ("width", 64), ("warmup", 1), ("repeats", 2)):
        one.add_argument("--" + name, type=int, default=value)
    one.add_argument("--dtype", choices=("float32", "float16", "bfloat16"), default="float32")
    one.add_argument("--train", action="store_true")
    one.add_argument("--output", help="a new file for the readings")
    return parser


def main(arguments=None):
    try:
        options = commands().parse_args(arguments)
    except SystemExit as stop:
        return stop.code or DONE
    return {"estimate": estimate, "environment": environment, "measure": measure}[options.command](options)


if __name__ == "__main__":
    try:
        status = main()
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read the output had enough, as head does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = DONE
    sys.exit(status)
