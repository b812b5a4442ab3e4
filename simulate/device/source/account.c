/* The account of a run: peaks, refusals, and the calls and workspaces that nobody counted. */
#define _GNU_SOURCE
#include "device.h"

#include <unistd.h>

FILE *journal;

#define MOST_NAMES 512
typedef struct { const char *name; u64 calls; } Named;
static Named concerns[2][MOST_NAMES], convolutions[8];
static u64 unnamed; /* calls beyond the table */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

#define KEPT_REFUSALS 16
static struct { int device; u64 bytes, left; } refusals[KEPT_REFUSALS];
static unsigned n_refusals;

static void count(Named *table, int rows, const char *name) {
  pthread_mutex_lock(&mutex);
  int i = 0;
  while (i < rows && table[i].name && strcmp(table[i].name, name)) i++;
  if (i < rows) table[i].name = name, table[i].calls++;
  else unnamed++;
  pthread_mutex_unlock(&mutex);
}

void concern(Concern kind, const char *name) {
  start();
  count(concerns[kind], MOST_NAMES, name);
}

void convolution_seen(const char *kind) { count(convolutions, 8, kind); }

void refused(int device, u64 bytes, u64 left) {
  Device *d = &devices[device];
  d->refusals++;
  if (bytes > d->largest_refused) d->largest_refused = bytes;
  if (n_refusals < KEPT_REFUSALS) {
    refusals[n_refusals].device = device;
    refusals[n_refusals].bytes = bytes;
    refusals[n_refusals].left = left;
    n_refusals++;
  }
}

static void names(FILE *to, const char *key, const Named *table, int rows) {
  fprintf(to, ",\n \"%s\": {", key);
  for (int i = 0; i < rows && table[i].name; i++)
    fprintf(to, "%s\"%s\": %llu", i ? ", " : "", table[i].name, (unsigned long long)table[i].calls);
  fputc('}', to);
}

static void quoted(FILE *to, const char *text) {
  fputc('"', to);
  for (; *text; text++) {
    unsigned char c = (unsigned char)*text;
    if (c == '"' || c == '\\') fprintf(to, "\\%c", c);
    else if (c >= ' ') fputc(c, to);
  }
  fputc('"', to);
}

static int version_of(const char *library, const char *name, int by_pointer) {
  void *ask = genuine(library, name);
  int version = 0;
  if (!ask) return 0;
  if (by_pointer) return ((status(*)(int *))ask)(&version) ? 0 : version;
  return (int)((size_t(*)(void))ask)();
}

static void write_to(FILE *to) {
  fprintf(to, "{\"version\": 1, \"pid\": %d, \"gpu\": ", (int)getpid());
  quoted(to, gpu.name);
  fputs(",\n \"devices\": [", to);
  for (int d = 0; d < n_visible; d++)
    fprintf(to, "%s\n  {\"device\": %d, \"used\": %llu, \"peak\": %llu, \"total\": %llu, \"context\": %llu, \"other\": %llu, "
            "\"refused\": %llu, \"largest_refused\": %llu}",
            d ? "," : "", d, (unsigned long long)devices[d].used, (unsigned long long)devices[d].peak,
                (unsigned long long)gpu.total,
            (unsigned long long)gpu.context, (unsigned long long)gpu.other, (unsigned long long)devices[d].refusals,
            (unsigned long long)devices[d].largest_refused);
  fputs("],\n \"refused\": [", to);
  for (unsigned i = 0; i < n_refusals; i++)
    fprintf(to, "%s{\"device\": %d, \"bytes\": %llu, \"free\": %llu}", i ? ", " : "", refusals[i].device,
            (unsigned long long)refusals[i].bytes, (unsigned long long)refusals[i].left);
  fputc(']', to);
  names(to, "unknown_calls", concerns[UNKNOWN], MOST_NAMES);
  names(to, "workspaces_not_counted", concerns[UNCOUNTED], MOST_NAMES);
  names(to, "convolutions_not_counted", convolutions, 8);
  fprintf(to, ",\n \"calls_beyond_the_table\": %llu", (unsigned long long)unnamed);
  fprintf(to, ",\n \"versions\": {\"cuda\": %d, \"cublas\": %d, \"cudnn\": %d, \"nccl\": %d}}\n", cuda_version(),
          version_of("libcublasLt.so", "cublasLtGetVersion", 0), version_of("libcudnn.so", "cudnnGetVersion", 0),
          version_of("libnccl.so", "ncclGetVersion", 1));
}

static pid_t owner; /* children that fork and end without a device of their own don't write over it */
static int used(void) {
  for (int d = 0; d < MAX_DEVICES; d++)
    if (devices[d].active) return 1;
  return 0;
}

/* %p in the path becomes the number of the process. */
static int path_of_account(char *to, size_t room) {
  const char *path = getenv("VRAMSCOPE_SIMULATED_ACCOUNT");
  if (!path || !*path) return 0;
  const char *mark = strstr(path, "%p");
  int n = mark ? snprintf(to, room, "%.*s%d%s", (int)(mark - path), path, (int)getpid(), mark + 2)
               : snprintf(to, room, "%s", path);
  return n > 0 && (size_t)n < room;
}

void write_account(void) {
  char path[4096], part[4200];
  if (!path_of_account(path, sizeof path)) return;
  snprintf(part, sizeof part, "%s.%d", path, (int)getpid());
  FILE *to = fopen(part, "we");
  if (!to) return;
  write_to(to);
  if (fclose(to) || rename(part, path)) unlink(part);
}

__attribute__((constructor)) static void remember_owner(void) { owner = getpid(); }
__attribute__((destructor)) static void at_exit(void) {
  if (owner == getpid() && used()) write_account();
}
