/* Reads the descriptions of kernels, and checks arguments against them; see arrays.h. */
#include "descriptions.h"
#include <stdio.h>

#define MESSAGE 600

static const struct {
    const char *name, *formats;
    int64_t size;
} TYPES[] = {
    {"uint8", "B?", 1}, {"uint16", "H", 2},   {"int32", "il", 4},
    {"int64", "lq", 8}, {"uint64", "LQ", 8}, {"float64", "d", 8},
};
enum { N_TYPES = sizeof TYPES / sizeof TYPES[0], LONG_TYPE = 3 };

/* ---- reading ---- */

typedef struct {
    const char *at;
    Description *out;
    int failed;
} Reader;

static int is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c >= '0' && c <= '9');
}

static void skip_spaces(Reader *reader)
{
    while (*reader->at == ' ')
        reader->at++;
}

static int length_of_word(const char *text)
{
    int n = 0;
    while (is_letter(text[n]))
        n++;
    return n;
}

static int same_word(const char *a, int length_a, const char *b, int length_b)
{
    return length_a == length_b && !memcmp(a, b, (size_t)length_a);
}

/* Go past some text if it comes next. A word must end where the text ends. */
static int accept_text(Reader *reader, const char *text)
{
    skip_spaces(reader);
    size_t n = strlen(text);
    if (strncmp(reader->at, text, n) || (is_letter(text[n - 1]) && is_letter(reader->at[n])))
        return 0;
    reader->at += n;
    return 1;
}

static void demand(Reader *reader, int holds)
{
    reader->failed |= !holds;
}

static int find_argument(const Description *d, const char *word, int length)
{
    for (int k = 0; k < d->n_arguments; k++)
        if (same_word(d->arguments[k].text, d->arguments[k].name_length, word, length))
            return k;
    return -1;
}

/* The number of a name, new or known. */
static int find_name(Reader *reader, const char *word, int length)
{
    Description *d = reader->out;
    for (int k = 0; k < d->n_names; k++)
        if (same_word(d->names[k].text, d->names[k].length, word, length))
            return k;
    if (d->n_names == MAX_NAMES) {
        reader->failed = 1;
        return 0;
    }
    d->names[d->n_names].text = word;
    d->names[d->n_names].length = (uint8_t)length;
    return d->n_names++;
}

static void push(Reader *reader, int kind, int32_t a, int32_t b)
{
    Description *d = reader->out;
    if (d->n_tokens == MAX_TOKENS) {
        reader->failed = 1;
        return;
    }
    Token token = {kind, a, b};
    d->tokens[d->n_tokens++] = token;
}

static int is_array(const Description *d, int argument)
{
    const char *type = d->arguments[argument].text + d->arguments[argument].name_length;
    return !(strncmp(type, ": int", 5) == 0 && !is_letter(type[5])) &&
           !(strncmp(type, ": float", 7) == 0 && !is_letter(type[7]));
}

/* An array read inside a rule; the first one without a place says over what the rule goes. */
static void read_atom(Reader *reader, int8_t *over)
{
    skip_spaces(reader);
    const char *word = reader->at;
    int length = length_of_word(word);
    demand(reader, length > 0);
    reader->at += length;
    if (word[0] >= '0' && word[0] <= '9') {
        push(reader, NUMBER_TOKEN, atoi(word), 0);
        return;
    }
    int argument = find_argument(reader->out, word, length);
    if (argument < 0 || !is_array(reader->out, argument)) {
        push(reader, NAME_TOKEN, find_name(reader, word, length), 0);
        return;
    }
    demand(reader, over != NULL);
    int direct = argument, place = -1;
    if (*reader->at == '[') {
        word = ++reader->at;
        length = length_of_word(word);
        direct = place = find_argument(reader->out, word, length);
        reader->at += length;
        demand(reader, place >= 0 && is_array(reader->out, place) && *reader->at++ == ']');
    }
    if (over && *over < 0)
        *over = (int8_t)direct;
    push(reader, place < 0 ? ELEMENT_TOKEN : ELEMENT_AT_TOKEN, argument, place);
}

static Expression read_expression(Reader *reader, int8_t *over)
{
    int first = reader->out->n_tokens, sum = -1;
    do {
        read_atom(reader, over);
        while (accept_text(reader, "*")) {
            read_atom(reader, over);
            push(reader, MULTIPLY, 0, 0);
        }
        if (sum >= 0)
            push(reader, sum, 0, 0);
        sum = accept_text(reader, "+") ? ADD : accept_text(reader, "-") ? SUBTRACT : -1;
    } while (sum >= 0 && !reader->failed);
    Expression found = {(uint8_t)first, (uint8_t)(reader->out->n_tokens - first)};
    return found;
}

/* The name whose value a length gives, or -1: it is the length itself, or so many less. */
static int binds(const Description *d, Expression e, int64_t *less)
{
    const Token *token = d->tokens + e.first;
    *less = e.n == 3 ? token[1].a : 0;
    int sum = e.n == 3 && token[1].kind == NUMBER_TOKEN && token[2].kind == ADD;
    return (e.n == 1 || sum) && token[0].kind == NAME_TOKEN ? token[0].a : -1;
}

static void read_type(Reader *reader, Described *argument)
{
    Description *d = reader->out;
    argument->name = -1;
    if (accept_text(reader, "int")) {
        argument->name = (int8_t)find_name(reader, argument->text, argument->name_length);
        d->names[argument->name].bound = 1;
    } else if (accept_text(reader, "float"))
        argument->real = 1;
    else {
        do
            for (int k = 0; k < N_TYPES; k++)
                if (accept_text(reader, TYPES[k].name))
                    argument->types |= (uint8_t)(1 << k);
        while (accept_text(reader, "|"));
        demand(reader, argument->types && accept_text(reader, "["));
        do {
            demand(reader, argument->n_axes < MAX_AXES);
            if (reader->failed)
                return;
            Expression axis = read_expression(reader, NULL);
            int64_t less;
            int name = binds(d, axis, &less);
            if (name >= 0)
                d->names[name].bound = 1;
            argument->axes[argument->n_axes++] = axis;
        } while (accept_text(reader, ","));
        demand(reader, accept_text(reader, "]"));
    }
    while (!reader->failed && (skip_spaces(reader), *reader->at != '\n') && *reader->at)
        if (accept_text(reader, "written"))
            argument->written = 1;
        else if (accept_text(reader, "or empty"))
            argument->may_be_empty = 1;
        else if (accept_text(reader, "or negative"))
            argument->may_be_negative = 1;
        else if (accept_text(reader, "below"))
            argument->below = read_expression(reader, NULL);
        else if (accept_text(reader, "rising to"))
            argument->rising = read_expression(reader, NULL);
        else if (accept_text(reader, "from")) {
            skip_spaces(reader);
            argument->has_least = 1;
            argument->least = atoi(reader->at);
            reader->at += *reader->at == '-';
            reader->at += length_of_word(reader->at);
        } else
            reader->failed = 1;
}

int read_description(const Kernel *kernel, Description *out)
{
    Reader reader = {kernel->description, out, 0};
    memset(out, 0, sizeof *out);
    out->kernel = kernel;
    /* Names of arguments first: a line may speak of those below it. */
    for (const char *line = kernel->description; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        int length = length_of_word(line);
        if (line[length] != ':')
            break;
        if (out->n_arguments == MAX_ARGUMENTS) {
            reader.failed = 1;
            break;
        }
        Described *argument = &out->arguments[out->n_arguments++];
        argument->text = line;
        argument->name_length = (uint8_t)length;
        argument->text_length = (uint8_t)strcspn(line, "\n");
    }
    for (int k = 0; k < out->n_arguments && !reader.failed; k++) {
        reader.at = out->arguments[k].text + out->arguments[k].name_length + 1;
        read_type(&reader, &out->arguments[k]);
        reader.at += *reader.at == '\n';
    }
    while (*reader.at && !reader.failed) {
        demand(&reader, out->n_rules < MAX_RULES);
        if (reader.failed)
            break;
        Rule *rule = &out->rules[out->n_rules++];
        rule->over = -1;
        rule->text = reader.at;
        rule->text_length = (uint8_t)strcspn(reader.at, "\n");
        rule->left = read_expression(&reader, &rule->over);
        demand(&reader, accept_text(&reader, "<="));
        rule->right = read_expression(&reader, &rule->over);
        demand(&reader, *reader.at == '\n' || !*reader.at);
        reader.at += *reader.at == '\n';
    }
    for (int k = 0; k < out->n_names; k++)
        demand(&reader, out->names[k].bound);
    for (int k = 0; k < out->n_arguments; k++)
        demand(&reader, !out->arguments[k].may_be_negative || out->arguments[k].types == 1 << LONG_TYPE);
    if (reader.failed) {
        PyErr_Format(PyExc_SystemError, "native.%s: its description cannot be read at: %.80s",
                     kernel->name, reader.at);
        return -1;
    }
    return 0;
}

/* ---- checking ---- */

typedef struct {
    const Description *description;
    const Argument *arguments;
    int64_t values[MAX_NAMES]; /* -1: not known yet */
} Call;

static const Described *described(const Call *call, int k)
{
    return &call->description->arguments[k];
}

static int fail(const Call *call, PyObject *kind, const char *what)
{
    PyErr_Format(kind, "native.%s: %s", call->description->kernel->name, what);
    return -1;
}

/* "native.normalize: 'log_joint' must be float64[n_rows, n_classes] written, not ..." */
static int fail_argument(const Call *call, PyObject *kind, int k, const char *what)
{
    const Described *argument = described(call, k);
    char text[2 * MESSAGE];
    const char *type = argument->text + argument->name_length + 2;
    snprintf(text, sizeof text, "'%.*s' must be %.*s%s", argument->name_length, argument->text,
             argument->text_length - argument->name_length - 2, type, what);
    return fail(call, kind, text);
}

static int64_t element(const Argument *argument, int64_t at)
{
    const void *buf = argument->array.buf;
    switch (argument->array.itemsize) {
    case 1: return ((const uint8_t *)buf)[at];
    case 2: return ((const uint16_t *)buf)[at];
    case 4: return ((const int32_t *)buf)[at];
    }
    return ((const int64_t *)buf)[at];
}

static int64_t size_of(const Argument *argument)
{
    return argument->array.len / argument->array.itemsize;
}

/* Sums and products beyond int64 stay at its ends. */
static int64_t combine(int kind, int64_t a, int64_t b)
{
    double exact = kind == MULTIPLY ? (double)a * (double)b
                   : kind == ADD    ? (double)a + (double)b
                                    : (double)a - (double)b;
    if (exact > 9.2e18)
        return INT64_MAX;
    if (exact < -9.2e18)
        return -INT64_MAX;
    return kind == MULTIPLY ? a * b : kind == ADD ? a + b : a - b;
}

/* The value of an expression, for one element of the arrays in it. 0, or -1 where one array
 * gives a place that another does not have. */
static int evaluate(const Call *call, Expression e, int64_t at, int64_t *out)
{
    int64_t stack[8];
    int depth = 0;
    for (int k = e.first; k < e.first + e.n; k++) {
        const Token *token = &call->description->tokens[k];
        const Argument *array = &call->arguments[token->a];
        int64_t place = at;
        switch (token->kind) {
        case NUMBER_TOKEN: stack[depth++] = token->a; break;
        case NAME_TOKEN: stack[depth++] = call->values[token->a]; break;
        case ELEMENT_AT_TOKEN:
            if (at >= size_of(&call->arguments[token->b]))
                return -1;
            place = element(&call->arguments[token->b], at); /* fall through */
        case ELEMENT_TOKEN:
            if (place < 0 || place >= size_of(array))
                return -1;
            stack[depth++] = element(array, place);
            break;
        default:
            depth--;
            stack[depth - 1] = combine(token->kind, stack[depth - 1], stack[depth]);
        }
    }
    *out = stack[0];
    return 0;
}

/* ", not a list" */
static int fail_type(const Call *call, int k, PyObject *given)
{
    char what[MESSAGE];
    PyObject *type = PyType_GetName(Py_TYPE(given));
    PyObject *text = type ? PyUnicode_AsUTF8String(type) : NULL;
    snprintf(what, sizeof what, ", not a %.100s", text ? PyBytes_AsString(text) : "?");
    Py_XDECREF(type);
    Py_XDECREF(text);
    return fail_argument(call, PyExc_TypeError, k, what);
}

static int take_array(const Call *call, int k, PyObject *given, Py_buffer *array)
{
    const Described *argument = described(call, k);
    int flags = PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | (argument->written ? PyBUF_WRITABLE : 0);
    char what[MESSAGE];
    if (PyObject_GetBuffer(given, array, flags) < 0) {
        if (PyErr_ExceptionMatches(PyExc_MemoryError))
            return -1;
        PyErr_Clear();
        if (!PyObject_CheckBuffer(given))
            return fail_type(call, k, given);
        return fail_argument(call, PyExc_ValueError, k,
                             argument->written ? "; it must be C-contiguous and writable"
                                               : "; it must be C-contiguous");
    }
    const char *format = array->format ? array->format : "B";
    int fits = 0;
    for (int t = 0; t < N_TYPES; t++)
        fits |= (argument->types >> t & 1) && array->itemsize == TYPES[t].size && format[0] &&
                !format[1] && strchr(TYPES[t].formats, format[0]);
    if (!fits) {
        snprintf(what, sizeof what, ", not %lld bytes of format '%.20s'",
                 (long long)array->itemsize, format);
        fail_argument(call, PyExc_TypeError, k, what);
    } else if (array->ndim != argument->n_axes) {
        snprintf(what, sizeof what, ", not of %d dimension%s", array->ndim, array->ndim == 1 ? "" : "s");
        fail_argument(call, PyExc_ValueError, k, what);
    } else if (array->len && (uintptr_t)array->buf % (uintptr_t)array->itemsize)
        fail_argument(call, PyExc_ValueError, k, "; it must be aligned in memory");
    else
        return 0;
    PyBuffer_Release(array);
    return -1;
}

static int take_number(Call *call, int k, PyObject *given, Argument *out)
{
    const Described *argument = described(call, k);
    if (argument->real) {
        out->real = PyFloat_AsDouble(given);
        return out->real == -1.0 && PyErr_Occurred() ? fail_type(call, k, given) : 0;
    }
    out->integer = PyLong_AsLongLong(given);
    if (out->integer == -1 && PyErr_Occurred())
        return PyErr_ExceptionMatches(PyExc_OverflowError)
                   ? fail_argument(call, PyExc_TypeError, k, ", and of 64 bits")
                   : fail_type(call, k, given);
    call->values[argument->name] = out->integer;
    if (argument->has_least && out->integer < argument->least) {
        char what[MESSAGE];
        snprintf(what, sizeof what, ", not %lld", (long long)out->integer);
        return fail_argument(call, PyExc_ValueError, k, what);
    }
    return 0;
}

/* Give every name its value, and check the sizes that are more than names. */
static int check_shapes(Call *call)
{
    const Description *d = call->description;
    char what[MESSAGE];
    for (int turn = 0; turn < 2; turn++)
        for (int k = 0; k < d->n_arguments; k++) {
            const Described *argument = &d->arguments[k];
            if (!argument->types || (argument->may_be_empty && !call->arguments[k].array.len))
                continue;
            for (int axis = 0; axis < argument->n_axes; axis++) {
                Expression e = argument->axes[axis];
                int64_t length = call->arguments[k].array.shape[axis], wanted = 0, less;
                int name = binds(d, e, &less);
                if (name >= 0 && call->values[name] == INT64_MIN)
                    call->values[name] = most(length - less, 0);
                if (!turn && name < 0)
                    continue;
                evaluate(call, e, 0, &wanted);
                if (wanted == length)
                    continue;
                snprintf(what, sizeof what, "; its length is %lld along axis %d, not %lld",
                         (long long)length, axis, (long long)wanted);
                return fail_argument(call, PyExc_ValueError, k, what);
            }
        }
    return 0;
}

/* The largest of some numbers, compared without a sign: a negative one is beyond every bound. */
#define FIND_LARGEST(type, name)                                                              \
    WIDE(uint64_t, name, (const type *values, int64_t n), (values, n))                        \
    {                                                                                         \
        type largest = 0;                                                                     \
        for (int64_t at = 0; at < n; at++)                                                    \
            largest = values[at] > largest ? values[at] : largest;                            \
        return largest;                                                                       \
    }
FIND_LARGEST(uint8_t, largest_of_8)
FIND_LARGEST(uint16_t, largest_of_16)
FIND_LARGEST(uint32_t, largest_of_32)
FIND_LARGEST(uint64_t, largest_of_64)

/* Where the first value outside of 0 .. bound - 1 is, or -1; or the first of at least bound. */
static int64_t find_beyond(const Argument *argument, int64_t bound, int may_be_negative)
{
    const void *buf = argument->array.buf;
    int64_t n = size_of(argument), beyond = 0;
    if (may_be_negative)
        for (int64_t at = 0; at < n; at++)
            beyond |= ((const int64_t *)buf)[at] >= bound;
    else {
        int64_t size = argument->array.itemsize;
        uint64_t largest = size == 1   ? largest_of_8(buf, n)
                           : size == 2 ? largest_of_16(buf, n)
                           : size == 4 ? largest_of_32(buf, n)
                                       : largest_of_64(buf, n);
        beyond = bound <= 0 ? n > 0 : largest >= (uint64_t)bound;
    }
    for (int64_t at = 0; beyond && at < n; at++) {
        int64_t value = element(argument, at);
        if (value >= bound || (value < 0 && !may_be_negative))
            return at;
    }
    return -1;
}

static int check_values(const Call *call)
{
    const Description *d = call->description;
    char what[MESSAGE];
    for (int k = 0; k < d->n_arguments; k++) {
        const Described *argument = &d->arguments[k];
        const Argument *given = &call->arguments[k];
        int64_t bound, at = -1;
        if (argument->below.n) {
            evaluate(call, argument->below, 0, &bound);
            if (argument->types)
                at = find_beyond(given, bound, argument->may_be_negative);
            else if (given->integer < 0 || given->integer >= bound)
                at = 0;
        }
        if (argument->rising.n) {
            int64_t before = 0, n = size_of(given);
            evaluate(call, argument->rising, 0, &bound);
            for (int64_t next = 0; next < n && at < 0; next++) {
                int64_t value = element(given, next);
                if (value < before || value > bound)
                    at = next;
                before = value;
            }
        }
        if (at < 0)
            continue;
        int64_t value = argument->types ? element(given, at) : given->integer;
        snprintf(what, sizeof what, "; element %lld is %lld, not %s %lld", (long long)at,
                 (long long)value, argument->rising.n ? "rising to" : "below", (long long)bound);
        return fail_argument(call, PyExc_ValueError, k, what);
    }
    for (int k = 0; k < d->n_rules; k++) {
        const Rule *rule = &d->rules[k];
        int64_t n = rule->over < 0 ? 1 : size_of(&call->arguments[rule->over]);
        for (int64_t at = 0; at < n; at++) {
            int64_t left = 0, right = 0;
            if (evaluate(call, rule->left, at, &left) < 0 || evaluate(call, rule->right, at, &right) < 0)
                snprintf(what, sizeof what, "%.*s: element %lld lies outside of an array",
                         rule->text_length, rule->text, (long long)at);
            else if (left > right)
                snprintf(what, sizeof what, "%.*s does not hold for element %lld: %lld > %lld",
                         rule->text_length, rule->text, (long long)at, (long long)left, (long long)right);
            else
                continue;
            return fail(call, PyExc_ValueError, what);
        }
    }
    return 0;
}

/* Put keywords in the place of their arguments. */
static int order_arguments(const Call *call, PyObject *const *given, Py_ssize_t n_given,
                           PyObject *keywords, PyObject **ordered)
{
    const Description *d = call->description;
    Py_ssize_t n_keywords = keywords ? PyTuple_Size(keywords) : 0;
    char what[MESSAGE];
    for (Py_ssize_t k = 0; k < n_given && k < d->n_arguments; k++)
        ordered[k] = given[k];
    for (Py_ssize_t w = 0; w < n_keywords; w++) {
        PyObject *keyword = PyTuple_GetItem(keywords, w);
        int found = -1;
        for (int k = 0; k < d->n_arguments; k++) {
            char name[64];
            snprintf(name, sizeof name, "%.*s", d->arguments[k].name_length, d->arguments[k].text);
            if (PyUnicode_CompareWithASCIIString(keyword, name) == 0)
                found = k;
        }
        if (found < 0 || ordered[found])
            return PyErr_Format(PyExc_TypeError,
                                found < 0 ? "native.%s: there is no argument '%U'"
                                          : "native.%s: argument '%U' is given twice",
                                d->kernel->name, keyword),
                   -1;
        ordered[found] = given[n_given + w];
    }
    for (int k = 0; k < d->n_arguments; k++)
        if (!ordered[k] || n_given > d->n_arguments) {
            snprintf(what, sizeof what, "%lld arguments given, %d expected",
                     (long long)(n_given + n_keywords), d->n_arguments);
            return fail(call, PyExc_TypeError, what);
        }
    return 0;
}

int take_arguments(const Description *description, PyObject *const *given, Py_ssize_t n_given,
                   PyObject *keywords, Argument *arguments)
{
    Call call = {description, arguments, {0}};
    PyObject *ordered[MAX_ARGUMENTS] = {0};
    int taken = 0;
    for (int k = 0; k < MAX_NAMES; k++)
        call.values[k] = INT64_MIN;
    if (order_arguments(&call, given, n_given, keywords, ordered) < 0)
        return -1;
    for (; taken < description->n_arguments; taken++) {
        int failed = description->arguments[taken].types
                         ? take_array(&call, taken, ordered[taken], &arguments[taken].array)
                         : take_number(&call, taken, ordered[taken], &arguments[taken]);
        if (failed < 0)
            break;
    }
    if (taken == description->n_arguments && check_shapes(&call) == 0 && check_values(&call) == 0)
        return 0;
    release_arguments(description, arguments, taken);
    return -1;
}

void release_arguments(const Description *description, Argument *arguments, int n)
{
    for (int k = 0; k < n; k++)
        if (description->arguments[k].types)
            PyBuffer_Release(&arguments[k].array);
}
