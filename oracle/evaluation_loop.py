"""The evaluation loop of transformers' own Trainer, over batches alike.

In: a module and what it is called with. Out: a function that runs the loop, with
a mark where each batch begins and where the last has ended.
"""

import tempfile

import transformers
from torch.profiler import record_function

import build
import events

BATCHES = 2


def batches(call):
    """The same batch several times, each behind its mark; a data loader without a length."""
    for n in range(1, BATCHES + 1):
        with record_function(f"{events.MARK}forward {n}"):
            pass
        yield call
    with record_function(f"{events.MARK}end 0"):
        pass


def loop(made, call, options):
    """Trainer.evaluation_loop; the folder it asks for stays empty."""
    folder = tempfile.TemporaryDirectory()
    on_cpu = {"no_cuda": True} if build.before(4, 34) else {"use_cpu": True}
    args = transformers.TrainingArguments(folder.name, per_device_eval_batch_size=options.batch, report_to=[], **on_cpu)
    trainer = transformers.Trainer(model=made, args=args)

    def run():
        trainer.evaluation_loop(batches(call), "Evaluation", prediction_loss_only=not options.keep_logits)
        folder.cleanup()

    return run
