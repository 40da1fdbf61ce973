#include "topology/svg.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum { MARGIN = 24, RAILS = 8 };

/* Strokes and rails are mid tones that stand on both grounds; only grounds, fills and
 * ink change in the dark. */
static const char style[] =
    "text{font-family:system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif;"
    "fill:#1c2430}\n"
    ".t{font-size:20px;font-weight:700}.h{font-size:14px;font-weight:700}"
    ".b{font-size:12px;font-weight:700}.l{font-size:11px}.n{font-size:10px}\n"
    ".soft{fill:#5b6675}.failed{fill:#c62f36}.warned{fill:#9a5b00}\n"
    ".ground{fill:#ffffff}.panel{fill:#f3f5f8;stroke:#d4dae2}"
    ".strip{fill:#e3e8ef;stroke:#c3ccd8}.cell{fill:#ffffff;stroke:#b9c3cf}\n"
    ".gpu{fill:#e6f4e1;stroke:#5a9e2f;stroke-width:1.5}"
    ".nic{fill:#ffffff;stroke:#8f9bab}.pcie{fill:#dde3ea;stroke:#8492a6}"
    ".nvswitch{fill:#d3ebc4;stroke:#5a9e2f;stroke-width:1.5}\n"
    ".leaf{fill:#eef2fb;stroke:#5f7bb8}.spine{fill:#e2e8f7;stroke:#5f7bb8}"
    ".more{fill:none;stroke:#8f9bab;stroke-dasharray:4 3}\n"
    "line,path{fill:none;stroke-linecap:round}"
    ".wire{stroke:#8492a6}.nvlink{stroke:#6fae3c}.trunk{stroke:#5f7bb8;opacity:.45}"
    ".thin{stroke:#d98200}.wrong{stroke:#d6404a;stroke-dasharray:5 3}\n"
    ".fail{fill:none;stroke:#d6404a;stroke-width:2.5}"
    ".warn{fill:none;stroke:#d98200;stroke-width:2.5}"
    ".dotfail{fill:#d6404a}.dotwarn{fill:#d98200}.dotnote{fill:#8492a6}\n"
    ".rail0{stroke:#2f6fde}.rail1{stroke:#d9730d}.rail2{stroke:#8a4fd3}"
    ".rail3{stroke:#0e97a5}.rail4{stroke:#c2378b}.rail5{stroke:#94761f}"
    ".rail6{stroke:#5c7d8f}.rail7{stroke:#b3512f}.norail{stroke:#8492a6}"
    ".store{stroke:#7a5c3e}.manage{stroke:#9aa5b3}\n"
    "@media (prefers-color-scheme:dark){text{fill:#e8ecf2}.soft{fill:#a3afbf}"
    ".failed{fill:#ff8087}.warned{fill:#f2b25c}.ground{fill:#14181e}"
    ".panel{fill:#1c222b;stroke:#38424f}.strip{fill:#27303b;stroke:#465261}"
    ".cell,.nic{fill:#222a34;stroke:#5a6776}.gpu{fill:#1f3320}"
    ".pcie{fill:#323d4a;stroke:#8492a6}.nvswitch{fill:#294524}"
    ".leaf{fill:#222c42}.spine{fill:#2a3652}}\n";

static void reach(struct svg *s, double x, double y)
{
    s->w = x > s->w ? x : s->w;
    s->h = y > s->h ? y : s->h;
}

/* Bytes of the character at p: 0 when it is none that SVG may hold. */
static size_t char_bytes(const char *p)
{
    const unsigned char *u = (const unsigned char *)p;
    size_t n = *u < 0x80                 ? 1
               : *u >= 0xc2 && *u < 0xe0 ? 2
               : *u >= 0xe0 && *u < 0xf0 ? 3
                                         : 0;

    if (*u < ' ' || *u == 0x7f)
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((u[i] & 0xc0) != 0x80)
            return 0;
    return n;
}

/* What a character is called where it would mean something; NULL: it stands for itself. */
static const char *spelled(const char *p)
{
    switch (*p) {
    case '&':
        return "&amp;";
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '"':
        return "&quot;";
    default:
        return char_bytes(p) ? NULL : "?";
    }
}

/* At most `chars` characters of text. */
static void add_escaped(struct str *s, const char *text, size_t chars)
{
    for (; *text && chars > 0; chars--) {
        const char *word = spelled(text);
        size_t n = char_bytes(text);
        if (word)
            str_adds(s, word);
        else
            str_add(s, text, n);
        text += n ? n : 1;
    }
}

static size_t count_chars(const char *text)
{
    size_t count = 0;

    for (; *text; count++) {
        size_t n = char_bytes(text);
        text += n ? n : 1;
    }
    return count;
}

/* Of DejaVu Sans, the widest of the fonts above; capitals are wider, blanks narrower. */
static double char_width(const char *class)
{
    static const struct {
        char class;
        double px;
    } widths[] = {
        { 't', 14.2 }, { 'h', 9.9 }, { 'b', 8.4 }, { 'l', 6.75 }, { 'n', 6.15 }
    };

    for (size_t i = 0; i < ARRAY_LEN(widths); i++)
        if (widths[i].class == *class)
            return widths[i].px;
    return 8;
}

double svg_width(const char *class, const char *text)
{
    return (double)count_chars(text) * char_width(class);
}

static void add_tip(struct svg *s, const char *tip)
{
    str_adds(&s->body, "<title>");
    add_escaped(&s->body, tip, 4096);
    str_adds(&s->body, "</title>");
}

void svg_box(struct svg *s, const char *class, double x, double y, double w, double h,
             const char *tip)
{
    str_addf(&s->body,
             "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" "
             "height=\"%.1f\" rx=\"4\"",
             class, x, y, w, h);
    if (tip) {
        str_adds(&s->body, ">");
        add_tip(s, tip);
        str_adds(&s->body, "</rect>\n");
    } else
        str_adds(&s->body, "/>\n");
    reach(s, x + w, y + h);
}

void svg_line(struct svg *s, const char *class, double x1, double y1, double x2,
              double y2, double width)
{
    str_addf(&s->body,
             "<line class=\"%s\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" "
             "stroke-width=\"%.1f\"/>\n",
             class, x1, y1, x2, y2, width);
}

void svg_bow(struct svg *s, const char *class, const double at[4], double y,
             double width)
{
    str_addf(&s->body,
             "<path class=\"%s\" d=\"M%.1f %.1fC%.1f %.1f %.1f %.1f %.1f %.1f\" "
             "stroke-width=\"%.1f\"/>\n",
             class, at[0], at[1], at[0], y, at[2], y, at[2], at[3], width);
}

void svg_dot(struct svg *s, const char *class, double x, double y, double r)
{
    str_addf(&s->body, "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\"/>\n",
             class, x, y, r);
}

void svg_text(struct svg *s, const char *class, enum anchor a, double x, double y,
              double room, const char *fmt, ...)
{
    static const char *const anchors[] = { "start", "middle", "end" };
    va_list ap;
    char *text;
    size_t chars, fit;

    va_start(ap, fmt);
    text = xvasprintf(fmt, ap);
    va_end(ap);
    chars = count_chars(text);
    fit = room < 0 || svg_width(class, text) <= room
              ? chars
              : (size_t)(room / char_width(class));
    str_addf(&s->body, "<text class=\"%s\" text-anchor=\"%s\" x=\"%.1f\" y=\"%.1f\">",
             class, anchors[a], x, y);
    if (fit < chars) {
        add_tip(s, text);
        add_escaped(&s->body, text, fit > 1 ? fit - 1 : 0);
        str_adds(&s->body, "\xe2\x80\xa6");
    } else
        add_escaped(&s->body, text, chars);
    str_adds(&s->body, "</text>\n");
    if (a == LEFT)
        reach(s, x + (double)fit * char_width(class), y + 4);
    free(text);
}

const char *svg_rail(int rail)
{
    static const char *const names[RAILS] = { "rail0", "rail1", "rail2", "rail3",
                                              "rail4", "rail5", "rail6", "rail7" };

    return rail < 0 ? "norail" : names[rail % RAILS];
}

void svg_finish(struct svg *s, const char *title, FILE *fp)
{
    double w = s->w + MARGIN, h = s->h + MARGIN;
    struct str name = STR_INIT;

    str_adds(&name, "");
    add_escaped(&name, title, 4096);
    fprintf(fp,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
            "viewBox=\"0 0 %.0f %.0f\" role=\"img\">\n<title>%s</title>\n<style>\n%s"
            "</style>\n<rect class=\"ground\" width=\"100%%\" height=\"100%%\"/>\n%s"
            "</svg>\n",
            w, h, w, h, name.text, style, s->body.len ? s->body.text : "");
    str_release(&name);
    str_release(&s->body);
}
