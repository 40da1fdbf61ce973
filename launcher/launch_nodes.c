#include "launcher/launch_nodes.h"

#include <stdlib.h>

#include "base/err.h"
#include "launcher/launch_args.h"
#include "launcher/node.h"
#include "recipes/value.h"

static int open_for_tests(const char *count, struct nodes **nodes, struct err *err)
{
    int64_t n;

    if (value_int64(count, &n, err) < 0)
        return err_wrap(err, "MUSTER_TEST_LOCAL_AGENTS");
    if (n < 1 || n > 64)
        return err_set(err, ERR_USAGE, "MUSTER_TEST_LOCAL_AGENTS=%s: 1 to 64", count);
    return nodes_open_local((int)n, nodes, err);
}

int launch_nodes_open(const struct launch_args *a, const struct recipe *r,
                      struct nodes **nodes, struct topology **topology, struct err *err)
{
    const char *test = getenv("MUSTER_TEST_LOCAL_AGENTS");

    (void)a, (void)r;
    *nodes = NULL;
    if (!test || !*test)
        return 0;
    if (open_for_tests(test, nodes, err) < 0)
        return -1;
    if (nodes_topology(*nodes, topology, err) == 0)
        return 0;
    nodes_close(*nodes);
    *nodes = NULL;
    return -1;
}
