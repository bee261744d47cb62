# kestrel: `make` alone lists what there is.

# The server needs no C, so its tests do without as well: what is compiled and linked is the same. The race detector
# does need it.
export CGO_ENABLED = 0

GO          ?= go
FUZZTIME    ?= 30s
STATICCHECK  = $(GO) run honnef.co/go/tools/cmd/staticcheck@v0.8.2
BENCHTIME   ?= 1s
BENCHCOUNT  ?= 10
KILLS       ?= 300
CUTS        ?= 100
SOAK        ?= 600
ROUGH       ?= 5m
SIM         ?= 10m

# Of the tests of arm64 under QEMU: those of segment that take minutes there, or need what QEMU does not pass
# on: addresses of faults, what is mapped; and those of engine that are run. The engine's others try the same records in
# more ways, and would take half an hour.
ARM_SKIP   = Crash|Faults|ControlModel|DamageFlipped|TestMapped(Truncated|DiskFails)|TestArenaIsUnmapped
ARM_ENGINE = Replay|RestartChain|Checkpoint|Backlog(Order|OpenRead|Waits|ReadError|DiskFull|SyncFails|Busy)

# Packages whose tests run goroutines against each other. Of these packages, tests of a single goroutine that take
# long are left to race-all, and so are those that need sqlite: the race detector compiles it for minutes.
CONCURRENT  = ./segment/... ./engine/... ./netloop/... ./loadtest/... ./client ./client/discovery/... ./client/internal/... \
              ./client/backend/embedded ./client/backend/overhttp ./client/backend/spread
SINGLE      = CrashEveryWrite|TestFaults|Damage|Control|Model$$|TestRepair|TestReadAhead$$|TestDiskAfterDrain|TestFilesBounded
SINGLE     := $(SINGLE)|TestFreeMemory|TestPutTooLarge|TestQueueMemory|MarksCrash|JournalCrash|MessagesFaults|LedgerAgainstHeap
SINGLE     := $(SINGLE)|TestBurrowLong|IsBounded|ReadsBounded|ListsBounded|TestTranscripts|ItemUnread

.PHONY: help build run test test-all lab epoll epoll-lab race race-all e2e clients crash older hostile controls sim soak fuzz bench bench-backlog bench-backup bench-burrow bench-client bench-delayed bench-idle bench-instructions bench-peers bench-profile bench-secure portable dist packages newcomer cluster cover lint check clean

help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

build: ## build bin/kestrel, one static binary
	$(GO) build -o bin/kestrel ./cmd/kestrel

run: build ## build and run the server on 127.0.0.1:22133, data in ./kestrel-data
	./bin/kestrel serve

# The tests of the built server, and of a browser, are called TestEndToEnd and something; of TestEndToEnd itself
# test runs as well. What vet finds, lint finds.
# The packages whose tests wait longest begin first, and others run beside them. More processes than processors run
# at a time, because most of these tests wait.
WAITING    = ./netloop ./engine ./client ./client/backends ./netloop/admin ./cmd/kestrel/internal/journalcmd \
             ./cmd/kestrel/internal/backupcmd ./client/backend/spread ./loadtest/scenario
PROCESSES  = $$((2 * $$(getconf _NPROCESSORS_ONLN)))

# Half of the processor time would be that of the linker, which is quicker without a debugger's tables. With -o the
# tests' programs stay in bin/tests, and go links again only what has changed; so no two folders may have the same name.
# Of what is long even at a short size this runs a sample; with KESTREL_CI, as in CI, all.
test: ## run the tests, the long ones at a short size, without those of the built server; the first time they are linked
	@mkdir -p bin/tests
	GOGC=400 $(GO) test -short -vet=off -ldflags=-w -o bin/tests/ -p $(PROCESSES) -parallel 8 -skip 'EndToEnd.' $(WAITING) ./...

test-all: build ## run every test at its full size, those of the built server too, a minute and a half on two cores
	$(GO) test ./...

lab: build ## kill, cut and damage real servers, a short slice of each experiment, two minutes
	$(GO) test -count=1 -timeout 30m -tags lab ./bench/lab

# With the tag, event loops wait with epoll unless a test says otherwise: those of servers that tests build, too. Left
# out are the packages that have no event loop, the two tests of what the default is, and the tests of pages and of the
# commands that ask a server: to them it is the same.
NO_LOOP    = TestConfigurationDoc|TestExample|TestEndToEnd(Examples|ClientPages|Completion|Migrating|Usage|Version|Readme|Burrow(Doc|Browser)|Dalli|Operator)

epoll: epoll-lab ## try the other event loop: tests of all that uses one, of the built server too, and a slice of the lab, two minutes
	KESTREL_CI=1 GOFLAGS="$$($(GO) env GOFLAGS) -tags=epoll" $(GO) test -short -vet=off -p $(PROCESSES) -skip '^($(NO_LOOP))$$' \
		./netloop/... ./client/... ./loadtest/... ./cmd/kestrel ./bench/...

LAB        ?= TestKill|TestSpill|TestHostile

epoll-lab: ## kill, spill and attack servers that wait with the other event loop (LAB=TestKill)
	GOFLAGS="$$($(GO) env GOFLAGS) -tags=lab,epoll" $(GO) test -vet=off -count=1 -run '$(LAB)' ./bench/lab

race: ## run the concurrent packages' tests under the race detector, the long ones as short as make test does
	env -u KESTREL_CI CGO_ENABLED=1 $(GO) test -race -short -vet=off -skip '$(SINGLE)' $(CONCURRENT)

race-all: build ## run every test under the race detector, a quarter of an hour
	CGO_ENABLED=1 $(GO) test -race -timeout 40m ./...

# What make e2e tests. CI takes the first, at a short size.
COMMANDS   ?= ./cmd/kestrel/... ./bench/backlog ./bench/instructions ./loadtest/report

e2e: build ## start the built server, use it, kill -9 it, count
	$(GO) test -count=1 $(SHORT) -run 'EndToEnd' $(COMMANDS)

clients: build ## try clients of Debian and npm, which it installs, against the built server
	cmd/kestrel/testdata/clients/run.sh bin/kestrel

crash: build ## the long runs: models, crash points, kill -9, power cuts (KILLS, CUTS times)
	KESTREL_LONG=1 $(GO) test -count=1 -tags lab -timeout 30m -run 'Crash|Model|Kill' ./...
	$(GO) run ./bench/lab kill -n $(KILLS)
	$(GO) run ./bench/lab spill -n $(KILLS)
	$(GO) run ./bench/lab rough -for $(ROUGH)
	$(GO) run ./bench/lab short
	$(GO) run ./bench/lab cut-ext4 -n $(CUTS)
	$(GO) run ./bench/lab cut-xfs -n $(CUTS)
	$(GO) run ./bench/lab cut-spill -n $(CUTS)
	$(GO) run ./bench/lab order -n 10000
	$(GO) run ./bench/lab faults
	$(GO) run ./bench/lab limits
	$(GO) run ./bench/lab damage -n 1000
	$(GO) run ./bench/lab clocks -n 60

older: ## take turns with the build before delays, leases and keys, at a directory of plain queues (git history)
	$(GO) run ./bench/lab older

hostile: build ## clients that send, read and connect as none should, at length
	$(GO) run ./bench/lab hostile
	$(GO) run ./bench/lab halfopen

controls: ## break the server on purpose, in each way that a test must notice; ten minutes
	$(GO) run ./bench/lab controls
	$(GO) run ./bench/lab panics
	$(GO) run ./bench/lab simulated

sim: ## simulate servers, disks and deaths, seed after seed, for SIM (10m)
	$(GO) run ./bench/sim -for $(SIM)

soak: ## a steady load for SOAK seconds: memory, descriptors and goroutines must be flat
	$(GO) run ./bench/lab soak -n $(SOAK)

fuzz: ## fuzz every decoder for FUZZTIME each, from what was found before
	GO="$(GO)" bench/lab/fuzz.sh $(FUZZTIME)

bench: ## Go benchmarks, BENCHCOUNT runs each, for benchstat
	$(GO) test -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) -count $(BENCHCOUNT) ./...

bench-backlog: build ## what a backlog costs, alone or (ARGS=-peers) beside other servers; options in ARGS
	$(GO) run ./bench/backlog -install bin/peers -kestrel bin/kestrel -results bench/results $(ARGS)

bench-backup: build ## what kestrel backup brings a second, and costs a neighbour; options in ARGS
	$(GO) run ./bench/backlog -backup -size 2GiB -pace 100 -kestrel bin/kestrel -results bench/results $(ARGS)

bench-client: build ## the Go client beside the bare load generator; ARGS=-gaps: producers when a server fails; options in ARGS
	$(GO) run ./bench/goclient -kestrel bin/kestrel $(ARGS)

bench-delayed: ## what delayed items cost in memory and on disk, and how late they come; options in ARGS
	$(GO) run ./bench/delayed $(ARGS)

bench-idle: build ## what 100,000 idle queues cost, and looking at them all; options in ARGS
	$(GO) run ./bench/idle -kestrel bin/kestrel $(ARGS)

bench-instructions: ## what a SET and a GET take in instructions, whatever else the machine does; other trees in ARGS
	$(GO) run ./bench/instructions $(ARGS)

bench-peers: build ## side by side with other servers, which it installs; options in ARGS
	$(GO) run ./bench/peers -install bin/peers -kestrel bin/kestrel -results bench/results $(ARGS)

bench-profile: build ## where the processor time of a SET and a GET goes; options in ARGS
	$(GO) run ./bench/profile -kestrel bin/kestrel -results bench/results $(ARGS)

bench-burrow: build ## what Burrow's protocol costs, beside memcache's and nginx; options in ARGS
	$(GO) run ./bench/http -kestrel bin/kestrel $(ARGS)

bench-secure: build ## what TLS and users cost, beside redis and memcached over TLS; options in ARGS
	$(GO) run ./bench/secure -kestrel bin/kestrel $(ARGS)

# What a release is built for. One of them is enough to try it.
ARCH       ?= amd64,arm64

dist: ## build the archives, packages, image and SBOM of a release into bin/dist (ARCH=amd64,arm64)
	$(GO) run ./cmd/dist -arch $(ARCH)
	KESTREL_DIST=$(CURDIR)/bin/dist $(GO) test -count=1 -run TestPackages ./cmd/dist

cluster: build ## three servers and a real ZooKeeper (Debian's zookeeperd) that change, die, stall and forget; three minutes
	KESTREL_NEED_ZOOKEEPER=1 $(GO) test -count=1 -tags lab ./client/discovery/...
	KESTREL_NEED_ZOOKEEPER=1 $(GO) test -count=1 -tags lab -run EndToEndCluster ./cmd/kestrel

# The commit whose package is upgraded from.
BEFORE ?= d8a4f83587eedc475fed70316a382c015ed1f175

packages: dist ## build a release twice and compare; install, upgrade from an older build, remove the package in a container (root)
	$(GO) run ./cmd/dist -arch $(ARCH) -out bin/dist-again
	diff -r bin/dist bin/dist-again
	docs/operations/package/before.sh $(BEFORE) bin/before.deb
	docs/operations/package/machine.sh docs/operations/package/lifecycle.sh bin/dist/kestrel_*_$$($(GO) env GOARCH).deb \
		$$(ls bin/before.deb 2>/dev/null)

# Packages that need the one named here are not vetted for other systems. CI leaves out sqlite, which compiles for minutes.
PORTABLE_WITHOUT ?= nothing

portable: ## vet for macOS; codecs, segments and records of arm64 under QEMU, a minute
	packages=$$($(GO) list -f '{{.ImportPath}} {{join .Deps " "}}' ./... | grep -v '$(PORTABLE_WITHOUT)' | cut -d' ' -f1) && \
		GOOS=darwin GOARCH=arm64 $(GO) vet $$packages && \
		GOOS=linux GOARCH=arm64 $(GO) vet $$packages
	@if command -v qemu-aarch64 >/dev/null; then set -x; \
		GOOS=linux GOARCH=arm64 $(GO) test -short -exec qemu-aarch64 -skip '$(ARM_SKIP)' \
			./codec/... ./segment ./engine/internal/... && \
		GOOS=linux GOARCH=arm64 $(GO) test -short -exec qemu-aarch64 -run '$(ARM_ENGINE)' ./engine; \
	else echo "no qemu-aarch64 (Debian: qemu-user): the tests of arm64 are skipped"; fi

newcomer: ## a new user's hour with the package, in a container (root); after make dist
	docs/operations/package/machine.sh docs/operations/package/newcomer.sh bin/dist/kestrel_*_$$($(GO) env GOARCH).deb

cover: ## statement coverage by package
	$(GO) test -cover ./...

lint: ## formatting, vet, static checks
	@out=$$(gofmt -l $$(git ls-files '*.go')); test -z "$$out" || { echo "gofmt would change:"; echo "$$out"; exit 1; }
	$(GO) vet ./...
	$(GO) vet -tags lab ./bench/lab
	$(STATICCHECK) ./...
	$(STATICCHECK) -tags lab ./bench/lab

check: lint test race ## what a commit must pass
	$(GO) mod tidy -diff

clean: ## remove what building made
	rm -rf bin
