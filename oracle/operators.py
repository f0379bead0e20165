"""Record what single operators allocate, save and free on a CPU.

Prints, for each case, the events of one forward and one backward: "+ BYTES" for
an allocation, "- N" for the end of allocation N of the case. Blocks of 8 bytes
and less are left out: a CPU makes tensors of numbers that CUDA passes to its
kernels; so is the buffer through which it copies a transposed matrix. The Go side of the cases is internal/torch/operators_test.go.
"""

import sys

import torch
import torch.nn.functional as F
from torch.profiler import ProfilerActivity, profile


COPY_BUFFER = 60 * 60 * 4  # through which a CPU copies a transposed matrix


def allocations(run):
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as p:
        run()
    found = []

    def walk(node, copies):
        if "Allocation" in str(node.tag):
            size = node.extra_fields.alloc_size
            if not (copies and size == COPY_BUFFER):
                found.append((node.start_time_ns, node.extra_fields.ptr, size))
        for child in node.children:
            walk(child, copies or node.name == "aten::copy_")

    for root in p.profiler.kineto_results.experimental_event_tree():
        walk(root, False)
    return sorted(found, key=lambda e: e[0])


def show(name, run):
    print("##", name)
    number, alive = 0, {}
    for _, address, size in allocations(run):
        if size > 8:
            alive[address] = number
            print("+", size)
            number += 1
        elif size < 0 and address in alive:
            print("-", alive.pop(address))


def leaf(*shape, dtype=torch.float32):
    return torch.randn(*shape).to(dtype).requires_grad_()


def case(name, function, *inputs):
    """Forward, and backward with a gradient that lies as the output does."""
    out = function(*inputs)
    gradient = torch.empty_like(out) if out.requires_grad else None
    for i in inputs:
        i.grad = None
    del out

    def run():
        y = function(*inputs)
        if gradient is not None:
            y.backward(gradient)
        for i in inputs:
            i.grad = None
        del y

    show(name, run)


def cases():
    x = leaf(4, 64, 128)
    w, b = leaf(128), leaf(128)
    weight, bias = leaf(256, 128), leaf(256)
    case("linear", F.linear, x, weight, bias)
    case("linear without bias", F.linear, x, weight)
    case("linear of a transposed input", lambda x, w, b: F.linear(x.transpose(0, 1), w, b), x, weight, bias)
    case("linear of rows", lambda x, w: F.linear(x, w), leaf(64, 128), weight)
    case("layer_norm", lambda x, w, b: F.layer_norm(x, (128,), w, b), x, w, b)
    if hasattr(F, "rms_norm"):
        case("rms_norm", lambda x, w: F.rms_norm(x, (128,), w), x, w)
    case("softmax", lambda x: F.softmax(x, -1), x)
    case("softmax in float32", lambda x: F.softmax(x, -1, dtype=torch.float32).to(torch.bfloat16), leaf(4, 64, 128, dtype=torch.bfloat16))
    case("dropout", lambda x: F.dropout(x, 0.1, True), x)
    for name in ("gelu", "silu", "relu", "softplus"):
        case(name, getattr(F, name), x)
    for name in ("tanh", "sigmoid", "exp", "rsqrt", "cos", "sin", "abs", "sqrt", "reciprocal", "erf"):
        case(name, getattr(torch, name), x)
    case("embedding", lambda w: F.embedding(torch.zeros(4, 64, dtype=torch.int64), w), leaf(1000, 32))
    targets = torch.zeros(256, dtype=torch.int64)
    case("cross_entropy", lambda x: F.cross_entropy(x.view(-1, 128), targets), x)
    case("matmul of heads", torch.matmul, leaf(2, 4, 64, 32), leaf(2, 4, 32, 64))
    case("matmul of a shared matrix", torch.matmul, leaf(2, 4, 64, 32), leaf(32, 16))
    case("matmul of expanded heads", lambda q, k: torch.matmul(q, k.expand(2, 4, 32, 64)), leaf(2, 4, 64, 32), leaf(2, 1, 32, 64))
    case("rotate_half", lambda x: torch.cat((-x[..., 64:], x[..., :64]), dim=-1), x)
    case("split", lambda x: torch.mul(*x.split(64, dim=-1)), x)
    case("chunk and swiglu", lambda x: (lambda a, b: F.silu(a) * b)(*x.chunk(2, dim=-1)), x)
    case("transpose and reshape", lambda x: x.view(4, 64, 4, 32).transpose(1, 2).reshape(16, 64, 32), x)
    case("select", lambda x: x[:, 0], x)
    case("masked_fill", lambda x: x.masked_fill(torch.ones(64, 128, dtype=torch.bool), 0.0), x)
    case("mean and square", lambda x: x.pow(2).mean(-1, keepdim=True), x)
    case("logsumexp", lambda x: x.logsumexp(-1), x)
    case("sum of all", lambda x: x.sum(), x)
    case("to bfloat16 and back", lambda x: x.to(torch.bfloat16).to(torch.float32), x)
    case("mixed formats", torch.mul, x, leaf(4, 64, 128, dtype=torch.bfloat16))
    case("expand", lambda x: x[:, None].expand(4, 3, 64, 128).reshape(12, 64, 128), x)
    case("unbind", lambda x: torch.mul(*x.view(4, 64, 2, 64).unbind(2)), x)
    case("stack", lambda x, y: torch.stack((x, y), 1), x, leaf(4, 64, 128))
    case("einsum", lambda x, w: torch.einsum("bsi,oi->bso", x, w), x, weight)
    case("baddbmm", lambda a, q, k: torch.baddbmm(a, q, k), leaf(8, 64, 64), leaf(8, 64, 32), leaf(8, 32, 64))
    case("gather", lambda x: x.gather(-1, torch.zeros(4, 64, 1, dtype=torch.int64)), x)
    case("max", lambda x: x.max(-1, keepdim=True)[0], x)
    case("div", torch.div, x, leaf(4, 64, 1))
    case("index_add", lambda y: torch.zeros(64, 128).index_add(0, torch.arange(32), y * 2.0), leaf(32, 128))
    case("index_select", lambda x: x[torch.zeros(30, dtype=torch.int64)], leaf(64, 128))
    if hasattr(F, "scaled_dot_product_attention"):
        heads = [leaf(2, 64, 4, 32) for _ in range(3)]
        case("scaled_dot_product_attention", lambda q, k, v: F.scaled_dot_product_attention(
            q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True).transpose(1, 2), *heads)


if __name__ == "__main__":
    torch.set_num_threads(1)
    print("# PyTorch", torch.__version__.split("+")[0], "on a CPU, one thread")
    cases()
    sys.stdout.flush()
