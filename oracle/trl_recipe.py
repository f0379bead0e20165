"""The losses of TRL's trainers on a model of transformers.

In: a config.json and the conditions of a run. Out: the loss of one batch, as the
installed release's own methods compute it: the trainer is made without its
constructor, which wants a data set and a tokenizer, and given what it asks for.
Every position is of a completion, but the prompt's first.
"""

import collections
import importlib.metadata
import types

import accelerate
import torch
from transformers.models.auto import modeling_auto
from transformers.utils import import_utils

import build

PROMPT = 1  # positions before the completion


def older_names():
    """What earlier releases import from transformers of their day."""
    if not hasattr(modeling_auto, "MODEL_FOR_VISION_2_SEQ_MAPPING_NAMES"):
        modeling_auto.MODEL_FOR_VISION_2_SEQ_MAPPING_NAMES = {}
    asked = import_utils._is_package_available
    import_utils._is_package_available = lambda *words, **named: Available(asked(*words, **named))


class Available(tuple):
    """An answer that is as true as its first part: it was that part alone."""

    def __bool__(self):
        return self[0]


def version():
    return importlib.metadata.version("trl")


def since(major, minor):
    return tuple(int(n) for n in version().split(".")[:2]) >= (major, minor)


def model(fields, options, dtype):
    return build.model(options.config, options)


class Given:
    """What is not given is None."""

    device = torch.device("cpu")

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return None


def pairs(fields, options):
    """A batch of preferences, in the layout of the release's collator."""
    n, length = options.batch, options.length
    ids = torch.randint(1, fields["vocab_size"], (2 * n, length))
    ones = torch.ones_like(ids)
    mask = ones.clone()
    mask[:, :PROMPT] = 0
    if since(0, 29):
        return {"input_ids": ids, "attention_mask": ones, "completion_mask": mask}
    if since(0, 12):
        batch = {"prompt_input_ids": ids[:n, :PROMPT].clone(), "prompt_attention_mask": ones[:n, :PROMPT].clone()}
        for name, part in ("chosen", ids[:n]), ("rejected", ids[n:]):
            batch |= {f"{name}_input_ids": part[:, PROMPT:].clone(), f"{name}_attention_mask": ones[:n, PROMPT:].clone()}
        return batch
    batch = {"prompt_input_ids": ids[:n, :PROMPT].clone(), "prompt_attention_mask": ones[:n, :PROMPT].clone()}
    for name, part in ("chosen", ids[:n]), ("rejected", ids[n:]):
        labels = part.clone()
        labels[:, :PROMPT] = -100
        batch |= {f"{name}_input_ids": part.clone(), f"{name}_attention_mask": ones[:n].clone(), f"{name}_labels": labels}
    return batch


def inputs(fields, options):
    return pairs(fields, options)


def made_without(cls, **attributes):
    """A trainer whose constructor did not run."""
    own = type("Made" + cls.__name__, (Given, cls), {})
    trainer = own.__new__(own)
    vars(trainer).update(attributes)
    return trainer


class Loop:
    """The loss of a step."""

    def __init__(self, made, call, options):
        self.made, self.call = made, call
        older_names()
        self.trainer = getattr(self, options.method)(made, options)

    def dpo(self, made, options):
        from trl.trainer.dpo_trainer import DPOTrainer

        reference = build.model(options.config, options).eval() if options.reference == "model" else None
        common = {
            "model": made,
            "ref_model": reference,
            "accelerator": accelerate.Accelerator(cpu=True),
            "args": Given(),
            "beta": 0.1,
            "label_smoothing": 0.0,
            "_metrics": {"train": collections.defaultdict(list)},
            "_stored_metrics": collections.defaultdict(lambda: collections.defaultdict(list)),
            "_total_train_tokens": 0,
            "_tp_size": 1,
            "pad_token_id": 0,
            "padding_value": 0,
            "label_pad_token_id": -100,
            "use_dpo_data_collator": True,
            "loss_type": ["sigmoid"] if since(0, 20) else "sigmoid",
            "loss_types": ["sigmoid"],
            "loss_weights": [1.0] if since(0, 29) else None,
            "truncation_mode": "keep_end",
            "f_divergence_type": getattr(self.divergence(), "REVERSE_KL", "reverse_kl") if not since(0, 29) else "reverse_kl",
            "reference_free": False,
            "is_encoder_decoder": False,
            "is_vision_model": False,
            "precompute_ref_logps": options.reference == "precomputed",
            "precompute_ref_log_probs": options.reference == "precomputed",
            "compute_loss_context_manager": None,
        }
        if since(1, 10):
            self.fuse(made, reference)
        if options.reference == "precomputed":
            for name in ("ref_chosen_logps", "ref_rejected_logps", "reference_chosen_logps", "reference_rejected_logps"):
                self.call[name] = torch.zeros(options.batch)
        return made_without(DPOTrainer, **common)

    def divergence(self):
        try:
            from trl.trainer.utils import FDivergenceType
        except ImportError:
            try:
                from trl.trainer.dpo_config import FDivergenceType
            except ImportError:
                return None
        return FDivergenceType

    def fuse(self, made, reference):
        from trl.trainer.utils import add_fused_lm_head

        outputs = ("log_probs", "entropy", "mean_logits", "is_top1")
        add_fused_lm_head(made.get_base_model() if hasattr(made, "get_base_model") else made, outputs=outputs)
        if reference is not None:
            add_fused_lm_head(reference)

    def loss(self):
        return self.trainer.compute_loss(self.made, self.call)
