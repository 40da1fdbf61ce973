#include "checks/pairs.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"

static int even(int n)
{
    return n + n % 2;
}

int pairs_rounds(int n)
{
    return n < 2 ? 0 : even(n) - 1;
}

int pairs_partner(int n, int round, int i)
{
    int circle = even(n) - 1, other;

    if (n < 2)
        return -1;
    if (i == circle)
        other = round;
    else
        other = ((2 * round - i) % circle + circle) % circle;
    if (other == i)
        other = circle;
    return other < n ? other : -1;
}

static void add(struct pair_list *l, int a, int b, int round)
{
    l->item = xrealloc(l->item, (size_t)l->n + 1, sizeof(*l->item));
    l->item[l->n++] = (struct pair){ a, b, round };
    if (round >= l->rounds)
        l->rounds = round + 1;
}

void pairs_all(int n, struct pair_list *out)
{
    *out = (struct pair_list){ 0 };
    for (int r = 0; r < pairs_rounds(n); r++)
        for (int i = 0; i < n; i++) {
            int other = pairs_partner(n, r, i);

            if (other > i)
                add(out, i, other, r);
        }
}

int pairs_find(const struct pair_list *l, int round, int i)
{
    for (int k = 0; k < l->n; k++) {
        const struct pair *p = &l->item[k];

        if (p->round == round && (p->a == i || p->b == i))
            return p->a == i ? p->b : p->a;
    }
    return -1;
}

/* --- a list by name ------------------------------------------------------------------ */

static int place_of(const struct strlist *machines, const char *name, size_t len)
{
    for (int i = 0; i < machines->n; i++)
        if (strlen(machines->item[i]) == len &&
            strncmp(machines->item[i], name, len) == 0)
            return i;
    return -1;
}

static int parse_one(const char *at, size_t len, const struct strlist *machines,
                     struct pair_list *l, struct err *err)
{
    const char *colon = memchr(at, ':', len);
    size_t left = colon ? (size_t)(colon - at) : 0;
    int a, b, round = 0;

    if (!colon || left == 0 || left + 1 == len)
        return err_set(err, ERR_USAGE, "pair '%.*s': NODE:NODE is wanted", (int)len,
                       at);
    a = place_of(machines, at, left);
    b = place_of(machines, colon + 1, len - left - 1);
    if (a < 0 || b < 0)
        return err_set(err, ERR_USAGE, "pair '%.*s': no rank runs on '%.*s'", (int)len,
                       at, (int)(a < 0 ? left : len - left - 1),
                       a < 0 ? at : colon + 1);
    if (a == b)
        return err_set(err, ERR_USAGE, "pair '%.*s': two different nodes are wanted",
                       (int)len, at);
    while (pairs_find(l, round, a) >= 0 || pairs_find(l, round, b) >= 0)
        round++;
    add(l, a, b, round);
    return 0;
}

int pairs_parse(const char *text, const struct strlist *machines, struct pair_list *out,
                struct err *err)
{
    struct pair_list l = { 0 };

    for (const char *at = text; *at; at += *at == ',') {
        size_t len = strcspn(at, ",");

        if (parse_one(at, len, machines, &l, err)) {
            pairs_release(&l);
            return -1;
        }
        at += len;
    }
    *out = l;
    return 0;
}

void pairs_release(struct pair_list *l)
{
    free(l->item);
    *l = (struct pair_list){ 0 };
}
