"""Kills 200 children at random moments of every kind of phase, and says how many phases each had completed.

A child writes a byte to its pipe after each phase that is over, so that the count does not
come from the probe. Printed: the child's process id, the bytes, and the moment in microseconds.
"""

import os
import random
import signal
import sys
import time

import standin
import torch
from floodmark_probe import phase


def phases(done):
    """Every kind of phase that hooks or a program can make, over and over."""
    model, loss, optimizer = torch.nn.Module(), torch.nn.modules.loss._Loss(), torch.optim.Optimizer()

    @phase("generate")
    def generate():
        standin.allocate(1)

    while True:
        model.to("cuda:0")
        done()
        out = model(1)
        done()
        loss(out)
        done()
        out.backward()
        done()
        optimizer.step()
        done()
        torch.serialization.save(1, "x")
        done()
        generate()
        done()
        with phase("evaluation"):
            torch.gradients[0] = False
            model(1)
            torch.gradients[0] = True
            done()
        done()
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            model(1)
            done()
        done()
        try:
            with phase("decode"):
                raise ValueError
        except ValueError:
            done()


def main(children, seed):
    chance = random.Random(seed)
    for _ in range(children):
        wait = chance.uniform(0, 0.02)
        reads, writes = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reads)
            phases(lambda: os.write(writes, b"."))
        os.close(writes)
        first = os.read(reads, 1) if chance.random() < 0.8 else b""  # sometimes killed before the first
        time.sleep(wait)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        done = len(first)
        while True:
            more = os.read(reads, 1 << 16)
            if not more:
                break
            done += len(more)
        os.close(reads)
        print(child, done, int(wait * 1e6))


main(int(sys.argv[1]), 20261129)
