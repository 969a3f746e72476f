/*
** page.c: the program behind the page. The prompt's Lua state, whose page.lua answers what the page asks in text; and
** a runtime with a script's track(y, seen), a step of a filter, for each place of the mouse.
*/
#include <emscripten.h>
#include <stdio.h>
#include <string.h>
#include "../../src/lua/penumbra_lua.h"

/* ---- the prompt ---- */

static lua_State *L;

static int open_page(lua_State *state) {
  const char *text = lua_touserdata(state, 1);
  pni_open_libs(state);
  if (luaL_loadbuffer(state, text, strlen(text), "=page") != LUA_OK) return lua_error(state);
  lua_call(state, 0, 1);
  lua_setfield(state, LUA_REGISTRYINDEX, "page");
  return 0;
}

/* What stands on top of the stack, kept until the next answer. */
static const char *answer(void) {
  const char *text = lua_tostring(L, -1);
  fflush(stdout);
  fflush(stderr);
  return text ? text : "no text";
}

/* Runs page.lua, `text`. "" or what went wrong. */
EMSCRIPTEN_KEEPALIVE const char *page_open(const char *text) {
  L = luaL_newstate();
  if (!L) return "not enough memory";
  lua_pushcfunction(L, open_page);
  lua_pushlightuserdata(L, (void *)(uintptr_t)text);
  return lua_pcall(L, 1, 0, 0) == LUA_OK ? "" : answer();
}

/* page[what](text), a text, until the next call; or what went wrong. */
EMSCRIPTEN_KEEPALIVE const char *page_ask(const char *what, const char *text) {
  lua_settop(L, 0);
  lua_getfield(L, LUA_REGISTRYINDEX, "page");
  lua_getfield(L, -1, what);
  lua_pushstring(L, text);
  lua_pcall(L, 1, 1, 0);
  return answer();
}

/* ---- the filter ---- */

enum { MOST_PARTICLES = 20000 };

static struct {
  pn_runtime *rt;
  double particles[3 * MOST_PARTICLES], estimate[5]; /* mean, standard deviation, effective sample size */
} track;

/* Opens a runtime for the script. 1 if all is well. */
EMSCRIPTEN_KEEPALIVE int track_open(const char *script) {
  pn_runtime_config config = {.limits = {.memory = (size_t)256 << 20, .seconds = 5}};
  pn_runtime_close(track.rt);
  track.rt = NULL;
  return pn_runtime_new(&config, &track.rt) == PN_OK &&
         pn_runtime_run_string(track.rt, script, (size_t)-1, "track") == PN_OK;
}

EMSCRIPTEN_KEEPALIVE const char *track_message(void) { return track.rt ? pn_runtime_message(track.rt) : "no runtime"; }

/* One step: the mouse is seen at (x, y), or not at all. How many particles there are, 0 after a failure. */
EMSCRIPTEN_KEEPALIVE int track_step(double x, double y, int seen) {
  double place[2] = {x, y}, is_seen = seen;
  pn_array in[2] = {{.dtype = PN_FLOAT64, .ndim = 1, .shape = {2}, .data = place},
                    {.dtype = PN_FLOAT64, .ndim = 0, .data = &is_seen}};
  pn_array out[2] = {{.dtype = PN_FLOAT64, .data = track.particles, .capacity = 3 * MOST_PARTICLES},
                     {.dtype = PN_FLOAT64, .data = track.estimate, .capacity = 5}};
  if (!track.rt || pn_runtime_call(track.rt, "track", 2, in, 2, out) != PN_OK) return 0;
  return out[0].ndim == 2 && out[0].shape[1] == 3 ? (int)out[0].shape[0] : 0;
}

EMSCRIPTEN_KEEPALIVE const double *track_particles(void) { return track.particles; }
EMSCRIPTEN_KEEPALIVE const double *track_estimate(void) { return track.estimate; }
