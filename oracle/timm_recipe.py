"""timm's vision transformers from the config.json of its repositories, and the step of a loop.

In: the fields of such a configuration (architecture, num_classes, model_args)
and the conditions of a run. Out: timm's VisionTransformer on random weights,
its blocks checkpointed as set_grad_checkpointing does it, and the forward with
its loss.
"""

import timm
import torch
import torch.nn.functional as F


def version():
    return timm.__version__


def model(fields, options, dtype):
    timm.layers.set_fused_attn(options.attention == "sdpa")
    made = timm.create_model(fields["architecture"], num_classes=fields["num_classes"], **fields.get("model_args", {}))
    made.set_grad_checkpointing(bool(options.checkpointing))
    return made.to(dtype).train(options.operation == "training")


def inputs(fields, options):
    side = fields["model_args"]["img_size"]
    pixels = torch.randn(options.batch, 3, side, side, dtype=getattr(torch, options.dtype))
    call = {"x": pixels}
    if options.operation == "training":
        call["labels"] = torch.randint(0, fields["num_classes"], (options.batch,))
    return call


class Loop:
    """A step that has no name for its logits."""

    def __init__(self, made, call, options):
        self.made, self.call = made, call

    def loss(self):
        return F.cross_entropy(self.made(self.call["x"]), self.call["labels"])
