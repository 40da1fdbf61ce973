/* svg.h - a drawing as SVG text.
 *
 * Lengths are pixels, the origin is above and to the left.  A class is a word of the
 * style sheet in svg.c: what a thing is, which decides its colour on light and on dark.
 * Texts are escaped, and cut with an ellipsis where they would be wider than their
 * place; the whole stands in the tooltip. */
#ifndef TOPOLOGY_SVG_H
#define TOPOLOGY_SVG_H

#include <stdio.h>

#include "base/str.h"

#ifdef __cplusplus
extern "C" {
#endif

struct svg {
    struct str body;
    double w, h; /* what is drawn so far ends here */
};

enum anchor { LEFT, MIDDLE, RIGHT };

/* Rounded; tip: a tooltip, NULL none. */
void svg_box(struct svg *s, const char *class, double x, double y, double w, double h,
             const char *tip);
void svg_line(struct svg *s, const char *class, double x1, double y1, double x2,
              double y2, double width);
/* From at[0], at[1] to at[2], at[3], bent towards height `y`. */
void svg_bow(struct svg *s, const char *class, const double at[4], double y,
             double width);
void svg_dot(struct svg *s, const char *class, double x, double y, double r);
/* class: "t" title, "h" heading, "b" bold, "l" label, "n" note, each may be followed by
 * more, "l warn".  (x, y) is the base line at the anchor; room < 0: any width. */
void svg_text(struct svg *s, const char *class, enum anchor a, double x, double y,
              double room, const char *fmt, ...) __attribute__((format(printf, 7, 8)));

/* About how wide a text of this class is: never narrower than it will be drawn. */
double svg_width(const char *class, const char *text);
/* "rail0" ... "rail7", again from 0 behind them; "norail" below 0. */
const char *svg_rail(int rail);

/* The document around what was drawn; releases it. */
void svg_finish(struct svg *s, const char *title, FILE *fp);

#ifdef __cplusplus
}
#endif
#endif
