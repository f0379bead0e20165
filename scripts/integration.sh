#!/usr/bin/env bash
# Tests against real components. A part whose component is missing prints how to
# install it; with CI=true that is a failure, because there somebody relies on it.
set -uo pipefail
cd "$(dirname "$0")/.."
. scripts/ledger.sh

# part NAME PROBE HINT PACKAGE PATTERN: the tests of PACKAGE that match PATTERN
# need what the shell command PROBE finds. They stand in files with the build
# tag integration, so that `go test` alone needs nothing.
part() {
	local name=$1 probe=$2 hint=$3 folder=$4 pattern=$5
	if ! go test -tags integration "$folder" -list "$pattern" 2>/dev/null | grep -q '^Test'; then
		return # nobody has written the tests of this part yet
	fi
	if sh -c "$probe" >/dev/null 2>&1; then
		step "$name" go test -count=1 -tags integration "$folder" -run "$pattern"
	elif [ "${CI:-}" = true ]; then
		failed "$name, $hint"
	else
		skipped "$name" "$hint"
	fi
}

part 'pickle against Python' 'python3 -c "import pickle"' 'install Python 3 (apt-get install python3)' ./internal/pickle 'Python'

counts integration
