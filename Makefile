# Two commands do everything on a fresh machine: `make audit` and `make test`. `make reproduce` holds it against its sources.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed
READY := .venv/.ready

.PHONY: audit reproduce site test lint types unit lake libraries coverage bench clean

$(INSTALLED): pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --editable '.[attack,fast]'
	@touch $@

$(READY): $(INSTALLED)
	$(BIN)/pip install --quiet --editable '.[dev]'
	@touch $@

# Right and wrong mechanisms of the literature: some claims are refuted, which is exit status 1 and no failure here.
AUDITED := laplace noisy_hist2 noisy_max1 noisy_max3 svt1 svt3 svt4 svt5 gap_svt bad_gap_svt smart_sum prefix_sum \
	randomized_response gaussian

audit: $(INSTALLED)
	$(BIN)/veridp audit $(AUDITED) --time 8s --report report/audit.md || test $$? -eq 1

# Every figure and table of the sources beside ours: minutes, or a night with FULL=1, which goes on where it was interrupted.
reproduce: $(READY)
	$(BIN)/python -m reproduction --effort $(if $(FULL),full,quick)

# The documentation in build/site; warnings are errors.
site: $(READY)
	$(BIN)/mkdocs build --strict

test: lint types unit

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

unit: $(READY)
	$(BIN)/pytest -n 2 --dist worksteal

# Polars, also with OpenDP, Beam and Spark, in an environment of their own: nothing forks where Polars is loaded.
LAKE := .venv-lake/.ready

$(LAKE): pyproject.toml
	$(PYTHON) -m venv .venv-lake
	.venv-lake/bin/pip install --quiet --editable '.[attack,fast,lake,beam]' 'opendp[polars]' pandas pyspark \
		pytest pytest-timeout hypothesis
	@touch $@

lake: $(LAKE)
	.venv-lake/bin/pytest tests/local/test_combiner.py tests/mechanism/test_frames.py
	.venv-lake/bin/pytest tests/mechanism/test_optional_libraries.py -k polars

# Other libraries for differential privacy, in an environment of their own; tests of one that cannot be installed are
# skipped. Opacus and JAX Privacy are larger than all others together: `make libraries LARGE="torch opacus jax-privacy"`.
# Tumult needs an older NumPy: `make libraries TUMULT_PYTHON=…`, the interpreter of an environment with tmlt.core.
LIBRARIES := .venv-libraries/.ready
LARGE ?=

$(LIBRARIES): pyproject.toml
	$(PYTHON) -m venv .venv-libraries
	.venv-libraries/bin/pip install --quiet --editable '.[attack]' pandas pytest pytest-timeout hypothesis diffprivlib opendp
	for library in python-dp pipeline-dp "pure-ldp statsmodels" multi-freq-ldpy smartnoise-sql $(LARGE); do \
		.venv-libraries/bin/pip install --quiet $$library || echo "$$library could not be installed"; \
	done
	@touch $@

libraries: $(LIBRARIES)
	.venv-libraries/bin/pytest -rs tests/engines/pipeline/test_primitives.py tests/mechanism/test_library_adapters.py \
		tests/mechanism/test_optional_libraries.py \
		-k "pydp or pipelinedp or clients or opacus or jax or smartnoise or tumult"

# Branch coverage, children included, with a floor. Apart from `make test`, since it takes the suite twice as long.
COVERED ?= tests
FLOOR ?= 80

coverage: $(READY)
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest $(COVERED)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report --fail-under $(FLOOR)

bench: $(READY)
	$(BIN)/python benchmarks/sampling.py

clean:
	rm -rf .venv .venv-lake .venv-libraries build dist report
