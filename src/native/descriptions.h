/* A kernel's description, read once when the module is loaded. */
#ifndef TANAGER_DESCRIPTIONS_H
#define TANAGER_DESCRIPTIONS_H
#include "arrays.h"

#define MAX_NAMES 32
#define MAX_TOKENS 120
#define MAX_RULES 8
#define MAX_AXES 4

/* A sum of products in postfix order. */
typedef struct {
    uint8_t first, n;
} Expression;

typedef struct {
    enum { NUMBER_TOKEN, NAME_TOKEN, ELEMENT_TOKEN, ELEMENT_AT_TOKEN, ADD, SUBTRACT, MULTIPLY } kind;
    int32_t a, b; /* the number, name or argument; the argument that gives the place */
} Token;

typedef struct {
    const char *text; /* from its name to the end of its line */
    uint8_t name_length, text_length;
    uint8_t types;    /* a bit for each type that fits; none: a number */
    int8_t name;      /* of a whole number: where its value is kept, else -1 */
    uint8_t real, written, may_be_empty, may_be_negative, n_axes, has_least;
    int32_t least;
    Expression axes[MAX_AXES], below, rising;
} Described;

typedef struct {
    const char *text;
    uint8_t text_length;
    Expression left, right;
    int8_t over; /* the argument over whose elements it goes, or -1 */
} Rule;

typedef struct {
    const Kernel *kernel;
    int n_arguments, n_names, n_rules, n_tokens;
    Described arguments[MAX_ARGUMENTS];
    Rule rules[MAX_RULES];
    struct {
        const char *text;
        uint8_t length, bound;
    } names[MAX_NAMES];
    Token tokens[MAX_TOKENS];
} Description;

/* Both set a Python error and return -1 if there is a fault. */
int read_description(const Kernel *kernel, Description *out);
int take_arguments(const Description *description, PyObject *const *given, Py_ssize_t n_given,
                   PyObject *keywords, Argument *arguments);
void release_arguments(const Description *description, Argument *arguments, int n);

#endif
