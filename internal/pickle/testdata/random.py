"""Writes random plain objects as pickles and as JSON, for the differential test.

usage: random.py SEED COUNT: one line a case: protocol, pickle in base64, JSON.
Floats are written as halves, which JSON and Go print alike; shared objects and
integers beyond 63 bits are frequent, as they are in memory snapshots.
"""
import base64
import json
import pickle
import random
import sys

seed, count = int(sys.argv[1]), int(sys.argv[2])
r = random.Random(seed)


def height(made):
    inner = made.values() if isinstance(made, dict) else made if isinstance(made, (list, tuple)) else []
    return 1 + max(map(height, inner), default=0)


def value(depth, shared):
    kinds = ["int", "wide", "text", "bool", "none", "half"]
    if depth < 6:
        kinds += ["list", "dict", "pair", "shared"] * 2
    kind = r.choice(kinds)
    if kind == "int":
        return r.choice([0, 1, -1, 255, 256, 65535, 65536, 2**31 - 1, -(2**31), r.randrange(-(2**40), 2**40)])
    if kind == "wide":
        return r.choice([2**63 - 1, 2**63, 2**64 - 1, r.randrange(2**62, 2**64)])
    if kind == "text":
        return "".join(r.choice("aé漢\n\\\"' :") for _ in range(r.choice([0, 1, 7, 300])))
    if kind == "bool":
        return r.random() < 0.5
    if kind == "none":
        return None
    if kind == "half":
        return r.randrange(-(2**20), 2**20) + 0.5
    # A shared object brings its own depth along; the reader stops at 16 levels.
    low = [s for s in shared if height(s) + depth < 14]
    if kind == "shared" and low:
        return r.choice(low)
    size = r.choice([0, 1, 2, 4])
    if kind == "pair":
        made = (value(depth + 1, shared), value(depth + 1, shared))
    elif kind == "dict":
        made = {"k%d" % i: value(depth + 1, shared) for i in range(size)}
    else:
        made = [value(depth + 1, shared) for _ in range(size)]
    shared.append(made)
    return made


for _ in range(count):
    # More items than CPython writes in one batch, now and then.
    made = [value(0, []), list(range(r.choice([0, 999, 1000, 1001, 2500])))]
    protocol = r.randrange(0, pickle.HIGHEST_PROTOCOL + 1)
    data = pickle.dumps(made, protocol)
    print(protocol, base64.b64encode(data).decode(), json.dumps(made), sep="\t")
