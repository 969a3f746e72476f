/* rooms.c: see rooms.h. */
#include "rooms.h"

enum { LINE = 64 };

typedef struct {
  pni_room_shard body;
  void *data;
  char *first;
  int64_t lines; /* of a room */
  int n;
  atomic_bool *taken;
} rooms;

/* No more shards are at work than there are rooms. */
static void within(void *data, int64_t begin, int64_t end) {
  const rooms *r = data;
  int k = 0;
  while (atomic_exchange_explicit(&r->taken[k], true, memory_order_acquire)) k = k + 1 < r->n ? k + 1 : 0;
  r->body(r->data, begin, end, r->first + k * r->lines * LINE);
  atomic_store_explicit(&r->taken[k], false, memory_order_release);
}

pn_status pni_parallel_in_rooms(pn_context *c, int64_t n, int64_t grain, int64_t elements, size_t size,
                                pni_room_shard body, void *data) {
  int64_t shards = (n + grain - 1) / grain;
  rooms r = {.body = body, .data = data, .lines = pni_plus(pni_times(elements, (int64_t)size), LINE - 1) / LINE};
  r.n = shards < c->num_threads ? (int)shards : c->num_threads;
  r.taken = pni_calloc_array(c, r.n, sizeof *r.taken);
  r.first = r.taken ? pni_alloc_array(c, pni_times(r.n, r.lines), LINE) : NULL;
  if (r.first) pni_parallel(c, n, grain, within, &r);
  pni_free(c, r.first);
  pni_free(c, r.taken);
  return c->status;
}
