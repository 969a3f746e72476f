/*
** network.c: the network of network.h and the masks of MADE (Germain, Gregor, Murray & Larochelle 2015): input i has
** degree i = 1 .. n, hidden unit j degree 1 + j mod (n - 1); a hidden unit sees degrees up to its own, output i
** degrees below i.
*/
#include "network.h"

typedef pn_tensor T;
typedef pn_context C;

/* ---- shapes ---- */

pn_status pni_network_check(C *c, const pn_bijector *b) {
  const char *name = b->kind->name;
  bool middle = b->param[NET_W2] != NULL;
  if (middle != (b->param[NET_B2] != NULL))
    return pni_fail(c, PN_MISSING, "%s: middle_weight and middle_bias must be given together", name);
  for (int k = NET_W1; k <= NET_SCALE_B; k++) {
    int rank = (int)strlen(b->kind->param[k].axes);
    if (b->param[k] && b->param[k]->ndim != rank)
      return pni_fail(c, PN_SHAPE, "%s: %s must have %d axes, got %d", name, b->kind->param[k].name, rank,
                      b->param[k]->ndim);
  }
  int64_t last = b->param[middle ? NET_W2 : NET_W1]->shape[1], seen = b->param[NET_SHIFT_W]->shape[0];
  if (last != seen)
    return pni_fail(c, PN_SHAPE, "%s: shift_weight must take the %lld units of the last hidden layer, got %lld", name,
                    (long long)last, (long long)seen);
  return PN_OK;
}

/* ---- masks ---- */

static int64_t degree(int64_t j, int64_t n) { return n > 1 ? 1 + j % (n - 1) : 1; }

enum { INPUT_TO_HIDDEN, HIDDEN_TO_HIDDEN, HIDDEN_TO_OUTPUT };

/* [sources, units]: 1 where unit j may see source i, n being the number of inputs. */
static T *mask_of(C *c, int which, const T *weight, int64_t n) {
  T *t = pn_zeros(c, PN_FLOAT64, 2, weight->shape);
  if (!t) return NULL;
  double *v = pni_data(t);
  int64_t columns = weight->shape[1];
  for (int64_t i = 0; i < weight->shape[0]; i++)
    for (int64_t j = 0; j < columns; j++) {
      int64_t source = which == INPUT_TO_HIDDEN ? i + 1 : degree(i, n);
      int64_t unit = which == HIDDEN_TO_OUTPUT ? j : degree(j, n);
      v[i * columns + j] = source <= unit;
    }
  return pn_cast(c, t, (pn_dtype)weight->dtype);
}

pn_status pni_network_mask(C *c, pn_bijector *b) {
  static const int weight[] = {NET_W1, NET_W2, NET_SHIFT_W};
  int64_t n = b->param[NET_W1]->shape[0];
  for (int k = INPUT_TO_HIDDEN; k <= HIDDEN_TO_OUTPUT; k++) {
    if (!b->param[weight[k]]) continue;
    T *t = mask_of(c, k, b->param[weight[k]], n);
    if (!t) return c->status;
    b->kept[k] = pn_tensor_ref(t);
  }
  return PN_OK;
}

/* ---- values ---- */

static T *layer(C *c, const pn_bijector *b, T *x, int weight, const T *mask) {
  T *w = b->param[weight];
  if (mask) w = pn_mul(c, w, (T *)(uintptr_t)mask);
  return pn_linear(c, x, w, b->param[weight + 1]);
}

pn_status pni_network(C *c, const pn_bijector *b, T *x, T **shift, T **log_scale) {
  bool single = x && x->ndim == 1; /* pn_linear takes rows */
  if (single) x = pn_unsqueeze(c, x, 0);
  T *h = pn_tanh(c, layer(c, b, x, NET_W1, b->kept[INPUT_TO_HIDDEN]));
  if (b->param[NET_W2]) h = pn_tanh(c, layer(c, b, h, NET_W2, b->kept[HIDDEN_TO_HIDDEN]));
  *shift = layer(c, b, h, NET_SHIFT_W, b->kept[HIDDEN_TO_OUTPUT]);
  *log_scale = layer(c, b, h, NET_SCALE_W, b->kept[HIDDEN_TO_OUTPUT]);
  if (single) {
    *shift = pn_squeeze(c, *shift, 0);
    *log_scale = pn_squeeze(c, *log_scale, 0);
  }
  return c->status;
}
