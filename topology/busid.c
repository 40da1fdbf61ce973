/* PCI bus ids: DOMAIN:BUS:DEVICE.FUNCTION, hexadecimal. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#include "topology/topology.h"

/* At most `digits` hexadecimal digits, then `after`; NULL: not so. */
static const char *field(const char *p, int digits, char after, unsigned *out)
{
    int n = 0;

    *out = 0;
    for (; n < digits && isxdigit((unsigned char)*p); n++, p++) {
        char digit[2] = { *p, '\0' };
        *out = *out * 16 + (unsigned)strtoul(digit, NULL, 16);
    }
    if (n == 0 || *p != after)
        return NULL;
    return after ? p + 1 : p;
}

struct busid {
    unsigned domain, bus, device, function;
};

static const char *parse_short(const char *p, struct busid *b)
{
    p = field(p, 2, ':', &b->bus);
    p = p ? field(p, 2, '.', &b->device) : NULL;
    return p ? field(p, 1, '\0', &b->function) : NULL;
}

static int parse(const char *text, struct busid *b)
{
    const char *p = field(text, 8, ':', &b->domain);

    if (p && parse_short(p, b))
        return 0;
    b->domain = 0;
    return parse_short(text, b) ? 0 : -1;
}

int busid_valid(const char *text)
{
    struct busid b;

    return parse(text, &b) == 0;
}

void busid_normalise(const char *text, char out[20])
{
    struct busid b;

    if (parse(text, &b) == 0)
        snprintf(out, 20, "%04x:%02x:%02x.%x", b.domain, b.bus, b.device, b.function);
    else
        snprintf(out, 20, "%.19s", text);
}
