/*
** given.h: arguments of public functions that must not be NULL.
*/
#ifndef PN_BASE_GIVEN_H
#define PN_BASE_GIVEN_H

#include <stdbool.h>
#include "../penumbra.h"

/* Is no failure pending, and is none of the pointers NULL? Else fails with PN_STATE: "gather: x must not be NULL", by
 * the names of the arguments. PNI_LISTED: of lists of n, which may be NULL where n is 0; PN_DOMAIN where n is
 * negative. */
#define PNI_GIVEN(c, where, ...) PNI_LISTED(c, where, 1, __VA_ARGS__)
#define PNI_LISTED(c, where, n, ...)                                                                                   \
  pni_given(c, where, n, #__VA_ARGS__, sizeof((const void *const[]){__VA_ARGS__}) / sizeof(void *),                    \
            (const void *const[]){__VA_ARGS__})
bool pni_refuse_null(pn_context *c, const char *where, int64_t n, const char *names, size_t place);
static inline bool pni_given(pn_context *c, const char *where, int64_t n, const char *names, size_t count,
                             const void *const *pointer) {
  if (n < 0) return pni_refuse_null(c, where, n, names, 0);
  for (size_t k = 0; n && k < count; k++)
    if (!pointer[k]) return pni_refuse_null(c, where, n, names, k);
  return pn_context_status(c) == PN_OK;
}

#endif
