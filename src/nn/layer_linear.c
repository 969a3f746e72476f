/*
** layer_linear.c: the affine layer y = x W + b with W [in, out]: rows of x are data, so nothing is
** transposed. (PyTorch keeps W^T.)
*/
#include "../autodiff/op/op.h"
#include "layer.h"

enum { BIAS, INIT, BIAS_INIT };

static pn_status init(pn_context *c, pn_layer *l, pn_dtype dtype, pn_rng *rng) {
  pni_init_call a = {.rng = rng, .dtype = dtype, .ndim = 2, .shape = l->size};
  a.fan_in = (double)l->size[0];
  a.fan_out = (double)l->size[1];
  if (pni_layer_set(c, l, 0, pni_initialise(c, (int)l->option[INIT], &a))) return c->status;
  if (l->option[BIAS] == 0) return PN_OK;
  a.ndim = 1;
  a.shape = &l->size[1];
  return pni_layer_set(c, l, 1, pni_initialise(c, (int)l->option[BIAS_INIT], &a));
}

static pn_tensor *forward(pn_context *c, const pn_layer *l, pn_tensor *x, pn_rng *rng) {
  (void)rng;
  if (l->param[1]) return pn_linear(c, x, l->param[0], l->param[1]);
  return pn_matmul(c, x, l->param[0]);
}

static pn_status moments(pn_context *c, const pn_layer *l, pn_tensor *x, pn_tensor *out[2]) {
  out[0] = forward(c, l, x, NULL);
  if (out[0]) out[1] = pn_zeros(c, (pn_dtype)out[0]->dtype, out[0]->ndim, out[0]->shape);
  return c->status;
}

static const pni_option options[] = {
    {"bias", "false true", 1, 0, 1, false, "add b"},
    {"init", pni_initialiser_names, PNI_INIT_lecun, 0, 0, false, "of the weight"},
    {"bias_init", pni_initialiser_names, PNI_INIT_zeros, 0, 0, false, "of the bias, with the weight's fans"},
    {0}};

const pni_layer pni_layer_linear = {.name = "linear",
                                    .doc = "x W + b: [..., in] -> [..., out], weight [in, out], bias [out]",
                                    .size = {"in", "out"},
                                    .param = {"weight", "bias"},
                                    .options = options,
                                    .init = init,
                                    .forward = forward,
                                    .moments = moments};
