/*
** repeat.c: finding what a tape repeats. A loop of a script stands on the tape as often as it ran. It is found again as
** a section: notes that are the same operations on the same shapes at each turn, whose operands lie at each turn
** where they lay the turn before, or further on by the same number of elements. The results of a note of a section
** count as one array, turn after turn, so that "what the turn before gave" and "what another loop gave at the same
** turn, forwards or backwards" are such places too. Nothing is guessed: all turns are looked at.
*/
#include <string.h>
#include "roll.h"

/* Turns at the beginning whose operands may lie elsewhere. At a note, periods are tried until so many notes have been
 * compared: a long tape without loops is read in little more time than it took to write. */
enum { MOST_PEEL = 2, MOST_COMPARED = 500 };

/* ---- the line ---- */

void pni_line_free(pn_context *c, pni_line *l) {
  pni_free(c, l->note);
  pni_free(c, l->hash);
  pni_free(c, l->next);
  pni_free(c, l->section);
  pni_free(c, l->kept);
  pni_free(c, l->maker);
  pni_free(c, l->sections.v);
}

static bool is_view(const pni_tape *tape, const pni_note *note) {
  return note->out >= 0 && tape->value.v[note->out].kind == PNI_VALUE_VIEW;
}

/* Is the note needed for what is marked, for an effect, a draw or a check? Then so is what it reads. */
static bool mark_needed(const pni_tape *tape, const pni_note *note, uint8_t *used) {
  if (note->op && !pni_rng_of(tape, note) && !(note->op->flags & PNI_OP_CHECK) && !used[note->out]) return false;
  for (int k = 0; k < note->nin; k++)
    if (tape->edge.v[note->first + k] >= 0) used[tape->edge.v[note->first + k]] = 1;
  return true;
}

static uint64_t mix(uint64_t h, uint64_t x) {
  h = (h ^ x) * 0x9E3779B97F4A7C15u;
  return h ^ h >> 29;
}

/* Numbers of the attribute before which a draw's place in its generator stands. */
static int first_number(const pni_note *note) { return note->op && note->op->flags & PNI_OP_DRAW ? 2 : 0; }

static uint64_t hash_of(const pni_tape *tape, const pni_note *note) {
  const pni_event *e = pni_event_of(tape, note);
  const pni_attr *a = pni_attr_of(tape, note);
  uint64_t h = mix(mix((uint64_t)note->nin, (uint64_t)(uintptr_t)note->op), e->positions);
  h = mix(h, (uint64_t)(uintptr_t)e->rng);
  for (int i = first_number(note); note->op && i < a->ni; i++) h = mix(h, (uint64_t)a->i[i]);
  for (int k = 0; k < note->nin; k++) {
    int v = tape->edge.v[note->first + k];
    h = mix(h, v < 0 ? UINT64_MAX : (uint64_t)tape->value.v[v].geometry);
  }
  return mix(h, (uint64_t)tape->value.v[note->out].geometry);
}

static void write_line(pni_line *l, int nout, const int *out, uint8_t *used) {
  const pni_tape *tape = l->tape;
  for (int k = 0; k < nout; k++) used[out[k]] = 1;
  int at = (int)tape->note.n; /* from the end, then moved to the beginning */
  for (int i = at - 1; i >= 0; i--)
    if (mark_needed(tape, &tape->note.v[i], used) && !is_view(tape, &tape->note.v[i])) l->note[--at] = i;
  l->n = (int)tape->note.n - at;
  memmove(l->note, l->note + at, (size_t)l->n * sizeof *l->note);
  for (int64_t v = 0; v < tape->value.n; v++) l->maker[v] = -1;
  for (int i = 0; i < l->n; i++) {
    const pni_note *note = &tape->note.v[l->note[i]];
    l->section[i] = -1;
    l->hash[i] = pni_event_of(tape, note)->effect ? 0 : hash_of(tape, note) | 1;
    if (note->out >= 0) l->maker[note->out] = i;
  }
}

/* Fills next, by way of a table of the last note of each hash. */
static pn_status link_same(pn_context *c, pni_line *l) {
  int64_t room = 64;
  while (room < 2 * (int64_t)l->n) room *= 2;
  int *last = pni_alloc_array(c, room, sizeof *last);
  if (!last) return c->status;
  memset(last, -1, (size_t)room * sizeof *last);
  for (int i = l->n - 1; i >= 0; i--) {
    int64_t at = (int64_t)(l->hash[i] >> 20) & (room - 1);
    while (last[at] >= 0 && l->hash[last[at]] != l->hash[i]) at = (at + 1) & (room - 1);
    l->next[i] = last[at];
    last[at] = i;
  }
  pni_free(c, last);
  return PN_OK;
}

/* ---- whereabouts ---- */

pni_whereabouts pni_find_value(const pni_line *l, const pni_section *own, int v) {
  const pni_value *x = &l->tape->value.v[v], *base = &l->tape->value.v[x->base];
  if (base->kind == PNI_VALUE_OUTSIDE) return (pni_whereabouts){base->outside->storage, x->offset};
  int q = l->maker[x->base];
  const pni_section *s = q < 0                    ? NULL
                         : own && q >= own->begin ? own
                         : l->section[q] >= 0     ? &l->sections.v[l->section[q]]
                                                  : NULL;
  if (!s) return (pni_whereabouts){base, x->offset};
  int turn = (q - s->begin) / s->period, m = (q - s->begin) % s->period;
  int64_t numel = l->tape->geometry.v[base->geometry].numel;
  return (pni_whereabouts){&l->note[s->begin + m], turn * numel + x->offset - base->offset};
}

int64_t pni_extent(const pni_geometry *t) {
  int64_t n = 1;
  for (int i = 0; i < t->ndim; i++) {
    if (t->stride[i] < 0) return -1;
    n += (t->shape[i] - 1) * t->stride[i];
  }
  return t->numel ? n : 0;
}

bool pni_is_loose(const pni_tape *tape, int v) {
  const pni_value *x = &tape->value.v[v];
  const pni_geometry *g = pni_geometry_of(tape, v);
  int64_t extent = pni_extent(g);
  return x->kind == PNI_VALUE_OUTSIDE && x->outside->storage->version == 0 && !x->outside->storage->cargo &&
         extent > 0 && extent <= g->numel;
}

/* ---- sections ---- */

static bool same_attr(const pni_tape *tape, const pni_note *a, const pni_note *b) {
  if (a->attr == b->attr) return true;
  int from = first_number(a);
  const pni_attr *x = pni_attr_of(tape, a), *y = pni_attr_of(tape, b);
  return x->ni == y->ni && memcmp(x->r, y->r, sizeof x->r) == 0 &&
         memcmp(x->i + from, y->i + from, (size_t)(x->ni - from) * sizeof *x->i) == 0;
}

static bool same_event(const pni_event *a, const pni_event *b) {
  const pni_draw *x = &a->draw, *y = &b->draw;
  return a->rng == b->rng && a->positions == b->positions && x->kind == y->kind && x->permutation == y->permutation &&
         x->low == y->low && x->high == y->high;
}

/* Do two notes do the same to operands of the same shapes? */
static bool same(const pni_line *l, int p, int q) {
  const pni_tape *tape = l->tape;
  const pni_note *a = &tape->note.v[l->note[p]], *b = &tape->note.v[l->note[q]];
  if (l->hash[p] != l->hash[q] || !l->hash[p] || a->op != b->op || a->nin != b->nin || !same_attr(tape, a, b) ||
      !same_event(pni_event_of(tape, a), pni_event_of(tape, b)) ||
      tape->value.v[a->out].geometry != tape->value.v[b->out].geometry)
    return false;
  for (int k = 0; k < a->nin; k++) {
    int x = tape->edge.v[a->first + k], y = tape->edge.v[b->first + k];
    if (x < 0 || y < 0 ? x != y : tape->value.v[x].geometry != tape->value.v[y].geometry) return false;
  }
  return true;
}

/* The turns, at most `limit`, that do what the first one does. */
static int64_t turns_of(const pni_line *l, const pni_section *s, int64_t limit) {
  int64_t most = (int64_t)(l->n - s->begin) / s->period * s->period, run = s->period;
  if (limit < most / s->period) most = limit * s->period;
  while (run < most && same(l, s->begin + (int)run - s->period, s->begin + (int)run)) run++;
  return run / s->period;
}

/* The first turn from s->peel on at which operand k of note m does not lie where the two before have it; or
 * s->turns. */
static int64_t steady(const pni_line *l, const pni_section *s, int m, int k) {
  int v = pni_turn_operand(l, s, s->peel, m, k), w = pni_turn_operand(l, s, s->peel + 1, m, k);
  if (v < 0) return s->turns;
  pni_whereabouts a = pni_find_value(l, s, v), b = pni_find_value(l, s, w);
  bool loose = a.of != b.of;
  if (loose && !(pni_is_loose(l->tape, v) && pni_is_loose(l->tape, w))) return s->peel + 1;
  for (int64_t turn = s->peel + 2; turn < s->turns; turn++) {
    int u = pni_turn_operand(l, s, turn, m, k);
    pni_whereabouts now = pni_find_value(l, s, u);
    if (loose ? !pni_is_loose(l->tape, u) : now.of != a.of || now.at - a.at != (turn - s->peel) * (b.at - a.at))
      return turn;
  }
  return s->turns;
}

static int operands(const pni_line *l, int place) { return l->tape->note.v[l->note[place]].nin; }

/* Can the section have its s->turns turns, or fewer, but `least` after those that are peeled? With the fewest peeled
 * for which that holds. */
static bool settles(const pni_line *l, pni_section *s, int64_t least) {
  int64_t turns = s->turns;
  for (s->peel = 0; s->peel <= MOST_PEEL && turns - s->peel >= least; s->peel++) {
    s->turns = turns;
    for (int m = 0; m < s->period && s->turns - s->peel >= least; m++)
      for (int k = 0; k < operands(l, s->begin + m) && s->turns - s->peel >= least; k++) s->turns = steady(l, s, m, k);
    if (s->turns - s->peel >= least) return true;
  }
  return false;
}

/* Does what begins here look like a section of this period: first a glance, then the fewest turns it must have? Adds
 * the notes that were compared to *compared. */
static bool promises(const pni_line *l, pni_section *s, int64_t *compared) {
  static const int64_t looks[] = {4, PNI_LEAST_TURNS};
  for (int i = 0; i < 2; i++) {
    s->turns = turns_of(l, s, looks[i] + MOST_PEEL);
    *compared += (s->turns - 1) * s->period;
    if (!settles(l, s, looks[i])) return false;
  }
  return true;
}

static int64_t covered(const pni_section *s) { return s->turns * s->period; }

/* The section that begins at a place and covers most of the line, of the shortest period; turns 0: none. */
static pni_section section_at(const pni_line *l, int begin) {
  pni_section best = {.turns = 0};
  int q = l->hash[begin] ? l->next[begin] : -1;
  for (int64_t compared = 0; q >= 0 && compared < MOST_COMPARED; q = l->next[q]) {
    pni_section s = {.begin = begin, .period = q - begin};
    if ((int64_t)s.period * PNI_LEAST_TURNS > l->n - begin) break;
    if (best.turns && s.period % best.period == 0) continue;
    compared += 8;
    if (!promises(l, &s, &compared)) continue;
    s.turns = turns_of(l, &s, INT64_MAX);
    if (settles(l, &s, PNI_LEAST_TURNS) && covered(&s) > covered(&best) + s.period) best = s;
  }
  return best;
}

static pn_status find_sections(pn_context *c, pni_line *l) {
  for (int at = 0; at < l->n;) {
    pni_section s = section_at(l, at);
    if (!s.turns) {
      at++;
      continue;
    }
    if (PNI_RESERVE(c, l->sections, 1)) return c->status;
    for (int64_t i = 0; i < covered(&s); i++) l->section[at++] = (int)l->sections.n;
    l->sections.v[l->sections.n++] = s;
  }
  return PN_OK;
}

/* Results of a section are kept for all turns unless only their own turn reads them. reader: a place, or -1. */
static void keep_read(pni_line *l, int v, int reader) {
  int q = v < 0 ? -1 : l->maker[l->tape->value.v[v].base];
  if (q < 0 || l->section[q] < 0) return;
  const pni_section *s = &l->sections.v[l->section[q]];
  bool own = reader >= 0 && l->section[reader] == l->section[q] &&
             (reader - s->begin) / s->period == (q - s->begin) / s->period;
  if (!own) l->kept[s->begin + (q - s->begin) % s->period] = 1;
}

static void find_kept(pni_line *l, int nout, const int *out) {
  for (int i = 0; i < l->n; i++)
    for (int k = 0; k < operands(l, i); k++) keep_read(l, l->tape->edge.v[l->tape->note.v[l->note[i]].first + k], i);
  for (int k = 0; k < nout; k++) keep_read(l, out[k], -1);
}

pn_status pni_line_open(pn_context *c, pni_line *l, const pni_tape *tape, int nout, const int *out) {
  int64_t n = tape->note.n;
  *l = (pni_line){.tape = tape};
  uint8_t *used = pni_calloc(c, (size_t)tape->value.n);
  l->note = pni_alloc_array(c, n, sizeof *l->note);
  l->hash = pni_alloc_array(c, n, sizeof *l->hash);
  l->next = pni_alloc_array(c, n, sizeof *l->next);
  l->section = pni_alloc_array(c, n, sizeof *l->section);
  l->kept = pni_calloc(c, (size_t)n);
  l->maker = pni_alloc_array(c, tape->value.n, sizeof *l->maker);
  if (!pni_failed(c)) write_line(l, nout, out, used);
  pni_free(c, used);
  if (pni_failed(c) || link_same(c, l) || find_sections(c, l)) return c->status;
  if (l->sections.n) find_kept(l, nout, out);
  return PN_OK;
}
