# Maquette. `make help` lists the targets; config.mk (optional) may override the variables below.
# GNU make, no configure step. Everything generated goes to build/.

-include config.mk
VERSION := 0.3
PREFIX  ?= /usr/local
CUDA    ?= auto
SAN     ?=
V       ?= 0
ifeq ($(origin CC),default)
CC := gcc
endif
ifeq ($(origin CXX),default)
CXX := g++
endif

comma := ,
BUILD := build$(if $(SAN),/san-$(subst $(comma),-,$(SAN)))
Q := $(if $(filter 0,$(V)),@)
say = $(if $(filter 0,$(V)),@printf '  %-7s %s\n' $(1) $(2))
sources = $(sort $(wildcard $(1)))

WARN := -Wall -Wextra -Wno-unused-parameter -Wshadow -Wcast-qual -Wvla -Wformat=2 -Wundef \
	-Wwrite-strings -Wdouble-promotion
CWARN := $(WARN) -Wstrict-prototypes -Wmissing-prototypes
# Sanitized objects are built to be checked, not to be fast: half the time of the build.
FLAGS := $(if $(SAN),-Og -g1,-O2 -g) -ffp-contract=off -fvisibility=hidden -fPIC -D_GNU_SOURCE \
	-DMQ_VERSION_NUMBER=$(VERSION) -Isim -Isim/include -Istrategies -Ivalidator -I$(BUILD)/gen \
	$(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer -fno-sanitize-recover=all) \
	$(if $(FUZZER),-fsanitize=fuzzer-no-link)

# The CUDA toolkit is needed by no build: with it the executor's types are checked against its headers.
CUDA_HOME ?= $(patsubst %/bin/nvcc,%,$(firstword $(wildcard $(shell command -v nvcc 2>/dev/null) \
	/usr/local/cuda/bin/nvcc)))
ifeq ($(CUDA),yes)
ifeq ($(wildcard $(CUDA_HOME)/include/cuda_runtime_api.h),)
$(error CUDA=yes, but no toolkit was found: set CUDA_HOME or put nvcc in PATH)
endif
endif
ifneq ($(CUDA),no)
ifneq ($(wildcard $(CUDA_HOME)/include/cuda_runtime_api.h),)
CUDA_FLAGS := -DMQ_CUDA_HEADERS=1 -isystem $(CUDA_HOME)/include
endif
endif

ALL_CFLAGS := -std=gnu11 $(CWARN) $(FLAGS) $(CUDA_FLAGS) $(CFLAGS)
ALL_CXXFLAGS := -std=gnu++17 $(WARN) $(FLAGS) $(CXXFLAGS)
ALL_LDFLAGS := $(if $(SAN),-fsanitize=$(SAN)) $(LDFLAGS)

# pkg-config, with -I turned into -isystem: other people's headers are not ours to warn about.
cflags_of = $(patsubst -I%,-isystem %,$(shell pkg-config --cflags $(1) 2>/dev/null))
libs_of = $(filter-out -lgslcblas,$(shell pkg-config --libs $(1) 2>/dev/null))

# What the replay program is made of besides its own files: a schedule and what it stands on.
REPLAYED := $(call sources,sim/base/*.c sim/model/*.c sim/schedule/*.c)
FORMATS  := $(call sources,sim/model/formats/*.c)
BUILDERS := $(call sources,sim/model/builders/*.c)
CMD      := $(call sources,sim/cmd/*.c)
SIM      := $(filter-out sim/cmd/main.c,$(call sources,sim/*/*.c sim/*/*/*.c sim/*/*/*/*.c))
SIMXX    := $(call sources,sim/*/*.cpp sim/*/*/*.cpp)
FITLIB   := $(call sources,validator/fit/*.c validator/trace/*.c)
ENGINES  := $(call sources,strategies/*.c)
ENGLIB   := $(call sources,strategies/*/*.c strategies/*/*/*.c)
REPLAY   := $(call sources,validator/replay/*.c)
EXECS    := $(call sources,validator/*.c)

obj = $(patsubst %,$(BUILD)/obj/%.o,$(1))
MAIN_OBJ := $(call obj,sim/cmd/main.c)
LIB_OBJ  := $(call obj,$(SIM) $(SIMXX) $(FITLIB)) \
	$(BUILD)/obj/gen/onnx.pb-c.c.o $(BUILD)/obj/gen/chakra.pb-c.c.o
ENGINE_SO := $(patsubst strategies/%.c,$(BUILD)/engines/%.so,$(ENGINES))
ENGINE_DATA := $(patsubst strategies/%,$(BUILD)/engines/%,$(sort $(wildcard strategies/*.weights)))
EXEC_SO   := $(patsubst validator/%.c,$(BUILD)/executors/%.so,$(EXECS))
# NAME/parts/PART.c is a library of its own, NAME/PART.so, which the executor opens where it needs it.
EXEC_PARTS := $(call sources,validator/*/parts/*.c)
EXEC_PART_SO := $(subst /parts/,/,$(patsubst validator/%.c,$(BUILD)/executors/%.so,$(EXEC_PARTS)))

SIM_PKGS := jansson gsl openblas libprotobuf-c simgrid hwloc
SIM_LIBS := -lexpat -lyaml -lyajl -lz -lsqlite3 $(call libs_of,$(SIM_PKGS)) -ldl -lm -lpthread

.DEFAULT_GOAL := all
.SECONDARY:
.DELETE_ON_ERROR:

##@ Use
help: ## this list
	@awk '/^##@/{print "\n" substr($$0,5)} /^[a-z][a-z-]*:.*## /{split($$0,a,":.*## "); \
		printf "  %-12s %s\n", a[1], a[2]}' $(MAKEFILE_LIST)

all: $(BUILD)/libs/made $(BUILD)/maquette $(BUILD)/maquette-replay $(ENGINE_SO) $(ENGINE_DATA) $(EXEC_SO) $(EXEC_PART_SO) compile_commands.json ## build everything

$(BUILD)/maquette: $(MAIN_OBJ) $(LIB_OBJ)
	$(call say,LINK,$@)
	$(Q)$(CXX) $(ALL_LDFLAGS) $(RPATH) -rdynamic -o $@ $^ $(SIM_LIBS)
# Programs, built or installed, and what they open look for libraries here first: SimGrid's link of ns-3, which nothing
# here calls, would take three quarters of a start.
RPATH := -Wl,--disable-new-dtags,-rpath,'$$ORIGIN/libs:$$ORIGIN/../libs:$$ORIGIN/../lib/maquette/libs'
SIMGRID := $(realpath $(shell pkg-config --variable=libdir simgrid 2>/dev/null)/libsimgrid.so)
$(BUILD)/libs/made: sim/python/absent.py $(SIMGRID)
	@mkdir -p $(@D)
	$(Q)if [ "$(SIMGRID)" ] && [ "$$(uname -m)" = x86_64 ]; then python3 $< $(SIMGRID) $(@D); fi
	@touch $@

# No SimGrid, no GSL: it is copied to GPU nodes.
$(BUILD)/maquette-replay: $(call obj,$(REPLAYED) $(REPLAY))
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -rdynamic -o $@ $^ -l:libjansson.a -ldl -lm -lpthread

# A plug-in names the packages it alone needs in a line "link: NAME ..." of its head comment: a
# pkg-config name, or -lNAME.
link_line = $(shell sed -n 's/^ \* link: *//p' $(1))
link_libs = $(filter -l%,$(call link_line,$(1))) $(call libs_of,$(filter-out -l%,$(call link_line,$(1))))
$(BUILD)/engines/%.so: $(BUILD)/obj/strategies/%.c.o $(BUILD)/englib.a
	$(call say,ENGINE,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_LDFLAGS) -shared -o $@ $< $(BUILD)/englib.a $(call link_libs,strategies/$*.c) -lopenblas -lm
$(BUILD)/engines/%.weights: strategies/%.weights
	@mkdir -p $(@D); cp $< $@
$(BUILD)/englib.a: $(call obj,$(ENGLIB))
	@rm -f $@; mkdir -p $(@D)
	$(Q)ar rcs $@ $^
# Parts of an executor live in a folder of its name.
.SECONDEXPANSION:
$(BUILD)/executors/%.so: $(BUILD)/obj/validator/%.c.o $$(call obj,$$(sort $$(wildcard validator/$$*/*.c)))
	$(call say,EXEC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_LDFLAGS) -shared -o $@ $(filter %.o,$^) $(call link_libs,validator/$*.c) -ldl -lm -lpthread

define part_rule
$(BUILD)/executors/$(subst /parts/,/,$(patsubst validator/%.c,%.so,$(1))): $(call obj,$(1))
	$$(call say,EXEC,$$@)
	@mkdir -p $$(@D)
	$$(Q)$$(CC) $$(ALL_LDFLAGS) -shared -o $$@ $$< $$(call link_libs,$(1)) -lm
endef
$(foreach p,$(EXEC_PARTS),$(eval $(call part_rule,$(p))))

# Nobody waits for these rooms: a third of their compile time is saved. Without fast-math the bits stay the same.
COLD := $(call obj,$(call sources,$(patsubst %,%/*.c,sim/cmd sim/cmd/* sim/export sim/session sim/session/pages \
	sim/study sim/score validator/fit validator/trace)))
$(COLD): private ALL_CFLAGS += $(if $(SAN),-O0,-O1)
# Loops over matrices are worth vectorising; element by element, so the bits stay the same.
$(call obj,$(call sources,strategies/nn/*.c)): private ALL_CFLAGS += -O3

# Generated tables: a file's presence is its registration, so they follow the *list* of files and are
# rewritten only when it changes.
names = $(patsubst %.c,%,$(notdir $(1)))
define table
$(BUILD)/gen/$(1): FORCE
	@mkdir -p $$(@D); printf '$(2)(%s)\n' $(3) | cmp -s - $$@ || printf '$(2)(%s)\n' $(3) >$$@
endef
$(eval $(call table,builders.inc,MQ_BUILDER,$(filter-out builders,$(call names,$(BUILDERS)))))
$(eval $(call table,formats.inc,MQ_FORMAT,$(filter-out formats,$(call names,$(FORMATS)))))
$(eval $(call table,commands.inc,MQ_COMMAND,$(filter-out main,$(call names,$(CMD)))))
PUBLIC := $(call sources,sim/include/maquette/*.h sim/include/maquette/*.def)
# Plug-ins are loaded only where they were compiled with these headers.
$(BUILD)/gen/maquette/abi.h: $(PUBLIC) tests/make-abi
	@mkdir -p $(@D); tests/make-abi '$(CC)' $(PUBLIC) >$@.new; cmp -s $@.new $@ && rm $@.new || mv $@.new $@
FORCE:
# The commit that --version prints: of the checkout, or of the archive it came in (.commit). Two objects depend on it.
COMMIT := $(or $(filter-out %$$,$(shell sed 's/.*Format:.*/$$/' .commit 2>/dev/null)),$(shell \
	git describe --always --dirty --abbrev=10 --exclude '*' 2>/dev/null))
VERSION_LINE := \#define MQ_VERSION_TEXT "$(VERSION)$(if $(COMMIT), ($(COMMIT)))"
$(BUILD)/gen/version.h: FORCE
	@mkdir -p $(@D); echo '$(VERSION_LINE)' | cmp -s - $@ || echo '$(VERSION_LINE)' >$@
$(MAIN_OBJ) $(call obj,validator/replay/main.c): $(BUILD)/gen/version.h
$(call obj,sim/model/builders/builders.c): $(BUILD)/gen/builders.inc
$(call obj,sim/model/formats/formats.c): $(BUILD)/gen/formats.inc
$(call obj,sim/cmd/lib/commands.c): $(BUILD)/gen/commands.inc

ONNX_PROTO ?= /usr/include/onnx/onnx.proto
$(BUILD)/gen/onnx.pb-c.c: $(ONNX_PROTO)
	@mkdir -p $(@D)
	$(call say,PROTOC,$@)
	$(Q)protoc-c --proto_path=$(dir $<) --c_out=$(@D) $<
$(BUILD)/obj/gen/onnx.pb-c.c.o: $(BUILD)/gen/onnx.pb-c.c
	@mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 -O2 -fPIC -w -c $< -o $@
$(call obj,sim/model/formats/onnx.c): $(BUILD)/gen/onnx.pb-c.c
$(BUILD)/gen/chakra.pb-c.c: validator/trace/chakra.proto
	@mkdir -p $(@D)
	$(call say,PROTOC,$@)
	$(Q)protoc-c --proto_path=$(dir $<) --c_out=$(@D) $<
$(BUILD)/obj/gen/chakra.pb-c.c.o: $(BUILD)/gen/chakra.pb-c.c
	@mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 -O2 -fPIC -w -c $< -o $@
$(call obj,validator/trace/chakra.c): $(BUILD)/gen/chakra.pb-c.c
# CUDA source that is compiled at run time, as lines of text.
$(BUILD)/gen/kernels.cu.inc: validator/cuda/kernels.cu
	@mkdir -p $(@D); sed 's/[\\"]/\\&/g; s/.*/"&\\n"/' $< >$@
$(call obj,validator/cuda/kernels_own.c tests/unit/test_own_kernels.c): $(BUILD)/gen/kernels.cu.inc

# Objects are rebuilt when the flags change.
$(BUILD)/flags: FORCE
	@mkdir -p $(@D); echo '$(CC) $(ALL_CFLAGS) $(ALL_CXXFLAGS)' | cmp -s - $@ || \
		echo '$(CC) $(ALL_CFLAGS) $(ALL_CXXFLAGS)' >$@
PKG_CFLAGS := $(call cflags_of,$(SIM_PKGS) hwloc igraph ompi-c)
$(BUILD)/obj/%.c.o: %.c $(BUILD)/flags | $(BUILD)/gen/maquette/abi.h
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(ALL_CFLAGS) $(PKG_CFLAGS) -MMD -MP -c $< -o $@
$(BUILD)/obj/%.cpp.o: %.cpp $(BUILD)/flags | $(BUILD)/gen/maquette/abi.h
	@mkdir -p $(@D)
	$(call say,CXX,$<)
	$(Q)$(CXX) $(ALL_CXXFLAGS) $(PKG_CFLAGS) -MMD -MP -c $< -o $@
-include $(shell find $(BUILD)/obj -name '*.d' 2>/dev/null)

# Debian packages: what the build needs, then what only some engines, executors, tests and figures need.
DEB_BUILD := build-essential pkg-config libsimgrid-dev libgsl-dev libopenblas-dev \
	libjansson-dev libprotobuf-c-dev protobuf-c-compiler libonnx-dev libhwloc-dev libexpat1-dev libyaml-dev libyajl-dev zlib1g-dev libsqlite3-dev python3
DEB_PARTS := libopenmpi-dev openmpi-bin libigraph-dev libmetis-dev coinor-cbc gnuplot-nox \
	graphviz libcmocka-dev valgrind procps
deps: ## install what is missing (as root or through sudo), or print the line to run
	@missing=$$(for p in $(DEB_BUILD) $(DEB_PARTS); do \
		dpkg-query -W -f '$${db:Status-Abbrev}' $$p 2>/dev/null | grep -q '^.i' || printf '%s ' $$p; done); \
	[ -n "$$missing" ] || { echo "deps: nothing is missing"; exit 0; }; \
	line="apt-get install -y --no-install-recommends $$missing"; \
	if [ $$(id -u) = 0 ]; then as=; elif sudo -n true 2>/dev/null; then as=sudo; else \
		echo "deps: missing: $$missing"; echo "run as root: $$line"; exit 1; fi; \
	echo "deps: installing $$missing"; \
	DEBIAN_FRONTEND=noninteractive; export DEBIAN_FRONTEND; \
	$$as apt-get update -qq && $$as $$line >/dev/null && echo "deps: done"
doctor: ## what is there and what is not
	@for p in $(DEB_BUILD) $(DEB_PARTS); do v=$$(dpkg-query -W -f '$${Version}' $$p 2>/dev/null); \
		printf '%-22s %s\n' $$p "$${v:-MISSING (make deps)}"; done
	@printf '%-22s %s\n' 'CUDA toolkit' '$(if $(CUDA_FLAGS),$(CUDA_HOME),none: the executor loads libraries at run time)'
	@printf '%-22s %s\n' 'NVIDIA GPU' "$$(nvidia-smi -L 2>/dev/null | head -n 1 || true)"

demo: ## install, build, and the main job on two clusters: tables and figures under build/demo/
	@$(MAKE) -s deps
	@$(MAKE) -s all
	@tests/run-demo $(BUILD)/maquette build/demo
plots: all ## the figures of results/ under build/plots/
	@set -e; for d in $(filter-out results/contest/,$(wildcard results/*/)); do n=$$(basename $$d); \
		ls $$d | grep -qE '^(candidates|timeline|plans|score|whatif)\.csv$$' || continue; \
		$(BUILD)/maquette plot $$d -o build/plots/$$n; done
	@[ ! -f results/contest/curve.csv ] || $(MAKE) -s contest-figure
contest: all ## every engine on twenty-two questions at equal budgets: results/contest/*.csv and a figure
	@tests/run-contest $(BUILD)/maquette results/contest
	@$(MAKE) -s contest-figure
contest-figure:
	@mkdir -p build/plots/contest; for f in png svg; do gnuplot -e "dir='results/contest'; fmt='$$f'; \
		out='build/plots/contest/contest'; seconds=$$(test -f results/contest/seconds.csv && echo 1 || echo 0); \
		engines='$$(awk -F, 'NR > 1 && !seen[$$1]++ { printf "%s ", $$1 }' results/contest/curve.csv)'" \
		plots/contest.gp; done
install: all $(BUILD)/maquette.1 $(BUILD)/maquette.bash $(BUILD)/_maquette ## copy programs, engines, platforms and man page under PREFIX
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/lib/maquette/engines \
		$(DESTDIR)$(PREFIX)/lib/maquette/executors $(DESTDIR)$(PREFIX)/share/maquette/plots \
		$(DESTDIR)$(PREFIX)/share/maquette/platforms/calib \
		$(DESTDIR)$(PREFIX)/share/maquette/platforms/models \
		$(DESTDIR)$(PREFIX)/share/maquette/platforms/kernels \
		$(DESTDIR)$(PREFIX)/share/maquette/platforms/launch \
		$(DESTDIR)$(PREFIX)/share/maquette/platforms/software $(DESTDIR)$(PREFIX)/share/man/man1
	install $(BUILD)/maquette $(BUILD)/maquette-replay $(DESTDIR)$(PREFIX)/bin
	install -m 644 $(ENGINE_SO) $(ENGINE_DATA) $(DESTDIR)$(PREFIX)/lib/maquette/engines
	install -m 644 $(EXEC_SO) $(DESTDIR)$(PREFIX)/lib/maquette/executors
	install -d $(DESTDIR)$(PREFIX)/lib/maquette/libs
	for p in $(wildcard $(BUILD)/libs/*.so.*); do install -m 644 $$p $(DESTDIR)$(PREFIX)/lib/maquette/libs; done
	for p in $(EXEC_PART_SO:$(BUILD)/executors/%=%); do \
		install -D -m 644 $(BUILD)/executors/$$p $(DESTDIR)$(PREFIX)/lib/maquette/executors/$$p; done
	install -m 644 $(wildcard platforms/*.xml platforms/*.csv platforms/README.md) $(DESTDIR)$(PREFIX)/share/maquette/platforms
	install -m 644 $(wildcard platforms/calib/*.json) $(DESTDIR)$(PREFIX)/share/maquette/platforms/calib
	install -m 644 $(wildcard platforms/models/*) $(DESTDIR)$(PREFIX)/share/maquette/platforms/models
	install -m 644 $(wildcard platforms/kernels/*) $(DESTDIR)$(PREFIX)/share/maquette/platforms/kernels
	install -m 644 $(wildcard platforms/launch/*) $(DESTDIR)$(PREFIX)/share/maquette/platforms/launch
	install -m 644 $(wildcard platforms/software/*.json platforms/software/*.csv platforms/software/README.md) $(DESTDIR)$(PREFIX)/share/maquette/platforms/software
	install -D -m 644 results/accuracy/trust.csv $(DESTDIR)$(PREFIX)/share/maquette/results/accuracy/trust.csv
	install -m 644 $(wildcard plots/*.gp plots/report.*) $(DESTDIR)$(PREFIX)/share/maquette/plots
	install -m 644 $(BUILD)/maquette.1 $(DESTDIR)$(PREFIX)/share/man/man1
	install -D -m 644 $(BUILD)/maquette.bash $(DESTDIR)$(PREFIX)/share/bash-completion/completions/maquette
	install -D -m 644 $(BUILD)/_maquette $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_maquette
	install -d $(DESTDIR)$(PREFIX)/include/maquette
	install -m 644 $(PUBLIC) $(BUILD)/gen/maquette/abi.h $(DESTDIR)$(PREFIX)/include/maquette
	install -d $(DESTDIR)$(PREFIX)/lib/pkgconfig
	printf 'prefix=%s\nenginesdir=$${prefix}/lib/maquette/engines\n\nName: maquette\nDescription: headers for search engines and executors\nVersion: %s\nCflags: -I$${prefix}/include\n' \
		'$(PREFIX)' '$(VERSION)' >$(DESTDIR)$(PREFIX)/lib/pkgconfig/maquette.pc
uninstall: ## take away what install copied under PREFIX
	rm -rf $(addprefix $(DESTDIR)$(PREFIX)/,bin/maquette bin/maquette-replay lib/maquette lib/pkgconfig/maquette.pc \
		share/maquette share/man/man1/maquette.1 include/maquette share/bash-completion/completions/maquette \
		share/zsh/site-functions/_maquette)
WHEELS ?= $(BUILD)
WHEEL := $(abspath $(BUILD)/wheel/prefix)
wheel: all ## a Python package of all that install copies, and its libraries: build/maquette-VERSION-*.whl
	@rm -rf $(WHEEL) $(WHEELS)/maquette-*.whl; $(MAKE) -s install DESTDIR= PREFIX=$(WHEEL) >/dev/null
	@rm -rf $(addprefix $(WHEEL)/,include lib/pkgconfig lib/maquette/libs share/man share/bash-completion share/zsh)
	@find $(WHEEL)/lib $(WHEEL)/bin -type f ! -name '*.weights' -exec strip --strip-unneeded {} +
	@PYTHONDONTWRITEBYTECODE=1 sim/python/make-wheel $(WHEEL) $(VERSION) $(WHEELS)
dist: ## the sources as build/maquette-VERSION.tar.gz
	@mkdir -p build; git archive --format=tar.gz --prefix=maquette-$(VERSION)/ -o build/maquette-$(VERSION).tar.gz HEAD
	@echo build/maquette-$(VERSION).tar.gz
deb: $(BUILD)/maquette $(BUILD)/maquette.1 ## a Debian package as build/maquette_VERSION_ARCH.deb
	@rm -rf build/deb; $(MAKE) -s install PREFIX=/usr DESTDIR=build/deb
	@mkdir -p build/deb/DEBIAN; arch=$$(dpkg --print-architecture); \
		needs=$$(ldd $(BUILD)/maquette | awk '$$3 ~ "^/" { print $$3 }' | xargs -n 1 readlink -f | xargs dpkg -S 2>/dev/null | \
			sed 's/:.*//' | sort -u | paste -sd, | sed 's/,/, /g'); \
		printf 'Package: maquette\nVersion: %s\nArchitecture: %s\nMaintainer: the Maquette developers <maquette@localhost>\nDepends: %s\nDescription: tries training plans on a model of a cluster\n' \
			'$(VERSION)' "$$arch" "$$needs" >build/deb/DEBIAN/control; \
		dpkg-deb --root-owner-group --build build/deb build/maquette_$(VERSION)_$$arch.deb
# The man page comes from the option tables, through --help.
$(BUILD)/maquette.1: $(BUILD)/maquette $(ENGINE_SO) tests/make-manpage
	@tests/make-manpage $(BUILD)/maquette $(VERSION) >$@
# So do the completions.
$(BUILD)/maquette.bash $(BUILD)/_maquette: $(BUILD)/maquette $(ENGINE_SO) tests/make-completions
	@tests/make-completions $(BUILD)/maquette $(if $(filter %.bash,$@),bash,zsh) >$@

##@ Test
# Stand-ins for NVIDIA's libraries, so that the cuda executor is tested where there is no GPU.
MOCKS := $(patsubst tests/mock/%.c,$(BUILD)/mock/%.so,$(call sources,tests/mock/mock_*.c))
$(BUILD)/mock/mock_cudart.so: $(BUILD)/obj/tests/mock/mock_cudart.c.o
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_LDFLAGS) -shared -Wl,-soname,$(@F) -o $@ $< -ldl -lm
# They time products as the cost model does.
$(BUILD)/mock/%.so: $(BUILD)/obj/tests/mock/%.c.o $(BUILD)/mock/mock_cudart.so \
	$(call obj,$(REPLAYED) $(call sources,$(addprefix sim/,hardware/*.c plan/*.c software/*.c kernels/*.c)))
	$(Q)$(CC) $(ALL_LDFLAGS) -shared -Wl,-Bsymbolic -Wl,-rpath,'$$ORIGIN' -o $@ $^ \
		-ljansson -ldl -lm
# Writes down what executor host asks of its libraries.
$(BUILD)/mock/record_host.so: $(BUILD)/obj/tests/mock/record_host.c.o
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_LDFLAGS) -shared -o $@ $< $(call libs_of,ompi-c) -ldl
MOCKS += $(BUILD)/mock/record_host.so
UNIT := $(patsubst tests/unit/%.c,$(BUILD)/tests/%,$(call sources,tests/unit/test_*.c)) \
	$(patsubst tests/engines/%.c,$(BUILD)/tests/%,$(call sources,tests/engines/test_*.c))
FUZZ := $(patsubst tests/fuzz/%.c,$(BUILD)/tests/%,$(call sources,tests/fuzz/fuzz_*.c))
BENCH := $(patsubst tests/bench/%.c,$(BUILD)/tests/%,$(call sources,tests/bench/bench_*.c))
# gold, where it is there, takes a third of the time of a link. It leaves out OpenBLAS, which the tests themselves do not
# call; the engines, opened later, would then find GSL's slow reference BLAS.
TEST_LD := $(if $(shell command -v ld.gold 2>/dev/null),-fuse-ld=gold)
define link_test # of the prerequisites, with further FLAGS and the libraries that SOURCES name
	$(call say,LINK,$@)
	$(Q)$(CXX) $(ALL_LDFLAGS) $(TEST_LD) $(1) $(RPATH) -rdynamic -o $@ $(filter %.o %.a,$^) -Wl,--no-as-needed -lopenblas \
		$(sort $(foreach f,$(2),$(call link_libs,$(f)))) -lcmocka $(SIM_LIBS)
endef
# Parts of the executors and of the replay, which links none of the library, are tested beside it.
TESTED := $(call obj,tests/fuzz/file.c validator/host/kernels.c validator/host/run.c validator/host/wire.c \
	$(addprefix validator/replay/,capacity.c rendezvous.c wire.c wire_coll.c))
$(BUILD)/tests/bench_%: $(BUILD)/obj/tests/bench/bench_%.c.o $(LIB_OBJ) $(BUILD)/englib.a | $(BUILD)/tests/
	$(call link_test,,tests/bench/bench_$*.c)
$(BUILD)/tests/:
	@mkdir -p $@
ifdef FUZZER
$(BUILD)/tests/fuzz_%: $(BUILD)/obj/tests/fuzz/fuzz_%.c.o $(TESTED) $(LIB_OBJ) $(BUILD)/englib.a | $(BUILD)/tests/
	$(call link_test,-fsanitize=fuzzer,tests/fuzz/fuzz_$*.c)
else
# All tests are one program, which is linked once: the name that it is started by says which runs (tests/all.c).
PARTS := $(patsubst $(BUILD)/tests/%,$(BUILD)/tests/parts/%.o,$(UNIT) $(FUZZ))
$(UNIT) $(FUZZ): $(BUILD)/tests/all
	@ln -sf all $@
$(BUILD)/tests/all: $(call obj,tests/all.c tests/fuzz/replay.c) $(PARTS) $(TESTED) $(LIB_OBJ) $(BUILD)/englib.a
	$(call link_test,,$(wildcard tests/unit/*.c tests/engines/*.c))
define part
$(BUILD)/tests/parts/%.o: $(BUILD)/obj/tests/$(1)/%.c.o
	@mkdir -p $$(@D); objcopy --redefine-sym main=main_$$* --redefine-sym LLVMFuzzerTestOneInput=input_$$* -G main_$$* -G input_$$* \
		$$< $$@
endef
$(foreach folder,unit engines fuzz,$(eval $(call part,$(folder))))
$(call obj,tests/all.c): $(BUILD)/gen/tests.def
# Optimizing tests takes as long as they run.
$(call obj,$(call sources,tests/unit/*.c tests/engines/*.c tests/fuzz/*.c tests/mock/*.c)): private ALL_CFLAGS += $(if $(SAN),-O0,-Og)
TESTS := $(patsubst %,'TEST(%)',$(notdir $(UNIT))) $(patsubst %,'TARGET(%)',$(notdir $(FUZZ)))
$(BUILD)/gen/tests.def: FORCE
	@mkdir -p $(@D); printf '%s\n' $(TESTS) | cmp -s - $@ || printf '%s\n' $(TESTS) >$@
endif

tests: $(UNIT) $(FUZZ) $(MOCKS)
unit: tests ## unit and conformance tests alone
	@BUILD=$(BUILD) tests/run-tests unit engines
check: all tests ## all quick tests; with SAN=address,undefined under the sanitizers
	@BUILD=$(BUILD) tests/run-tests
test: all tests sanitized-build ## check, then a part of it under sanitizers and valgrind: what the README promises
	@BUILD=$(BUILD) SAN_BUILD=build/san-address-undefined tests/run-tests all
	@if [ -d build/fuzz/tests ]; then RUNS=1000 $(MAKE) -s fuzz SECONDS=30; \
	else echo "SKIP fuzz: no build of the targets for clang's fuzzer; make fuzz makes one"; fi
sanitized-build:
	@$(MAKE) -s SAN=address,undefined sanitized
# What is run under sanitizers: executors and the replay, which need the stand-ins, are not.
sanitized: $(BUILD)/libs/made $(BUILD)/maquette $(ENGINE_SO) $(ENGINE_DATA) $(UNIT) $(FUZZ)
mutants: all tests ## plant faults in lowering and executors, one by one, and show which test catches each (half an hour)
	@tests/run-mutants
SECONDS ?= 60
fuzz: ## SECONDS (60) of libFuzzer for each reader under sanitizers, where clang is there; else the corpus
	@if command -v clang >/dev/null; then \
		$(MAKE) -s BUILD=build/fuzz CC=clang CXX=clang++ SAN=address,undefined FUZZER=1 CUDA=no fuzzers && \
		tests/run-fuzz build/fuzz $(SECONDS); \
	else $(MAKE) -s SAN=address,undefined tests && BUILD=build/san-address-undefined tests/run-tests corpus; fi
fuzzers: $(FUZZ)
ROUNDS ?= 100
soak: all $(MOCKS) ## kill, stop or starve searches, studies and tuning at random, ROUNDS (100) times: results equal, nothing left
	@tests/run-soak $(BUILD)/maquette $(ROUNDS)
validate-host: all ## calibrate this machine's cores and replay 20 plans on them (run alone; a minute)
	@MAQUETTE=$(BUILD)/maquette REPLAY=$(BUILD)/maquette-replay validator/validate-host $(BUILD)/validate-host
tune-host: all ## calibrate, search, replay, recalibrate, search again until the ranking stands (run alone; resumable)
	@MAQUETTE=$(BUILD)/maquette validator/tune $(BUILD)/tune-host
validate-gpu: all ## the same on this machine's GPUs
	@MAQUETTE=$(BUILD)/maquette REPLAY=$(BUILD)/maquette-replay validator/validate-gpu $(BUILD)/validate-gpu
frameworks: ## packages of the releases that exports are for, under build/frameworks, for tests/cli/export_wheels.sh
	@mkdir -p build/frameworks; python3 -m pip download -q --no-deps -d build/frameworks torchtitan==0.3.0 deepspeed==0.19.8
bless: all ## rewrite the expected outputs of goldens and command-line cases
	@BUILD=$(BUILD) BLESS=1 tests/run-tests golden cli readme
accuracy: $(BUILD)/maquette ## predictions against published runs; updates README.md and results/README.md
	@tests/accuracy.sh
identity: all ## every scored row of the published runs, run again from its job file: equal to the last digit (an hour)
	@MAQUETTE=$(BUILD)/maquette tests/identity.sh $(BUILD)/identity
peers: all ## plans of other planners beside ours, judged by our simulator: results/peers/peers.csv
	@tests/peers.sh $(BUILD)/maquette results/peers/peers.csv
fits: $(BUILD)/maquette ## the joint fits behind the calibrations, each table left out once
	@tests/fits.sh
columns-readme: ## the tables of output columns in sim/README.md from result.def
	@tests/columns-readme.sh
bench: all $(BENCH) ## speed beside raw SimGrid
	@set -e; for b in $(BENCH); do echo "== $$(basename $$b)"; $$b; done

##@ Tidy
C_FILES = $(shell git ls-files '*.c' '*.h' '*.cpp')
format: ## clang-format 14, in place
	clang-format -i $(C_FILES)
tidy: compile_commands.json ## static analysis: clang-tidy, else gcc -fanalyzer
	@if command -v clang-tidy >/dev/null; then clang-tidy --quiet -p . $(SIM); \
	else for f in $(SIM); do $(CC) $(ALL_CFLAGS) -fanalyzer -c $$f -o /dev/null; done; fi
compile_commands.json: Makefile $(BUILD)/flags
	@{ echo '['; for f in $(SIM) sim/cmd/main.c $(ENGINES) $(ENGLIB) $(REPLAY) $(EXECS) $(EXEC_PARTS); do \
		echo '{"directory":"$(CURDIR)","file":"'$$f'","command":"$(CC) $(ALL_CFLAGS) -c '$$f'"},'; \
		done; echo '{"directory":"$(CURDIR)","file":"/dev/null","command":"true"}]'; } >$@
clean: ## remove build/
	rm -rf build compile_commands.json
.PHONY: sanitized sanitized-build fuzz fuzzers soak accuracy identity peers fits columns-readme help all deps doctor demo plots contest contest-figure install uninstall wheel dist deb tests test check unit bless mutants tune-host validate-host \
	validate-gpu bench format tidy clean frameworks FORCE
