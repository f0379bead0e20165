#!/usr/bin/env python3
"""A known transformer in plain PyTorch, run phase by phase on one GPU.

    gpu_check_model.py --case NAME --out FOLDER [--train] [--dtype float32 | autocast]

It writes lines of JSON to FOLDER/NAME.jsonl, each at once: the six readings of every
phase, memory_stats at its end, and what the driver had free; and with --snapshot the
recording of the allocator to FOLDER/NAME.snapshot.json. It needs PyTorch and a GPU, and
exits with 2 where one of them is missing: it never runs on a CPU.

The network is a Llama: its configuration is written beside the readings, so that a
prediction can be made of the very same model.
"""

import argparse
import contextlib
import json
import math
import os
import sys
import time

SIZES = {
    # hidden, layers, heads, key-value heads, intermediate, vocabulary, sequences, context
    "middle": (1024, 12, 16, 8, 2816, 32000, 4, 512),
    "small": (128, 2, 4, 2, 352, 1000, 2, 64),
}


def missing(what, detail):
    print("%s is missing: %s" % (what, detail), file=sys.stderr)
    raise SystemExit(2)


try:
    import torch
    import torch.nn.functional as F
except ImportError as e:
    missing("PyTorch", e)


class RMSNorm(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(width))

    def forward(self, x):
        wide = x.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)
        return self.weight * wide.to(x.dtype)


def rotated(x, cos, sin):
    half = x.shape[-1] // 2
    return x * cos + torch.cat((-x[..., half:], x[..., :half]), dim=-1) * sin


class Layer(torch.nn.Module):
    def __init__(self, hidden, heads, kv_heads, intermediate):
        super().__init__()
        self.heads, self.kv_heads, self.size = heads, kv_heads, hidden // heads
        linear = lambda a, b: torch.nn.Linear(a, b, bias=False)
        self.input_norm, self.post_norm = RMSNorm(hidden), RMSNorm(hidden)
        self.q, self.o = linear(hidden, hidden), linear(hidden, hidden)
        self.k, self.v = linear(hidden, kv_heads * self.size), linear(hidden, kv_heads * self.size)
        self.gate, self.up, self.down = linear(hidden, intermediate), linear(hidden, intermediate), linear(intermediate, hidden)

    def attention(self, x, cos, sin):
        batch, length, _ = x.shape
        split = lambda y, heads: y.view(batch, length, heads, self.size).transpose(1, 2)
        q, k, v = split(self.q(x), self.heads), split(self.k(x), self.kv_heads), split(self.v(x), self.kv_heads)
        q, k = rotated(q, cos, sin), rotated(k, cos, sin)
        k, v = (y.repeat_interleave(self.heads // self.kv_heads, dim=1) for y in (k, v))
        if hasattr(F, "scaled_dot_product_attention"):
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            scores = q @ k.transpose(2, 3) / math.sqrt(self.size)
            hidden = torch.ones(length, length, device=x.device, dtype=torch.bool).triu(1)
            mixed = scores.masked_fill(hidden, float("-inf")).softmax(-1) @ v
        return self.o(mixed.transpose(1, 2).reshape(batch, length, -1))

    def forward(self, x, cos, sin):
        x = x + self.attention(self.input_norm(x), cos, sin)
        y = self.post_norm(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Model(torch.nn.Module):
    def __init__(self, hidden, layers, heads, kv_heads, intermediate, vocabulary):
        super().__init__()
        self.embed = torch.nn.Embedding(vocabulary, hidden)
        self.layers = torch.nn.ModuleList(Layer(hidden, heads, kv_heads, intermediate) for _ in range(layers))
        self.norm, self.head = RMSNorm(hidden), torch.nn.Linear(hidden, vocabulary, bias=False)
        self.size = hidden // heads

    def forward(self, ids):
        at = torch.arange(ids.shape[1], device=ids.device).float()
        rate = 10000 ** (-torch.arange(0, self.size, 2, device=ids.device).float() / self.size)
        angle = torch.outer(at, rate).repeat(1, 2)
        x = self.embed(ids)
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        for layer in self.layers:
            x = layer(x, cos, sin)
        return self.head(self.norm(x))


def configuration(size):
    hidden, layers, heads, kv_heads, intermediate, vocabulary, _, _ = SIZES[size]
    return {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": hidden, "num_hidden_layers": layers,
            "num_attention_heads": heads, "num_key_value_heads": kv_heads, "intermediate_size": intermediate, "vocab_size": vocabulary,
            "max_position_embeddings": 4096, "rms_norm_eps": 1e-05, "hidden_act": "silu", "tie_word_embeddings": False,
            "attention_bias": False, "torch_dtype": "float32"}


class Readings:
    """Six readings a phase: synchronize, read, reset, run, synchronize, read."""

    def __init__(self, path, device):
        self.file, self.device = open(path, "x", encoding="utf-8"), device

    def write(self, **fields):
        self.file.write(json.dumps(fields) + "\n")
        self.file.flush()

    def levels(self):
        return {"allocated_bytes": torch.cuda.memory_allocated(self.device), "reserved_bytes": torch.cuda.memory_reserved(self.device)}

    def twice(self):
        """Reading changes nothing: statement 67 of docs/checklist.md."""
        torch.cuda.synchronize(self.device)
        first, second = self.levels(), self.levels()
        if first != second:
            self.write(fault="two readings of one checkpoint differ", first=first, second=second, checklist=67)
        return first

    @contextlib.contextmanager
    def phase(self, name, step=None):
        start = self.twice()
        torch.cuda.reset_peak_memory_stats(self.device)
        after = self.levels()
        if after != start or torch.cuda.max_memory_allocated(self.device) != start["allocated_bytes"]:
            self.write(fault="the reset of the peaks freed something", start=start, after=after, checklist=77)
        began, error = time.perf_counter(), None
        try:
            yield
        except Exception as e:
            error = {"type": type(e).__name__, "message": str(e)}
            raise
        finally:
            with contextlib.suppress(RuntimeError):
                torch.cuda.synchronize(self.device)
            duration = time.perf_counter() - began
            peak = {"allocated_bytes": torch.cuda.max_memory_allocated(self.device), "reserved_bytes": torch.cuda.max_memory_reserved(self.device)}
            free, total = torch.cuda.mem_get_info(self.device)
            self.write(phase=name, step=step, start=start, peak=peak, end=self.levels(), seconds=round(duration, 6), error=error,
                       device_free_bytes=free, device_total_bytes=total, memory_stats=self.stats())

    def stats(self):
        """memory_stats without what is zero: 30 kB of it a phase would fill the folder."""
        return {k: v for k, v in torch.cuda.memory_stats(self.device).items() if v}


def precision(name):
    if name == "autocast":
        return torch.autocast("cuda", dtype=torch.bfloat16)
    return contextlib.nullcontext()


def train(o, model, ids, readings):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    side = torch.cuda.Stream() if o.second_stream else None
    for step in range(1, o.steps + 1):
        batch = elsewhere(ids, side) if side else ids
        with readings.phase("forward", step), precision(o.dtype):
            logits = model(batch)
        with readings.phase("loss", step):
            loss = F.cross_entropy(logits[:, :-1].float().reshape(-1, logits.shape[-1]), batch[:, 1:].reshape(-1))
        with readings.phase("backward", step):
            loss.backward()
        del logits
        with readings.phase("optimizer_step", step):
            optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        readings.write(loss=loss.item(), step=step)
        del loss, batch


def elsewhere(ids, side):
    """A batch that another stream made and this one uses: record_stream keeps its block until then."""
    with torch.cuda.stream(side):
        batch = ids + torch.zeros_like(ids).random_(0, 1)
        padding = torch.empty(8 << 20, dtype=torch.uint8, device=ids.device)
    torch.cuda.current_stream().wait_stream(side)
    batch.record_stream(torch.cuda.current_stream())
    padding.record_stream(torch.cuda.current_stream())
    return batch


def infer(o, model, ids, readings):
    model.eval()
    with torch.no_grad(), precision(o.dtype):
        with readings.phase("cold_forward"):
            out = model(ids)
        del out
        for step in range(1, o.steps + 1):
            with readings.phase("warm_forward", step):
                out = model(ids)
            del out


def capture(o, model, ids, readings):
    """One graph: its pool stays, and no counter is read while it is captured."""
    model.eval()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.no_grad(), torch.cuda.stream(side):
        model(ids)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad(), readings.phase("graph_capture"):
        with torch.cuda.graph(graph):
            out = model(ids)
    with readings.phase("warm_forward", 1):
        graph.replay()
    del out


def options():
    p = argparse.ArgumentParser()
    p.add_argument("--case", required=True)
    p.add_argument("--out", required=True)
    p.add_argument("--device", default="cuda:0")
    p.add_argument("--size", default="middle", choices=sorted(SIZES))
    p.add_argument("--train", action="store_true")
    p.add_argument("--dtype", default="float32", choices=("float32", "autocast"))
    p.add_argument("--steps", type=int, default=2)
    p.add_argument("--second-stream", action="store_true")
    p.add_argument("--graph", action="store_true")
    p.add_argument("--fraction", type=float, help="per_process_memory_fraction")
    p.add_argument("--snapshot", action="store_true")
    return p.parse_args()


def record(o):
    if not o.snapshot:
        return False
    try:
        torch.cuda.memory._record_memory_history(max_entries=400000)
    except TypeError:  # before 2.1
        torch.cuda.memory._record_memory_history(True)
    return True


def main():
    o = options()
    if not torch.cuda.is_available():
        missing("a GPU", "PyTorch %s finds none" % torch.__version__)
    device = torch.device(o.device)
    torch.cuda.set_device(device)
    if o.fraction:
        torch.cuda.set_per_process_memory_fraction(o.fraction, device)
    torch.manual_seed(0)
    readings = Readings(os.path.join(o.out, o.case + ".jsonl"), device)
    settings = {n: v for n, v in os.environ.items() if n.endswith("ALLOC_CONF")}
    readings.write(case=o.case, torch=torch.__version__, cuda=torch.version.cuda, hip=torch.version.hip, options=vars(o), settings=settings,
                   model=configuration(o.size), attention="sdpa" if hasattr(F, "scaled_dot_product_attention") else "eager",
                   name=torch.cuda.get_device_name(device), backend=getattr(torch.cuda, "get_allocator_backend", lambda: None)())
    recorded = record(o)
    hidden, layers, heads, kv_heads, intermediate, vocabulary, sequences, context = SIZES[o.size]
    status = 0
    try:
        with readings.phase("model_load"):
            model = Model(hidden, layers, heads, kv_heads, intermediate, vocabulary).to(device)
        with readings.phase("inputs"):
            ids = torch.randint(0, vocabulary, (sequences, context)).to(device)
        (capture if o.graph else train if o.train else infer)(o, model, ids, readings)
    except RuntimeError as e:  # OutOfMemoryError is one; its phase has been written
        readings.write(failed=type(e).__name__, message=str(e), memory_summary=torch.cuda.memory_summary(device))
        status = 3
    readings.write(end=True, status=status, retries=torch.cuda.memory_stats(device).get("num_alloc_retries"),
                   ooms=torch.cuda.memory_stats(device).get("num_ooms"))
    if recorded:
        with open(os.path.join(o.out, o.case + ".snapshot.json"), "x", encoding="utf-8") as f:
            json.dump(reduced(torch.cuda.memory._snapshot()), f, separators=(",", ":"))
    return status


def reduced(snapshot):
    """The recording without what an allocator does not need: two frames of each stack, no times."""
    def thin(entry):
        entry = {k: v for k, v in entry.items() if k not in ("time_us", "history", "user_metadata", "compile_context")}
        if "frames" in entry:
            own = [f for f in entry["frames"] if f.get("filename", "").endswith(".py")][:2]
            entry["frames"] = [{"filename": os.path.basename(f["filename"]), "line": f["line"], "name": f["name"]} for f in own]
        return entry

    segments = []
    for s in snapshot["segments"]:
        s = thin(s)
        s["blocks"] = [thin(b) for b in s["blocks"]]
        segments.append(s)
    rest = {k: v for k, v in snapshot.items() if k not in ("segments", "device_traces")}
    return {**{k: v for k, v in rest.items() if k in ("allocator_settings",)}, "segments": segments,
            "device_traces": [[thin(e) for e in trace] for trace in snapshot.get("device_traces", [])]}


if __name__ == "__main__":
    sys.exit(main())
