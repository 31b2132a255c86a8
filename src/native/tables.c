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

/* codes, arities, members, member_start, flat, flat_start, out:
 * add every dense family's log P(x | y, parents) to the log-joint out (n_rows, n_classes).
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
const Kernel add_dense_terms = {"cqqqdqD", run_add_dense_terms};

/* codes, arities, members, dense, first, child, value, entry_start, entry_class,
 * entry_log_escape, cell_start, cell_value, cell_log_prob, n_dense, inherit, backoff, out:
 * add one tree-shaped family; see `TreeRows`. A row with an unknown member adds nothing. */
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
const Kernel add_tree_terms = {"cqqdiihihdihdnnnD", run_add_tree_terms};

/* log_joint, in_logs: turn a log-joint (n_rows, n_classes) into posteriors, or their logs. */
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
const Kernel normalize = {"Dn", run_normalize};
