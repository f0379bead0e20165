"""Records the births and deaths of blocks in training steps of one model.

    oracle/run CONFIG BATCH LENGTH [options]
"""

import argparse
import sys

import torch
import transformers
from torch.profiler import ProfilerActivity, profile, record_function

import build
import evaluation_loop
import events
import facts


def torchtune():
    import torchtune_recipe

    return torchtune_recipe


def litgpt():
    import litgpt_recipe

    return litgpt_recipe


def torchtitan():
    import torchtitan_recipe

    return torchtitan_recipe


def trl():
    import trl_recipe

    return trl_recipe


def timm():
    import timm_recipe

    return timm_recipe


# Software with modules and a loop of its own, by the name that --engine takes.
RECIPES = {"torchtune": torchtune, "litgpt": litgpt, "torchtitan": torchtitan, "trl": trl, "timm": timm}


def arguments(words):
    p = argparse.ArgumentParser(prog="oracle/run", description="Records what a model allocates on the CPU.")
    p.add_argument("config", help="a config.json")
    p.add_argument("batch", type=int)
    p.add_argument("length", type=int)
    p.add_argument("--operation", choices=["training", "evaluation", "evaluation_loop"], default="training")
    p.add_argument("--attention", choices=["eager", "sdpa"], default="sdpa")
    p.add_argument("--experts", choices=["", "eager", "batched_mm", "grouped_mm"], default="")
    p.add_argument("--dtype", choices=list(build.FORMATS), default="float32")
    p.add_argument("--checkpointing", choices=["", "reentrant", "not_reentrant", "selective"], default="")
    p.add_argument("--adapter", choices=["none", "lora", "dora", "ia3", "ln_tuning", "oft", "adaption_prompt"], default="none")
    p.add_argument("--rank", type=int, default=8)
    p.add_argument("--targets", default="q_proj,v_proj")
    p.add_argument("--modules-to-save", default="")
    p.add_argument("--adapter-dropout", type=float, default=0.0)
    p.add_argument("--optimizer", choices=["none", *build.OPTIMIZERS], default="adamw")
    p.add_argument("--decoder-length", type=int, default=0)
    p.add_argument("--keep", type=int, default=0, help="positions whose logits are computed; 0 for all")
    p.add_argument("--mask", action="store_true", help="pass an attention mask of ones")
    p.add_argument("--keep-logits", action="store_true", help="an evaluation loop keeps the predictions of all batches")
    p.add_argument("--keep-outputs", action="store_true", help="the loop has a name for the outputs, as scripts have and Trainer has not")
    p.add_argument("--optimizer-in-backward", action="store_true", help="an optimizer for each parameter steps as soon as its gradient is there")
    p.add_argument("--steps", type=int, default=2)
    p.add_argument("--software", choices=["transformers", *RECIPES], default="transformers", help="whose modules and loop these are")
    p.add_argument("--loss", choices=["plain", "chunked"], default="plain", help="of software that has both")
    p.add_argument("--method", choices=["dpo"], default="dpo", help="whose loss of TRL's")
    p.add_argument("--reference", choices=["model", "adapter", "precomputed"], default="model", help="whence a preference's reference comes")
    p.add_argument("--positions", action="store_true", help="pass the positions of a packed sequence")
    p.add_argument("--out", help="add the facts to this file (.gz: compressed); else a summary is printed")
    p.add_argument("--trace", action="store_true", help="print every event with its line of Python")
    options = p.parse_args(words)
    options.words = words
    return options


def train(made, run, optimizer, options):
    """Steps of training. Gradients go after the update; the loss lives until the next, and the outputs where the loop keeps them."""
    for step in range(1, options.steps + 1):
        with record_function(f"{events.MARK}forward {step}"):
            if options.keep_outputs:
                outputs = run()
                loss = outputs.loss
            else:
                loss = run()
        with record_function(f"{events.MARK}backward {step}"):
            loss.backward()
        with record_function(f"{events.MARK}optimizer_step {step}"):
            if optimizer:
                optimizer.step()
        with record_function(f"{events.MARK}zero_grad {step}"):
            made.zero_grad(set_to_none=True)


def evaluate(made, call):
    """Evaluation of one batch, its outputs kept."""
    with torch.no_grad(), record_function(f"{events.MARK}forward 1"):
        outputs = made(**call)
    return outputs


def forward(made, call, recipe, options):
    """The forward with its loss. Of the outputs of transformers the loss alone lives on,
    as in its Trainer, unless the loop keeps them."""
    if recipe:
        return recipe.Loop(made, call, options).loss
    if options.keep_outputs:
        return lambda: made(**call)
    return lambda: made(**call).loss


def recorded(made, call, optimizer, options, recipe=None):
    """The profile of the program, from after the model is there."""
    run = forward(made, call, recipe, options) if options.operation == "training" else None
    if options.operation == "evaluation_loop":
        run = evaluation_loop.loop(made, call, options)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True, with_stack=True) as p:
        if options.operation == "training":
            train(made, run, optimizer, options)
        elif options.operation == "evaluation":
            kept = evaluate(made, call)
        else:
            run()
        with record_function(f"{events.MARK}end 0"):
            pass
    return p


def storage_of(t):
    """The storage of a tensor, as PyTorch 1 and 2 name it."""
    return t.untyped_storage() if hasattr(t, "untyped_storage") else t.storage().untyped()


def saved(made, loss):
    """What the graph of a loss keeps for backward, by node and name, parameters aside."""
    loss = getattr(loss, "loss", loss)  # outputs, where the loop keeps them
    own = {storage_of(t).data_ptr() for t in [*made.parameters(), *made.buffers()]}
    total, seen, todo, storages = {}, set(), [loss.grad_fn], set()
    while todo:
        node = todo.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        todo += [n for n, _ in node.next_functions]
        for name in dir(node):
            if not name.startswith("_saved_"):
                continue
            try:
                value = getattr(node, name)
            except RuntimeError:
                continue
            for t in value if isinstance(value, (list, tuple)) else [value]:
                if not isinstance(t, torch.Tensor) or storage_of(t).data_ptr() in own:
                    continue
                storage = storage_of(t)
                first = storage.data_ptr() not in storages
                storages.add(storage.data_ptr())
                key = node.name().removeprefix("torch::autograd::") + "." + name.removeprefix("_saved_")
                count, new, size = total.get(key, (0, 0, 0))
                total[key] = (count + 1, new + first, size + (storage.nbytes() if first else 0))
    return total


def start(made, call):
    """Bytes of parameters, buffers and inputs, each storage once."""
    once = lambda ts: sum({storage_of(t).data_ptr(): storage_of(t).nbytes() for t in ts}.values())
    return {
        "parameters": once(made.parameters()),
        "trained": once([p for p in made.parameters() if p.requires_grad]),
        "buffers": once(made.buffers()),
        "inputs": once([v for v in call.values() if isinstance(v, torch.Tensor)]),
    }


def main(words):
    options = arguments(words)
    torch.manual_seed(0)
    recipe = RECIPES[options.software]() if options.software in RECIPES else None
    if recipe:
        fields = build.read(options.config)
        made, call = recipe.model(fields, options, build.FORMATS[options.dtype]), recipe.inputs(fields, options)
    else:
        made = build.model(options.config, options)
        call = build.inputs(made, options)
    optimizer = build.optimizer(made, options)
    levels = start(made, call)
    p = recorded(made, call, optimizer, options, recipe)
    kept, taken = events.normalise(events.ended(events.read(p)))
    del p
    made.zero_grad(set_to_none=True)
    keeps = saved(made, forward(made, call, recipe, options)()) if options.operation == "training" else {}
    versions = {"torch": torch.__version__}
    versions |= {options.software: recipe.version() if recipe else transformers.__version__}
    if options.adapter != "none" and not recipe:
        import peft

        versions["peft"] = peft.__version__
    case = facts.Case(options, versions, levels, kept, taken, keeps)
    if options.trace:
        facts.trace(case, sys.stdout)
    elif options.out:
        facts.append(case, options.out)
    facts.summary(case, sys.stderr if options.trace else sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1:])
