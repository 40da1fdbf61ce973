#include "base/err.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"

void err_record(struct err *err, enum err_code code, const char *fmt, ...)
{
    char *text;
    va_list ap;

    if (!err)
        return;
    va_start(ap, fmt); /* the old text may be an argument: free it last */
    text = xvasprintf(fmt, ap);
    va_end(ap);
    free(err->text);
    err->text = text;
    err->code = code;
}

void err_prefix(struct err *err, const char *fmt, ...)
{
    char *context, *whole;
    va_list ap;

    if (!err || err->code == ERR_NONE)
        return;
    va_start(ap, fmt);
    context = xvasprintf(fmt, ap);
    va_end(ap);
    whole = xasprintf("%s: %s", context, err->text);
    free(context);
    free(err->text);
    err->text = whole;
}

void err_append(struct err *err, enum err_code code, const char *fmt, ...)
{
    char *line, *whole;
    va_list ap;

    if (!err)
        return;
    va_start(ap, fmt);
    line = xvasprintf(fmt, ap);
    va_end(ap);
    whole = err->text ? xasprintf("%s\n%s", err->text, line) : xstrdup(line);
    free(line);
    free(err->text);
    err->text = whole;
    if (err->code == ERR_NONE)
        err->code = code;
}

const char *err_text(const struct err *err)
{
    return err && err->text ? err->text : "no error";
}

void err_release(struct err *err)
{
    if (!err)
        return;
    free(err->text);
    err->text = NULL;
    err->code = ERR_NONE;
}
