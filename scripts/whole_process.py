#!/usr/bin/env python3
"""Times whole processes, in turn, and prints medians and ratios.

usage: whole_process.py RUNS NAME=COMMAND...

Every round runs each command once, so that a machine whose speed drifts drifts
for all of them. The first command is the one that the ratios are of. Memory is
the largest resident set that the operating system saw.
"""
import os
import statistics
import subprocess
import sys
import time


def once(command):
    begin = time.perf_counter()
    child = subprocess.Popen(command, shell=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    wall = time.perf_counter() - begin
    if os.waitstatus_to_exitcode(status) not in (0, 3, 4):
        sys.exit(f"{command}: exit {os.waitstatus_to_exitcode(status)}")
    return wall, usage.ru_maxrss / 1024


def main():
    runs, commands = int(sys.argv[1]), [c.split("=", 1) for c in sys.argv[2:]]
    for _, command in commands:
        once(command)
    seen = {name: [] for name, _ in commands}
    for _ in range(runs):
        for name, command in commands:
            seen[name].append(once(command))
    first = statistics.median(w for w, _ in seen[commands[0][0]])
    for name, _ in commands:
        wall = statistics.median(w for w, _ in seen[name])
        memory = max(m for _, m in seen[name])
        print(f"{name:44} {wall * 1000:9.1f} ms  {memory:8.1f} MiB  {wall / first:6.2f} x")


main()
