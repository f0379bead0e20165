"""torchtitan's Llama from a config.json, and the step of its train.py.

In: the fields of a configuration of transformers' Llama and the conditions of a
run. Out: torchtitan's Transformer on random weights, its layers checkpointed as
parallelize_llama.py does it, and the forward with its loss. Commits of 2024 are
told apart by the day in the version that is installed.
"""

import importlib.metadata
from collections import Counter

import torch
import torch.nn.functional as F
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts
from torchtitan.models.llama.model import ModelArgs, Transformer

WIDENS_IN_LOSS = 20241022  # the day of commit e10cb9494
ATTENDS = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default  # what the list's kernels are on the CPU
SCATTERS = torch.ops._c10d_functional.reduce_scatter_tensor.default


def version():
    return importlib.metadata.version("torchtitan")


def chosen():
    """Attention is kept, and of the products of matrices the first, the third and so on, counted in each pass."""
    products = Counter()

    def policy(context, operator, *args, **kwargs):
        product = operator == torch.ops.aten.mm.default
        products[context.is_recompute] += product
        if operator in (ATTENDS, SCATTERS) or product and products[context.is_recompute] % 2:
            return CheckpointPolicy.MUST_SAVE
        return CheckpointPolicy.PREFER_RECOMPUTE

    return create_selective_checkpoint_contexts(policy)


def model(fields, options, dtype):
    made = Transformer(
        ModelArgs(
            dim=fields["hidden_size"],
            n_layers=fields["num_hidden_layers"],
            n_heads=fields["num_attention_heads"],
            n_kv_heads=fields["num_key_value_heads"],
            vocab_size=fields["vocab_size"],
            norm_eps=fields["rms_norm_eps"],
            rope_theta=fields["rope_theta"],
            max_seq_len=options.length,
        )
    )
    assert made.layers["0"].feed_forward.w1.out_features == fields["intermediate_size"], "torchtitan has another intermediate size"
    for p in made.parameters():  # the table of rotations stays complex
        p.data = p.data.to(dtype)
    checkpoints(made, options)
    return made


def checkpoints(made, options):
    how = {"context_fn": chosen} if options.checkpointing == "selective" else {}
    for name, layer in list(made.layers.named_children()) if options.checkpointing else []:
        made.layers.register_module(name, checkpoint_wrapper(layer, preserve_rng_state=False, **how))


def inputs(fields, options):
    ids = torch.randint(1, fields["vocab_size"], (options.batch, options.length))
    return {"input_ids": ids, "labels": ids.clone()}


class Loop:
    """A step, which lets go of the logits before backward."""

    def __init__(self, made, call, options):
        self.made, self.call = made, call
        self.widens = int(version().rpartition("dev")[2]) >= WIDENS_IN_LOSS

    def loss(self):
        logits = self.made(self.call["input_ids"])
        return self.of(logits, self.call["labels"])

    def of(self, logits, labels):
        flat = logits.flatten(0, 1)
        return F.cross_entropy(flat.float() if self.widens else flat, labels.flatten(0, 1))
