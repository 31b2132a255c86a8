/* What every kernel shares: types, targets, and the arguments that Python gives.
 *
 * Kernels take C-contiguous arrays and numbers, inputs first, outputs last. They
 * allocate no Python objects, raise nothing for a user's fault and run without the
 * interpreter's lock. Results depend neither on the compiler's target nor on threads.
 */
#ifndef TANAGER_ARRAYS_H
#define TANAGER_ARRAYS_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "processor.h"

#define MAX_ARGUMENTS 24

typedef union {
    Py_buffer array;
    int64_t integer;
    double real;
} Argument;

/* One kernel as Python sees it. `kinds` has a letter an argument:
 *   d q i h u   arrays of float64, int64, int32, uint16, uint8 to read
 *   D Q I H U   the same, to write
 *   c C         codes, uint8 or uint16, to read or write
 *   x           numbers, int64 or float64, to read
 *   n f         a whole number, a real number */
typedef struct {
    const char *kinds;
    int64_t (*run)(Argument *arguments); /* -2: no memory */
} Kernel;

#define DOUBLES(k) ((double *)arguments[k].array.buf)
#define LONGS(k) ((int64_t *)arguments[k].array.buf)
#define INTS(k) ((int32_t *)arguments[k].array.buf)
#define SHORTS(k) ((uint16_t *)arguments[k].array.buf)
#define BYTES(k) ((uint8_t *)arguments[k].array.buf)
#define LENGTH(k, axis) ((int64_t)arguments[k].array.shape[axis])
#define SIZE(k) ((int64_t)(arguments[k].array.len / arguments[k].array.itemsize))
#define NUMBER(k) (arguments[k].integer)
#define REAL(k) (arguments[k].real)
#define NARROW(k) (arguments[k].array.itemsize == 1)

#define NO_MEMORY (-2)

static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }
static inline double high(double a, double b) { return a > b ? a : b; }
static inline double low(double a, double b) { return a < b ? a : b; }

extern const Kernel count_values, count_pairs, count_pairs_by_bits, score_information;
extern const Kernel extend_keys, count_keys, collapse_keys, merge_runs, gather_level;
extern const Kernel add_dense_terms, add_tree_terms, normalize;
extern const Kernel solve_fixed_point, expect_tables;
extern const Kernel mark_present, count_cells, encode_matrix, split_by_mdl;
extern const Kernel evaluate_scores;
extern const Kernel score_odds, score_posteriors;
extern const Kernel evaluate_sums, add_sums, locate_rows, weigh_joints, descend, score_gains;
extern const Kernel normalize_scores, spread_shares;
extern const Kernel find_cuts;

#endif
