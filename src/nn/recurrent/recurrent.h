/*
** recurrent.h: the recurrences of gated recurrent networks over contiguous sequences [T, B, ...], forward and adjoint.
** The part that depends on the input alone (gi, all steps at once) comes from outside. Rows of the batch do not meet,
** so they are sharded; results do not depend on the number of threads. Equations and the order of the gates are
** PyTorch's.
**
** GRU (Cho et al. 2014), gates r, z, n beside each other, gh = h W^T + b:
**   r = sigmoid(gi_r + gh_r)   z = sigmoid(gi_z + gh_z)   n = tanh(gi_n + r gh_n)   h' = n + z (h - n)
** LSTM (Hochreiter & Schmidhuber 1997, with the forget gate of Gers et al. 2000), gates i, f, g, o, a = gi + h W^T:
**   c' = sigmoid(a_f) c + sigmoid(a_i) tanh(a_g)   h' = sigmoid(a_o) tanh(c')
*/
#ifndef PN_NN_RECURRENT_RECURRENT_H
#define PN_NN_RECURRENT_RECURRENT_H

#include "../../tensor/product/blas.h"

/* All arrays are contiguous and of one float type. G = gates H. */
typedef struct pni_recurrence {
  pn_context *context; /* asked between two steps */
  int64_t steps, batch, hidden;
  const void *gi;      /* [T, B, G] */
  const void *w;       /* forward: the weight turned, [H, G]; adjoint: [G, H] */
  const void *packed;  /* w, shared by all steps (gemm.h), or NULL */
  const void *b;       /* GRU: [G] */
  const void *h0, *c0; /* [B, H] */
  void *h, *c;         /* [T, B, H]: results of forward; read by the adjoint */
  void *gates;         /* as h and c: of each step i, f and o side by side, [B, 3 H], then tanh(a_g), [B, H]; of a GRU r
                          and z side by side, [B, 2 H], then n and gh_n, [B, H] each */
  const void *dh_in, *dc_in; /* adjoint: gradients of h and c */
  void *dgi;                 /* [T, B, G] */
  void *dgh;                 /* GRU: [T, B, G] */
  void *dh0, *dc0;           /* [B, H] */
  void *room;                /* pni_recurrent_room numbers */
} pni_recurrence;

enum { PNI_GRU_GATES = 3, PNI_LSTM_GATES = 4, PNI_RECURRENT_ROOM = 7 }; /* numbers of room for each of a state */

static inline int64_t pni_recurrent_room(int64_t batch, int64_t hidden) {
  return pni_times(pni_times(batch, hidden), PNI_RECURRENT_ROOM);
}

typedef struct pni_recurrent_kernels {
  pni_shard gru, gru_adjoint, lstm, lstm_adjoint; /* data: pni_recurrence; items: rows of the batch */
} pni_recurrent_kernels;
extern const pni_recurrent_kernels pni_recurrent_f64, pni_recurrent_f32;

#endif
