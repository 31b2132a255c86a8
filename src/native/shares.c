/* The families of a network without immoralities: their probabilities, shares of joint values,
 * and how these depend on scores.
 *
 * Families stand in an order in which parents come first. Each but a root has a holder, an
 * earlier family with all of its parents; a link leads from each cell of the holder to the
 * context in which the family reads it. */
#include "maths.h"

typedef struct {
    int64_t n_families, n;         /* n: classes */
    const int64_t *starts;         /* their first cells: contexts, values minor */
    const int64_t *context_starts; /* their first contexts */
    const int64_t *value_starts;   /* their first values */
    const int64_t *sizes;          /* numbers of contexts */
    const int64_t *arities;        /* numbers of values */
    const int64_t *holders;        /* -1 for a root, which has one context */
    const int64_t *link_starts, *links;
} Families;

/* The caller guarantees that holders stand before those whose parents they hold, and that there
 * is a link for each of their cells. */
#define FAMILIES                                                                              \
    "starts: int64[n_families] below n_cells + 1\n"                                           \
    "context_starts: int64[n_families] below n_contexts + 1\n"                                \
    "value_starts: int64[n_families] below n_values + 1\n"                                    \
    "sizes: int64[n_families] below n_contexts + 1\n"                                         \
    "arities: int64[n_families] below n_values + 1\n"                                         \
    "holders: int64[n_families] below n_families or negative\n"                               \
    "link_starts: int64[n_families] below n_links + 1\n"                                      \
    "links: int64[n_links] below n_contexts\n"                                                \
    "n_contexts: int below n_cells + 1\n"

#define FAMILY_RULES                                                                          \
    "1 <= arities\n"                                                                          \
    "starts + sizes * arities <= n_cells\n"                                                   \
    "context_starts + sizes <= n_contexts\n"                                                  \
    "value_starts + arities <= n_values"

static Families families_of(Argument *arguments, int64_t n_classes)
{
    return (Families){LENGTH(0, 0), n_classes, LONGS(0), LONGS(1), LONGS(2),
                      LONGS(3),     LONGS(4),  LONGS(5), LONGS(6), LONGS(7)};
}

/* WITH_CLASSES(call) is the call, compiled for two, three and four classes, and for any number. */
#define WITH_CLASSES(number, call)                                                            \
    switch (number) {                                                                         \
    case 2: { const int64_t n = 2; call; break; }                                             \
    case 3: { const int64_t n = 3; call; break; }                                             \
    case 4: { const int64_t n = 4; call; break; }                                             \
    default: { const int64_t n = number; call; }                                              \
    }

/* Add the numbers of each cell of a family's holder to the context that it leads to. */
INLINE void gather_classes(const Families *all, int64_t f, int64_t n, const double *cells,
                           double *contexts)
{
    int64_t holder = all->holders[f];
    const int64_t *link = all->links + all->link_starts[f];
    cells += all->starts[holder] * n;
    for (int64_t k = 0; k < all->sizes[holder] * all->arities[holder]; k++)
        for (int64_t c = 0; c < n; c++)
            contexts[link[k] * n + c] += cells[k * n + c];
}

static void gather(const Families *all, int64_t f, const double *cells, double *contexts)
{
    WITH_CLASSES(all->n, gather_classes(all, f, n, cells, contexts))
}

/* Add the numbers of contexts to the cells of the family's holder that lead to them. */
INLINE void scatter_classes(const Families *all, int64_t f, int64_t n, const double *contexts,
                            double *cells)
{
    int64_t holder = all->holders[f];
    const int64_t *link = all->links + all->link_starts[f];
    cells += all->starts[holder] * n;
    for (int64_t k = 0; k < all->sizes[holder] * all->arities[holder]; k++)
        for (int64_t c = 0; c < n; c++)
            cells[k * n + c] += contexts[link[k] * n + c];
}

static void scatter(const Families *all, int64_t f, const double *contexts, double *cells)
{
    WITH_CLASSES(all->n, scatter_classes(all, f, n, contexts, cells))
}

/* Make exp(table) sum to one over the values, in one context: (arity, n), n classes. The
 * logarithms of the old sums go to total (n,), exp(table) to shares (arity, n). */
INLINE void normalize_classes(double *table, int64_t arity, int64_t n, double *total, double *sums,
                              double *shares)
{
    for (int64_t c = 0; c < n; c++)
        total[c] = table[c];
    for (int64_t v = 1; v < arity; v++)
        for (int64_t c = 0; c < n; c++)
            total[c] = high(total[c], table[v * n + c]);
    for (int64_t v = 0; v < arity; v++)
        for (int64_t c = 0; c < n; c++)
            shares[v * n + c] = table[v * n + c] - total[c];
    for (int64_t k = 0; k < arity * n; k++)
        shares[k] = exponential(shares[k]);
    for (int64_t c = 0; c < n; c++)
        sums[c] = shares[c];
    for (int64_t v = 1; v < arity; v++)
        for (int64_t c = 0; c < n; c++)
            sums[c] += shares[v * n + c];
    for (int64_t c = 0; c < n; c++)
        total[c] += log(sums[c]);
    for (int64_t v = 0; v < arity; v++)
        for (int64_t c = 0; c < n; c++) {
            table[v * n + c] -= total[c];
            shares[v * n + c] /= sums[c];
        }
}

WIDE(void, normalize_context,
     (double *table, int64_t arity, int64_t number, double *total, double *sums, double *shares),
     (table, arity, number, total, sums, shares))
{
    WITH_CLASSES(number, normalize_classes(table, arity, n, total, sums, shares))
}

/* Multiply the probabilities of a context by its shares, and add the products to the values'. */
INLINE void share_classes(const double *own, int64_t arity, int64_t n, const double *outer,
                          double *out, double *values)
{
    for (int64_t v = 0; v < arity; v++)
        for (int64_t c = 0; c < n; c++)
            values[v * n + c] += out[v * n + c] = own[v * n + c] * outer[c];
}

WIDE(void, share_context,
     (const double *own, int64_t arity, int64_t number, const double *outer, double *out,
      double *values),
     (own, arity, number, outer, out, values))
{
    WITH_CLASSES(number, share_classes(own, arity, n, outer, out, values))
}

/* Turn scores, (n_cells, n) and the class node's (n,), into logarithms of the conditional
 * probabilities of a network with the same posterior, in place. The logarithm of the old sum goes
 * to log_total (1,), the probabilities to conditionals (n_cells, n), P(parents, x, y) to shares
 * (n_cells, n), and P(x, y) to values (n_values, n). */
static int64_t run_share_families(Argument *arguments)
{
    int64_t n = LENGTH(9, 1), n_contexts = NUMBER(8);
    Families all = families_of(arguments, n);
    double *logs = DOUBLES(9), *prior = DOUBLES(10), *own = DOUBLES(12), *shares = DOUBLES(13);
    double *contexts = calloc((size_t)((n_contexts + 2) * n + 1), sizeof(double));
    if (!contexts)
        return NO_MEMORY;
    double *sums = contexts + n_contexts * n, *classes = sums + n;
    for (int64_t f = all.n_families - 1; f >= 0; f--) {
        int64_t arity = all.arities[f];
        double *totals = contexts + all.context_starts[f] * n;
        for (int64_t k = 0, at = all.starts[f] * n; k < all.sizes[f]; k++, at += arity * n)
            normalize_context(logs + at, arity, n, totals + k * n, sums, own + at);
        if (all.holders[f] >= 0)
            scatter(&all, f, contexts, logs);
        else
            for (int64_t c = 0; c < n; c++)
                prior[c] += totals[c];
    }
    normalize_context(prior, n, 1, DOUBLES(11), sums, classes);
    memset(contexts, 0, sizeof(double) * (size_t)(n_contexts * n));
    memset(DOUBLES(14), 0, sizeof(double) * (size_t)SIZE(14));
    for (int64_t f = 0; f < all.n_families; f++) {
        int64_t arity = all.arities[f];
        double *outer = contexts + all.context_starts[f] * n;
        if (all.holders[f] >= 0)
            gather(&all, f, shares, contexts);
        else
            memcpy(outer, classes, sizeof(double) * (size_t)n);
        for (int64_t k = 0, at = all.starts[f] * n; k < all.sizes[f]; k++, at += arity * n)
            share_context(own + at, arity, n, outer + k * n, shares + at,
                          DOUBLES(14) + all.value_starts[f] * n);
    }
    free(contexts);
    return 0;
}
KERNEL(share_families,
       FAMILIES
       "logs: float64[n_cells, n_classes] written\n"
       "log_prior: float64[n_classes] written\n"
       "log_total: float64[1] written\n"
       "conditionals: float64[n_cells, n_classes] written\n"
       "shares: float64[n_cells, n_classes] written\n"
       "values: float64[n_values, n_classes] written\n"
       FAMILY_RULES)

/* Sums over the values of a context of the products of two arrays (arity, n), to out (n,). */
INLINE void sum_classes(const double *first, const double *second, int64_t arity, int64_t n,
                        double *out)
{
    for (int64_t c = 0; c < n; c++)
        out[c] = 0.0;
    for (int64_t v = 0; v < arity; v++)
        for (int64_t c = 0; c < n; c++)
            out[c] += first[v * n + c] * second[v * n + c];
}

WIDE(void, sum_products,
     (const double *first, const double *second, int64_t arity, int64_t number, double *out),
     (first, second, arity, number, out))
{
    WITH_CLASSES(number, sum_classes(first, second, arity, n, out))
}

/* Turn the slopes of a context by shares into those by scores, of which `outer` (n,) are the
 * sums. */
INLINE void turn_classes(const double *own, const double *shares, int64_t arity, int64_t n,
                         const double *outer, double *slopes)
{
    for (int64_t v = 0; v < arity; v++)
        for (int64_t c = 0; c < n; c++)
            slopes[v * n + c] = own[v * n + c] * outer[c] - slopes[v * n + c] * shares[v * n + c];
}

WIDE(void, turn_slopes,
     (const double *own, const double *shares, int64_t arity, int64_t number, const double *outer,
      double *slopes),
     (own, shares, arity, number, outer, slopes))
{
    WITH_CLASSES(number, turn_classes(own, shares, arity, n, outer, slopes))
}

/* The transpose of the derivative of `share_families`: from derivatives of a gain by P(x, y),
 * (n_values, n), and by P(y), (n,), to those of the loss, the gain negated, by the cells' scores:
 * slopes (n_cells, n). */
static int64_t run_pull_shares(Argument *arguments)
{
    int64_t n = LENGTH(9, 1), n_contexts = NUMBER(8);
    Families all = families_of(arguments, n);
    const double *own = DOUBLES(9), *shares = DOUBLES(10), *prior = DOUBLES(11);
    double *slopes = DOUBLES(14), mean = 0.0;
    double *contexts = calloc((size_t)((n_contexts + 1) * n + 1), sizeof(double));
    if (!contexts)
        return NO_MEMORY;
    double *by_prior = contexts + n_contexts * n;
    memcpy(by_prior, DOUBLES(13), sizeof(double) * (size_t)n);
    for (int64_t f = 0; f < all.n_families; f++)
        for (int64_t k = 0; k < all.sizes[f]; k++)
            memcpy(slopes + (all.starts[f] + k * all.arities[f]) * n,
                   DOUBLES(12) + all.value_starts[f] * n,
                   sizeof(double) * (size_t)(all.arities[f] * n));
    for (int64_t f = all.n_families - 1; f >= 0; f--) { /* slopes are those by shares */
        int64_t arity = all.arities[f];
        double *outer = contexts + all.context_starts[f] * n;
        for (int64_t k = 0, at = all.starts[f] * n; k < all.sizes[f]; k++, at += arity * n)
            sum_products(slopes + at, own + at, arity, n, outer + k * n);
        if (all.holders[f] >= 0)
            scatter(&all, f, contexts, slopes);
        else
            for (int64_t c = 0; c < n; c++)
                by_prior[c] += outer[c];
    }
    for (int64_t c = 0; c < n; c++)
        mean += by_prior[c] * prior[c];
    for (int64_t f = 0; f < all.n_families; f++) { /* and now by scores, of all before f */
        int64_t arity = all.arities[f];
        double *outer = contexts + all.context_starts[f] * n;
        for (int64_t k = 0, at = all.starts[f] * n; k < all.sizes[f]; k++, at += arity * n)
            sum_products(slopes + at, shares + at, arity, n, outer + k * n);
        if (all.holders[f] >= 0)
            gather(&all, f, slopes, contexts);
        else
            for (int64_t c = 0; c < n; c++)
                outer[c] -= prior[c] * (by_prior[c] - mean);
        for (int64_t k = 0, at = all.starts[f] * n; k < all.sizes[f]; k++, at += arity * n)
            turn_slopes(own + at, shares + at, arity, n, outer + k * n, slopes + at);
    }
    free(contexts);
    return 0;
}
KERNEL(pull_shares,
       FAMILIES
       "conditionals: float64[n_cells, n_classes]\n"
       "shares: float64[n_cells, n_classes]\n"
       "prior: float64[n_classes]\n"
       "by_values: float64[n_values, n_classes]\n"
       "by_prior: float64[n_classes]\n"
       "slopes: float64[n_cells, n_classes] written\n"
       FAMILY_RULES)
