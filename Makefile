# What a developer of Cairn types. ARGS= is passed on: make test ARGS='-run Crash -v'.

.POSIX:
.PHONY: help demo serve recording build test soak check bench bench-peers fuzz tidy release
.DEFAULT_GOAL := help

TIMEOUT = 40m
BENCH = .
FUZZTIME = 10s
# The race detector leaves SQLite's C code alone, which was translated to Go: it makes it ten times slower and finds nothing of ours.
# Nor are conversions of unsafe pointers checked, which it also turns on: there are none of ours.
RACE = -race -gcflags=all=-d=checkptr=0 -gcflags=modernc.org/sqlite/lib='-d=checkptr=0 -race=false' -gcflags=modernc.org/libc='-d=checkptr=0 -race=false'
# The race detector needs cgo. Without its option each process sleeps for a second before it exits, and tests start hundreds.
RACE_ENV = CGO_ENABLED=1 GORACE=atexit_sleep_ms=0
# Tests of stores and hosts mostly wait: twice as many run at once as there are processors, of packages and within each.
ATONCE = n=$$((2 * $$(getconf _NPROCESSORS_ONLN))) && set -- -p=$$n -parallel=$$n
HOUSE = go run ./internal/check
ARGS =
KILLS =
HOURS =
ONLY =
VERSION =

help: ## Print this list
	@sed -n 's/^\([a-z-]*\):.*## /\1 /p' Makefile | while read -r name text; do printf '  make %-11s %s\n' "$$name" "$$text"; done

demo: ## Talk to the demo agent (ARGS='--session s1'; reads lines from standard input too)
	go run -tags demo ./cmd/cairn demo $(ARGS)

serve: ## Talk to the demo's assistants in a browser, at http://localhost:8420 (ARGS='--listen localhost:9000')
	go run -tags demo,serve ./cmd/cairn serve --demo $(ARGS)

recording: ## Record the demo at a terminal and write docs/demo.svg, which the README shows
	go run ./internal/recording -o docs/demo.svg

build: ## Build bin/cairn
	go build -o bin/cairn ./cmd/cairn

test: ## Run every test of every module with the race detector; installs what is missing (TIMEOUT=40m per package)
	sh internal/testenv/ensure.sh
	$(ATONCE) && packages=$$($(HOUSE) -packages) && \
		$(RACE_ENV) go test $(RACE) "$$@" -shuffle=on -timeout=$(TIMEOUT) $(ARGS) $$packages

# First the matrix, with the race detector; then torture without it, for which processes that are to be stopped would take
# their time to start; then what is outside the workspace. ARGS=-run narrows the matrix down, ARGS=-skip the torture.
soak: ## Run what make test has no time for: the full matrix, long torture (KILLS=n HOURS=n ONLY=regexp of packages)
	sh internal/testenv/ensure.sh
	packages=$$(go list $$($(HOUSE) -packages) | grep -E '$(ONLY)') && \
		CAIRN_SOAK=1 $(RACE_ENV) go test $(RACE) -count=1 -p=1 -timeout=0 $(ARGS) -skip='^TestTorture' $$packages
	results=$$(mktemp) && packages=$$(go list $$($(HOUSE) -packages) | grep -E '$(ONLY)') && code=0 && \
		{ CAIRN_SOAK=1 KILLS=$(KILLS) HOURS=$(HOURS) CAIRN_SOAK_RESULTS=$$results \
		go test -count=1 -p=1 -timeout=0 $(ARGS) -run='^TestTorture' $$packages || code=$$?; cat "$$results"; rm "$$results"; exit $$code; }
	if [ -z '$(ONLY)' ]; then $(HOUSE) -outside tidy build vet staticcheck && GOWORK=off go -C bench test -count=1 ./...; fi

check: ## Check format, vet, staticcheck, modules, imports, docs (ARGS='floors links' for some)
	$(HOUSE) $(ARGS)

bench: ## Run the benchmarks (BENCH=regexp)
	go test -run='^$$' -bench='$(BENCH)' -benchmem -timeout=1h $(ARGS) \
		$$(grep -rl --include='*_test.go' '^func Benchmark' . | xargs -n1 dirname | sort -u)

bench-peers: ## Compare with other systems side by side and write docs/results/benchmarks.md (needs node and npm; ARGS='-rounds 3')
	sh internal/testenv/ensure.sh
	GOWORK=off go -C bench run . -docs ../docs/results $(ARGS)

fuzz: ## Run each fuzz target for a while (FUZZTIME=10s)
	grep -r --include='*_test.go' '^func Fuzz' . | sed 's,/[^/]*:func \([A-Za-z0-9_]*\).*, \1,' | while read -r dir name; do \
		go test -tags demo -run='^$$' -fuzz="^$$name\$$" -fuzztime=$(FUZZTIME) $(ARGS) "$$dir" </dev/null || exit 1; \
	done

tidy: ## Tidy go.work and every go.mod, and copy marked code into the docs and comments into the OpenAPI document
	go work sync
	$(HOUSE) -fix
	go -C server test -run TestMeaningsAreTheSources . -meanings

release: ## Make a version of all modules, and push its tags (VERSION=v0.1.0; ARGS=-fixtures first, ARGS=-n pushes nothing)
	go run ./internal/release -version '$(VERSION)' $(ARGS)
