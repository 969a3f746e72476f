/*
** interned.c: what values and notes of a tape have in common stands there once. A loop of ten thousand turns has a
** dozen shapes and a few attributes; values and notes have their numbers, so that the tape grows by 40 bytes for each
** of them, and equal numbers are equal shapes.
*/
#include <string.h>
#include "replay.h"

static uint32_t mixed(const void *data, size_t bytes, uint64_t h) {
  for (const char *p = data, *end = p + bytes; p < end; p += sizeof(uint64_t)) {
    uint64_t x;
    memcpy(&x, p, sizeof x);
    h = (h ^ x) * 0x9E3779B97F4A7C15u;
    h ^= h >> 29;
  }
  return (uint32_t)(h ^ h >> 32);
}

/* Where an entry of that hash is looked for first, and where then, up to a free place. */
static int64_t first_place(const pni_table *t, uint32_t hash) { return (int64_t)hash & (t->room - 1); }
static int64_t next_place(const pni_table *t, int64_t i) { return (i + 1) & (t->room - 1); }

/* Room for one more, and some that stay free. */
static pn_status reserve(pn_context *c, pni_table *t) {
  if (2 * (t->n + 1) <= t->room) return PN_OK;
  pni_table wide = {.n = t->n, .room = t->room ? 2 * t->room : 64};
  wide.v = pni_calloc_array(c, wide.room, sizeof *wide.v);
  if (!wide.v) return c->status;
  for (int64_t k = 0; k < t->room; k++) {
    if (!t->v[k].at) continue;
    int64_t i = first_place(&wide, t->v[k].hash);
    while (wide.v[i].at) i = next_place(&wide, i);
    wide.v[i] = t->v[k];
  }
  pni_table_free(c, t);
  *t = wide;
  return PN_OK;
}

void pni_table_free(pn_context *c, pni_table *t) { pni_free(c, t->v); }

static void enter(pni_table *t, int64_t i, uint32_t hash, int64_t at) {
  t->v[i] = (pni_place){hash, (int)at + 1};
  t->n++;
}

/* ---- geometries ---- */

pni_geometry pni_geometry_from(const pn_tensor *t) {
  pni_geometry g = {.dtype = t->dtype, .ndim = t->ndim, .numel = t->numel};
  memcpy(g.shape, t->shape, (size_t)t->ndim * sizeof *t->shape);
  memcpy(g.stride, t->stride, (size_t)t->ndim * sizeof *t->stride);
  return g;
}

static bool same_geometry(const pni_geometry *a, const pni_geometry *b) {
  size_t axes = (size_t)a->ndim * sizeof *a->shape;
  return a->dtype == b->dtype && a->ndim == b->ndim && a->numel == b->numel && memcmp(a->shape, b->shape, axes) == 0 &&
         memcmp(a->stride, b->stride, axes) == 0;
}

int pni_tape_geometry(pn_context *c, pni_tape *tape, const pni_geometry *g) {
  size_t axes = (size_t)g->ndim * sizeof *g->shape;
  uint32_t hash = mixed(g->shape, axes, (uint64_t)g->dtype << 8 | (uint64_t)g->ndim);
  hash = mixed(g->stride, axes, hash);
  pni_table *t = &tape->geometry_table;
  if (reserve(c, t)) return -1;
  int64_t i = first_place(t, hash);
  for (; t->v[i].at; i = next_place(t, i))
    if (t->v[i].hash == hash && same_geometry(&tape->geometry.v[t->v[i].at - 1], g)) return t->v[i].at - 1;
  if (PNI_RESERVE(c, tape->geometry, 1)) return -1;
  enter(t, i, hash, tape->geometry.n);
  tape->geometry.v[tape->geometry.n++] = *g;
  return (int)tape->geometry.n - 1;
}

/* ---- attributes ---- */

static bool same_attr(const pni_attr *a, const pni_attr *b) {
  return a->ni == b->ni && memcmp(a->r, b->r, sizeof a->r) == 0 &&
         memcmp(a->i, b->i, (size_t)a->ni * sizeof *a->i) == 0;
}

int64_t pni_tape_attr(pn_context *c, pni_tape *tape, const pni_attr *a) {
  const char *numbers = (const char *)a + offsetof(pni_attr, r);
  size_t bytes = sizeof a->r + (size_t)a->ni * sizeof *a->i;
  uint32_t hash = mixed(numbers, bytes, (uint64_t)a->ni);
  pni_table *t = &tape->word_table;
  if (reserve(c, t)) return -1;
  int64_t i = first_place(t, hash), words = 1 + (int64_t)(bytes / sizeof *tape->word.v);
  for (; t->v[i].at; i = next_place(t, i))
    if (t->v[i].hash == hash && same_attr((const pni_attr *)(const void *)(tape->word.v + t->v[i].at - 1), a))
      return t->v[i].at - 1;
  if (PNI_RESERVE(c, tape->word, words)) return -1;
  int64_t at = tape->word.n, *to = tape->word.v + at;
  *to = 0; /* what stands beside the count */
  memcpy(to, &a->ni, sizeof a->ni);
  memcpy(to + 1, numbers, bytes);
  enter(t, i, hash, at);
  tape->word.n += words;
  return at;
}

/* ---- numbers ---- */

/* The one element of t, bit by bit. */
static uint64_t bits_of(const pn_tensor *t) {
  uint64_t bits = 0;
  memcpy(&bits, pni_data(t), pni_itemsize(t));
  return bits;
}

static uint32_t number_hash(const pn_tensor *t) {
  uint64_t bits = bits_of(t);
  return mixed(&bits, sizeof bits, (uint64_t)t->dtype << 8 | (uint64_t)t->ndim);
}

int pni_tape_known(const pni_tape *tape, const pn_tensor *t) {
  const pni_table *table = &tape->number_table;
  uint32_t hash = number_hash(t);
  pni_geometry g = pni_geometry_from(t);
  for (int64_t i = table->room ? first_place(table, hash) : -1; i >= 0 && table->v[i].at; i = next_place(table, i)) {
    int at = table->v[i].at - 1;
    if (table->v[i].hash == hash && bits_of(tape->value.v[at].outside) == bits_of(t) &&
        same_geometry(pni_geometry_of(tape, at), &g))
      return at;
  }
  return -1;
}

pn_status pni_tape_learn(pn_context *c, pni_tape *tape, int at) {
  pni_table *table = &tape->number_table;
  if (reserve(c, table)) return c->status;
  uint32_t hash = number_hash(tape->value.v[at].outside);
  int64_t i = first_place(table, hash);
  while (table->v[i].at) i = next_place(table, i);
  enter(table, i, hash, at);
  return PN_OK;
}

/* ---- events ---- */

static const pni_event nothing;

const pni_event *pni_event_of(const pni_tape *tape, const pni_note *note) {
  return note->event < 0 ? &nothing : &tape->event.v[note->event];
}
