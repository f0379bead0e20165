"""A Trainer script that was given the callback by its author, without any injection."""

import os
import sys

sys.path.insert(0, os.environ["SCRIPT"])
import floodmark_probe

callback = floodmark_probe.trainer_callback()

import torch
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments


class Careful(Trainer):
    """Overrides what people override."""

    def evaluate(self, *args, **kwargs):
        return super().evaluate(*args, **kwargs)


rows = [{"input_ids": torch.arange(8) + i, "labels": torch.arange(8) + i} for i in range(2)]
config = LlamaConfig(vocab_size=32, hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
                     num_key_value_heads=2)
arguments = TrainingArguments(output_dir=sys.argv[1], max_steps=1, per_device_train_batch_size=2, use_cpu=True, report_to=[],
                              save_strategy="no", disable_tqdm=True)
trainer = Careful(model=LlamaForCausalLM(config), args=arguments, train_dataset=rows, eval_dataset=rows, callbacks=[callback])
trainer.train()
trainer.evaluate()
trainer.save_model()
