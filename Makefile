# SPDX-License-Identifier: Apache-2.0
# Every target sets up what it needs; a second run installs nothing. Bare `make` prints the targets.
PY := .venv/bin/python
RUN := .venv/bin/
export PATH := $(CURDIR)/.venv/bin:$(PATH)

.DEFAULT_GOAL := help
.PHONY: help run cluster-demo test check bench generate golden mutants soak prometheus-check otlp-check upgrade-check gpu-wheels gpu-check doctor build setup clean

help: ## print the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 18

run: setup ## set up, run a traced GPU job from submit to report, leave nothing behind
	@$(RUN)stoker demo

cluster-demo: setup ## as root: three servers in network namespaces, of which the leading one dies with a traced job
	@$(RUN)stoker demo --cluster

# Hundreds of Python processes in a row: each is to find what the one before it has compiled.
# Four workers for two cores: a node that starts is waited for more than it computes. Tests that
# trace jobs and load programs run two at a time, so that each has a core, and those of several nodes
# that are judged in time run one by one.
test: setup ## set up, run every test
	@failed=0; unset PYTHONDONTWRITEBYTECODE; \
	$(PY) -m pytest -q -n 4 --dist loadscope -m "not machine and not alone" || failed=1; \
	$(PY) -m pytest -q -n 2 --dist loadscope -m machine || failed=1; \
	$(PY) -m pytest -q -m alone || failed=1; \
	exit $$failed

check: setup ## ruff, mypy, import contracts, clang-format
	@$(RUN)ruff check .
	@$(RUN)ruff format --check .
	@MYPYPATH=src $(PY) -m mypy
	@$(RUN)lint-imports
	@git ls-files '*.c' '*.h' ':!probes/bpf/vmlinux/*' | xargs -r clang-format --dry-run --Werror

# Each takes less than a minute. The README names, figure by figure, what takes longer.
bench: setup ## measure: submit path, log, commands, tracing, decisions, reading cards, faults, as JSON
	@$(RUN)stoker bench submit --json
	@$(RUN)stoker bench log --json
	@$(RUN)stoker bench cli --json
	@$(RUN)stoker bench trace --json
	@$(RUN)stoker bench decide --json
	@$(RUN)stoker bench devices --seconds 5 --json
	@$(RUN)stoker sim faults --json
	@echo "longer: stoker bench probes (13 min), sim power-loop, sim openb: README.md, Figures" >&2

generate: ## write the files that are made from wire.h, reason.h and job_options.toml
	@$(PY) -m generate

golden: setup ## rewrite the golden files; read the diff before committing it
	@STOKER_GOLDEN=rewrite $(PY) -m pytest -q tests -k golden

mutants: setup ## plant faults in the core and in Python one by one: each must be noticed
	@$(PY) -m tests.native.core.mutants.hunt
	@$(PY) -m tests.agent.sim.mutants.hunt

# Each round writes what it saw under docs/measurements/ and fails if that is not as it should be.
soak: setup ## slow rounds against real processes, as root: minutes
	@$(PY) -m tests.soak.start_bursts
	@$(PY) -m tests.soak.short_launches
	@$(PY) -m tests.soak.floods
	@$(PY) -m tests.soak.node_floods
	@$(PY) -m tests.soak.arrays
	@PYTHONPATH=tests $(PY) -m tests.soak.gang_starts
	@$(PY) -m tests.soak.slow_ranks
	@$(PY) -m tests.soak.slow_ranks --neighbours 1 --runs 100
	@$(PY) -m tests.soak.rank_ways
	@$(PY) -m tests.soak.long_rounds

prometheus-check: setup ## unpack the distribution's Prometheus, let it scrape a simulated node
	@.ci/prometheus
	@$(PY) -m pytest -q tests/product/test_prometheus.py

otlp-check: setup ## as root: traces of a node at Arize Phoenix and at a collector, read back
	@.ci/phoenix
	@$(PY) -m tests.soak.otlp_backends

# The last build whose newest feature level is 3. Another one: make upgrade-check BEFORE=<commit>
BEFORE ?= 4a7a8399
upgrade-check: setup ## as root: servers of an earlier build (BEFORE=<commit>) are upgraded to this one
	@.ci/before $(BEFORE)
	@STOKER_BEFORE=$(CURDIR)/build/before/.venv/bin/stoker $(PY) -m pytest -q tests/product/test_upgrade_from_before.py

gpu-wheels: setup ## collect in build/gpu what gpu-check needs on a machine without network
	@.ci/gpu-wheels

gpu-check: ## on a machine with an NVIDIA GPU: traces against the truth, clocks, overhead curve
	@.ci/gpu-check

doctor: setup ## what works on this machine, what does not, and why
	@$(RUN)stoker doctor

build: ## compile the C parts again after a change
	@.ci/setup build

setup: ## system packages, virtual environment, build (only what is missing)
	@.ci/setup

clean: ## remove the virtual environment and every build output
	rm -rf .venv build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
