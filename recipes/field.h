/* field.h - one row for every key of a recipe, and what can be done with a row.
 *
 * Inside recipes/ only: everybody else uses recipe.h.  The table in
 * field_table.c is the single description of the format: parsing, ranges,
 * defaults, printing, copying, sweeps, `--set` and the reference all walk it. */
#ifndef RECIPES_FIELD_H
#define RECIPES_FIELD_H

#include <stddef.h>

#include "base/str.h"

struct err;
struct recipe;
struct yaml_node;

enum field_type {
    FIELD_INT,   /* int */
    FIELD_INT64, /* int64_t */
    FIELD_REAL,  /* double */
    FIELD_BOOL,  /* int */
    FIELD_WORD,  /* an enum, by its word */
    FIELD_TEXT,  /* char *, owned, never NULL */
    FIELD_TEXTS, /* struct strlist */
    FIELD_INTS,  /* struct intlist */
    FIELD_REALS, /* struct reallist */
};

struct field {
    const char *key; /* "training.steps" */
    size_t offset;   /* in struct recipe */
    enum field_type type;
    int above_min;     /* min itself is not allowed */
    double min, max;   /* of a number, inclusive */
    const char *minus; /* what -1 means ("auto"); NULL: -1 is like any number */
    const char *const *words;
    int n_words;
    int swept;       /* may stand in scale.sweep */
    int pairs;       /* of FIELD_TEXTS: NAME=VALUE, in a file NAME: value as well */
    const char *def; /* as text; NULL: none (the preset gives it) */
    const char *doc;
};

extern const struct field fields[];
extern const int n_fields;

const struct field *field_find(const char *key);

/* Set from one scalar's text.  quoted: it stood in quotes, so only text fields
 * take it.  Messages begin with the key. */
int field_set(const struct field *f, struct recipe *r, const char *text, int quoted,
              struct err *err);
/* Add one element to a list field. */
int field_add(const struct field *f, struct recipe *r, const char *text, int quoted,
              struct err *err);
int field_is_list(const struct field *f);

/* Elements of a list; -1 for a scalar. */
int field_count(const struct field *f, const struct recipe *r);
/* Append scalar or element i as YAML that field_set()/field_add() read back. */
void field_print(const struct field *f, const struct recipe *r, int i, struct str *out);

void field_copy(const struct field *f, struct recipe *to, const struct recipe *from);
void field_clear(const struct field *f, struct recipe *r); /* to empty; frees */

/* "whole number", "text", ...; "1 .. 8192"; appended to out. */
const char *field_type_name(const struct field *f);
void field_range(const struct field *f, struct str *out);

/* "unknown key 'x' (did you mean ...?)"; the value is -1. */
int recipe_unknown_key(const char *key, struct err *err);

#endif
