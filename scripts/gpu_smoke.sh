#!/usr/bin/env bash
# The first thing to run on a new machine: ten minutes on one GPU, no network. Options: scripts/gpu_smoke.sh --help
#   scripts/gpu_smoke.sh                                  one GPU
#   scripts/gpu_smoke.sh --cpu --steps 1 --model tiny     the same stages without one
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python="${PYTHON:-.venv/bin/python}"
if ! command -v "$python" >/dev/null; then
    echo "error: $python not found: run make venv, or name an interpreter: PYTHON=/path/to/python scripts/gpu_smoke.sh" >&2
    exit 1
fi
export HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false OMP_WAIT_POLICY=PASSIVE WANDB_MODE=disabled
# The stages share ten minutes among them; this ends whatever would not let itself be ended.
exec timeout --kill-after=20 "${SMOKE_LIMIT:-11m}" "$python" -m scripts.gpu_smoke "$@"
