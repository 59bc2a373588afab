# make reproduce: six chapters with the embedded profile.  make test: everything that is checked.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin

# The CPU build of torch: from the folders in PIP_FIND_LINKS where they hold one that fits, else from torch's CPU index.
# For GPUs: UV_TORCH_BACKEND=auto make env
empty :=
comma := ,
export UV_FIND_LINKS ?= $(subst $(empty) $(empty),$(comma),$(strip $(PIP_FIND_LINKS)))
TORCH := $(shell sed -n 's/^ *"\(torch>=[^"]*\)",$$/\1/p' pyproject.toml)
INSTALL := $(BIN)/uv pip install --quiet --python $(BIN)/python

.PHONY: env reproduce test test-slow test-oracles test-ascend lint notebooks clean

env: $(VENV)/.ready

# --without-pip: Debian's Python has no ensurepip unless python3-venv is installed; the system's pip can fill the new environment.
$(VENV)/.ready: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv --without-pip $(VENV)
	$(PYTHON) -m pip --quiet --python $(BIN)/python install uv
	if [ -z "$$UV_TORCH_BACKEND" ] && ! $(INSTALL) --no-index --no-deps '$(TORCH)' 2>/dev/null; then \
	  export UV_TORCH_BACKEND=cpu; fi; $(INSTALL) -e '.[dev]'
	touch $@

reproduce: env
	$(BIN)/trex reproduce --profile embedded

lint: env
	$(BIN)/ruff check .
	$(BIN)/ruff format --check src tests bench
	$(BIN)/mypy

test: lint
	$(BIN)/python -m pytest tests
	$(BIN)/python -m pytest --nbval --nbval-current-env -p no:cacheprovider notebooks

# What is too long for every day: grids, kill tests. The whole trials: TREX_GRID=whole TREX_FAMILY_SEEDS=5
# TREX_KILL_ROUNDS=20 TREX_KILLS=20 TREX_MUTATIONS=2000 make test-slow
test-slow: env
	$(BIN)/python -m pytest tests -m slow $(SLOW)

# The solver's tests with Gurobi (licence for small models), nauty and igraph (GPL) to compare with, and two Ray nodes;
# installs them.
test-oracles: env
	$(INSTALL) -e '.[oracles,cluster]'
	$(BIN)/python -m pytest tests/solver
	$(BIN)/python -m pytest tests/data/test_ray.py -m slow

# Does the ascend extra resolve on the stacks that NPU nodes run? Asks the package registry.
test-ascend: env
	$(BIN)/python -m pytest tests -m registry

# Execute every notebook in place with its defaults, ready to commit.
notebooks: env
	$(BIN)/trex notebooks

clean:
	rm -rf $(VENV) runs
