# make help lists the targets.

VERSION := 1.2.0-dev
GO      ?= go
PREFIX  ?= /usr/local
BIN     := bin
MAN     := share/man
BASH    := share/bash-completion/completions
ZSH     := share/zsh/site-functions
FISH    := share/fish/vendor_completions.d
TOOL    := $(GO) tool -modfile=tools/go.mod

# All targets build with the same flags, so that each package is compiled once. Only the race detector compiles them again.
export CGO_ENABLED := 0
export GOFLAGS     := $(strip $(shell $(GO) env GOFLAGS) -trimpath)
RACE    := CGO_ENABLED=1 $(GO) test -race -vet=off

.DEFAULT_GOAL := help
.PHONY: help build install install-systemd uninstall run demo test test-all test-race test-modules test-cluster test-engines conformance e2e hops lint bench soak release clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "make %-15s %s\n", $$1, $$2}' Makefile

build: ## bin/delayer
	@test -e $(BIN)/demo || echo 'Compiling Delayer; the first time this takes up to a minute.'
	@$(GO) build -ldflags "-X main.version=$(VERSION)" -o $(BIN)/ ./cmd/delayer ./cmd/demo

install: build ## bin/delayer to $(PREFIX)/bin, which is /usr/local/bin unless you say make install PREFIX=…; manual pages and completions to $(PREFIX)/share
	install -d $(addprefix "$(DESTDIR)$(PREFIX)/,$(addsuffix ",bin $(MAN)/man1 $(MAN)/man5 $(BASH) $(ZSH) $(FISH)))
	install -m 755 $(BIN)/delayer "$(DESTDIR)$(PREFIX)/bin/delayer"
	LC_ALL=C $(BIN)/delayer man > "$(DESTDIR)$(PREFIX)/$(MAN)/man1/delayer.1"
	LC_ALL=C $(BIN)/delayer man delayer.conf > "$(DESTDIR)$(PREFIX)/$(MAN)/man5/delayer.conf.5"
	$(BIN)/delayer completion bash > "$(DESTDIR)$(PREFIX)/$(BASH)/delayer"
	$(BIN)/delayer completion zsh > "$(DESTDIR)$(PREFIX)/$(ZSH)/_delayer"
	$(BIN)/delayer completion fish > "$(DESTDIR)$(PREFIX)/$(FISH)/delayer.fish"

install-systemd: install ## the same, and a service of systemd with its user, /etc/delayer/delayer.conf and log rotation
	install -d $(addprefix "$(DESTDIR)/etc/,$(addsuffix ",delayer logrotate.d systemd/system sysusers.d))
	sed 's|/usr/local/bin/|$(PREFIX)/bin/|' docs/systemd/delayer.service > "$(DESTDIR)/etc/systemd/system/delayer.service"
	install -m 644 docs/systemd/delayer.sysusers "$(DESTDIR)/etc/sysusers.d/delayer.conf"
	install -m 644 docs/logrotate/delayer "$(DESTDIR)/etc/logrotate.d/delayer"
	test -e "$(DESTDIR)/etc/delayer/delayer.conf" || install -m 640 delayer.conf "$(DESTDIR)/etc/delayer/delayer.conf"
ifeq ($(DESTDIR),)
	systemd-sysusers delayer.conf
	chgrp delayer /etc/delayer/delayer.conf
	test ! -d /run/systemd/system || systemctl daemon-reload
endif
	@echo 'Edit /etc/delayer/delayer.conf, then: systemctl enable --now delayer'

uninstall: ## removes what install and install-systemd have installed, but neither /etc/delayer nor the logs
ifeq ($(DESTDIR),)
	test ! -e /etc/systemd/system/delayer.service || test ! -d /run/systemd/system || systemctl disable --now delayer
endif
	rm -f $(addprefix "$(DESTDIR)$(PREFIX)/,$(addsuffix ",bin/delayer $(MAN)/man1/delayer.1 $(MAN)/man5/delayer.conf.5 $(BASH)/delayer $(ZSH)/_delayer $(FISH)/delayer.fish))
	test ! -e "$(DESTDIR)/etc/systemd/system/delayer.service" || \
		rm $(addprefix "$(DESTDIR)/etc/,$(addsuffix ",systemd/system/delayer.service sysusers.d/delayer.conf logrotate.d/delayer))

run: build ## the daemon in the foreground with an in-memory Redis: nothing to install, nothing is kept
	bin/delayer --dev

demo: build ## orders pushed with delays and popped as they fall due, mails sent by a worker, though a consumer crashes
	@$(BIN)/demo

test: ## what to run before each commit, on private redis-servers (installed if missing): 4 minutes the first time, then 90 s
	tools/prepare.sh
	CI=true $(GO) test -short -vet=off -p 4 -parallel 8 -timeout 20m ./...

test-all: test-race test-modules test-cluster test-engines e2e hops ## all tests, also the long ones, with the race detector, on clusters and other engines, in a browser: half an hour

test-race: ## all tests of the main module, with the race detector (C compiler installed if missing)
	tools/prepare.sh race
	CI=true $(RACE) -p 4 -parallel 8 -timeout 30m $$($(GO) list ./... | grep -vE '/internal/(cron|docs)$$')
	CI=true $(GO) test ./internal/cron ./internal/docs # have no goroutines

test-modules: ## the tests that are modules of their own, because of what they import
	tools/prepare.sh
	CI=true $(GO) test -C internal/web/api/openapitest ./...
	CI=true $(GO) test -C internal/history ./...
	CI=true $(GO) test -C client/delayerotel ./...
	$(GO) test -C tools ./...

test-cluster: ## the tests of the client and the worker on Redis Clusters, of six servers and of one
	tools/prepare.sh
	REDIS_FORM=cluster CI=true $(GO) test -short -count=1 -parallel 16 -timeout 20m ./client ./client/worker

# The servers that make test-engines runs on, and where they are kept. WORDS are the long tests that go by an engine's words.
ENGINES     ?= redis8 valkey8 valkey9
ENGINES_DIR ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/delayer/engines
WORDS       := Answers|Permission|Rights|Refuse|WhileASlotMoves|OldEngines

test-engines: ## the tests of all that speaks to Redis, on Redis 8, Valkey 8 and 9, which come from Debian's packages; ENGINES=valkey9 for one
	tools/prepare.sh
	tools/engines.sh "$(ENGINES_DIR)" $(ENGINES)
	set -e; for engine in $(ENGINES); do (echo "== $$engine"; export CI=true PATH="$(ENGINES_DIR)/$$engine:$$PATH"; \
		$(GO) test -count=1 -timeout 20m -vet=off -short ./internal/store ./internal/wait ./internal/inspect ./server ./client ./client/worker; \
		$(GO) test -count=1 -timeout 20m -vet=off -run '$(WORDS)' ./internal/store ./client ./cmd/delayer); done

conformance: ## what of Delayer works on your Redis: make conformance REDIS=redis://…, or of another scheme
	@test -n "$$REDIS" || { echo 'which Redis? make conformance REDIS=redis://127.0.0.1:6379'; exit 2; }
	@failed=0; for dir in internal/store client client/worker; do echo "== $$dir"; \
		DELAYER_CONFORMANCE="$$REDIS" $(GO) test -C $$dir -short -count=1 -timeout 1h -run '^Test' || failed=1; echo; done; exit $$failed

e2e: ## tests of the dashboard in Chromium, of what is for Prometheus by promtool, of the samples in PHP, of a client in TypeScript by npm, of the service by systemd-analyze and logrotate, of the packages by dpkg and rpm (all installed if missing)
	tools/prepare.sh browser
	CI=true $(GO) test -C internal/web/e2e ./...
	NPM=needed $(GO) test -C internal/web/api/openapitest -run TypeScript ./...
	PROMTOOL=needed $(GO) test ./internal/web/metrics -run Promtool
	PACKAGING=needed PHP=needed $(GO) test ./cmd/delayer -run 'Unit|Logrotate|Install|PHPSamples'
	PACKAGING=needed $(GO) test -C tools ./release -run Installed

hops: ## how many functions, in how many files, one plain call passes through; fails above internal/hops/hops.go
	tools/prepare.sh
	HOPS=1 CI=true $(GO) test ./internal/hops -count=1 -v

lint: ## gofmt, go vet, staticcheck, what the documents link to and name, and words that have a better one
	@test -z "$$(gofmt -l .)" || { echo "not formatted:"; gofmt -l .; exit 1; }
	$(GO) vet ./...
	$(GO) vet -C tools ./...
	$(GO) vet -C bench ./...
	$(GO) vet -C internal/web/e2e ./...
	$(GO) vet -C internal/web/api/openapitest ./...
	$(GO) vet -C internal/history ./...
	$(GO) vet -C client/delayerotel ./...
	GOOS=windows $(GO) vet ./...
	$(TOOL) staticcheck ./...
	cd client/delayerotel && $(GO) tool -modfile=../../tools/go.mod staticcheck ./...
	CI=true $(GO) test ./internal/docs

bench: ## docs/benchmarks.md, measured anew here, in more than an hour, once the machine is quiet (needs beanstalkd for its part)
	tools/prepare.sh
	$(GO) test ./server -run '^$$' -bench . -benchtime 3x -timeout 30m
	$(GO) run -C bench . -full

soak: ## everything at once for an hour, with kills: no job lost, nothing that grows; writes bench/tables.md
	tools/prepare.sh
	$(GO) run -C bench . -full -only soak -soak 1h

release: ## archives, packages (deb, rpm, apk) and a container image in dist/, with licences, an SPDX list of components and checksums
	$(GO) build -C tools -o ../bin/release ./release
	bin/release -version $(VERSION)

clean: ## removes what the other targets made
	rm -rf bin dist
