/* Host lists: any text is names that fold and expand back, or an error. */
#include "fuzz.h"

#include "base/err.h"
#include "base/str.h"
#include "topology/hostlist.h"

static void check_names(struct strlist *names)
{
    char *folded = hostlist_fold(names);
    struct strlist again = { 0 };
    struct err err = ERR_INIT;
    int n;

    if (hostlist_expand(folded, &again, &err) < 0 || again.n != names->n)
        abort();
    for (int i = 0; i < names->n; i++)
        if (!hostlist_name_valid(names->item[i]) ||
            strcmp(names->item[i], again.item[i]) != 0)
            abort();
    n = hostlist_unique(names, NULL);
    if (n + names->n != again.n || names->n < 1)
        abort();
    free(folded);
    strlist_release(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    struct strlist names = { 0 };
    struct err err = ERR_INIT;
    int n = -1, rc;

    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    rc = hostlist_count(text, &n, &err);
    if (rc == 0 && n > 4096) { /* as good, only slower */
        free(text);
        return 0;
    }
    if (hostlist_expand(text, &names, &err) != rc)
        abort();
    if (rc == 0 && names.n != n)
        abort();
    if (rc < 0 && (names.n || err.code != ERR_USAGE))
        abort();
    if (rc == 0)
        check_names(&names);
    strlist_release(&names);
    err_release(&err);
    free(text);
    return 0;
}
