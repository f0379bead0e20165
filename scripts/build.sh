#!/usr/bin/env bash
# Builds the program as it is released: stripped, without C, for GOOS and GOARCH.
#
#   scripts/build.sh OUT [TAG]
#
# Four settings keep it small, and change nothing that it says. HTTP/2 is left out:
# the hub is asked by HTTP/1.1. And functions are inlined only where the time goes,
# in the allocator and the readers of long files; what inlining adds elsewhere, in
# the modules of go.mod and in what the standard library has for networks and texts
# too, is two megabytes. And functions begin at any byte and not at multiples of 32:
# 270 kB of gaps. And the compiler is told to name what generic functions are made for
# by a hash where the name is longer than one, which no text of this program shows, and
# outside of what is inlined to make no second way for slices that may fit on the stack
# and for functions that are deferred, and not to check that iterators keep their
# protocol, which tests do: 110 kB.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$1 tag=${2:-}
edge=('-gcflags=all=-d=maxshapelen=72')
small='-d=maxshapelen=72,variablemakethreshold=0,freeappend=0,rangefunccheck=0,noopendefer=1'
for cold in floodmark github.com vendor net crypto encoding/json encoding/asn1 html text mime golang.org fmt log reflect regexp archive context database embed flag math os path sort syscall time unicode unique compress hash bufio strconv errors strings bytes iter maps cmp; do
	edge+=("-gcflags=$cold=-l $small" "-gcflags=$cold/...=-l $small")
done
for hot in account allocator bytesize replay snapshot timeline internal/pickle; do
	edge+=("-gcflags=floodmark/$hot=-d=maxshapelen=72")
done
CGO_ENABLED=0 go build -tags "nethttpomithttp2,$tag" -buildvcs=false -trimpath -ldflags '-s -w -funcalign=1' "${edge[@]}" -o "$out" ./cmd/floodmark
