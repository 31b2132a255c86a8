/* The module `tanager.native`: checks arguments, lets go of the lock, runs a kernel. */
#include "arrays.h"

static int take_array(PyObject *object, char kind, Py_buffer *array, int at)
{
    int writable = kind >= 'A' && kind <= 'Z';
    int flags = PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | (writable ? PyBUF_WRITABLE : 0);
    if (PyObject_GetBuffer(object, array, flags) < 0)
        return -1;
    char type = array->format ? array->format[0] : 'B';
    int64_t size = array->itemsize;
    int fits = 0;
    switch (writable ? kind + 32 : kind) {
    case 'd': fits = type == 'd' && size == 8; break;
    case 'q': fits = (type == 'l' || type == 'q') && size == 8; break;
    case 'i': fits = (type == 'i' || type == 'l') && size == 4; break;
    case 'h': fits = type == 'H' && size == 2; break;
    case 'u': fits = (type == 'B' || type == '?') && size == 1; break;
    case 'c': fits = (type == 'B' && size == 1) || (type == 'H' && size == 2); break;
    case 'x': fits = (type == 'd' || type == 'l' || type == 'q') && size == 8; break;
    }
    if (!fits) {
        PyErr_Format(PyExc_TypeError, "argument %d: an array of '%s' does not fit kind '%c'", at,
                     array->format ? array->format : "B", kind);
        PyBuffer_Release(array);
        return -1;
    }
    return 0;
}

static PyObject *run_kernel(const Kernel *kernel, PyObject *const *given, Py_ssize_t n_given)
{
    Argument arguments[MAX_ARGUMENTS];
    Py_ssize_t n = (Py_ssize_t)strlen(kernel->kinds);
    if (n_given != n)
        return PyErr_Format(PyExc_TypeError, "%zd arguments given, %zd expected", n_given, n);
    Py_ssize_t held = 0;
    PyObject *result = NULL;
    for (; held < n; held++) {
        char kind = kernel->kinds[held];
        if (kind == 'n') {
            arguments[held].integer = PyLong_AsLongLong(given[held]);
            if (arguments[held].integer == -1 && PyErr_Occurred())
                goto done;
        } else if (kind == 'f') {
            arguments[held].real = PyFloat_AsDouble(given[held]);
            if (arguments[held].real == -1.0 && PyErr_Occurred())
                goto done;
        } else if (take_array(given[held], kind, &arguments[held].array, (int)held) < 0)
            goto done;
    }
    int64_t answer;
    Py_BEGIN_ALLOW_THREADS
    answer = kernel->run(arguments);
    Py_END_ALLOW_THREADS
    result = answer == NO_MEMORY ? PyErr_NoMemory() : PyLong_FromLongLong(answer);
done:
    while (held-- > 0)
        if (kernel->kinds[held] != 'n' && kernel->kinds[held] != 'f')
            PyBuffer_Release(&arguments[held].array);
    return result;
}

#define KERNEL(name)                                                                          \
    static PyObject *call_##name(PyObject *self, PyObject *const *given, Py_ssize_t n)        \
    {                                                                                         \
        (void)self;                                                                           \
        return run_kernel(&name, given, n);                                                   \
    }

KERNEL(count_values)
KERNEL(count_pairs)
KERNEL(count_pairs_by_bits)
KERNEL(score_information)
KERNEL(extend_keys)
KERNEL(count_keys)
KERNEL(collapse_keys)
KERNEL(merge_runs)
KERNEL(gather_level)
KERNEL(add_dense_terms)
KERNEL(add_tree_terms)
KERNEL(normalize)
KERNEL(solve_fixed_point)
KERNEL(expect_tables)
KERNEL(mark_present)
KERNEL(count_cells)
KERNEL(encode_matrix)
KERNEL(split_by_mdl)
KERNEL(evaluate_scores)
KERNEL(score_odds)
KERNEL(score_posteriors)
KERNEL(evaluate_sums)
KERNEL(add_sums)
KERNEL(locate_rows)
KERNEL(weigh_joints)
KERNEL(descend)
KERNEL(score_gains)
KERNEL(normalize_scores)
KERNEL(spread_shares)
KERNEL(find_cuts)

#define ENTRY(name) {#name, (PyCFunction)(void (*)(void))call_##name, METH_FASTCALL, NULL}

static PyMethodDef methods[] = {
    ENTRY(count_values), ENTRY(count_pairs), ENTRY(count_pairs_by_bits), ENTRY(score_information),
    ENTRY(extend_keys), ENTRY(count_keys), ENTRY(collapse_keys), ENTRY(merge_runs),
    ENTRY(gather_level), ENTRY(add_dense_terms), ENTRY(add_tree_terms), ENTRY(normalize),
    ENTRY(solve_fixed_point), ENTRY(expect_tables), ENTRY(mark_present), ENTRY(count_cells),
    ENTRY(encode_matrix), ENTRY(split_by_mdl), ENTRY(evaluate_scores), ENTRY(score_odds),
    ENTRY(score_posteriors), ENTRY(evaluate_sums), ENTRY(add_sums), ENTRY(locate_rows),
    ENTRY(weigh_joints), ENTRY(descend), ENTRY(score_gains), ENTRY(normalize_scores),
    ENTRY(spread_shares), ENTRY(find_cuts), {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {{0, NULL}};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "tanager.native", "Compiled loops; see src/native.", 0, methods, slots,
    NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit_native(void) { return PyModuleDef_Init(&module); }
