"""Records every case of cases.tsv, each in a process of its own.

    oracle/all [--missing] [FAMILY…]

A family that is named after software and a release (torchtune-0.5) is recorded
where that release is installed, and left alone elsewhere.
"""

import gzip
import importlib.metadata
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


def installed(family):
    """Whether the software is here that a family is named after."""
    software, _, release = family.partition("-")
    if not release:
        return True
    try:
        return importlib.metadata.version(software).startswith(release.rpartition("-")[2] + ".")
    except importlib.metadata.PackageNotFoundError:
        return False


def facts(family):
    return os.path.join(FACTS, family, "facts.txt.gz")


def recorded(family):
    """The commands whose facts a family has."""
    if not os.path.exists(facts(family)):
        return set()
    with gzip.open(facts(family), "rt") as f:
        return {line.split(" ", 1)[1].strip() for line in f if line.startswith("case ")}


def main(chosen):
    """Record the families that are named, or all: anew, or what is missing."""
    missing = "--missing" in chosen
    chosen = [c for c in chosen if c != "--missing"]
    wanted = [(f, w) for f, w in cases() if (not chosen or f in chosen) and installed(f)]
    if missing:
        have = {f: recorded(f) for f, _ in wanted}
        wanted = [(f, w) for f, w in wanted if " ".join([f, *w]) not in have[f]]
    else:
        for family in {f for f, _ in wanted if os.path.exists(facts(f))}:
            os.remove(facts(family))
    good = True
    for family, words in wanted:
        folder = os.path.join(FACTS, family)
        good &= apart([os.path.join(folder, "config.json"), *words, "--out", facts(family)])
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
