/*
** runtime_io.c: Lua's library io, and loadfile, dofile, require, os.remove, os.rename and os.tmpname, below the
** runtime's root. Files are Lua's own (luaL_Stream), opened by pni_root_file; seek, setvbuf, flush and "n" are stock.
** Whatever moves bytes does so by pieces and polls in between.
*/
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>
#include "runtime.h"

enum { PIECE = 1 << 16, MOST_FORMATS = 200 };

/* Keys of the registry. */
static const char INPUT[] = "penumbra.runtime.input", OUTPUT[] = "penumbra.runtime.output";

/* ---- opening ---- */

/* nil, message, errno */
static int refuse(lua_State *L, const char *path, int error) {
  lua_pushnil(L);
  lua_pushfstring(L, "%s: %s", path, pni_root_reason(&pni_runtime_of(L)->root, error));
  lua_pushinteger(L, error);
  return 3;
}

static int cannot_open(lua_State *L, const char *path, int error) {
  return luaL_error(L, "cannot open file '%s' (%s)", path, pni_root_reason(&pni_runtime_of(L)->root, error));
}

static int close_stream(lua_State *L) {
  luaL_Stream *s = luaL_checkudata(L, 1, LUA_FILEHANDLE);
  return luaL_fileresult(L, pni_root_leave_stream(&pni_runtime_of(L)->root, s->f) == 0, NULL);
}

/* Pushes a file and returns 0, or pushes nothing and returns the error. */
static int open_stream(lua_State *L, const char *path, int flags, const char *mode) {
  pn_runtime *rt = pni_runtime_of(L);
  pni_runtime_poll(L, PNI_INTERVAL);
  luaL_Stream *s = lua_newuserdatauv(L, sizeof *s, 0);
  s->f = NULL;
  s->closef = NULL; /* marks it as closed */
  luaL_setmetatable(L, LUA_FILEHANDLE);
  int fd = pni_root_file(&rt->root, path, flags);
  if (fd >= 0) s->f = pni_root_stream(&rt->root, fd, mode);
  if (!s->f) {
    lua_pop(L, 1);
    return errno;
  }
  s->closef = close_stream;
  return 0;
}

/* Flags of a mode such as "r", "w+b"; -1 if it is none. */
static int flags_of(const char *mode) {
  static const char letters[] = "rwa";
  static const int flags[] = {0, O_CREAT | O_TRUNC, O_CREAT | O_APPEND};
  const char *at = *mode ? strchr(letters, *mode++) : NULL;
  bool both = at && *mode == '+';
  if (both) mode++;
  while (*mode == 'b') mode++;
  if (!at || *mode) return -1;
  return flags[at - letters] | (both ? O_RDWR : at == letters ? O_RDONLY : O_WRONLY);
}

/* A path without zero bytes. */
static const char *check_path(lua_State *L, int i) {
  size_t n;
  const char *path = luaL_checklstring(L, i, &n);
  luaL_argcheck(L, strlen(path) == n, i, "path must not hold a zero byte");
  return path;
}

static int l_open(lua_State *L) {
  const char *path = check_path(L, 1), *mode = luaL_optstring(L, 2, "r");
  int flags = flags_of(mode);
  luaL_argcheck(L, flags >= 0, 2, "invalid mode");
  int error = open_stream(L, path, flags, mode);
  return error ? refuse(L, path, error) : 1;
}

/* Pushes the name of a new, empty file and returns 0, or the error. */
static int new_name(lua_State *L) {
  pn_runtime *rt = pni_runtime_of(L);
  char name[48];
  int error = EEXIST;
  for (int k = 0; k < 100 && error == EEXIST; k++) {
    snprintf(name, sizeof name, "lua_%lx_%llx", (long)getpid(), (unsigned long long)pni_now());
    int fd = pni_root_file(&rt->root, name, O_RDWR | O_CREAT | O_EXCL);
    error = fd < 0 ? errno : 0;
    if (fd >= 0) pni_root_leave(&rt->root, fd);
  }
  if (!error) lua_pushstring(L, name);
  return error;
}

static int l_tmpfile(lua_State *L) {
  int error = new_name(L);
  if (error) return refuse(L, "tmpfile", error);
  const char *name = lua_tostring(L, -1);
  error = open_stream(L, name, O_RDWR, "w+");
  pni_root_remove(&pni_runtime_of(L)->root, name);
  return error ? refuse(L, "tmpfile", error) : 1;
}

/* ---- files as arguments ---- */

static FILE *check_file(lua_State *L, int i) {
  luaL_Stream *s = luaL_checkudata(L, i, LUA_FILEHANDLE);
  if (!s->closef) luaL_error(L, "attempt to use a closed file");
  return s->f;
}

/* Inserts the default input or output at index 1; false if there is none. */
static bool insert_default(lua_State *L, const char *which) {
  bool there = lua_getfield(L, LUA_REGISTRYINDEX, which) != LUA_TNIL;
  if (there)
    lua_insert(L, 1);
  else
    lua_pop(L, 1);
  return there;
}

static void check_open(lua_State *L, const char *which) {
  const luaL_Stream *s = lua_touserdata(L, 1);
  if (!s->closef) luaL_error(L, "default %s file is closed", which);
}

static void insert_input(lua_State *L) {
  if (!insert_default(L, INPUT)) luaL_error(L, "there is no standard input here: name a file with io.input");
}

/* input([file or path]), output([file or path]) */
static int set_default(lua_State *L, const char *which, int flags, const char *mode) {
  if (!lua_isnoneornil(L, 1)) {
    if (lua_isstring(L, 1)) {
      const char *path = check_path(L, 1);
      int error = open_stream(L, path, flags, mode);
      if (error) return cannot_open(L, path, error);
    } else {
      check_file(L, 1);
      lua_pushvalue(L, 1);
    }
    lua_setfield(L, LUA_REGISTRYINDEX, which);
  }
  lua_getfield(L, LUA_REGISTRYINDEX, which);
  return 1;
}

static int l_input(lua_State *L) { return set_default(L, INPUT, O_RDONLY, "r"); }
static int l_output(lua_State *L) { return set_default(L, OUTPUT, O_WRONLY | O_CREAT | O_TRUNC, "w"); }

/* close([file]) */
static int l_close(lua_State *L) {
  if (lua_isnone(L, 1) && !insert_default(L, OUTPUT)) return luaL_error(L, "there is no default output file");
  check_file(L, 1);
  luaL_Stream *s = lua_touserdata(L, 1);
  lua_CFunction f = s->closef;
  s->closef = NULL;
  return f(L);
}

/* ---- reading: what the formats say is as in liolib.c ---- */

/* n bytes; false if there were none. */
static bool read_bytes(lua_State *L, FILE *f, size_t n) {
  luaL_Buffer b;
  size_t total = 0, part, got;
  luaL_buffinit(L, &b);
  do {
    part = n - total < PIECE ? n - total : PIECE;
    got = fread(luaL_prepbuffsize(&b, part), 1, part, f);
    luaL_addsize(&b, got);
    total += got;
    pni_runtime_poll(L, 1 + got / 64);
  } while (got == part && total < n);
  luaL_pushresult(&b);
  return total > 0;
}

/* A line, with its end if `keep`; false at the end of the file. */
static bool read_line(lua_State *L, FILE *f, bool keep) {
  luaL_Buffer b;
  int ch = 0;
  luaL_buffinit(L, &b);
  do {
    char *p = luaL_prepbuffer(&b);
    size_t n = 0;
    while (n < LUAL_BUFFERSIZE && (ch = getc_unlocked(f)) != EOF && ch != '\n') p[n++] = (char)ch;
    luaL_addsize(&b, n);
    pni_runtime_poll(L, 1 + n / 64);
  } while (ch != EOF && ch != '\n');
  if (keep && ch == '\n') luaL_addchar(&b, '\n');
  luaL_pushresult(&b);
  return ch == '\n' || lua_rawlen(L, -1) > 0;
}

/* "n" is the stock file's own business: at most 200 bytes. The file stands at index 1. */
static bool read_number(lua_State *L) {
  lua_getfield(L, LUA_REGISTRYINDEX, "penumbra.runtime.read");
  lua_pushvalue(L, 1);
  lua_pushliteral(L, "n");
  lua_call(L, 2, 1);
  return !lua_isnil(L, -1);
}

static bool at_end(FILE *f) {
  int ch = getc(f);
  ungetc(ch, f);
  return ch == EOF;
}

/* Pushes what the format at index i asks for; false if there is nothing. */
static bool read_format(lua_State *L, FILE *f, int i) {
  if (lua_type(L, i) == LUA_TNUMBER) {
    lua_Integer n = luaL_checkinteger(L, i);
    if (n != 0) return read_bytes(L, f, (size_t)n);
    lua_pushliteral(L, "");
    return !at_end(f);
  }
  const char *p = luaL_checkstring(L, i);
  if (*p == '*') p++;
  if (*p == 'n') return read_number(L);
  if (*p == 'l' || *p == 'L') return read_line(L, f, *p == 'L');
  if (*p != 'a') luaL_argerror(L, i, "invalid format");
  read_bytes(L, f, (size_t)-1);
  return true;
}

/* Reads by the formats at first .. top; the file stands at index 1. */
static int read_formats(lua_State *L, FILE *f, int first) {
  int top = lua_gettop(L);
  bool ok = true;
  clearerr(f);
  luaL_checkstack(L, top - first + LUA_MINSTACK, "too many arguments");
  if (top < first) ok = read_line(L, f, false);
  for (int i = first; i <= top && ok; i++) ok = read_format(L, f, i);
  if (ferror(f)) return luaL_fileresult(L, 0, NULL);
  if (!ok) {
    lua_pop(L, 1);
    luaL_pushfail(L);
  }
  return lua_gettop(L) - top;
}

static int f_read(lua_State *L) { return read_formats(L, check_file(L, 1), 2); }

static int l_read(lua_State *L) {
  insert_input(L);
  check_open(L, "input");
  return f_read(L);
}

/* Upvalues: the file, whether to close it at its end, how many formats, the formats. */
static int next_line(lua_State *L) {
  luaL_Stream *s = lua_touserdata(L, lua_upvalueindex(1));
  int n = (int)lua_tointeger(L, lua_upvalueindex(3));
  if (!s->closef) return luaL_error(L, "file is already closed");
  lua_settop(L, 0);
  luaL_checkstack(L, n + 1, "too many arguments");
  lua_pushvalue(L, lua_upvalueindex(1));
  for (int i = 1; i <= n; i++) lua_pushvalue(L, lua_upvalueindex(3 + i));
  n = read_formats(L, s->f, 2);
  if (lua_toboolean(L, -n)) return n;
  if (n > 1) return luaL_error(L, "%s", lua_tostring(L, -n + 1));
  if (lua_toboolean(L, lua_upvalueindex(2))) {
    lua_settop(L, 1);
    lua_CFunction f = s->closef;
    s->closef = NULL;
    f(L);
    lua_pushnil(L);
  }
  return 1;
}

/* Pushes the iterator over the file at index 1 with the formats behind it. */
static void push_lines(lua_State *L, bool close_it) {
  int n = lua_gettop(L) - 1;
  luaL_argcheck(L, n <= MOST_FORMATS, MOST_FORMATS + 2, "too many arguments");
  lua_pushvalue(L, 1);
  lua_pushboolean(L, close_it);
  lua_pushinteger(L, n);
  lua_rotate(L, 2, 3);
  lua_pushcclosure(L, next_line, 3 + n);
}

static int f_lines(lua_State *L) {
  check_file(L, 1);
  push_lines(L, false);
  return 1;
}

/* lines([path, formats...]) */
static int l_lines(lua_State *L) {
  if (lua_isnoneornil(L, 1)) {
    if (lua_gettop(L) > 0) lua_remove(L, 1);
    insert_input(L);
    return f_lines(L);
  }
  const char *path = check_path(L, 1);
  int error = open_stream(L, path, O_RDONLY, "r");
  if (error) return cannot_open(L, path, error);
  lua_replace(L, 1);
  push_lines(L, true);
  lua_pushnil(L);
  lua_pushnil(L);
  lua_pushvalue(L, 1); /* closed when the loop ends */
  return 4;
}

/* ---- writing ---- */

/* The text of argument i; numbers as io writes them. */
static const char *check_text(lua_State *L, int i, size_t *n, char number[64]) {
  if (lua_type(L, i) != LUA_TNUMBER) return luaL_checklstring(L, i, n);
  int length = lua_isinteger(L, i) ? snprintf(number, 64, LUA_INTEGER_FMT, (LUAI_UACINT)lua_tointeger(L, i))
                                   : snprintf(number, 64, LUA_NUMBER_FMT, (LUAI_UACNUMBER)lua_tonumber(L, i));
  *n = (size_t)length;
  return number;
}

static bool put(lua_State *L, FILE *f, const char *text, size_t n) {
  for (size_t k; n; text += k, n -= k) {
    k = n < PIECE ? n : PIECE;
    pni_runtime_poll(L, 1 + k / 64);
    if (fwrite(text, 1, k, f) != k) return false;
  }
  return true;
}

static int f_write(lua_State *L) {
  FILE *f = check_file(L, 1);
  char number[64];
  size_t n;
  int top = lua_gettop(L);
  for (int i = 2; i <= top; i++) {
    const char *text = check_text(L, i, &n, number);
    if (!put(L, f, text, n)) return luaL_fileresult(L, 0, NULL);
  }
  lua_settop(L, 1);
  return 1;
}

/* write(...): what goes to no file goes where print's lines go. */
static int l_write(lua_State *L) {
  char number[64];
  size_t n;
  if (insert_default(L, OUTPUT)) {
    check_open(L, "output");
    return f_write(L);
  }
  int top = lua_gettop(L);
  for (int i = 1; i <= top; i++) {
    const char *text = check_text(L, i, &n, number);
    pni_runtime_poll(L, 1);
    pni_runtime_print(L, text, n);
  }
  return 0;
}

/* ---- scripts in files ---- */

typedef struct {
  FILE *f;
  int first; /* a byte read in advance, EOF: none */
  char piece[4096];
} reader;

static const char *read_piece(lua_State *L, void *data, size_t *n) {
  reader *r = data;
  pni_runtime_poll(L, 1);
  *n = 0;
  if (r->first != EOF) r->piece[(*n)++] = (char)r->first;
  r->first = EOF;
  *n += fread(r->piece + *n, 1, sizeof r->piece - *n, r->f);
  return *n ? r->piece : NULL;
}

/* Passes over a byte order mark, and the text of a first line that begins with '#'. */
static int skip_head(lua_State *L, FILE *f) {
  static const char mark[] = "\xEF\xBB\xBF";
  int ch = getc(f);
  for (int k = 0; mark[k] && ch == (unsigned char)mark[k]; k++) ch = getc(f);
  if (ch != '#') return ch;
  for (int k = 0; ch != EOF && ch != '\n'; k++) {
    ch = getc(f);
    if (k % PIECE == 0) pni_runtime_poll(L, 1);
  }
  return ch;
}

/* Pushes the chunk in a file (text only) and returns LUA_OK, or a message. */
static int load_chunk(lua_State *L, const char *path, const char *mode) {
  reader r;
  int error = open_stream(L, path, O_RDONLY, "r");
  if (error) {
    lua_pushfstring(L, "cannot open %s: %s", path, pni_root_reason(&pni_runtime_of(L)->root, error));
    return LUA_ERRFILE;
  }
  r.f = ((luaL_Stream *)lua_touserdata(L, -1))->f;
  r.first = skip_head(L, r.f);
  lua_pushfstring(L, "@%s", path);
  int status = lua_load(L, read_piece, &r, lua_tostring(L, -1), strchr(mode, 't') ? "t" : "");
  pni_runtime_pass_on(L);
  lua_remove(L, -2);
  if (ferror(r.f)) {
    lua_pop(L, 1);
    lua_pushfstring(L, "cannot read %s", path);
    status = LUA_ERRFILE;
  }
  lua_pushcfunction(L, l_close);
  lua_pushvalue(L, -3);
  lua_call(L, 1, 0);
  lua_remove(L, -2);
  return status;
}

/* loadfile(path, mode, environment) */
static int l_loadfile(lua_State *L) {
  const char *path = check_path(L, 1), *mode = luaL_optstring(L, 2, "bt");
  bool with_environment = !lua_isnone(L, 3);
  if (load_chunk(L, path, mode) != LUA_OK) {
    luaL_pushfail(L);
    lua_insert(L, -2);
    return 2;
  }
  if (with_environment) {
    lua_pushvalue(L, 3);
    if (!lua_setupvalue(L, -2, 1)) lua_pop(L, 1);
  }
  return 1;
}

static int l_dofile(lua_State *L) {
  const char *path = check_path(L, 1);
  lua_settop(L, 1);
  if (load_chunk(L, path, "t") != LUA_OK) return lua_error(L);
  lua_call(L, 0, LUA_MULTRET);
  return lua_gettop(L) - 1;
}

int pni_search_root(lua_State *L) {
  static const char *const endings[] = {".lua", "/init.lua"};
  pn_runtime *rt = pni_runtime_of(L);
  const char *name = luaL_gsub(L, check_path(L, 1), ".", "/");
  for (int k = 0; k < 2; k++) {
    const char *path = lua_pushfstring(L, "%s%s", name, endings[k]);
    int fd = pni_root_file(&rt->root, path, O_RDONLY);
    if (fd < 0) continue;
    pni_root_leave(&rt->root, fd);
    if (load_chunk(L, path, "t") != LUA_OK)
      return luaL_error(L, "error loading module '%s' from file '%s':\n\t%s", lua_tostring(L, 1), path,
                        lua_tostring(L, -1));
    lua_pushstring(L, path);
    return 2;
  }
  lua_pushfstring(L, "no file '%s.lua'\n\tno file '%s/init.lua'", name, name);
  return 1;
}

void pni_set_loaders(lua_State *L) {
  static const luaL_Reg functions[] = {{"loadfile", l_loadfile}, {"dofile", l_dofile}, {NULL, NULL}};
  bool granted = pni_runtime_of(L)->root.fd >= 0;
  for (const luaL_Reg *f = functions; f->name; f++) {
    if (granted)
      lua_pushcfunction(L, f->func);
    else
      lua_pushnil(L);
    lua_setfield(L, -2, f->name);
  }
}

/* ---- os ---- */

/* true, or nil, message, errno */
static int answer(lua_State *L, const char *path, int status) {
  if (status != 0) return refuse(L, path, errno);
  lua_pushboolean(L, 1);
  return 1;
}

static int l_remove(lua_State *L) {
  const char *path = check_path(L, 1);
  pni_runtime_poll(L, PNI_INTERVAL);
  return answer(L, path, pni_root_remove(&pni_runtime_of(L)->root, path));
}

static int l_rename(lua_State *L) {
  const char *from = check_path(L, 1), *to = check_path(L, 2);
  pni_runtime_poll(L, PNI_INTERVAL);
  return answer(L, from, pni_root_rename(&pni_runtime_of(L)->root, from, to));
}

static int l_tmpname(lua_State *L) {
  pni_runtime_poll(L, PNI_INTERVAL);
  int error = new_name(L);
  if (error)
    return luaL_error(L, "unable to generate a unique filename: %s", pni_root_reason(&pni_runtime_of(L)->root, error));
  return 1;
}

void pni_set_os_files(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"remove", l_remove}, {"rename", l_rename}, {"tmpname", l_tmpname}, {NULL, NULL}};
  if (pni_runtime_of(L)->root.fd >= 0) luaL_setfuncs(L, functions, 0);
}

/* ---- the library ---- */

static const luaL_Reg functions[] = {{"close", l_close},     {"input", l_input},   {"lines", l_lines},
                                     {"open", l_open},       {"output", l_output}, {"read", l_read},
                                     {"tmpfile", l_tmpfile}, {"write", l_write},   {NULL, NULL}};
static const luaL_Reg methods[] = {
    {"close", l_close}, {"lines", f_lines}, {"read", f_read}, {"write", f_write}, {NULL, NULL}};

int pni_open_io(lua_State *L) {
  lua_pushcfunction(L, luaopen_io); /* makes the class of files */
  lua_call(L, 0, 1);
  luaL_newlib(L, functions);
  lua_getfield(L, -2, "type");
  lua_setfield(L, -2, "type");
  lua_pushnil(L); /* stdin and stdout, which are the host's */
  lua_setfield(L, LUA_REGISTRYINDEX, "_IO_input");
  lua_pushnil(L);
  lua_setfield(L, LUA_REGISTRYINDEX, "_IO_output");
  luaL_getmetatable(L, LUA_FILEHANDLE);
  lua_getfield(L, -1, "__index");
  lua_getfield(L, -1, "read");
  lua_setfield(L, LUA_REGISTRYINDEX, "penumbra.runtime.read");
  luaL_setfuncs(L, methods, 0);
  lua_pop(L, 2);
  return 1;
}
