"""From PyTorch's profile of a program to its births and deaths in order.

In: the event tree of a profile with memory. Out: a list of events: a phase
begins, a block is born (bytes, operator, node, module, line), a block dies.
What only the CPU does is taken out by the rules in `RULES`, each of which is
described in README.md and counts what it took.
"""

import re

from torch._C._profiler import _EventType

MARK = "phase:"
NUMBER_BYTES = 8  # a Python number beside a tensor becomes a tensor of one element
ONEDNN = {"convolution", "convolution_backward", "mm", "addmm", "bmm"}
COPY_BUFFER = 60 * 60  # elements of the buffer through which the CPU copies a transposed matrix


class Block:
    """One allocation. Its death is an event of its own."""

    def __init__(self, size, path):
        self.size = size
        self.path = path  # nodes of the tree above it, outermost first
        self.dropped = ""

    def operators(self):
        return [n for n in self.path if n.tag == _EventType.TorchOp and not n.name.startswith(MARK)]

    def operator(self):
        """The outermost aten operator, and the innermost where they differ."""
        aten = [n.name.removeprefix("aten::") for n in self.operators() if n.name.startswith("aten::")]
        if not aten:
            return "other"
        return aten[0] if aten[0] == aten[-1] else aten[0] + "<" + aten[-1]

    def node(self):
        """The autograd node that runs, or nothing in a forward pass."""
        for n in reversed(self.operators()):
            name = n.name
            if "evaluate_function: " in name:
                return name.split("evaluate_function: ")[1].removeprefix("torch::autograd::")
            if name.endswith(("Backward", "Backward0", "Backward1")):
                return name
        return ""

    def module(self):
        """The innermost module, by class and count: LlamaRMSNorm_3."""
        for n in reversed(self.path):
            if n.tag == _EventType.PyCall and n.name.startswith("nn.Module: "):
                return n.name.removeprefix("nn.Module: ")
        return ""

    def line(self):
        """The innermost place in Python, for a reader."""
        for n in reversed(self.path):
            if n.tag == _EventType.PyCall and re.search(r"\.py\(\d+\)", n.name) and "_ops.py" not in n.name:
                return n.name
        return ""


def read(profile):
    """All events, in order of time: ("phase", name), ("born", Block), ("dead", Block)."""
    found = []
    living = {}
    for roots in [profile.profiler.kineto_results.experimental_event_tree()]:
        stack = [(n, ()) for n in reversed(roots)]
        timed = []
        while stack:
            node, path = stack.pop()
            if node.tag == _EventType.Allocation:
                timed.append((node.start_time_ns, len(timed), node, path))
            elif node.name.startswith(MARK):
                timed.append((node.start_time_ns, len(timed), node, path))
            below = path + (node,)
            stack.extend((c, below) for c in reversed(node.children))
    timed.sort(key=lambda t: t[:2])
    for _, _, node, path in timed:
        if node.tag != _EventType.Allocation:
            found.append(("phase", node.name.removeprefix(MARK)))
            continue
        fields = node.extra_fields
        if fields.alloc_size > 0:
            block = Block(fields.alloc_size, path)
            living[fields.ptr] = block
            found.append(("born", block))
            continue
        block = living.pop(fields.ptr, None)
        if block is None:
            block = Block(-fields.alloc_size, path)
            block.dropped = "older"
        block.end = path
        found.append(("dead", block))
    return found


def number(block):
    """A number as a tensor: CUDA kernels get it as an argument."""
    return block.size <= NUMBER_BYTES


def copy_buffer(block):
    """The CPU copies a transposed matrix through a buffer of 60 x 60 elements."""
    ops = block.operators()
    return bool(ops) and ops[-1].name == "aten::copy_" and block.size % COPY_BUFFER == 0 and block.size <= COPY_BUFFER * 8


def scratch(block):
    """Born and dead in a convolution, or a product in 16 bits: what oneDNN reorders."""
    ops, end = block.operators(), getattr(block, "end", ())
    return any(n.name.removeprefix("aten::") in ONEDNN and n in end for n in ops)


def recorder(block):
    """What PyTorch 1's record_function makes for itself."""
    return not block.operators()[:-1] and "torch/autograd/profiler.py" in block.line() and block.line().endswith("__enter__")


RULES = {"number": number, "copy_buffer": copy_buffer, "scratch": scratch, "recorder": recorder}


def ended(found):
    """The events up to the first mark of the end."""
    at = next((i for i, e in enumerate(found) if e == ("phase", "end 0")), len(found))
    return found[: at + 1]


def normalise(found):
    """Take out what only the CPU does. Returns the events and what was taken."""
    taken = {}
    for kind, block in found:
        if kind != "born" or block.dropped:
            continue
        for name, rule in RULES.items():
            if rule(block):
                block.dropped = name
                key = (name, block.operator(), block.node())
                count, total = taken.get(key, (0, 0))
                taken[key] = (count + 1, total + block.size)
                break
    return [e for e in found if e[0] == "phase" or not e[1].dropped], taken
