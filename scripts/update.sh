#!/usr/bin/env bash
# Rewrites every generated file: runs the tests of each package that has a flag
# -update with that flag. What changed is for a person to read, with git diff.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/ledger.sh

folders=$(go_files '*_test.go' | xargs -r grep -l 'flag\.Bool("update"' | xargs -r -n 1 dirname | sort -u)
for folder in $folders; do
	step "update $folder" go test -count=1 "./$folder" -update
done

counts update
