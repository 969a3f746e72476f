/*
** stream.h: sums of weights that arrive a few draws at a time, in memory that does not grow: what bounds of thousands
** of draws are read from.
*/
#ifndef PN_INFER_SAMPLING_STREAM_H
#define PN_INFER_SAMPLING_STREAM_H

#include "../op/pareto_tail.h"

/* Of one datum. The weights are held relative to the largest so far, e^top. */
typedef struct pni_column {
  double top, sum, square; /* sum w, sum w^2 */
  double logs;             /* sum log w, -inf once a weight is 0 */
} pni_column;

struct pn_weight_stream {
  int32_t refs;
  pn_context *ctx;
  int64_t draws;      /* for which room for the tail is kept, 0: none */
  int64_t batch;      /* -1: nothing was added */
  int64_t count;      /* draws of each datum so far */
  bool torn;          /* an addition was cancelled half-way */
  pni_column *column; /* batch */
  int64_t room;       /* of a tail: its size and one more */
  double *tail;       /* batch * room: heaps of the largest log-weights, the least of them first */
};

/* What a stream gives: "log_mean"... in the order of pni_stream_names; NULL at the end. */
extern const char *const pni_stream_names[];

#endif
