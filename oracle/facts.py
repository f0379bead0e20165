"""The text in which recorded events are kept, and their summary.

    case CONFIG BATCH LENGTH OPTIONS…   the command
    with torch 2.15.0 transformers …    what ran
    start parameters 1234 trained 1234 buffers 0 inputs 0
    op 0 MODULE_CLASS NODE OPERATOR     a name, by number
    saved NODE.NAME COUNT STORAGES BYTES
    taken RULE OPERATOR NODE COUNT BYTES
    phase forward 1
    +BYTES OP                           a block is born; blocks are numbered from 0
    -BLOCK                              a block dies
    end
"""

import gzip
import os


class Case:
    """One recorded run."""

    def __init__(self, options, versions, levels, kept, taken, keeps):
        self.command = [os.path.basename(os.path.dirname(options.config)) or options.config]
        words = list(options.words)
        words.remove(options.config)
        for name in ("--out", "--trace"):
            if name in words:
                at = words.index(name)
                del words[at : at + (2 if name == "--out" else 1)]
        self.command += words
        self.versions, self.levels, self.events, self.taken, self.keeps = versions, levels, kept, taken, keeps

    def phases(self):
        """(name, start, peak, end, block at the peak), bytes beyond the start of the run."""
        rows, level = [], 0
        for kind, thing in self.events:
            if kind == "phase":
                rows.append([thing, level, level, level, None])
                continue
            level += thing.size if kind == "born" else -thing.size
            if not rows:
                continue
            if level > rows[-1][2]:
                rows[-1][2], rows[-1][4] = level, thing
            rows[-1][3] = level
        return rows


def label(block):
    """module class, node and operator of a block's birth; - for none."""
    module = block.module().rsplit("_", 1)[0]
    return f"{module or '-'} {block.node() or '-'} {block.operator()}"


def lines(case):
    yield "case " + " ".join(case.command)
    yield "with " + " ".join(f"{k} {v}" for k, v in case.versions.items())
    yield "start " + " ".join(f"{k} {v}" for k, v in case.levels.items())
    names = {}
    for kind, block in case.events:
        if kind == "born":
            names.setdefault(label(block), len(names))
    for name, number in names.items():
        yield f"op {number} {name}"
    for key, (count, storages, size) in sorted(case.keeps.items()):
        yield f"saved {key} {count} {storages} {size}"
    for (rule, operator, node), (count, size) in sorted(case.taken.items()):
        yield f"taken {rule} {operator} {node or '-'} {count} {size}"
    numbers = {}
    for kind, thing in case.events:
        if kind == "phase":
            yield "phase " + thing
        elif kind == "born":
            numbers[thing] = len(numbers)
            yield f"+{thing.size} {names[label(thing)]}"
        else:
            yield f"-{numbers[thing]}"
    yield "end"


def append(case, path):
    """Add a case to a file."""
    text = "".join(line + "\n" for line in lines(case)).encode()
    if path.endswith(".gz"):
        text = gzip.compress(text, 9, mtime=0)
    with open(path, "ab") as f:
        f.write(text)


def trace(case, out):
    """Every event with its line of Python, for a reader."""
    level, numbers = 0, {}
    for kind, thing in case.events:
        if kind == "phase":
            print("phase", thing, file=out)
            continue
        if kind == "born":
            level += thing.size
            numbers[thing] = len(numbers)
            print(f"+{thing.size:>10} {level:>12} #{numbers[thing]} {label(thing)} {thing.module()} {thing.line()}", file=out)
        else:
            level -= thing.size
            print(f"-{thing.size:>10} {level:>12} #{numbers[thing]}", file=out)


def summary(case, out):
    print(" ".join(case.command), *(f"{k} {v}" for k, v in case.levels.items()), file=out)
    for name, start, peak, end, block in case.phases():
        print(f"  {name:18} start {start:>12} peak {peak:>12} end {end:>12} {label(block) if block else '-'}", file=out)
