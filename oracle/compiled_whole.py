"""Which graphs torch.compile makes of a whole model whose layers fully_shard has hooks on.

In: nothing; PyTorch 2.3 runs it, the release after FSDP2 came, with torchtitan's
commit 83c879f18 (2024-03-28, when its package was torchtrain) on the path. Out: a line
a graph on stdout, in the order in which they are made: release, layers, batch, length,
width, heads, vocabulary, width of the network, and of the graph its products of
matrices, attentions and embeddings, and behind a colon the bytes of each tensor that
its forward gives to its backward beside what it was given.

No GPU is needed: streams and events are stand-ins, and two ranks are pretended.
"""

import torch
import torch._dynamo
import torch.distributed as dist
from functorch.compile import make_boxed_func
from torch._inductor.compile_fx import compile_fx
from torch.testing._internal.distributed.fake_pg import FakeStore
from torchtrain.models.llama.model import ModelArgs, Transformer

from compiled import roots_of

LAYERS, BATCH, LENGTH, WIDTH, HEADS, VOCABULARY = 3, 2, 64, 128, 4, 512


class StandIn:
    """A stream or an event."""

    def __init__(self, *args, **options):
        self.device = torch.device("cpu")

    def __enter__(self):
        return self

    def __exit__(self, *args):
        pass

    def __getattr__(self, name):
        return lambda *args: StandIn()


def stand_in():
    torch.cuda.Stream = torch.cuda.Event = StandIn
    torch.cuda.current_stream = torch.cuda.stream = lambda *args: StandIn()
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)


def sharded():
    from torch.distributed._composable.fsdp import MixedPrecisionPolicy, fully_shard

    mesh = dist.device_mesh.init_device_mesh("cpu", (2,))
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    model = Transformer(ModelArgs(dim=WIDTH, n_layers=LAYERS, n_heads=HEADS, vocab_size=VOCABULARY, max_seq_len=LENGTH, multiple_of=32))
    for module in [*model.layers, model]:
        fully_shard(module, mesh=mesh, mp_policy=policy)
    return model


def graphs(model):
    """The forward graphs that inductor is handed, each with the tensors that it keeps."""
    found = []

    def inner_compile(graph, inputs, **options):
        count = lambda part: sum(part in str(n.target) for n in graph.graph.nodes if n.op == "call_function")
        outputs = next(n for n in graph.graph.nodes if n.op == "output").args[0]
        found.append(((count("aten.mm."), count("attention"), count("embedding")), sorted(roots_of(outputs[1:]))))
        return make_boxed_func(graph.forward)

    compiled = torch.compile(model, backend=lambda graph, inputs: compile_fx(graph, inputs, inner_compile=inner_compile))
    compiled(torch.randint(0, VOCABULARY, (BATCH, LENGTH)))
    return found


if __name__ == "__main__":
    stand_in()
    model = sharded()
    release = ".".join(torch.__version__.split(".")[:2])
    inner = model.layers[0].feed_forward.w1.out_features
    for counts, kept in graphs(model):
        print(release, LAYERS, BATCH, LENGTH, WIDTH, HEADS, VOCABULARY, inner, *counts, ":", *kept)
