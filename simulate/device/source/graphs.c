/* Capture and graphs: what a stream does becomes nodes of a graph, streams that wait for it join in, and a launch
 * of the graph is one piece of work. A graph is a number, its capture's. */
#include "device.h"

#define KEPT 4096 /* how many of the latest graphs know the number of their nodes */
static struct { u64 graph, nodes; } graphs[KEPT];
static u64 ids;

void graph_node(u64 graph) {
  if (graphs[graph % KEPT].graph == graph) __atomic_add_fetch(&graphs[graph % KEPT].nodes, 1, __ATOMIC_RELAXED);
}

static u64 nodes_of(u64 graph) { return graphs[graph % KEPT].graph == graph ? graphs[graph % KEPT].nodes : 0; }

static u64 new_graph(void) {
  u64 id = __atomic_add_fetch(&ids, 1, __ATOMIC_RELAXED);
  graphs[id % KEPT].graph = id;
  graphs[id % KEPT].nodes = 0;
  return id;
}

EXPORT status cudaStreamIsCapturing(u64 handle, int *capturing) {
  if (!stream_of(handle)) return fail(INVALID_HANDLE);
  *capturing = stream_capture(handle) != 0;
  return SUCCESS;
}
ALIAS(cuStreamIsCapturing, cudaStreamIsCapturing)

EXPORT status cudaStreamBeginCapture(u64 handle, int mode) {
  (void)mode;
  Stream *s = stream_of(handle);
  if (!s) return fail(INVALID_HANDLE);
  if (!handle || s->capture) return fail(handle ? ILLEGAL_STATE : 900); /* the legacy default stream can't capture */
  s->capture = new_graph();
  return SUCCESS;
}
ALIAS(cuStreamBeginCapture_v2, cudaStreamBeginCapture)
ALIAS(cuStreamBeginCapture, cudaStreamBeginCapture)

EXPORT status cudaStreamBeginCaptureToGraph(u64 handle, u64 graph, const void *nodes, const void *edges, size_t n, int mode) {
  (void)nodes; (void)edges; (void)n; (void)mode;
  Stream *s = stream_of(handle);
  if (!s) return fail(INVALID_HANDLE);
  s->capture = graph;
  return SUCCESS;
}

EXPORT status cudaStreamEndCapture(u64 handle, u64 *graph) {
  Stream *s = stream_of(handle);
  if (!s) return fail(INVALID_HANDLE);
  if (!s->capture) return fail(ILLEGAL_STATE);
  if (graph) *graph = s->capture;
  leave_capture(s->capture);
  return SUCCESS;
}
ALIAS(cuStreamEndCapture, cudaStreamEndCapture)

/* Arguments by version: 3 in CUDA 11 and 12, 6 as _v2, with edges as _v3 and in CUDA 13. */
static status info(u64 handle, int *state, u64 *id, u64 *graph, const void **nodes, const void **edges, size_t *n) {
  u64 capture = stream_capture(handle);
  if (!stream_of(handle) || !state) return fail(INVALID_HANDLE);
  *state = capture != 0;
  if (!capture) return SUCCESS;
  if (id) *id = capture;
  if (graph) *graph = capture;
  if (nodes) *nodes = NULL;
  if (edges) *edges = NULL;
  if (n) *n = 0;
  return SUCCESS;
}
EXPORT status cudaStreamGetCaptureInfo_v2(u64 handle, int *state, u64 *id, u64 *graph, const void **nodes, size_t *n) {
  return info(handle, state, id, graph, nodes, NULL, n);
}
ALIAS(cuStreamGetCaptureInfo_v2, cudaStreamGetCaptureInfo_v2)
EXPORT status cudaStreamGetCaptureInfo_v3(u64 handle, int *state, u64 *id, u64 *graph, const void **nodes, const void **edges,
                                          size_t *n) {
  return info(handle, state, id, graph, nodes, edges, n);
}
ALIAS(cuStreamGetCaptureInfo_v3, cudaStreamGetCaptureInfo_v3)
EXPORT status vramscope_capture_info_11(u64 handle, int *state, u64 *id) { return info(handle, state, id, 0, 0, 0, 0); }
ALIAS(vramscope_capture_info_12, vramscope_capture_info_11)
ALIAS(vramscope_capture_info_13, cudaStreamGetCaptureInfo_v3)
IN_CUDA_11(vramscope_capture_info_11, cudaStreamGetCaptureInfo)
IN_CUDA_12(vramscope_capture_info_12, cudaStreamGetCaptureInfo)
IN_CUDA_13(vramscope_capture_info_13, cudaStreamGetCaptureInfo)

EXPORT status cudaThreadExchangeStreamCaptureMode(int *mode) {
  static __thread int of_thread;
  int before = of_thread;
  of_thread = *mode;
  *mode = before;
  return SUCCESS;
}
ALIAS(cuThreadExchangeStreamCaptureMode, cudaThreadExchangeStreamCaptureMode)

EXPORT status cudaStreamUpdateCaptureDependencies(u64 handle, void *nodes) {
  (void)nodes;
  return stream_capture(handle) ? SUCCESS : fail(ILLEGAL_STATE);
}
ALIAS(cudaStreamUpdateCaptureDependencies_v2, cudaStreamUpdateCaptureDependencies)

/* ---- graphs ---- */
EXPORT status cudaGraphCreate(u64 *graph, unsigned flags) {
  (void)flags;
  *graph = new_graph();
  return SUCCESS;
}
ALIAS(cuGraphCreate, cudaGraphCreate)
EXPORT status cudaGraphClone(u64 *clone, u64 graph) {
  *clone = new_graph();
  graphs[*clone % KEPT].nodes = nodes_of(graph);
  return SUCCESS;
}

/* What follows the graph differs by version, and nothing of it matters. */
EXPORT status cudaGraphInstantiate(u64 *executable, u64 graph) {
  *executable = graph;
  return SUCCESS;
}
ALIAS(cudaGraphInstantiateWithFlags, cudaGraphInstantiate)
ALIAS(cudaGraphInstantiateWithParams, cudaGraphInstantiate)
ALIAS(cuGraphInstantiateWithFlags, cudaGraphInstantiate)
EXPORT status cudaGraphLaunch(u64 executable, u64 stream) {
  (void)executable;
  work(stream);
  return SUCCESS;
}
ALIAS(cuGraphLaunch, cudaGraphLaunch)
EXPORT status cudaGraphDestroy(u64 graph) { (void)graph; return SUCCESS; }
ALIAS(cuGraphDestroy, cudaGraphDestroy)
EXPORT status cudaGraphExecDestroy(u64 executable) { (void)executable; return SUCCESS; }
ALIAS(cuGraphExecDestroy, cudaGraphExecDestroy)
EXPORT status cudaGraphUpload(u64 executable, u64 stream) { (void)executable; (void)stream; return SUCCESS; }

/* Nodes have numbers: of their graph, and their place in it. */
static void *node(u64 graph, u64 i) { return (void *)(graph << 24 | (i & 0xffffff)); }
EXPORT status cudaGraphGetNodes(u64 graph, void **nodes, size_t *n) {
  u64 have = nodes_of(graph);
  if (!n) return fail(INVALID_VALUE);
  for (size_t i = 0; nodes && i < *n; i++) nodes[i] = i < have ? node(graph, i) : NULL;
  if (!nodes || *n > have) *n = have;
  return SUCCESS;
}
ALIAS(cuGraphGetNodes, cudaGraphGetNodes)

static status add_node(void **made, u64 graph) {
  graph_node(graph);
  *made = node(graph, nodes_of(graph));
  return SUCCESS;
}
EXPORT status vramscope_add_node_12(void **made, u64 graph, const void *after, size_t n, void *what) {
  (void)after; (void)n; (void)what;
  return add_node(made, graph);
}
EXPORT status vramscope_add_node_13(void **made, u64 graph, const void *after, const void *edges, size_t n, void *what) {
  (void)after; (void)edges; (void)n; (void)what;
  return add_node(made, graph);
}
ALIAS(cudaGraphAddNode_v2, vramscope_add_node_13)
IN_CUDA_12(vramscope_add_node_12, cudaGraphAddNode)
IN_CUDA_13(vramscope_add_node_13, cudaGraphAddNode)

EXPORT status vramscope_dependencies_11(void *of, void *nodes, size_t *n) {
  (void)of; (void)nodes;
  *n = 0;
  return SUCCESS;
}
ALIAS(vramscope_dependencies_12, vramscope_dependencies_11)
EXPORT status vramscope_dependencies_13(void *of, void *nodes, void *edges, size_t *n) {
  (void)of; (void)nodes; (void)edges;
  *n = 0;
  return SUCCESS;
}
ALIAS(cudaGraphNodeGetDependencies_v2, vramscope_dependencies_13)
IN_CUDA_11(vramscope_dependencies_11, cudaGraphNodeGetDependencies)
IN_CUDA_12(vramscope_dependencies_12, cudaGraphNodeGetDependencies)
IN_CUDA_13(vramscope_dependencies_13, cudaGraphNodeGetDependencies)

EXPORT status cudaGraphConditionalHandleCreate(u64 *handle, u64 graph) { *handle = graph; return SUCCESS; }
EXPORT status cudaGraphRetainUserObject(u64 graph) { (void)graph; return SUCCESS; }
EXPORT status cudaUserObjectCreate(u64 *object) { *object = 1; return SUCCESS; }
EXPORT status cudaUserObjectRelease(u64 object) { (void)object; return SUCCESS; }
