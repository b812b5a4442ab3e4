/* cuBLAS and cuBLASLt: PyTorch sizes their workspaces itself, one for each handle and stream, so each handle is new. */
#include "device.h"

enum { MATH, POINTERS, ATOMICS };

EXPORT status cublasCreate_v2(void **h) {
  start();
  *h = new_handle();
  return *h ? SUCCESS : 3;
}
EXPORT status cublasDestroy_v2(void *h) { drop_handle(h); return SUCCESS; }
EXPORT status cublasSetStream_v2(void *h, u64 stream) { handle_of(h)->stream = stream; return SUCCESS; }
EXPORT status cublasGetStream_v2(void *h, u64 *stream) { *stream = handle_of(h)->stream; return SUCCESS; }
EXPORT status cublasSetWorkspace_v2(void *h, void *at, size_t bytes) { (void)h; (void)at; (void)bytes; return SUCCESS; }
EXPORT status cublasSetMathMode(void *h, int mode) { handle_of(h)->mode[MATH] = mode; return SUCCESS; }
EXPORT status cublasGetMathMode(void *h, int *mode) { *mode = handle_of(h)->mode[MATH]; return SUCCESS; }
EXPORT status cublasSetPointerMode_v2(void *h, int mode) { handle_of(h)->mode[POINTERS] = mode; return SUCCESS; }
EXPORT status cublasGetPointerMode_v2(void *h, int *mode) { *mode = handle_of(h)->mode[POINTERS]; return SUCCESS; }
EXPORT status cublasSetAtomicsMode(void *h, int mode) { handle_of(h)->mode[ATOMICS] = mode; return SUCCESS; }
EXPORT status cublasGetAtomicsMode(void *h, int *mode) { *mode = handle_of(h)->mode[ATOMICS]; return SUCCESS; }
EXPORT status cublasGetVersion_v2(void *h, int *version) {
  size_t (*ask)(void) = (size_t(*)(void))genuine("libcublasLt.so.", "cublasLtGetVersion");
  (void)h;
  *version = ask ? (int)ask() : 130000;
  return SUCCESS;
}
EXPORT size_t cublasLtGetVersion(void) {
  int version;
  cublasGetVersion_v2(NULL, &version);
  return (size_t)version;
}
EXPORT size_t cublasLtGetCudartVersion(void) { return (size_t)cuda_version(); }
EXPORT const char *cublasGetStatusString(status s) { return s ? "CUBLAS_STATUS_NOT_SUPPORTED" : "CUBLAS_STATUS_SUCCESS"; }
EXPORT const char *cublasGetStatusName(status s) { return cublasGetStatusString(s); }
EXPORT const char *cusparseGetErrorString(status s) { return s ? "operation not supported" : "success"; }
EXPORT const char *cusparseGetErrorName(status s) { return s ? "CUSPARSE_STATUS_NOT_SUPPORTED" : "CUSPARSE_STATUS_SUCCESS"; }
EXPORT const char *cublasLtGetStatusString(status s) { return cublasGetStatusString(s); }
EXPORT const char *cublasLtGetStatusName(status s) { return cublasGetStatusString(s); }

/* One algorithm that needs no workspace: PyTorch takes the workspace before it asks. */
typedef struct { u64 algorithm[8]; size_t workspace; status state; float waves; int reserved[4]; } Heuristic;

EXPORT status cublasLtMatmulAlgoGetHeuristic(void *h, void *product, void *a, void *b, void *c, void *d, void *preference,
                                             int wanted,
                                             Heuristic *results, int *got) {
  (void)h; (void)product; (void)a; (void)b; (void)c; (void)d; (void)preference;
  if (wanted < 1 || !results || !got) return 7;
  memset(results, 0, sizeof *results);
  results->waves = 1;
  *got = 1;
  return SUCCESS;
}
EXPORT status cublasLtMatmulAlgoCheck(void *h, void *product, void *a, void *b, void *c, void *d, const void *algorithm,
                                      Heuristic *result) {
  (void)h; (void)product; (void)a; (void)b; (void)c; (void)d; (void)algorithm;
  memset(result, 0, sizeof *result);
  return SUCCESS;
}
EXPORT status cublasLtMatmulAlgoGetIds(void *h, int compute, int scale, int a, int b, int c, int d, int wanted, int *ids,
                                       int *got) {
  (void)h; (void)compute; (void)scale; (void)a; (void)b; (void)c; (void)d;
  if (wanted > 0) ids[0] = 0;
  *got = wanted > 0;
  return SUCCESS;
}
