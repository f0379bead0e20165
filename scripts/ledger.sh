# Sourced by every script that checks something. Each check writes one line to
# the ledger: its outcome (pass, fail or skip), its name, and for a skip why.
# A script that starts another hands its ledger on, so that the outermost one
# counts everything.

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

export LEDGER=${LEDGER:-$scratch/ledger}
[ -e "$LEDGER" ] || : >"$LEDGER"
ledger_begin=$(wc -l <"$LEDGER")

# A working tree without the owner's marks is no reason to fail, and no check
# needs the commit stamped into a program.
export GOFLAGS="${GOFLAGS:-} -buildvcs=false"

# passed NAME, failed NAME, skipped NAME REASON
passed() { printf 'pass\t%s\t\n' "$1" >>"$LEDGER"; }
failed() { printf 'fail\t%s\t\n' "$1" >>"$LEDGER"; }
skipped() { printf 'skip\t%s\t%s\n' "$1" "$2" >>"$LEDGER"; }

# tallied NAME COMMAND...: runs a command that writes its own lines. Its failure
# is a line of its own only when none of those says so.
tallied() {
	local name=$1 before
	shift
	before=$(wc -l <"$LEDGER")
	"$@" || [ -n "$(tail -n "+$((before + 1))" "$LEDGER" | grep '^fail')" ] || failed "$name"
}

# step NAME COMMAND...: runs one check; its output is shown when it fails.
step() {
	local name=$1 output
	shift
	if output=$("$@" 2>&1); then
		passed "$name"
		printf 'ok    %s\n' "$name"
	else
		failed "$name"
		printf 'FAIL  %s\n' "$name"
		[ -z "$output" ] || printf '%s\n' "$output" | sed 's/^/      /'
	fi
}

# counts WORD: one line for all that this script and those it started did, the
# skips by name before it. It fails when a check failed.
counts() {
	tail -n "+$((ledger_begin + 1))" "$LEDGER" | awk -F '\t' -v word="$1" '
		$1 == "pass" { pass++ }
		$1 == "fail" { fail++; print "FAILED: " $2 }
		$1 == "skip" { skip++; print "NOT RUN: " $2 ", " $3 }
		END {
			printf "%s: %d passed, %d failed, %d skipped\n", word, pass, fail, skip
			exit fail > 0
		}'
}

# go_files PATTERN: the files that git tracks or would track, one a line.
go_files() {
	git ls-files --cached --others --exclude-standard -- "$1" | while IFS= read -r file; do
		[ ! -f "$file" ] || printf '%s\n' "$file"
	done | sort -u
}
