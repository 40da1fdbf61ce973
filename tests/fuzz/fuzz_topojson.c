/* A saved topology: any bytes are a topology that holds, or an error; what holds comes
 * back equal, and every emitter writes it or says why not. */
#include "fuzz.h"

#include "base/err.h"
#include "base/js.h"
#include "topology/emit.h"
#include "topology/fabric.h"
#include "topology/source.h"
#include "topology/topology.h"

static char *json_of(const struct topology *t)
{
    struct js *o = topology_json(t);
    char *text = js_line(o);

    js_free(o);
    return text;
}

static struct topology *load(const void *data, size_t size)
{
    struct err err = ERR_INIT;
    struct topology *t = NULL;
    char path[64];
    int fd = fuzz_file(data, size, path);

    if (topology_from_json(path, &t, &err) < 0 ? t || err.code == ERR_NONE : !t)
        abort();
    close(fd);
    err_release(&err);
    return t;
}

typedef int emitter(const struct topology *t, FILE *fp, struct err *err);

/* The text, or NULL with nothing written; the caller's to free(). */
static char *emit(emitter *to, const struct topology *t)
{
    struct err err = ERR_INIT;
    char *text = NULL;
    size_t n;
    FILE *fp = open_memstream(&text, &n);
    int rc = to(t, fp, &err);

    fclose(fp);
    if (rc < 0 ? n || err.code == ERR_NONE : !n)
        abort();
    if (rc < 0) {
        free(text);
        text = NULL;
    }
    err_release(&err);
    return text;
}

static int print(const struct topology *t, FILE *fp, struct err *err)
{
    (void)err;
    topology_print(t, fp);
    return 0;
}

static void check_equal(const struct topology *t)
{
    char *a = json_of(t), *b;
    struct topology *back = load(a, strlen(a));

    if (!back)
        abort();
    b = json_of(back);
    if (strcmp(a, b) != 0)
        abort();
    topology_free(back);
    free(a);
    free(b);
}

/* What is written for NCCL is a file that is read again. */
static void check_ncclxml(const struct topology *t)
{
    char *text = emit(topology_emit_ncclxml, t);
    struct err err = ERR_INIT;
    struct topology *back = NULL;

    if (text && topology_from_ncclxml_text(text, strlen(text), "back", &back, &err) < 0)
        abort();
    topology_free(back);
    err_release(&err);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct topology *t = load(data, size);

    if (!t)
        return 0;
    check_equal(t);
    topology_inspect(t);
    fabric_inspect(t);
    free(emit(print, t));
    check_ncclxml(t);
    free(emit(topology_emit_hca, t));
    free(emit(topology_emit_svg, t));
    free(emit(topology_emit_slurmconf, t));
    free(emit(topology_emit_slurmyaml, t));
    topology_free(t);
    return 0;
}
