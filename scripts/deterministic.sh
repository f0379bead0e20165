#!/usr/bin/env bash
# Runs each command of the built program twice, in two folders and with another
# environment, and compares standard output, standard error and exit code byte
# for byte.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD

# One command a line; a word is split at spaces, and @ stands for the checkout.
commands=(
	'--help'
	'estimate --help'
	'gpus'
	'gpus --json'
	'estimate --parameters 7000000000 --bits 16 --reserve-gib 4'
	'estimate --parameters 7000000000 --bits 16 --reserve-gib 4 --json'
	'estimate @/testdata/models/Llama-3.1-70B-Instruct --context 8192 --generated 1024 --sequences 32 --gpu h100'
	'estimate @/testdata/models/Llama-3.1-70B-Instruct --context 8192 --generated 1024 --sequences 32 --gpu h100 --json'
	'explain @/testdata/snapshots/training_step.pickle'
	'explain @/testdata/snapshots/training_step.pickle --json'
	'explain @/testdata/oom/exhaustion.txt'
	'explain @/testdata/oom/exhaustion.txt --json'
)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
go build -buildvcs=false -trimpath -o "$work/floodmark" ./cmd/floodmark

# once FOLDER WORDS...
once() {
	local folder=$1 code=0
	shift
	mkdir -p "$folder"
	(cd "$folder" && "$work/floodmark" "$@" >"$work/out" 2>"$work/err" </dev/null) || code=$?
	{ cat "$work/out"; echo '-- stderr --'; cat "$work/err"; echo "-- exit $code --"; } >"$folder.said"
}

status=0
for command in "${commands[@]}"; do
	read -ra words <<<"${command//@/$root}"
	TZ=UTC LC_ALL=C once "$work/first" "${words[@]}"
	TZ=Asia/Tokyo LC_ALL=C.UTF-8 GOMAXPROCS=1 once "$work/second" "${words[@]}"
	if ! diff -u "$work/first.said" "$work/second.said"; then
		echo "floodmark $command: two runs differ" >&2
		status=1
	fi
	# A command that only ever fails would be equal to itself for ever.
	if grep -q -e '^-- exit \(1\|64\|2\) --$' "$work/first.said"; then
		echo "floodmark $command: does not work" >&2
		cat "$work/first.said" >&2
		status=1
	fi
done
echo "${#commands[@]} commands, each run twice"
exit $status
