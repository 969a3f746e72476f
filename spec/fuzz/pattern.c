/*
** pattern.c: fuzz target of the pattern matcher of runtimes against that of stock Lua. The input is a function, a
** pattern, a subject and a replacement; results and messages must be the same wherever the limits let ours end.
*/
#include <lauxlib.h>
#include <lualib.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../src/penumbra.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { TEXT = 1 << 16, LONGEST_PATTERN = 40, LONGEST_SUBJECT = 60 };

typedef struct {
  char text[TEXT];
  size_t n;
} sink;

static void collect(void *data, const char *text, size_t length) {
  sink *s = data;
  if (length > TEXT - 1 - s->n) length = TEXT - 1 - s->n;
  memcpy(s->text + s->n, text, length);
  s->n += length;
  s->text[s->n] = '\0';
}

static int print_to(lua_State *L) {
  size_t n;
  const char *text = luaL_tolstring(L, 1, &n);
  collect(lua_touserdata(L, lua_upvalueindex(1)), text, n);
  collect(lua_touserdata(L, lua_upvalueindex(1)), "\n", 1);
  return 0;
}

/* What both run: calls of the function, and a line of text for all that each gives. */
static const char calls[] =
    "local function show(...) local t = table.pack(...) for i = 1, t.n do t[i] = math.type(t[i]) and "
    "('%d'):format(t[i]) "
    "or tostring(t[i]):gsub('^.-:%d+: ', '') end print(table.concat(t, '|')) end "
    "local function all(init) local list = {} for a, b in string.gmatch(subject, pattern, init) do "
    "list[#list + 1] = tostring(a) .. ':' .. tostring(b) end return table.concat(list, ',') end "
    "local f = which % 6 "
    "if f == 0 then show(pcall(string.find, subject, pattern, init)) show(pcall(string.find, subject, pattern, init, "
    "true)) "
    "elseif f == 1 then show(pcall(string.match, subject, pattern, init)) "
    "elseif f == 2 then show(pcall(all, init)) "
    "elseif f == 3 then show(pcall(string.gsub, subject, pattern, text, init > 0 and init or nil)) "
    "elseif f == 4 then show(pcall(string.gsub, subject, pattern, {a = 'A', [text] = subject, b = false})) "
    "else show(pcall(string.gsub, subject, pattern, function(x, y) return y or x end)) end";

enum { INPUT = 128 };

/* The input, and behind it numbers that follow from it (xorshift, Marsaglia 2003): short inputs make long cases too. */
static void stretch(const uint8_t *data, size_t size, uint8_t out[INPUT]) {
  uint64_t x = 0x9E3779B97F4A7C15u;
  for (size_t i = 0; i < INPUT; i++) {
    if (i < size) x ^= data[i];
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    out[i] = i < size ? data[i] : (uint8_t)(x >> 24);
  }
}

/* Most bytes become what means something to a pattern. */
static void translate(uint8_t *p, size_t n, const char *letters, size_t count) {
  for (size_t i = 0; i < n; i++)
    if (p[i] < 240) p[i] = (uint8_t)letters[p[i] % count];
}

/* A Lua string of these bytes. */
static size_t quote(char *out, const uint8_t *p, size_t n) {
  size_t at = 0;
  out[at++] = '"';
  for (size_t i = 0; i < n; i++) at += (size_t)sprintf(out + at, "\\%03d", p[i]);
  out[at++] = '"';
  out[at] = '\0';
  return at;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static pn_runtime *rt;
  static lua_State *L;
  static sink ours, stock;
  if (!rt) {
    pn_runtime_config cfg = {
        .context = {.threads = 1}, .limits = {.instructions = 30000}, .output = collect, .output_data = &ours};
    if (pn_runtime_new(&cfg, &rt) != PN_OK || !(L = luaL_newstate())) abort();
    luaL_openlibs(L);
    lua_pushlightuserdata(L, &stock);
    lua_pushcclosure(L, print_to, 1);
    lua_setglobal(L, "print");
  }
  uint8_t input[INPUT];
  if (size < 4) return 0;
  stretch(data, size, input);
  data = input;
  size = INPUT;
  static char script[TEXT];
  uint8_t *p = input + 3;
  size_t left = size - 3, n = data[1] % LONGEST_PATTERN, at = 0;
  if (n > left) n = left;
  static const char of_patterns[] = "%%%()[]^$.*+-?aabbfAwsdxz19-", of_subjects[] = "aaabbb1 ()%A\0]x";
  translate(p, n, of_patterns, sizeof of_patterns - 1);
  translate(p + n, left - n, of_subjects, sizeof of_subjects - 1);
  at += (size_t)sprintf(script, "local which, init, pattern = %d, %d, ", data[0], (int8_t)data[2] / 4);
  at += quote(script + at, p, n);
  left -= n;
  p += n;
  size_t m = left > LONGEST_SUBJECT ? LONGEST_SUBJECT : left;
  at += (size_t)sprintf(script + at, " local subject = ");
  at += quote(script + at, p, m);
  at += (size_t)sprintf(script + at, " local text = ");
  at += quote(script + at, p + m, left - m > 16 ? 16 : left - m);
  snprintf(script + at, sizeof script - at, " %s", calls);

  ours.n = stock.n = 0;
  ours.text[0] = stock.text[0] = '\0';
  pn_status s = pn_runtime_run_string(rt, script, (size_t)-1, NULL);
  if (s == PN_LIMIT) return 0; /* stock Lua would go on for ever */
  if (s != PN_OK) {
    printf("%s: %s\n%s\n", pn_status_name(s), pn_runtime_message(rt), script);
    abort();
  }
  if (luaL_dostring(L, script) != LUA_OK) abort();
  lua_settop(L, 0);
  if (strcmp(ours.text, stock.text) != 0) {
    printf("stock: %sours:  %s%s\n", stock.text, ours.text, script);
    abort();
  }
  return 0;
}
