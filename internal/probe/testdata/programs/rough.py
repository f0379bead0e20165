"""What programs do to themselves, one thing an argument; after each, a phase that must be recorded."""

import os
import sys

import torch
from floodmark_probe import phase


def fork():
    if os.fork() == 0:
        with phase("save"):
            pass
        os._exit(0)
    os.wait()


def silent_fork():
    if os.fork() == 0:
        os._exit(0)
    os.wait()


def fork_inside():
    with phase("evaluation"):
        child = os.fork()
    if child == 0:
        os._exit(0)
    os.wait()


def execute():
    with phase("save"):
        pass
    os.execv(sys.executable, [sys.executable, __file__, "nothing"])


def chdir():
    os.chdir("/")


def close():
    os.closerange(3, 1024)


def take():
    """Closes every descriptor and gets their numbers for a file of its own, which must stay clean."""
    os.closerange(3, 1024)
    own = os.open("own.txt", os.O_WRONLY | os.O_CREAT)
    for number in range(3, 1024):
        if number != own:
            os.dup2(own, number)


def full():
    """No file may grow, as on a full disk; the program itself goes on."""
    import resource

    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
    for _ in range(20):
        with phase("forward"):
            pass
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def binary():
    os.write(1, bytes(range(256)))


def quit_at_once():
    with phase("save"):
        pass
    os._exit(7)


def crash():
    with phase("save"):
        pass
    raise RuntimeError("CUDA out of memory, between phases")


def thread():
    import threading

    t = threading.Thread(target=lambda: phase("other").__enter__())
    t.start()
    t.join()


def nothing():
    pass


globals()[sys.argv[1]]()
with phase("save"):
    torch.nn.Module()(1)
