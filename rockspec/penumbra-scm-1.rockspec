rockspec_format = "3.0"
package = "penumbra"
version = "scm-1"
source = {
  -- `luarocks make` builds the tree it stands in
  url = "git+file://.",
}
description = {
  summary = "An embeddable probabilistic deep-learning runtime",
  detailed = [[
Tensors with automatic differentiation, distributions, Bayesian layers and variational inference:
a C library composed from Lua 5.4 scripts. Needs OpenBLAS (or another CBLAS and LAPACKE) and zlib,
found through pkg-config; the command `penumbra` also libedit.]],
  license = "MIT",
}
dependencies = {
  "lua >= 5.4, < 5.5",
}
test_dependencies = {
  "busted >= 2.1",
}
build = {
  type = "make",
  build_target = "build/lua/penumbra/core.so build/penumbra",
  install_target = "install-rock",
  build_variables = {
    LUA = "$(LUA)",
  },
  install_variables = {
    LUA = "$(LUA)",
    BINDIR = "$(BINDIR)",
    LUADIR = "$(LUADIR)",
    LUACDIR = "$(LIBDIR)",
  },
}
