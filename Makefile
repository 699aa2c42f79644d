# Maquette. `make help` lists the targets; config.mk (optional) may override the variables below.
# GNU make, no configure step. Everything generated goes to build/.

-include config.mk
PREFIX ?= /usr/local
VERSION := 0.1
CUDA   ?= auto
SAN    ?=
V      ?= 0
ifeq ($(origin CC),default)
CC := gcc
endif
ifeq ($(origin CXX),default)
CXX := g++
endif

BUILD := build$(if $(SAN),/san-$(subst $(comma),-,$(subst $() ,,$(SAN))))
comma := ,
Q := $(if $(filter 0,$(V)),@)
say = $(if $(filter 0,$(V)),@printf '  %-7s %s\n' $(1) $(2))
sources = $(sort $(wildcard $(1)))

WARN := -Wall -Wextra -Wno-unused-parameter -Wshadow -Wcast-qual -Wvla -Wformat=2 -Wundef \
	-Wwrite-strings -Wdouble-promotion
CWARN := $(WARN) -Wstrict-prototypes -Wmissing-prototypes
FLAGS := -O2 -g -ffp-contract=off -fvisibility=hidden -fPIC -D_GNU_SOURCE -DMQ_VERSION=\"$(VERSION)\" -Isim -Istrategies \
	-Ivalidator -I$(BUILD)/gen $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer)
ALL_CFLAGS := -std=gnu11 $(CWARN) $(FLAGS) $(CFLAGS)
ALL_CXXFLAGS := -std=gnu++17 $(WARN) $(FLAGS) $(CXXFLAGS)
ALL_LDFLAGS := $(if $(SAN),-fsanitize=$(SAN)) $(LDFLAGS)

# pkg-config, with -I turned into -isystem: other people's headers are not ours to warn about.
cflags_of = $(patsubst -I%,-isystem %,$(shell pkg-config --cflags $(1) 2>/dev/null))
libs_of = $(filter-out -lgslcblas,$(shell pkg-config --libs $(1) 2>/dev/null))

CORE     := $(call sources,sim/core/*.c)
FORMATS  := $(call sources,sim/formats/*.c)
SIM      := $(FORMATS) $(call sources,sim/lower/*.c sim/executors/*.c)
SIMXX    := $(call sources,sim/executors/*.cpp)
CMD      := $(call sources,sim/cmd/*.c)
FITLIB   := $(call sources,validator/fit/*.c)
ENGINES  := $(call sources,strategies/*.c)
ENGLIB   := $(call sources,strategies/lib/*.c strategies/nn/*.c)
REPLAY   := $(call sources,validator/replay/*.c)
EXECS    := $(call sources,validator/*.c)

obj = $(patsubst %,$(BUILD)/obj/%.o,$(1))
MAIN_OBJ := $(call obj,sim/cmd/main.c)
LIB_OBJ  := $(call obj,$(CORE) $(SIM) $(SIMXX) $(filter-out sim/cmd/main.c,$(CMD)) $(FITLIB)) \
	$(BUILD)/obj/gen/onnx.pb-c.c.o
ENGINE_SO := $(patsubst strategies/%.c,$(BUILD)/engines/%.so,$(ENGINES))
EXEC_SO   := $(patsubst validator/%.c,$(BUILD)/executors/%.so,$(EXECS))

SIM_PKGS := jansson inih gsl openblas libprotobuf-c simgrid
SIM_LIBS := -lcsv $(call libs_of,$(SIM_PKGS)) -ldl -lm -lpthread

.DEFAULT_GOAL := all
.SECONDARY:
.DELETE_ON_ERROR:

##@ Use
help: ## this list
	@awk '/^##@/{print "\n" substr($$0,5)} /^[a-z][a-z-]*:.*## /{split($$0,a,":.*## "); \
		printf "  %-12s %s\n", a[1], a[2]}' $(MAKEFILE_LIST)

all: $(BUILD)/maquette $(BUILD)/maquette-replay $(ENGINE_SO) $(EXEC_SO) compile_commands.json ## build everything

$(BUILD)/maquette: $(MAIN_OBJ) $(LIB_OBJ)
	$(call say,LINK,$@)
	$(Q)$(CXX) $(ALL_LDFLAGS) -rdynamic -o $@ $^ $(SIM_LIBS)

# The replay program: core and its own files alone; no SimGrid, no GSL.
$(BUILD)/maquette-replay: $(call obj,$(CORE) $(REPLAY))
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -rdynamic -o $@ $^ -l:libcsv.a -l:libjansson.a -ldl -lm -lpthread

# A plug-in names the packages it alone needs in a line "link: NAME ..." of its head comment: a
# pkg-config name, or -lNAME.
link_line = $(shell sed -n 's/^ \* link: *//p' $(1))
link_libs = $(filter -l%,$(call link_line,$(1))) $(call libs_of,$(filter-out -l%,$(call link_line,$(1))))
$(BUILD)/engines/%.so: $(BUILD)/obj/strategies/%.c.o $(BUILD)/englib.a
	$(call say,ENGINE,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_LDFLAGS) -shared -o $@ $< $(BUILD)/englib.a $(call link_libs,strategies/$*.c) -lopenblas -lm
$(BUILD)/englib.a: $(call obj,$(ENGLIB))
	@rm -f $@; mkdir -p $(@D)
	$(Q)ar rcs $@ $^
# Parts of an executor live in a folder of its name.
.SECONDEXPANSION:
$(BUILD)/executors/%.so: $(BUILD)/obj/validator/%.c.o $$(call obj,$$(sort $$(wildcard validator/$$*/*.c)))
	$(call say,EXEC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_LDFLAGS) -shared -o $@ $(filter %.o,$^) $(call link_libs,validator/$*.c) -ldl -lm -lpthread

# Generated tables: a file's presence is its registration, so they follow the *list* of files and are
# rewritten only when it changes.
names = $(patsubst %.c,%,$(notdir $(1)))
define table
$(BUILD)/gen/$(1): FORCE
	@mkdir -p $$(@D); printf '$(2)(%s)\n' $(3) | cmp -s - $$@ || printf '$(2)(%s)\n' $(3) >$$@
endef
$(eval $(call table,formats.inc,MQ_FORMAT,$(filter-out formats common%,$(call names,$(FORMATS)))))
$(eval $(call table,commands.inc,MQ_COMMAND,$(filter-out main common%,$(call names,$(CMD)))))
FORCE:
$(BUILD)/obj/sim/formats/formats.c.o: $(BUILD)/gen/formats.inc
$(BUILD)/obj/sim/cmd/main.c.o: $(BUILD)/gen/commands.inc

ONNX_PROTO ?= /usr/include/onnx/onnx.proto
$(BUILD)/gen/onnx.pb-c.c: $(ONNX_PROTO)
	@mkdir -p $(@D)
	$(call say,PROTOC,$@)
	$(Q)protoc-c --proto_path=$(dir $<) --c_out=$(@D) $<
$(BUILD)/obj/gen/onnx.pb-c.c.o: $(BUILD)/gen/onnx.pb-c.c
	@mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 -O2 -fPIC -w -c $< -o $@
$(call obj,sim/formats/onnx.c): $(BUILD)/gen/onnx.pb-c.c

# Objects are rebuilt when the flags change.
$(BUILD)/flags: FORCE
	@mkdir -p $(@D); echo '$(CC) $(ALL_CFLAGS) $(ALL_CXXFLAGS)' | cmp -s - $@ || \
		echo '$(CC) $(ALL_CFLAGS) $(ALL_CXXFLAGS)' >$@
PKG_CFLAGS := $(call cflags_of,$(SIM_PKGS) hwloc igraph ompi-c)
$(BUILD)/obj/%.c.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(ALL_CFLAGS) $(PKG_CFLAGS) -MMD -MP -c $< -o $@
$(BUILD)/obj/%.cpp.o: %.cpp $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,CXX,$<)
	$(Q)$(CXX) $(ALL_CXXFLAGS) $(PKG_CFLAGS) -MMD -MP -c $< -o $@
-include $(shell find $(BUILD)/obj -name '*.d' 2>/dev/null)

##@ Test
test: check ## what the README promises: everything that needs no GPU
check: unit ## all quick tests

# A unit test links every object but main.
UNIT := $(patsubst tests/unit/%.c,$(BUILD)/tests/%,$(call sources,tests/unit/test_*.c))
$(BUILD)/tests/%: $(BUILD)/obj/tests/unit/%.c.o $(LIB_OBJ) $(BUILD)/englib.a
	$(call say,LINK,$@)
	@mkdir -p $(@D)
	$(Q)$(CXX) $(ALL_LDFLAGS) -rdynamic -o $@ $^ $(call link_libs,tests/unit/$*.c) -lcmocka $(SIM_LIBS)
unit: $(UNIT) ## cmocka unit tests
	@set -e; for t in $(UNIT); do echo "== $$t"; $$t; done

##@ Tidy
compile_commands.json: Makefile
	@{ echo '['; for f in $(CORE) $(SIM) $(CMD) $(ENGINES) $(ENGLIB) $(REPLAY) $(EXECS); do \
		echo "{\"directory\":\"$(CURDIR)\",\"file\":\"$$f\",\"command\":\"$(CC) $(ALL_CFLAGS) -c $$f\"},"; \
		done; echo '{"directory":"$(CURDIR)","file":"/dev/null","command":"true"}]'; } >$@
clean: ## remove build/
	rm -rf build compile_commands.json
.PHONY: help all test check unit clean FORCE
