/*
** file_hostile_test.c: damaged files. Every fixture is cut at every byte, has bytes changed at random (fixed
** seed), and is taken for each other format; the result is a tensor or a named error, nothing is left, and no
** more memory was taken than the file's size allows. Then files that were made to deceive.
*/
#include <dirent.h>
#include <zlib.h>
#include "file_fixture.h"

enum { FLIPS = 400, SLACK = 1 << 20 };

static pn_context *c;
static size_t baseline; /* bytes in use before a load */
static char victim[256];

/* Memory that a file of n bytes may cost: deflate expands 1032 times, integers eight times, copies twice. */
static size_t allowed(const char *kind, size_t n) {
  size_t expansion = strstr(kind, ".gz") || strstr(kind, "deflated") || strstr(kind, ".png") ? 1032 : 1;
  size_t numbers = strstr(kind, ".png") ? 3 * 8 : 1; /* of a byte: a palette of bits */
  return SLACK + n * expansion * numbers * 8 * 2;
}

/* Loads and throws away. true if it was a good file. Reports what must not be. */
static bool load(const char *kind, size_t n) {
  pn_context_set_memory_limit(c, baseline + allowed(kind, n));
  size_t mark = pn_scope_open(c);
  pn_archive *a = load_any(c, kind, victim);
  pn_status status = pn_context_status(c);
  bool good = a != NULL, sane = good == (status == PN_OK);
  sane = sane && (good || (strstr(pn_context_message(c), "load_") && status != PN_STATE && status != PN_CANCELLED));
  sane = sane && status != PN_NOMEM; /* what fits into the file fits into the limit */
  for (int64_t i = 0; i < pn_archive_count(a); i++) {
    double v;
    pn_tensor *t = pn_archive_tensor(a, i);
    size_t inner = pn_scope_open(c);
    sane = sane && pn_tensor_item(c, pn_sum(c, pn_cast(c, t, PN_FLOAT64), PN_ALL, 0), &v) == PN_OK; /* all readable */
    pn_scope_close(c, inner);
  }
  if (!sane) printf("%s of %zu bytes: %s \"%s\"\n", kind, n, pn_status_name(status), pn_context_message(c));
  CHECK(sane);
  pn_archive_free(a);
  pn_scope_close(c, mark);
  pn_context_clear_error(c);
  if (pn_context_objects(c) != 0 || pn_context_memory(c, NULL) > baseline) {
    printf("%s of %zu bytes: something is left\n", kind, n);
    CHECK(false);
    baseline = pn_context_memory(c, NULL);
  }
  return good;
}

static uint64_t state = 88172645463325252u;
static unsigned random_below(unsigned n) { /* xorshift64, Marsaglia 2003 */
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return (unsigned)(state >> 33) % n;
}

/* Makes the sums of a PNG file's chunks right again, so that what they hold is looked at. */
static void mend_sums(unsigned char *p, size_t n) {
  for (size_t at = 8, length; at + 12 <= n; at += 12 + length) {
    length = (size_t)p[at] << 24 | (size_t)p[at + 1] << 16 | (size_t)p[at + 2] << 8 | p[at + 3];
    if (length > n - at - 12) return;
    unsigned long sum = crc32(0, p + at + 4, (unsigned)length + 4);
    for (int k = 0; k < 4; k++) p[at + 8 + length + (size_t)k] = (unsigned char)(sum >> (24 - 8 * k));
  }
}

static void torture(const char *file) {
  static const char *const kinds[] = {".npy", ".npz", ".idx", ".safetensors", ".csv", ".png"};
  char path[320];
  size_t n = 0;
  snprintf(path, sizeof path, FIXTURES "%s", file);
  unsigned char *p = read_bytes(path, &n), *q = malloc(n + 16);
  CHECK(p && q);
  for (size_t k = 0; p && q && k < sizeof kinds / sizeof *kinds; k++) {
    write_bytes(victim, p, n);
    load(kinds[k], n * (strstr(file, ".gz") ? 1032 : 1));
  }
  size_t step = n > 2000 ? n / 2000 : 1;
  for (size_t cut = 0; p && cut < n; cut += step) {
    write_bytes(victim, p, cut);
    bool good = load(file, cut);
    if (good && !strstr(file, ".csv")) printf("%s cut to %zu bytes was taken for whole\n", file, cut);
    CHECK(!good || strstr(file, ".csv"));
  }
  for (int k = 0; p && q && n && k < FLIPS; k++) {
    memcpy(q, p, n);
    for (unsigned flips = 1 + random_below(3); flips; flips--) {
      static const unsigned char nasty[] = {0, 0xff, 0x80, 0x7f, '"', '9', '{', '-'};
      unsigned at = random_below((unsigned)(random_below(2) && n > 100 ? 100 : n)); /* headers more often */
      q[at] = (unsigned char)(random_below(2) ? nasty[random_below(8)] : q[at] ^ (1u << random_below(8)));
    }
    if (k % 4 && ends_with(file, ".png")) mend_sums(q, n);
    write_bytes(victim, q, n);
    load(file, n);
  }
  free(p);
  free(q);
}

static void all_fixtures(void) {
  DIR *d = opendir(FIXTURES);
  CHECK(d != NULL);
  int count = 0;
  for (struct dirent *e; d && (e = readdir(d));) {
    if (e->d_name[0] == '.' || ends_with(e->d_name, ".py") || ends_with(e->d_name, ".txt")) continue;
    torture(e->d_name);
    count++;
  }
  if (d) closedir(d);
  CHECK(count > 50);
}

/* ---- made to deceive ---- */

static void deceive(const char *kind, const void *p, size_t n, const char *words) {
  write_bytes(victim, p, n);
  size_t before, after;
  pn_context_set_memory_limit(c, 0);
  pn_context_memory(c, &before);
  CHECK(load_any(c, kind, victim) == NULL);
  if (!strstr(pn_context_message(c), words)) printf("%s: \"%s\"\n", words, pn_context_message(c));
  CHECK(strstr(pn_context_message(c), words) != NULL);
  pn_context_clear_error(c);
  pn_context_memory(c, &after);
  CHECK(after - before < SLACK || after < 4 * SLACK);
}

static void npy_with(const char *header, const char *words) {
  char buf[512] = "\x93NUMPY\x01";
  size_t n = strlen(header);
  buf[7] = 0;
  buf[8] = (char)n;
  buf[9] = 0;
  memcpy(buf + 10, header, n);
  memset(buf + 10 + n, 0, 16);
  deceive(".npy", buf, 10 + n + 16, words);
}

static void safetensors_with(const char *header, size_t data, const char *words) {
  char buf[2048] = {0};
  size_t n = strlen(header);
  buf[0] = (char)(n & 255);
  buf[1] = (char)(n >> 8);
  memcpy(buf + 8, header, n);
  deceive(".safetensors", buf, 8 + n + data, words);
}

static void huge_claims(void) {
  npy_with("{'descr': '<f8', 'fortran_order': False, 'shape': (1152921504606846976,), }", "is damaged");
  npy_with("{'descr': '<f8', 'fortran_order': False, 'shape': (4294967296, 4294967296), }", "is damaged");
  npy_with("{'descr': '<f8', 'fortran_order': True, 'shape': (1000000, 1000000, 1000000), }", "can hold only 16 bytes");
  npy_with("{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999999999999,), }", "no array description");
  npy_with("{'descr': '<f8', 'fortran_order': False, 'shape': (0, 1152921504606846976), }", "is damaged");
  npy_with("{'descr': '<f8', 'fortran_order': False, 'shape': (-1,), }", "no array description");
  npy_with("{'descr': '<f8', 'fortran_order': False, 'shape': (3,), }", "can hold only 16 bytes");
  npy_with("{'descr': '<f8', 'fortran_order': False, 'shape': (1,), }", "more bytes follow");
  npy_with("{'descr': '<f8', 'shape': (2,), }", "no array description");
  npy_with("{'descr': '<f8', 'descr': '<f8', 'fortran_order': False, 'shape': (2,), }", "no array description");
  npy_with("{'descr': '<f8', 'fortran_order': False, 'shape': (2,), } + f()", "no array description");
  static const unsigned char idx[] = {0,    0,    0x0e, 3,    0xff, 0xff, 0xff, 0xff,
                                      0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
  deceive(".idx", idx, sizeof idx, "can hold only 0 bytes");
  static const unsigned char axes[] = {0, 0, 8, 255, 0, 0, 0, 1};
  deceive(".idx", axes, sizeof axes, "255 axes");
  static const unsigned char length[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, '{', '}'};
  deceive(".safetensors", length, sizeof length, "claims a header");
  deceive(".npz", "PK\5\6\0\0\0\0\377\377\377\377\377\377\377\377\377\377\377\377\0\0", 22, "is damaged");
  deceive(".npz", "PK\5\6\0\0\0\0\1\0\1\0\377\377\377\177\0\0\0\0\0\0", 22, "does not fit");
}

static void bad_safetensors(void) {
  safetensors_with("{\"a\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[0,8]}}", 16, "belong to no tensor");
  safetensors_with("{\"a\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[8,16]}}", 16, "does not begin where");
  safetensors_with("{\"a\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[0,8]},"
                   "\"b\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[4,12]}}",
                   12, "'b' does not begin where");
  safetensors_with("{\"a\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[0,8]},"
                   "\"a\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[8,16]}}",
                   16, "'a' appears twice");
  safetensors_with("{\"a\":{\"dtype\":\"F64\",\"shape\":[2],\"data_offsets\":[0,8]}}", 16, "do not fit its shape");
  safetensors_with("{\"a\":{\"dtype\":\"F64\",\"shape\":[1e15,1e15],\"data_offsets\":[0,8]}}", 8, "is damaged");
  safetensors_with("{\"a\":{\"dtype\":\"F64\",\"shape\":[1.5],\"data_offsets\":[0,8]}}", 8, "no list of sizes");
  safetensors_with("{\"a\":{\"dtype\":\"F64\",\"shape\":[-1],\"data_offsets\":[0,8]}}", 8, "no list of sizes");
  safetensors_with("{\"a\":{\"dtype\":\"C64\",\"shape\":[1],\"data_offsets\":[0,8]}}", 8, "type 'C64'");
  safetensors_with("{\"a\":{\"dtype\":\"F64\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,8]}}", 8,
                   "more than 8");
  safetensors_with("{\"a\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[0]}}", 8, "no data_offsets");
  safetensors_with("{\"a\":{\"shape\":[1],\"data_offsets\":[0,8]}}", 8, "no dtype");
  safetensors_with("{\"a\":[]}", 8, "no description");
  safetensors_with("{\"__metadata__\":{\"k\":1}}", 0, "more than texts");
  safetensors_with("{\"__metadata__\":1}", 0, "no object");
  safetensors_with("{} x", 0, "no JSON object");
  safetensors_with("[]", 0, "no JSON object");
  safetensors_with("{\"\xff\":1}", 0, "not UTF-8");
  char deep[1900];
  memset(deep, '[', sizeof deep);
  memcpy(deep, "{\"a\":", 5);
  deep[sizeof deep - 1] = '\0';
  safetensors_with(deep, 0, "no description");
  memcpy(deep, "{\"a\":{\"b\":", 10);
  safetensors_with(deep, 0, "nested deeper than 64");
}

/* A packed file of a few KiB that unpacks to 256 MiB meets the memory limit. */
static void bomb(void) {
  const size_t size = (size_t)1 << 28;
  gzFile f = gzopen(victim, "wb9");
  static char zeros[1 << 16];
  memset(zeros, '1', sizeof zeros);
  for (size_t n = 0; f && n < size; n += sizeof zeros) gzwrite(f, zeros, sizeof zeros);
  CHECK(f && gzclose(f) == Z_OK);
  size_t peak;
  pn_context *limited = pn_context_new(&(pn_context_config){.memory_limit = 8 * SLACK});
  CHECK(pn_load_csv(limited, victim, NULL, NULL) == NULL);
  CHECK_INT(pn_context_status(limited), PN_NOMEM);
  pn_context_memory(limited, &peak);
  CHECK(peak <= 8 * SLACK);
  CHECK_INT(pn_context_objects(limited), 0);
  pn_context_close(limited);
  unlink(victim);
}

/* A directory that names one member again and again (a ZIP bomb without packing). */
static void overlapping_members(void) {
  size_t n;
  unsigned char *p = read_bytes(FIXTURES "stored.npz", &n), *q = calloc(1, 2 * n + 65536), *end = q;
  CHECK(p && q);
  size_t at = (size_t)p[n - 6] | (size_t)p[n - 5] << 8, name = p[at + 28], entry = 46 + name + p[at + 30] + p[at + 32];
  memcpy(end, p, at);
  end += at;
  for (int k = 0; k < 100; k++) {
    memcpy(end, p + at, entry);
    end[46] = (unsigned char)('0' + k); /* another name for the same bytes */
    end += entry;
  }
  memcpy(end, p + n - 22, 22);
  end[8] = end[10] = 100;
  size_t directory = 100 * entry;
  for (int k = 0; k < 4; k++) end[12 + k] = (unsigned char)(directory >> (8 * k));
  deceive(".npz", q, (size_t)(end + 22 - q), "members overlap");
  free(p);
  free(q);
}

/* Members beyond 32 bits: the ZIP64 records are read. The fixture's directory entry is rewritten with them. */
static void zip64(void) {
  size_t n;
  unsigned char *p = read_bytes(FIXTURES "no_members.npz", &n), q[22 + 56 + 20] = "PK\6\6";
  CHECK(p && n == 22);
  q[4] = 44; /* size of the rest of the record */
  memcpy(q + 56, "PK\6\7", 4);
  q[56 + 16] = 1;
  memcpy(q + 76, p, 22);
  memset(q + 84, 0xff, 12); /* counts, size, offset: see the other record */
  write_bytes(victim, q, sizeof q);
  pn_context_set_memory_limit(c, 0);
  pn_archive *a = pn_load_npz(c, victim);
  CHECK_STATUS(c, pn_context_status(c), PN_OK);
  CHECK(a && pn_archive_count(a) == 0);
  pn_archive_free(a);
  q[56 + 15] = 0x7f; /* the record lies nowhere */
  deceive(".npz", q, sizeof q, "is damaged");
  free(p);
}

int main(void) {
  c = pn_context_new(&(pn_context_config){.pool_limit = PN_NO_POOL, .threads = 1});
  make_folder();
  strcpy(victim, in_folder("victim"));
  pn_scope_close(c, pn_scope_open(c));
  size_t mark = pn_scope_open(c); /* the scope's own list exists before the baseline is taken */
  pn_scalar(c, PN_FLOAT64, 0);
  pn_scope_close(c, mark);
  baseline = pn_context_memory(c, NULL);
  all_fixtures();
  huge_claims();
  bad_safetensors();
  overlapping_members();
  zip64();
  bomb();
  unlink(victim);
  CHECK_INT(pn_context_objects(c), 0);
  remove_folder();
  pn_context_close(c);
  CHECK_DONE();
}
