/*
** bind_file.c: reading and writing files, as the table core.files. All of it is one field, so that a host can
** take it away from its scripts. Loaders return what they read, or nil, message, code; savers true, or the
** same. Option tables are taken apart in penumbra/data.lua.
*/
#include <string.h>
#include "../penumbra_lua.h"

/* Holds what C made while Lua builds tables from it. */
typedef struct {
  pn_archive *archive;
  pn_names *names, *cells;
} holder;

static void release(void *object) {
  holder *h = object;
  pn_archive_free(h->archive);
  pn_names_free(h->names);
  pn_names_free(h->cells);
  h->archive = NULL;
  h->names = h->cells = NULL;
}

static const pni_object_type kind = {"penumbra.file", "a file", sizeof(holder), 0, false, release};

static holder *new_holder(lua_State *L) { return pni_new_object(L, &kind); }

static const char *check_path(lua_State *L, const char *where) { return pni_check_text(L, 1, where, "path"); }

/* ---- one tensor ---- */

typedef struct {
  const char *path;
  int kind; /* which of the formats below */
  int dtype;
  const char *element;
  int ndim;
  int64_t shape[PN_MAX_DIMS];
  pn_csv_options csv;
  pn_names **names;
} request;

enum { CSV, NPY, IDX, RAW, IMAGE, CHUNK };

static pn_tensor *load_tensor(pn_context *c, const request *r) {
  if (r->kind == CSV) return pn_load_csv(c, r->path, &r->csv, r->names);
  if (r->kind == NPY) return pn_load_npy(c, r->path);
  if (r->kind == IMAGE) return pn_load_image(c, r->path, (pn_dtype)r->dtype);
  if (r->kind == CHUNK) return pn_load_chunk(c, r->path, r->element, r->ndim, r->shape);
  if (r->kind == RAW) return pn_load_raw(c, r->path, r->element, r->ndim, r->shape, (pn_dtype)r->dtype);
  return r->dtype < 0 ? pn_load_idx(c, r->path) : pn_load_idx_as(c, r->path, (pn_dtype)r->dtype);
}

/* Pushes the tensor, or nil, message, code. */
static int push_loaded(lua_State *L, const request *r) {
  pn_context *c = pni_lua_context(L);
  pni_box *b = pni_new_box(L);
  int tries = 0;
  do {
    size_t mark = pn_scope_open(c);
    b->t = pn_tensor_ref(load_tensor(c, r));
    pn_scope_close(c, mark);
  } while (!b->t && pni_again(L, c, &tries));
  if (!b->t) return pni_push_failure(L, c);
  pn_tensor *t = b->t;
  b->t = NULL;
  pni_fill_box(L, b, t); /* tells the collector */
  pn_tensor_unref(t);
  return 1;
}

static int l_load_npy(lua_State *L) {
  request r = {.path = check_path(L, "npy"), .kind = NPY};
  return push_loaded(L, &r);
}

/* load_idx(path, dtype or nil) */
static int l_load_idx(lua_State *L) {
  request r = {.path = check_path(L, "idx"), .kind = IDX, .dtype = -1};
  if (!lua_isnoneornil(L, 2)) r.dtype = (int)pni_check_dtype(L, 2, "idx", PN_INT64);
  return push_loaded(L, &r);
}

/* load_image(path, dtype or nil) */
static int l_load_image(lua_State *L) {
  request r = {.path = check_path(L, "image"), .kind = IMAGE};
  r.dtype = (int)pni_check_dtype(L, 2, "image", pni_default_dtype(L));
  if (r.dtype != PN_FLOAT64 && r.dtype != PN_FLOAT32)
    return pni_error(L, "image: dtype must be float64 or float32, got %s", lua_tostring(L, 2));
  return push_loaded(L, &r);
}

/* load_raw(path, element, shape, dtype) */
static int l_load_raw(lua_State *L) {
  request r = {.path = check_path(L, "raw"), .kind = RAW, .element = pni_check_text(L, 2, "raw", "element")};
  r.dtype = (int)pni_check_dtype(L, 4, "raw", PN_INT64);
  lua_settop(L, 3);
  r.ndim = pni_check_sizes(L, 3, "raw", PN_MAX_DIMS, r.shape);
  return push_loaded(L, &r);
}

/* load_chunk(path, type, shape) */
static int l_load_chunk(lua_State *L) {
  request r = {.path = check_path(L, "zarr"), .kind = CHUNK, .element = pni_check_text(L, 2, "zarr", "type")};
  lua_settop(L, 3);
  r.ndim = pni_check_sizes(L, 3, "zarr", PN_MAX_DIMS, r.shape);
  return push_loaded(L, &r);
}

/* ---- CSV ---- */

/* A list of texts at index i as an array in a userdata; that and a copy of the list, which keeps the texts, are pushed
 * and stay. */
static const char **check_texts(lua_State *L, int i, const char *where, int *n) {
  *n = (int)lua_rawlen(L, i);
  const char **list = lua_newuserdatauv(L, (size_t)(*n + 1) * sizeof *list, 0);
  pni_copy_list(L, i, *n);
  for (int k = 0; k < *n; k++) {
    if (lua_rawgeti(L, -1, k + 1) != LUA_TSTRING) /* no conversion: the copy has the text itself */
      pni_error(L, "%s: name %d must be a string, got %s", where, k + 1, pni_type_name(L, -1));
    size_t length;
    list[k] = lua_tolstring(L, -1, &length);
    if (strlen(list[k]) != length)
      pni_error(L, "%s: text %d must not hold a zero byte, got '%s\\0...'", where, k + 1, list[k]);
    lua_pop(L, 1);
  }
  list[*n] = NULL;
  return list;
}

/* The same for 1-based positions, made 0-based. */
static int64_t *check_positions(lua_State *L, int i, int *n) {
  *n = (int)lua_rawlen(L, i);
  int64_t *list = lua_newuserdatauv(L, (size_t)(*n + 1) * sizeof *list, 0);
  for (int k = 0; k < *n; k++) {
    int ok;
    lua_rawgeti(L, i, k + 1);
    list[k] = lua_tointegerx(L, -1, &ok);
    if (!ok || list[k] == 0)
      pni_error(L, "csv: columns must be all names or all positions from 1 (or -1 backwards), got %s",
                pni_value_text(L, -1));
    list[k] -= list[k] > 0;
    lua_pop(L, 1);
  }
  return list;
}

/* Raises every now and then, if a host has cancelled, in loops over what a file holds. */
static void go_on(lua_State *L, int64_t k) {
  pn_context *c = pni_lua_context(L);
  if (k % 4096 == 4095 && pni_check_cancel(c) != PN_OK) pni_raise(L, c);
}

static void push_names(lua_State *L, const pn_names *names) {
  if (pn_names_count(names) == 0) {
    lua_pushnil(L);
    return;
  }
  lua_createtable(L, (int)pn_names_count(names), 0);
  for (int64_t k = 0; k < pn_names_count(names); k++) {
    lua_pushstring(L, pn_names_at(names, k));
    lua_rawseti(L, -2, k + 1);
    go_on(L, k);
  }
}

/* The arguments path, delimiter, header, dtype, missing, columns, decimal, first, count, comment, whole_lines, of which
 * all but path may be nil. What it pushes stays. */
static request check_csv(lua_State *L) {
  lua_settop(L, 11);
  request r = {.path = check_path(L, "csv"), .kind = CSV};
  const char *delimiter = pni_check_optional_text(L, 2, "csv", "delimiter", "");
  const char *decimal = pni_check_optional_text(L, 7, "csv", "decimal", "");
  if (strlen(delimiter) > 1) pni_error(L, "csv: delimiter must be one character, got '%s'", delimiter);
  if (*decimal && strcmp(decimal, ".") != 0 && strcmp(decimal, ",") != 0)
    pni_error(L, "csv: decimal must be '.' or ',', got '%s'", decimal);
  const char *comment = pni_check_optional_text(L, 10, "csv", "comment", "");
  if (strlen(comment) > 1) pni_error(L, "csv: comment must be one character, got '%s'", comment);
  r.csv.comment = *comment;
  r.csv.whole_lines = (char)lua_toboolean(L, 11);
  r.csv.delimiter = *delimiter;
  r.csv.decimal = *decimal;
  r.csv.first_row = luaL_optinteger(L, 8, 0);
  r.csv.num_rows = luaL_optinteger(L, 9, 0);
  if (!lua_isnil(L, 3)) r.csv.header = lua_toboolean(L, 3) ? 1 : -1;
  r.csv.dtype = pni_check_dtype(L, 4, "csv", pni_default_dtype(L));
  r.csv.missing = pni_check_optional_text(L, 5, "csv", "missing", NULL);
  if (lua_istable(L, 6)) {
    bool by_name = lua_rawgeti(L, 6, 1) == LUA_TSTRING;
    if (by_name)
      r.csv.column_names = check_texts(L, 6, "csv", &r.csv.num_columns);
    else
      r.csv.columns = check_positions(L, 6, &r.csv.num_columns);
    if (r.csv.num_columns == 0) pni_error(L, "csv: columns must not be empty");
  }
  return r;
}

/* load_csv(path, ...) -> tensor, names or nil */
static int l_load_csv(lua_State *L) {
  request r = check_csv(L);
  holder *h = new_holder(L);
  r.names = &h->names;
  int n = push_loaded(L, &r);
  if (n == 1) push_names(L, h->names);
  return n == 1 ? 2 : n;
}

/* load_csv_text(path, ...) -> list of cells, row by row, or nil; names or nil */
static int l_load_csv_text(lua_State *L) {
  pn_context *c = pni_lua_context(L);
  request r = check_csv(L);
  holder *h = new_holder(L);
  int tries = 0;
  do h->cells = pn_load_csv_text(c, r.path, &r.csv, &h->names);
  while (!h->cells && pni_again(L, c, &tries));
  if (!h->cells) return pni_push_failure(L, c);
  push_names(L, h->cells);
  push_names(L, h->names);
  return 2;
}

/* load_lines(path, prefix) -> list of texts */
static int l_load_lines(lua_State *L) {
  pn_context *c = pni_lua_context(L);
  const char *path = check_path(L, "lines"), *prefix = pni_check_text(L, 2, "lines", "prefix");
  holder *h = new_holder(L);
  int tries = 0;
  do h->cells = pn_load_lines(c, path, prefix);
  while (!h->cells && pni_again(L, c, &tries));
  if (!h->cells) return pni_push_failure(L, c);
  push_names(L, h->cells);
  if (lua_isnil(L, -1)) lua_newtable(L);
  return 1;
}

/* ---- archives ---- */

typedef pn_archive *(*loader)(pn_context *c, const char *path);

/* Pushes table name -> tensor, list of names in order, table of texts; or nil, message, code. */
static int push_archive(lua_State *L, const char *path, loader load) {
  pn_context *c = pni_lua_context(L);
  holder *h = new_holder(L);
  int tries = 0;
  do h->archive = load(c, path);
  while (!h->archive && pni_again(L, c, &tries));
  const pn_archive *a = h->archive;
  if (!a) return pni_push_failure(L, c);
  int n = pn_archive_count(a) > 1 << 20 ? 1 << 20 : (int)pn_archive_count(a);
  lua_createtable(L, 0, n);
  lua_createtable(L, n, 0);
  for (int64_t k = 0; k < pn_archive_count(a); k++) {
    lua_pushstring(L, pn_archive_name(a, k));
    pni_push_tensor(L, pn_archive_tensor(a, k));
    lua_rawset(L, -4);
    lua_pushstring(L, pn_archive_name(a, k));
    lua_rawseti(L, -2, k + 1);
    go_on(L, k);
  }
  lua_createtable(L, 0, 0);
  for (int64_t k = 0; k < pn_archive_text_count(a); k++) {
    lua_pushstring(L, pn_archive_text(a, pn_archive_text_key(a, k)));
    lua_setfield(L, -2, pn_archive_text_key(a, k));
    go_on(L, k);
  }
  pn_archive_free(h->archive);
  h->archive = NULL;
  return 3;
}

static int l_load_npz(lua_State *L) { return push_archive(L, check_path(L, "npz"), pn_load_npz); }
static int l_load_safetensors(lua_State *L) {
  return push_archive(L, check_path(L, "safetensors"), pn_load_safetensors);
}

/* Fills the archive of a holder from the lists of names and tensors at index 2 and 3. */
static pn_status fill_archive(lua_State *L, const char *where, holder *h) {
  pn_context *c = pni_lua_context(L);
  int n;
  luaL_checktype(L, 2, LUA_TTABLE);
  luaL_checktype(L, 3, LUA_TTABLE);
  const char **names = check_texts(L, 2, where, &n);
  h->archive = pn_archive_new(c);
  pn_status status = pn_context_status(c);
  for (int k = 0; k < n && status == PN_OK; k++) {
    lua_rawgeti(L, 3, k + 1);
    pn_tensor *t = pni_test_tensor(L, -1);
    if (!t) pni_error(L, "%s: '%s' must be a tensor, got %s", where, names[k], pni_type_name(L, -1));
    status = pn_archive_add(c, h->archive, names[k], t);
    lua_pop(L, 1);
  }
  return status;
}

static int push_saved(lua_State *L, pn_status status) {
  if (status == PN_STATE) return pni_raise(L, pni_lua_context(L)); /* a mistake: within a capture */
  if (status != PN_OK) return pni_push_failure(L, pni_lua_context(L));
  lua_pushboolean(L, 1);
  return 1;
}

/* save_npz(path, names, tensors, compressed) */
static int l_save_npz(lua_State *L) {
  const char *path = check_path(L, "save_npz");
  holder *h = new_holder(L);
  pn_status status = fill_archive(L, "save_npz", h);
  if (status == PN_OK) status = pn_save_npz(pni_lua_context(L), path, h->archive, lua_toboolean(L, 4));
  return push_saved(L, status);
}

typedef pn_status (*saver)(pn_context *c, const char *path, const pn_archive *a);

/* The arguments path, names, tensors, keys, texts. */
static int save_archive(lua_State *L, const char *where, const char *about, saver save) {
  const char *path = check_path(L, where);
  pn_context *c = pni_lua_context(L);
  luaL_checktype(L, 4, LUA_TTABLE);
  luaL_checktype(L, 5, LUA_TTABLE);
  holder *h = new_holder(L);
  int n, m;
  const char **keys = check_texts(L, 4, about, &n), **texts = check_texts(L, 5, about, &m);
  pn_status status = fill_archive(L, where, h);
  for (int k = 0; k < n && k < m && status == PN_OK; k++)
    status = pn_archive_set_text(c, h->archive, keys[k], texts[k]);
  if (status == PN_OK) status = save(c, path, h->archive);
  return push_saved(L, status);
}

static int l_save_safetensors(lua_State *L) { return save_archive(L, "save", "save: metadata", pn_save_safetensors); }
static int l_save_store(lua_State *L) { return save_archive(L, "save_zarr", "save_zarr", pn_save_store); }

/* tensor_bytes(t): the elements of a tensor that is no view, row-major, as they stand in memory (little-endian) */
static int l_tensor_bytes(lua_State *L) {
  const pn_tensor *t = pni_test_tensor(L, 1);
  if (t && pni_check_read(pni_lua_context(L), t, "tensor_bytes")) return pni_raise(L, pni_lua_context(L));
  if (!t || (t->numel && !pn_tensor_data(t)))
    return pni_error(L, "tensor_bytes: needs a contiguous tensor, got %s", pni_type_name(L, 1));
  lua_pushlstring(L, t->numel ? pn_tensor_data(t) : "", (size_t)t->numel * pn_dtype_size(pn_tensor_dtype(t)));
  return 1;
}

/* save_bytes(path, text) */
static int l_save_bytes(lua_State *L) {
  size_t n;
  const char *path = check_path(L, "save_bytes"), *text = luaL_checklstring(L, 2, &n);
  return push_saved(L, pn_save_bytes(pni_lua_context(L), path, text, n));
}

/* ---- saving one tensor ---- */

static pn_tensor *tensor_to_save(lua_State *L, const char *where) {
  pn_tensor *t = pni_test_tensor(L, 2);
  if (!t) pni_error(L, "%s: the second argument must be a tensor, got %s", where, pni_type_name(L, 2));
  return t;
}

static int l_save_npy(lua_State *L) {
  const char *path = check_path(L, "save_npy");
  return push_saved(L, pn_save_npy(pni_lua_context(L), path, tensor_to_save(L, "save_npy")));
}

static int l_save_idx(lua_State *L) {
  const char *path = check_path(L, "save_idx");
  return push_saved(L, pn_save_idx(pni_lua_context(L), path, tensor_to_save(L, "save_idx")));
}

/* save_csv(path, tensor, delimiter or nil, names or nil) */
static int l_save_csv(lua_State *L) {
  lua_settop(L, 4);
  const char *path = check_path(L, "save_csv");
  const pn_tensor *t = tensor_to_save(L, "save_csv");
  const char *delimiter = pni_check_optional_text(L, 3, "save_csv", "delimiter", ""), **names = NULL;
  int n = 0;
  if (strlen(delimiter) > 1) return pni_error(L, "save_csv: delimiter must be one character, got '%s'", delimiter);
  if (t->ndim != 1 && t->ndim != 2) return pni_error(L, "save_csv: tensor must have 1 or 2 axes, got %d", t->ndim);
  if (!lua_isnil(L, 4)) names = check_texts(L, 4, "save_csv", &n);
  int columns = t->ndim == 2 ? (int)t->shape[1] : 1;
  if (names && n != columns)
    return pni_error(L, "save_csv: names must have one entry for each of %d columns, got %d", columns, n);
  return push_saved(L, pn_save_csv(pni_lua_context(L), path, t, *delimiter, names));
}

static const luaL_Reg functions[] = {{"load_csv", l_load_csv},
                                     {"load_csv_text", l_load_csv_text},
                                     {"load_npy", l_load_npy},
                                     {"load_idx", l_load_idx},
                                     {"load_raw", l_load_raw},
                                     {"load_image", l_load_image},
                                     {"load_chunk", l_load_chunk},
                                     {"load_lines", l_load_lines},
                                     {"load_npz", l_load_npz},
                                     {"load_safetensors", l_load_safetensors},
                                     {"save_csv", l_save_csv},
                                     {"save_npy", l_save_npy},
                                     {"save_idx", l_save_idx},
                                     {"save_npz", l_save_npz},
                                     {"save_safetensors", l_save_safetensors},
                                     {"save_store", l_save_store},
                                     {"save_bytes", l_save_bytes},
                                     {"tensor_bytes", l_tensor_bytes},
                                     {NULL, NULL}};

void pni_open_file(lua_State *L) {
  pni_new_kind(L, &kind);
  lua_pop(L, 1);
  luaL_newlib(L, functions);
  pni_add_json(L);
  lua_setfield(L, -2, "files");
}
