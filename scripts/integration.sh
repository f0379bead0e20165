#!/usr/bin/env bash
# Tests against real components. A part whose component is missing prints how to
# install it; with CI=true that is a failure, because there somebody relies on it.
set -uo pipefail
cd "$(dirname "$0")/.."
. scripts/ledger.sh

# part NAME PROBE HINT FOLDER WORD: the tests of FOLDER whose names hold WORD
# need what the shell command PROBE finds. They stand in files with the build
# tag integration, so that `go test` alone needs nothing.
part() {
	local name=$1 probe=$2 hint=$3 folder=$4 word=$5
	if [ -z "$(go_files "$folder/*_test.go" | xargs -r grep -l "^func Test[A-Za-z0-9_]*$word")" ]; then
		return # nobody has written the tests of this part yet
	fi
	if sh -c "$probe" >/dev/null 2>&1; then
		step "$name" go test -count=1 -tags integration "./$folder" -run "^Test.*$word"
	elif [ "${CI:-}" = true ]; then
		failed "$name, $hint"
	else
		skipped "$name" "$hint"
	fi
}

# with_module NAME: the interpreters of FLOODMARK_TEST_TORCH, or else of PATH, that
# have the Python module, as PATH is written.
with_module() {
	local python real seen=: found= candidates
	IFS=: read -ra candidates <<<"${FLOODMARK_TEST_TORCH:-${PATH//://python3:}/python3}"
	for python in "${candidates[@]}"; do
		real=$(readlink -f "$(dirname "$python")")
		if [[ $seen != *":$real:"* ]] && [ -x "$python" ] && "$python" -c "import $1" >/dev/null 2>&1; then
			seen+=$real:
			found+=${found:+:}$python
		fi
	done
	printf %s "$found"
}

part 'pickle against Python' 'python3 -c "import pickle"' 'install Python 3 (apt-get install python3)' internal/pickle Python
part 'a sweep on Slurm' '[ "$(id -u)" = 0 ] && command -v slurmctld slurmd munged' 'as root, with Slurm (apt-get install --no-install-recommends slurm-wlm munge)' internal/cli Slurm
part 'the page in Chromium' 'command -v chromium' 'install Chromium (apt-get install chromium)' internal/cli Browser

torches=$(with_module torch)
transformers=$(with_module transformers)
FLOODMARK_TEST_TORCH=$torches part 'the probe under PyTorch' '[ -n "$FLOODMARK_TEST_TORCH" ]' \
	'install PyTorch (pip install torch) and name its interpreter in FLOODMARK_TEST_TORCH' internal/probe PyTorch
FLOODMARK_TEST_TORCH=$transformers part 'the probe under Transformers' '[ -n "$FLOODMARK_TEST_TORCH" ]' \
	'pip install torch transformers accelerate, and name the interpreter in FLOODMARK_TEST_TORCH' internal/probe Transformers

counts integration
