/* The module `tanager.native`: checks arguments, lets go of the lock, runs a kernel. */
#include "descriptions.h"
#include "kernels.h"

#define DECLARE(name) extern const Kernel name;
KERNELS(DECLARE)

#define PLACE(name) PLACE_##name,
enum { KERNELS(PLACE) N_KERNELS };

#define ADDRESS(name) &name,
static const Kernel *const kernels[] = {KERNELS(ADDRESS)};

static Description descriptions[N_KERNELS];

static PyObject *call_kernel(const Description *description, PyObject *const *given, Py_ssize_t n,
                             PyObject *keywords)
{
    Argument arguments[MAX_ARGUMENTS];
    if (take_arguments(description, given, n, keywords, arguments) < 0)
        return NULL;
    int64_t answer;
    Py_BEGIN_ALLOW_THREADS
    answer = description->kernel->run(arguments);
    Py_END_ALLOW_THREADS
    release_arguments(description, arguments, description->n_arguments);
    if (answer == NO_MEMORY)
        return PyErr_Format(PyExc_MemoryError, "native.%s: no memory for its working space",
                            description->kernel->name);
    return PyLong_FromLongLong(answer);
}

#define CALL(name)                                                                            \
    static PyObject *call_##name(PyObject *self, PyObject *const *given, Py_ssize_t n,        \
                                 PyObject *keywords)                                          \
    {                                                                                         \
        (void)self;                                                                           \
        return call_kernel(&descriptions[PLACE_##name], given, n, keywords);                  \
    }
KERNELS(CALL)

#ifdef TANAGER_FAULTS
#undef malloc
#undef calloc
#undef free
static int64_t n_allocations, n_held, failing = -1;

static void *counted(void *memory)
{
    n_held += memory != NULL;
    return memory;
}

static int fails(void) { return n_allocations++ == failing; }
void *fallible_malloc(size_t size) { return fails() ? NULL : counted(malloc(size)); }
void *fallible_calloc(size_t n, size_t size) { return fails() ? NULL : counted(calloc(n, size)); }

void counted_free(void *memory)
{
    n_held -= memory != NULL;
    free(memory);
}

/* Let the allocation of this number fail, counted from the next on (-1: none); returns how many
 * there were since the last call, and how many are still held. Only for a single thread. */
static PyObject *fail_allocation(PyObject *self, PyObject *at)
{
    (void)self;
    int64_t seen = n_allocations;
    failing = PyLong_AsLongLong(at);
    n_allocations = 0;
    return PyErr_Occurred() ? NULL : Py_BuildValue("LL", (long long)seen, (long long)n_held);
}
#endif

#define METHOD(name)                                                                          \
    {#name, (PyCFunction)(void (*)(void))call_##name, METH_FASTCALL | METH_KEYWORDS, NULL},

static PyMethodDef methods[] = {
    KERNELS(METHOD)
#ifdef TANAGER_FAULTS
    {"fail_allocation", fail_allocation, METH_O, NULL},
#endif
    {NULL, NULL, 0, NULL},
};

static int start_module(PyObject *module)
{
    (void)module;
    for (int k = 0; k < N_KERNELS; k++)
        if (read_description(kernels[k], &descriptions[k]) < 0)
            return -1;
    return 0;
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, (void *)start_module},
#ifdef Py_GIL_DISABLED
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "tanager.native", "Compiled loops; see src/native.", 0, methods, slots,
    NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit_native(void)
{
    /* A function's description is its docstring. */
    for (int k = 0; k < N_KERNELS; k++)
        methods[k].ml_doc = kernels[k]->description;
    return PyModuleDef_Init(&module);
}
