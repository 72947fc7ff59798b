# make demo    set up, start the service, judge the example problems, stop everything (no Docker, no Redis, no root)
# make test    set up, pass the tests (as root on Debian with CI=true it installs and starts Docker first)
# make attacks every attack of docs/security.md, in every kind of box that this machine has; root sees some from outside
# make check   lint and types
# make fuzz    schemathesis against the running service's API (it installs that into .venv/fuzz)
# make serve   the service on http://127.0.0.1:8000
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed

.PHONY: install demo test attacks check fuzz serve images clean

install: $(INSTALLED)

$(INSTALLED): pyproject.toml client/pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "MicroCoder needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -m venv .venv || { echo "venv is missing: on Debian, apt-get install python3-venv"; exit 1; }
	$(BIN)/pip install --quiet --editable client --editable '.[box,dev]'
	@touch $@

demo: install
	$(BIN)/python scripts/demo.py $(ARGS)

test: install
	scripts/prepare_tests.sh
	. scripts/requirements.sh && $(BIN)/python -m pytest $(ARGS)

attacks: install
	scripts/prepare_tests.sh
	. scripts/requirements.sh && $(BIN)/python -m tests.attacks $(ARGS)

check: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

fuzz: install
	@test -x .venv/fuzz/bin/schemathesis || { $(PYTHON) -m venv .venv/fuzz && \
	  .venv/fuzz/bin/pip install --quiet 'schemathesis>=4.32,<5'; }
	$(BIN)/python scripts/fuzz.py --schemathesis .venv/fuzz/bin/schemathesis $(ARGS)

serve: install
	$(BIN)/microcoder serve $(ARGS)

images:
	scripts/build_images.sh

clean:
	rm -rf .venv dist build *.egg-info client/*.egg-info
