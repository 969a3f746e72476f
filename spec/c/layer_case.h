/*
** layer_case.h: a layer of each row and inputs that fit it, for the batteries that loop over the rows. Rows that are
** not listed take sizes 3 and 2 and one input [4, 3].
*/
#ifndef PN_SPEC_LAYER_CASE_H
#define PN_SPEC_LAYER_CASE_H

#include <string.h>
#include "../../src/nn/layer.h"
#include "check.h"

typedef struct layer_case {
  const char *name;
  int nsizes;
  int64_t size[4];
  pn_option option[4];
  int nin;
  struct {
    int ndim;
    int64_t shape[5];
    bool whole; /* zeros of int64 */
  } in[PNI_LAYER_INPUTS];
} layer_case;

static const layer_case layer_cases[] = {
    {"bilinear", 3, {3, 2, 2}, {{0}}, 2, {{2, {4, 3}, false}, {2, {4, 2}, false}}},
    {"embedding", 2, {5, 2}, {{0}}, 1, {{2, {4, 3}, true}}},
    {"highway", 1, {3}, {{0}}, 1, {{2, {4, 3}, false}}},
    {"multi_head_attention", 2, {4, 2}, {{0}}, 2, {{3, {2, 3, 4}, false}, {3, {2, 2, 4}, false}}},
    {"conv1d", 2, {4, 2}, {{"kernel", 2, NULL}, {0}}, 1, {{3, {2, 4, 5}, false}}},
    {"conv2d", 2, {4, 2}, {{"kernel", 0, "2x3"}, {"padding", 1, NULL}, {0}}, 1, {{4, {2, 4, 3, 4}, false}}},
    {"conv_transpose2d", 2, {4, 2}, {{"kernel", 2, NULL}, {"stride", 0, "1x2"}, {0}}, 1, {{4, {2, 4, 3, 4}, false}}},
    {"max_pool2d", 0, {0}, {{"kernel", 2, NULL}, {0}}, 1, {{4, {2, 4, 3, 4}, false}}},
    {"avg_pool2d", 0, {0}, {{"kernel", 2, NULL}, {0}}, 1, {{4, {2, 4, 3, 4}, false}}},
    {"conv3d", 2, {4, 2}, {{"kernel", 0, "2x1x2"}, {"stride", 2, NULL}, {0}}, 1, {{5, {2, 4, 3, 2, 3}, false}}},
    {"conv_transpose1d", 2, {4, 2}, {{"kernel", 2, NULL}, {0}}, 1, {{3, {2, 4, 5}, false}}},
    {"max_pool1d", 0, {0}, {{"kernel", 2, NULL}, {0}}, 1, {{3, {2, 4, 5}, false}}},
    {"avg_pool1d", 0, {0}, {{"kernel", 2, NULL}, {0}}, 1, {{3, {2, 4, 5}, false}}},
    {"max_pool3d", 0, {0}, {{"kernel", 0, "2x1x2"}, {0}}, 1, {{5, {2, 4, 3, 2, 3}, false}}},
    {"avg_pool3d", 0, {0}, {{"kernel", 2, NULL}, {"padding", 1, NULL}, {0}}, 1, {{5, {2, 4, 3, 2, 3}, false}}},
    {"adaptive_avg_pool1d", 0, {0}, {{"size", 3, NULL}, {0}}, 1, {{3, {2, 4, 5}, false}}},
    {"adaptive_avg_pool2d", 0, {0}, {{"size", 0, "2x3"}, {0}}, 1, {{4, {2, 4, 3, 4}, false}}},
    {"adaptive_avg_pool3d", 0, {0}, {{"size", 0, "2x1x2"}, {0}}, 1, {{5, {2, 4, 3, 2, 3}, false}}},
    {"adaptive_max_pool1d", 0, {0}, {{"size", 3, NULL}, {0}}, 1, {{3, {2, 4, 5}, false}}},
    {"adaptive_max_pool2d", 0, {0}, {{"size", 0, "2x3"}, {0}}, 1, {{4, {2, 4, 3, 4}, false}}},
    {"adaptive_max_pool3d", 0, {0}, {{"size", 0, "2x1x2"}, {0}}, 1, {{5, {2, 4, 3, 2, 3}, false}}},
    {"glu", 0, {0}, {{0}}, 1, {{2, {4, 6}, false}}},
    {"rms_norm", 2, {3, 4}, {{0}}, 1, {{4, {2, 4, 3, 4}, false}}},
    {"upsample_bilinear", 0, {0}, {{0}}, 1, {{4, {2, 4, 3, 4}, false}}},
    {"batch_norm", 1, {4}, {{0}}, 1, {{4, {2, 4, 3, 4}, false}}},
    {"layer_norm", 2, {3, 4}, {{0}}, 1, {{4, {2, 4, 3, 4}, false}}},
    {"group_norm", 2, {2, 4}, {{0}}, 1, {{4, {2, 4, 3, 4}, false}}},
    {"actnorm", 1, {4}, {{0}}, 1, {{4, {2, 4, 3, 4}, false}}},
    {"flatten", 0, {0}, {{0}}, 1, {{4, {2, 4, 3, 4}, false}}},
    {"reshape", 2, {2, -1}, {{0}}, 1, {{4, {2, 4, 3, 4}, false}}},
    {"pixel_shuffle", 0, {0}, {{0}}, 1, {{4, {2, 4, 3, 4}, false}}},
    {.name = NULL},
};

static inline layer_case layer_case_of(const pni_layer *row) {
  for (const layer_case *k = layer_cases; k->name; k++)
    if (strcmp(k->name, row->name) == 0) return *k;
  layer_case plain = {.name = row->name, .size = {3, 2}, .nin = 1, .in = {{.ndim = 2, .shape = {4, 3}}}};
  while (plain.nsizes < 2 && row->size[plain.nsizes]) plain.nsizes++;
  return plain;
}

/* The inputs; false on failure. Scoped. */
static inline bool layer_inputs(pn_context *c, const layer_case *k, pn_dtype dtype, pn_tensor **in) {
  for (int i = 0; i < k->nin; i++) {
    in[i] = k->in[i].whole ? pn_zeros(c, PN_INT64, k->in[i].ndim, k->in[i].shape)
                           : pn_randn(c, NULL, dtype, k->in[i].ndim, k->in[i].shape);
    if (!in[i]) return false;
  }
  return true;
}

#endif
