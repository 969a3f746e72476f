/*
** real_nvp.c: an affine coupling: the first k numbers pass and decide how the other m are moved,
**   y_2 = x_2 e^s(x_1) + t(x_1),  log |det| = sum s(x_1)
*/
#include "network.h"

typedef pn_tensor T;
typedef pn_context C;
typedef pn_bijector B;
#define LAST ((pn_axes){1, {-1}})

static pn_status check(C *c, B *b) { return pni_network_check(c, b); }

/* The two halves of x, and what the network says of the first. */
typedef struct {
  T *pass, *moved, *shift, *log_scale;
} halves;

static pn_status split(C *c, B *b, const char *function, T *x, halves *h) {
  int64_t k = b->param[NET_W1]->shape[0], m = b->param[NET_SHIFT_B]->shape[0], n = x->shape[x->ndim - 1];
  if (n != k + m)
    return pni_fail(c, PN_SHAPE, "real_nvp: %s: vectors must have size %lld + %lld, got %lld", function, (long long)k,
                    (long long)m, (long long)n);
  h->pass = pn_slice(c, x, -1, 0, k, 1);
  h->moved = pn_slice(c, x, -1, k, m, 1);
  return pni_network(c, b, h->pass, &h->shift, &h->log_scale);
}

static T *join(C *c, T *a, T *b) { return a && b ? pn_concatenate(c, 2, (T *[]){a, b}, -1) : NULL; }

static T *forward_with(C *c, B *b, T *x, T **log_det) {
  halves h;
  if (split(c, b, "forward", x, &h)) return NULL;
  *log_det = pn_sum(c, h.log_scale, LAST, 0);
  return join(c, h.pass, pn_add(c, pn_mul(c, h.moved, pn_exp(c, h.log_scale)), h.shift));
}

static T *inverse_with(C *c, B *b, T *y, T **log_det) {
  halves h;
  if (split(c, b, "inverse", y, &h)) return NULL;
  *log_det = pn_sum(c, h.log_scale, LAST, 0);
  return join(c, h.pass, pn_mul(c, pn_sub(c, h.moved, h.shift), pn_exp(c, pn_neg(c, h.log_scale))));
}

static T *forward(C *c, B *b, T *x) {
  T *unused;
  return forward_with(c, b, x, &unused);
}

static T *inverse(C *c, B *b, T *y) {
  T *unused;
  return inverse_with(c, b, y, &unused);
}

static T *log_abs_det(C *c, B *b, T *x, T *y) {
  (void)y;
  halves h;
  if (split(c, b, "log_abs_det", x, &h)) return NULL;
  return pn_sum(c, h.log_scale, LAST, 0);
}

const pni_bijector pni_bijector_real_nvp = {
    .name = "real_nvp",
    .doc = "affine coupling: x_1 passes, y_2 = x_2 e^s(x_1) + t(x_1); s and t a network of one or two hidden layers",
    .source = "Dinh, Sohl-Dickstein & Bengio 2017",
    .param = PNI_NETWORK("k", "m"),
    .domain = &pni_constraint_real_vector,
    .codomain = &pni_constraint_real_vector,
    .in = "x",
    .out = "x",
    .check = check,
    .forward = forward,
    .inverse = inverse,
    .log_abs_det = log_abs_det,
    .forward_with = forward_with,
    .inverse_with = inverse_with};
