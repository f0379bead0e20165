"""Models of random weights from a config.json, their inputs and optimizers.

In: a configuration and the conditions of a run. Out: a module, what it is
called with, and the optimizer. Remote code is never run: the class is one of
the installed transformers.
"""

import json

import torch
import transformers

FORMATS = {"float32": torch.float32, "bfloat16": torch.bfloat16}

FEED_FORWARD = ("down_proj", "fc2", "c_proj")  # whose input IA3 scales, not their output

ENCODERS = ("bert", "roberta", "distilbert")

OPTIMIZERS = {
    "adamw": lambda ps: torch.optim.AdamW(ps, foreach=True),
    "adamw_loop": lambda ps: torch.optim.AdamW(ps, foreach=False),
    "adamw_fused": lambda ps: torch.optim.AdamW(ps, fused=True),
    "sgd": lambda ps: torch.optim.SGD(ps, lr=1e-3, foreach=True),
    "sgd_momentum": lambda ps: torch.optim.SGD(ps, lr=1e-3, momentum=0.9, foreach=True),
    "adafactor": lambda ps: transformers.Adafactor(ps),
    "adafactor_torch": lambda ps: torch.optim.Adafactor(ps, foreach=True),
    "muon": lambda ps: torch.optim.Muon([p for p in ps if p.ndim == 2]),
}


def read(path):
    """The fields of a configuration."""
    with open(path, encoding="utf-8") as f:
        return json.load(f)


def model(path, options):
    """The module that the file's `architectures` names, on random weights."""
    fields = read(path)
    name = fields["architectures"][0]
    kind = fields.pop("model_type")
    config = transformers.AutoConfig.for_model(kind, **fields)
    if options.experts:
        config._experts_implementation = options.experts
    cls = getattr(transformers, name)
    made = cls._from_config(config, **manner(options))
    if options.adapter != "none":
        made = adapted(made, options)
    if options.checkpointing:
        checkpoint(made, options.checkpointing == "reentrant")
        if options.adapter != "none":
            made.enable_input_require_grads()
    made.train(options.operation == "training")
    return made


def before(major, minor):
    """Transformers before a release, whose loaders know fewer words."""
    return tuple(int(n) for n in transformers.__version__.split(".")[:2]) < (major, minor)


def manner(options):
    """How the class is built."""
    if before(4, 36):
        return {"torch_dtype": FORMATS[options.dtype]}
    if before(5, 0):
        return {"attn_implementation": options.attention, "torch_dtype": FORMATS[options.dtype]}
    return {"attn_implementation": options.attention, "dtype": FORMATS[options.dtype]}


def checkpoint(made, reentrant):
    """Recompute layers in backward: earlier releases know the older way alone."""
    if before(4, 35):
        made.gradient_checkpointing_enable()
    else:
        made.gradient_checkpointing_enable({"use_reentrant": reentrant})


def adapted(made, options):
    """The model with adapters of peft on the modules whose last name is given."""
    import peft

    targets = options.targets.split(",")
    kinds = {
        "ia3": lambda: peft.IA3Config(target_modules=targets, feedforward_modules=[t for t in targets if t in FEED_FORWARD]),
        "ln_tuning": lambda: peft.LNTuningConfig(target_modules=targets),
        "oft": lambda: peft.OFTConfig(r=options.rank, oft_block_size=0, target_modules=targets),
    }
    config = kinds[options.adapter]() if options.adapter in kinds else low_rank(targets, options)
    return peft.get_peft_model(made, config)


def low_rank(targets, options):
    """The configuration of LoRA and DoRA."""
    import peft

    return peft.LoraConfig(
        r=options.rank,
        lora_alpha=2 * options.rank,
        lora_dropout=options.adapter_dropout,
        target_modules=targets,
        modules_to_save=options.modules_to_save.split(",") if options.modules_to_save else None,
        use_dora=options.adapter == "dora",
    )


MARKERS = 16  # ids at the end of a vocabulary that stand for pictures in the configurations here


def words(config):
    """How many of a vocabulary's ids are words of text."""
    if hasattr(config, "vision_config"):
        return config.get_text_config().vocab_size - MARKERS
    return config.vocab_size


def inputs(made, options):
    """What the module is called with: one batch of random ids or pixels."""
    config = made.config
    batch, length = options.batch, options.length
    training = options.operation != "evaluation"
    if config.model_type in ("vit", "dinov2"):
        call = {"pixel_values": torch.randn(batch, config.num_channels, config.image_size, config.image_size, dtype=FORMATS[options.dtype])}
        if training:
            call["labels"] = torch.randint(0, config.num_labels, (batch,))
        return call
    if config.model_type == "whisper":
        frames = 2 * config.max_source_positions
        call = {"input_features": torch.randn(batch, config.num_mel_bins, frames, dtype=FORMATS[options.dtype])}
        call["labels" if training else "decoder_input_ids"] = torch.randint(1, config.vocab_size, (batch, length))
        return call
    ids = torch.randint(1, words(config), (batch, length))
    call = {"input_ids": ids}
    if config.is_encoder_decoder:
        decoder = torch.randint(1, words(config), (batch, options.decoder_length or length))
        call["labels" if training else "decoder_input_ids"] = decoder
    elif training and "ForQuestionAnswering" in config.architectures[0]:
        call |= {name: torch.randint(0, length, (batch,)) for name in ("start_positions", "end_positions")}
    elif training and "ForSequenceClassification" in config.architectures[0]:
        call["labels"] = torch.randint(0, config.num_labels, (batch,))
    elif training:
        call["labels"] = ids.clone()
    if options.mask:
        call["attention_mask"] = torch.ones_like(ids)
    if options.keep:
        call["logits_to_keep"] = options.keep
    if options.operation == "evaluation_loop":
        return call  # whether keys and values are kept is for Trainer to say
    if not config.is_encoder_decoder and config.model_type not in ENCODERS and not options.keep_outputs:
        call["use_cache"] = False
    return call


def optimizer(made, options):
    """The optimizer over the parameters that are trained, or none."""
    if options.operation != "training" or options.optimizer == "none":
        return None
    if options.optimizer_in_backward:
        in_backward(made, OPTIMIZERS[options.optimizer])
        return None
    return OPTIMIZERS[options.optimizer]([p for p in made.parameters() if p.requires_grad])


def in_backward(made, new):
    """An optimizer of its own for each parameter, which steps when the gradient is there."""
    owned = {p: new([p]) for p in made.parameters() if p.requires_grad}

    def step(p):
        owned[p].step()
        owned[p].zero_grad()

    for p in owned:
        p.register_post_accumulate_grad_hook(step)
