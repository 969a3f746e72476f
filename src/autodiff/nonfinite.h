/* nonfinite.h: which operation made the first NaN or infinity. */
#ifndef PN_AUTODIFF_NONFINITE_H
#define PN_AUTODIFF_NONFINITE_H

#include "../tensor/tensor.h"

enum { PNI_CAUSE = 320 };

/* Writes where the first non-finite number below the one-element y arose: the first node in topological
 * order whose value is not finite while its inputs' are; if all values are finite, the first vjp on the
 * way down that turned a finite gradient into another. `buf` is borrowed back. Leaves c's error as it is. */
const char *pni_nonfinite_cause(pn_context *c, pn_tensor *y, char buf[PNI_CAUSE]);
/* Is a NaN among the elements? Like the next, a walk over distinct elements, which a limit of time ends. */
bool pni_has_nan(const pn_context *c, const pn_tensor *t);
/* Every element is a finite number (always so for int64 and bool). */
bool pni_all_finite(const pn_context *c, const pn_tensor *t);

#endif
