/*
** scope.c: open scopes, a stack of the results that builders gave: closing one gives back what came after its mark.
*/
#include <string.h>
#include "tensor.h"

size_t pn_scope_open(pn_context *c) { return c->scope_len; }

void pn_scope_close(pn_context *c, size_t mark) {
  while (c->scope_len > mark) pn_tensor_unref(c->scope[--c->scope_len]);
}

static void close_all(pn_context *c) { pn_scope_close(c, 0); }

pn_tensor *pni_scoped(pn_context *c, pn_tensor *t) {
  if (!t) return NULL;
  if (c->scope_len == c->scope_cap) {
    size_t cap = c->scope_cap ? 2 * c->scope_cap : 64;
    pn_tensor **list = pni_alloc_array(c, (int64_t)cap, sizeof *list);
    if (!list) {
      pn_tensor_unref(t);
      return NULL;
    }
    if (c->scope_len) memcpy(list, c->scope, c->scope_len * sizeof *list);
    pni_free(c, c->scope);
    c->scope = list;
    c->close_scopes = close_all;
    c->scope_cap = cap;
  }
  c->scope[c->scope_len++] = t;
  return t;
}
