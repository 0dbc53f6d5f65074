# SPDX-FileCopyrightText: The Leat Authors
# SPDX-License-Identifier: Apache-2.0

# Verbs only. `make help` lists them; what each does is one or two lines below.
SHELL := /bin/sh
BIN := $(CURDIR)/.bin
GO ?= go
ARGS ?=

# How many times each test runs, and which; for hunting: make test COUNT=20 PKG=./services/gitcache/... RUN=TestClones
COUNT ?= 1
PKG ?= work
RUN ?=

# A failed test runs again, and is printed as FLAKY if it then passes; see tools/test/run.sh. Not in a hunt.
export RERUNS ?= $(if $(filter 1,$(COUNT)),2,0)

# Tests of files, and of programs in processes of their own: the race detector would watch the tests alone. And those of
# WebAssembly: compiling a module takes ten times as long under it. (A library that is compiled without it cannot be
# linked beside code with it: both hold the same instances of generic types, such as those of sync.Map, and one is used.)
OUTSIDE := github.com/leatdev/leat/(test/(arch|release.*|supply)|render/wasm)

# Prints the packages in which nothing runs at once: the race detector cannot find anything in their tests, which take a
# quarter of the time without it. test/runs/sequential says which packages these are; nobody lists them.
SEQUENTIAL := $(GO) list -json=ImportPath,Dir,GoFiles,TestGoFiles,XTestGoFiles,Imports,TestImports,XTestImports work | $(GO) run ./test/runs/cmd/leat-sequential

# Prints the packages without tests. go test compiles them, too. With the race detector it would compile everything that only
# programs link, such as SQL, CUE and Jsonnet, and no test would run it.
UNTESTED := $(GO) list -f '{{if not (or .TestGoFiles .XTestGoFiles)}}{{.ImportPath}}{{end}}' work

# Whole hubs and services, databases, API servers, renderers, and packages that compute: with the race detector, their
# tests take up to three times as long. What they link is compiled a second time for it: without these packages it is half
# as much, since Helm, CUE, SQL and most of Kubernetes' client are not among it. The detector watches the tests of the
# packages that services are made of. The nightly `make test-random` has it here, too.
UNRACED ?= github.com/leatdev/leat/(bench(/.*)?|cli/(cmd/leat|internal/(command(/access)?|migration|reference|up))|internal/runtime/localkube(/.*)?|render(/[a-z]+)?|services/(agent(/cmd/agent)?|distributor|gitcache|tunnel|distributor/internal/sqlstore|gitcache/internal/(backend|history|pack)|agent/internal/(kube|manifest))|test/(browser|containers|deploy|node|suite|tunnel))

# Sieges: whole hubs are attacked, killed, frozen and upgraded. They take minutes of both cores, and few changes touch what they
# find, so `make siege` runs them: CI if its hour has room, and the nightly workflow.
SIEGES := github.com/leatdev/leat/test/(attack|fault)

# Matrices: tests with thousands of cells, one after the other. `make test` walks a part of each with the race detector, and
# `make siege` walks all of it without.
MATRICES := ./services/distributor
MATRIX := ^TestAccessToCalls$$

# Tests that measure memory, in packages that the race detector watches, which holds memory of its own. They skip there.
MEASURED := ./internal/runtime/h2 ./internal/runtime/serve ./services/agent/internal/kube/watch
MEASURE := ^(TestSecMemory|TestFootprint)$$

# Tests that wait for other processes most of their time. They begin first, so that others use the cores meanwhile.
FIRST := github.com/leatdev/leat/(test/.*|services/(tunnel|gitcache|distributor|distributor/internal/sqlstore|agent/internal/kube))
# Of these, the ones whose tests run one after the other, for many minutes: what begins late ends alone.
LONGEST := github.com/leatdev/leat/(test/suite|services/distributor/internal/sqlstore|services/distributor)

# Libraries that turn bytes into bytes in loops. The race detector follows each byte, which takes a third of the time of
# the tests of packs. None of them starts a goroutine or uses atomic values, as test/arch checks. Goroutines that share a
# compressor or a point of a curve also race in the packages around these, which the detector watches.
COMPUTING := compress/flate hash/adler32 github.com/klauspost/compress/flate github.com/klauspost/compress/fse \
	github.com/pjbgf/sha1cd github.com/pjbgf/sha1cd/ubc \
	crypto/internal/fips140/bigmod crypto/internal/fips140/edwards25519 crypto/internal/fips140/edwards25519/field \
	crypto/internal/fips140/mlkem crypto/internal/fips140/nistec crypto/internal/fips140/nistec/fiat \
	crypto/internal/fips140/sha3

# What makes a run shorter and finds no less: four packages at a time, since many wait for processes; `make lint` vets;
# without symbols, programs link in less than half the time, and traces stay as they are; a program with the race
# detector sleeps for a second before it exits unless GORACE says otherwise; SQLite is C in the guise of Go, and calls
# to it are serialized.
FAST := -p 4 -vet=off -ldflags=-s
RACE := -race '-gcflags=modernc.org/...=-race=false -d=checkptr=0' $(foreach package,$(COMPUTING),'-gcflags=$(package)=-race=false -d=checkptr=0')
export GORACE ?= atexit_sleep_ms=50
# A test's heap is small, so with Go's default it is collected all the time, which took a quarter of the time of tests.
# Programs that are attacked and measured (make siege, slow, fault, bench) collect as they do when they are shipped.
ROOMY := GOGC=$(or $(GOGC),400)
# Without the path of the checkout in it, what was compiled in one checkout serves every other one.
export GOFLAGS ?= -trimpath
# What is shipped has no cgo. The race detector needs it, so there are two variants of each package and not three. Tests
# compile leat and the services: `make test` compiles leat first, or its packages would compile in the middle of tests.
export CGO_ENABLED ?= 0
WITHRACE := CGO_ENABLED=1
# The order of tests and what property tests try. A change is judged by its own faults: without a fixed seed, it can
# fail for one that has been there for weeks. The nightly workflow tries another seed each time, and finds those.
SEED ?= 1
export RAPID_SEED ?= $(SEED)
FLAGS = $(FAST) -shuffle=$(SEED) -count=$(COUNT) -timeout 45m $(if $(value RUN),-run '$(value RUN)')
TEST = tools/test/run.sh

# Packages whose tests need a program that takes minutes to compile, such as a Vault, or that take minutes themselves.
# `make slow` runs these tests, and writes docs/design/slow-tests.md.
# Each of them asks for LEAT_SLOW.
SLOW = $(addprefix ./,$(sort $(dir $(shell git grep -l 'Getenv("LEAT_SLOW")' -- '*_test.go'))))

# Packages with generated code.
GENERATED := ./gen/... ./internal/contract/reason/...

# How long `make fuzz` runs each target, and `make attack` each attack on each server.
FUZZTIME ?= 30s
ATTACKTIME ?= 30s

.PHONY: help up demo down ui ui-test ui-story ui-dev quick test test-random siege test-all slow gameday fault attack fuzz bench lint fmt prose generate reasons dashboards manifests authorities notices tidy build breaking docs tools kube registry grpcurl containers node system browser sbom release vulncheck pin pinned ci
.DEFAULT_GOAL := help

help: ## List these verbs
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

up: system ui-if-possible $(BIN)/leat ## Start the whole of Leat here, with a real cluster and a demo repository (Ctrl-C ends it; NO_UI=1 leaves the web UI out)
	@$(BIN)/leat up $(ARGS)

demo: system ui-if-possible $(BIN)/leat ## Record the demo of README again, from a real leat up on the usual ports, into docs/start
	@$(GO) run ./cli/cmd/leat-demo -leat $(BIN)/leat -out docs/start

down: ## Forget what `make up` keeps between starts
	@rm -rf .leat && echo "removed .leat"

ui: ## Build the web UI, which the distributor embeds, if something in web/ changed
	@tools/ui.sh build

ui-test: browser ## Run the tests of the web UI, some of them in Chromium
	@echo "==> npm test (the web UI)"
	@tools/ui.sh run test

# What the stories in web/e2e start beside a hub.
.PHONY: beside
beside:
	@$(GO) build -trimpath -o $(BIN)/leat-kube ./internal/runtime/localkube/cmd/leat-kube
	@$(GO) build -trimpath -o $(BIN)/leat-provider ./test/openid/cmd/leat-provider

ui-story: system browser ui kube programs beside $(BIN)/leat ## Follow people through the web UI of whole hubs, with real clusters
	@echo "==> npm run e2e (the web UI of whole hubs)"
	@tools/ui.sh run e2e

ui-dev: ## Serve the web UI at http://leat.localhost:5173/ui/ with live updates, before a leat up that runs (LEAT_DEV_HUB: another hub)
	@LEAT_DEV_HUB=$${LEAT_DEV_HUB:-http://leat.localhost:8700} tools/ui.sh run dev

quick: $(BIN)/gotestsum ## Run the tests that start no server, no browser and no program of ours, without the race detector, where something changed
	@failed=0; $(ROOMY) $(TEST) quick "$$(tools/test/quick.sh)" $(FAST) -timeout 10m || failed=1; \
		$(ROOMY) $(TEST) rules ./test/arch $(FAST) -count=1 || failed=1; exit $$failed

test: system browser needs $(if $(filter work,$(PKG)),ui-beside) ## Run every module's tests but sieges, most of them with the race detector, in an order by SEED, and those of the web UI, also in a whole leat up
	@echo "==> go test (every module, most with -race, -shuffle=$(SEED); the first run compiles for some minutes)"
ifeq ($(PKG),work)
	@failed=0; order() { grep -E '^$(LONGEST)$$' "$$1"; grep -E '^$(FIRST)$$' "$$1" | grep -vE '^$(LONGEST)$$'; grep -vE '^$(FIRST)$$' "$$1"; }; \
		$(ROOMY) $(TEST) outside "$$(order .test/unraced)" $(FLAGS) || failed=1; \
		$(ROOMY) $(WITHRACE) $(TEST) test "$$(order .test/raced)" $(FLAGS) $(RACE) || failed=1; \
		$(if $(value RUN),,$(ROOMY) $(TEST) measured "$(MEASURED)" $(FLAGS) -run '$(MEASURE)' || failed=1;) exit $$failed
else
	@$(ROOMY) $(WITHRACE) $(TEST) test "$(PKG)" $(FLAGS) $(RACE)
endif
	@echo "==> left out: hubs attacked, killed and frozen (make siege), images and docker-compose.yml on a real engine (make containers), the charts on a real node (make node), Gitea as an upstream, Prometheus behind the tunnel, a real Vault, a real sops, takeovers from Argo CD and Flux, Traefik in front of a hub, the game day, the AssemblyScript example, the long fault runs (make test-all), fuzzing (make fuzz)"

siege: system browser ui kube programs beside $(BIN)/leat $(BIN)/gotestsum ## Attack, kill, freeze, cut and upgrade whole hubs, the short form of `make attack` and `make fault`, walk whole matrices, and do both to the web UI
	@tools/before/build.sh >/dev/null || [ $$? = 3 ] # it says that the checkout lacks the version before
	@failed=0; $(TEST) siege "$$($(GO) list work | grep -E '^$(SIEGES)$$')" $(FLAGS) || failed=1; \
		LEAT_MATRIX=whole $(TEST) matrix "$(MATRICES)" $(FLAGS) $(if $(value RUN),,-run '$(MATRIX)') || failed=1; \
		$(if $(value RUN),,tools/ui.sh run siege && tools/ui.sh run e2e-siege || failed=1;) exit $$failed

test-random: ## Run what make test runs, with the race detector wherever something runs at once, and the SEED of this second, which its first line names
	@$(MAKE) --no-print-directory test UNRACED= SEED=$$(date +%s)

test-all: test siege slow fault ## Tests, those that take too long for every day, and the long fault runs

slow: system kube registry $(BIN)/gotestsum ## Fetch from a whole Git host and open pull requests at it, reach a Prometheus through the tunnel, hold the game day, seal with a Vault, tell the story of a fleet and follow the tutorial with it, encrypt with sops, take services over from Argo CD and Flux, stand a Traefik in front of a hub, build the AssemblyScript example (with npm)
	@tools/gitea/build.sh >/dev/null
	@tools/prometheus/build.sh >/dev/null
	@tools/argocd/build.sh >/dev/null
	@tools/flux/build.sh >/dev/null
	@tools/traefik/build.sh >/dev/null
	@tools/vault/build.sh >/dev/null
	@tools/sops/build.sh >/dev/null
	@failed=0; RERUNS=0 LEAT_SLOW=1 $(TEST) slow "$(SLOW)" $(FAST) -count=1 -timeout 20m -run '^TestSlow' || failed=1; \
		$(GO) run ./test/runs/cmd/leat-runs -record docs/design/slow-tests.md -commit "$$(git describe --always --dirty)" .test/slow.events.json; exit $$failed

gameday: system kube ## Break a hub under a real Prometheus, see each alert fire and end, and write docs/operations/game-day.md
	@tools/prometheus/build.sh >/dev/null
	@LEAT_SLOW=1 LEAT_GAMEDAY=$(CURDIR)/docs/operations/game-day.md $(GO) test -count=1 -timeout 30m -v -run '^TestSlowGameDay$$' ./test/fault

fault: system kube ## Kill, freeze and cut parts of a running hub at random, and the tunnel's failures, the long form
	@LEAT_FAULT_LONG=1 $(GO) test -count=1 -timeout 60m -v ./test/fault/...
	@LEAT_FAULT_LONG=1 $(GO) test -count=1 -timeout 60m ./test/tunnel/...
	@LEAT_FAULT_LONG=1 $(GO) test -count=1 -timeout 60m -parallel 8 -v -run '^TestKeysRotateUnderLoad$$|^TestRightsFollowTheModel$$' ./services/distributor
	@LEAT_FAULT_LONG=1 $(GO) test -count=1 -v ./services/distributor/internal/rollout
	@LEAT_FAULT_LONG=1 $(GO) test -count=1 -timeout 60m -p 1 -run '^TestF[0-9]|^TestViewersSee' ./services/tunnel/... ./services/agent/internal/uplink/... ./internal/runtime/h2/...

attack: system ## Attack every service without credentials, for ATTACKTIME each, beside net/http, and print the table
	@LEAT_ATTACK=$(ATTACKTIME) $(GO) test -count=1 -timeout 180m -v -run '^TestSec' $(ARGS) ./test/attack/

fuzz: ## Run every fuzz target, for FUZZTIME each
	@tools/fuzz.sh $(FUZZTIME)

bench: system $(if $(filter work,$(PKG)),browser) ## Run the benchmarks beside their peers and print the tables of bench/RESULTS.md (never part of ci)
	@$(GO) test -run '^$$' -bench . -benchmem -timeout 60m $(ARGS) $(PKG) | tee /dev/stderr | $(GO) run ./bench/cmd/benchtable
	$(if $(filter work,$(PKG)),@tools/ui.sh run bench)

lint: $(BIN)/golangci-lint $(BIN)/buf ## Vet, lint and check formatting of Go, proto and the web UI
	@$(GO) vet $(GENERATED) # the linter has all of vet's checks, and reports none in generated code
	@for m in $$($(GO) list -m -f '{{.Dir}}'); do echo "==> lint $${m#$(CURDIR)/}"; (cd "$$m" && $(BIN)/golangci-lint run --config $(CURDIR)/.golangci.yml ./...) || exit 1; done
	@$(BIN)/buf lint
	@$(BIN)/buf format --diff --exit-code
	@echo "==> lint web"
	@tools/ui.sh run lint

fmt: $(BIN)/golangci-lint $(BIN)/buf ## Format Go and proto
	@for m in $$($(GO) list -m -f '{{.Dir}}'); do (cd "$$m" && $(BIN)/golangci-lint fmt --config $(CURDIR)/.golangci.yml ./...) || exit 1; done
	@$(BIN)/buf format -w

prose: ## Count the habits of translated English that test/arch bounds, by habit and folder
	@cd test && $(GO) test $(FAST) -count=1 -v ./arch -run TestHabitsAreRare

generate: $(BIN)/buf reasons ## Generate code and documents
	@$(BIN)/buf generate
	@tools/ui.sh run generate
	@$(MAKE) --no-print-directory docs dashboards manifests authorities notices

reasons: ## Generate internal/contract/reason from reason.proto
	@$(GO) run ./internal/contract/reason/cmd/leat-reasons

docs: ## Generate docs/reference/{config,errors,metrics,health-kinds,rights}.md and docs/reference/agent/reads.md from the code
	@cd cli && $(GO) run ./cmd/leat-docs -out $(CURDIR)/docs/reference
	@cd services/agent && $(GO) test $(FAST) ./internal/health -run TestDocumentedKinds -update >/dev/null
	@cd services/distributor && $(GO) test $(FAST) . -run TestTableOfRights -update >/dev/null
	@cd test && $(GO) test $(FAST) ./arch -run TestTableOfReads -update >/dev/null

dashboards: ## Write deploy/dashboards and deploy/prometheus from test/observability
	@$(GO) run ./test/observability/cmd/leat-dashboards

manifests: ## Render deploy/kubernetes from the Helm charts, and write the tables of their values
	@$(GO) run ./test/charts/cmd/leat-charts

authorities: ## Write the certificate authorities of images, Mozilla's from a pinned Go module
	@$(GO) run ./test/supply/cmd/leat-supply authorities deploy/image/ca-certificates.crt

notices: ## Write THIRD_PARTY_NOTICES.txt and web/public/licenses.txt, the licences of the Go modules and npm packages in programs, and refuse those that are not accepted
	@$(GO) run ./test/supply/cmd/leat-supply notices

breaking: $(BIN)/buf ## Compare the wire contract with the last release
	@$(BIN)/buf breaking --against proto/released.binpb

tidy: ## Tidy every go.mod, and require the versions that the workspace selects
	@$(GO) work sync
	@for m in $$($(GO) list -m -f '{{.Dir}}'); do (cd "$$m" && GOWORK=off $(GO) mod tidy) || exit 1; done

# The services as programs, as operators run them.
.PHONY: programs
programs:
	@for s in gitcache distributor tunnel agent; do $(GO) build -trimpath -o $(BIN)/$$s ./services/$$s/cmd/$$s || exit 1; done

build: ui programs ## Build the deployables and the command line into .bin
	@$(GO) build -trimpath -o $(BIN)/leat ./cli/cmd/leat

sbom: build ## Write an inventory (CycloneDX) of each program into .bin/sbom
	@$(GO) run ./test/supply/cmd/leat-supply sbom $(BIN)/sbom $(BIN)/gitcache $(BIN)/distributor $(BIN)/tunnel $(BIN)/agent $(BIN)/leat

release: ui ## Make a release into dist/: archives, images, charts, SBOMs, provenance, checksums (VERSION=v0.1.0-rc.1, ARGS)
	@$(GO) run ./test/release/cmd/leat-release $(ARGS) "$$VERSION"

vulncheck: ## Check the modules of each program for known advisories, also those of the database that LEAT_VULNDB names
	@$(GO) run ./test/supply/cmd/leat-supply vulncheck $(LEAT_VULNDB)

pin: ## Write the current digests of images into the Dockerfile, docker-compose.yml and deploy/ (asks their registries)
	@$(GO) run ./test/supply/cmd/leat-supply pin Dockerfile docker-compose.yml deploy/helm/*/values.yaml
	@$(MAKE) --no-print-directory manifests

pinned: ## Fail if an image has no digest, which CI does for a tagged commit
	@$(GO) run ./test/supply/cmd/leat-supply pinned Dockerfile docker-compose.yml deploy/helm/*/values.yaml deploy/kubernetes/*.yaml

ci: ## What CI runs
	@.ci/run

# --- what the verbs need -------------------------------------------------------------------------------------------------

# Without a node that could build it, leat works without its web UI.
.PHONY: ui-if-possible
ui-if-possible:
	@[ -n "$(NO_UI)" ] || tools/ui.sh build || { [ $$? = 3 ] && echo "==> leat has no web UI, for want of Node.js"; }

.PHONY: $(BIN)/leat
$(BIN)/leat:
	@echo "==> building leat (some minutes the first time)"
	@$(GO) build -trimpath -o $@ ./cli/cmd/leat

# What make test needs. The packages of the web UI come over the network while the programs compile, one after the other,
# since they share much.
.PHONY: needs needs-programs
needs: | system
	@$(MAKE) --no-print-directory -j2 --output-sync=line needs-programs $(if $(filter work,$(PKG)),ui)
needs-programs:
	@for program in kube registry grpcurl $(BIN)/gotestsum; do $(MAKE) -s --no-print-directory $$program || exit 1; done

# The tests of the web UI keep one page of a browser busy, and wait for clusters. Packages compile beside them, on what they
# leave of the cores. Nothing links, since Go keeps no program. It ends with these tests: go test compiles what is left.
.PHONY: ui-beside ahead packages
ui-beside: packages programs $(BIN)/leat
	@setsid nice -n 19 $(MAKE) -s --no-print-directory ahead >.test/ahead.log 2>&1 & ahead=$$!; \
		trap 'kill -- -$$ahead 2>/dev/null; wait; rm -rf .test/ahead' EXIT; trap 'exit 130' INT; trap 'exit 143' TERM; \
		$(MAKE) --no-print-directory ui-test ui-story

# Compiles packages and their tests. What does not compile is reported by go test.
ahead: export GOTMPDIR := $(CURDIR)/.test/ahead
ahead:
	@mkdir -p $(GOTMPDIR)
	-@$(ROOMY) $(GO) list -export -test $$(cat .test/unraced)
	-@$(ROOMY) $(WITHRACE) $(GO) list -export -test $(RACE) $$(cat .test/raced)

# Lists the packages to test, without the race detector and with it.
packages:
	@mkdir -p .test; $(GO) list work | grep -vE '^$(SIEGES)$$' >.test/all; \
		{ grep -E '^($(OUTSIDE)|$(UNRACED))$$' .test/all; $(SEQUENTIAL); $(UNTESTED); } | sort -u >.test/unraced; grep -vxFf .test/unraced .test/all >.test/raced

kube: ## Build the Kubernetes control plane for tests and demos, once
	@echo "==> Kubernetes control plane (built once, some minutes; then cached)"
	@$(GO) run ./internal/runtime/localkube/cmd/leat-kube build --helm --kustomize

registry: ## Build the OCI registry for tests, once
	@echo "==> OCI registry (built once, two minutes; then cached)"
	@tools/registry/build.sh >/dev/null

grpcurl: ## Build the grpcurl with which examples are tried, once
	@tools/grpcurl/build.sh >/dev/null

system: ## Install what tests need from the system's packages, if missing (git, ssh, sshd, gpg, Redis, PostgreSQL, zstd, curl, openssl, nginx)
	@tools/system.sh

containers: ui ## Build the images and run docker-compose.yml on a Docker engine, and deliver through it (as root on Debian; SERVICES, ARGS)
	@tools/containers/ready.sh
	@$(GO) run ./internal/runtime/localkube/cmd/leat-kube build >/dev/null
	@tools/containers/run.sh $(ARGS)

node: ui ## Build the images, start a Kubernetes node, and install the charts on it as they are shipped (as root on Debian; ARGS)
	@tools/containers/node/run.sh $(ARGS)

browser: ## Install Chromium, with which tests sign people in, if missing
	@tools/system.sh browser

tools: $(BIN)/buf $(BIN)/golangci-lint ## Build the pinned tools into .bin

$(BIN)/buf: tools/go.sum
	@echo "==> building buf and the protoc plugins (two minutes the first time)"
	@GOBIN=$(BIN) GOWORK=off $(GO) -C tools install tool && touch $@

$(BIN)/gotestsum: tools/test/go.sum
	@echo "==> building gotestsum"
	@GOBIN=$(BIN) GOWORK=off $(GO) -C tools/test install tool && touch $@

$(BIN)/golangci-lint: tools/lint/go.sum
	@echo "==> building golangci-lint (two minutes the first time)"
	@GOBIN=$(BIN) GOWORK=off $(GO) -C tools/lint install tool && touch $@
