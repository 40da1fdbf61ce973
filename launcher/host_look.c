#include "launcher/host_look.h"

#include <arpa/inet.h>
#include <gnu/libc-version.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"

#define MARK "muster-look "

static const char command[] =
    "say() { echo \"" MARK "$1 $2\"; }\n"
    "say hostname \"$(uname -n)\"\n"
    "say system \"$(uname -s)\"\n"
    "say machine \"$(uname -m)\"\n"
    "say boot_id \"$(cat /proc/sys/kernel/random/boot_id)\"\n"
    "say glibc \"$(getconf GNU_LIBC_VERSION 2>/dev/null)\"\n"
    "say own_address \"$(getent ahosts \"$(uname -n)\" 2>/dev/null | head -n 1)\"\n"
    "[ -e /proc/driver/nvidia/version ] && say nvidia 1\n"
    "umask 077\n"
    "f=$HOME/.muster-look.$$\n"
    "printf '#!/bin/sh\\nexit 0\\n' >\"$f\" && chmod 700 \"$f\" && { \"$f\" || "
    "say noexec 1; }\n"
    "rm -f \"$f\"\n";

const char *host_look_command(void)
{
    return command;
}

/* --- reading ------------------------------------------------------------------------ */

/* `at` into struct host_look; the value's `word`th word is taken. */
static const struct key {
    const char *name;
    size_t at;
    int word;
    int required;
} keys[] = {
    { "hostname ", offsetof(struct host_look, hostname), 0, 1 },
    { "system ", offsetof(struct host_look, system), 0, 1 },
    { "machine ", offsetof(struct host_look, machine), 0, 1 },
    { "boot_id ", offsetof(struct host_look, boot_id), 0, 1 },
    { "glibc ", offsetof(struct host_look, glibc), 1, 0 }, /* "glibc 2.36" */
    { "own_address ", offsetof(struct host_look, own_address), 0, 0 },
};

static char **field(const struct host_look *h, const struct key *k)
{
    return (char **)((char *)h + k->at);
}

/* The wanted word of a line, the caller's to free(), or NULL. */
static char *word_of(const char *value, int word)
{
    static const char blanks[] = " \t\r";
    size_t n;

    for (; word > 0; word--) {
        value += strcspn(value, " \t\r\n");
        value += strspn(value, blanks);
    }
    n = strcspn(value, " \t\r\n");
    return n && n < 256 ? xstrndup(value, n) : NULL;
}

static void take_line(struct host_look *h, const char *line)
{
    if (strncmp(line, "noexec 1", 8) == 0)
        h->noexec = 1;
    if (strncmp(line, "nvidia 1", 8) == 0)
        h->nvidia = 1;
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        size_t n = strlen(keys[i].name);
        char **to = field(h, &keys[i]);
        if (strncmp(line, keys[i].name, n) == 0 && !*to)
            *to = word_of(line + n, keys[i].word);
    }
}

int host_look_parse(const char *text, const char *asked, struct host_look *out,
                    struct err *err)
{
    struct host_look h = { 0 };

    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, MARK, sizeof(MARK) - 1) == 0)
            take_line(&h, line + sizeof(MARK) - 1);
    }
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        if (!keys[i].required || *field(&h, &keys[i]))
            continue;
        host_look_release(&h);
        return err_set(
            err, ERR_FAILED,
            "%s: it does not say its %.*s: is its login shell POSIX, and /proc "
            "mounted?",
            asked, (int)strlen(keys[i].name) - 1, keys[i].name);
    }
    *out = h;
    return 0;
}

void host_look_release(struct host_look *h)
{
    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        free(*field(h, &keys[i]));
    free(h->asked);
    free(h->address);
    memset(h, 0, sizeof(*h));
}

/* --- all together ------------------------------------------------------------------- */

static int is_loopback(const char *address)
{
    struct in6_addr six;
    struct in_addr four;

    if (!address)
        return 0;
    if (inet_pton(AF_INET, address, &four) == 1)
        return ntohl(four.s_addr) >> 24 == 127;
    if (inet_pton(AF_INET6, address, &six) != 1)
        return 0;
    return IN6_IS_ADDR_LOOPBACK(&six) ||
           (IN6_IS_ADDR_V4MAPPED(&six) && six.s6_addr[12] == 127);
}

static void check_pair(const struct host_look *a, const struct host_look *b,
                       struct err *problems)
{
    if (strcmp(a->boot_id, b->boot_id) == 0)
        err_append(problems, ERR_FAILED,
                   "%s and %s are one machine (boot id %s): name it once, with slots=",
                   a->asked, b->asked, a->boot_id);
    else if (strcmp(a->hostname, b->hostname) == 0)
        err_append(problems, ERR_FAILED,
                   "%s and %s: same host name (%s), different machine (boot ids %s and "
                   "%s): give each a name of its own (hostnamectl)",
                   a->asked, b->asked, a->hostname, a->boot_id, b->boot_id);
}

static void check_addresses(const struct host_look *h, struct strlist *warnings,
                            struct err *problems)
{
    if (is_loopback(h->address))
        err_append(problems, ERR_FAILED,
                   "%s: the name leads to %s here, which is this machine for every "
                   "machine: correct /etc/hosts, or give HostName in ~/.ssh/config",
                   h->asked, h->address);
    if (is_loopback(h->own_address) && warnings) {
        char *text =
            xasprintf("%s: its own name %s leads to %s there; %s is used instead",
                      h->asked, h->hostname, h->own_address,
                      h->address ? h->address : "the interface that is chosen");
        strlist_add(warnings, text);
        free(text);
    }
}

int host_look_check(const struct host_look *h, int n, struct strlist *warnings,
                    struct err *err)
{
    struct err problems = ERR_INIT;
    int rc = 0;

    for (int i = 0; i < n; i++) {
        for (int k = 0; k < i; k++)
            check_pair(&h[k], &h[i], &problems);
        if (n > 1)
            check_addresses(&h[i], warnings, &problems);
    }
    if (problems.code != ERR_NONE)
        rc = err_set(err, problems.code, "%s", err_text(&problems));
    err_release(&problems);
    return rc;
}

/* --- one host and this build -------------------------------------------------------- */

/* "2.36" before "2.4"?  By numbers. */
static int is_older(const char *a, const char *b)
{
    while (*a && *b) {
        char *end_a, *end_b;
        long x = strtol(a, &end_a, 10), y = strtol(b, &end_b, 10);
        if (x != y)
            return x < y;
        if (end_a == a || end_b == b)
            return 0;
        a = end_a + (*end_a == '.');
        b = end_b + (*end_b == '.');
    }
    return 0;
}

const char *host_look_own_glibc(void)
{
    return gnu_get_libc_version();
}

int host_look_fits(const struct host_look *h, const char *glibc, struct err *err)
{
    struct utsname us;

    if (uname(&us) < 0)
        return err_set(err, ERR_SYSTEM, "uname: %m");
    if (strcmp(h->system, us.sysname) != 0 || strcmp(h->machine, us.machine) != 0)
        return err_set(
            err, ERR_FAILED,
            "%s is %s on %s, this muster is for %s on %s: install a muster of "
            "its own there",
            h->asked, h->system, h->machine, us.sysname, us.machine);
    if (!h->glibc || is_older(h->glibc, glibc))
        return err_set(err, ERR_FAILED,
                       "%s has glibc %s, this muster needs %s: build it on the older "
                       "system, or install one there",
                       h->asked, h->glibc ? h->glibc : "(none)", glibc);
    if (h->noexec)
        return err_set(
            err, ERR_FAILED,
            "%s: programs in the home folder do not start (mounted noexec?): "
            "install muster there",
            h->asked);
    return 0;
}
