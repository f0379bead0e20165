"""The vision transformers of the timm that is installed, as two tables.

    timm_models.py MODELS PARAMETERS

MODELS gets the name of each and what its function gives the class beyond the
class's own defaults, as the `model_args` of a configuration have it, with the
size of its pictures and its classes where they are not 224 and 1000.
PARAMETERS gets the name and how many elements the parameters have. Those whose
class takes what the reader does not know are left out.
"""

import functools
import sys

import timm
import torch
from timm.layers import LayerNorm, SwiGLUPacked
from timm.models import vision_transformer

KNOWN = "embed_dim depth num_heads patch_size global_pool class_token mlp_ratio init_values fc_norm reg_tokens no_embed_class pre_norm qkv_bias img_size".split()
ACTIVATIONS = {"gelu_tanh": "gelu_tanh", torch.nn.SiLU: "silu"}


def given(name):
    """What the model's function gives the class."""
    seen = {}

    class Seen(Exception):
        pass

    def spy(variant, pretrained=False, **words):
        seen.update(words)
        raise Seen

    real, vision_transformer._create_vision_transformer = vision_transformer._create_vision_transformer, spy
    try:
        timm.models.model_entrypoint(name)()
    except Seen:
        return seen
    finally:
        vision_transformer._create_vision_transformer = real


def said(words):
    """The words as the reader has them; none where it does not know one."""
    row = {}
    for key, value in words.items():
        if key in KNOWN:
            row[key] = value
        elif key == "norm_layer" and getattr(value, "func", value) is LayerNorm:
            continue  # its epsilon bears on no size
        elif key == "act_layer" and value in ACTIVATIONS:
            row[key] = ACTIVATIONS[value]
        elif key == "mlp_layer" and isinstance(value, functools.partial) and value == SwiGLUPacked:
            row[key] = "swiglu_packed"
        elif key == "dynamic_img_size" or value is None:
            continue
        else:
            return None
    return row


def text(value):
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) and float(f"{value:g}") == value else str(value)


def main(models, parameters):
    usual = dict(patch_size=16, embed_dim=768, depth=12, num_heads=12)
    with open(models, "w", encoding="utf-8") as rows, open(parameters, "w", encoding="utf-8") as counts:
        print(f"# vision transformers of timm {timm.__version__}: what the function of each gives the class", file=rows)
        print(f"# elements of the parameters of each, in timm {timm.__version__}", file=counts)
        for name in timm.list_models(module="vision_transformer"):
            row = said(given(name))
            if row is None or row.get("global_pool") == "map":
                continue
            with torch.device("meta"):
                made = timm.create_model(name)
            row["img_size"], row["num_classes"] = made.patch_embed.img_size[0], made.num_classes
            row = {k: v for k, v in row.items() if v is not None and v != (usual | {"img_size": 224, "num_classes": 1000, "mlp_ratio": 4}).get(k)}
            print(name, *(f"{k}={text(v)}" for k, v in sorted(row.items())), file=rows)
            print(name, sum(p.numel() for p in made.parameters()), sep="\t", file=counts)


if __name__ == "__main__":
    main(*sys.argv[1:])
