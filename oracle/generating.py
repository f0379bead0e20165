"""Records what generate holds beside a training: python oracle/generating.py CONFIG...

For each configuration, plain and with an adapter, after one step of AdamW: the bytes that
generate stands over its start at its highest, and those of them that its cache takes at
the end. Prints lines of FAMILY ADAPTER FORMAT SEQUENCES CONTEXT GENERATED PEAK CACHE.
"""

import os
import sys

import torch
import transformers
from peft import LoraConfig, get_peft_model
from torch.profiler import ProfilerActivity, profile

SEQUENCES, CONTEXT, GENERATED = 3, 64, 16


def trained(config, adapter, dtype):
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(config).to(dtype)
    if adapter:
        model = get_peft_model(model, LoraConfig(r=8, target_modules="all-linear"))
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad])
    ids = torch.randint(0, config.vocab_size, (2, CONTEXT))
    model(input_ids=ids, labels=ids).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return model.eval(), optimizer


def bytes_of(cache):
    total = 0
    for layer in cache.layers:
        total += sum(t.numel() * t.element_size() for t in (layer.keys, layer.values))
    return total


def peak(model, autocast, vocabulary):
    ids = torch.randint(0, vocabulary, (SEQUENCES, CONTEXT))
    mask = torch.ones_like(ids)
    mask[0, :5] = 0
    ask = dict(input_ids=ids, attention_mask=mask, max_new_tokens=GENERATED, min_new_tokens=GENERATED, do_sample=True, return_dict_in_generate=True)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as p, torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        out = model.generate(**ask)
    level = highest = 0
    for e in p.profiler.kineto_results.events():
        if e.name() == "[memory]":
            level += e.nbytes()
            highest = max(highest, level)
    return highest, bytes_of(out.past_key_values)


def main():
    torch.set_num_threads(1)
    print(f"# torch {torch.__version__.split('+')[0]}, transformers {transformers.__version__}, sequences {SEQUENCES}, context {CONTEXT}, generated {GENERATED}")
    for folder in sys.argv[1:]:
        config = transformers.AutoConfig.from_pretrained(folder)
        for adapter in (False, True):
            for form, dtype, autocast in (("fp32", torch.float32, False), ("bf16", torch.bfloat16, False), ("autocast", torch.float32, True)):
                model, _ = trained(config, adapter, dtype)
                highest, cache = peak(model, autocast, config.vocab_size)
                print("\t".join(map(str, (os.path.basename(folder.rstrip("/")), "lora" if adapter else "none", form, SEQUENCES, CONTEXT, GENERATED, highest, cache))))


main()
