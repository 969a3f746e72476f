/*
** bind_random.c: the default generator and generators of one's own. A state is two whole numbers, so it can be
** saved anywhere and restored exactly.
*/
#include "../message.h"
#include "../penumbra_lua.h"

static void release(void *object) {
  pni_rng_box *b = object;
  pn_rng *rng = b->rng;
  b->rng = NULL;
  pn_rng_free(rng);
}

const pni_object_type pni_generator_kind = {
    "penumbra.generator", "a generator", sizeof(pni_rng_box), 0, false, release};

static pni_rng_box *new_box(lua_State *L) { return pni_new_object(L, &pni_generator_kind); }

static pn_rng *self(lua_State *L) {
  if (!pni_test_object(L, 1, &pni_generator_kind))
    pni_error(L, "generator methods are called with a colon, as in g:split(1)");
  return pni_check_rng(L, 1);
}

static int finish(lua_State *L, pni_rng_box *b, pn_rng *rng) {
  if (!rng) return pni_raise(L, pni_lua_context(L));
  b->rng = rng;
  return 1;
}

static void refuse_capture(lua_State *L, const char *what) {
  pn_context *c = pni_lua_context(L);
  if (pni_refuse_capture(c, what, "do it outside")) pni_raise(L, c);
}

static int l_seed(lua_State *L) {
  refuse_capture(L, "seeding");
  pn_seed(pni_lua_context(L), (uint64_t)pni_check_whole(L, 1, "seed", "seed"));
  return 0;
}

static int l_generator(lua_State *L) {
  uint64_t seed = (uint64_t)pni_check_whole(L, 1, "generator", "seed");
  pni_rng_box *b = new_box(L);
  return finish(L, b, pn_rng_new(pni_lua_context(L), seed));
}

static int l_split(lua_State *L) {
  pn_rng *g = self(L);
  uint64_t index = (uint64_t)pni_check_whole(L, 2, "split", "index");
  pni_rng_box *b = new_box(L);
  return finish(L, b, pn_rng_split(pni_lua_context(L), g, index));
}

static int push_state(lua_State *L, const pn_rng *g) {
  refuse_capture(L, "a generator's state");
  uint64_t s[2];
  pn_rng_get_state(g, s);
  lua_createtable(L, 2, 0);
  for (int k = 0; k < 2; k++) {
    lua_pushinteger(L, (lua_Integer)s[k]);
    lua_rawseti(L, -2, k + 1);
  }
  return 1;
}

static int set_state(lua_State *L, pn_rng *g, int i, const char *where) {
  refuse_capture(L, "a generator's state");
  int64_t v[2];
  if (!lua_istable(L, i) || pni_check_sizes(L, i, where, 2, v) != 2)
    return pni_error(L, "%s: needs the list of two numbers that state() gives", where);
  uint64_t s[2] = {(uint64_t)v[0], (uint64_t)v[1]};
  pn_rng_set_state(g, s);
  return 0;
}

static int l_state(lua_State *L) { return push_state(L, self(L)); }
static int l_set_state(lua_State *L) { return set_state(L, self(L), 2, "set_state"); }
static int l_rng_state(lua_State *L) { return push_state(L, pn_context_rng(pni_lua_context(L))); }
static int l_set_rng_state(lua_State *L) {
  return set_state(L, pn_context_rng(pni_lua_context(L)), 1, "set_rng_state");
}

static int l_tostring(lua_State *L) {
  uint64_t s[2];
  pn_rng_get_state(self(L), s);
  lua_pushfstring(L, "generator in state {%I, %I}", (lua_Integer)s[0], (lua_Integer)s[1]);
  return 1;
}

static const luaL_Reg functions[] = {{"seed", l_seed},
                                     {"generator", l_generator},
                                     {"rng_state", l_rng_state},
                                     {"set_rng_state", l_set_rng_state},
                                     {NULL, NULL}};

static const luaL_Reg methods[] = {{"split", l_split}, {"state", l_state}, {"set_state", l_set_state}, {NULL, NULL}};

void pni_open_random(lua_State *L) {
  luaL_setfuncs(L, functions, 0);
  pni_new_kind(L, &pni_generator_kind);
  luaL_newlib(L, methods);
  pni_guard_methods(L, "a generator");
  lua_setfield(L, -2, "__index");
  lua_pushcfunction(L, l_tostring);
  lua_setfield(L, -2, "__tostring");
  lua_pop(L, 1);
}
