# What `make wasm` builds, in $(BUILD): the library by emscripten with the sources it stands on (Lua, zlib, and BLAS and
# LAPACK by f2c), a page that works from a file (page.html), and by `tests` the C tests for node.
#
#   make wasm [WASM_SIMD=]     without vectors, for processors of browsers before 2021

include Makefile

WASM_SIMD = -msimd128

# Debian's sources, whichever release this is.
RELEASE  = bookworm
PACKAGES = lapack lua5.4 zlib
SOURCE  := $(BUILD)/source
PARTS   := $(BUILD)/parts
APT      = apt-get -qq -o Dir::Etc::SourceList="$$PWD/sources.list" -o Dir::Etc::SourceParts=- \
           -o Dir::State::Lists="$$PWD/lists" -o Dir::Cache="$$PWD/cache"

# (Where Debian keeps what its emscripten asks of node, whichever node it is.)
export NODE_PATH := $(NODE_PATH):/usr/share/nodejs

CC       = emcc
AR       = emar
PIC      =
CFLAGS   = -O2 $(WASM_SIMD)
LUA_PC   =
PKGS     =
PKG_CPPFLAGS = -I$(SOURCE) -I$(SOURCE)/lua/src -I$(SOURCE)/lapack/CBLAS/include -I$(SOURCE)/lapack/LAPACKE/include \
               -I$(SOURCE)/zlib
PKG_LUA  =
PKG_EDIT =
LIBS     = $(BUILD)/libsources.a -lm

# Errors of Lua jump; numbers of a function's arguments are part of its type.
STACK    = 4194304
LINK     = -sALLOW_MEMORY_GROWTH=1 -sMAXIMUM_MEMORY=2147483648 -sTOTAL_STACK=$(STACK) -Wl,--fatal-warnings
LDFLAGS  = $(LINK) -sNODERAWFS=1 -sEXIT_RUNTIME=1

# What the library calls, in both types; what blas.c has.
ROUTINES = getrf getrs geqrf orgqr potrf syevd gesdd trsm trsv gemm gemv symv syr dot swap
OWN      = lamch lamc3 roundup_lwork lassq lartg nrm2

$(SOURCE)/fetched:
	@rm -rf $(SOURCE) && mkdir -p $(SOURCE)/lists/partial $(SOURCE)/cache/archives/partial
	@echo 'deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian $(RELEASE) main' \
	  > $(SOURCE)/sources.list
	@cd $(SOURCE) && $(APT) update && $(APT) source $(PACKAGES) >unpacked 2>&1 || { cat unpacked; exit 1; }
	@cd $(SOURCE) && rm -rf lists cache *.tar.* *.dsc && for p in lapack lua zlib; do mv $$p*-* $$p || exit 1; done
	@cd $(SOURCE) && for d in CBLAS/include/cblas LAPACKE/include/lapacke; do \
	  cp lapack/$${d}_mangling_with_flags.h.in lapack/$${d}_mangling.h || exit 1; done
	@echo '#define DEB_HOST_MULTIARCH "wasm32-emscripten"' > $(SOURCE)/lua5.4-deb-multiarch.h
	@cp /usr/include/f2c.h $(SOURCE)/
	@touch $@

BOTH = $(foreach r,$(1),d$(r) s$(r))
$(BUILD)/fortran/names: $(SOURCE)/fetched examples/browser/fortran.lua
	@rm -rf $(@D) && mkdir -p $(@D)
	$(call say,F2C,$(@D)) $(LUA) examples/browser/fortran.lua $(SOURCE)/lapack $(@D) '$(call BOTH,$(OWN)) xerbla' \
	  $(call BOTH,$(ROUTINES)) > $@.new && mv $@.new $@

# f2c writes what compilers warn of, and assumes as Fortran does that arguments do not overlap.
QUIET = -w
ONES  = lapi lauxlib lbaselib lcode lcorolib lctype ldblib ldebug ldo ldump lfunc lgc linit liolib llex lmathlib lmem \
        loadlib lobject lopcodes loslib lparser lstate lstring lstrlib ltable ltablib ltm lundump lutf8lib lvm lzio
TWOS  = adler32 crc32 deflate gzclose gzlib gzread gzwrite inffast inflate inftrees trees zutil
$(BUILD)/libsources.a: $(BUILD)/fortran/names $(PARTS)/blas.o
	@mkdir -p $(PARTS)/lua $(PARTS)/zlib $(PARTS)/fortran
	$(SUBMAKE) -f examples/browser/wasm.mk BUILD='$(BUILD)' FORTRAN="$$(cat $<)" WASM_SIMD='$(WASM_SIMD)' $@.parts
	@rm -f $@
	$(call say,AR,$@) $(AR) rcs $@ $(PARTS)/blas.o $(PARTS)/lua/*.o $(PARTS)/zlib/*.o $(PARTS)/fortran/*.o
$(BUILD)/libsources.a.parts: $(ONES:%=$(PARTS)/lua/%.o) $(TWOS:%=$(PARTS)/zlib/%.o) \
                             $(FORTRAN:%=$(PARTS)/fortran/%.o)
	@:
.PHONY: $(BUILD)/libsources.a.parts

$(PARTS)/lua/%.o: $(SOURCE)/lua/src/%.c
	$(call say,CC,$<) $(CC) $(CFLAGS) $(PKG_CPPFLAGS) $(QUIET) -DLUA_COMPAT_5_3 -c $< -o $@
$(PARTS)/zlib/%.o: $(SOURCE)/zlib/%.c
	$(call say,CC,$<) $(CC) $(CFLAGS) $(QUIET) -c $< -o $@
$(PARTS)/fortran/%.o: $(BUILD)/fortran/%.c
	$(call say,CC,$<) $(CC) $(CFLAGS) $(PKG_CPPFLAGS) $(QUIET) $(if $(filter %gemm,$*),-D$*_=reference_$*_) -c $< -o $@
$(PARTS)/blas.o: examples/browser/blas.c examples/browser/blas_real.h $(SOURCE)/fetched
	@mkdir -p $(@D)
	$(call say,CC,$<) $(CC) $(ALL_CFLAGS) -c $< -o $@

$(LIB_OBJ): | $(SOURCE)/fetched
$(SPEC_PROG) $(BENCH_PROG): $(BUILD)/libsources.a
$(SPEC_PROG): LDFLAGS += -O1 # what is linked is not optimised once more

# ---- the page ----

PAGE_PARTS = $(addprefix examples/browser/,page.html page.js page.lua svg.lua track.lua worker.js bundle.lua)
LOADER     = -sMODULARIZE=1 -sEXPORT_NAME=penumbra -sENVIRONMENT=worker -sEXPORTED_FUNCTIONS=_malloc,_free \
             -sEXPORTED_RUNTIME_METHODS=ccall,stringToUTF8,lengthBytesUTF8
page: $(BUILD)/penumbra.html
$(BUILD)/page.js: examples/browser/page.c $(BUILD)/libpenumbra.a $(BUILD)/libsources.a
	$(call say,LD,$@) $(CC) $(ALL_CFLAGS) $(LINK) $(LOADER) -o $@ $< $(BUILD)/libpenumbra.a $(LIBS)
$(BUILD)/penumbra.html: $(PAGE_PARTS) $(BUILD)/page.js
	@$(LUA) examples/browser/bundle.lua examples/browser $@ $(BUILD)/page.js $(BUILD)/page.wasm
.PHONY: page

# ---- the command, for node: `node --no-experimental-fetch $(BUILD)/command SCRIPT` ----

WITHOUT = $(filter-out %/editline.o,$(CLI_OBJ)) $(PARTS)/no_editor.o
command: $(BUILD)/command
$(PARTS)/no_editor.o: examples/browser/no_editor.c $(SOURCE)/fetched
	@mkdir -p $(@D)
	$(call say,CC,$<) $(CC) $(ALL_CFLAGS) -c $< -o $@
$(BUILD)/command: $(WITHOUT) $(BUILD)/libpenumbra.a $(BUILD)/libsources.a
	$(call say,LD,$@) $(CC) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $(WITHOUT) $(BUILD)/libpenumbra.a $(LIBS)
.PHONY: command
