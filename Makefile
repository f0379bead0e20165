# `make help` lists the targets. Each is one line of shell or one script, so
# that it also runs where make is not installed.
.DEFAULT_GOAL := help
.PHONY: help build static check test integration fuzz oracles update clean

ORACLES ?= ../shared
SECONDS ?= 20

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' Makefile

build: ## the program, as bin/floodmark
	@scripts/build.sh bin/floodmark

static: ## the program without NVML, as bin/floodmark: one static file
	@scripts/build.sh bin/floodmark nonvml

check: ## everything a change must pass, in under two minutes
	@scripts/check.sh

test: ## the tests alone, without the race detector
	@go test ./...

integration: ## tests against real components; names those that are missing
	@scripts/integration.sh

fuzz: ## every fuzz target for SECONDS=20 each
	@scripts/fuzz.sh $(SECONDS)

oracles: ## the tests against the facts in ORACLES=../shared
	@scripts/oracles.sh $(ORACLES)

update: ## rewrite golden and generated files; read the difference before committing
	@scripts/update.sh

clean: ## remove what was built
	rm -rf bin dist
