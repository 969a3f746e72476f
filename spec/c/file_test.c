/*
** file_test.c: every fixture that NumPy, safetensors, idx2numpy, Pillow and Python wrote loads with its values; what is
** saved equals their bytes, or loads again; errors name what is wrong; failed saves leave the old file.
*/
#include <dirent.h>
#include <errno.h>
#include <locale.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include "file_fixture.h"

static pn_context *c;

/* ---- fixtures against expected.txt and expected_images.txt ---- */

static void compare(const char *file, const char *dtype, const char *shape, char *values, const pn_tensor *t) {
  char text[160] = "-";
  int at = 0;
  for (int i = 0; i < pn_tensor_ndim(t); i++)
    at += snprintf(text + at, sizeof text - (size_t)at, i ? "x%lld" : "%lld", (long long)pn_tensor_shape(t)[i]);
  CHECK_STR(text, shape);
  CHECK_STR(pn_dtype_name(pn_tensor_dtype(t)), dtype);
  const void *p = pn_tensor_data(t);
  bool same = p != NULL;
  for (int64_t i = 0; i < pn_tensor_numel(t) && same; i++) {
    char *end = values;
    if (pn_tensor_dtype(t) == PN_INT64) {
      same = ((const int64_t *)p)[i] == strtoll(values, &end, 10);
    } else {
      double want = strtod(values, &end);
      double got = pn_tensor_dtype(t) == PN_FLOAT64   ? ((const double *)p)[i]
                   : pn_tensor_dtype(t) == PN_FLOAT32 ? (double)((const float *)p)[i]
                                                      : ((const unsigned char *)p)[i];
      same = isnan(want) ? isnan(got) : got == want && !signbit(got) == !signbit(want);
    }
    if (!same) printf("%s: element %lld differs\n", file, (long long)i);
    same = same && end != values;
    values = end;
  }
  CHECK(same);
}

static void fixtures(const char *list) {
  size_t n;
  char *text = (char *)read_bytes(list, &n), *next;
  CHECK(text != NULL);
  if (!text) return;
  text[n] = '\0';
  for (char *line = text; *line; line = next) {
    char file[64], name[64], dtype[16], shape[64], path[128];
    int used = 0;
    next = strchr(line, '\n') + 1;
    next[-1] = '\0';
    CHECK_INT(sscanf(line, "%63s %63s %15s %63s%n", file, name, dtype, shape, &used), 4);
    snprintf(path, sizeof path, FIXTURES "%s", file);
    pn_archive *a = load_any(c, file, path);
    CHECK_STATUS(c, pn_context_status(c), PN_OK);
    pn_context_clear_error(c);
    pn_tensor *t = pn_archive_find(a, name);
    if (!t) printf("%s: no '%s'\n", file, name);
    CHECK(t != NULL);
    if (t) compare(file, dtype, shape, line + used, t);
    pn_archive_free(a);
  }
  free(text);
}

static void no_load(const char *kind, const char *path, pn_status status, const char *words) {
  pn_archive *a = load_any(c, kind, path);
  CHECK(a == NULL);
  CHECK_FAIL(c, status, words);
  pn_archive_free(a);
}

static void refused_fixtures(void) {
  no_load(".npy", FIXTURES "bad_complex.npy", PN_DTYPE, "'<c16'");
  no_load(".npy", FIXTURES "bad_string.npy", PN_DTYPE, "'<U2'");
  no_load(".npy", FIXTURES "bad_object.npy", PN_DTYPE, "'|O'");
  no_load(".npy", FIXTURES "bad_struct.npy", PN_DTYPE, "structured");
  no_load(".npy", FIXTURES "bad_u8.npy", PN_DOMAIN, "9223372036854775808");
  no_load(".npy", FIXTURES "bad_axes9.npy", PN_SHAPE, "9 axes");
  no_load(".npy", FIXTURES "all.safetensors", PN_FORMAT, "is no .npy file");
  no_load(".npz", FIXTURES "f8.npy", PN_FORMAT, "is no .npz file");
  no_load(".idx", FIXTURES "f8.npy", PN_FORMAT, "is no IDX file");
  no_load(".safetensors", FIXTURES "f8.npy", PN_FORMAT, "is no safetensors file");
  no_load(".npz", FIXTURES "gz.npy.gz", PN_FORMAT, "gzipped");
  static const struct {
    const char *file, *words;
  } image[] = {{"bad_interlaced.png", "interlaced"},
               {"bad_crc.png", "checksum"},
               {"bad_adler.png", "incorrect data check"},
               {"bad_filter.png", "unknown filter"},
               {"bad_short.png", "cut short"},
               {"bad_long.png", "more data follow"},
               {"bad_sizes.png", "claims 2147483647 x 2147483647 pixels"},
               {"bad_rows.png", "claims 100000 x 100000 pixels"},
               {"bad_zero.png", "sizes must be from 1"},
               {"bad_depth.png", "unknown kind of colour, depth"},
               {"bad_no_palette.png", "has no palette"},
               {"bad_palette.png", "palette is not one of 1 to 256"},
               {"bad_colour.png", "colour that its palette has not"},
               {"bad_chunk.png", "unknown kind stands before"},
               {"bad_two.png", "more data follow"},
               {"bad_first.png", "does not begin with IHDR"},
               {"bad_no_data.png", "unknown kind stands before"},
               {"bad_length.png", "longer than the file"},
               {"bad_value.pgm", "above the largest value"},
               {"bad_header.pgm", "header must be"},
               {"bad_most.pgm", "header must be"},
               {"bad_sizes.ppm", "can hold only 3 bytes"},
               {"bad_text.pgm", "is no picture"}};
  for (size_t k = 0; k < sizeof image / sizeof *image; k++) {
    char path[128];
    snprintf(path, sizeof path, FIXTURES "%s", image[k].file);
    no_load(image[k].file, path, PN_FORMAT, image[k].words);
  }
  no_load(".png", FIXTURES "gz.npy.gz", PN_FORMAT, "is no picture");
  size_t n = 0;
  unsigned char *p = read_bytes(FIXTURES "grey.png", &n); /* with a zero behind */
  if (p) p[n] = 0;
  if (p) write_bytes(in_folder("x.png"), p, n + 1);
  no_load(".png", in_folder("x.png"), PN_FORMAT, "more bytes follow");
  unlink(in_folder("x.png"));
  free(p);
  no_load(".npy", "no/such.npy", PN_IO, "load_npy: file 'no/such.npy' cannot be opened: No such file");
  no_load(".npy", ".", PN_IO, "must be a regular file");
  no_load(".csv", "/dev/zero", PN_IO, "must be a regular file");
}

static void metadata(void) {
  pn_archive *a = pn_load_safetensors(c, FIXTURES "all.safetensors");
  CHECK_INT(pn_archive_text_count(a), 1);
  CHECK_STR(pn_archive_text_key(a, 0), "made by");
  CHECK_STR(pn_archive_text(a, "made by"), "safetensors \xc3\xbc \"quoted\"");
  CHECK(pn_archive_text(a, "other") == NULL && pn_archive_text_key(a, 1) == NULL);
  CHECK_STATUS(c, pn_archive_set_text(c, a, "made by", "2"), PN_OK);
  CHECK_STR(pn_archive_text(a, "made by"), "2");
  CHECK_STATUS(c, pn_archive_add(c, a, "count", pn_archive_tensor(a, 0)), PN_DOMAIN);
  CHECK_FAIL(c, PN_DOMAIN, "'count' twice");
  pn_archive_free(a);
}

/* ---- saved files against the packages' bytes ---- */

static void same_bytes(const char *file, const char *path) {
  size_t n = 0, m = 0;
  unsigned char *want = read_bytes(path, &n), *got = read_bytes(file, &m);
  if (!want || !got || n != m || memcmp(want, got, n) != 0) printf("%s differs from what was saved\n", path);
  CHECK(want && got && n == m && memcmp(want, got, n) == 0);
  free(want);
  free(got);
  unlink(file);
}

static void saved_bytes(void) {
  static const char *const npy[] = {"f8", "f4", "i8", "b1", "scalar", "empty", "axes8"};
  static const char *const idx[] = {"u1", "i4", "f4", "f8"};
  char path[128];
  for (size_t k = 0; k < sizeof npy / sizeof *npy; k++) {
    snprintf(path, sizeof path, FIXTURES "%s.npy", npy[k]);
    CHECK_STATUS(c, pn_save_npy(c, in_folder("x"), pn_load_npy(c, path)), PN_OK);
    same_bytes(in_folder("x"), path);
  }
  for (size_t k = 0; k < sizeof idx / sizeof *idx; k++) {
    snprintf(path, sizeof path, FIXTURES "%s.idx", idx[k]);
    CHECK_STATUS(c, pn_save_idx(c, in_folder("x"), pn_load_idx(c, path)), PN_OK);
    same_bytes(in_folder("x"), path);
  }
  pn_archive *a = pn_load_safetensors(c, FIXTURES "plain.safetensors");
  CHECK_STATUS(c, pn_save_safetensors(c, in_folder("x"), a), PN_OK);
  same_bytes(in_folder("x"), FIXTURES "plain.safetensors");
  pn_archive_free(a);
}

/* ---- saved files load again ---- */

/* Equal bits, but NaN equals NaN. */
static bool equal(const pn_tensor *x, const pn_tensor *y) {
  if (!x || !y || pn_tensor_dtype(x) != pn_tensor_dtype(y) || pn_tensor_ndim(x) != pn_tensor_ndim(y)) return false;
  for (int i = 0; i < pn_tensor_ndim(x); i++)
    if (pn_tensor_shape(x)[i] != pn_tensor_shape(y)[i]) return false;
  const char *p = pn_tensor_data(x), *q = pn_tensor_data(y);
  return p && q && memcmp(p, q, (size_t)pn_tensor_numel(x) * pn_dtype_size(pn_tensor_dtype(x))) == 0;
}

static pn_archive *sample(void) {
  pn_archive *a = pn_archive_new(c);
  int64_t shape[] = {3, 50};
  pn_tensor *x = pn_randn(c, NULL, PN_FLOAT64, 2, shape);
  pn_archive_add(c, a, "x", x);
  pn_archive_add(c, a, "x transposed", pn_contiguous(c, pn_transpose(c, x, 0, 1)));
  pn_archive_add(c, a, "\xc3\xa4 \"quoted\"\n", pn_randn(c, NULL, PN_FLOAT32, 1, shape));
  pn_archive_add(c, a, "none", pn_zeros(c, PN_INT64, 2, (int64_t[]){0, 4}));
  pn_archive_add(c, a, "mask", pn_gt(c, x, pn_scalar(c, PN_FLOAT64, 0)));
  pn_archive_add(c, a, "scalar", pn_scalar(c, PN_INT64, -9e15));
  pn_archive_add(c, a, "large", pn_randn(c, NULL, PN_FLOAT64, 1, (int64_t[]){100000}));
  CHECK_STATUS(c, pn_archive_set_text(c, a, "k1", "v1 \"\t\xc3\xbc"), PN_OK);
  CHECK_STATUS(c, pn_archive_set_text(c, a, "k2", ""), PN_OK);
  return a;
}

static void check_archive(const pn_archive *a, pn_archive *b, const char *path) {
  CHECK_STATUS(c, pn_context_status(c), PN_OK);
  CHECK_INT(pn_archive_count(b), pn_archive_count(a));
  for (int64_t i = 0; i < pn_archive_count(a); i++)
    CHECK(equal(pn_archive_tensor(a, i), pn_archive_find(b, pn_archive_name(a, i))));
  pn_archive_free(b);
  CHECK(unlink(path) == 0);
}

static void round_trips(void) {
  pn_archive *a = sample();
  const char *path = in_folder("archive");
  CHECK_STATUS(c, pn_save_safetensors(c, path, a), PN_OK);
  pn_archive *b = pn_load_safetensors(c, path);
  CHECK_STR(pn_archive_text(b, "k1"), "v1 \"\t\xc3\xbc");
  CHECK_STR(pn_archive_text(b, "k2"), "");
  check_archive(a, b, path);
  for (int compressed = 0; compressed < 2; compressed++) {
    CHECK_STATUS(c, pn_save_npz(c, path, a, compressed), PN_OK);
    check_archive(a, pn_load_npz(c, path), path);
  }
  pn_archive *none = pn_archive_new(c);
  CHECK_STATUS(c, pn_save_safetensors(c, path, none), PN_OK);
  check_archive(none, pn_load_safetensors(c, path), path);
  CHECK_STATUS(c, pn_save_npz(c, path, none, 0), PN_OK);
  check_archive(none, pn_load_npz(c, path), path);
  pn_archive_free(none);
  for (int64_t i = 0; i < pn_archive_count(a); i++) {
    pn_tensor *t = pn_archive_tensor(a, i);
    path = in_folder("one.npy.gz");
    CHECK_STATUS(c, pn_save_npy(c, path, t), PN_OK);
    CHECK(equal(t, pn_load_npy(c, path)));
    unlink(path);
    if (pn_tensor_ndim(t) != 2 || pn_tensor_dtype(t) == PN_BOOL) continue;
    path = in_folder("one.csv.gz");
    static const char *const names[] = {"a", "b\"", " c,;"};
    pn_csv_options o = {.dtype = pn_tensor_dtype(t), .header = 1};
    pn_names *list = NULL;
    pn_tensor *narrow = pn_contiguous(c, pn_slice(c, t, 1, 0, 3, 1));
    CHECK_STATUS(c, pn_save_csv(c, path, narrow, ';', names), PN_OK);
    CHECK(equal(narrow, pn_load_csv(c, path, &o, &list)));
    CHECK_INT(pn_names_count(list), 3);
    for (int k = 0; k < 3; k++) CHECK_STR(pn_names_at(list, k), names[k]);
    pn_names_free(list);
    unlink(path);
  }
  pn_tensor *view = pn_transpose(c, pn_archive_find(a, "x"), 0, 1); /* strided */
  CHECK_STATUS(c, pn_save_npy(c, in_folder("v"), view), PN_OK);
  CHECK(equal(pn_archive_find(a, "x transposed"), pn_load_npy(c, in_folder("v"))));
  unlink(in_folder("v"));
  pn_archive_free(a);
}

/* float32 is the nearest to float64, and nothing else is a type of pictures. */
static void image_types(void) {
  static const char *const file[] = {FIXTURES "filters_sixteen.png", FIXTURES "palette.png", FIXTURES "hundred.pgm"};
  for (int k = 0; k < 3; k++) {
    pn_tensor *wide = pn_load_image(c, file[k], PN_FLOAT64), *t = pn_load_image(c, file[k], PN_FLOAT32);
    CHECK(t && equal(pn_cast(c, wide, PN_FLOAT32), t));
  }
  CHECK(pn_load_image(c, file[0], PN_INT64) == NULL);
  CHECK_FAIL(c, PN_DTYPE, "load_image: dtype must be float64 or float32");
}

static void idx_types(void) {
  const char *path = in_folder("x.idx.gz");
  int64_t values[] = {-1, 300, 2147483647}, n = 3;
  pn_tensor *t = pn_from_data(c, PN_INT64, 1, &n, values);
  CHECK_STATUS(c, pn_save_idx(c, path, t), PN_OK);
  CHECK(equal(t, pn_load_idx(c, path)));
  pn_tensor *f = pn_load_idx_as(c, path, PN_FLOAT32);
  CHECK(equal(pn_cast(c, t, PN_FLOAT32), f));
  CHECK(equal(pn_cast(c, t, PN_FLOAT64), pn_load_idx_as(c, path, PN_FLOAT64)));
  CHECK(equal(pn_cast(c, pn_load_idx(c, FIXTURES "f8.idx"), PN_FLOAT32),
              pn_load_idx_as(c, FIXTURES "f8.idx", PN_FLOAT32)));
  values[0] = INT64_MAX;
  CHECK_STATUS(c, pn_save_idx(c, path, pn_from_data(c, PN_INT64, 1, &n, values)), PN_DOMAIN);
  CHECK_FAIL(c, PN_DOMAIN, "32 bits");
  unlink(path);
}

/* ---- CSV: errors name the place ---- */

static void no_csv(const char *text, const pn_csv_options *o, pn_status status, const char *words) {
  const char *path = in_folder("bad.csv");
  write_bytes(path, text, strlen(text));
  CHECK(pn_load_csv(c, path, o, NULL) == NULL);
  CHECK_FAIL(c, status, words);
  unlink(path);
}

static void csv_errors(void) {
  pn_csv_options whole = {.dtype = PN_INT64}, plain = {.header = -1}, named = {.num_columns = 1}, at = named;
  static const char *const name[] = {"z"};
  static const int64_t position[] = {2};
  named.column_names = name;
  at.columns = position;
  no_csv("a,b\n1,2\n3,x\n", NULL, PN_FORMAT, "line 3, column 2 must be a number, got 'x'");
  no_csv("a,b\r\n\r\n1,2\r\n3\r\n", NULL, PN_FORMAT, "line 4 has 1 columns, the first line has 2");
  no_csv("1,2\n3,4,5\n", NULL, PN_FORMAT, "line 2 has 3 columns");
  no_csv("a,b\n1,\"2\n3,4\n", NULL, PN_FORMAT, "line 2, column 2: the quote is never closed");
  no_csv("a,b\n1,\"2\"3\n", NULL, PN_FORMAT, "line 2, column 2: text follows");
  no_csv("a,b\n\"1\n\",2\nx,1\n", NULL, PN_FORMAT, "line 2, column 1");
  no_csv("a,b\n1,2\n", &plain, PN_FORMAT, "line 1, column 1 must be a number, got 'a'");
  no_csv("a,b\n1,2.5\n", &whole, PN_FORMAT, "line 2, column 2 must be a whole number, got '2.5'");
  no_csv("a,b\n1,\n", &whole, PN_FORMAT, "line 2, column 2 must be a whole number");
  no_csv("a,b\n1,0x10\n", NULL, PN_FORMAT, "got '0x10'");
  no_csv("a,b\n1,1e\n", NULL, PN_FORMAT, "got '1e'");
  no_csv("a;b\n1;2,5\n", NULL, PN_FORMAT, "got '2,5'");
  no_csv("a,b\r1,2\r\r3,x\r", NULL, PN_FORMAT, "line 4, column 2 must be a number, got 'x'");
  no_csv("1,b\n1,2\n", NULL, PN_FORMAT, "line 1, column 2 is 'b' over a number");
  no_csv("", NULL, PN_FORMAT, "holds no data");
  no_csv("\n \r\n\n", NULL, PN_FORMAT, "holds no data");
  no_csv("a,b\n1,2\n", &named, PN_DOMAIN, "has no column 'z'");
  no_csv("1,2\n", &named, PN_DOMAIN, "has no header");
  no_csv("1,2\n", &at, PN_DOMAIN, "none at position 2");
  whole.dtype = PN_BOOL;
  no_csv("1,2\n", &whole, PN_DTYPE, "dtype must be");
  plain.delimiter = '.';
  no_csv("1,2\n", &plain, PN_DOMAIN, "delimiter must not be");
}

static void csv_options(void) {
  const char *path = in_folder("o.csv");
  const char text[] = "id, name ,v\n-9223372036854775808,x,-1\n9223372036854775807,y,?\n";
  static const char *const names[] = {"v", "id"};
  static const int64_t positions[] = {-1, 0, 0}, first = 0;
  write_bytes(path, text, sizeof text - 1);
  pn_csv_options by_name = {.num_columns = 2, .column_names = names, .missing = "-1"};
  pn_names *list = NULL;
  const double *p = pn_tensor_data(pn_load_csv(c, path, &by_name, &list));
  CHECK(p && isnan(p[0]) && p[1] == -0x1p63 && isnan(p[2]) && p[3] == 0x1p63);
  CHECK_STR(pn_names_at(list, 0), "v");
  CHECK_STR(pn_names_at(list, 1), "id");
  pn_names_free(list);
  pn_csv_options at = {.num_columns = 3, .columns = positions, .dtype = PN_FLOAT32};
  const float *q = pn_tensor_data(pn_load_csv(c, path, &at, NULL));
  CHECK(q && q[0] == -1 && q[1] == -0x1p63f && q[2] == -0x1p63f);
  pn_csv_options whole = {.num_columns = 1, .columns = &first, .dtype = PN_INT64};
  const int64_t *w = pn_tensor_data(pn_load_csv(c, path, &whole, NULL));
  CHECK(w && w[0] == INT64_MIN && w[1] == INT64_MAX);
  unlink(path);
}

/* A host's locale changes neither reading nor writing. */
static void locales(void) {
  static const char *const comma[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE", "nl_NL.UTF-8"};
  bool set = false;
  for (size_t k = 0; k < 4 && !set; k++) set = setlocale(LC_NUMERIC, comma[k]) != NULL;
  pn_tensor *t = pn_load_csv(c, FIXTURES "digits.csv", NULL, NULL);
  const char *path = in_folder("l.csv");
  CHECK_STATUS(c, pn_save_csv(c, path, t, 0, NULL), PN_OK);
  pn_archive *a = pn_archive_new(c);
  pn_archive_add(c, a, "x", t);
  CHECK_STATUS(c, pn_save_safetensors(c, in_folder("l.safetensors"), a), PN_OK);
  setlocale(LC_NUMERIC, "C");
  CHECK(equal(t, pn_load_csv(c, FIXTURES "digits.csv", NULL, NULL)));
  CHECK(equal(t, pn_load_csv(c, path, NULL, NULL)));
  pn_archive_free(a);
  a = pn_load_safetensors(c, in_folder("l.safetensors"));
  CHECK(equal(t, pn_archive_find(a, "x")));
  pn_archive_free(a);
  unlink(path);
  unlink(in_folder("l.safetensors"));
}

/* ---- saves that fail ---- */

static int files_in_folder(void) {
  DIR *d = opendir(folder);
  int n = 0;
  for (struct dirent *e; d && (e = readdir(d));) n += e->d_name[0] != '.';
  if (d) closedir(d);
  return n;
}

typedef pn_status (*saver)(const char *path, pn_archive *a);
static pn_status by_npy(const char *path, pn_archive *a) { return pn_save_npy(c, path, pn_archive_find(a, "large")); }
static pn_status by_npz(const char *path, pn_archive *a) { return pn_save_npz(c, path, a, 0); }
static pn_status by_packed(const char *path, pn_archive *a) { return pn_save_npz(c, path, a, 1); }
static pn_status by_idx(const char *path, pn_archive *a) { return pn_save_idx(c, path, pn_archive_find(a, "large")); }
static pn_status by_safetensors(const char *path, pn_archive *a) { return pn_save_safetensors(c, path, a); }
static pn_status by_csv(const char *path, pn_archive *a) {
  return pn_save_csv(c, path, pn_archive_find(a, "large"), 0, NULL);
}

static void must_fail(saver save, const char *path, pn_archive *a, const char *words) {
  CHECK_STATUS(c, save(path, a), PN_IO);
  CHECK_FAIL(c, PN_IO, words);
}

static void old_file_kept(saver save, pn_archive *a) {
  const char *path = in_folder("kept");
  struct stat st;
  write_bytes(path, "old", 3);
  chmod(path, 0640);
  /* the disk is full in the middle of the data: no file may grow beyond 64 KiB */
  struct rlimit before, limit;
  getrlimit(RLIMIT_FSIZE, &before);
  limit = before;
  limit.rlim_cur = 65536;
  void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &limit);
  must_fail(save, path, a, "cannot be written: ");
  setrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, handler);
  pn_context_cancel(c);
  CHECK_STATUS(c, save(path, a), PN_CANCELLED);
  pn_context_clear_error(c);
  pn_context_uncancel(c);
  size_t n;
  char *old = (char *)read_bytes(path, &n);
  CHECK(old && n == 3 && memcmp(old, "old", 3) == 0);
  free(old);
  CHECK_INT(files_in_folder(), 1);
  CHECK_STATUS(c, save(path, a), PN_OK);
  CHECK(stat(path, &st) == 0 && st.st_size > 65536 && (st.st_mode & 0777) == 0640);
  unlink(path);
}

static void failing_saves(void) {
  static const saver savers[] = {by_npy, by_npz, by_packed, by_idx, by_safetensors, by_csv};
  pn_archive *a = sample();
  for (size_t k = 0; k < sizeof savers / sizeof *savers; k++) {
    must_fail(savers[k], in_folder("none/file"), a, "cannot be written: No such file or directory");
    must_fail(savers[k], folder, a, "cannot be written: Is a directory");
    must_fail(savers[k], FIXTURES "make.py/file", a, "cannot be written: Not a directory");
    if (access("/dev/full", W_OK) == 0) must_fail(savers[k], "/dev/full", a, "No space left on device");
    old_file_kept(savers[k], a);
  }
  if (geteuid() != 0) { /* permissions do not hold the superuser */
    write_bytes(in_folder("locked"), "old", 3);
    chmod(in_folder("locked"), 0400);
    must_fail(by_npy, in_folder("locked"), a, "Permission denied");
    unlink(in_folder("locked"));
    chmod(folder, 0500);
    must_fail(by_npy, in_folder("new"), a, "Permission denied");
    chmod(folder, 0700);
  }
  CHECK_INT(files_in_folder(), 0);
  pn_archive_free(a);
}

static void links_and_devices(void) {
  pn_tensor *t = pn_load_npy(c, FIXTURES "f8.npy");
  write_bytes(in_folder("real"), "old", 3);
  CHECK(symlink("real", in_folder("link")) == 0);
  CHECK_STATUS(c, pn_save_npy(c, in_folder("link"), t), PN_OK);
  struct stat st;
  CHECK(lstat(in_folder("link"), &st) == 0 && S_ISLNK(st.st_mode));
  unlink(in_folder("link"));
  same_bytes(in_folder("real"), FIXTURES "f8.npy");
  if (access("/dev/null", W_OK) == 0) {
    CHECK_STATUS(c, pn_save_npy(c, "/dev/null", t), PN_OK);
    CHECK(stat("/dev/null", &st) == 0 && S_ISCHR(st.st_mode));
  }
}

static void misuse(void) {
  pn_archive *a = pn_archive_new(c);
  pn_tensor *t = pn_scalar(c, PN_FLOAT64, 1);
  CHECK_STATUS(c, pn_save_csv(c, in_folder("x"), t, 0, NULL), PN_SHAPE);
  CHECK_FAIL(c, PN_SHAPE, "1 or 2 axes, got 0");
  CHECK_STATUS(c, pn_archive_add(c, a, "__metadata__", t), PN_OK);
  CHECK_STATUS(c, pn_save_safetensors(c, in_folder("x"), a), PN_DOMAIN);
  CHECK_FAIL(c, PN_DOMAIN, "not __metadata__");
  pn_archive_free(a);
  a = pn_archive_new(c);
  CHECK_STATUS(c, pn_archive_add(c, a, "\xff", t), PN_OK);
  CHECK_STATUS(c, pn_save_safetensors(c, in_folder("x"), a), PN_DOMAIN);
  CHECK_FAIL(c, PN_DOMAIN, "must be UTF-8");
  pn_archive_free(a);
  CHECK(pn_load_npy(c, NULL) == NULL);
  CHECK_FAIL(c, PN_STATE, "path must not be NULL");
  CHECK_STATUS(c, pn_save_npy(c, in_folder("x"), pn_load_npy(c, "none")), PN_IO); /* the first cause stays */
  CHECK_FAIL(c, PN_IO, "load_npy: file 'none'");
  CHECK(pn_archive_count(NULL) == 0 && pn_names_count(NULL) == 0 && !pn_archive_find(NULL, "x"));
  pn_archive_free(NULL);
  pn_names_free(NULL);
}

int main(void) {
  c = pn_context_new(NULL);
  make_folder();
  size_t mark = pn_scope_open(c);
  fixtures(FIXTURES "expected.txt");
  fixtures(FIXTURES "expected_images.txt");
  image_types();
  refused_fixtures();
  metadata();
  saved_bytes();
  round_trips();
  idx_types();
  csv_errors();
  csv_options();
  locales();
  failing_saves();
  links_and_devices();
  misuse();
  pn_scope_close(c, mark);
  CHECK_INT(pn_context_objects(c), 0);
  remove_folder();
  pn_context_close(c);
  CHECK_DONE();
}
