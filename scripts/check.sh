#!/usr/bin/env bash
# Everything that a change must pass: style, vet, staticcheck, module files,
# the tests, with the race detector where something runs side by side (with them
# the import list, the house rules, the drift of generated files and the fuzz
# seeds), both processors, and output that is the same twice. No network once the
# module cache is filled.
set -uo pipefail
cd "$(dirname "$0")/.."
. scripts/ledger.sh

unformatted() {
	local list
	list=$(go_files '*.go' | xargs -r "$(go env GOROOT)/bin/gofmt" -l)
	[ -z "$list" ] || { printf 'not formatted by gofmt:\n%s\n' "$list"; return 1; }
}

# The race detector needs a C compiler. Without one the tests still run.
race() {
	if [ "$(go env CGO_ENABLED)" = 1 ] && command -v "$(go env CC)" >/dev/null; then
		echo -race
	fi
}

# Folders with code or tests that run side by side. In the others the race detector
# would cost minutes and see nothing.
side_by_side() {
	go_files '*.go' | xargs -r grep -lE '^[[:space:]]*go (func|[a-z]+\()|\.Go\(|t\.Parallel\(|"net/http' | xargs -r -n 1 dirname | sort -u | sed 's,^,./,'
}

tests() {
	local flags=(-shuffle=on -timeout 20m) raced rest
	# .ci/run gives the oracles a run of their own.
	[ -z "${WITHOUT_ORACLES:-}" ] || flags+=(-skip '^TestOracle')
	raced=$(side_by_side | xargs go list)
	rest=$(go list ./... | grep -vxF "$raced")
	{
		xargs go test -json $(race) "${flags[@]}" <<<"$raced"
		xargs go test -json "${flags[@]}" <<<"$rest"
	} 2>&1 | "$scratch/tally" -ledger "$LEDGER"
}

step 'gofmt' unformatted
step 'go vet' go vet -tags integration ./...
step 'go vet of the static build' go vet -tags nonvml ./device/... ./cmd/...
step 'staticcheck' go tool -modfile=tools/go.mod staticcheck ./...
step 'go mod tidy' go mod tidy -diff
step 'tools: go mod tidy' go -C tools mod tidy -diff
step 'tools: tests' go -C tools test ./...
step 'tally' go -C tools build -o "$scratch/tally" ./tally
if [ -z "$(race)" ]; then
	skipped 'race detector' 'install a C compiler (apt-get install gcc libc6-dev)'
fi
tallied 'go test' tests
step 'arm64 and amd64, with and without NVML, under 15 MB' scripts/cross.sh
step 'the same output twice' scripts/deterministic.sh

counts check
