/*
** bind_site.c: Gaussian sites of data for penumbra.continual.sites.
*/
#include "../../infer/sites/site_pass.h"
#include "../nn/nn_lua.h"

enum {
  LAYERS = 1,
  MEAN,
  SCALE,
  LIKELIHOOD,
  NOISE,
  DRAWS,
  X,
  Y,
  WEIGHTS,
  GENERATOR,
  EACH,
  BUDGET,
  ANTITHETIC,
  RESULTS = 4
};
static const char where[] = "sites";

static pn_tensor *optional_tensor(lua_State *L, int i, const char *role) {
  return lua_isnoneornil(L, i) ? NULL : pni_check_operand(L, i, where, role);
}

/* The layers of the list at index LAYERS, which becomes a copy that holds them. */
static int read_layers(lua_State *L, const pn_layer **out) {
  luaL_checktype(L, LAYERS, LUA_TTABLE);
  lua_Integer n = (lua_Integer)lua_rawlen(L, LAYERS);
  if (n > 2 * PNI_SITE_LAYERS)
    pni_error(L, "%s: the network must have at most %d linear layers", where, PNI_SITE_LAYERS);
  pni_copy_list(L, LAYERS, n);
  lua_replace(L, LAYERS);
  for (int k = 0; k < (int)n; k++) {
    lua_rawgeti(L, LAYERS, k + 1);
    out[k] = pni_check_layer(L, -1);
    lua_pop(L, 1);
  }
  return (int)n;
}

/* new_gaussian_sites(layers, mean, scale, likelihood, noise_scale, draws, x, y, weights, generator, each, budget,
 * antithetic) -> precision_mean, precision, expected log likelihood, expected log site */
static int l_sites(lua_State *L) {
  const pn_layer *layers[2 * PNI_SITE_LAYERS];
  pn_context *c = pni_lua_context(L);
  lua_settop(L, ANTITHETIC);
  pn_site_options o = {.num_layers = read_layers(L, layers), .layers = layers};
  o.mean = pni_check_operand(L, MEAN, where, "mean");
  o.scale = pni_check_operand(L, SCALE, where, "scale");
  o.likelihood = luaL_checkstring(L, LIKELIHOOD);
  o.noise_scale = luaL_optnumber(L, NOISE, 0);
  o.draws = luaL_checkinteger(L, DRAWS);
  o.weights = optional_tensor(L, WEIGHTS, "weights");
  o.each = lua_toboolean(L, EACH);
  o.antithetic = lua_toboolean(L, ANTITHETIC);
  o.budget = (size_t)luaL_optinteger(L, BUDGET, 0);
  pn_tensor *x = pni_check_operand(L, X, where, "x"), *y = pni_check_operand(L, Y, where, "y");
  pn_rng *rng = pni_check_rng(L, GENERATOR);
  pni_box *b[RESULTS];
  for (int k = 0; k < RESULTS; k++) b[k] = pni_new_box(L);
  for (int again = 0;; again++) {
    size_t mark = pn_scope_open(c);
    pn_sites s = {0};
    if (pn_gaussian_sites(c, &o, x, y, rng, &s) == PN_NOMEM && !again) {
      pni_forget(L, c, mark);
      continue;
    }
    if (s.precision_mean) {
      pni_fill_box(L, b[0], s.precision_mean);
      pni_fill_box(L, b[1], s.precision);
      pni_fill_box(L, b[2], s.expected_log_likelihood);
    }
    pni_finish(L, c, mark, b[3], s.expected_log_site);
    return RESULTS;
  }
}

static const luaL_Reg functions[] = {{"new_gaussian_sites", l_sites}, {NULL, NULL}};

void pni_open_site(lua_State *L) { luaL_setfuncs(L, functions, 0); }
