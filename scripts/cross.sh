#!/usr/bin/env bash
# Builds the program for both processors without C, as it is and static (the tag
# nonvml), holds each stripped program under 15 MB (10^6 bytes), and starts those
# of this machine's processor: the static one finds a card through nvidia-smi.
set -euo pipefail
cd "$(dirname "$0")/.."
limit=15000000
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

build() {
	local name=$1 arch=$2 tags=$3
	GOOS=linux GOARCH=$arch scripts/build.sh "$out/$name" "$tags"
	size=$(wc -c <"$out/$name")
	echo "linux/$arch $tags: $size bytes"
	if [ "$size" -ge "$limit" ]; then
		echo "that is not under $limit bytes" >&2
		exit 1
	fi
}

# The loader's name stands in a program that is linked to libraries.
static() { ! LC_ALL=C grep -q -e ld-linux "$1"; }

mkdir "$out/bin"
cat >"$out/bin/nvidia-smi" <<'END'
#!/bin/sh
case "$1" in
--query-gpu=*) echo '0, GPU-1, 00000000:01:00.0, 580.95.05, 81559, 551, 81008, 0, 9.0, Default, Disabled, [N/A], NVIDIA H100 80GB HBM3' ;;
*) exit 1 ;;
esac
END
chmod +x "$out/bin/nvidia-smi"

# starts NAME: it says what the machine is, without Python.
starts() {
	PATH=$out/bin:$PATH "$out/$1" environment --python "$out/none" --json >"$out/said" </dev/null
	grep -q '"kind": "environment"' "$out/said"
	echo "$1 starts"
}

host=$(go env GOHOSTARCH)
for arch in amd64 arm64; do
	build "$arch" "$arch" ''
	build "$arch-static" "$arch" nonvml
	static "$out/$arch-static" || { echo "the build with the tag nonvml is not static" >&2; exit 1; }
	if [ "$arch" = "$host" ] && [ "$(go env GOHOSTOS)" = linux ]; then
		starts "$arch-static"
		grep -q '"read_by": "nvidia-smi"' "$out/said"
		starts "$arch"
	fi
done
