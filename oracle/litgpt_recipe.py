"""Models of litgpt from a config.json, and the loop of its fine-tuning script.

In: the fields of a configuration of transformers' Llama and the conditions of a
run. Out: litgpt's own GPT on random weights, and the forward with its loss as
litgpt/finetune/lora.py has it at the release that is installed.
"""

import importlib.metadata

import torch
from lightning.fabric import Fabric
from litgpt import adapter, lora
from litgpt.utils import chunked_cross_entropy

HEAD_CHUNK = 128
NEEDED = {"q_proj": "query", "k_proj": "key", "v_proj": "value", "o_proj": "projection", "gate_proj": "mlp", "lm_head": "head"}


def version():
    return importlib.metadata.version("litgpt")


def shape(fields):
    """What every configuration of litgpt has of a Llama."""
    heads = fields["num_attention_heads"]
    return dict(
        name="recorded",
        block_size=fields["max_position_embeddings"],
        vocab_size=fields["vocab_size"],
        padded_vocab_size=fields["vocab_size"],
        n_layer=fields["num_hidden_layers"],
        n_head=heads,
        n_embd=fields["hidden_size"],
        head_size=fields["hidden_size"] // heads,
        n_query_groups=fields["num_key_value_heads"],
        rotary_percentage=1.0,
        parallel_residual=False,
        bias=False,
        norm_class_name="RMSNorm",
        mlp_class_name="LLaMAMLP",
        intermediate_size=fields["intermediate_size"],
    )


def prompted(fields, options, dtype):
    """GPT of litgpt.adapter, whose validation before training has made keys and values of the prompts."""
    made = adapter.GPT(adapter.Config(**shape(fields), adapter_prompt_length=options.rank)).to(dtype)
    adapter.mark_only_adapter_as_trainable(made)
    made.max_seq_length = options.length
    with torch.no_grad():
        made(torch.zeros(1, 1, dtype=torch.int64))
    made.train(options.operation == "training")
    return made


def model(fields, options, dtype):
    """GPT of litgpt.lora, or of litgpt.adapter with prompts: what has no adapter is trained only where nothing has one."""
    if options.adapter == "adaption_prompt":
        return prompted(fields, options, dtype)
    targets = options.targets.split(",") if options.adapter != "none" else []
    config = lora.Config(
        **shape(fields),
        lora_r=options.rank if targets else 0,
        lora_alpha=16,
        lora_dropout=options.adapter_dropout,
        **{"lora_" + name: target in targets for target, name in NEEDED.items()},
    )
    made = lora.GPT(config).to(dtype)
    if targets:
        lora.mark_only_lora_as_trainable(made)
    made.max_seq_length = options.length  # the script cuts the tables, and makes them in 32 bits
    made.train(options.operation == "training")
    return made


def inputs(fields, options):
    ids = torch.randint(1, fields["vocab_size"], (options.batch, options.length))
    return {"input_ids": ids, "labels": ids.clone()}


class Loop:
    """The names that the script's loop has, from one step to the next."""

    def __init__(self, made, call, options):
        half = next(made.parameters()).dtype == torch.bfloat16
        fabric = Fabric(accelerator="cpu", devices=1, precision="bf16-true" if half else "32-true")
        self.made, self.call = fabric.setup_module(made), call  # which converts what the model returns
        self.logits = None

    def loss(self):
        self.logits = self.made(self.call["input_ids"], lm_head_chunk_size=HEAD_CHUNK)
        self.logits[-1] = self.logits[-1][..., :-1, :]
        return chunked_cross_entropy(self.logits, self.call["labels"][..., 1:])
