"""Models of torchtune from a config.json, and the loop of its recipe for one device.

In: the fields of a configuration of transformers' Llama and the conditions of a
run. Out: torchtune's own modules on random weights, and the forward with its
loss as full_finetune_single_device.py and lora_finetune_single_device.py have
it at the release that is installed.
"""

import importlib.metadata

import torch
import torchao.quantization.quant_api as quant_api

# Older releases ask for these by name; nothing here calls them.
for name in ("apply_weight_only_int8_quant", "quantize", "int4_weight_only", "int8_dynamic_activation_int4_weight"):
    if not hasattr(quant_api, name):
        setattr(quant_api, name, None)

from torchtune.modules.peft import get_adapter_params, set_trainable_params  # noqa: E402

CHUNKED = "chunked"
CHUNKS = 8
IGNORED = -100


def version():
    return importlib.metadata.version("torchtune")


def older(release):
    """Whether the installed release is before another: (0, 3)."""
    return tuple(int(n) for n in version().split(".")[:2]) < release


def sizes(fields):
    """A configuration of transformers in torchtune's words."""
    return dict(
        vocab_size=fields["vocab_size"],
        num_layers=fields["num_hidden_layers"],
        num_heads=fields["num_attention_heads"],
        num_kv_heads=fields["num_key_value_heads"],
        embed_dim=fields["hidden_size"],
        intermediate_dim=fields["intermediate_size"],
        max_seq_len=fields["max_position_embeddings"],
        norm_eps=fields["rms_norm_eps"],
    )


ATTENTION = {"q_proj": "q_proj", "k_proj": "k_proj", "v_proj": "v_proj", "o_proj": "output_proj"}


def builders(fields):
    """The module whose functions build this kind of model, with adapters and without."""
    if fields.get("tie_word_embeddings"):
        from torchtune.models.llama3_2 import _component_builders as tied

        return tied.llama3_2, tied.lora_llama3_2
    from torchtune.models.llama2 import _component_builders as plain

    return plain.llama2, plain.lora_llama2


def model(fields, options, dtype):
    """TransformerDecoder, its adapters, and what is computed again in backward."""
    full, lora = builders(fields)
    torch.set_default_dtype(dtype)
    if options.adapter == "none":
        made = full(**sizes(fields))
    else:
        targets = options.targets.split(",")
        made = lora(
            [ATTENTION[t] for t in targets if t in ATTENTION],
            apply_lora_to_mlp="gate_proj" in targets,
            apply_lora_to_output="lm_head" in targets,
            lora_rank=options.rank,
            lora_alpha=2 * options.rank,
            lora_dropout=options.adapter_dropout,
            **sizes(fields),
        )
        set_trainable_params(made, get_adapter_params(made))
    torch.set_default_dtype(torch.float32)
    if options.checkpointing:
        from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import apply_activation_checkpointing
        from torch.distributed.fsdp.wrap import ModuleWrapPolicy

        layer = type(made.layers[0])
        apply_activation_checkpointing(made, auto_wrap_policy=ModuleWrapPolicy({layer}))
    if options.loss == CHUNKED:
        made.set_num_output_chunks(CHUNKS)
    made.train(options.operation == "training")
    return made


def inputs(fields, options):
    ids = torch.randint(1, fields["vocab_size"], (options.batch, options.length))
    call = {"tokens": ids, "labels": ids.clone()}
    if options.positions:  # a packed sequence says where each of its parts begins
        call["input_pos"] = torch.arange(options.length).expand(options.batch, -1).contiguous()
    return call


class Loop:
    """The names that the recipe's loop has, from one step to the next."""

    def __init__(self, made, call, options):
        self.made, self.call = made, call
        if options.loss == CHUNKED:
            from torchtune.modules.loss import CEWithChunkedOutputLoss

            self.loss_fn = CEWithChunkedOutputLoss(CHUNKS)
        else:
            self.loss_fn = torch.nn.CrossEntropyLoss()
        self.ignored = torch.full((options.batch, 1), IGNORED)
        self.logits = self.labels = None

    def loss(self):
        return self.first() if older((0, 3)) else self.step()

    def first(self):
        """Until 0.2 the step is written out in the loop, whose names live on."""
        call = dict(self.call)
        self.labels = call.pop("labels")
        self.logits = self.made(**call)
        self.logits = self.logits[..., :-1, :].contiguous()
        self.labels = self.labels[..., 1:].contiguous()
        self.logits = self.logits.transpose(1, 2)
        return self.loss_fn(self.logits, self.labels)

    def step(self):
        """From 0.3 it is a function, which lets go of the logits."""
        call = dict(self.call)
        labels = call.pop("labels")
        logits = self.made(**call)
        labels = torch.hstack((labels[..., 1:], self.ignored[: labels.shape[0]]))
        if not isinstance(logits, list):
            labels = labels.reshape(-1)
            logits = logits.reshape(-1, logits.size(-1))
        loss = self.loss_fn(logits, labels)
        del logits
        return loss
