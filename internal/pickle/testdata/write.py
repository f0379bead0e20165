"""Writes plain.pN.pickle for every protocol, and plain.json, which says the same.

CPython 3.11's pickler wrote the committed files: python3 write.py
"""
import json
import os
import pickle

shared = ["one list in two places", 7]
frame = {"name": "forward", "filename": "model.py", "line": 12}
value = {
    "integers": [0, 1, 255, 256, 65535, 65536, 2**31 - 1, 2**31, -1, -128, -(2**31), -(2**31) - 1, 2**47, 2**62,
                 2**63 - 1, -(2**63), 2**63, 2**64 - 1],
    "floats": [0.0, -1.5, 1e300],
    "constants": [True, False, None],
    "strings": ["", "a", "line\nbreak", "back\\slash", "\\u0041 is not A", "é", "€", "𝄞", "x" * 300],
    "tuples": [(), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)],
    "one": {"key": [1]},
    "empty": [{}, [], ""],
    "shared": [shared, shared, {"again": shared}],
    "stacks": [[frame, frame], [frame, frame], [frame]],
    "long": list(range(2001)),
    "thousand": [[i] for i in range(1001)],
    "wide": {"key %d" % i: i for i in range(1001)},
    "deep": [[[[[[[[[[["eleven more"]]]]]]]]]]],
}
here = os.path.dirname(os.path.abspath(__file__))
for protocol in range(6):
    with open(os.path.join(here, "plain.p%d.pickle" % protocol), "wb") as f:
        pickle.dump(value, f, protocol)
with open(os.path.join(here, "plain.json"), "w") as f:
    json.dump(value, f)
    f.write("\n")
