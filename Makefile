# Two commands for newcomers, `make cluster` and `make test`; each installs what it needs and then works.

NODES ?= 2
CLUSTER ?= talos-default
SUBNET ?= 10.5.0.0/24
PYTHON ?= python3
SYSTEM := x86_64-linux

# Where Nix is not configured it is a plain program: no daemon, no build users, no binary cache. Else its settings hold,
# such as caches, tokens and the netrc file, and only what flakes need is added. What NIX_CONFIG sets already, stays.
USERS_NIX_CONFIG := $(NIX_CONFIG)
CONFIGURED := $(wildcard $(or $(NIX_CONF_DIR),/etc/nix)/nix.conf $(or $(XDG_CONFIG_HOME),$(HOME)/.config)/nix/nix.conf \
	$(subst :, ,$(NIX_USER_CONF_FILES)) /nix/var/nix/daemon-socket/socket)
default = $(if $(CONFIGURED)$(findstring $1,$(USERS_NIX_CONFIG)),,$1 =$(if $2, $2))
define NIX_CONFIG
$(USERS_NIX_CONFIG)
extra-experimental-features = nix-command flakes
$(call default,build-users-group)
$(call default,sandbox,true)
$(call default,substituters)
endef
export NIX_CONFIG

# What machines are started from accepts releases that this machine's development key signed, too. The private half
# stays in build/keys, and only builds with --impure see the public one.
KEY := build/keys/development.key
IMPURE = --impure
export TALOS_RELEASE_KEY = $(CURDIR)/build/keys/development.pub

TALOSCTL := build/bin/talosctl
IMAGE := build/image.squashfs
IMAGES := build/images
# With Kubernetes: a quarter of an hour on two processors, once.
ALL_IMAGES := build/images-all
# What local clusters are served, where a release can be added while they run.
MIRROR := build/mirror
KUBECTL := build/bin/kubectl
DEV := build/workstation/bin/python3.13
# Tests start talosctl some thousand times: each would compile its modules again.
BYTECODE := PYTHONPYCACHEPREFIX="$(CURDIR)/build/bytecode" PYTHONDONTWRITEBYTECODE=
PYTEST := PATH="$(CURDIR)/build/workstation/sbin:$$PATH" PYTHONPATH=python $(BYTECODE) $(DEV) -m pytest
CHECK := .\#checks.$(SYSTEM)
# They wait for watchdogs and limits, boot many times, or repeat what others show: `make soak` runs them, and `nix flake check`.
SLOW_VM_TESTS := base-cluster base-kubernetes bond boot-count cloud cluster-controller cluster-heals cluster-power-cut cluster-pxe cluster-reverts cluster-upgrade cluster-upgrade-kubernetes encryption encryption-tpm extensions-installed image-cache install-bios kubespan measured-boot nocloud-kept oom power-cut power-cut-raid power-cut-upgrade pxe \
	secure-boot secure-boot-counts secure-boot-iso secure-boot-keys secure-boot-upgrade siderolink system-raid upgrade-faults upgrade-hangs upgrade-legacy upgrade-loader-hangs upgrade-uefi-panics upgrade-unhealthy volumes-lvm volumes-raid volumes-system
VM_TESTS := $(filter-out $(SLOW_VM_TESTS),$(basename $(notdir $(wildcard nixos-tests/*.py) $(patsubst %/test.py,%,$(wildcard nixos-tests/*/test.py)))))

.DEFAULT_GOAL := help
.PHONY: vm-tests vm-test run-vm vm-inputs netboot-tests
.PHONY: images-previous images-workloads kubernetes-upgrade-tests workload-tests
.PHONY: site pages cves dist hashes reach extended help release upgrade-controller peers grants references tools fetch locks mirror build images all-images kubernetes-tests size kernel assets kernel-hardening api cluster machines destroy test check lint types protocols conformance unit coverage root-unit node cluster-tests soak bench reproducible clean

help: ## Show this list
	@sed -n 's/^\([a-z-]*\):.*## /  \1\t/p' $(MAKEFILE_LIST) | expand -t 28

tools: ## Install what the builds are started with: Nix, pip, git
	@sh pkgs/tools.sh $(PYTHON)

fetch: tools ## Bring what the locks name into the Nix store; ROOTS=machines or ALL=1 brings more, LOCKED=1 refuses newer versions
	@$(PYTHON) pkgs/fetch fetch $(if $(ALL),--all,$(ROOTS))

locks: tools ## Resolve pkgs/roots.toml anew, rewrite pkgs/locks and show the table of versions
	@$(PYTHON) pkgs/fetch lock

mirror: tools ## Copy all locked inputs, or what ROOTS need, into the folder DIR; FETCH_MIRROR=DIR make … takes them from there
	@$(PYTHON) pkgs/fetch mirror $(DIR) $(ROOTS)

build: fetch $(KEY) ## Build the image and talosctl
	@mkdir -p build/bin
	nix build .#squashfs --print-build-logs --out-link $(IMAGE)
	nix build .#stamp $(IMPURE) --print-build-logs --out-link $(IMAGE).release
	nix build .#talosctl --print-build-logs --out-link build/talosctl
	@ln -sfn ../talosctl/bin/talosctl $(TALOSCTL)
	@ls -lL $(IMAGE) | awk '{ printf "%s: %.1f MB\n", "$(IMAGE)", $$5 / 1000000 }'

images: tools ## Build the container images that local clusters are served
	@$(PYTHON) pkgs/fetch fetch etcd
	@mkdir -p build
	nix build .#images --print-build-logs --out-link $(IMAGES)

all-images: tools ## Build the container images of Kubernetes, too, and kubectl
	@$(PYTHON) pkgs/fetch fetch coredns etcd flannel kubernetes network-policies
	@mkdir -p build/bin
	nix build .#images-all --print-build-logs --out-link $(ALL_IMAGES)
	nix build .#kubectl --print-build-logs --out-link build/kubectl
	@ln -sfn ../kubectl-kubectl/bin/kubectl build/bin/kubectl  # Nix adds the name of the output

upgrade-controller: fetch ## Build the upgrade controller's container image; offer it to clusters
	@mkdir -p $(MIRROR)
	nix build .#upgrade-controller-image --print-build-logs --out-link build/upgrade-controller.tar
	@cp build/upgrade-controller.tar $(MIRROR)/upgrade-controller.new && mv $(MIRROR)/upgrade-controller.new $(MIRROR)/upgrade-controller.tar

images-previous: tools ## Build the programs of the minor version of Kubernetes before, which a test upgrades from
	@$(PYTHON) pkgs/fetch fetch kubelet kubernetes-previous
	@mkdir -p build
	nix build .#images-previous --print-build-logs --out-link build/images-previous

images-workloads: tools ## Build programs that people install on a cluster, and a CSI driver of ours
	@$(PYTHON) pkgs/fetch fetch kubernetes installed
	@mkdir -p build
	nix build .#images-workloads --print-build-logs --out-link build/images-workloads

size: fetch ## Show what the image is made of, largest first
	@nix build .#size --out-link build/size-report
	@cat build/size-report

kernel: tools ## Build the kernel, about 50 minutes on two processors
	@$(PYTHON) pkgs/fetch fetch kernel kernel-source
	nix build .#kernel --print-build-logs --out-link build/kernel
	@ls -lL build/kernel/vmlinuz | awk '{ printf "build/kernel/vmlinuz: %.1f MB\n", $$5 / 1000000 }'

$(KEY): | tools
	nix run .\#keygen -- $(KEY)

release: $(KEY) ## Build a release that nodes of `make cluster`, `make assets` and `make run-vm` accept; offer it to clusters
	@$(PYTHON) pkgs/fetch fetch kernel kernel-source media vm
	nix build .#release $(IMPURE) --print-build-logs --out-link build/release.tar
	nix run .\#sign -- --key $(KEY) --out build/release.signed.tar build/release.tar
	@mkdir -p $(MIRROR)
	@cp build/release.signed.tar $(MIRROR)/release.new && mv $(MIRROR)/release.new $(MIRROR)/release.tar

assets: tools $(KEY) ## Build what machines are started from: disk image, ISO, files for network boot
	@$(PYTHON) pkgs/fetch fetch kernel kernel-source media vm
	@mkdir -p build
	nix build .#disk-image $(IMPURE) --print-build-logs --out-link build/disk-image
	nix build .#iso $(IMPURE) --print-build-logs --out-link build/talos.iso
	nix build .#netboot $(IMPURE) --print-build-logs --out-link build/netboot

kernel-hardening: tools ## Score the kernel with kernel-hardening-checker; every failing row needs its reason
	@$(PYTHON) pkgs/fetch fetch kernel kernel-source kernel-hardening
	nix build $(CHECK).kernel-hardening --print-build-logs --out-link build/kernel-hardening
	@cat build/kernel-hardening

grants: ## Write the table of what daemons may read and write in the State, from their controllers
	@PYTHONPATH=python $(DEV) tests/lint/grants.py

references: ## Write docs/reference: config, commands, resources and metrics, from the code
	@PYTHONPATH=python $(DEV) tests/lint/references.py

reach: build images api devenv peers ## Write the tables of docs/security.md of what an attacker in a daemon reaches, as root
	UPDATE_REACH=1 $(PYTEST) tests/node/test_reach.py

# With FEED, files or folders; without a record of the kernel's CVEs in them, its options decide nothing.
FORMAT := table
cves: devenv ## Compare the locks with FEED, your files of OSV, Debian's tracker, CVE records; FORMAT=json, vex; ALL=1 for build tools, too
	@test -n "$(FEED)" || { echo "cves: which feed? make cves FEED=\"files or folders\", see docs/build.md" >&2; exit 2; }
	@$(PYTHON) pkgs/fetch fetch kernel kernel-source >&2
	@nix build .#kernel-config --out-link build/kernel-config
	@nix build .#kernel-source --out-link build/kernel-source
	@PYTHONPATH=pkgs/fetch $(DEV) -B pkgs/cves/cves.py $(FEED) -o $(FORMAT) $(if $(ALL),--all) \
		--kernel-config build/kernel-config --kernel-source build/kernel-source

api: fetch ## Generate the modules of the .proto files into the work tree, for editors and for running from it
	@nix build .#api --out-link build/api
	@cp -r --no-preserve=mode build/api/talos python/

# The first time image and programs are built at once: a linker leaves a processor idle. Later it would only take time to look.
.PHONY: cluster-inputs
cluster-inputs: tools
	@test -e $(IMAGE) -a -e $(ALL_IMAGES) || { $(PYTHON) pkgs/fetch fetch coredns etcd flannel kubernetes network-policies && \
		nix build .#squashfs .#talosctl .#images-all .#kubectl --max-jobs 2 --no-link --print-build-logs; }

# Two members of etcd are worse than one: from four nodes on three of them are control plane nodes.
cluster: cluster-inputs build all-images ## Start a cluster of NODES (2) nodes with Kubernetes on this machine
	@mkdir -p $(MIRROR) && find $(MIRROR) -type l -delete && ln -s $(CURDIR)/$(ALL_IMAGES)/*.tar $(MIRROR)
	@controlplanes=$$(( $(NODES) < 4 ? 1 : 3 )); set -x; \
	$(TALOSCTL) cluster create --name $(CLUSTER) --controlplanes $$controlplanes \
		--workers $$(( $(NODES) - controlplanes )) --subnet $(SUBNET) --image $(IMAGE) --images $(MIRROR)
	@echo
	@$(KUBECTL) get nodes
	@echo
	@echo "talosctl and kubectl are in build/bin; to have them on the PATH:  export PATH=\"$(CURDIR)/build/bin:\$$PATH\""

machines: build assets ## Start a cluster of NODES virtual machines on this machine
	nix build .\#root-vm --out-link build/root-vm
	@controlplanes=$$(( $(NODES) < 4 ? 1 : 3 )); set -x; TALOS_VM_ROOT=$(CURDIR)/build/root-vm \
	$(TALOSCTL) cluster create qemu --name $(CLUSTER) --controlplanes $$controlplanes \
		--workers $$(( $(NODES) - controlplanes )) --iso-path build/talos.iso

destroy: ## Remove the cluster
	$(TALOSCTL) cluster destroy --name $(CLUSTER)

# The host's own Python without what is installed for it: nothing is built yet.
RUN := $(PYTHON) -B -E -S -m tests.run

test: tools ## Run everything: linters, types, unit tests, tests on nodes and machines; ONLY="lint node" some of it, FRESH=1 what passed before, too
	@$(RUN) $(if $(FRESH),--fresh) --without "$(SLOW_VM_TESTS:%=vm-%)" $(ONLY)

check: fetch ## Linters, types and the unit tests of what was changed since the last push, or since BASE=commit: a minute
	@$(RUN) --changed $(if $(BASE),--base $(BASE))

# All that tests are built from, at once: the jobs of `make test` run beside each other.
.PHONY: test-inputs
test-inputs: tools
	@$(PYTHON) pkgs/fetch fetch browser judges kubernetes machines peers

lint: fetch ## ruff, its formatter, the layers of imports, the table of grants, the references, names in texts, the words, every daemon from its own package
	nix build $(CHECK).closures $(CHECK).lint $(CHECK).format $(CHECK).layers $(CHECK).grants $(CHECK).references $(CHECK).names $(CHECK).words $(CHECK).daemons --no-link --print-build-logs

types: fetch ## basedpyright in strict mode
	nix build $(CHECK).types --no-link --print-build-logs

site: fetch ## The documentation as a static site with a search, in build/site; fails when a link leads nowhere
	nix build .#site --print-build-logs --out-link build/site
	@echo "open build/site/index.html"

pages: tools ## Tests of pages in a browser: the documentation's site, the fleet page, reports
	@$(PYTHON) pkgs/fetch fetch browser
	nix build $(CHECK).pages --no-link --print-build-logs

protocols: tools ## Outside suites of HTTP/2 and gRPC against the daemons' code; docs/conformance.md
	@$(PYTHON) pkgs/fetch fetch judges
	nix build $(CHECK).protocols --no-link --print-build-logs

unit: fetch ## Unit tests, without root
	@nix build $(CHECK).unit-1 $(CHECK).unit-2 $(CHECK).unit-docs --no-link --print-build-logs
	@for check in unit-1 unit-2 unit-docs; do nix log $(CHECK).$$check | tail -n 1; done

coverage: api devenv peers ## Lines and branches of each package that unit tests run, and the modules that they reach least; TESTS=tests/unit/dnsd
	PYTHONPATH=.:python PATH="$(CURDIR)/build/workstation/sbin:$$PATH" $(DEV) -B -m pytest -p tests.coverage $(TESTS)

root-unit: api devenv peers ## Those unit tests that need root
	$(PYTEST) -m root $$(grep -rlF mark.root --include='test_*.py' tests/unit)

node: build images api devenv peers root-unit ## Tests on one running container node, as root
	$(PYTEST) -m "not soak" tests/node

cluster-tests: build images extended api devenv peers ## Tests on several nodes, as root
	$(PYTEST) -m "not soak" tests/cluster

kubernetes-tests: build all-images upgrade-controller api devenv ## Tests on a cluster with Kubernetes, as root
	$(PYTEST) -m "not soak" tests/kubernetes

# The suite is compiled first, nine minutes on two processors, once; hence no part of `make test`.
.PHONY: conformance-inputs conformance-selection
conformance-inputs: tools
	@$(PYTHON) pkgs/fetch fetch etcd kubernetes kubernetes-tests
	@mkdir -p build
	nix build .#images-e2e --print-build-logs --out-link build/images-e2e
	nix build .#kubernetes-e2e.e2e --print-build-logs --out-link build/conformance-suite
	nix build .#kubernetes-e2e.ginkgo --out-link build/conformance-runner

# FOCUS is an expression that the names of specs match, PROCESSES how many of them run at once.
conformance: build all-images conformance-inputs api devenv ## The conformance suite of Kubernetes on a cluster, as root; FOCUS=sig-network a part; docs/conformance.md
	$(PYTEST) -s tests/conformance/test_suite.py

conformance-selection: build all-images conformance-inputs api devenv ## Its quickest specs of each part, as root, in a few minutes
	$(PYTEST) -s tests/conformance/test_selection.py

# A quarter of an hour on two processors for what it is upgraded from, once.
kubernetes-upgrade-tests: build all-images images-previous api devenv ## Upgrade Kubernetes from the minor version before, as root
	$(PYTEST) -s tests/kubernetes/test_upgrade_minor.py

# Seven minutes of two processors for what is installed, once.
workload-tests: build all-images images-workloads api devenv ## Install on a cluster what people install: a network, an ingress controller, metrics-server, storage with snapshots; as root
	$(PYTEST) -s tests/kubernetes/workloads

vm-inputs: fetch
	@$(PYTHON) pkgs/fetch fetch etcd kernel kernel-source media uki vm

# A machine for every two processors: two at once on two take longer than in turn.
VM_JOBS := $(shell expr \( $$(nproc) + 1 \) / 2)
vm-tests: vm-inputs ## Tests on virtual machines; vm-test NAME=boot runs one
	nix build $(VM_TESTS:%=$(CHECK).vm-%) --max-jobs $(VM_JOBS) --keep-going --no-link --print-build-logs

vm-test: vm-inputs
	nix build $(CHECK).vm-$(NAME) --no-link --print-build-logs

# The build sandbox has neither taps nor root.
netboot-tests: images api devenv peers vm-inputs ## Boot machines from the server of `nix run .#pxe`, and make a cluster of them, as root
	nix build .\#netboot --print-build-logs --out-link build/netboot
	nix build .\#iso --out-link build/talos.iso
	nix build .\#root-vm --out-link build/root-vm
	$(PYTEST) -m "not soak" tests/netboot

run-vm: build vm-inputs $(KEY) ## Boot a machine from the ISO; its disk stays in build/vm, its API is on the loopback interface
	@nix run .\#run-vm $(IMPURE) -- --folder build/vm $(VM)

SOAK := 180
soak: build images extended peers all-images images-previous images-workloads conformance-inputs upgrade-controller api devenv soak-vm ## Fuzz every parser for SOAK seconds (180), break five nodes for ten times as long, cut 200 upgrades, run the conformance suite
	FUZZ_SECONDS=$(SOAK) $(PYTEST) tests/unit/fuzz
	$(PYTEST) -m soak --ignore tests/kubernetes/redundant tests/node tests/cluster tests/kubernetes tests/netboot
	FAULT_NODES=5 FAULT_SECONDS=$$(( 10 * $(SOAK) )) $(PYTEST) -s tests/cluster/faults
	HEALING_NODES=all HEALING_WORKERS=2 $(PYTEST) -s tests/kubernetes/redundant
	$(PYTEST) -s tests/conformance/test_suite.py tests/conformance/test_families.py
	rm -rf build/airgap && nix run .\#airgap -- build/airgap
	$(PYTEST) tests/airgap

# Each of the machines that are booted takes a minute on emulated processors.
.PHONY: soak-vm
soak-vm: vm-inputs all-images images-workloads
	nix build .\#iso --out-link build/talos.iso
	nix build .\#netboot --out-link build/netboot
	nix build .\#release --out-link build/release.unsigned.tar
	nix build .\#root-vm --out-link build/root-vm
	nix build .\#uki --out-link build/uki
	nix build $(SLOW_VM_TESTS:%=$(CHECK).vm-%) --max-jobs $(VM_JOBS) --keep-going --no-link --print-build-logs
	POINTS=$${POINTS:-200} BOOTS=$${BOOTS:-20} SEED=$${SEED:-$$(date +%s)} nix run .\#vm-power-cut-upgrade

bench: build api devenv peers ## Benchmarks; they print tables and never fail on time
	$(PYTEST) -s tests/bench
	$(DEV) -B -m tests.bench.plots

extended: fetch
	nix build .\#extended --print-build-logs --out-link build/extended.squashfs

peers: fetch ## The servers that tests let nodes talk to: dnsmasq, chrony, radvd
	@$(PYTHON) pkgs/fetch fetch peers
	@nix build .\#root-peers --out-link build/peers

.PHONY: devenv
devenv: fetch
	@nix build .#workstation --out-link build/workstation

# What is no part of a release, but tests of it are made with.
NOT_REBUILT := contour grpc-interop h2spec images-e2e images-previous images-workloads kubernetes-e2e metallb root-peers workloads
reproducible: build ## Build everything a second time, the image in an empty store without a network, too, and compare; KERNEL=1, KUBERNETES=1 these, too
	@$(PYTHON) pkgs/fetch fetch kubernetes machines
	@KERNEL=$(KERNEL) KUBERNETES=$(KUBERNETES) sh pkgs/checks/rebuild.sh $(SYSTEM) $(NOT_REBUILT)
	@sh pkgs/checks/elsewhere.sh $(PYTHON)
	@$(MAKE) --no-print-directory hashes

hashes: ## Write the table of hashes of what was built to build/hashes.txt; OTHER=FILE compares it with another machine's
	@$(PYTHON) -B pkgs/dist/hashes.py --out build/hashes.txt $(OTHER)

# The file VERSION has the version, pkgs/keys the keys that images trust.
RELEASE_SIGNER = $(if $(RELEASE_KEY),--key "$(RELEASE_KEY:~/%=$$HOME/%)" $(if $(RELEASE_PUBLIC),--public-key $(RELEASE_PUBLIC)))
DIST = PYTHONPATH=python $(DEV) -B pkgs/dist/dist.py --version "$(VERSION)" $(RELEASE_SIGNER)
dist: fetch devenv ## Build a release for publication into build/dist: VERSION=, RELEASE_KEY= the private key, RELEASE_PUBLIC= its public half if that is in no file
	@test -z "$$(git status --porcelain)" || { echo "dist: commit or remove what git status shows first" >&2; exit 1; }
	@$(DIST) --check
	@$(PYTHON) pkgs/fetch fetch kubernetes machines
	nix build .#release --print-build-logs --out-link build/dist-release.tar
	nix build .#iso --print-build-logs --out-link build/dist.iso
	nix build .#disk-image --print-build-logs --out-link build/dist-disk
	nix build .#netboot --print-build-logs --out-link build/dist-netboot
	nix build .#licenses --print-build-logs --out-link build/dist-licenses
	nix build .#sbom-images --print-build-logs --out-link build/dist-images-licenses
	nix build .#talosctl-portable --print-build-logs --out-link build/dist-talosctl
	nix build .#talosctl-pyz --print-build-logs --out-link build/dist-talosctl.pyz
	$(if $(RELEASE_KEY),nix run .\#sign -- $(RELEASE_SIGNER) --out build/dist-signed.tar build/dist-release.tar,@cp build/dist-release.tar build/dist-signed.tar)
	@$(DIST) talos-@-amd64.release.tar=build/dist-signed.tar talos-@-amd64.iso=build/dist.iso \
		talos-@-amd64.raw.gz=build/dist-disk/disk.raw talos-@-amd64.qcow2=build/dist-disk/disk.qcow2 \
		talos-@-amd64.netboot.tar=build/dist-netboot talosctl-linux-amd64=build/dist-talosctl talosctl.pyz=build/dist-talosctl.pyz \
		talos.spdx.json=build/dist-licenses/talos.spdx.json talos-licenses.tar=build/dist-licenses \
		talos-images.spdx.json=build/dist-images-licenses/talos-images.spdx.json talos-images-licenses.tar=build/dist-images-licenses

clean: ## Remove the links to what was built; the Nix store keeps the rest
	rm -rf build
