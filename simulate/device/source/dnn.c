/* cuDNN's older calls: algorithms of convolutions, and the weights of recurrent networks. */
#include "device.h"

enum { BAD_PARAM = 2000, NOT_THERE = 3000 };
#define CUDNN_IF_NONE 91000 /* PyTorch 2.5 and later want version 9 */

static size_t version(void) {
  size_t (*ask)(void) = (size_t(*)(void))genuine("libcudnn.so.", "cudnnGetVersion");
  return ask ? ask() : CUDNN_IF_NONE;
}
EXPORT size_t cudnnGetVersion(void) { return version(); }
EXPORT size_t cudnnGetCudartVersion(void) { return (size_t)cuda_version(); }
EXPORT status cudnnGetProperty(int which, int *value) {
  size_t v = version(); /* 90100: major * 10000 + minor * 100 + patch */
  *value = which == 0 ? (int)(v / 10000) : which == 1 ? (int)(v / 100 % 100) : (int)(v % 100);
  return SUCCESS;
}
EXPORT const char *cudnnGetErrorString(status s) { return s ? "CUDNN_STATUS_NOT_SUPPORTED" : "CUDNN_STATUS_SUCCESS"; }
EXPORT void cudnnGetLastErrorString(char *to, size_t room) { if (room) to[0] = 0; }
EXPORT status cudnnCreate(void **h) { start(); *h = new_handle(); return *h ? SUCCESS : 1003; }
EXPORT status cudnnDestroy(void *h) { drop_handle(h); return SUCCESS; }
EXPORT status cudnnSetStream(void *h, u64 stream) { handle_of(h)->stream = stream; return SUCCESS; }
EXPORT status cudnnGetStream(void *h, u64 *stream) { *stream = handle_of(h)->stream; return SUCCESS; }

/* ---- convolutions: the first algorithm, without a workspace ---- */
typedef struct { int algorithm; status state; float time; size_t memory; int determinism, math, reserved[3]; } Performance;

static status one(int wanted, int *got, Performance *results) {
  if (wanted < 1 || !got || !results) return BAD_PARAM;
  memset(results, 0, sizeof *results);
  results->algorithm = 1;
  results->time = 0.01f;
  *got = 1;
  return SUCCESS;
}
#define GET(name) \
  EXPORT status name(void *h, void *a, void *b, void *c, void *d, int wanted, int *got, Performance *results) { \
    (void)h; (void)a; (void)b; (void)c; (void)d; \
    return one(wanted, got, results); \
  }
GET(cudnnGetConvolutionForwardAlgorithm_v7)
GET(cudnnGetConvolutionBackwardDataAlgorithm_v7)
GET(cudnnGetConvolutionBackwardFilterAlgorithm_v7)
#define FIND(name) \
  EXPORT status name(void *h, void *a, void *x, void *b, void *y, void *c, void *d, void *z, int wanted, \
              int *got, Performance *results) { \
    (void)h; (void)a; (void)x; (void)b; (void)y; (void)c; (void)d; (void)z; \
    return one(wanted, got, results); \
  }
FIND(cudnnFindConvolutionForwardAlgorithmEx)
FIND(cudnnFindConvolutionBackwardDataAlgorithmEx)
FIND(cudnnFindConvolutionBackwardFilterAlgorithmEx)
#define NEEDS(name) \
  EXPORT status name(void *h, void *a, void *b, void *c, void *d, int algorithm, size_t *bytes) { \
    (void)h; (void)a; (void)b; (void)c; (void)d; (void)algorithm; \
    *bytes = 0; \
    return SUCCESS; \
  }
NEEDS(cudnnGetConvolutionForwardWorkspaceSize)
NEEDS(cudnnGetConvolutionBackwardDataWorkspaceSize)
NEEDS(cudnnGetConvolutionBackwardFilterWorkspaceSize)
static status convolve(const char *kind) {
  work(0);
  convolution_seen(kind);
  return SUCCESS;
}
EXPORT status cudnnConvolutionForward(void) { return convolve("forward"); }
EXPORT status cudnnConvolutionBiasActivationForward(void) { return convolve("forward"); }
EXPORT status cudnnConvolutionBackwardData(void) { return convolve("backward of inputs"); }
EXPORT status cudnnConvolutionBackwardFilter(void) { return convolve("backward of weights"); }

/* ---- descriptors of tensors and filters, which recurrent networks read back ---- */
enum { MOST_DIMENSIONS = 8 };
typedef struct { u64 magic; int type, layout, n, sizes[MOST_DIMENSIONS], strides[MOST_DIMENSIONS]; } Shape;
#define SHAPE_MAGIC 0x65706168732d7376ull

static Shape *shape_of(void *s) {
  Shape *x = s;
  return x && x->magic == SHAPE_MAGIC ? x : NULL;
}
EXPORT status cudnnCreateTensorDescriptor(void **to) {
  Shape *s = calloc(1, sizeof *s);
  if (s) s->magic = SHAPE_MAGIC;
  *to = s;
  return s ? SUCCESS : 1003;
}
ALIAS(cudnnCreateFilterDescriptor, cudnnCreateTensorDescriptor)
EXPORT status cudnnDestroyTensorDescriptor(void *of) {
  Shape *s = shape_of(of);
  if (s) s->magic = 0, free(s);
  return SUCCESS;
}
ALIAS(cudnnDestroyFilterDescriptor, cudnnDestroyTensorDescriptor)

static status shape(Shape *s, int type, int layout, int n, const int *sizes, const int *strides) {
  if (!s || n < 1 || n > MOST_DIMENSIONS) return BAD_PARAM;
  int stride = 1;
  s->type = type;
  s->layout = layout;
  s->n = n;
  for (int i = n; i-- > 0;) {
    s->sizes[i] = sizes[i];
    s->strides[i] = strides ? strides[i] : stride;
    stride *= sizes[i] > 0 ? sizes[i] : 1;
  }
  return SUCCESS;
}
EXPORT status cudnnSetTensorNdDescriptor(void *to, int type, int n, const int *sizes, const int *strides) {
  return shape(shape_of(to), type, 0, n, sizes, strides);
}
EXPORT status cudnnSetFilterNdDescriptor(void *to, int type, int layout, int n, const int *sizes) {
  return shape(shape_of(to), type, layout, n, sizes, NULL);
}
static void numbers(int *to, const int *from, int have, int wanted) {
  for (int i = 0; to && i < wanted && i < MOST_DIMENSIONS; i++) to[i] = i < have ? from[i] : 1;
}
EXPORT status cudnnGetTensorNdDescriptor(void *of, int wanted, int *type, int *n, int *sizes, int *strides) {
  Shape *s = shape_of(of);
  if (!s) return BAD_PARAM;
  if (type) *type = s->type;
  if (n) *n = s->n;
  numbers(sizes, s->sizes, s->n, wanted);
  numbers(strides, s->strides, s->n, wanted);
  return SUCCESS;
}
EXPORT status cudnnGetFilterNdDescriptor(void *of, int wanted, int *type, int *layout, int *n, int *sizes) {
  Shape *s = shape_of(of);
  if (s && layout) *layout = s->layout;
  return cudnnGetTensorNdDescriptor(of, wanted, type, n, sizes, NULL);
}

/* ---- recurrent networks: where each gate's weights lie. All matrices come first, then all biases. ---- */
typedef struct { u64 magic; int cell, bias, directions, type, input, hidden, projection, layers; } Recurrent;
#define RECURRENT_MAGIC 0x6e6e722d6e6e6475ull
enum { LSTM = 2, GRU = 3, ONE_BIAS_INPUT = 1, TWO_BIASES = 2, ONE_BIAS_RECURRENT = 3, LARGEST_LAYER = 1 << 20 };

EXPORT status cudnnCreateRNNDescriptor(void **to) {
  Recurrent *r = calloc(1, sizeof *r);
  if (r) r->magic = RECURRENT_MAGIC;
  *to = r;
  return r ? SUCCESS : 1003;
}
static Recurrent *recurrent_of(void *r) {
  Recurrent *x = r;
  return x && x->magic == RECURRENT_MAGIC ? x : NULL;
}
EXPORT status cudnnDestroyRNNDescriptor(void *of) {
  Recurrent *r = recurrent_of(of);
  if (r) r->magic = 0, free(r);
  return SUCCESS;
}
EXPORT status cudnnSetRNNDescriptor_v8(void *to, int algorithm, int cell, int bias, int directions, int input_mode, int type,
                                       int precision,
                                       int math, int input, int hidden, int projection, int layers) {
  (void)algorithm; (void)input_mode; (void)precision; (void)math;
  Recurrent *r = recurrent_of(to);
  if (!r || input < 1 || hidden < 1 || layers < 1) return BAD_PARAM;
  if (input > LARGEST_LAYER || hidden > LARGEST_LAYER || layers > 4096) return BAD_PARAM;
  *r = (Recurrent){RECURRENT_MAGIC, cell, bias, directions ? 2 : 1, type, input, hidden, projection == hidden ? 0 : projection,
      layers};
  return SUCCESS;
}
static int gates(const Recurrent *r) { return r->cell == LSTM ? 4 : r->cell == GRU ? 3 : 1; }
static int output(const Recurrent *r) { return r->projection > 0 ? r->projection : r->hidden; }
/* Of a gate's matrix; gates of the recurrence follow those of the input. */
static int columns(const Recurrent *r, int layer, int gate) {
  if (gate >= gates(r)) return output(r);
  return layer < r->directions ? r->input : output(r) * r->directions;
}
static u64 matrices(const Recurrent *r, int layer) { /* elements of a layer and direction */
  u64 n = (u64)gates(r) * (u64)r->hidden * (u64)(columns(r, layer, 0) + columns(r, layer, gates(r)));
  return r->projection > 0 ? n + (u64)r->projection * (u64)r->hidden : n;
}
static int biases(const Recurrent *r) { return r->bias == TWO_BIASES ? 2 : r->bias != 0; }
static u64 element(const Recurrent *r) { return r->type == 1 ? 8 : r->type == 2 || r->type == 9 ? 2 : 4; }

EXPORT status cudnnGetRNNWeightSpaceSize(void *h, void *of, size_t *bytes) {
  (void)h;
  Recurrent *r = recurrent_of(of);
  if (!r || !r->hidden) return BAD_PARAM;
  u64 n = 0;
  for (int layer = 0; layer < r->layers * r->directions; layer++)
    n += matrices(r, layer) + (u64)biases(r) * (u64)gates(r) * (u64)r->hidden;
  *bytes = n * element(r);
  return SUCCESS;
}

static u64 matrix_at(const Recurrent *r, int layer, int gate) {
  u64 at = 0;
  for (int l = 0; l < layer; l++) at += matrices(r, l);
  for (int g = 0; g < gate; g++) at += (u64)r->hidden * (u64)columns(r, layer, g);
  return at;
}
static int bias_place(const Recurrent *r, int gate) { /* among a layer's; -1: the gate has none */
  int g = gates(r), recurrent = gate >= g;
  if (gate >= 2 * g || !r->bias) return -1;
  if (r->bias == TWO_BIASES) return gate;
  return recurrent == (r->bias == ONE_BIAS_RECURRENT) ? gate % g : -1;
}

/* The matrix, the bias, or both: who wants one alone gives no place for the other. */
EXPORT status cudnnGetRNNWeightParams(void *h, void *of, int layer, size_t bytes, char *weights, int gate, void *matrix,
                                      void **at,
                                      void *bias, void **bias_at) {
  (void)h; (void)bytes;
  Recurrent *r = recurrent_of(of);
  if (!r || !r->hidden || layer < 0 || layer >= r->layers * r->directions || gate < 0 || gate > 2 * gates(r)) return BAD_PARAM;
  int projects = gate == 2 * gates(r), place = bias_place(r, gate);
  if (at) *at = NULL;
  if (bias_at) *bias_at = NULL;
  if (at && (!projects || r->projection > 0)) {
    int rows = projects ? r->projection : r->hidden, width = projects ? r->hidden : columns(r, layer, gate);
    shape(shape_of(matrix), r->type, 0, 3, (int[]){1, rows, width}, NULL);
    *at = weights + matrix_at(r, layer, gate) * element(r);
  }
  if (!bias_at || place < 0) return SUCCESS;
  u64 first = 0; /* where biases begin */
  for (int l = 0; l < r->layers * r->directions; l++) first += matrices(r, l);
  shape(shape_of(bias), r->type, 0, 3, (int[]){1, r->hidden, 1}, NULL);
  *bias_at = weights + (first + ((u64)layer * (u64)(biases(r) * gates(r)) + (u64)place) * (u64)r->hidden) * element(r);
  return SUCCESS;
}
EXPORT status cudnnGetRNNTempSpaceSizes(void *h, void *r, int mode, void *x, size_t *workspace, size_t *kept) {
  (void)h; (void)r; (void)mode; (void)x;
  concern(UNCOUNTED, "cudnnGetRNNTempSpaceSizes");
  if (workspace) *workspace = 0;
  if (kept) *kept = 0;
  return SUCCESS;
}
