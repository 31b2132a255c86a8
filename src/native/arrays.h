/* What every kernel shares: types, targets, and the arguments that Python passes.
 *
 * Kernels take C-contiguous arrays and numbers, inputs first, outputs last. They
 * allocate no Python objects, raise nothing for a user's fault and run without the
 * interpreter's lock. Results depend neither on the compiler's target nor on threads.
 */
#ifndef TANAGER_ARRAYS_H
#define TANAGER_ARRAYS_H

#define PY_SSIZE_T_CLEAN
#include <pyconfig.h>
#ifndef Py_GIL_DISABLED /* free-threaded Pythons have no stable interface before 3.15 */
#define Py_LIMITED_API 0x030B0000
#endif
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "processor.h"

/* The test build makes any one allocation fail; see `fail_allocation` in module.c. */
#ifdef TANAGER_FAULTS
void *fallible_malloc(size_t size);
void *fallible_calloc(size_t n, size_t size);
void counted_free(void *memory);
#define malloc fallible_malloc
#define calloc fallible_calloc
#define free counted_free
#endif

#define MAX_ARGUMENTS 32

typedef union {
    Py_buffer array;
    int64_t integer;
    double real;
} Argument;

/* One kernel as Python sees it. `description` has one line per argument, in order, and then
 * any number of rules; descriptions.c checks all of it before the kernel runs, and
 * native.pyi is generated from it (python -m tests.native.stub).
 *
 *   codes: uint8|uint16[n_features, n_rows]    an array: its types and its dimensions
 *   labels: uint16[n_rows] below n_classes     every value is in 0 .. n_classes - 1
 *   keys: int64[n_rows] below n or negative    no value is n or more
 *   weights: float64[n_rows] or empty          an array of no elements will do, too
 *   start: int64[n_tables + 1] rising to n     starts at 0 or more, never falls, ends at n at most
 *   n_classes: int from 1                      a whole number, at least 1
 *   shrink: float
 *   out: float64[n_out] written                the kernel writes to it
 *   start + arities * n_classes <= n_out       a rule, for every element of the arrays named
 *
 * A dimension is a name, which stands for one number throughout the call, or a sum of
 * products of names and numbers. Whole numbers among the arguments are such names too.
 * Types: uint8 (which takes bool), uint16, int32, int64, uint64, float64. A rule may read
 * an array at the place that another gives: arities[left]. */
typedef struct {
    const char *name, *description;
    int64_t (*run)(Argument *arguments); /* NO_MEMORY, or what Python gets */
} Kernel;

#define KERNEL(name, description) const Kernel name = {#name, description, run_##name};

#define DOUBLES(k) ((double *)arguments[k].array.buf)
#define LONGS(k) ((int64_t *)arguments[k].array.buf)
#define INTS(k) ((int32_t *)arguments[k].array.buf)
#define SHORTS(k) ((uint16_t *)arguments[k].array.buf)
#define BYTES(k) ((uint8_t *)arguments[k].array.buf)
#define WORDS(k) ((uint64_t *)arguments[k].array.buf)
#define LENGTH(k, axis) ((int64_t)arguments[k].array.shape[axis])
#define SIZE(k) ((int64_t)(arguments[k].array.len / arguments[k].array.itemsize))
#define NUMBER(k) (arguments[k].integer)
#define REAL(k) (arguments[k].real)
#define NARROW(k) (arguments[k].array.itemsize == 1)

#define NO_MEMORY (INT64_MIN)

static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }
static inline double high(double a, double b) { return a > b ? a : b; }
static inline double low(double a, double b) { return a < b ? a : b; }

#endif
