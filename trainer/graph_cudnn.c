#include "trainer/graph_cudnn.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"

enum { MAX_TENSORS = 64, MAX_OPS = 48, MAX_ENGINES = 16, MAX_SCALARS = 8 };

struct tensor {
    cudnnBackendDescriptor_t desc;
    int bound;  /* has memory or a value */
    int scalar; /* index into value[], or -1 */
};

struct graph {
    cudnnHandle_t handle;
    int n, ops, parts, scalars;
    struct tensor tensor[MAX_TENSORS];
    cudnnBackendDescriptor_t op[MAX_OPS], part[MAX_OPS]; /* part: of the operations */
    float value[MAX_SCALARS];
    cudnnBackendDescriptor_t graph, engine, plan;
    size_t workspace;
    cudnnStatus_t status; /* first failure */
    const char *doing;    /* where */
};

struct graph_dims graph_packed(int64_t b, int64_t h, int64_t s, int64_t d)
{
    return (struct graph_dims){ { b, h, s, d }, { h * s * d, s * d, d, 1 } };
}

struct graph_dims graph_transposed(struct graph_dims x)
{
    return (
        struct graph_dims){ { x.n[0], x.n[1], x.n[3], x.n[2] },
                            { x.stride[0], x.stride[1], x.stride[3], x.stride[2] } };
}

/* --- descriptors ------------------------------------------------------------------ */

static void check(struct graph *g, cudnnStatus_t s, const char *doing)
{
    if (s == CUDNN_STATUS_SUCCESS || g->status != CUDNN_STATUS_SUCCESS)
        return;
    g->status = s;
    g->doing = doing;
}

static cudnnBackendDescriptor_t make(struct graph *g, cudnnBackendDescriptorType_t type)
{
    cudnnBackendDescriptor_t d = NULL;

    if (g->status == CUDNN_STATUS_SUCCESS)
        check(g, cudnnBackendCreateDescriptor(type, &d), "creating a descriptor");
    return d;
}

static void set(struct graph *g, cudnnBackendDescriptor_t d,
                cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                int64_t count, const void *value)
{
    if (g->status == CUDNN_STATUS_SUCCESS)
        check(g, cudnnBackendSetAttribute(d, name, type, count, value),
              "setting an attribute");
}

static void set_tensor(struct graph *g, cudnnBackendDescriptor_t d,
                       cudnnBackendAttributeName_t name, int tensor)
{
    if (tensor >= 0)
        set(g, d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &g->tensor[tensor].desc);
}

static void finish(struct graph *g, cudnnBackendDescriptor_t d, const char *doing)
{
    if (g->status == CUDNN_STATUS_SUCCESS)
        check(g, cudnnBackendFinalize(d), doing);
}

static void destroy(cudnnBackendDescriptor_t d)
{
    if (d)
        cudnnBackendDestroyDescriptor(d);
}

struct graph *graph_new(cudnnHandle_t handle)
{
    struct graph *g = xcalloc(1, sizeof(*g));

    g->handle = handle;
    g->status = CUDNN_STATUS_SUCCESS;
    return g;
}

void graph_free(struct graph *g)
{
    if (!g)
        return;
    destroy(g->plan);
    destroy(g->engine);
    destroy(g->graph);
    for (int i = 0; i < g->ops; i++)
        destroy(g->op[i]);
    for (int i = 0; i < g->parts; i++)
        destroy(g->part[i]);
    for (int i = 0; i < g->n; i++)
        destroy(g->tensor[i].desc);
    free(g);
}

/* --- tensors ---------------------------------------------------------------------- */

static int add_tensor(struct graph *g, cudnnDataType_t type, struct graph_dims dims,
                      int is_virtual, int scalar)
{
    int64_t id = g->n + 1, align = 16;
    bool yes = true;
    cudnnBackendDescriptor_t d;

    if (g->n == MAX_TENSORS) {
        check(g, CUDNN_STATUS_INTERNAL_ERROR, "adding a tensor");
        return -1;
    }
    d = make(g, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    set(g, d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    set(g, d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, dims.n);
    set(g, d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, dims.stride);
    set(g, d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
    set(g, d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &align);
    if (is_virtual)
        set(g, d, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &yes);
    if (scalar >= 0)
        set(g, d, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &yes);
    finish(g, d, "a tensor");
    g->tensor[g->n] = (struct tensor){ d, !is_virtual, scalar };
    return g->n++;
}

int graph_tensor(struct graph *g, cudnnDataType_t type, struct graph_dims dims)
{
    return add_tensor(g, type, dims, 0, -1);
}

int graph_virtual(struct graph *g, cudnnDataType_t type, struct graph_dims dims)
{
    return add_tensor(g, type, dims, 1, -1);
}

int graph_scalar(struct graph *g, float value)
{
    if (g->scalars == MAX_SCALARS) {
        check(g, CUDNN_STATUS_INTERNAL_ERROR, "adding a number");
        return -1;
    }
    g->value[g->scalars] = value;
    return add_tensor(g, CUDNN_DATA_FLOAT, graph_packed(1, 1, 1, 1), 0, g->scalars++);
}

/* --- operations ------------------------------------------------------------------- */

static cudnnBackendDescriptor_t add(struct graph *g, cudnnBackendDescriptor_t *list,
                                    int *n, cudnnBackendDescriptorType_t type)
{
    cudnnBackendDescriptor_t d;

    if (*n == MAX_OPS) {
        check(g, CUDNN_STATUS_INTERNAL_ERROR, "adding an operation");
        return NULL;
    }
    d = make(g, type);
    list[(*n)++] = d;
    return d;
}

static cudnnBackendDescriptor_t add_part(struct graph *g,
                                         cudnnBackendDescriptorType_t type)
{
    return add(g, g->part, &g->parts, type);
}

static cudnnBackendDescriptor_t add_op(struct graph *g,
                                       cudnnBackendDescriptorType_t type)
{
    return add(g, g->op, &g->ops, type);
}

void graph_pointwise(struct graph *g, struct graph_point p)
{
    cudnnBackendDescriptor_t m = add_part(g, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    cudnnBackendDescriptor_t o =
        add_op(g, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    int64_t axis = p.axis;
    float one = 1;

    set(g, m, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &p.mode);
    set(g, m, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &p.math);
    if (p.mode == CUDNN_POINTWISE_GEN_INDEX)
        set(g, m, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, &axis);
    finish(g, m, "a pointwise mode");
    set(g, o, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR,
        CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &m);
    set_tensor(g, o, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, p.x);
    set_tensor(g, o, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, p.y);
    set_tensor(g, o, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, p.b);
    set_tensor(g, o, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, p.t);
    set(g, o, CUDNN_ATTR_OPERATION_POINTWISE_ALPHA1, CUDNN_TYPE_FLOAT, 1, &one);
    set(g, o, CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2, CUDNN_TYPE_FLOAT, 1, &one);
    finish(g, o, "a pointwise operation");
}

void graph_reduce(struct graph *g, cudnnReduceTensorOp_t op, int y, int x)
{
    cudnnBackendDescriptor_t p = add_part(g, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    cudnnBackendDescriptor_t o =
        add_op(g, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    cudnnDataType_t math = CUDNN_DATA_FLOAT;

    set(g, p, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1,
        &op);
    set(g, p, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &math);
    finish(g, p, "a reduction mode");
    set(g, o, CUDNN_ATTR_OPERATION_REDUCTION_DESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
        &p);
    set_tensor(g, o, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x);
    set_tensor(g, o, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
    finish(g, o, "a reduction");
}

void graph_matmul(struct graph *g, int c, int a, int b)
{
    cudnnBackendDescriptor_t p = add_part(g, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    cudnnBackendDescriptor_t o = add_op(g, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    cudnnDataType_t math = CUDNN_DATA_FLOAT;

    set(g, p, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &math);
    finish(g, p, "a product's mode");
    set_tensor(g, o, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a);
    set_tensor(g, o, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
    set_tensor(g, o, CUDNN_ATTR_OPERATION_MATMUL_CDESC, c);
    set(g, o, CUDNN_ATTR_OPERATION_MATMUL_DESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &p);
    finish(g, o, "a product");
}

void graph_reshape(struct graph *g, int y, int x)
{
    cudnnBackendDescriptor_t o = add_op(g, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);

    set_tensor(g, o, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x);
    set_tensor(g, o, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y);
    finish(g, o, "a reshape");
}

/* --- plan ------------------------------------------------------------------------- */

/* A plan for this engine, or NULL when it cannot run or takes too much. */
static cudnnBackendDescriptor_t plan_for(struct graph *g,
                                         cudnnBackendDescriptor_t config, size_t most)
{
    cudnnBackendDescriptor_t plan = NULL;
    int64_t bytes = 0, n;

    if (cudnnBackendCreateDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &plan) !=
        CUDNN_STATUS_SUCCESS)
        return NULL;
    if (cudnnBackendSetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE,
                                 CUDNN_TYPE_HANDLE, 1,
                                 &g->handle) == CUDNN_STATUS_SUCCESS &&
        cudnnBackendSetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                                 CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                                 &config) == CUDNN_STATUS_SUCCESS &&
        cudnnBackendFinalize(plan) == CUDNN_STATUS_SUCCESS &&
        cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                 CUDNN_TYPE_INT64, 1, &n,
                                 &bytes) == CUDNN_STATUS_SUCCESS &&
        (size_t)bytes <= most) {
        g->workspace = (size_t)bytes;
        return plan;
    }
    destroy(plan);
    return NULL;
}

static void pick_engine(struct graph *g, cudnnBackendDescriptor_t heur, size_t most)
{
    cudnnBackendDescriptor_t config[MAX_ENGINES] = { NULL };
    int64_t n = 0;

    for (int i = 0; i < MAX_ENGINES; i++)
        config[i] = make(g, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    if (g->status == CUDNN_STATUS_SUCCESS)
        check(g,
              cudnnBackendGetAttribute(heur, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                       CUDNN_TYPE_BACKEND_DESCRIPTOR, MAX_ENGINES, &n,
                                       config),
              "asking for engines");
    for (int64_t i = 0; i < n && !g->plan; i++) {
        g->plan = plan_for(g, config[i], most);
        if (g->plan) {
            g->engine = config[i];
            config[i] = NULL;
        }
    }
    for (int i = 0; i < MAX_ENGINES; i++)
        destroy(config[i]);
    if (!g->plan)
        check(g, CUDNN_STATUS_NOT_SUPPORTED, "no engine takes it");
}

int graph_plan(struct graph *g, size_t most, struct err *err)
{
    cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
    cudnnBackendDescriptor_t heur;
    char last[512] = "";

    g->graph = make(g, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    set(g, g->graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1,
        &g->handle);
    set(g, g->graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
        g->ops, g->op);
    finish(g, g->graph, "the operation graph");
    heur = make(g, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    set(g, heur, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR,
        1, &g->graph);
    set(g, heur, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    finish(g, heur, "engine heuristics");
    if (g->status == CUDNN_STATUS_SUCCESS)
        pick_engine(g, heur, most);
    destroy(heur);
    if (g->status == CUDNN_STATUS_SUCCESS)
        return 0;
    cudnnGetLastErrorString(last, sizeof(last));
    return err_set(err, ERR_MISSING, "cuDNN %zu: %s: %s%s%s", cudnnGetVersion(),
                   g->doing, cudnnGetErrorString(g->status), last[0] ? ": " : "", last);
}

size_t graph_workspace(const struct graph *g)
{
    return g->workspace;
}

/* --- run -------------------------------------------------------------------------- */

int graph_run(struct graph *g, void *const *pointer, int n, void *workspace,
              struct err *err)
{
    void *where[MAX_TENSORS] = { NULL };
    int64_t id[MAX_TENSORS] = { 0 };
    int bound = 0, given = 0;
    cudnnBackendDescriptor_t pack = make(g, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);

    for (int i = 0; i < g->n; i++) {
        if (!g->tensor[i].bound)
            continue;
        id[bound] = i + 1;
        if (g->tensor[i].scalar >= 0)
            where[bound++] = &g->value[g->tensor[i].scalar];
        else
            where[bound++] = given < n ? pointer[given++] : NULL;
    }
    set(g, pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, bound, id);
    set(g, pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, bound,
        where);
    set(g, pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
    finish(g, pack, "the pointers");
    if (g->status == CUDNN_STATUS_SUCCESS)
        check(g, cudnnBackendExecute(g->handle, g->plan, pack), "running the plan");
    destroy(pack);
    if (g->status == CUDNN_STATUS_SUCCESS)
        return 0;
    return err_set(err, ERR_SYSTEM, "cuDNN: %s: %s", g->doing,
                   cudnnGetErrorString(g->status));
}
