/* What the environment says of the GPU, which devices the process sees, and the check that none is real. */
#define _GNU_SOURCE
#include "device.h"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

Gpu gpu;
int visible[MAX_DEVICES], n_visible, bool_read;
pthread_mutex_t books = PTHREAD_MUTEX_INITIALIZER;
__thread status last_error;
__thread int current;

/* From the compute capability: shared memory of a multiprocessor and of a block, threads and blocks of a multiprocessor. */
static const struct { int capability, per_sm, optin, threads, blocks; } capabilities[] = {
    {50, 65536, 49152, 2048, 32},    {60, 65536, 49152, 2048, 32},    {61, 98304, 49152, 2048, 32},
    {70, 98304, 98304, 2048, 32},    {75, 65536, 65536, 1024, 16},    {80, 167936, 166912, 2048, 32},
    {86, 102400, 101376, 1536, 16},  {87, 167936, 166912, 1536, 16},  {89, 102400, 101376, 1536, 24},
    {90, 233472, 232448, 2048, 32},  {100, 233472, 232448, 2048, 32}, {110, 233472, 232448, 1536, 24},
    {120, 102400, 101376, 1536, 24},
};

static u64 number(const char *text, u64 most) {
  char *end;
  unsigned long long n = strtoull(text, &end, 10);
  return end == text || n > most ? most : n;
}

static void setting(char *key, const char *value) {
  if (!strcmp(key, "name")) snprintf(gpu.name, sizeof gpu.name, "%s", value);
  else if (!strcmp(key, "cc")) sscanf(value, "%2d.%1d", &gpu.major, &gpu.minor);
  else if (!strcmp(key, "sms")) gpu.multiprocessors = (int)number(value, 4096);
  else if (!strcmp(key, "l2")) gpu.l2 = (int)number(value, 1u << 30);
  else if (!strcmp(key, "count")) gpu.count = (int)number(value, MAX_DEVICES);
  else if (!strcmp(key, "total")) gpu.total = number(value, LARGEST_TOTAL);
  else if (!strcmp(key, "context")) gpu.context = number(value, LARGEST_TOTAL);
  else if (!strcmp(key, "other")) gpu.other = number(value, LARGEST_TOTAL);
  else if (!strcmp(key, "lag")) gpu.lag = (long)number(value, 1u << 20);
}

static void read_gpu(void) {
  const char *text = getenv("VRAMSCOPE_SIMULATED_GPU");
  char copy[1024];
  if (!text || !*text) return; /* nothing said: no device */
  gpu = (Gpu){.major = 8, .multiprocessors = 108, .l2 = 41943040, .count = 1};
  snprintf(copy, sizeof copy, "%s", text);
  for (char *rest = copy, *pair; (pair = strsep(&rest, ";"));) {
    char *value = strchr(pair, '=');
    if (!value) continue;
    *value++ = 0;
    setting(pair, value);
  }
  for (size_t i = 0; i < sizeof capabilities / sizeof *capabilities; i++) {
    if (capabilities[i].capability > gpu.major * 10 + gpu.minor && i) break;
    gpu.shared_per_sm = capabilities[i].per_sm;
    gpu.shared_optin = capabilities[i].optin;
    gpu.threads_per_sm = capabilities[i].threads;
    gpu.blocks_per_sm = capabilities[i].blocks;
  }
}

/* CUDA_VISIBLE_DEVICES: the list ends at the first entry that is no device, as the driver reads it. */
static void read_visible(void) {
  const char *list = getenv("CUDA_VISIBLE_DEVICES");
  if (!list) {
    for (n_visible = 0; n_visible < gpu.count; n_visible++) visible[n_visible] = n_visible;
    return;
  }
  while (*list && n_visible < gpu.count) {
    char *end;
    long d = strtol(list, &end, 10);
    if (!strncmp(list, "GPU-", 4)) {
      const char *digits = strrchr(list, '-');
      d = digits ? strtol(digits + 1, &end, 16) : -1;
    }
    if (end == list || d < 0 || d >= gpu.count) break;
    visible[n_visible++] = (int)d;
    if (*end != ',') break;
    list = end + 1;
  }
}

static void begin(void) {
  read_gpu();
  read_visible();
  const char *b = getenv("VRAMSCOPE_SIMULATED_BOOL"), *log = getenv("VRAMSCOPE_SIMULATED_LOG");
  bool_read = b && *b == '1';
  if (log && *log && (journal = fopen(log, "ae"))) setvbuf(journal, NULL, _IOLBF, 1 << 16);
}

void start(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, begin);
}

/* ---- for Python, through ctypes.CDLL(None) ---- */
EXPORT int vramscope_simulated(void) { return 1; }
EXPORT void vramscope_simulated_set_bool(int value) { start(); bool_read = value != 0; }
EXPORT void vramscope_simulated_account(void) { start(); write_account(); }
EXPORT uint64_t vramscope_simulated_used(int device) { return device < 0 || device >= MAX_DEVICES ? 0 : devices[device].used; }
EXPORT uint64_t vramscope_simulated_peak(int device) { return device < 0 || device >= MAX_DEVICES ? 0 : devices[device].peak; }
EXPORT void vramscope_simulated_forget(uint64_t at, uint64_t bytes) {
  if (bytes <= LARGEST_TOTAL && at < DEVICE_END) value_forget(at, bytes);
}

/* ---- the libraries that the program has loaded ---- */
typedef struct { const char *name; char path[4096]; } Sought;

static int compare(struct dl_phdr_info *info, size_t size, void *with) {
  (void)size;
  Sought *sought = with;
  const char *name = strrchr(info->dlpi_name, '/');
  name = name ? name + 1 : info->dlpi_name;
  if (strncmp(name, sought->name, strlen(sought->name))) return 0;
  snprintf(sought->path, sizeof sought->path, "%s", info->dlpi_name);
  return 1;
}

void *genuine(const char *library, const char *name) {
  Sought sought = {library, ""};
  if (!dl_iterate_phdr(compare, &sought)) return NULL;
  void *handle = dlopen(sought.path, RTLD_LAZY | RTLD_NOLOAD);
  return handle ? dlsym(handle, name) : NULL;
}

int cuda_version(void) {
  static int version;
  if (version) return version;
  status (*ask)(int *) = (status(*)(int *))genuine("libcudart.so.", "cudaRuntimeGetVersion");
  if (!ask || ask(&version) || version < 11000) version = 0;
  return version ? version : 13000;
}

/* A program that has a real GPU at hand shall not take this one for it. */
__attribute__((constructor)) static void refuse_beside_real(void) {
  const char *wanted = getenv("VRAMSCOPE_SIMULATED_BESIDE_GPU");
  const char *real = NULL;
  Sought sought = {"libcuda.so", ""};
  if (wanted && *wanted == '1') return;
  if (!access("/dev/nvidia0", F_OK)) real = "/dev/nvidia0";
  else if (dl_iterate_phdr(compare, &sought)) {
    Dl_info own;
    char a[4096], b[4096];
    int same = dladdr((void *)start, &own) && realpath(own.dli_fname, a) && realpath(sought.path, b) && !strcmp(a, b);
    if (!same) real = sought.path;
  }
  if (!real) return;
  fprintf(stderr, "vramscope: the simulated GPU isn't for a machine that has a real one (%s)\n", real);
  _exit(2);
}

static void before_fork(void) { LOCK(); }
static void after_fork(void) { UNLOCK(); }
__attribute__((constructor)) static void keep_forks_whole(void) { pthread_atfork(before_fork, after_fork, after_fork); }
