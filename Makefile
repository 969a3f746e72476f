# ---- user settings ----------------------------------------------------------------------------
CC     = cc
CFLAGS = -O2 -g
PREFIX = /usr/local
LUA    = lua5.4
BUILD  = build
# ------------------------------------------------------------------------------------------------

VERSION  := 0.1.0
PKGS     := openblas lapacke lua5.4 zlib libcjson
WARN     := -Wall -Wextra -Wpedantic -Wshadow -Wconversion
CPPFLAGS += -D_DEFAULT_SOURCE $(shell pkg-config --cflags $(PKGS))
LIBS      = $(shell pkg-config --libs openblas lapacke zlib libcjson) -lm -lpthread
LUALIBS   = $(shell pkg-config --libs lua5.4)
# -fwrapv: int64 tensors wrap around as NumPy's do
ALL_CFLAGS = -std=c11 $(WARN) -fPIC -fvisibility=hidden -fwrapv -fno-math-errno $(CFLAGS) $(CPPFLAGS) -MMD -MP

LUA_FILES := $(shell find lua -name '*.lua' | LC_ALL=C sort)
LIB_SRC   := $(filter-out src/cli/%,$(wildcard src/*/*.c))
LIB_OBJ   := $(LIB_SRC:src/%.c=$(BUILD)/obj/%.o) $(BUILD)/obj/embedded_lua.o
CLI_OBJ   := $(patsubst src/%.c,$(BUILD)/obj/%.o,$(wildcard src/cli/*.c))

all: $(BUILD)/libpenumbra.a $(BUILD)/libpenumbra.so.0 $(BUILD)/lua/penumbra/core.so $(if $(CLI_OBJ),$(BUILD)/penumbra)

$(BUILD)/obj/%.o: src/%.c
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -c $< -o $@

$(BUILD)/embedded_lua.c: src/lua/embed.lua $(LUA_FILES)
	@mkdir -p $(@D)
	@printf '%s\n' $(LUA_FILES) | $(LUA) src/lua/embed.lua lua $@

$(BUILD)/obj/embedded_lua.o: $(BUILD)/embedded_lua.c
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -c $< -o $@

$(BUILD)/libpenumbra.a: $(LIB_OBJ)
	rm -f $@ && ar rcs $@ $^

$(BUILD)/libpenumbra.so.0: $(LIB_OBJ)
	$(CC) -shared -Wl,-soname,libpenumbra.so.0 $(CFLAGS) -o $@ $^ $(LIBS) $(LUALIBS)
	ln -sf libpenumbra.so.0 $(BUILD)/libpenumbra.so

# The host's interpreter provides Lua itself.
$(BUILD)/lua/penumbra/core.so: $(LIB_OBJ)
	@mkdir -p $(@D)
	$(CC) -shared $(CFLAGS) -o $@ $^ $(LIBS)

$(BUILD)/penumbra: $(CLI_OBJ) $(BUILD)/libpenumbra.a
	$(CC) $(CFLAGS) -rdynamic -o $@ $^ $(LIBS) $(LUALIBS) $(shell pkg-config --libs libedit)

clean:
	rm -rf $(BUILD)

.PHONY: all clean
-include $(LIB_OBJ:.o=.d) $(CLI_OBJ:.o=.d)
