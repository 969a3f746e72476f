/*
** smc_population.c: a compiled function of one vector at many points, side by side in threads, as Lua sees it.
*/
#include "../message.h"
#include "../penumbra_lua.h"

typedef struct {
  pn_population *q;
} box;

static void release(void *object) {
  box *b = object;
  pn_population *q = b->q;
  b->q = NULL;
  pn_population_free(q);
}

static const pni_object_type kind = {"penumbra.population", "a population", sizeof(box), 0, true, release};

/* new_population(compiled) */
static int l_new(lua_State *L) {
  pn_context *c = pni_lua_context(L);
  lua_settop(L, 1);
  pn_plan *plan = pni_check_plan(L, 1);
  box *b = pni_new_object(L, &kind);
  size_t mark = pn_scope_open(c);
  b->q = pn_population_new(c, plan);
  pn_scope_close(c, mark);
  return b->q ? 1 : pni_raise(L, c);
}

/* q:evaluate(rows [N, n]) -> [N, m] */
static int l_evaluate(lua_State *L) {
  box *b = pni_test_object(L, 1, &kind);
  if (!b) return pni_error(L, "population: methods are called with a colon, as in q:evaluate(rows)");
  if (!b->q) return pni_error(L, "population was closed");
  pn_tensor *rows = pni_check_tensor(L, 2);
  PNI_RETURN(L, pni_lua_context(L), pn_population_evaluate(pni_lua_context(L), b->q, rows));
}

static const luaL_Reg methods[] = {{"evaluate", l_evaluate}, {NULL, NULL}};

void pni_open_smc_population(lua_State *L) {
  lua_pushcfunction(L, l_new);
  lua_setfield(L, -2, "new_population");
  pni_new_kind(L, &kind);
  luaL_newlib(L, methods);
  pni_add_close(L, &kind);
  pni_guard_methods(L, "a population");
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
}
