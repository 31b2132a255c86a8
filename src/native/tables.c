/* Table look-ups: log-probabilities of coded rows, for all classes at once. */
#include "arrays.h"

#define ROW_BLOCK 512 /* rows whose log-joint stays in the first-level cache over all families */
#define TREE_BLOCK 32 /* rows that walk a tree together */
#ifdef __GNUC__
#define PREFETCH(address) __builtin_prefetch(address) /* any address will do */
#else
#define PREFETCH(address) ((void)(address))
#endif
#define UNKNOWN (-2)  /* in place of the context of a row with an unknown member; -1: unseen */

#define CODE uint8_t
#define NAME(x) x##_8
#include "tables_by_type.h"
#undef CODE
#undef NAME
#define CODE uint16_t
#define NAME(x) x##_16
#include "tables_by_type.h"

/* Add every dense family's log P(x | y, parents) to the log-joint out (n_rows, n_classes).
 * members: parents, then child, of each family from member_start[f]; ~m for one that has no
 * axis, but must be known; flat: tables (*parents, child, class) end to end, family f from
 * flat_start[f], and n_classes zeros at the end for families with an unknown member. */
static int64_t run_add_dense_terms(Argument *arguments)
{
    Dense tables = {LONGS(2), LONGS(3), DOUBLES(4), LONGS(5), SIZE(4), LENGTH(5, 0)};
    if (NARROW(0))
        add_dense_terms_8(BYTES(0), LENGTH(0, 1), LONGS(1), &tables, DOUBLES(6), LENGTH(6, 1));
    else
        add_dense_terms_16(SHORTS(0), LENGTH(0, 1), LONGS(1), &tables, DOUBLES(6), LENGTH(6, 1));
    return 0;
}
KERNEL(add_dense_terms,
       "codes: uint8|uint16[n_columns, n_rows]\n"
       "arities: int64[n_columns]\n"
       "members: int64[n_members] below n_columns or negative\n"
       "member_start: int64[n_families + 1] rising to n_members\n"
       "flat: float64[n_flat]\n"
       "flat_start: int64[n_families] below n_flat\n"
       "out: float64[n_rows, n_classes] written\n"
       "0 - members <= n_columns")

/* Add one tree-shaped family; see `TreeRows`. A row with an unknown member adds nothing. */
static int64_t run_add_tree_terms(Argument *arguments)
{
    Tree tree = {DOUBLES(3), INTS(4),     INTS(5),           SHORTS(6),        INTS(7),
                 SHORTS(8),  DOUBLES(9),  INTS(10),          SHORTS(11),       DOUBLES(12),
                 NUMBER(13), (int)NUMBER(14), (int)NUMBER(15)};
    int64_t n_rows = LENGTH(0, 1), n_parents = LENGTH(2, 0) - 1, n_classes = LENGTH(16, 1);
    double *terms = malloc(sizeof(double) * (size_t)(TREE_BLOCK * n_classes + 1));
    if (!terms)
        return NO_MEMORY;
    if (NARROW(0))
        add_tree_terms_8(BYTES(0), n_rows, LONGS(1), LONGS(2), n_parents, &tree, n_classes, terms,
                         DOUBLES(16));
    else
        add_tree_terms_16(SHORTS(0), n_rows, LONGS(1), LONGS(2), n_parents, &tree, n_classes, terms,
                          DOUBLES(16));
    free(terms);
    return 0;
}
KERNEL(add_tree_terms,
       "codes: uint8|uint16[n_columns, n_rows]\n"
       "arities: int64[n_columns]\n"
       "members: int64[n_members] below n_columns\n"
       "dense: float64[n_numbers]\n"
       "first: int32[n_combinations]\n"
       "child: int32[n_contexts + 1]\n"
       "value: uint16[n_contexts]\n"
       "entry_start: int32[n_contexts + 1]\n"
       "entry_class: uint16[n_entries]\n"
       "entry_log_escape: float64[n_entries]\n"
       "cell_start: int32[n_entries + 1]\n"
       "cell_value: uint16[n_cells]\n"
       "cell_log_prob: float64[n_cells]\n"
       "n_dense: int below n_members\n"
       "inherit: int\n"
       "backoff: int\n"
       "out: float64[n_rows, n_classes] written")

/* Turn a log-joint (n_rows, n_classes) into posteriors, or their logs. */
static int64_t run_normalize(Argument *arguments)
{
    double *row = DOUBLES(0);
    int64_t n_rows = LENGTH(0, 0), n_classes = LENGTH(0, 1), in_logs = NUMBER(1);
    for (int64_t r = 0; r < n_rows; r++, row += n_classes) {
        int64_t best = 0;
        for (int64_t c = 1; c < n_classes; c++)
            if (row[c] > row[best])
                best = c;
        double top = row[best], total = 1.0;
        for (int64_t c = 0; c < n_classes; c++) {
            row[c] -= top;
            if (c != best) {
                double term = exp(row[c]);
                total += term;
                if (!in_logs)
                    row[c] = term;
            }
        }
        if (in_logs) {
            double log_total = log(total);
            for (int64_t c = 0; c < n_classes; c++)
                row[c] -= log_total;
        } else {
            row[best] = 1.0;
            for (int64_t c = 0; c < n_classes; c++)
                row[c] /= total;
        }
    }
    return 0;
}
KERNEL(normalize,
       "log_joint: float64[n_rows, n_classes] written\n"
       "in_logs: int")
