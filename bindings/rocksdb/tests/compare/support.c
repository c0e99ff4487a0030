/* What is drawn and what is printed. */
#include "compare.h"

static uint64_t state;

/* SplitMix64. */
static uint64_t next(void) {
  uint64_t mixed = state += 0x9e3779b97f4a7c15u;
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
  mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
  return mixed ^ (mixed >> 31);
}

void draw_from(uint64_t seed, uint64_t call) {
  state = seed;
  state = next() ^ call;
  state = next();
}

uint64_t draw(uint64_t below) { return next() % below; }

bool one_in(uint64_t times) { return draw(times) == 0; }

/* Few keys, so that calls meet. */
struct key draw_key(void) {
  static const char letters[] = {'a', 'b', 'c', '\0', '\xff'};
  struct key key = {.length = one_in(20) ? 0 : 1 + draw(3)};
  for (size_t at = 0; at < key.length; at++) {
    key.bytes[at] = letters[draw(one_in(8) ? sizeof letters : 3)];
  }
  return key;
}

struct value draw_value(void) {
  struct value value;
  value.length = one_in(40) ? draw(VALUE_MAX) : draw(12);
  for (size_t at = 0; at < value.length; at++) {
    value.bytes[at] = (char)('0' + draw(10));
  }
  return value;
}

int draw_family(void) {
  int family = (int)draw(FAMILIES);
  return now.families[family] != NULL && !one_in(2) ? family : 0;
}

const char *start(const char *bytes, size_t length) {
  return length == 0 && one_in(2) ? NULL : bytes;
}

void show(const char *bytes, size_t length) {
  uint64_t hash = 0;
  putchar('"');
  for (size_t at = 0; at < length; at++) {
    unsigned char byte = (unsigned char)bytes[at];
    hash = hash * 1099511628211u + byte + 1;
    if (at >= 40) continue;
    if (byte > ' ' && byte < 0x7f) putchar(byte);
    else printf("\\x%02x", byte);
  }
  putchar('"');
  if (length > 40) printf("(%zu, %llx)", length, (unsigned long long)hash);
}

void show_key(const struct key *key) {
  putchar(' ');
  show(key->bytes, key->length);
}

bool show_error(char *error) {
  if (error == NULL) {
    printf(" ok");
    return true;
  }
  /* The class. What follows is text for people. */
  printf(" %.*s", (int)strcspn(error, ":"), error);
  if (getenv("COMPARE_TEXTS") != NULL) fprintf(stderr, "%s\n", error);
  rocksdb_free(error);
  return false;
}

void show_value(char *value, size_t length, char *error) {
  if (error != NULL) {
    show_error(error);
  } else if (value == NULL) {
    printf(" none");
  } else {
    printf(" = ");
    show(value, length);
  }
  rocksdb_free(value);
}

static char *joined(const char *base, size_t base_length, const char *const *parts,
                    const size_t *lengths, int count, unsigned char *success, size_t *length) {
  *length = base_length;
  for (int at = 0; at < count; at++) *length += lengths[at] + 1;
  char *joined = malloc(*length + 1);
  char *end = joined;
  if (base_length > 0) memcpy(end, base, base_length);
  end += base_length;
  for (int at = 0; at < count; at++) {
    *end++ = ',';
    if (lengths[at] > 0) memcpy(end, parts[at], lengths[at]);
    end += lengths[at];
  }
  *success = 1;
  return joined;
}

/* Appends the operands, each with a comma before it. */
static char *full_merge(void *state_of, const char *key, size_t key_length, const char *base,
                        size_t base_length, const char *const *operands, const size_t *lengths,
                        int count, unsigned char *success, size_t *length) {
  (void)state_of, (void)key, (void)key_length;
  return joined(base, base == NULL ? 0 : base_length, operands, lengths, count, success, length);
}

/* The first operand has no comma: the full merge puts it there. */
static char *partial_merge(void *state_of, const char *key, size_t key_length,
                           const char *const *operands, const size_t *lengths, int count,
                           unsigned char *success, size_t *length) {
  (void)state_of, (void)key, (void)key_length;
  return joined(operands[0], lengths[0], operands + 1, lengths + 1, count - 1, success, length);
}

static void delete_value(void *state_of, const char *value, size_t length) {
  (void)state_of, (void)length;
  free((char *)value);
}

static void destroy(void *state_of) { (void)state_of; }

static const char *merge_name(void *state_of) {
  (void)state_of;
  return "joins";
}

rocksdb_mergeoperator_t *merge_operator(void) {
  return rocksdb_mergeoperator_create(NULL, destroy, full_merge, partial_merge, delete_value,
                                      merge_name);
}

static int larger_first(void *state_of, const char *one, size_t one_length, const char *other,
                        size_t other_length) {
  (void)state_of;
  size_t both = one_length < other_length ? one_length : other_length;
  int order = both == 0 ? 0 : memcmp(other, one, both);
  if (order != 0) return order;
  return (one_length < other_length) - (one_length > other_length);
}

static const char *comparator_name(void *state_of) {
  (void)state_of;
  return "larger first";
}

rocksdb_comparator_t *reverse_comparator(void) {
  return rocksdb_comparator_create(NULL, destroy, larger_first, comparator_name);
}
