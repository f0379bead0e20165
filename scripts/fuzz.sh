#!/usr/bin/env bash
# scripts/fuzz.sh SECONDS: runs every fuzz target of the tree for that long, as
# many at once as there are processors. An input that breaks one is kept under the
# package's testdata/fuzz, where every later `go test` tries it again.
set -uo pipefail
cd "$(dirname "$0")/.."
. scripts/ledger.sh
seconds=${1:-20}

# The go command reports its own deadline as a failure of the target now and
# then (golang/go#48591); nothing is broken as long as no input was written.
only_the_deadline() {
	grep -q 'context deadline exceeded' "$1" && ! grep -q -e 'Failing input written' -e 'panic:' "$1"
}

fuzz() {
	local folder=$1 target=$2 said
	said=$scratch/said.$target.${folder//\//.}
	if go test "./$folder" -run '^$' -fuzz "^$target\$" -parallel 1 -fuzztime "${seconds}s" -fuzzminimizetime 5s >"$said" 2>&1 ||
		only_the_deadline "$said"; then
		passed "$folder.$target"
		printf 'ok    %s.%s: %s\n' "$folder" "$target" "$(grep -o 'execs: [0-9]*' "$said" | tail -n 1)"
	else
		failed "$folder.$target"
		printf 'FAIL  %s.%s\n' "$folder" "$target"
		sed 's/^/      /' "$said"
	fi
}

while IFS= read -r file; do
	for target in $(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*\*testing\.F).*/\1/p' "$file"); do
		while [ "$(jobs -rp | wc -l)" -ge "$(nproc)" ]; do wait -n; done
		fuzz "$(dirname "$file")" "$target" </dev/null &
	done
done < <(go_files '*_test.go')
wait

counts fuzz
