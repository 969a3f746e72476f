/*
** wire.c: hashes against published vectors, and what comes from the wire or from a connection file, hostile or not, by
** the files of the kernel that need neither sockets nor the library. spec/kernel_spec.lua compiles it with these under
** sanitisers.   wire [seed [rounds]]
*/
#include <cjson/cJSON.h>
#include <iconv.h>
#include <lauxlib.h>
#include <lua.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "../../src/kernel/kernel.h"

static int failures;

#define CHECK(condition, ...)                                                                                          \
  do {                                                                                                                 \
    if (!(condition)) {                                                                                                \
      failures++;                                                                                                      \
      printf("line %d: ", __LINE__);                                                                                   \
      printf(__VA_ARGS__);                                                                                             \
      printf("\n");                                                                                                    \
    }                                                                                                                  \
  } while (0)

static uint64_t stream = 1;

/* xorshift64* (Vigna 2016), below n */
static size_t below(size_t n) {
  stream ^= stream >> 12;
  stream ^= stream << 25;
  stream ^= stream >> 27;
  return (size_t)((stream * 2685821657736338717u) >> 33) % n;
}

/* ---- hashes ---- */

static void expect_hash(const char *what, const void *data, size_t size, size_t times, const char *want) {
  kernel_sha256 s;
  unsigned char digest[KERNEL_DIGEST];
  char text[2 * KERNEL_DIGEST + 1];
  kernel_sha256_begin(&s);
  for (size_t i = 0; i < times; i++) kernel_sha256_add(&s, data, size);
  kernel_sha256_end(&s, digest);
  kernel_hex(digest, text);
  CHECK(strcmp(text, want) == 0, "SHA-256 of %s: %s", what, text);
}

/* The examples of NIST that go with FIPS 180-4. */
static void hashes(void) {
  static const char two[] = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
  static const char four[] =
      "abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlm"
      "nopqrsmnopqrstnopqrstu";
  expect_hash("nothing", "", 0, 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  expect_hash("abc", "abc", 3, 1, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  expect_hash("448 bits", two, 56, 1, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  expect_hash("896 bits", four, 112, 1, "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
  expect_hash("a million a", "a", 1, 1000000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  char block[1000];
  memset(block, 'a', sizeof block);
  expect_hash("a million a by the thousand", block, 1000, 1000,
              "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

static void expect_hmac(int number, const char *key, size_t key_size, const char *data, size_t size, const char *want) {
  kernel_sha256 s;
  unsigned char digest[KERNEL_DIGEST];
  char text[2 * KERNEL_DIGEST + 1];
  kernel_hmac_begin(&s, key, key_size);
  kernel_sha256_add(&s, data, size);
  kernel_hmac_end(&s, key, key_size, digest);
  kernel_hex(digest, text);
  CHECK(strncmp(text, want, strlen(want)) == 0, "HMAC test case %d: %s", number, text);
}

/* RFC 4231, section 4; case 5 is cut to 128 bits there. */
static void hmacs(void) {
  char b0[20], aa[131], dd[50], counted[25], cd[50], c0[20];
  static const char seven[] =
      "This is a test using a larger than block-size key and a larger than block-size data. The "
      "key needs to be hashed before being used by the HMAC algorithm.";
  memset(b0, 0x0b, sizeof b0);
  memset(aa, 0xaa, sizeof aa);
  memset(dd, 0xdd, sizeof dd);
  memset(cd, 0xcd, sizeof cd);
  memset(c0, 0x0c, sizeof c0);
  for (int i = 0; i < 25; i++) counted[i] = (char)(i + 1);
  expect_hmac(1, b0, 20, "Hi There", 8, "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  expect_hmac(2, "Jefe", 4, "what do ya want for nothing?", 28,
              "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  expect_hmac(3, aa, 20, dd, 50, "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
  expect_hmac(4, counted, 25, cd, 50, "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b");
  expect_hmac(5, c0, 20, "Test With Truncation", 20, "a3b6167473100ee06e0c796c2955552b");
  expect_hmac(6, aa, 131, "Test Using Larger Than Block-Size Key - Hash Key First", 54,
              "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
  expect_hmac(7, aa, 131, seven, sizeof seven - 1, "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2");
}

static void comparison(void) {
  char a[64], b[64];
  for (int i = 0; i < 64; i++) a[i] = b[i] = (char)below(256);
  CHECK(kernel_same(a, b, 64), "equal bytes differ");
  for (int i = 0; i < 64; i++)
    for (int bit = 0; bit < 8; bit++) {
      b[i] = (char)(a[i] ^ 1 << bit);
      CHECK(!kernel_same(a, b, 64), "byte %d, bit %d is not seen", i, bit);
      b[i] = a[i];
    }
}

/* ---- messages ---- */

static void add_frame(kernel_frames *f, const char *data, size_t size) {
  if (f->n == KERNEL_FRAMES) return;
  char *copy = malloc(size + 1); /* of its very size: what is read behind it is seen */
  memcpy(copy, data, size);
  copy[size] = '\0';
  f->at[f->n].data = copy;
  f->at[f->n++].size = size;
}

static void add_text(kernel_frames *f, const char *text) { add_frame(f, text, strlen(text)); }

/* Frames of a message with these parts, signed with the key. */
static kernel_frames signed_message(const char *key, const char *const part[4], const size_t size[4]) {
  kernel_frames f = {0};
  char signature[2 * KERNEL_DIGEST + 1];
  kernel_sign(key, part, size, signature);
  add_text(&f, "identity");
  add_text(&f, "<IDS|MSG>");
  add_text(&f, signature);
  for (int i = 0; i < 4; i++) add_frame(&f, part[i], size[i]);
  return f;
}

static const char *read_one(kernel_seal *seal, const char *header, const char *content) {
  const char *part[4] = {header, "{}", "{}", content};
  size_t size[4] = {strlen(header), 2, 2, strlen(content)};
  kernel_frames f = signed_message(seal->key, part, size);
  kernel_message m;
  const char *wrong = kernel_message_read(seal, &f, &m);
  if (!wrong) {
    CHECK(m.identities == 1 && strcmp(m.header, header) == 0, "a message is not what was sent");
    kernel_message_free(&m);
  }
  return wrong;
}

static void expect_refusal(const char *wrong, const char *text) {
  CHECK(wrong && strstr(wrong, text), "refused with '%s', not '%s'", wrong ? wrong : "nothing", text);
}

static void messages(void) {
  kernel_seal seal = {.key = "a key", .lock = PTHREAD_MUTEX_INITIALIZER}, open = seal;
  open.key = "";
  char header[80];
  CHECK(!read_one(&seal, "{\"msg_type\": \"a\"}", "{}"), "a good message is refused");
  expect_refusal(read_one(&seal, "{\"msg_type\": \"a\"}", "{}"), "used before");
  CHECK(!read_one(&open, "{\"msg_type\": \"a\"}", "{}"), "a message without a key is refused");
  CHECK(!read_one(&open, "{\"msg_type\": \"a\"}", "{}"), "without a key a message may come twice");
  expect_refusal(read_one(&seal, "{\"msg_type\": 1}", "{}"), "msg_type");
  expect_refusal(read_one(&seal, "{\"msg_type\": \"a\"} x", "{}"), "JSON");
  expect_refusal(read_one(&seal, "{\"msg_type\": \"b\"}", "[]"), "JSON");
  /* refused as long as KERNEL_SEEN / 2 others have come, and for twice as many at most */
  for (int i = 0; i < KERNEL_SEEN / 2 - 3; i++) {
    snprintf(header, sizeof header, "{\"msg_type\": \"a\", \"id\": %d}", i);
    CHECK(!read_one(&seal, header, "{}"), "message %d is refused", i);
  }
  expect_refusal(read_one(&seal, "{\"msg_type\": \"a\"}", "{}"), "used before");
  for (int i = 0; i < KERNEL_SEEN; i++) {
    snprintf(header, sizeof header, "{\"msg_type\": \"a\", \"new\": %d}", i);
    CHECK(!read_one(&seal, header, "{}"), "new message %d is refused", i);
  }
  CHECK(!read_one(&seal, "{\"msg_type\": \"a\"}", "{}"), "nothing is forgotten");
  kernel_seal_free(&seal);
}

/* Every bit of a signed message matters. */
static void every_bit(void) {
  kernel_seal seal = {.key = "another key", .lock = PTHREAD_MUTEX_INITIALIZER};
  const char *part[4] = {"{\"msg_type\": \"execute_request\"}", "{}", "{}", "{\"code\": \"1\"}"};
  size_t size[4];
  for (int i = 0; i < 4; i++) size[i] = strlen(part[i]);
  for (int i = 2; i < 7; i++)
    for (size_t k = 0; k < (i == 2 ? 2 * KERNEL_DIGEST : size[i - 3]); k++)
      for (int bit = 0; bit < 8; bit++) {
        kernel_message m;
        kernel_frames f = signed_message(seal.key, part, size);
        f.at[i].data[k] = (char)(f.at[i].data[k] ^ 1 << bit);
        expect_refusal(kernel_message_read(&seal, &f, &m), "signature is wrong");
      }
  kernel_seal_free(&seal);
}

/* A text for a part: JSON that is damaged, huge, deep or none. */
static size_t hostile_text(char *out, size_t room, bool begins) {
  static const char *const seeds[] = {"{\"msg_type\": \"execute_request\", \"code\": \"x\"}",
                                      "{\"a\": [1, 2, {\"b\": null}], \"msg_type\": \"t\"}",
                                      "{\"n\": 1e999999, \"m\": -99999999999999999999999, \"msg_type\": \"t\"}",
                                      "{\"\\u00e4\": \"\\ud83d\\ude00\"}",
                                      "{\"cursor_pos\": -9223372036854775809, \"code\": \"\\ud800\"}",
                                      "{}",
                                      "[]",
                                      "null",
                                      "",
                                      "{\"msg_type\": \""};
  size_t n;
  if (below(8) == 0) { /* deep */
    for (n = 0; n + 8 < room && n < 1500 + below(2500); n++) out[n] = "[{"[below(40) == 0];
  } else {
    const char *seed = seeds[below(begins && below(4) ? 3 : sizeof seeds / sizeof *seeds)];
    n = strlen(seed);
    memcpy(out, seed, n);
  }
  for (size_t k = below(3) ? 0 : below(4); k > 0 && n > 0; k--) {
    size_t at = below(n);
    switch (below(4)) {
    case 0: out[at] = (char)below(256); break;
    case 1: out[at] = "[]{}\",:\\0-e\0\xff"[below(14)]; break;
    case 2: n = at; break;
    default:
      if (n + 1 < room) memmove(out + at + 1, out + at, n - at), n++;
    }
  }
  return n;
}

static int same_text(lua_State *L) {
  const cJSON *value = lua_touserdata(L, 1);
  kernel_push_json(L, value);
  cJSON *back = kernel_to_json(L, -1);
  cJSON_Delete(back);
  return 0;
}

/* Messages of damaged parts, half of them signed; what is accepted goes through Lua. */
static void hostile(lua_State *L, size_t rounds) {
  kernel_seal seal = {.key = "k", .lock = PTHREAD_MUTEX_INITIALIZER};
  static char text[4][8192];
  size_t accepted = 0, refused = 0;
  for (size_t round = 0; round < rounds; round++) {
    const char *part[4];
    size_t size[4];
    for (int i = 0; i < 4; i++) part[i] = text[i], size[i] = hostile_text(text[i], sizeof text[i], i == 0);
    kernel_frames f = signed_message(below(4) ? "k" : "another", part, size);
    while (below(6) == 0 && f.n > 0) {
      int i = (int)below((size_t)f.n);
      free(f.at[i].data);
      memmove(&f.at[i], &f.at[i + 1], (size_t)(f.n - i - 1) * sizeof f.at[0]);
      f.n--;
    }
    for (size_t k = below(10) ? 0 : below(70); k > 0; k--) add_text(&f, "<IDS|MSG>");
    kernel_message m;
    if (kernel_message_read(&seal, &f, &m)) {
      refused++;
      continue;
    }
    accepted++;
    lua_pushcfunction(L, same_text);
    lua_pushlightuserdata(L, m.content);
    if (lua_pcall(L, 1, 0, 0)) lua_pop(L, 1); /* too deep */
    kernel_message_free(&m);
  }
  kernel_seal_free(&seal);
  printf("%zu hostile messages: %zu accepted, %zu refused\n", rounds, accepted, refused);
  CHECK(accepted > rounds / 100 && refused > rounds / 10, "the mixture of messages tests nothing");
}

/* ---- values ---- */

static void values(lua_State *L) {
  static const char *const texts[] = {
      "{\"a\":1,\"b\":[1,2.5,\"x\",true,false],\"c\":{\"d\":\"\\u00e4\\ud83d\\ude00\\\"\\\\\\n\"}}",
      "[[1],[2,[3]]]",
      "{\"big\":9007199254740991,\"small\":-1e-300,\"empty\":{}}",
      "true",
      "\"text\"",
      "-12"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    cJSON *value = kernel_json(texts[i], strlen(texts[i]));
    kernel_push_json(L, value);
    cJSON *back = kernel_to_json(L, -1);
    CHECK(cJSON_Compare(value, back, 1), "%s comes back otherwise", texts[i]);
    lua_pop(L, 1);
    cJSON_Delete(value);
    cJSON_Delete(back);
  }
}

/* The C library's opinion, independent of ours: is this UTF-8? */
static bool is_utf8(char *text, size_t n) {
  static char out[65536];
  iconv_t converter = iconv_open("UTF-32LE", "UTF-8");
  char *to = out;
  size_t room = sizeof out, failed = iconv(converter, &text, &n, &to, &room);
  iconv_close(converter);
  return failed != (size_t)-1;
}

static void letters(size_t rounds) {
  static const char *const pieces[] = {"a", "\xc3\xa4", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\xef\xbf\xbf"};
  char bytes[64], whole[3 * 64 + 1], parts[3 * 64 + 2];
  size_t valid = 0;
  for (size_t round = 0; round < rounds; round++) {
    size_t n = 0;
    while (n < 50 && below(12)) {
      const char *piece = pieces[below(5)];
      n += (size_t)snprintf(bytes + n, sizeof bytes - n, "%s", piece);
    }
    if (below(2) && n > 0) bytes[below(n)] = (char)below(256);
    bytes[n] = '\0';
    bool good = is_utf8(bytes, n) && !memchr(bytes, 0, n);
    valid += good;
    CHECK(kernel_utf8(bytes, n, true, whole) == 0, "something is left at the end");
    CHECK(is_utf8(whole, strlen(whole)), "what comes out is no UTF-8");
    CHECK((strcmp(whole, bytes) == 0 && !memchr(bytes, 0, n)) == good, "what was good is changed");
    size_t cut = below(n + 1), rest = kernel_utf8(bytes, cut, false, parts), used = strlen(parts);
    CHECK(rest < 4 && is_utf8(parts, used), "half a letter comes out");
    kernel_utf8(bytes + cut - rest, n - cut + rest, true, parts + used);
    CHECK(strcmp(parts, whole) == 0, "in two parts it reads otherwise");
  }
  CHECK(valid > rounds / 4 && valid < rounds, "all letters are of one kind");
}

/* ---- connection files ---- */

static const char connection[] =
    "{\"shell_port\": 1, \"iopub_port\": 2, \"stdin_port\": 3, \"control_port\": 4, \"hb_port\": 65535, \"key\": "
    "\"k\", "
    "\"ip\": \"127.0.0.1\", \"transport\": \"tcp\", \"signature_scheme\": \"hmac-sha256\"}";

/* The file with `from` replaced by `to`. */
static void expect_connection(const char *from, const char *to, const char *want) {
  char text[1024];
  const char *at = strstr(connection, from);
  kernel_connection c;
  int n = snprintf(text, sizeof text, "%.*s%s%s", (int)(at - connection), connection, to, at + strlen(from));
  const char *wrong = kernel_connection_read(text, (size_t)n, &c);
  if (want)
    expect_refusal(wrong, want);
  else
    CHECK(!wrong, "%s is refused: %s", text, wrong);
}

static void connections(size_t rounds) {
  kernel_connection c;
  CHECK(!kernel_connection_read(connection, strlen(connection), &c), "a good file is refused");
  CHECK(strcmp(c.address[KERNEL_HEARTBEAT], "tcp://127.0.0.1:65535") == 0 && strcmp(c.key, "k") == 0, "it is misread");
  expect_connection("\"key\": \"k\"", "\"key\": \"\"", NULL);
  expect_connection("\"transport\": \"tcp\"", "\"transport\": \"ipc\"", NULL);
  expect_connection("\"transport\": \"tcp\"", "\"transport\": \"inproc\"", "transport");
  expect_connection("65535", "65536", "ports");
  expect_connection("65535", "-1", "ports");
  expect_connection("65535", "1e300", "ports");
  expect_connection("65535", "1.5", "ports");
  expect_connection("65535", "\"5\"", "ports");
  expect_connection("65535", "4", "same port");
  expect_connection("hmac-sha256", "hmac-md5", "signature_scheme");
  expect_connection("\"key\": \"k\", ", "", "key");
  expect_connection("127.0.0.1", "", "ip");
  char text[sizeof connection];
  for (size_t round = 0; round < rounds; round++) {
    memcpy(text, connection, sizeof text);
    for (size_t k = below(3); k < 3; k++) text[below(sizeof text - 1)] = (char)below(256);
    size_t n = below(3) ? sizeof text - 1 : below(sizeof text);
    char *copy = malloc(n + 1);
    memcpy(copy, text, n);
    copy[n] = '\0';
    kernel_connection_read(copy, n, &c);
    free(copy);
  }
}

int main(int argc, char **argv) {
  size_t rounds = argc > 2 ? (size_t)atol(argv[2]) : 5000;
  stream = argc > 1 ? (uint64_t)atol(argv[1]) * 2 + 1 : 1;
  lua_State *L = luaL_newstate();
  hashes();
  hmacs();
  comparison();
  messages();
  every_bit();
  values(L);
  letters(rounds);
  connections(rounds);
  hostile(L, rounds);
  lua_close(L);
  printf("%d failures\n", failures);
  return failures > 0;
}
