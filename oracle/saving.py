"""Records what save_pretrained makes of models beside their weights, in 16 bits.

    python oracle/saving.py CONFIG...

For each configuration a line: its type, and the bytes of storages that are none of the
model's own when the first file is written.
"""

import os
import sys
import tempfile

import torch
import transformers
import transformers.modeling_utils as modeling

import build


def storages(tensors):
    return {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}


def model(path):
    fields = build.read(path)
    kind = fields.pop("model_type")
    config = transformers.AutoConfig.for_model(kind, **fields)
    made = getattr(transformers, fields["architectures"][0])._from_config(config, dtype=torch.bfloat16)
    return kind, made


def saved(made):
    own = storages([*made.parameters(), *made.buffers()])
    more, write = [], modeling.safe_save_file

    def counting(state, *args, **kwargs):
        more.append(sum(n for at, n in storages(state.values()).items() if at not in own))
        return write(state, *args, **kwargs)

    modeling.safe_save_file = counting
    with tempfile.TemporaryDirectory() as folder:
        made.save_pretrained(folder)
    modeling.safe_save_file = write
    return more[0]


for path in sys.argv[1:]:
    kind, made = model(path)
    print(kind, saved(made), sep="\t", flush=True)
print(f"transformers {transformers.__version__}, torch {torch.__version__}", file=sys.stderr)
