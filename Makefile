# (The make of a BSD stops here and names GNU's; to GNU's this includes nothing.)
include ${.CURDIR:D.ci/bsd.mk}

# ---- user settings ----------------------------------------------------------------------------
CC       = cc
CXX      = c++
AR       = ar
PIC      = -fPIC
CFLAGS   = -O2 -g
LDFLAGS  =
PREFIX   = /usr/local
DESTDIR  =
BINDIR   = $(PREFIX)/bin
LIBDIR   = $(PREFIX)/lib
LUA_VER  = 5.4
LUADIR   = $(PREFIX)/share/lua/$(LUA_VER)
LUACDIR  = $(PREFIX)/lib/lua/$(LUA_VER)
DOCDIR   = $(PREFIX)/share/doc/penumbra
MANDIR   = $(PREFIX)/share/man/man1
NOTEDIR  = $(PREFIX)/share/penumbra
LUA      = lua5.4
LUA_PC   = lua5.4
BLAS_PC  = openblas lapacke
EDIT_PC  = libedit
MPI_PC   = ompi-c
BUILD    = build
JOBS     = 2
FUZZ_SECONDS = 60
SOAK_SECONDS = 3600
MUTANTS      = 20
MUTANT_SEED  = 1
MUTANT_UNDER =
SOAK     = 67
# ------------------------------------------------------------------------------------------------

VERSION := 0.1.0
SONAME  := libpenumbra.so.0
RELEASED = 1795651200

# Asked of pkg-config once, and only when something is compiled: `make deps` may have to install it.
once     = $(eval $(1) := $(2))$($(1))
PKGS     = $(BLAS_PC) zlib
PKG_CPPFLAGS = $(call once,PKG_CPPFLAGS,$(shell pkg-config --cflags $(PKGS) $(LUA_PC)))
PKG_LIBS     = $(call once,PKG_LIBS,$(shell pkg-config --libs $(PKGS)))
PKG_LUA      = $(call once,PKG_LUA,$(shell pkg-config --libs $(LUA_PC)))
PKG_EDIT     = $(call once,PKG_EDIT,$(shell pkg-config --libs $(EDIT_PC)))

WARN     := -Wall -Wextra -Wpedantic -Wshadow -Wconversion
# -fwrapv: int64 tensors wrap around as NumPy's do; -ffp-contract=off: the same draws on every machine
ALL_CFLAGS = -std=c11 $(WARN) $(PIC) -fvisibility=hidden -fwrapv -ffp-contract=off -fno-math-errno $(CFLAGS) $(SANITIZE) \
             $(TABLES) -D_DEFAULT_SOURCE $(PKG_CPPFLAGS) $(CPPFLAGS) -MMD -MP
ALL_LDFLAGS = $(CFLAGS) $(SANITIZE) $(LDFLAGS)
has = $(if $(shell echo 'int f;' | $(CC) -shared -fPIC $(1) -Werror -Wl,--fatal-warnings -x c - -o /dev/null 2>&1),,$(1))
# Relocations packed, calls within the library bound to it.
SHARED     = $(call once,SHARED,-shared $(foreach f,-Bsymbolic-functions -zpack-relative-relocs,$(call has,-Wl$(comma)$(f))))
LIBS       = $(PKG_LIBS) -lm -lpthread -ldl

LUA_FILES  := $(if $(wildcard lua),$(shell find lua -name '*.lua' | LC_ALL=C sort))
LUA_DIRS   := $(patsubst lua/%/,%,$(sort $(dir $(LUA_FILES))))
PROGRAMS   := src/cli/% src/bridge/% src/kernel/% src/mpi/%
LIB_SRC    := $(filter-out $(PROGRAMS),$(wildcard src/*/*.c src/*/*/*.c))
LIB_TEXT   := $(LIB_SRC) $(filter-out $(PROGRAMS),$(wildcard src/*/*.[hd]* src/*/*/*.[hd]*)) src/penumbra.h
# A source *_real.c is compiled once for each type of floats (src/base/type_real.h).
TYPED_SRC  := $(filter %_real.c,$(LIB_SRC))
TYPED_OBJ   = $(TYPED_SRC:src/%.c=$(BUILD)/obj/%_f$(1).o)
LIB_OBJ    := $(patsubst src/%.c,$(BUILD)/obj/%.o,$(filter-out $(TYPED_SRC),$(LIB_SRC))) $(call TYPED_OBJ,32) \
              $(call TYPED_OBJ,64) $(BUILD)/obj/embedded_lua.o
CLI_OBJ    := $(patsubst src/%.c,$(BUILD)/obj/%.o,$(wildcard src/cli/*.c))
BRIDGE_OBJ := $(patsubst src/%.c,$(BUILD)/obj/%.o,$(wildcard src/bridge/*.c))
BRIDGE     := libpenumbra_bridge.so
# The notebook kernel, on Linux where what it needs is found. It shares the command's interruption and start.
KERNEL_SRC := $(if $(shell [ "$$(uname)" = Linux ] && pkg-config --exists libzmq libcjson 2>&1 && echo found),$(wildcard src/kernel/*.c))
KERNEL_OBJ := $(KERNEL_SRC:src/%.c=$(BUILD)/obj/%.o)
KERNEL     := $(if $(KERNEL_OBJ),$(BUILD)/penumbra-kernel)
PKG_KERNEL  = $(call once,PKG_KERNEL,$(shell pkg-config --libs libzmq libcjson))
# The module of several processes, where MPI is found. Neither the library nor the command needs it.
MPI_SRC    := $(if $(MPI_PC),$(if $(shell pkg-config --exists $(MPI_PC) 2>&1 && echo found),$(wildcard src/mpi/*.c)))
MPI_OBJ    := $(MPI_SRC:src/%.c=$(BUILD)/obj/%.o)
MPI        := $(if $(MPI_OBJ),$(BUILD)/lua/penumbra/mpi_core.so)
PKG_MPI     = $(call once,PKG_MPI,$(shell pkg-config --libs $(MPI_PC)))
SPEC_PROG  := $(patsubst %.c,$(BUILD)/%,$(wildcard spec/c/*_test.c))
EMBED_PROG := $(patsubst %.c,$(BUILD)/%,$(wildcard examples/embed/*.c))
BENCH_PROG := $(patsubst %.c,$(BUILD)/%,$(wildcard spec/bench/*.c))
FUZZ_PROG  := $(patsubst %.c,$(BUILD)/%,$(wildcard spec/fuzz/*.c))
PEERS := torch jax stan nutpie particles
PACKAGES_torch = torch pyro-ppl batchbald_redux==2.0.5 pytagi==0.2.1 torchsde
PACKAGES_jax   = jax numpyro blackjax 'arviz<0.23' smcx cuthbert dynamax statsmodels diffrax
PACKAGES_stan  = pystan 'setuptools<81' jax numpyro 'arviz<0.23'
PACKAGES_nutpie = nutpie==0.16.8 stanli==0.24.0 bridgestan==2.9.0 arviz==0.23.4
PACKAGES_particles = particles
PACKAGES_formats = 'zarr<3' xarray==2024.11.0 'arviz<0.23' stanio cmdstanpy onnx onnxruntime pyarrow
C_FILES     = $(shell find src spec examples -name '*.[ch]' -not -path '*/golden/*' 2>/dev/null | LC_ALL=C sort)
# What the command tells of its options, and where each file is installed below PREFIX/share.
COMPLETION_bash = bash-completion/completions/penumbra
COMPLETION_zsh  = zsh/site-functions/_penumbra
COMPLETION_fish = fish/vendor_completions.d/penumbra.fish
SHELLS     := bash zsh fish
completed   = $(DESTDIR)$(PREFIX)/share/$(COMPLETION_$(1))
TOLD       := $(BUILD)/penumbra.d.lua $(BUILD)/penumbra.1 $(SHELLS:%=$(BUILD)/completion.%)
ARTEFACTS  := $(BUILD)/libpenumbra.a $(BUILD)/$(SONAME) $(BUILD)/lua/penumbra/core.so \
              $(if $(CLI_OBJ),$(BUILD)/penumbra $(TOLD)) $(BUILD)/$(BRIDGE) $(KERNEL) $(MPI)

comma := ,
# `make V=1` prints whole commands
say = $(if $(V),,@echo '  $(1)' $(2) &&)
SUBMAKE = $(MAKE) --no-print-directory $(if $(filter -j%,$(MAKEFLAGS)),,-j$(JOBS))
LUA_ENV = LUA_PATH='lua/?.lua;lua/?/init.lua;;' LUA_CPATH='$(BUILD)/lua/?.so;;'
RUN     = LUA='$(LUA)' BUILD='$(BUILD)' JOBS='$(JOBS)'

# ---- what is built -----------------------------------------------------------------------------

all: $(ARTEFACTS)
amalgamation: $(BUILD)/amalgamation/penumbra.c $(BUILD)/amalgamation/penumbra.h
tests: all $(SPEC_PROG) $(EMBED_PROG) $(BENCH_PROG)
fuzzers: $(FUZZ_PROG)

# Inner loops become vector code. Only for a few of them are the compiler's largest efforts faster; elsewhere these give
# twice the code (and sine, cosine, lgamma and argmax are slower). What is written in vectors already only grows by
# either. A CFLAGS of your own is taken as it is.
LOOPS    = $(call once,LOOPS,-ftree-vectorize $(call has,-fvect-cost-model=dynamic))
WRITTEN  = $(foreach f,lane_matrix kalman short_rows distance conv_inner,%/$(f)_real_f32.o %/$(f)_real_f64.o) \
           %/small_product_portable.o %/small_product_avx2.o %/small_product_avx512.o
UNROLLED = %/blas.o
STRIDED  = %/reduce_real_f64.o %/reduce_real_f32.o
VECTORS  = $(BUILD)/obj/math/vector/%.o $(BUILD)/obj/math/random/rng_fill_%.o $(BUILD)/obj/tensor/product/small_product_%.o \
           $(BUILD)/obj/distribution/count/count_kernel.o $(BUILD)/obj/distribution/constraint_scan.o \
           $(BUILD)/obj/distribution/constraint_rows.o $(BUILD)/obj/distribution/kernel/%.o \
           $(BUILD)/obj/nn/moment/rectified_real_%.o $(BUILD)/obj/tensor/kernel/map_real_%.o
KERNELS  = $(filter-out $(WRITTEN),$(filter %_f64.o %_f32.o %_i64.o %_int.o %/blas.o %/op_density.o %/op_live_mean.o %/hamiltonian.o %/mass_matrix.o %/trajectory.o %/markov_lane.o %/markov_pass.o %/resampling/resampler.o %/resampler_systematic.o %/resampler_stratified.o %/sde_worker.o %/shape.o $(VECTORS),$(LIB_OBJ)))
$(filter-out $(UNROLLED),$(KERNELS)): CFLAGS += $(LOOPS)
$(filter $(UNROLLED),$(KERNELS)): CFLAGS += -O3
$(filter $(STRIDED),$(KERNELS)): CFLAGS += $(call has,-fversion-loops-for-strides)
# Long chains of few vectors wait less if what does not depend on each other is mixed.
$(BUILD)/obj/math/vector/level_%.o: CFLAGS += $(call has,-fschedule-insns -fsched-pressure)
# A loop whose body chooses between two results becomes vector code only if the unused one cannot trap.
$(VECTORS): ALL_CFLAGS += -fno-trapping-math

# What prepares work and has no loop over elements of its own is small rather than fast: a step of a network or a model
# counts the same instructions within 2 %.
COLD     = $(filter-out $(KERNELS) %/file/csv.o %/file/csv_cell.o %/op_index.o %/op_bucketize.o %/op_reduce.o %/op_join.o %/op_scan.o \
             %/op_bessel.o %/op_gamma.o %/op_special.o %/op_fourier.o,$(filter $(foreach d,lua file nn/layer nn/moment autodiff/op/op \
             autodiff/vmap infer/estimator smc/kalman distribution/vector distribution/real distribution/bijector \
             distribution/divergence distribution/composite distribution/gaussian distribution/label distribution/atom,\
             $(BUILD)/obj/$(d)/% $(BUILD)/obj/$(d)_%) %/replay/copy.o %/replay/interned.o \
             %/replay/plan.o %/replay/repeat.o %/replay/roll.o %/lapack/linalg.o %/nn/layer.o %/op_odeint.o %/op_sde.o \
             %/image/conv.o %/image/conv_inner.o %/sites/gaussian_sites.o %/op_pareto_smooth.o \
             %/transport/transport.o %/smc/trace.o,$(LIB_OBJ)))
$(filter-out $(WRITTEN),$(COLD)): CFLAGS += -Os

# What stack unwinders read is a tenth of the library and stands only where errors of a Lua compiled as C++ pass through.
# (Debuggers read the tables of -g; sanitizers need these.)
$(filter-out $(BUILD)/obj/lua/%,$(LIB_OBJ)): TABLES = $(if $(SANITIZE),,-fno-asynchronous-unwind-tables)

$(BUILD)/obj/%.o: src/%.c
	@mkdir -p $(@D)
	$(call say,CC,$<) $(CC) $(ALL_CFLAGS) -c $< -o $@

$(BUILD)/obj/%_f32.o: src/%.c
	@mkdir -p $(@D)
	$(call say,CC,$@) $(CC) $(ALL_CFLAGS) -DPNI_REAL_BITS=32 -c $< -o $@

$(BUILD)/obj/%_f64.o: src/%.c
	@mkdir -p $(@D)
	$(call say,CC,$@) $(CC) $(ALL_CFLAGS) -DPNI_REAL_BITS=64 -c $< -o $@

$(BUILD)/embedded_lua.c: src/lua/embed.lua $(LUA_FILES)
	@mkdir -p $(@D)
	@printf '%s\n' $(LUA_FILES) | sed '/^$$/d' | $(LUA) src/lua/embed.lua lua $@

$(BUILD)/obj/embedded_lua.o: $(BUILD)/embedded_lua.c
	@mkdir -p $(@D)
	$(call say,CC,$<) $(CC) $(ALL_CFLAGS) -c $< -o $@

# All sources but the command's as one penumbra.c, with how each is optimised; penumbra.h beside it.
optimised = $(if $(filter $(1),$(KERNELS)),$(if $(filter $(UNROLLED),$(1)),unrolled,$(if $(filter $(STRIDED),$(1)),strided,loops)))$(if $(filter $(VECTORS),$(1)),$(comma)vectors)
$(BUILD)/amalgamation/penumbra.c: src/lua/amalgamate.lua src/lua/c_text.lua $(BUILD)/embedded_lua.c $(LIB_TEXT)
	@mkdir -p $(@D)
	$(call say,LUA,$@) printf '%s\n' $(foreach f,$(filter-out $(BUILD)/obj/embedded_lua.o,$(LIB_OBJ)),'$(call optimised,$(f)):$(f:$(BUILD)/obj/%.o=%)') | \
	  $(LUA) src/lua/amalgamate.lua $(@D) $(VERSION) $(BUILD)/embedded_lua.c $(CC) -E $(PKG_CPPFLAGS)

$(BUILD)/amalgamation/penumbra.h: src/penumbra.h
	@mkdir -p $(@D)
	@cp $< $@

# (Objects whose sources are gone go with it: the gates read what lies there.)
$(BUILD)/libpenumbra.a: $(LIB_OBJ)
	@rm -f $@ $(filter-out $(LIB_OBJ) $(CLI_OBJ) $(BRIDGE_OBJ) $(KERNEL_OBJ) $(MPI_OBJ),$(shell find $(BUILD)/obj -name '*.o'))
	$(call say,AR,$@) $(AR) rcs $@ $^

$(BUILD)/$(SONAME): $(LIB_OBJ)
	$(call say,LD,$@) $(CC) $(SHARED) -Wl,-soname,$(SONAME) $(ALL_LDFLAGS) -o $(BUILD)/libpenumbra.so.$(VERSION) $^ $(LIBS) $(PKG_LUA)
	@ln -sf libpenumbra.so.$(VERSION) $@
	@ln -sf $(SONAME) $(BUILD)/libpenumbra.so

# A host of the library, which is looked for beside it and then in $(2). $(call bridge,FILE,FOLDER)
RPATH  = -Wl,-rpath,'$$ORIGIN:$(1)'
bridge = $(CC) $(SHARED) $(ALL_LDFLAGS) -o $(1) $(BRIDGE_OBJ) $(BUILD)/$(SONAME) $(call RPATH,$(2)) -lpthread -ldl
$(BUILD)/$(BRIDGE): $(BRIDGE_OBJ) $(BUILD)/$(SONAME)
	$(call say,LD,$@) $(call bridge,$@,$(abspath $(BUILD)))

# The host's interpreter provides Lua itself. (Sanitisers name functions of modules that stay loaded.)
$(BUILD)/lua/penumbra/core.so: $(LIB_OBJ)
	@mkdir -p $(@D)
	$(call say,LD,$@) $(CC) $(SHARED) $(ALL_LDFLAGS) $(if $(SANITIZE),-Wl$(comma)-z$(comma)nodelete) -o $@ $^ $(LIBS)

$(BUILD)/penumbra: $(CLI_OBJ) $(BUILD)/libpenumbra.a $(if $(findstring address,$(SANITIZE)),spec/c/leak_check.c)
	$(call say,LD,$@) $(CC) $(ALL_LDFLAGS) -rdynamic -o $@ $^ $(LIBS) $(PKG_LUA) $(PKG_EDIT)

$(BUILD)/penumbra-kernel: $(KERNEL_OBJ) $(BUILD)/obj/cli/interrupt.o $(BUILD)/obj/cli/blas_core.o $(BUILD)/libpenumbra.a
	$(call say,LD,$@) $(CC) $(ALL_LDFLAGS) -rdynamic -o $@ $^ $(LIBS) $(PKG_LUA) $(PKG_KERNEL)

# (It stays loaded when its Lua state goes: MPI ends with the process.)
$(MPI_OBJ): CPPFLAGS += $(shell pkg-config --cflags-only-I $(MPI_PC))
$(BUILD)/lua/penumbra/mpi_core.so: $(MPI_OBJ)
	@mkdir -p $(@D)
	$(call say,LD,$@) $(CC) $(SHARED) $(ALL_LDFLAGS) -Wl,-z,nodelete -o $@ $(MPI_OBJ) $(PKG_MPI)

$(BUILD)/penumbra.1: $(BUILD)/penumbra
	$(call say,MAN,$@) $(telling) --man > $@.new && mv $@.new $@

# (What sanitisers say of the command is for the tests.)
telling = $(if $(SANITIZE),ASAN_OPTIONS=detect_leaks=0) $(BUILD)/penumbra
# For lua-language-server; what it is made of is in the command.
$(BUILD)/penumbra.d.lua: $(BUILD)/penumbra
	$(call say,LUA,$@) $(telling) -e 'io.write(require "penumbra.shell.annotations".text())' > $@.new && mv $@.new $@

$(BUILD)/completion.%: $(BUILD)/penumbra
	$(call say,COMPLETION,$@) $(telling) --completion $* > $@.new && mv $@.new $@

$(SPEC_PROG) $(BENCH_PROG): $(BUILD)/%: %.c $(BUILD)/libpenumbra.a
	@mkdir -p $(@D)
	$(call say,LD,$@) $(CC) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $< $(WITHIN) $(BUILD)/libpenumbra.a $(LIBS) $(PKG_LUA)

# (The bridge's tests have it within. Whether it survives a lack of memory is asked in front of malloc.)
BRIDGE_TEST = $(BUILD)/spec/c/bridge_test $(BUILD)/spec/c/bridge_refusal_test
$(BRIDGE_TEST): $(BRIDGE_OBJ)
$(BRIDGE_TEST): WITHIN = $(BRIDGE_OBJ)
$(BUILD)/spec/c/bridge_refusal_test: WITHIN += -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc

# (calls_test.c calls what penumbra.h declares.)
$(BUILD)/spec/c/calls_test: $(BUILD)/calls.def
$(BUILD)/spec/c/calls_test: WITHIN = -I$(BUILD)
$(BUILD)/calls.def: spec/calls.lua src/penumbra.h
	@mkdir -p $(@D)
	@$(LUA) spec/calls.lua src/penumbra.h > $@.new && mv $@.new $@

$(FUZZ_PROG): $(BUILD)/%: %.c $(BUILD)/libpenumbra.a
	@mkdir -p $(@D)
	$(call say,LD,$@) $(CC) $(ALL_CFLAGS) -fsanitize=fuzzer $(LDFLAGS) -o $@ $< $(BUILD)/libpenumbra.a $(LIBS) $(PKG_LUA)

$(EMBED_PROG): $(BUILD)/%: %.c $(BUILD)/libpenumbra.a
	@mkdir -p $(@D)
	$(call say,LD,$@) $(CC) $(ALL_CFLAGS) $(LDFLAGS) -Isrc -o $@ $< $(BUILD)/libpenumbra.a $(LIBS) $(PKG_LUA)

# `lua script args` as a program that sanitisers can be built into
$(BUILD)/lua-interpreter: spec/c/interpreter.c spec/c/leak_check.c
	@mkdir -p $(@D)
	$(call say,LD,$@) $(CC) $(ALL_CFLAGS) $(LDFLAGS) -rdynamic -o $@ $^ -lm -ldl $(PKG_LUA)

# ---- habits ------------------------------------------------------------------------------------

deps:
	@.ci/deps all

demo:
	@.ci/deps build demo
	@$(SUBMAKE) all
	$(BUILD)/penumbra examples/01_bayesian_regression.lua --out $(BUILD)/bayesian_regression.svg

# Specs of what looks at the tree's text: that the gates, and the site's checks, find faults that are planted.
OF_TEXT = spec/gates_spec spec/site_spec

# Every test but these; the last line is `N passed, N failed, N skipped`.
test:
	@.ci/deps build test check
	@$(SUBMAKE) tests
	@SPARE='$(OF_TEXT)' $(RUN) $(LUA) spec/run.lua

# The static gates, and that they find what they are for.
check:
	@.ci/deps build test check
	@$(SUBMAKE) all
	@$(RUN) $(LUA) spec/check.lua
	@$(RUN) $(LUA) spec/run.lua $(OF_TEXT)

# The tests under sanitisers. Specs of the installation and of the gates are about the ordinary build.
SAN_RUN = OPENBLAS_NUM_THREADS=1 UBSAN_OPTIONS=print_stacktrace=1 ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1:exitcode=99 \
          LSAN_OPTIONS=suppressions=$(CURDIR)/spec/c/lsan.supp:print_suppressions=0 \
          TSAN_OPTIONS=exitcode=99:suppressions=$(CURDIR)/spec/c/tsan.supp JOBS='$(JOBS)' PN_SLOW=1 \
          SPARE='install_spec embed_spec amalgamation_spec $(OF_TEXT)'

ASAN = CFLAGS='-O1 -g -fno-omit-frame-pointer' SANITIZE='-fsanitize=address,undefined -fno-sanitize-recover=all'

asan:
	@.ci/deps build test check
	@$(SUBMAKE) BUILD=$(BUILD)/asan $(ASAN) tests $(BUILD)/asan/lua-interpreter
	@$(SAN_RUN) SANITIZE='-fsanitize=address,undefined' BUILD=$(BUILD)/asan LUA=$(CURDIR)/$(BUILD)/asan/lua-interpreter $(LUA) spec/run.lua

# (Without runtime_test, whose limits are of wall clock, which is another one here; runtime_limit_test and reach_test, of
# one thread, with stacks deeper than the sanitiser stores; account_test, which counts what malloc gives, which is the
# sanitiser's here. examples/embed/two_runtimes.c has runtimes in threads.)
tsan:
	@.ci/deps build test check
	@$(SUBMAKE) BUILD=$(BUILD)/tsan CFLAGS='-O1 -g -fno-omit-frame-pointer' SANITIZE='-fsanitize=thread' tests
	@$(SAN_RUN) SPARE='runtime_test runtime_limit_test reach_test account_test' BUILD=$(BUILD)/tsan $(LUA) spec/run.lua spec/c/ examples/embed/

# Speed and size: a table, and the same in $(BUILD)/bench.json.
bench:
	@.ci/deps build
	@$(SUBMAKE) all $(BENCH_PROG)
	@$(RUN) $(LUA_ENV) $(LUA) spec/bench/run.lua

# The same beside PyTorch, Pyro, JAX, NumPyro, BlackJAX, Stan, nutpie, stanli, smcx, cuthbert and particles, which a
# first run installs under $(BUILD)/peers (8 GB). ROWS='training kalman' chooses groups of rows,
# ROWS='distributions:gamma,beta' distributions, ROWS='sampling:arK,nes' posteriors, LEVELS='avx2 portable' processor
# levels.
bench-peers: $(PEERS:%=$(BUILD)/peers/%/installed)
	@.ci/deps build
	@$(SUBMAKE) all $(BUILD)/spec/bench/limits $(BUILD)/spec/bench/particle
	@$(RUN) $(LUA_ENV) $(LUA) spec/bench/peers/run.lua $(ROWS)

# An environment each, since their needs differ (particles wants a NumPy below 2, JAX one above): one that could not be
# finished is taken up again, the others stay.
$(BUILD)/peers/%/installed:
	@mkdir -p $(BUILD)/peers
	@python3 -m venv $(@D)
	@echo "  installing $(PACKAGES_$*) into $(@D)"
	@$(@D)/bin/pip install $(PACKAGES_$*) > $(BUILD)/peers/$*.log 2>&1 || \
	  { tail -n 2 $(BUILD)/peers/$*.log; echo 'bench-peers: $* could not be installed (no network?)'; exit 1; }
	@touch $@

# The formats of ArviZ, Stan, ONNX and Arrow beside these programs, which a first run installs under $(BUILD)/peers; where
# they cannot be installed each is skipped, and that is said.
formats:
	@.ci/deps build
	@$(SUBMAKE) all
	@-$(SUBMAKE) $(BUILD)/peers/formats/installed
	@$(RUN) $(LUA_ENV) BUILD=$(BUILD) $(LUA) spec/formats/run.lua

# $(call lua_fuzzers,SECONDS): the Lua API, files, filters, rules, scripts' functions and fields under sanitisers, SECONDS in
# all, half of them for the first; seeds from the time of day on (each report says how to repeat it)
LUA_FUZZERS = api file filter rule function fields
lua_fuzzers = set -e; for f in $(LUA_FUZZERS); do echo "== spec/fuzz/$$f.lua"; $(SAN_RUN) \
  LUA_PATH='$(CURDIR)/lua/?.lua;$(CURDIR)/lua/?/init.lua;;' LUA_CPATH='$(abspath $(BUILD)/asan)/lua/?.so;;' \
  $(abspath $(BUILD)/asan)/lua-interpreter spec/fuzz/$$f.lua --seed $$(date +%s) --calls 1500 \
  --seconds $$(expr $(1) / $$(test $$f = api && echo 2 || echo 10)); done

asan-build:
	@.ci/deps build test check
	@$(SUBMAKE) BUILD=$(BUILD)/asan $(ASAN) $(BUILD)/asan/lua/penumbra/core.so $(BUILD)/asan/lua-interpreter

# The fuzzers in Lua for SOAK_SECONDS; one of the long sweeps.
soak-api: asan-build
	@$(call lua_fuzzers,$(SOAK_SECONDS))

# Readers of files on damaged input, the pattern matcher against stock Lua's, runtimes under random limits: each program
# for FUZZ_SECONDS, starting from the golden files; then the fuzzers in Lua.
fuzz: asan-build
	@.ci/deps build fuzz
	@$(SUBMAKE) BUILD=$(BUILD)/fuzz CC=clang CFLAGS='-O1 -g -fno-omit-frame-pointer' \
	  SANITIZE='-fsanitize=address,undefined,fuzzer-no-link -fno-sanitize-recover=all' \
	  fuzzers
	@set -e; for p in $(FUZZ_PROG:$(BUILD)/%=$(BUILD)/fuzz/%); do echo "== $$p"; mkdir -p $$p.corpus; \
	  $$p -max_total_time=$(FUZZ_SECONDS) -rss_limit_mb=2048 -print_final_stats=1 $$p.corpus \
	  $$(ls -d spec/golden/files 2>/dev/null); done
	@$(call lua_fuzzers,$(FUZZ_SECONDS))

# The long sweeps: SOAK times what `make test` runs of them (67: 10,000 runtimes and contexts come and go), several
# runtimes in several threads, cancelled at random, under the thread sanitiser (in eight processes: what it keeps of call
# stacks grows with each error); calibration with five times the simulations;
# eight times the draws against each distribution's law; every row replayed for 20 steps; the failure of every single
# allocation; a variational state-space model trained to its best bound; hosts with every sanitiser; the amalgamation by
# two compilers with -O2 under every C test; packages and other processors (what is absent is skipped, aloud); then the
# fuzzers in Lua. Whatever reads PN_SOAK is run.
SOAK_PARTS = $(shell grep -rlE 'PN_SOAK|"(soak|alloc_sweep)\.h"' spec --include='*_spec.lua' --include='*_test.c') spec/distribution/rows_
soak-parts:
	@.ci/deps build test
	@$(SUBMAKE) tests
	@PN_SOAK='$(SOAK)' $(RUN) $(LUA) spec/run.lua $(SOAK_PARTS)
	@$(SUBMAKE) BUILD=$(BUILD)/tsan CFLAGS='-O1 -g -fno-omit-frame-pointer' SANITIZE='-fsanitize=thread' tests
	@set -e; for part in 1 2 3 4 5 6 7 8; do \
	  PN_SEED=$$(date +%s) PN_SOAK=$$(expr $(SOAK) / 8) $(SAN_RUN) BUILD=$(BUILD)/tsan $(LUA) spec/run.lua spec/c/cancel_test examples/embed/two_runtimes; \
	done

soak: soak-parts packages soak-api formats

# MUTANTS faults of each kind, drawn by MUTANT_SEED and planted one at a time into the Lua of MUTANT_UNDER, and as many into
# the C; which of them the specs notice. What was tried is kept in $(BUILD)/mutants.
mutants: all
	@$(RUN) $(LUA) spec/mutants/run.lua cover && $(RUN) $(LUA) spec/mutants/c_run.lua cover
	@set -e; for kind in random aimed; do for what in try show; do for tool in run c_run; do \
	  $(RUN) $(LUA) spec/mutants/$$tool.lua $$what --kind $$kind --count $(MUTANTS) --seed $(MUTANT_SEED) --under '$(MUTANT_UNDER)'; \
	done; done; done

# The pkg-config files follow PREFIX, so they are written at installation. penumbra-static names the archive
# and leaves its dependencies shared, which `pkg-config --static` does not.
pkg_file = printf '%s\n' 'prefix=$(PREFIX)' 'libdir=$(LIBDIR)' 'includedir=$${prefix}/include' '' 'Name: $(1)' \
  'Description: An embeddable probabilistic deep-learning runtime' 'Version: $(VERSION)' '$(2)' 'Libs: $(3)' \
  'Libs.private: $(4)' 'Cflags: -I$${includedir}' > $(DESTDIR)$(LIBDIR)/pkgconfig/$(1).pc

install: all install-lua
	install -d $(DESTDIR)$(BINDIR) $(DESTDIR)$(PREFIX)/include $(DESTDIR)$(LIBDIR)/pkgconfig
	$(if $(CLI_OBJ),install -m 755 $(BUILD)/penumbra $(KERNEL) $(DESTDIR)$(BINDIR)/)
	$(if $(CLI_OBJ),install -d $(DESTDIR)$(MANDIR) $(DESTDIR)$(NOTEDIR) $(foreach s,$(SHELLS),$(dir $(call completed,$(s)))))
	$(if $(CLI_OBJ),install -m 644 $(BUILD)/penumbra.1 $(DESTDIR)$(MANDIR)/)
	$(if $(CLI_OBJ),install -m 644 $(BUILD)/penumbra.d.lua $(DESTDIR)$(NOTEDIR)/)
	$(if $(CLI_OBJ),$(foreach s,$(SHELLS),install -m 644 $(BUILD)/completion.$(s) $(call completed,$(s)) &&) true)
	install -m 644 src/penumbra.h src/penumbra.hpp $(DESTDIR)$(PREFIX)/include/
	install -m 644 $(BUILD)/libpenumbra.a $(DESTDIR)$(LIBDIR)/
	install -m 755 $(BUILD)/libpenumbra.so.$(VERSION) $(DESTDIR)$(LIBDIR)/
	ln -sf libpenumbra.so.$(VERSION) $(DESTDIR)$(LIBDIR)/$(SONAME)
	ln -sf $(SONAME) $(DESTDIR)$(LIBDIR)/libpenumbra.so
	$(call bridge,$(DESTDIR)$(LIBDIR)/$(BRIDGE),$(LIBDIR))
	install -m 644 src/bridge/penumbra_bridge.h $(DESTDIR)$(PREFIX)/include/
	$(call pkg_file,penumbra,Requires.private: $(PKGS) $(LUA_PC),-L$${libdir} -lpenumbra,-lm -lpthread -ldl)
	$(call pkg_file,penumbra-static,Requires: $(PKGS) $(LUA_PC),$${libdir}/libpenumbra.a -lm -lpthread -ldl,)
	install -d $(DESTDIR)$(LIBDIR)/cmake/penumbra
	sed 's|@PREFIX@|$(PREFIX)|; s|@LIBDIR@|$(LIBDIR)|; s|@PACKAGES@|$(PKGS) $(LUA_PC)|' rockspec/penumbraConfig.cmake \
	  > $(DESTDIR)$(LIBDIR)/cmake/penumbra/penumbraConfig.cmake
	echo 'set(PACKAGE_VERSION "$(VERSION)")' | cat - rockspec/penumbraConfigVersion.cmake \
	  > $(DESTDIR)$(LIBDIR)/cmake/penumbra/penumbraConfigVersion.cmake
	rm -rf $(DESTDIR)$(DOCDIR)
	install -d $(DESTDIR)$(DOCDIR)
	install -m 644 README.md $(DESTDIR)$(DOCDIR)/
	cp -R examples $(DESTDIR)$(DOCDIR)/
	@echo "installed: command, libraries and Lua module below $(DESTDIR)$(PREFIX); README.md and examples in $(DESTDIR)$(DOCDIR)"

# What the rock installs: the module and the command.
install-rock: install-lua $(BUILD)/penumbra
	install -d $(DESTDIR)$(BINDIR)
	install -m 755 $(BUILD)/penumbra $(DESTDIR)$(BINDIR)/

# What `require "penumbra"` needs in a stock interpreter.
install-lua: $(BUILD)/lua/penumbra/core.so $(MPI)
	install -d $(DESTDIR)$(LUACDIR)/penumbra $(addprefix $(DESTDIR)$(LUADIR)/,$(LUA_DIRS))
	install -m 755 $(BUILD)/lua/penumbra/core.so $(MPI) $(DESTDIR)$(LUACDIR)/penumbra/
	$(foreach f,$(LUA_FILES),install -m 644 $(f) $(DESTDIR)$(LUADIR)/$(f:lua/%=%) &&) true

uninstall:
	rm -f $(addprefix $(DESTDIR)$(BINDIR)/,penumbra penumbra-kernel) $(DESTDIR)$(MANDIR)/penumbra.1 \
	  $(DESTDIR)$(NOTEDIR)/penumbra.d.lua $(foreach s,$(SHELLS),$(call completed,$(s))) \
	  $(addprefix $(DESTDIR)$(PREFIX)/include/,penumbra.h penumbra.hpp penumbra_bridge.h) \
	  $(addprefix $(DESTDIR)$(LIBDIR)/,$(BRIDGE) libpenumbra.a libpenumbra.so.$(VERSION) $(SONAME) libpenumbra.so) \
	  $(addprefix $(DESTDIR)$(LIBDIR)/pkgconfig/,penumbra.pc penumbra-static.pc)
	rm -rf $(DESTDIR)$(LUADIR)/penumbra $(DESTDIR)$(LUACDIR)/penumbra $(DESTDIR)$(DOCDIR) $(DESTDIR)$(LIBDIR)/cmake/penumbra
	@for d in $(NOTEDIR) $(MANDIR) $(dir $(MANDIR)) \
	  $(foreach s,$(SHELLS),$(foreach f,$(PREFIX)/share/$(COMPLETION_$(s)),$(dir $(f)) $(dir $(patsubst %/,%,$(dir $(f)))))) \
	  $(LUADIR) $(dir $(LUADIR)) $(LUACDIR) $(dir $(LUACDIR)) $(dir $(DOCDIR)) $(PREFIX)/share $(LIBDIR)/pkgconfig $(LIBDIR)/cmake \
	  $(LIBDIR) $(BINDIR) $(PREFIX)/include; do rmdir $(DESTDIR)$$d 2>/dev/null || true; done
	@echo "uninstalled from $(DESTDIR)$(PREFIX)"

# All sources as they are checked in (without git: as they lie here) in build/penumbra-$(VERSION).tar.gz: the same bytes
# wherever and whenever it is made.
DIST = penumbra-$(VERSION)
dist:
	@mkdir -p $(BUILD)
	@{ git ls-files 2>/dev/null || find .ci .clang-format .gitignore .luacheckrc Makefile README.md examples lua rockspec spec src \
	  -type f -not -name '*.pyc'; } | LC_ALL=C sort | tar --mtime=@$${SOURCE_DATE_EPOCH:-$(RELEASED)} --owner=0 --group=0 \
	  --numeric-owner --mode=u=rwX,go=rX --format=ustar --transform='s,^,$(DIST)/,' --no-recursion -T - -cf - | gzip -9n \
	  > $(BUILD)/$(DIST).tar.gz.part && mv $(BUILD)/$(DIST).tar.gz.part $(BUILD)/$(DIST).tar.gz
	@echo $(BUILD)/$(DIST).tar.gz

# Debian packages in $(BUILD)/deb.
deb: dist
	@.ci/deps build deb
	@rm -rf $(BUILD)/deb && mkdir -p $(BUILD)/deb && tar -xzf $(BUILD)/$(DIST).tar.gz -C $(BUILD)/deb
	@cd $(BUILD)/deb/$(DIST) && cp -R rockspec/debian debian && env -u MAKEFLAGS -u MAKELEVEL SOURCE_DATE_EPOCH=$(RELEASED) \
	  dpkg-buildpackage -j$(JOBS) -b -us -uc
	@ls $(BUILD)/deb/*.deb

# Packages, other build systems, hosts in other languages and another processor; what is absent here is skipped, aloud.
packages:
	@.ci/deps build
	@$(SUBMAKE) all amalgamation
	@BUILD='$(BUILD)' $(LUA) spec/packages/run.lua $(PACKAGES)

# $(BUILD)/wasm/penumbra.html: the prompt and a filter in a page that needs no network, by Debian's emscripten
# (examples/browser). `make packages PACKAGES=wasm` tests it.
wasm:
	@.ci/deps build wasm
	@$(SUBMAKE) -f examples/browser/wasm.mk BUILD='$(BUILD)/wasm' page

# The manual's tables from the rows; then README, manual, papers and the reference of rows, doc comments and penumbra.h
# as HTML in $(BUILD)/docs, whose links, anchors and index of names are checked.
docs:
	@.ci/deps build docs
	@$(SUBMAKE) all
	@for f in examples/manual/*.md; do \
	  $(LUA_ENV) $(LUA) spec/readme.lua $$f > $(BUILD)/chapter.md && cp $(BUILD)/chapter.md $$f || exit 1; done
	@$(LUA_ENV) $(LUA) spec/header.lua src/penumbra.h > $(BUILD)/penumbra.h
	@cmp -s $(BUILD)/penumbra.h src/penumbra.h || cp $(BUILD)/penumbra.h src/penumbra.h
	@$(LUA_ENV) $(LUA) spec/site/build.lua $(BUILD)/docs

# The pictures of pages and examples drawn anew with --quick or from kept runs, minutes, into $(BUILD)/gallery; with
# GALLERY='full DATA' by the full runs, hours, from a folder with the data sets.
gallery:
	@.ci/deps build demo
	@$(SUBMAKE) all
	@$(LUA_ENV) BUILD=$(BUILD) $(LUA) spec/site/gallery.lua $(BUILD)/gallery $(GALLERY)

fmt:
	clang-format -i $(C_FILES)

clean:
	rm -rf $(BUILD)

.PHONY: all amalgamation dist deb packages tests fuzzers deps demo test check asan tsan bench bench-peers fuzz soak soak-parts soak-api mutants asan-build docs gallery install install-lua install-rock uninstall fmt clean formats wasm
-include $(LIB_OBJ:.o=.d) $(CLI_OBJ:.o=.d) $(BRIDGE_OBJ:.o=.d) $(KERNEL_OBJ:.o=.d) $(MPI_OBJ:.o=.d) $(SPEC_PROG:=.d) $(BENCH_PROG:=.d) $(EMBED_PROG:=.d)
