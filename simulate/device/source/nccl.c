/* NCCL: every collective is over at once. What a rank remembers of its own values, the others are taken to have, too. */
#include "device.h"

typedef struct { u64 magic; int ranks, rank; } Communicator;
typedef struct { char bytes[128]; } Id;
#define NCCL_MAGIC 0x6c63636e2d736d76ull
enum { NCCL_INVALID_ARGUMENT = 4, NCCL_SYSTEM_ERROR = 2, MOST_RANKS = 1 << 20 };

static size_t width(int type) {
  static const unsigned char bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  return type >= 0 && type < (int)sizeof bytes ? bytes[type] : 1;
}

static int ranks_of(const Communicator *c) { return c && c->magic == NCCL_MAGIC ? c->ranks : 1; }

static status join(Communicator **to, int ranks, int rank) {
  start();
  if (!to || ranks < 1 || ranks > MOST_RANKS || rank < 0 || rank >= ranks) return NCCL_INVALID_ARGUMENT;
  *to = calloc(1, sizeof **to);
  if (!*to) return NCCL_SYSTEM_ERROR;
  **to = (Communicator){NCCL_MAGIC, ranks, rank};
  return SUCCESS;
}

EXPORT status ncclGetVersion(int *version) {
  status (*ask)(int *) = (status(*)(int *))genuine("libnccl.so", "ncclGetVersion");
  if (ask) return ask(version);
  *version = 22703;
  return SUCCESS;
}
EXPORT status ncclGetUniqueId(Id *id) { memset(id, 1, sizeof *id); return SUCCESS; }
EXPORT status ncclCommGetUniqueId(void *c, Id *id) { (void)c; return ncclGetUniqueId(id); }
EXPORT const char *ncclGetErrorString(status s) { return s ? "internal error" : "no error"; }
EXPORT const char *ncclGetLastError(void *c) { (void)c; return ""; }

EXPORT status ncclCommInitRank(Communicator **to, int ranks, Id id, int rank) { (void)id; return join(to, ranks, rank); }
EXPORT status ncclCommInitRankConfig(Communicator **to, int ranks, Id id, int rank, void *config) {
  (void)id; (void)config;
  return join(to, ranks, rank);
}
EXPORT status ncclCommInitRankScalable(Communicator **to, int ranks, int rank, int n, Id *ids, void *config) {
  (void)n; (void)ids; (void)config;
  return join(to, ranks, rank);
}
EXPORT status ncclCommInitAll(Communicator **to, int n, const int *list) {
  (void)list;
  if (n < 0 || n > MAX_DEVICES) return NCCL_INVALID_ARGUMENT;
  for (int i = 0; i < n; i++) if (join(&to[i], n, i)) return NCCL_SYSTEM_ERROR;
  return SUCCESS;
}
/* Who else has a color isn't seen here: PyTorch's functions that make groups say it before. Of those that were said, the
 * first at whose place in the group this rank asks is meant; groups may share a color. What nobody said is a group as before
 * of that color, or has as many ranks as the whole. */
#define MOST_GROUPS 256
static struct { int ranks, rank, color, taken; } groups[MOST_GROUPS];
static int n_groups;
static pthread_mutex_t groups_mutex = PTHREAD_MUTEX_INITIALIZER;

EXPORT void vramscope_simulated_group(int ranks, int rank) {
  if (ranks < 1 || rank < 0 || rank >= ranks) return;
  pthread_mutex_lock(&groups_mutex);
  if (n_groups == MOST_GROUPS) memmove(groups, groups + 1, sizeof groups - sizeof *groups), n_groups--;
  groups[n_groups].ranks = ranks;
  groups[n_groups].rank = rank;
  groups[n_groups++].taken = 0;
  pthread_mutex_unlock(&groups_mutex);
}

static int group_of(int color, int key) { /* -1: nobody said */
  for (int i = 0; i < n_groups; i++)
    if (!groups[i].taken && groups[i].rank == key) return i;
  for (int i = 0; i < n_groups; i++)
    if (!groups[i].taken) return i;
  for (int i = n_groups - 1; i >= 0; i--)
    if (groups[i].color == color && groups[i].rank == key) return i;
  return -1;
}

EXPORT status ncclCommSplit(Communicator *c, int color, int key, Communicator **to, void *config) {
  (void)config;
  *to = NULL;
  if (color < 0) return SUCCESS;
  int ranks = ranks_of(c), rank = c && c->magic == NCCL_MAGIC ? c->rank : 0;
  pthread_mutex_lock(&groups_mutex);
  int i = group_of(color, key);
  if (i >= 0) {
    groups[i].taken = 1;
    groups[i].color = color;
    ranks = groups[i].ranks;
    rank = groups[i].rank;
  }
  pthread_mutex_unlock(&groups_mutex);
  return join(to, ranks, rank);
}
EXPORT status ncclCommShrink(Communicator *c, int *list, int n, Communicator **to, void *config, int flags) {
  (void)list; (void)config; (void)flags;
  int left = ranks_of(c) - n;
  return join(to, left > 0 ? left : 1, 0);
}
EXPORT status ncclCommDestroy(Communicator *c) {
  if (!c || c->magic != NCCL_MAGIC) return SUCCESS;
  c->magic = 0;
  free(c);
  return SUCCESS;
}
EXPORT status ncclCommAbort(Communicator *c) { return ncclCommDestroy(c); }
EXPORT status ncclCommFinalize(Communicator *c) { (void)c; return SUCCESS; }
EXPORT status ncclCommRevoke(Communicator *c) { (void)c; return SUCCESS; }
EXPORT status ncclCommSuspend(Communicator *c) { (void)c; return SUCCESS; }
EXPORT status ncclCommResume(Communicator *c) { (void)c; return SUCCESS; }
EXPORT status ncclCommGetAsyncError(Communicator *c, status *s) { (void)c; *s = SUCCESS; return SUCCESS; }
EXPORT status ncclCommCount(const Communicator *c, int *n) { *n = ranks_of(c); return SUCCESS; }
EXPORT status ncclCommUserRank(const Communicator *c, int *rank) {
  *rank = c && c->magic == NCCL_MAGIC ? c->rank : 0;
  return SUCCESS;
}
EXPORT status ncclCommCuDevice(const Communicator *c, int *device) { (void)c; *device = current; return SUCCESS; }

EXPORT status ncclMemAlloc(void **p, size_t bytes) { return cudaMalloc(p, bytes) ? 1 : SUCCESS; }
EXPORT status ncclMemFree(void *p) { cudaFree(p); return SUCCESS; }
EXPORT status ncclCommRegister(const Communicator *c, void *at, size_t bytes, void **handle) {
  (void)c; (void)at; (void)bytes;
  *handle = (void *)1;
  return SUCCESS;
}
EXPORT status ncclCommDeregister(const Communicator *c, void *handle) { (void)c; (void)handle; return SUCCESS; }
EXPORT status ncclRedOpCreatePreMulSum(int *op) { *op = 5; return SUCCESS; }
EXPORT status ncclRedOpDestroy(int op) { (void)op; return SUCCESS; }

/* ---- collectives: values as if every rank had this one's ---- */
static void spread(u64 to, u64 from, size_t bytes, int times) {
  if (!bytes || bytes * (u64)times > REMEMBERED) {
    value_forget(to, bytes * (u64)times);
    return;
  }
  unsigned char *all = malloc(bytes * (size_t)times);
  if (all && value_get(from, all, bytes)) {
    for (int i = 1; i < times; i++) memcpy(all + (size_t)i * bytes, all, bytes);
    value_put(to, all, bytes * (size_t)times);
  } else {
    value_forget(to, bytes * (u64)times);
  }
  free(all);
}

static int absurd(size_t n) { return n > LARGEST_TOTAL; }

EXPORT status ncclAllGather(const void *from, void *to, size_t n, int type, Communicator *c, void *stream) {
  if (absurd(n)) return NCCL_INVALID_ARGUMENT;
  work((u64)stream);
  spread((u64)to, (u64)from, n * width(type), ranks_of(c));
  return SUCCESS;
}
static status same(const void *from, void *to, size_t n, int type, void *stream) {
  if (absurd(n)) return NCCL_INVALID_ARGUMENT;
  work((u64)stream);
  if (from != to) value_copy((u64)to, (u64)from, n * width(type));
  return SUCCESS;
}
/* PyTorch gathers a list of tensors by one broadcast from each rank, in a group: what this rank sends, the others do. */
#define MOST_GROUPED 4096
static __thread struct { u64 to, bytes; } grouped[MOST_GROUPED];
static __thread int depth, n_grouped;
static __thread u64 sent_from, sent_bytes;

static void end_group(void) {
  for (int i = 0; i < n_grouped; i++)
    if (grouped[i].bytes == sent_bytes) value_copy(grouped[i].to, sent_from, sent_bytes);
  n_grouped = 0;
  sent_bytes = 0;
}
EXPORT status ncclGroupStart(void) {
  depth++;
  return SUCCESS;
}
EXPORT status ncclGroupEnd(void) {
  if (depth > 0 && !--depth) end_group();
  return SUCCESS;
}
EXPORT status ncclBroadcast(const void *from, void *to, size_t n, int type, int root, Communicator *c, void *stream) {
  if (depth && c && c->magic == NCCL_MAGIC && !absurd(n) && n * width(type) <= REMEMBERED) {
    if (root == c->rank) sent_from = (u64)from, sent_bytes = n * width(type);
    else if (n_grouped < MOST_GROUPED) grouped[n_grouped].to = (u64)to, grouped[n_grouped++].bytes = n * width(type);
  }
  return same(from, to, n, type, stream);
}
EXPORT status ncclBcast(void *at, size_t n, int type, int root, Communicator *c, void *stream) {
  (void)root; (void)c;
  return same(at, at, n, type, stream);
}
EXPORT status ncclAllReduce(const void *from, void *to, size_t n, int type, int op, Communicator *c, void *stream) {
  (void)op; (void)c;
  return same(from, to, n, type, stream);
}
EXPORT status ncclReduce(const void *from, void *to, size_t n, int type, int op, int root, Communicator *c, void *stream) {
  (void)op; (void)root; (void)c;
  return same(from, to, n, type, stream);
}
/* n is of one rank's part: every rank gives the same, so the part at this one's place. */
EXPORT status ncclReduceScatter(const void *from, void *to, size_t n, int type, int op, Communicator *c, void *stream) {
  (void)op;
  size_t part = n * width(type);
  if (absurd(n)) return NCCL_INVALID_ARGUMENT;
  work((u64)stream);
  value_copy((u64)to, (u64)from + part * (u64)(c && c->magic == NCCL_MAGIC ? c->rank : 0), part);
  return SUCCESS;
}
EXPORT status ncclAlltoAll(const void *from, void *to, size_t n, int type, Communicator *c, void *stream) {
  return same(from, to, absurd(n) ? n : n * (size_t)ranks_of(c), type, stream);
}
EXPORT status ncclSend(const void *from, size_t n, int type, int peer, Communicator *c, void *stream) {
  (void)from; (void)n; (void)type; (void)peer; (void)c;
  work((u64)stream);
  return SUCCESS;
}
EXPORT status ncclRecv(void *to, size_t n, int type, int peer, Communicator *c, void *stream) {
  (void)peer; (void)c;
  if (absurd(n)) return NCCL_INVALID_ARGUMENT;
  work((u64)stream);
  value_forget((u64)to, n * width(type));
  return SUCCESS;
}
