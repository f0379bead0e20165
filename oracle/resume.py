"""Records what a process allocates that resumes a training of one model.

    python oracle/resume.py CONFIG

The checkpoint holds the model's state and AdamW's, and is read whole onto the device
of the model (map_location), which here is the CPU: beside the model, its weights and
the states, and then the optimizer takes over what was read. Bytes are beyond those
before the model is made.
"""

import os
import sys
import tempfile

import torch
from torch.profiler import ProfilerActivity, profile, record_function

import build
import events


def training(path):
    """A model and its optimizer."""
    fields = build.read(path)
    import transformers

    kind = fields.pop("model_type")
    torch.manual_seed(0)
    model = getattr(transformers, fields["architectures"][0])(transformers.AutoConfig.for_model(kind, **fields))
    return model, torch.optim.AdamW(model.parameters(), fused=True)


def saved(path, to):
    """One step, and its checkpoint."""
    model, optimizer = training(path)
    ids = torch.randint(0, 50, (1, 8))
    model(input_ids=ids, labels=ids).loss.backward()
    optimizer.step()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, to)


def resume(path, checkpoint):
    with record_function(events.MARK + "resume"):
        model, optimizer = training(path)
        read = torch.load(checkpoint, map_location="cpu", weights_only=True)
        model.load_state_dict(read["model"])
        optimizer.load_state_dict(read["optimizer"])
        del read
    with record_function(events.MARK + "end"):
        return model, optimizer


def main(path):
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = os.path.join(folder, "checkpoint.pt")
        saved(path, checkpoint)
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True, with_stack=True) as p:
            kept = resume(path, checkpoint)
    level = peak = 0
    for what, thing in events.normalise(events.read(p))[0]:
        if what == "phase":
            continue
        level += thing.size if what == "born" else -thing.size
        peak = max(peak, level)
    print(f"resume peak {peak} end {level}", "parameters", sum(t.numel() * t.element_size() for t in kept[0].parameters()))


if __name__ == "__main__":
    main(*sys.argv[1:])
