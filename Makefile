# make reproduce: six chapters with the embedded profile.  make test: everything that is checked.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
export PYTHONHASHSEED ?= 0

# The CPU build of torch, unless told otherwise (UV_TORCH_BACKEND=cu128 make env, or a folder of wheels in PIP_FIND_LINKS).
ifneq ($(PIP_FIND_LINKS),)
export UV_FIND_LINKS ?= $(PIP_FIND_LINKS)
else
export UV_TORCH_BACKEND ?= cpu
endif

.PHONY: env reproduce test lint notebooks clean

env: $(VENV)/.ready

# --without-pip: Debian's Python has no ensurepip unless python3-venv is installed; the system's pip can fill the new environment.
$(VENV)/.ready: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv --without-pip $(VENV)
	$(PYTHON) -m pip --quiet --python $(BIN)/python install uv
	$(BIN)/uv pip install --quiet --python $(BIN)/python -e '.[dev]'
	touch $@

reproduce: env
	$(BIN)/trex reproduce --profile embedded

lint: env
	$(BIN)/ruff check .
	$(BIN)/mypy

test: lint
	$(BIN)/python -m pytest tests
	$(BIN)/python -m pytest --nbval --nbval-current-env -p no:cacheprovider notebooks

clean:
	rm -rf $(VENV) runs
