/* Handles of libraries, and the functions that only need an answer: table.h has them all, as generate.py made it. */
#include "device.h"

#define HANDLE_MAGIC 0x656c646e61682d73ull

Handle *new_handle(void) {
  Handle *h = calloc(1, sizeof *h);
  if (h) h->magic = HANDLE_MAGIC;
  return h;
}

/* Numbers that some library takes for handles point nowhere. */
static int is_handle(const void *h) { return (u64)h >= 65536 && (u64)h % 8 == 0 && ((const Handle *)h)->magic == HANDLE_MAGIC; }

Handle *handle_of(void *handle) {
  static __thread Handle nobody;
  Handle *h = handle;
  return is_handle(h) ? h : &nobody;
}

void drop_handle(void *handle) {
  Handle *h = handle;
  if (!is_handle(h)) return;
  h->magic = 0;
  free(h);
}

static status make(void **to) {
  start();
  if (!to) return INVALID_VALUE;
  *to = new_handle();
  return *to ? SUCCESS : OUT_OF_MEMORY;
}

static status drop(void *handle) {
  drop_handle(handle);
  return SUCCESS;
}

static status done(void) {
  work(0);
  return SUCCESS;
}

static status made_number(int *to) {
  static int numbers;
  if (!to) return INVALID_VALUE;
  *to = __atomic_add_fetch(&numbers, 1, __ATOMIC_RELAXED);
  return SUCCESS;
}

/* Arguments are named up to the last one that is written to; all that a table's function writes to are pointers and
 * integers, which an ABI passes apart from floating-point numbers. */
#define N0 void
#define N1 long a0
#define N2 N1, long a1
#define N3 N2, long a2
#define N4 N3, long a3
#define N5 N4, long a4
#define N6 N5, long a5
#define N7 N6, long a6
#define N8 N7, long a7
#define N9 N8, long a8
#define N10 N9, long a9
#define N11 N10, long a10
#define N12 N11, long a11
#define N13 N12, long a12
#define N14 N13, long a13
#define N15 N14, long a14
#define N16 N15, long a15
#define N17 N16, long a16
#define N18 N17, long a17
#define N19 N18, long a18
#define N20 N19, long a19
#define N21 N20, long a20
#define N22 N21, long a21
#define N23 N22, long a22
#define N24 N23, long a23

#define ANSWERS(kind, name, n, writes) \
  EXPORT status name(N##n); \
  EXPORT status name(N##n) { concern(kind, #name); writes return SUCCESS; }
#define INT(a) if (a) *(int *)a = 0;
#define LONG(a) if (a) *(int64_t *)a = 0;

/* Computes nothing that anyone can see. */
#define DONE(name) EXPORT status name(void); EXPORT status name(void) { return done(); }
/* Makes a handle, in the argument with this number. */
#define MAKES(name, n, a) EXPORT status name(N##n); EXPORT status name(N##n) { return make((void **)a); }
#define NUMBERS(name, n, a) EXPORT status name(N##n); EXPORT status name(N##n) { return made_number((int *)a); }
#define DROPS(name) EXPORT status name(void *a0); EXPORT status name(void *a0) { return drop(a0); }
/* Says how large a workspace has to be: nothing here, and the account says that it isn't counted. */
#define SIZES(name, n, writes) ANSWERS(UNCOUNTED, name, n, writes)
/* Reads something that this device doesn't keep: zero, and the account names it. */
#define READS(name, n, writes) ANSWERS(UNKNOWN, name, n, writes)
/* Can't be answered: the library's or the driver's code for "not supported", and the account names it. */
#define REFUSES(name, code) EXPORT status name(void); EXPORT status name(void) { concern(UNKNOWN, #name); return code; }

#pragma GCC diagnostic ignored "-Wunused-parameter"
#include "table.h"
