"""Runs many small programs, each in a fork of its own, since starting an interpreter takes longer than any of them.

Read from standard input: [[program, {variable: value}], …]. In the folder of the first argument it leaves N.log
(of the stand-in), N.out and N.err, and it prints each child's process id and status.
"""

import json
import os
import sys

sys.argv[1] = os.path.abspath(sys.argv[1])
for n, (program, variables) in enumerate(json.load(sys.stdin)):
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        name = os.path.join(sys.argv[1], str(n))
        os.environ.update(variables, STANDIN_LOG=name + ".log")
        for stream, kind in ((1, ".out"), (2, ".err")):
            os.dup2(os.open(name + kind, os.O_WRONLY | os.O_CREAT), stream)
        exec(compile(program, "<program %d>" % n, "exec"), {"__name__": "__main__"})
        sys.exit(0)
    print(child, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
