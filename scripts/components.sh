#!/usr/bin/env bash
# Installs the real components that the integration tests run against, where they
# are missing: Debian's packages (as root), and PyTorch with transformers in a
# virtual environment outside of the checkout. It prints the interpreters that
# have PyTorch, as FLOODMARK_TEST_TORCH wants them. CI runs it; a person may.
set -uo pipefail
cd "$(dirname "$0")/.."

# missing COMMAND PACKAGE: installs a package whose command is not there.
missing() {
	command -v "$1" >/dev/null && return
	if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
		echo "there is no $1: apt-get install --no-install-recommends $2" >&2
		return
	fi
	[ -n "${updated:-}" ] || apt-get update -qq >&2
	updated=yes
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$2" >&2
}

missing gcc gcc
missing chromium chromium
missing munged munge
missing slurmctld slurm-wlm
if [ -x /usr/bin/python3 ] && ! /usr/bin/python3 -c 'import torch' 2>/dev/null; then
	missing no-command-of-that-name python3-torch
fi

environment=${XDG_CACHE_HOME:-$HOME/.cache}/floodmark/python
if ! "$environment/bin/python" -c 'import torch, transformers, accelerate' 2>/dev/null; then
	python3 -m venv "$environment" >&2 && "$environment/bin/pip" install -q -r oracle/requirements.txt accelerate >&2
fi
echo "$environment/bin/python:/usr/bin/python3"
