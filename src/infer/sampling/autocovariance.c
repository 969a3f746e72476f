/* autocovariance.c: see autocovariance.h. */
#include <string.h>
#include "../../base/clock.h"
#include "autocovariance.h"

/* Lags below the first, which cost about what the transforms do; terms between two looks at the clock. */
enum { TERM_BY_TERM = 64, LOOK = 1 << 15 };

void pni_autocovariance_of(pni_autocovariance *a, const double *x) {
  a->x = x;
  a->known = false;
}

/* The sum of x_i x_{i + lag}; four sums side by side, so that no addition waits for the one before. */
static double lagged_product(const double *x, int64_t n, int64_t lag) {
  double sum[4] = {0};
  int64_t i = 0;
  for (; i + 4 <= n - lag; i += 4)
    for (int k = 0; k < 4; k++) sum[k] += x[i + k] * x[i + k + lag];
  for (; i < n - lag; i++) sum[0] += x[i] * x[i + lag];
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

static size_t room_of(const pni_autocovariance *a) {
  return ((size_t)a->length + 3 * (size_t)(a->length / 2 + 1)) * sizeof(double);
}

static pn_status prepare(pni_autocovariance *a) {
  if (a->room) return PN_OK;
  a->length = pni_fourier_fast_length(2 * a->n);
  if (!a->plan && !(a->plan = pni_real_fourier_new(a->c, PN_FLOAT64, a->length))) return a->c->status;
  if (!(a->room = pni_alloc(a->c, room_of(a)))) return a->c->status;
  a->padded = a->room;
  a->re = a->padded + a->length;
  a->im = a->re + a->length / 2 + 1;
  a->sum = a->im + a->length / 2 + 1;
  return PN_OK;
}

static pn_status find_all(pni_autocovariance *a) {
  pn_context *c = a->c;
  int64_t half = a->length / 2 + 1;
  PNI_INTERRUPTIBLE(c, k, half) a->sum[k] = 0;
  for (int64_t s = 0; s < a->count; s++) {
    memcpy(a->padded, a->x + s * a->n, (size_t)a->n * sizeof(double));
    memset(a->padded + a->n, 0, (size_t)(a->length - a->n) * sizeof(double));
    if (pni_real_fourier_forward(c, a->plan, a->padded, a->re, a->im)) return c->status;
    PNI_INTERRUPTIBLE(c, k, half) a->sum[k] += a->re[k] * a->re[k] + a->im[k] * a->im[k];
  }
  PNI_INTERRUPTIBLE(c, k, half) a->im[k] = 0;
  if (pni_real_fourier_inverse(c, a->plan, a->sum, a->im, a->padded)) return c->status;
  memcpy(a->sum, a->padded, (size_t)a->n * sizeof(double)); /* n <= length / 2 */
  a->known = true;
  return PN_OK;
}

double pni_autocovariance_at(pni_autocovariance *a, int64_t lag) {
  if (a->known) return a->sum[lag];
  if (lag >= TERM_BY_TERM) return prepare(a) == PN_OK && find_all(a) == PN_OK ? a->sum[lag] : 0;
  double sum = 0;
  for (int64_t s = 0, done = LOOK; s < a->count; s++, done += a->n) {
    if (done >= LOOK && pni_check_cancel(a->c)) return 0;
    done = done >= LOOK ? 0 : done;
    sum += lagged_product(a->x + s * a->n, a->n, lag);
  }
  return sum;
}

void pni_autocovariance_end(pni_autocovariance *a) {
  pni_free(a->c, a->room);
  pni_real_fourier_free(a->c, a->plan);
}
