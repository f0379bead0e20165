"""Records every case of cases.tsv, each in a process of its own.

    oracle/all [FAMILY…]
"""

import os
import sys

import record

HERE = os.path.dirname(os.path.abspath(__file__))
FACTS = os.path.join(HERE, "..", "testdata", "eager")


def cases():
    """(family, words) in the order of the file."""
    with open(os.path.join(HERE, "cases.tsv"), encoding="utf-8") as f:
        for line in f:
            if line.startswith("#"):
                continue
            families, words = line.rstrip("\n").split("\t")
            yield from ((family, words.split()) for family in families.split())


def apart(words):
    """Record one case in a child: what PyTorch keeps from one must not reach the next."""
    child = os.fork()
    if child == 0:
        try:
            record.main(words)
            sys.stdout.flush()
            os._exit(0)
        except Exception as failure:
            print("FAILED", *words, failure, file=sys.stderr)
            os._exit(1)
    return os.waitpid(child, 0)[1] == 0


def main(chosen):
    """Record the families that are named, or all. Their old facts go first."""
    wanted = [(f, w) for f, w in cases() if not chosen or f in chosen]
    for family in {f for f, _ in wanted}:
        path = os.path.join(FACTS, family, "facts.txt.gz")
        if os.path.exists(path):
            os.remove(path)
    good = True
    for family, words in wanted:
        folder = os.path.join(FACTS, family)
        good &= apart([os.path.join(folder, "config.json"), *words, "--out", os.path.join(folder, "facts.txt.gz")])
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
