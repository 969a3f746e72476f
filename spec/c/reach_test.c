/*
** reach_test.c: what a script in a sandbox reaches. reach.lua makes an object of every kind that the public interface
** has and walks whatever fields, metatables, results and arguments of callbacks lead to: each function in C and each
** kind of userdata must be public, or stand in spec/gates/inner_reachable.txt with the reason why it may be had.
*/
#include <string.h>
#include "../../src/lua/runtime/runtime.h"
#include "check.h"

/* The modules that a script may require. */
static const char *const public[] = {"penumbra",
                                     "penumbra.active",
                                     "penumbra.checkpoint",
                                     "penumbra.continual",
                                     "penumbra.data",
                                     "penumbra.distribution",
                                     "penumbra.distribution.bijector",
                                     "penumbra.distribution.natural",
                                     "penumbra.evidential",
                                     "penumbra.fusion",
                                     "penumbra.gap",
                                     "penumbra.infer",
                                     "penumbra.invariance",
                                     "penumbra.metrics",
                                     "penumbra.models",
                                     "penumbra.mpi",
                                     "penumbra.models.image_network",
                                     "penumbra.models.vae",
                                     "penumbra.models.variational_em",
                                     "penumbra.nn",
                                     "penumbra.optim",
                                     "penumbra.pac",
                                     "penumbra.plot",
                                     "penumbra.smc",
                                     "penumbra.smc.hmm",
                                     "penumbra.smc.kalman",
                                     "penumbra.smc.structural",
                                     "penumbra.train",
                                     "penumbra.vbp"};

/* ---- what the walk asks of C ---- */

/* in_c(f): is it a function in C, and not the entry of one in Lua (public.c)? */
static int in_c(lua_State *L) {
  lua_settop(L, 1);
  bool entry = lua_getupvalue(L, 1, 1) && lua_isfunction(L, -1) && !lua_iscfunction(L, -1);
  lua_pushboolean(L, lua_iscfunction(L, 1) && !entry);
  return 1;
}

/* inner(name): one of Penumbra's own modules. */
static int inner(lua_State *L) {
  pni_require_own(L, luaL_checkstring(L, 1));
  return 1;
}

/* globals(): those of Penumbra's modules. */
static int globals(lua_State *L) {
  pni_require_own(L, "penumbra.options");
  lua_getfield(L, -1, "check");
  const char *name = "";
  for (int i = 1; name && strcmp(name, "_ENV") != 0; i++) name = lua_getupvalue(L, -1, i);
  CHECK(name);
  return 1;
}

/* Adds the names in the table on the top, which is popped, to that at index 2. */
static void add_names(lua_State *L) {
  lua_pushnil(L);
  while (lua_next(L, -2)) {
    lua_pop(L, 1);
    if (lua_type(L, -1) != LUA_TSTRING) continue;
    lua_pushvalue(L, -1);
    lua_pushboolean(L, 1);
    lua_rawset(L, 2);
  }
  lua_pop(L, 1);
}

/* add_methods(u, names): adds those of a userdata, which stand in its __index or in an upvalue of that. */
static int add_methods(lua_State *L) {
  lua_settop(L, 2);
  if (luaL_getmetafield(L, 1, "__index") == LUA_TTABLE) return add_names(L), 0;
  for (int i = 1; lua_isfunction(L, 3) && lua_getupvalue(L, 3, i); i++) {
    if (lua_istable(L, -1))
      add_names(L);
    else
      lua_pop(L, 1);
  }
  return 0;
}

static void set_gate(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"in_c", in_c}, {"inner", inner}, {"globals", globals}, {"add_methods", add_methods}, {NULL, NULL}};
  luaL_newlib(L, functions);
  lua_newtable(L);
  for (size_t i = 0; i < sizeof public / sizeof public[0]; i++) {
    lua_pushstring(L, public[i]);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  lua_setfield(L, -2, "public");
  lua_setglobal(L, "gate");
}

static void print(void *data, const char *text, size_t length) {
  (void)data;
  fwrite(text, 1, length, stdout);
}

static pn_runtime *open_runtime(unsigned libraries, pn_output output) {
  pn_runtime *rt = NULL;
  pn_runtime_config cfg = {.output = output, .libraries = libraries};
  CHECK_INT(pn_runtime_new(&cfg, &rt), PN_OK);
  return rt;
}

/* Gives the script a file's text as a global. */
static void set_text(pn_runtime *rt, const char *name, const char *path) {
  static char text[1 << 16];
  FILE *f = fopen(path, "rb");
  size_t n = f ? fread(text, 1, sizeof text, f) : 0;
  CHECK(n > 0 && n < sizeof text);
  if (f) fclose(f);
  lua_pushlstring(rt->L, text, n);
  lua_setglobal(rt->L, name);
}

static double number(pn_runtime *rt, const char *name) {
  double x = -1;
  CHECK_INT(pn_runtime_get_number(rt, name, &x), PN_OK);
  return x;
}

/* ---- tests ---- */

static void test_walk(void) {
  pn_runtime *rt = open_runtime(0, print);
  set_gate(rt->L);
  set_text(rt, "objects", "spec/fuzz/objects.lua");
  set_text(rt, "known", "spec/gates/inner_reachable.txt");
  CHECK_INT(pn_runtime_run_file(rt, "spec/c/reach.lua"), PN_OK);
  CHECK_STR(pn_runtime_message(rt), "");
  CHECK(number(rt, "wrong") == 0 && number(rt, "seen") > 1000);
  CHECK(number(rt, "planted") == 2);
  pn_runtime_close(rt);
}

static void run(pn_runtime *rt, const char *script, pn_status want, const char *said) {
  if (!check_record(pn_runtime_run_string(rt, script, (size_t)-1, "script") == want))
    printf("%.60s...: %s\n", script, pn_runtime_message(rt));
  if (!check_record(strstr(pn_runtime_message(rt), said) != NULL))
    printf("%.60s...: '%s' does not say '%s'\n", script, pn_runtime_message(rt), said);
}

/* Of all modules scripts get those that are meant for them. */
static void test_require(void) {
  pn_runtime *rt = open_runtime(0, NULL);
  set_gate(rt->L);
  run(rt,
      "local public, inner = {['penumbra'] = true}, gate.inner\n"
      "for _, name in ipairs(gate.public) do public[name] = true end\n"
      "local all = inner 'penumbra.core'.modules() all[#all + 1] = 'penumbra.core'\n"
      "gate = nil\n"
      "local preload, n = {}, 0\n"
      "for _, name in ipairs(all) do\n"
      "  local ok, got = pcall(require, name)\n"
      "  assert(ok == (public[name] or false), name)\n"
      "  assert(ok and got == inner(name) or not ok and got:find('script:%d+: require: \\'' .. name:gsub('%p', '%%%0') "
      ".. '\\' is an inner part of Penumbra'), name)\n"
      "  n = n + (ok and 1 or 0)\n"
      "  assert(ok or package.loaded[name] == nil and package.preload[name] == nil)\n"
      "  for k, searcher in ipairs(package.searchers) do\n"
      "    local ok, loader = pcall(searcher, name)\n"
      "    if k > 2 and public[name] then\n"
      "      assert(loader('penumbra.core', 'x') == inner(name) and loader() == inner(name))\n"
      "    else\n"
      "      assert(not ok or type(loader) ~= 'function')\n"
      "    end\n"
      "  end\n"
      "end\n"
      "for name in pairs(public) do assert(inner(name), name) n = n - 1 end assert(n == 0)\n"
      "package.loaded.penumbra = nil assert(require 'penumbra' == inner 'penumbra')\n",
      PN_OK, "");
  set_gate(rt->L);
  run(rt,
      "local theirs = gate.globals() gate = nil\n"
      "local function same(a, b)\n"
      "  for k, v in pairs(a) do\n"
      "    if type(v) == 'table' and k ~= '_G' and k ~= 'package' then assert(v ~= b[k]) same(v, b[k])\n"
      "    else assert(type(v) ~= 'function' or k == 'require' or v == b[k], k) end\n"
      "  end\n"
      "end\n"
      "same(theirs, _G) assert(theirs ~= _G and theirs._G == theirs and theirs.require ~= require)\n"
      "assert(not (theirs.io or theirs.debug or theirs.os.remove or theirs.package.searchers))",
      PN_OK, "");
  run(rt, "require 'penumbra.core'", PN_SCRIPT, "script:1: require: 'penumbra.core' is an inner part of Penumbra");
  run(rt, "require 'penumbra.cor'", PN_SCRIPT, "no embedded module 'penumbra.cor'");
  run(rt, "package.preload['penumbra.core'] = function() return 7 end assert(require 'penumbra.core' == 7)", PN_OK, "");
  pn_runtime_close(rt);
  rt = open_runtime(PN_LIBS_SAFE | PN_LIB_PACKAGE, NULL); /* trusted */
  run(rt,
      "local core = require 'penumbra.core' assert(core.new_smc and require 'penumbra.options'.check)\n"
      "assert(core.modules and core.tensor == require 'penumbra'.tensor)",
      PN_OK, "");
  pn_runtime_close(rt);
  rt = open_runtime(PN_LIBS_NONE, NULL);
  run(rt, "assert(require == nil and package == nil)", PN_OK, "");
  pn_runtime_close(rt);
}

/* What a script does to its globals and libraries tells it nothing of Penumbra's modules, nor changes what these do.
 * (Methods of strings are the script's; modules hand them strings and numbers.) */
static void test_globals(void) {
  pn_runtime *rt = open_runtime(0, NULL);
  run(rt,
      "local seen = {}\n"
      "local set, of, kind = rawset, next, type\n"
      "local function spy(t, done)\n"
      "  for name, f in of, t do\n"
      "    if kind(f) == 'function' then set(t, name, function() seen[#seen + 1] = name end)\n"
      "    elseif kind(f) == 'table' and f ~= _G and f ~= string and f ~= package then spy(f) end\n"
      "  end\n"
      "end\n"
      "local error, get, insert = error, require, table.concat\n"
      "spy(_G)\n"
      "local pn = get 'penumbra'\n"
      "local x = pn.randn {10} local y = (x * 2):sum()\n"
      "local s = pn.smc {num_particles = 10} s:weigh(x) s:resample() s:trace()\n"
      "local net = pn.nn.sequential {pn.nn.linear(2, 3), pn.nn.relu()} net(pn.ones {1, 2})\n"
      "local opt = pn.optim.adam(net) opt:step(net(pn.ones {1, 2}):sum())\n"
      "local f = pn.compile(function(y) return y:exp() end) f(x) f(x)\n"
      "local model = pn.model(function(m) m:observe('y', pn.dist.normal(m:sample('z', pn.dist.normal(0, 1)), 1), 1) "
      "end)\n"
      "pn.nuts(model, {chains = 1, warmup = 5, draws = 5}):summary()\n"
      "get 'penumbra.models.vae'.vae {data = 2, latent = 1, hidden = {2}}\n"
      "pn.help 'normal'\n"
      "for _, name in of, seen do error(insert(seen, ' ')) end\n",
      PN_OK, "");
  pn_runtime_close(rt);
}

int main(void) {
  test_require();
  test_globals();
  test_walk();
  CHECK_DONE();
}
