/* graph_cudnn.h - cuDNN operation graphs from C: the door to cudnn_graph.h.
 *
 * A graph is built tensor by tensor and operation by operation.  The first failure
 * sticks, so a whole graph is written down without checks and graph_plan() reports
 * what went wrong.  Tensors have four dimensions.  A virtual tensor lives inside the
 * fused kernel; the others are bound to memory by graph_run() in the order they were
 * made. */
#ifndef TRAINER_GRAPH_CUDNN_H
#define TRAINER_GRAPH_CUDNN_H

#include <cudnn_graph.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct graph;

struct graph_dims {
    int64_t n[4], stride[4];
};

/* [b,h,s,d] densely packed. */
struct graph_dims graph_packed(int64_t b, int64_t h, int64_t s, int64_t d);
/* The last two dimensions exchanged. */
struct graph_dims graph_transposed(struct graph_dims x);

struct graph *graph_new(cudnnHandle_t handle);
void graph_free(struct graph *g); /* NULL is fine */

int graph_tensor(struct graph *g, cudnnDataType_t type, struct graph_dims dims);
int graph_virtual(struct graph *g, cudnnDataType_t type, struct graph_dims dims);
/* A number given by value. */
int graph_scalar(struct graph *g, float value);

/* y = mode(x, b, t); b and t -1 where the mode has none.  axis: GEN_INDEX only. */
struct graph_point {
    cudnnPointwiseMode_t mode;
    cudnnDataType_t math;
    int y, x, b, t, axis;
};
void graph_pointwise(struct graph *g, struct graph_point p);
void graph_reduce(struct graph *g, cudnnReduceTensorOp_t op, int y, int x);
void graph_matmul(struct graph *g, int c, int a, int b);
void graph_reshape(struct graph *g, int y, int x);

/* Choose the first engine that needs at most `most` bytes of workspace. */
int graph_plan(struct graph *g, size_t most, struct err *err);
size_t graph_workspace(const struct graph *g);

/* pointer[i]: memory of the i-th graph_tensor(). */
int graph_run(struct graph *g, void *const *pointer, int n, void *workspace,
              struct err *err);

#endif
