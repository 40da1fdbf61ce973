/* pmix_fence - is a fence a barrier, and does everybody's data arrive?
 *   pmix_fence [K]    K fences (6), every other one without collecting data
 * Each rank sleeps for a random time before each, prints "fence K enter LEAVE" times of
 * CLOCK_MONOTONIC, and reads the next rank's value, which without collection goes the
 * direct way.  Last, ranks of equal parity fence among themselves. */
#include <pmix.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int put(int k, unsigned rank)
{
    pmix_value_t v;
    char key[32];

    snprintf(key, sizeof(key), "k%d", k);
    v.type = PMIX_UINT32;
    v.data.uint32 = rank * 1000 + (unsigned)k;
    return PMIx_Put(PMIX_GLOBAL, key, &v) || PMIx_Commit();
}

static int get(const pmix_proc_t *from, int k)
{
    pmix_value_t *v = NULL;
    char key[32];
    int ok;

    snprintf(key, sizeof(key), "k%d", k);
    if (PMIx_Get(from, key, NULL, 0, &v) != PMIX_SUCCESS)
        return 1;
    ok = v->data.uint32 == from->rank * 1000 + (unsigned)k;
    PMIX_VALUE_RELEASE(v);
    return !ok;
}

static int fence(const pmix_proc_t *who, size_t n, int k, bool collect)
{
    pmix_info_t info;
    double enter, leave;
    int rc;

    PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, &collect, PMIX_BOOL);
    enter = now();
    rc = PMIx_Fence(who, n, &info, 1);
    leave = now();
    if (n == 1)
        printf("fence %d %.6f %.6f\n", k, enter, leave);
    return rc != PMIX_SUCCESS;
}

static int parity_fence(const pmix_proc_t *me, unsigned world)
{
    pmix_proc_t *who = calloc(world, sizeof(*who));
    size_t n = 0;
    int bad;

    for (unsigned r = me->rank % 2; r < world; r += 2, n++)
        PMIX_LOAD_PROCID(&who[n], me->nspace, r); /* a macro that reads it twice */
    bad = n > 1 && fence(who, n, -1, true);
    free(who);
    return bad;
}

int main(int argc, char **argv)
{
    int fences = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 6, bad = 0;
    pmix_proc_t me, all, next;
    pmix_value_t *v = NULL;
    unsigned world;

    if (PMIx_Init(&me, NULL, 0) != PMIX_SUCCESS)
        return 1;
    PMIX_LOAD_PROCID(&all, me.nspace, PMIX_RANK_WILDCARD);
    if (PMIx_Get(&all, PMIX_JOB_SIZE, NULL, 0, &v) != PMIX_SUCCESS)
        return 1;
    world = v->data.uint32;
    PMIX_VALUE_RELEASE(v);
    PMIX_LOAD_PROCID(&next, me.nspace, (me.rank + world / 2) % world);
    srand((unsigned)getpid());
    for (int k = 0; k < fences; k++) {
        usleep((unsigned)rand() % 20000);
        bad |= put(k, me.rank) || fence(&all, 1, k, k % 2 == 0) || get(&next, k);
    }
    bad |= parity_fence(&me, world);
    printf("%s\n", bad ? "wrong" : "right");
    PMIx_Finalize(NULL, 0);
    return bad;
}
