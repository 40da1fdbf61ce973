/* pmix_hello - meet all ranks through PMIx and leave.
 *   pmix_hello [late R]...   these ranks sleep for a minute before PMIx_Init
 * Rank 0 says how many met. */
#include <pmix.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int is_late(int argc, char **argv)
{
    const char *rank = getenv("RANK");

    for (int i = 1; i + 1 < argc; i += 2)
        if (rank && strcmp(argv[i], "late") == 0 && strcmp(argv[i + 1], rank) == 0)
            return 1;
    return 0;
}

int main(int argc, char **argv)
{
    pmix_value_t *v = NULL;
    pmix_proc_t me, all;
    bool yes = true;
    pmix_info_t collect;
    unsigned n = 0;

    if (is_late(argc, argv))
        sleep(60);
    if (PMIx_Init(&me, NULL, 0) != PMIX_SUCCESS)
        return 1;
    PMIX_LOAD_PROCID(&all, me.nspace, PMIX_RANK_WILDCARD);
    if (PMIx_Get(&all, PMIX_JOB_SIZE, NULL, 0, &v) == PMIX_SUCCESS) {
        n = v->data.uint32;
        PMIX_VALUE_RELEASE(v);
    }
    PMIX_INFO_LOAD(&collect, PMIX_COLLECT_DATA, &yes, PMIX_BOOL);
    if (PMIx_Fence(&all, 1, &collect, 1) != PMIX_SUCCESS)
        return 1;
    if (me.rank == 0)
        printf("%u ranks have met\n", n);
    return PMIx_Finalize(NULL, 0) == PMIX_SUCCESS && n > 0 ? 0 : 1;
}
