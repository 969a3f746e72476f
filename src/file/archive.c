/*
** archive.c: named tensors in order, with text beside them: what .npz and safetensors files hold. A dict
** keeps keys in order of insertion and finds them through an open-addressed table of positions.
*/
#include <string.h>
#include "file.h"

struct pn_names {
  pn_context *c;
  int64_t n, cap;
  char **text;
};

typedef struct {
  int64_t n, cap; /* keys; the table has 2 cap slots */
  char **key;
  void **value;
  int64_t *slot; /* position + 1 of a key, 0: free */
} dict;

struct pn_archive {
  pn_context *c;
  dict tensors, texts;
};

static char *copy_text(pn_context *c, const char *text, size_t n) {
  char *copy = pni_alloc(c, n + 1);
  if (!copy) return NULL;
  if (n) memcpy(copy, text, n);
  copy[n] = '\0';
  return copy;
}

static void free_text(pn_context *c, char *text) { pni_free(c, text); }

/* A copy of an array with room for `cap` pointers. */
static void *grown(pn_context *c, void *old, int64_t n, int64_t cap) {
  void *block = pni_alloc_array(c, cap, sizeof(void *));
  if (block && n) memcpy(block, old, (size_t)n * sizeof(void *));
  return block;
}

/* ---- names ---- */

pn_names *pni_names_new(pn_context *c) {
  pn_names *names = pni_calloc(c, sizeof *names);
  if (!names) return NULL;
  names->c = c;
  pni_object_born(c);
  return names;
}

pn_status pni_names_add(pn_context *c, pn_names *names, const char *text, size_t n) {
  if (names->n == names->cap) {
    int64_t cap = names->cap ? 2 * names->cap : 16;
    char **larger = grown(c, names->text, names->n, cap);
    if (!larger) return c->status;
    pni_free(c, names->text);
    names->text = larger;
    names->cap = cap;
  }
  const char *nul = n ? memchr(text, '\0', n) : NULL;
  char *copy = copy_text(c, text, nul ? (size_t)(nul - text) : n);
  if (!copy) return c->status;
  names->text[names->n++] = copy;
  return PN_OK;
}

int64_t pn_names_count(const pn_names *names) { return names ? names->n : 0; }

const char *pn_names_at(const pn_names *names, int64_t i) {
  return names && i >= 0 && i < names->n ? names->text[i] : NULL;
}

void pn_names_free(pn_names *names) {
  if (!names) return;
  pn_context *c = names->c;
  for (int64_t i = 0; i < names->n; i++) free_text(c, names->text[i]);
  pni_free(c, names->text);
  pni_free(c, names);
  pni_object_died(c);
}

/* ---- dict ---- */

/* FNV-1a. */
static uint64_t hash(const char *key) {
  uint64_t h = 0xcbf29ce484222325u;
  for (; *key; key++) h = (h ^ (unsigned char)*key) * 0x100000001b3u;
  return h ^ h >> 32;
}

/* The slot where key is or belongs. cap is a power of two. */
static int64_t *place(const dict *d, const char *key) {
  uint64_t mask = 2 * (uint64_t)d->cap - 1, at = hash(key) & mask;
  while (d->slot[at] && strcmp(d->key[d->slot[at] - 1], key) != 0) at = (at + 1) & mask;
  return &d->slot[at];
}

static int64_t find(const dict *d, const char *key) { return d->cap ? *place(d, key) - 1 : -1; }

static void dict_blocks_free(pn_context *c, dict *d) {
  pni_free(c, d->key);
  pni_free(c, d->value);
  pni_free(c, d->slot);
}

static pn_status dict_grow(pn_context *c, dict *d) {
  dict new = {.n = d->n, .cap = d->cap ? 2 * d->cap : 16};
  new.key = grown(c, d->key, d->n, new.cap);
  new.value = grown(c, d->value, d->n, new.cap);
  new.slot = pni_alloc_array(c, 2 * new.cap, sizeof(int64_t));
  if (!new.key || !new.value || !new.slot) {
    dict_blocks_free(c, &new);
    return c->status;
  }
  memset(new.slot, 0, 2 * (size_t) new.cap * sizeof(int64_t));
  for (int64_t i = 0; i < new.n; i++) *place(&new, new.key[i]) = i + 1;
  dict_blocks_free(c, d);
  *d = new;
  return PN_OK;
}

/* Adds an absent key. */
static pn_status dict_add(pn_context *c, dict *d, const char *key, void *value) {
  if (d->n == d->cap && dict_grow(c, d) != PN_OK) return c->status;
  char *copy = copy_text(c, key, strlen(key));
  if (!copy) return c->status;
  *place(d, copy) = d->n + 1;
  d->key[d->n] = copy;
  d->value[d->n++] = value;
  return PN_OK;
}

/* ---- archives ---- */

pn_archive *pn_archive_new(pn_context *c) {
  if (pni_failed(c)) return NULL;
  pn_archive *a = pni_calloc(c, sizeof *a);
  if (!a) return NULL;
  a->c = c;
  pni_object_born(c);
  return a;
}

void pn_archive_free(pn_archive *a) {
  if (!a) return;
  pn_context *c = a->c;
  for (int64_t i = 0; i < a->tensors.n; i++) {
    free_text(c, a->tensors.key[i]);
    pn_tensor_unref(a->tensors.value[i]);
  }
  for (int64_t i = 0; i < a->texts.n; i++) {
    free_text(c, a->texts.key[i]);
    free_text(c, a->texts.value[i]);
  }
  dict_blocks_free(c, &a->tensors);
  dict_blocks_free(c, &a->texts);
  pni_free(c, a);
  pni_object_died(c);
}

pn_status pn_archive_add(pn_context *c, pn_archive *a, const char *name, pn_tensor *t) {
  char buf[64];
  if (pni_failed(c)) return c->status;
  if (!a || !name || !t) return pni_fail(c, PN_STATE, "archive: archive, name and tensor must not be NULL");
  if (pni_check_read(c, t, "an archive")) return c->status;
  if (find(&a->tensors, name) >= 0)
    return pni_fail(c, PN_DOMAIN, "archive: names must differ, got '%s' twice", pni_printable(name, strlen(name), buf));
  pn_status status = dict_add(c, &a->tensors, name, t);
  if (status == PN_OK) pn_tensor_ref(t);
  return status;
}

pn_status pn_archive_set_text(pn_context *c, pn_archive *a, const char *key, const char *text) {
  if (pni_failed(c)) return c->status;
  if (!a || !key || !text) return pni_fail(c, PN_STATE, "archive: archive, key and text must not be NULL");
  char *copy = copy_text(c, text, strlen(text));
  if (!copy) return c->status;
  int64_t at = find(&a->texts, key);
  if (at >= 0) {
    free_text(c, a->texts.value[at]);
    a->texts.value[at] = copy;
    return PN_OK;
  }
  pn_status status = dict_add(c, &a->texts, key, copy);
  if (status != PN_OK) free_text(c, copy);
  return status;
}

int64_t pn_archive_count(const pn_archive *a) { return a ? a->tensors.n : 0; }

const char *pn_archive_name(const pn_archive *a, int64_t i) {
  return a && i >= 0 && i < a->tensors.n ? a->tensors.key[i] : NULL;
}

pn_tensor *pn_archive_tensor(const pn_archive *a, int64_t i) {
  return a && i >= 0 && i < a->tensors.n ? a->tensors.value[i] : NULL;
}

pn_tensor *pn_archive_find(const pn_archive *a, const char *name) {
  return a && name ? pn_archive_tensor(a, find(&a->tensors, name)) : NULL;
}

int64_t pn_archive_text_count(const pn_archive *a) { return a ? a->texts.n : 0; }

const char *pn_archive_text_key(const pn_archive *a, int64_t i) {
  return a && i >= 0 && i < a->texts.n ? a->texts.key[i] : NULL;
}

const char *pn_archive_text(const pn_archive *a, const char *key) {
  int64_t at = a && key ? find(&a->texts, key) : -1;
  return at >= 0 ? a->texts.value[at] : NULL;
}
