#!/usr/bin/env bash
# scripts/oracles.sh DIR, or ORACLES=DIR scripts/oracles.sh: runs the tests that
# compare with published facts too large for the tree. They are those named
# TestOracle…; here none of them may be skipped.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
invoked=$OLDPWD
. scripts/ledger.sh

given=${1:-${ORACLES:-}}
if [ -z "$given" ]; then
	echo 'usage: scripts/oracles.sh DIR' >&2
	exit 64
fi
# Tests run in their own folders, so the path must not be relative.
ORACLES=$(cd "$invoked" && cd "$given" && pwd) || { failed "oracles in $given"; counts oracles; exit 1; }
export ORACLES

mapfile -t folders < <(go_files '*_test.go' | xargs -r grep -l '^func TestOracle' | xargs -r -n 1 dirname | sort -u | sed 's,^,./,')

tests() {
	go -C tools build -o "$scratch/tally" ./tally &&
		go test -json -run '^TestOracle' -timeout 15m "${folders[@]}" 2>&1 | "$scratch/tally" -ledger "$LEDGER" -may-skip '^$'
}

if [ "${#folders[@]}" = 0 ]; then
	skipped 'oracles' 'no test is named TestOracle…'
else
	tallied 'oracles' tests
fi

counts oracles
