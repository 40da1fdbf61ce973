/* Tokens, variables and '~' in values. */
#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "launcher/ssh_config_read.h"

char *ssh_config_host_name(const char *text, const char *name)
{
    struct str s = STR_INIT;

    for (; *text; text++) {
        if (*text != '%') {
            str_add(&s, text, 1);
        } else if (*++text == 'h') {
            str_adds(&s, name);
        } else if (*text == '%') {
            str_adds(&s, "%");
        } else {
            str_release(&s);
            return NULL;
        }
    }
    return str_take(&s);
}

static const char *home_of(const char *user)
{
    const struct passwd *pw = user ? getpwnam(user) : getpwuid(getuid());

    if (pw)
        return pw->pw_dir;
    return user ? NULL : getenv("HOME");
}

/* One token's value into s; 0: it is not known. */
static int add_token(struct str *s, const struct ssh_host *h, char token)
{
    const struct passwd *pw = getpwuid(getuid());
    char local[256] = "";

    if (strchr("lL", token) && gethostname(local, sizeof(local) - 1) < 0)
        return 0;
    if (token == 'L')
        local[strcspn(local, ".")] = '\0';
    switch (token) {
    case '%':
        str_adds(s, "%");
        return 1;
    case 'd':
        str_adds(s, home_of(NULL) ? home_of(NULL) : "");
        return 1;
    case 'h':
        str_adds(s, h->host);
        return 1;
    case 'i':
        str_addf(s, "%d", (int)getuid());
        return 1;
    case 'k':
        str_adds(s, h->key_alias ? h->key_alias : h->name);
        return 1;
    case 'L':
    case 'l':
        str_adds(s, local);
        return 1;
    case 'n':
        str_adds(s, h->name);
        return 1;
    case 'p':
        str_addf(s, "%d", h->port);
        return 1;
    case 'r':
        str_adds(s, h->user);
        return 1;
    case 'u':
        str_adds(s, pw ? pw->pw_name : "");
        return 1;
    default:
        return 0;
    }
}

/* "${NAME}" at *text into s; it moves behind. */
static int add_variable(struct str *s, const char **text, struct err *err)
{
    const char *begin = *text + 2, *end = strchr(begin, '}'), *value;
    char *name;

    if (!end)
        return err_set(err, ERR_USAGE, "ssh configuration: '%s' has no }", *text);
    name = xstrndup(begin, (size_t)(end - begin));
    value = getenv(name);
    if (!value)
        err_set(err, ERR_USAGE, "ssh configuration: the variable %s is not set", name);
    else
        str_adds(s, value);
    free(name);
    *text = end + 1;
    return value ? 0 : -1;
}

/* "~", "~/..." and "~user/..." at the start; the rest stays. */
static int add_home(struct str *s, const char **text, struct err *err)
{
    size_t n = strcspn(*text, "/");
    char *user = n > 1 ? xstrndup(*text + 1, n - 1) : NULL;
    const char *home = home_of(user);

    if (home)
        str_adds(s, home);
    else
        err_set(err, ERR_USAGE, "ssh configuration: %.*s: no such user", (int)n, *text);
    *text += n;
    free(user);
    return home ? 0 : -1;
}

char *ssh_config_path(const struct ssh_host *h, const char *text, struct err *err)
{
    const char *at = text;
    struct str s = STR_INIT;
    int rc = *at == '~' ? add_home(&s, &at, err) : 0;

    while (rc == 0 && *at) {
        if (at[0] == '$' && at[1] == '{') {
            rc = add_variable(&s, &at, err);
        } else if (at[0] == '%') {
            if (!add_token(&s, h, at[1]))
                rc = err_set(err, ERR_USAGE, "ssh configuration: %s: no token %%%c",
                             text, at[1] ? at[1] : ' ');
            at += 2;
        } else {
            str_add(&s, at++, 1);
        }
    }
    if (rc == 0)
        return s.text ? str_take(&s) : xstrdup("");
    str_release(&s);
    return NULL;
}
