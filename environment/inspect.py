# What an installed Python says of itself: one JSON object a line on descriptor
# 3, written at once, so that whatever ends the process leaves what came before.
# It imports nothing but the standard library, and PyTorch last. Also read by
# Python 2, which is told apart by its version.
import sys

# The folder of the caller is no place to import from.
sys.path[:] = [p for p in sys.path if p]

import json
import os


def say(**facts):
    os.write(3, (json.dumps(facts) + "\n").encode("ascii"))


def failure(error):
    return (type(error).__name__ + ": " + str(error))[:2000]


def versions(names):
    from importlib import metadata

    found = []
    for name in names:
        try:
            found.append({"name": name, "version": metadata.version(name)})
        except metadata.PackageNotFoundError:
            pass
        except Exception as error:
            found.append({"name": name, "version": None, "error": failure(error)})
    return found


def constants(path):
    """The plain assignments of a module, without running it."""
    import ast

    with open(path, "rb") as file:
        tree = ast.parse(file.read(1 << 20))
    values = {}
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        for target in targets:
            if isinstance(target, ast.Name) and getattr(node, "value", None) is not None:
                try:
                    values[target.id] = ast.literal_eval(node.value)
                except ValueError:
                    pass
    return values


def locate():
    """Where PyTorch is, and what its file of versions says."""
    from importlib import util

    spec = util.find_spec("torch")
    if spec is None:
        return {"found": False}
    if not spec.origin:
        return {"found": False, "error": "a folder called torch is on the path, and is no package"}
    facts = {"found": True, "path": os.path.dirname(spec.origin)}
    try:
        values = constants(os.path.join(facts["path"], "version.py"))
        facts.update(version=values.get("__version__"), cuda=values.get("cuda"), hip=values.get("hip"))
    except Exception as error:
        facts["error"] = failure(error)
    return facts


def loaded():
    """What PyTorch itself says. None of this creates a context."""
    try:
        import torch
    except BaseException as error:
        return {"imported": False, "error": failure(error)}
    facts = {"imported": True}
    try:
        facts.update(version=str(torch.__version__), cuda=torch.version.cuda, hip=getattr(torch.version, "hip", None))
    except Exception as error:
        facts["error"] = failure(error)
    try:
        facts["allocator"] = torch.cuda.get_allocator_backend()
    except Exception:
        pass  # a release or a build that has none
    return facts


def devices():
    """How many devices PyTorch counts, which may start the driver."""
    try:
        import torch

        return {"devices": torch.cuda.device_count()}
    except BaseException as error:
        return {"devices": None, "error": failure(error)}


say(python=sys.version.split()[0], executable=sys.executable or None, virtual=getattr(sys, "base_prefix", sys.prefix) != sys.prefix)
try:
    say(extensions=versions(sys.argv[1:]))
except Exception as error:
    say(extensions_error=failure(error))
try:
    say(torch=locate())
except Exception as error:
    say(torch={"found": False, "error": failure(error)})
say(loaded=loaded())
say(counted=devices())
