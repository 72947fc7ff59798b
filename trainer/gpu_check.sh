#!/usr/bin/env bash
# Trains a small model on this machine's GPU, or CPU, with rewards from a service beside it: seconds by phase and a curve.
#
#   trainer/gpu_check.sh [--out DIR] [--model FOLDER] [--steps N]
#
# Needs no network. PYTHON names the interpreter that has the extra `trainer`; without boxes of Docker or bubblewrap,
# --url names a service elsewhere.
set -euo pipefail
cd "$(dirname "$0")/.."
PYTHON=${PYTHON:-$(if [[ -x .venv/bin/python ]]; then echo .venv/bin/python; else command -v python3; fi)}
"$PYTHON" -c 'import torch, trl, matplotlib' 2>/dev/null || {
    echo "gpu_check: $PYTHON lacks the trainer's packages: pip install -e client -e '.[trainer]'" >&2
    exit 1
}
export HF_HUB_OFFLINE=1 OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} PYTHONPATH=.:client${PYTHONPATH:+:$PYTHONPATH}
exec "$PYTHON" -m trainer.gpu_check "$@"
