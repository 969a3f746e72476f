/*
** distribution_lua.h: what the files that bind distributions and bijectors share.
*/
#ifndef PN_LUA_DISTRIBUTION_DISTRIBUTION_LUA_H
#define PN_LUA_DISTRIBUTION_DISTRIBUTION_LUA_H

#include "../penumbra_lua.h"
#include "../../distribution/bijector/bijector.h"

/* PNI_RETURN for an expression that gives one tensor and leaves another in `second`: both are results. */
#define PNI_RETURN_TWO(L, c, second, expr)                                                                             \
  do {                                                                                                                 \
    pni_box *first_ = pni_new_box(L), *second_ = pni_new_box(L);                                                       \
    for (int again_ = 0;; again_++) {                                                                                  \
      size_t mark_ = pn_scope_open(c);                                                                                 \
      pn_tensor *t_ = (expr);                                                                                          \
      if (t_) {                                                                                                        \
        first_->t = pn_tensor_ref(t_);                                                                                 \
        second_->t = pn_tensor_ref(second);                                                                            \
        pn_scope_close(c, mark_);                                                                                      \
        pni_tell_collector(L);                                                                                         \
        return 2;                                                                                                      \
      }                                                                                                                \
      if (again_ || pn_context_status(c) != PN_NOMEM) {                                                                \
        pn_scope_close(c, mark_);                                                                                      \
        return pni_raise(L, c);                                                                                        \
      }                                                                                                                \
      pni_forget(L, c, mark_);                                                                                         \
    }                                                                                                                  \
  } while (0)

/* A distribution as Lua sees it; d is NULL while empty and after close. */
typedef struct pni_dist_box {
  pn_dist *d;
} pni_dist_box;

/* A bijector as Lua sees it. */
typedef struct pni_bijector_box {
  pn_bijector *b;
} pni_bijector_box;

extern const pni_object_type pni_dist_kind;

/* Is there a distribution, closed or not, at index i? */
bool pni_is_dist(lua_State *L, int i);
/* The distribution at stack index i, raising if it is none. Borrowed. */
pn_dist *pni_check_dist(lua_State *L, int i);
/* The set named at index i; raises, naming the nearest. */
const pni_constraint *pni_check_set(lua_State *L, int i, const char *where);
/* Pushes an empty box. */
pni_dist_box *pni_new_dist_box(lua_State *L);
/* Fills the box on the stack top, or raises. */
int pni_finish_dist(lua_State *L, pn_context *c, pni_dist_box *b, pn_dist *d);
/* A tensor of the dtype that numbers take beside d, or NULL. */
const pn_tensor *pni_dist_like(const pn_dist *d);
/* The same for bijectors. */
pn_bijector *pni_check_bijector(lua_State *L, int i);
/* Pushes a box with one more reference to b. */
void pni_push_bijector(lua_State *L, pn_bijector *b);
/* Pushes the text of the value at index 1 as core.describe's function `what` (a Lua module's) has it. */
int pni_describe(lua_State *L, const char *what);
/* Raises in a capture if a text would show numbers of these tensors (NULL: none). */
void pni_check_shown(lua_State *L, pn_context *c, int n, pn_tensor *const *param);
void pni_check_bijector_shown(lua_State *L, const pn_bijector *b);
/* Pushes {name =, constraint =, must =, axes =, choice =, default =, discrete =}. */
void pni_push_parameter(lua_State *L, const pni_parameter *p);
/* Pushes the row of a kind as pn.rows() lists it. */
void pni_push_dist_row(lua_State *L, const pni_distribution *kind);
/* t[key] = value for the table t on the stack top. */
void pni_set_string(lua_State *L, const char *key, const char *value);

#endif
