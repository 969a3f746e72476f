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

static pn_tensor *forward(pn_context *c, const pn_layer *l, const pni_layer_call *call) {
  if (l->param[1]) return pn_linear(c, call->in[0], l->param[0], l->param[1]);
  return pn_matmul(c, call->in[0], l->param[0]);
}

/* The mean goes through the layer; variances v of independent inputs become v W^2, a covariance S becomes W' S W. */
static pn_status moments(pn_context *c, const pn_layer *l, const pni_layer_call *call, pn_tensor *out[2]) {
  pn_tensor *v = call->variance, *w = l->param[0];
  out[0] = forward(c, l, call);
  if (v && v->ndim == call->in[0]->ndim)
    out[1] = pn_matmul(c, v, pn_square(c, w));
  else if (v)
    out[1] = pn_matmul(c, pn_matmul(c, pn_transpose(c, w, 0, 1), v), w);
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
                                    .input = {{"x", "[..., in]", 0}},
                                    .param = {"weight", "bias"},
                                    .torch = "weight' bias",
                                    .options = options,
                                    .init = init,
                                    .forward = forward,
                                    .moments = moments,
                                    .covariance = true,
                                    .uncertain = &pni_layer_bayes_linear};
