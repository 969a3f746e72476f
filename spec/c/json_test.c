/*
** json_test.c: JSON read token by token: its grammar wherever a piece of the file ends, and files made to take memory
** or time, which end at the limits of a script, as does a script that opens files without end.
*/
#define _GNU_SOURCE
#include <dirent.h>
#include <stdlib.h>
#include <time.h>
#include <zlib.h>
#include "../../src/file/json_reader.h"
#include "counted.h"
#include "file_fixture.h"

enum { MB = 1 << 20 };

/* ---- the grammar ---- */

/* What is read of a file: [ ] { } as they come, k:NAME a key, 't:TEXT' a text, numbers, n t f; "!" at a failure. */
static void tokens(pn_context *c, const char *path, bool lines, char *out, size_t room) {
  pni_source s;
  pni_json j;
  size_t n = 0;
  pni_json_kind kind = PNI_JSON_END;
  out[0] = '\0';
  if (pni_source_open(c, "test", path, &s) != PN_OK) return;
  if (pni_json_open(&s, INT64_MAX, lines, "is no JSON", &j) == PN_OK)
    while ((kind = pni_json_next(&j)) != PNI_JSON_END && n + 40 < room) {
      const char *plain = "?nft???[{}";
      if (kind == PNI_JSON_NUMBER)
        n += (size_t)snprintf(out + n, room - n, "%.17g ", j.number);
      else if (kind == PNI_JSON_TEXT || kind == PNI_JSON_KEY)
        n += (size_t)snprintf(out + n, room - n, "%c:%.20s ", kind == PNI_JSON_KEY ? 'k' : 't', j.text);
      else
        n += (size_t)snprintf(out + n, room - n, "%c", plain[kind]);
    }
  if (pni_failed(c)) snprintf(out + n, room - n, "!");
  pni_json_close(&j);
  pni_source_close(&s);
}

static void expect_tokens(pn_context *c, const char *text, size_t length, bool lines, const char *want) {
  char got[512];
  const char *path = in_folder("j");
  write_bytes(path, text, length);
  tokens(c, path, lines, got, sizeof got);
  if (!check_record(strcmp(got, want) == 0)) printf("%.60s: %s, want %s\n", text, got, want);
  if (pni_failed(c)) CHECK_FAIL(c, PN_FORMAT, "is no JSON: at byte");
  CHECK(unlink(path) == 0);
}

static const struct {
  const char *text, *want;
} values[] = {
    {"1", "1 "},
    {" -0.5e+2 ", "-50 "},
    {"\xef\xbb\xbf[]", "[}"},
    {"[1,[2,{}],\"\"]", "[1 [2 {}}t: }"},
    {"{\"a\":{\"b\":[null,true,false]},\"c\":1e3}", "{k:a {k:b [ntf}}k:c 1000 }"},
    {"\"\\u00e9\\n\\\"\\ud83d\\ude00\\/\"", "t:\xc3\xa9\n\"\xf0\x9f\x98\x80/ "},
    {"", "!"},
    {"01", "!"},
    {"1.", "!"},
    {".5", "!"},
    {"+1", "!"},
    {"1e", "!"},
    {"- 1", "!"},
    {"0x10", "0 !"},
    {"NaN", "!"},
    {"nul", "!"},
    {"[1,]", "[1 !"},
    {"[1 2]", "[1 !"},
    {"[1}", "[1 !"},
    {"{\"a\"}", "{!"},
    {"{\"a\":1,}", "{k:a 1 !"},
    {"{1:2}", "{!"},
    {"[", "[!"},
    {"]", "!"},
    {"1 2", "1 !"},
    {"\"a", "!"},
    {"\"a\nb\"", "!"},
    {"\"\\x\"", "!"},
    {"\"\\ud800\"", "!"},
    {"\"\\udc00\"", "!"},
    {"\"\\u12\"", "!"},
};

static void grammar(void) {
  pn_context *c = pn_context_new(NULL);
  char text[256], want[256];
  for (size_t i = 0; i < sizeof values / sizeof *values; i++)
    expect_tokens(c, values[i].text, strlen(values[i].text), false, values[i].want);
  expect_tokens(c, "[\"a\0b\"]", 7, false, "[!");
  expect_tokens(c, "\n1\n\n[NaN,2] \r\n\"x\"", 17, true, "1 [t: 2 }t:x ");
  expect_tokens(c, "[1,\n2]", 6, true, "[1 !");
  expect_tokens(c, "1 2\n", 4, true, "1 !");
  expect_tokens(c, "\n", 1, true, "");
  memset(text, '[', 70);
  memset(want, '[', 64);
  strcpy(want + 64, "!");
  write_bytes(in_folder("j"), text, 70);
  tokens(c, in_folder("j"), false, text, sizeof text);
  CHECK_STR(text, want);
  CHECK_FAIL(c, PN_FORMAT, "nested deeper than 64");
  CHECK(unlink(in_folder("j")) == 0);
  size_t before = pn_context_memory(c, NULL);
  CHECK_INT(before, 0);
  pn_context_close(c);
}

/* The same tokens wherever a piece ends. */
static void pieces(void) {
  static const char text[] = "{\"key\\u00e9\": [-12.5e-1, \"a\\nb\", true, null, {\"z\": [[]]}]}";
  static char file[PNI_FILE_CHUNK + 64];
  pn_context *c = pn_context_new(NULL);
  for (size_t k = 0; k < sizeof text; k++) {
    memset(file, ' ', sizeof file);
    memcpy(file + PNI_FILE_CHUNK - k, text, sizeof text - 1);
    expect_tokens(c, file, PNI_FILE_CHUNK - k + sizeof text - 1, false, "{k:key\xc3\xa9 [-1.25 t:a\nb tn{k:z [[}}}}}");
  }
  pn_context_close(c);
}

/* ---- scripts ---- */

static pn_runtime *open_runtime(pn_limits limits) {
  pn_runtime *rt = NULL;
  pn_runtime_config config = {
      .libraries = PN_LIBS_SAFE | PN_LIB_FILES, .limits = limits, .root = folder, .root_writable = 1};
  CHECK_INT(pn_runtime_new(&config, &rt), PN_OK);
  return rt;
}

static pn_status run(pn_runtime *rt, const char *script) {
  return pn_runtime_run_string(rt, script, (size_t)-1, "script");
}

static void expect(pn_runtime *rt, const char *script, pn_status want, const char *message) {
  pn_status got = run(rt, script);
  if (!check_record(got == want && strstr(pn_runtime_message(rt), message)))
    printf("%.70s...: %s \"%s\"\n", script, pn_status_name(got), pn_runtime_message(rt));
}

/* A file of `head`, `piece` over and over (gzipped: by zlib), and `tail`. */
static void write_pieces(const char *name, const char *head, const char *piece, int times, const char *tail) {
  gzFile f = gzopen(in_folder(name), ends_with(name, ".gz") ? "wb1" : "wbT");
  gzputs(f, head);
  for (int k = 0; k < times; k++) gzputs(f, piece);
  gzputs(f, tail);
  CHECK_INT(gzclose(f), Z_OK);
}

/* The same with a safetensors header's length in front. */
static void write_header(const char *name, const char *head, const char *piece, int times, const char *tail) {
  uint64_t n = strlen(head) + strlen(piece) * (size_t)times + strlen(tail);
  FILE *f = fopen(in_folder(name), "wb");
  for (int k = 0; k < 8; k++) fputc((int)(n >> 8 * k & 255), f);
  fputs(head, f);
  for (int k = 0; k < times; k++) fputs(piece, f);
  fputs(tail, f);
  CHECK(fclose(f) == 0);
}

/* Each takes many times the limit if it is read whole. */
static void bombs(void) {
  enum { LIMIT = 24 * MB };
  static const char *const names[] = {"lists", "nested", "text.gz", "keys", "blanks.gz", "lines", "s1", "s2"};
  write_pieces("lists", "[[]", ",[]", MB, "]");
  write_pieces("nested", "", "[[[[[[[[", MB / 4, "");
  write_pieces("text.gz", "\"", "abcdefghijklmnopqrstuvwxyz012345", MB, "\"");
  write_pieces("keys", "{\"\":[]", ",\"a\":{}", MB / 2, "}");
  write_pieces("blanks.gz", "", "                                ", MB / 2, "1");
  write_pieces("lines", "", "{}\n", MB, "");
  write_header("s1", "{\"__metadata__\":{\"\":\"\"", ",\"a\":\"b\"", MB / 2, "}}");
  write_header("s2", "{\"a\":{\"x\":[1", ",1", 2 * MB, "]}}");
  pn_runtime *rt = open_runtime((pn_limits){.memory = LIMIT});
  CHECK_INT(run(rt, "pn = require 'penumbra'"), PN_OK);
  long long start = counted_start() - (long long)pn_runtime_memory(rt, NULL);
  expect(rt, "pn.data.json 'lists'", PN_NOMEM, "not enough memory");
  expect(rt, "x, m, code = pn.data.json 'nested' assert(not x and code == 'format', m)", PN_OK, "");
  expect(rt, "assert(pn.data.json 'text.gz')", PN_SCRIPT, "out of memory");
  expect(rt, "x = assert(pn.data.json 'keys') assert(next(x.a) == nil)", PN_OK, "");
  expect(rt, "x = assert(pn.data.json 'blanks.gz') assert(x == 1)", PN_OK, "");
  expect(rt, "x = pn.data.json('lines', {lines = true})", PN_NOMEM, "not enough memory");
  expect(rt, "assert(pn.load 's1')", PN_SCRIPT, "out of memory");
  expect(rt, "x, m, code = pn.load 's2' assert(not x and code == 'format', m)", PN_OK, "");
  long long most = counted_peak() - start;
  if (!check_record(most < LIMIT + LIMIT / 8)) printf("%.1f MB were taken\n", (double)most / MB);
  pn_runtime_close(rt);
  for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
    struct timespec a, b;
    char script[128];
    snprintf(script, sizeof script, "local pn = require 'penumbra' repeat %s('%s') until false",
             names[k][0] == 's' ? "pn.load" : "pn.data.json", names[k]);
    rt = open_runtime((pn_limits){.seconds = 0.02});
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
    CHECK_INT(run(rt, script), PN_TIME);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b);
    double took = (double)(b.tv_sec - a.tv_sec) + 1e-9 * (double)(b.tv_nsec - a.tv_nsec);
    if (!check_record(took < 0.3)) printf("%s: %.2f s of processor\n", names[k], took);
    CHECK_INT(run(rt, "x = 1"), PN_OK); /* the next call is its own */
    pn_runtime_close(rt);
    CHECK(unlink(in_folder(names[k])) == 0);
  }
}

/* Headers that say a thing twice or hold what no name can be, and a name with all that must be escaped. */
static void headers(void) {
  static const char *const bad[][2] = {
      {"{\"a\":{\"dtype\":\"F64\",\"dtype\":\"F64\",\"shape\":[0],\"data_offsets\":[0,0]}}", "two dtypes"},
      {"{\"a\":{\"dtype\":\"F64\",\"shape\":[0],\"shape\":[0],\"data_offsets\":[0,0]}}", "two shapes"},
      {"{\"a\":{\"dtype\":\"F64\",\"shape\":[0],\"data_offsets\":[0,0],\"data_offsets\":[0,0]}}", "twice"},
      {"{\"a\\u0000b\":{\"dtype\":\"F64\",\"shape\":[0],\"data_offsets\":[0,0]}}", "zero byte"},
      {"{\"__metadata__\":{\"a\":\"x\\u0000\"}}", "zero byte"},
      {"{\"a\xff\":{\"dtype\":\"F64\",\"shape\":[0],\"data_offsets\":[0,0]}}", "not UTF-8"},
      {" {}", "no JSON object"},
      {"{} x", "no JSON object"},
      {"[]", "no JSON object"},
  };
  pn_context *c = pn_context_new(NULL);
  for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
    write_header("h", bad[k][0], "", 0, "");
    CHECK(!pn_load_safetensors(c, in_folder("h")));
    CHECK_FAIL(c, PN_FORMAT, bad[k][1]);
  }
  static const char name[] = "a\"\\/\b\f\n\r\t\x01\x7f\xc3\xa9";
  size_t mark = pn_scope_open(c);
  pn_archive *a = pn_archive_new(c), *b;
  CHECK_STATUS(c, pn_archive_add(c, a, name, pn_scalar(c, PN_FLOAT64, 7)), PN_OK);
  CHECK_STATUS(c, pn_archive_set_text(c, a, name, name), PN_OK);
  CHECK_STATUS(c, pn_save_safetensors(c, in_folder("h"), a), PN_OK);
  CHECK((b = pn_load_safetensors(c, in_folder("h"))) != NULL);
  CHECK(pn_archive_find(b, name) != NULL);
  CHECK_STR(pn_archive_text(b, name), name);
  pn_archive_free(a);
  pn_archive_free(b);
  pn_scope_close(c, mark);
  pn_context_close(c);
  CHECK(unlink(in_folder("h")) == 0);
}

/* ---- open files ---- */

static int descriptors(void) {
  int n = 0;
  DIR *d = opendir("/proc/self/fd");
  while (d && readdir(d)) n++;
  if (d) closedir(d);
  return n;
}

static void open_files(void) {
  int before = descriptors();
  long long start = counted_start();
  pn_runtime *rt = open_runtime((pn_limits){.memory = 64 * MB});
  CHECK_INT(run(rt, "pn = require 'penumbra' assert(pn.data.save_npy('a', pn.ones(3, 2)))"), PN_OK);
  expect(rt, "list = {} for k = 1, 5000 do list[k] = assert(pn.data.open 'a') end", PN_SCRIPT, "Too many open files");
  CHECK(descriptors() - before <= 64 + 1);
  expect(rt, "assert(#list == 64)", PN_OK, "");
  expect(rt, "assert(not io.open 'a') assert(not pn.data.npy 'a')", PN_OK, "");
  expect(rt,
         "for k = 1, 32 do list[k]:close() end files = {} "
         "for k = 1, 32 do files[k] = assert(io.open 'a') end assert(not io.open 'a') assert(not pn.data.open 'a')",
         PN_OK, "");
  /* those that nobody holds make room by themselves */
  expect(rt, "list, files = nil for k = 1, 300 do assert(pn.data.open 'a') assert(io.open 'a') end", PN_OK, "");
  /* whose finalisers are lost end with the runtime */
  expect(rt,
         "for k = 1, 20 do f = assert(io.open 'a') g = assert(pn.data.open 'a') end "
         "local m = getmetatable(f) m.__gc, m.__close = nil m = getmetatable(g) if type(m) == 'table' then m.__gc = "
         "nil end "
         "f, g = nil",
         PN_OK, "");
  pn_runtime_close(rt);
  CHECK_INT(descriptors(), before);
  CHECK(counted_start() - start < 65536);
  CHECK(unlink(in_folder("a")) == 0);
}

int main(void) {
  make_folder();
  grammar();
  pieces();
  bombs();
  headers();
  open_files();
  remove_folder();
  CHECK_DONE();
}
