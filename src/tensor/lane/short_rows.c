/* short_rows.c: short rows of either type, sharded over threads when they are many. */
#include "short_rows.h"

typedef struct {
  const pni_short_rows *r;
  void (*run)(const pni_short_rows *r, int64_t begin, int64_t end);
} job;

static void shard(void *data, int64_t begin, int64_t end) {
  const job *j = data;
  j->run(j->r, begin, end);
}

pn_status pni_short_rows_run(pn_context *c, int dtype, const pni_short_rows *r, int64_t rows) {
  job j = {r, dtype == PN_FLOAT64 ? pni_short_rows_f64 : pni_short_rows_f32};
  return pni_parallel(c, rows, 32768 / (r->n + 1) + 1, shard, &j);
}
