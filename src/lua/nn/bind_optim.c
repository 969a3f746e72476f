/*
** bind_optim.c: optimisers as Lua sees them: opt:step(loss), options as fields, state as tensors.
*/
#include "../message.h"
#include "nn_lua.h"

typedef struct {
  pn_optim *o;
} box;

static void release(void *object) {
  box *b = object;
  pn_optim *o = b->o;
  b->o = NULL;
  pn_optim_unref(o);
}

static const pni_object_type kind = {"penumbra.optimiser", "an optimiser", sizeof(box), 0, false, release};

pn_optim *pni_check_optim(lua_State *L, int i) {
  box *b = pni_test_object(L, i, &kind);
  if (!b || !b->o) pni_error(L, "optimiser methods are called with a colon, as in opt:step(loss)");
  return b->o;
}

/* The list of parameters at index `params` and of their names (or false) at index `names`, as C arrays in a userdata;
 * that, and lists that keep what they point to, are pushed and stay until the call is over. */
typedef struct {
  int n;
  pn_tensor **param;
  const char **name;
} lists;

static lists read_lists(lua_State *L, const char *where, int params, int names) {
  lists l = {.n = (int)lua_rawlen(L, params)};
  size_t n = (size_t)l.n;
  bool named = lua_istable(L, names);
  luaL_checkstack(L, 8, "too many parameters");
  l.param = lua_newuserdatauv(L, (n ? n : 1) * (sizeof *l.param + sizeof *l.name), 0);
  l.name = (const char **)(l.param + n);
  pni_copy_list(L, params, l.n);
  pni_copy_list(L, named ? names : params, named ? l.n : 0);
  for (int k = 0; k < l.n; k++) {
    lua_rawgeti(L, -2, k + 1);
    l.param[k] = pni_test_tensor(L, -1);
    if (!l.param[k]) pni_error(L, "%s: parameter %d must be a tensor, got %s", where, k + 1, pni_type_name(L, -1));
    lua_pop(L, 1);
    l.name[k] = lua_rawgeti(L, -1, k + 1) == LUA_TSTRING ? lua_tostring(L, -1) : NULL;
    lua_pop(L, 1);
  }
  return l;
}

/* optim(type, parameters, names or nil, options) */
static int l_optim(lua_State *L) {
  pn_context *c = pni_lua_context(L);
  const pni_optimiser *row = pni_optimiser_find(luaL_checkstring(L, 1));
  pn_option options[PNI_OPTIONS + 1];
  if (!row) return pni_error(L, "optim: there is no optimiser '%s'", lua_tostring(L, 1));
  lua_settop(L, 4);
  if (!lua_istable(L, 2))
    return pni_error(L, "%s: parameters must be a list of tensors, got %s", row->name, pni_type_name(L, 2));
  pni_read_options(L, row->name, row->options, 4, NULL, options);
  box *b = pni_new_object(L, &kind);
  int at = lua_gettop(L);
  lists l = read_lists(L, row->name, 2, 3);
  int tries = 0;
  do {
    b->o = pn_optim_new(c, row->name, l.n, l.param, l.name, options);
  } while (!b->o && pni_again(L, c, &tries));
  if (!b->o) return pni_raise(L, c);
  lua_settop(L, at);
  return 1;
}

/* opt:step(loss) -> the loss as a number */
static int l_step(lua_State *L) {
  pn_optim *o = pni_check_optim(L, 1);
  pn_context *c = pni_lua_context(L);
  pn_tensor *loss = pni_test_tensor(L, 2);
  double value = 0;
  if (!loss) return pni_error(L, "step: loss must be a tensor, got %s", pni_type_name(L, 2));
  pni_refuse_finaliser(L, "step");
  if (pni_refuse_capture(c, "opt:step", "give the optimiser to compile, {optimiser = opt}")) return pni_raise(L, c);
  size_t mark = pn_scope_open(c);
  pn_status s = pn_optim_step(c, o, loss);
  if (s == PN_OK) s = pn_tensor_item(c, loss, &value);
  pn_scope_close(c, mark);
  if (s) return pni_raise(L, c);
  lua_pushnumber(L, value);
  return 1;
}

/* opt:apply(list of gradients; false lets a parameter rest) */
static int l_apply(lua_State *L) {
  pn_optim *o = pni_check_optim(L, 1);
  pn_context *c = pni_lua_context(L);
  if (!lua_istable(L, 2) || lua_rawlen(L, 2) != (size_t)o->n)
    return pni_error(L, "apply: needs a list of %d gradients, got %s", o->n, pni_type_name(L, 2));
  pni_refuse_finaliser(L, "apply");
  pn_tensor **g = lua_newuserdatauv(L, (size_t)o->n * sizeof *g, 0);
  pni_copy_list(L, 2, o->n);
  for (int k = 0; k < o->n; k++) {
    bool rest = lua_rawgeti(L, -1, k + 1) == LUA_TBOOLEAN && !lua_toboolean(L, -1);
    if (!rest && !pni_test_tensor(L, -1))
      return pni_error(L, "apply: gradient %d must be a tensor or false, got %s", k + 1, pni_type_name(L, -1));
    g[k] = rest ? NULL : pni_test_tensor(L, -1);
    lua_pop(L, 1);
  }
  size_t mark = pn_scope_open(c);
  pn_status s = pn_optim_apply(c, o, g);
  pn_scope_close(c, mark);
  return s ? pni_raise(L, c) : 0;
}

/* opt:set_own(i, option, value): an option of parameter i alone */
static int l_set_own(lua_State *L) {
  pn_optim *o = pni_check_optim(L, 1);
  pn_context *c = pni_lua_context(L);
  int64_t i = pni_check_whole(L, 2, "set_own", "number");
  pni_refuse_finaliser(L, "set_own");
  if (pni_refuse_capture(c, "setting an option of an optimiser", "do it outside")) return pni_raise(L, c);
  if (i < 1 || i > o->n) return pni_error(L, "set_own: number must lie in 1 .. %d, got %I", o->n, (LUAI_UACINT)i);
  if (lua_type(L, 3) != LUA_TSTRING)
    return pni_error(L, "set_own: option must be a string, got %s", pni_type_name(L, 3));
  double value = pni_check_number(L, 4, "set_own", "value");
  return pn_optim_set_own(c, o, (int)i - 1, lua_tostring(L, 3), value) ? pni_raise(L, c) : 0;
}

static int l_num_states(lua_State *L) {
  lua_pushinteger(L, pn_optim_num_states(pni_check_optim(L, 1)));
  return 1;
}

/* The number of an array of the optimiser at index 2, as C counts. */
static int position(lua_State *L, const pn_optim *o, const char *where) {
  int64_t i = pni_check_whole(L, 2, where, "number"), n = pn_optim_num_states(o);
  if (i < 1 || i > n) pni_error(L, "%s: number must lie in 1 .. %I, got %I", where, (LUAI_UACINT)n, (LUAI_UACINT)i);
  return (int)i - 1;
}

/* opt:state_at(i) -> key, copy */
static int l_state_at(lua_State *L) {
  const pn_optim *o = pni_check_optim(L, 1);
  pn_context *c = pni_lua_context(L);
  if (pni_refuse_capture(c, "an optimiser's state", "read it outside")) return pni_raise(L, c);
  int i = position(L, o, "state_at");
  char key[256];
  lua_pushstring(L, pn_optim_state_name(o, i, key, sizeof key));
  pni_box *b = pni_new_box(L);
  size_t mark = pn_scope_open(c);
  pn_tensor *t = pn_optim_state(c, o, i);
  pni_finish(L, c, mark, b, t);
  return 2;
}

/* opt:check_state_at(i, tensor): raises if set_state_at would; changes nothing */
static int l_check_state_at(lua_State *L) {
  const pn_optim *o = pni_check_optim(L, 1);
  pn_context *c = pni_lua_context(L);
  int i = position(L, o, "check_state_at");
  if (pni_refuse_capture(c, "an optimiser's state", "check it outside")) return pni_raise(L, c);
  pn_tensor *t = pni_check_operand(L, 3, "check_state_at", "state");
  return pni_optim_check_state(c, o, i, t) ? pni_raise(L, c) : 0;
}

static int l_set_state_at(lua_State *L) {
  pn_optim *o = pni_check_optim(L, 1);
  pn_context *c = pni_lua_context(L);
  int i = position(L, o, "set_state_at");
  pni_refuse_finaliser(L, "set_state_at");
  if (pni_refuse_capture(c, "setting an optimiser's state", "do it outside")) return pni_raise(L, c);
  return pn_optim_set_state(c, o, i, pni_check_operand(L, 3, "set_state_at", "state")) ? pni_raise(L, c) : 0;
}

/* opt:parameters() -> list of the parameters, with their names in `names` if they have any */
static int l_parameters(lua_State *L) {
  pn_optim *o = pni_check_optim(L, 1);
  bool named = true;
  lua_createtable(L, o->n, 1);
  for (int i = 0; i < o->n; i++) {
    pni_push_tensor(L, o->param[i]);
    lua_rawseti(L, -2, i + 1);
    named &= o->name[i] != NULL;
  }
  if (!named) return 1;
  lua_createtable(L, o->n, 0);
  for (int i = 0; i < o->n; i++) {
    lua_pushstring(L, o->name[i]);
    lua_rawseti(L, -2, i + 1);
  }
  lua_setfield(L, -2, "names");
  return 1;
}

static int l_type(lua_State *L) {
  lua_pushstring(L, pn_optim_type(pni_check_optim(L, 1)));
  return 1;
}

static int no_such(lua_State *L, const pni_optimiser *type) {
  const char *names[PNI_OPTIONS + 1];
  int n = 0;
  for (; n < PNI_OPTIONS && type->options && type->options[n].name; n++) names[n] = type->options[n].name;
  names[n] = NULL;
  return pni_no_such(L, type->name, names);
}

/* opt.key: a method, else an option. */
static int l_index(lua_State *L) {
  lua_settop(L, 2);
  lua_pushvalue(L, 2);
  if (lua_rawget(L, lua_upvalueindex(1)) != LUA_TNIL) return 1;
  const pn_optim *o = pni_check_optim(L, 1);
  int k = lua_type(L, 2) == LUA_TSTRING ? pni_option_find(o->type->options, lua_tostring(L, 2)) : -1;
  if (k < 0) return no_such(L, o->type);
  if (pni_refuse_capture(o->ctx, "an option of an optimiser", "pass the number as a tensor"))
    return pni_raise(L, o->ctx);
  pni_push_option_value(L, &o->type->options[k], o->option[k]);
  return 1;
}

static int unknown_option(lua_State *L, const pni_optimiser *type) {
  pni_near near;
  const char *key = pni_value_text(L, 2);
  pni_near_begin(&near, key);
  for (int k = 0; k < PNI_OPTIONS && type->options && type->options[k].name; k++)
    pni_near_offer(&near, type->options[k].name);
  pni_push_nearest(L, &near);
  return pni_error(L, "%s: unknown option '%s'%s", type->name, key, lua_tostring(L, -1));
}

/* opt.lr = 0.01 */
static int l_newindex(lua_State *L) {
  pn_optim *o = pni_check_optim(L, 1);
  pn_context *c = pni_lua_context(L);
  pn_option given;
  int k = lua_type(L, 2) == LUA_TSTRING ? pni_option_find(o->type->options, lua_tostring(L, 2)) : -1;
  if (k < 0) return unknown_option(L, o->type);
  pni_read_option(L, o->type->name, &o->type->options[k], 3, &given);
  pni_refuse_finaliser(L, "setting an option");
  if (pni_refuse_capture(c, "setting an option of an optimiser", "do it outside")) return pni_raise(L, c);
  if (given.word) return pni_error(L, "%s: '%s' is fixed", o->type->name, given.name);
  return pn_optim_set(c, o, given.name, given.number) ? pni_raise(L, c) : 0;
}

static int l_rows(lua_State *L) {
  lua_newtable(L);
  for (int i = 0; i < pni_optimiser_count(); i++) {
    const pni_optimiser *row = pni_optimiser_at(i);
    lua_newtable(L);
    lua_pushliteral(L, "optimiser");
    lua_setfield(L, -2, "kind");
    lua_pushstring(L, row->name);
    lua_setfield(L, -2, "name");
    lua_pushstring(L, row->doc);
    lua_setfield(L, -2, "doc");
    lua_pushstring(L, row->source);
    lua_setfield(L, -2, "source");
    luaL_Buffer B;
    luaL_buffinit(L, &B);
    luaL_addstring(&B, "parameters:T");
    pni_add_option_text(&B, L, row->options);
    luaL_pushresult(&B);
    lua_setfield(L, -2, "args");
    pni_push_options(L, row->options);
    lua_setfield(L, -2, "options");
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

static const luaL_Reg functions[] = {{"new_optim", l_optim}, {"optimiser_rows", l_rows}, {NULL, NULL}};

static const luaL_Reg methods[] = {{"step", l_step},
                                   {"apply", l_apply},
                                   {"set_own", l_set_own},
                                   {"num_states", l_num_states},
                                   {"state_at", l_state_at},
                                   {"check_state_at", l_check_state_at},
                                   {"set_state_at", l_set_state_at},
                                   {"type", l_type},
                                   {"parameters", l_parameters},
                                   {NULL, NULL}};

void pni_open_optim(lua_State *L) {
  luaL_setfuncs(L, functions, 0);
  pni_new_kind(L, &kind);
  luaL_newlib(L, methods);
  lua_pushvalue(L, -1);
  lua_setfield(L, -4, "optimiser_methods");
  pni_add_space(L, "an optimiser", -1, 0);
  lua_pushcclosure(L, l_index, 1);
  lua_setfield(L, -2, "__index");
  lua_pushcfunction(L, l_newindex);
  lua_setfield(L, -2, "__newindex");
  lua_pushliteral(L, "optimiser");
  lua_setfield(L, -2, "__name");
  lua_pop(L, 1);
}
