#!/usr/bin/env bash
# Builds the program for both processors without C, and holds each stripped
# program under 15 MB (10^6 bytes).
set -euo pipefail
cd "$(dirname "$0")/.."
limit=15000000
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
for arch in amd64 arm64; do
	CGO_ENABLED=0 GOOS=linux GOARCH=$arch go build -buildvcs=false -trimpath -ldflags '-s -w' -o "$out/$arch" ./cmd/floodmark
	size=$(wc -c <"$out/$arch")
	echo "linux/$arch: $size bytes"
	if [ "$size" -ge "$limit" ]; then
		echo "that is not under $limit bytes" >&2
		exit 1
	fi
done
