/*
** runtime_filter.c: from the filter of a script to that of a host, which needs neither Lua nor the runtime.
*/
#include "../smc/live_filter.h"
#include "runtime.h"

typedef struct {
  pni_job job; /* first: bodies are given this one */
  pn_context *c;
  pn_filter *filter;
} filter_job;

static int take_filter(lua_State *L) {
  pni_job *j = lua_touserdata(L, 1);
  filter_job *t = (filter_job *)j;
  pni_runtime_release(j->rt);
  pni_runtime_find(L, j); /* 2 */
  const pn_filter *f = pni_test_filter(L, 2);
  j->status = PN_DTYPE;
  if (!f) luaL_error(L, "%s must be a filter, as filter:online() gives it, got %s", j->name, luaL_typename(L, 2));
  j->status = PN_OK;
  t->filter = pn_filter_copy(t->c, f);
  return t->filter ? 0 : pni_runtime_host_failed(L, j, t->c);
}

pn_status pn_runtime_filter(pn_runtime *rt, const char *name, pn_context *c, pn_filter **out) {
  if (pni_runtime_begin(rt)) return PN_STATE;
  if (!name || !out) return pni_runtime_refuse(rt, PN_DOMAIN, "filter: name and out must not be NULL");
  filter_job t = {.job = {.rt = rt, .name = name}, .c = c ? c : rt->c};
  if (pn_context_status(t.c))
    return pni_runtime_refuse(rt, PN_STATE, "filter: an error is pending in the context: %s", pn_context_message(t.c));
  pn_status s = pni_runtime_enter(rt, take_filter, &t.job);
  if (s == PN_OK)
    *out = t.filter;
  else
    pn_filter_free(t.filter); /* a limit that tripped on the way out */
  return s;
}
