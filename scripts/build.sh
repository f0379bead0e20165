#!/usr/bin/env bash
# Builds the program as it is released: stripped, without C, for GOOS and GOARCH.
#
#   scripts/build.sh OUT [TAG]
#
# Two settings keep it small, and change nothing that it says. HTTP/2 is left out:
# the hub is asked by HTTP/1.1. And functions are inlined only where the time goes,
# in the allocator, the readers of long files and the machine of operators; what
# inlining adds elsewhere, in the modules of go.mod and in the network of the
# standard library too, is a megabyte and a half.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$1 tag=${2:-}
edge=()
for cold in floodmark github.com net crypto vendor html regexp text mime golang.org; do
	edge+=("-gcflags=$cold/...=-l")
done
for hot in account allocator bytesize replay snapshot timeline internal/gguf internal/pickle internal/safetensors internal/torch estimate/eager/modules; do
	edge+=("-gcflags=floodmark/$hot=")
done
CGO_ENABLED=0 go build -tags "nethttpomithttp2,$tag" -buildvcs=false -trimpath -ldflags '-s -w' "${edge[@]}" -o "$out" ./cmd/floodmark
