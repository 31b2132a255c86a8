/* Scores of families, information about the class, and the best tree, for structure search. */
#include "arrays.h"

/* Write a family's part of equation 28 of Carvalho et al. (2013), without the constant, to out.
 * joint: N_ijck. The weight of log theta_ijck is N_ijck + beta * sum over all classes of N_ijck,
 * and theta comes from the same weights, clipped at the pseudo-count (theorem 3.8). */
static int64_t run_score_acll(Argument *arguments)
{
    int64_t arity = LENGTH(0, 1), n = LENGTH(0, 2);
    const double *joint = DOUBLES(0);
    double beta = REAL(1), floor = REAL(2), score = 0.0;
    double *totals = malloc(sizeof(double) * (size_t)(arity + 1));
    if (!totals)
        return NO_MEMORY;
    for (int64_t j = 0; j < LENGTH(0, 0); j++, joint += arity * n) {
        int seen = 0;
        for (int64_t k = 0; k < arity; k++) {
            double total = 0.0;
            for (int64_t c = 0; c < n; c++)
                total += joint[k * n + c];
            totals[k] = beta * total;
            seen |= total > 0.0;
        }
        for (int64_t c = 0; seen && c < n; c++) {
            double mass = 0.0;
            for (int64_t k = 0; k < arity; k++)
                mass += high(joint[k * n + c] + totals[k], floor);
            double log_mass = log(mass);
            for (int64_t k = 0; k < arity; k++) {
                double weight = joint[k * n + c] + totals[k];
                if (weight != 0.0)
                    score += weight * (log(high(weight, floor)) - log_mass);
            }
        }
    }
    free(totals);
    DOUBLES(3)[0] = score;
    return 0;
}
KERNEL(score_acll,
       "joint: float64[n_contexts, arity, n_classes]\n"
       "beta: float\n"
       "pseudo_count: float\n"
       "out: float64[1] written")

static double n_log_n(double n) { return n > 0.0 ? n * log(n) : 0.0; }

/* Write the sums of n log n over the cells (B, X, C) and (B, X) to out. Rows of one pattern of B
 * stand side by side: group g is rows[start[g] : start[g + 1]]. Only what a group touched is
 * cleared, so that many small groups cost no more than their rows. */
static int64_t run_sum_groups(Argument *arguments)
{
    const int64_t *start = LONGS(0), *rows = LONGS(4);
    const uint8_t *narrow = NARROW(1) ? BYTES(1) : NULL;
    const uint16_t *codes = SHORTS(1), *labels = SHORTS(2);
    const double *weights = DOUBLES(3);
    int64_t width = NUMBER(5), n = NUMBER(6), n_groups = LENGTH(0, 0) - 1;
    double with_class = 0.0, without = 0.0;
    double *cells = calloc((size_t)(width * (n + 1)), sizeof(double)), *values = cells + width * n;
    if (!cells)
        return NO_MEMORY;
    for (int64_t g = 0; g < n_groups; g++) {
        for (int64_t at = start[g]; at < start[g + 1]; at++) {
            int64_t r = rows[at], x = narrow ? narrow[r] : codes[r];
            cells[x * n + labels[r]] += weights[r];
            values[x] += weights[r];
        }
        for (int64_t at = start[g]; at < start[g + 1]; at++) {
            int64_t r = rows[at], x = narrow ? narrow[r] : codes[r];
            double *cell = cells + x * n + labels[r], *value = values + x;
            if (*cell > 0.0 && *cell != 1.0)
                with_class += *cell * log(*cell);
            if (*value > 0.0 && *value != 1.0)
                without += *value * log(*value);
            *cell = *value = 0.0;
        }
    }
    free(cells);
    DOUBLES(7)[0] = with_class, DOUBLES(7)[1] = without;
    return 0;
}
KERNEL(sum_groups,
       "start: int64[n_groups + 1] rising to n_rows\n"
       "codes: uint8|uint16[n_rows] below width\n"
       "labels: uint16[n_rows] below n_classes\n"
       "weights: float64[n_rows]\n"
       "rows: int64[n_rows] below n_rows\n"
       "width: int from 1\n"
       "n_classes: int from 1\n"
       "out: float64[2] written")

/* Write I(C; X_i | X_j) to out. */
static int64_t run_score_class_information(Argument *arguments)
{
    int64_t n_i = LENGTH(0, 0), n_j = LENGTH(0, 1), n = LENGTH(0, 2);
    const double *joint = DOUBLES(0);
    double total = 0.0, terms = 0.0;
    for (int64_t j = 0; j < n_j; j++) {
        double of_j = 0.0;
        for (int64_t c = 0; c < n; c++) {
            double of_jc = 0.0;
            for (int64_t i = 0; i < n_i; i++) {
                double cell = joint[(i * n_j + j) * n + c];
                of_jc += cell;
                terms += n_log_n(cell);
            }
            of_j += of_jc;
            terms -= n_log_n(of_jc);
        }
        for (int64_t i = 0; i < n_i; i++) {
            double of_ij = 0.0;
            for (int64_t c = 0; c < n; c++)
                of_ij += joint[(i * n_j + j) * n + c];
            terms -= n_log_n(of_ij);
        }
        terms += n_log_n(of_j);
        total += of_j;
    }
    DOUBLES(1)[0] = total > 0.0 ? terms / total : 0.0;
    return 0;
}
KERNEL(score_class_information,
       "joint: float64[arity_i, arity_j, n_classes]\n"
       "out: float64[1] written")

/* Write I(X_i; X_j | C) - I(X_i; X_j) to out. */
static int64_t run_score_explaining_away(Argument *arguments)
{
    int64_t n_i = LENGTH(0, 0), n_j = LENGTH(0, 1), n = LENGTH(0, 2);
    const double *joint = DOUBLES(0);
    double *room = calloc((size_t)(2 * (n_i + n_j) + 1), sizeof(double)), pooled = 0.0, terms = 0.0;
    double *pooled_i = room, *by_i = room + n_i, *pooled_j = by_i + n_i, *by_j = pooled_j + n_j;
    if (!room)
        return NO_MEMORY;
    for (int64_t c = 0; c < n; c++) {
        double of_class = 0.0;
        memset(by_i, 0, sizeof(double) * (size_t)n_i);
        memset(by_j, 0, sizeof(double) * (size_t)n_j);
        for (int64_t i = 0; i < n_i; i++)
            for (int64_t j = 0; j < n_j; j++) {
                double cell = joint[(i * n_j + j) * n + c];
                terms += n_log_n(cell);
                by_i[i] += cell;
                by_j[j] += cell;
                of_class += cell;
            }
        for (int64_t i = 0; i < n_i; i++) {
            terms -= n_log_n(by_i[i]);
            pooled_i[i] += by_i[i];
        }
        for (int64_t j = 0; j < n_j; j++) {
            terms -= n_log_n(by_j[j]);
            pooled_j[j] += by_j[j];
        }
        terms += n_log_n(of_class);
        pooled += of_class;
    }
    for (int64_t k = 0; k < n_i * n_j; k++) {
        double cell = 0.0;
        for (int64_t c = 0; c < n; c++)
            cell += joint[k * n + c];
        terms -= n_log_n(cell);
    }
    for (int64_t i = 0; i < n_i; i++)
        terms += n_log_n(pooled_i[i]);
    for (int64_t j = 0; j < n_j; j++)
        terms += n_log_n(pooled_j[j]);
    terms -= n_log_n(pooled);
    free(room);
    DOUBLES(1)[0] = pooled > 0.0 ? terms / pooled : 0.0;
    return 0;
}
KERNEL(score_explaining_away,
       "joint: float64[arity_i, arity_j, n_classes]\n"
       "out: float64[1] written")

/* Tarjan's optimum branching on a dense matrix: vertices are components 0 .. n - 1, contracted
 * cycles n .. 2n - 2; each grows a path backwards along heaviest edges until it meets something
 * finished. */
typedef struct {
    int64_t n, n_components;
    double *weight;     /* (n, n + 1) */
    int64_t *head;      /* (n, n + 1): the vertex at which each source's best edge arrives */
    int64_t *component; /* (n,): of every vertex */
    int64_t *owner;     /* row of `weight` that a component uses; this and all below (2n,) */
    int64_t *inside;    /* the cycle that swallowed a component */
    int64_t *entry;     /* source of the edge chosen into a component */
    int64_t *arrival;   /* the vertex at which that edge arrives */
    int64_t *finished, *place, *path;
} Branching;

/* The source of the heaviest edge from outside; n stands for "no parent". The last entry of a row
 * is the edge from nowhere: it is taken only where no real edge is left, however heavy it is. */
static int64_t heaviest(const Branching *b, int64_t own)
{
    const double *row = b->weight + b->owner[own] * (b->n + 1);
    int64_t best = b->n;
    for (int64_t u = 0; u < b->n; u++)
        if (b->component[u] != own && row[u] > -INFINITY && (best == b->n || row[u] > row[best]))
            best = u;
    return best;
}

/* Fold the rows of the path's components from `first` on, a cycle, into the row of the first. An
 * edge into the cycle at member m replaces the edge that entered m, so it is worth its weight less
 * that of m's own edge. */
static void contract(Branching *b, int64_t first, int64_t length)
{
    int64_t n = b->n, cycle = b->n_components++, into = b->owner[b->path[first]];
    double *to = b->weight + into * (n + 1), loss = to[b->entry[b->path[first]]];
    for (int64_t u = 0; u <= n; u++)
        to[u] -= loss;
    for (int64_t at = first + 1; at < length; at++) {
        int64_t m = b->path[at], row = b->owner[m];
        const double *from = b->weight + row * (n + 1);
        loss = from[b->entry[m]];
        for (int64_t u = 0; u <= n; u++)
            if (from[u] - loss > to[u]) {
                to[u] = from[u] - loss;
                b->head[into * (n + 1) + u] = b->head[row * (n + 1) + u];
            }
    }
    b->owner[cycle] = into;
    for (int64_t at = first; at < length; at++) {
        b->inside[b->path[at]] = cycle;
        b->place[b->path[at]] = -1;
    }
    for (int64_t u = 0; u < n; u++)
        if (b->component[u] != cycle && b->inside[b->component[u]] == cycle)
            b->component[u] = cycle;
    b->path[first] = cycle;
    b->place[cycle] = first;
}

static void grow_path(Branching *b, int64_t start)
{
    int64_t length = 1;
    b->path[0] = b->component[start];
    b->place[b->path[0]] = 0;
    for (;;) {
        int64_t tip = b->path[length - 1], source = heaviest(b, tip);
        b->entry[tip] = source;
        b->arrival[tip] = b->head[b->owner[tip] * (b->n + 1) + source];
        if (source == b->n || b->finished[b->component[source]])
            break;
        int64_t before = b->component[source];
        if (b->place[before] < 0) {
            b->place[before] = length;
            b->path[length++] = before;
        } else {
            int64_t first = b->place[before];
            contract(b, first, length);
            length = first + 1;
        }
    }
    for (int64_t at = 0; at < length; at++) {
        b->finished[b->path[at]] = 1;
        b->place[b->path[at]] = -1;
    }
}

/* Write the parents of the heaviest arborescence, -1 for a root. weight: the edge into the row's
 * vertex from the column's, minus infinity where there is none, last column the edge from nowhere;
 * it is destroyed. */
static int64_t run_find_arborescence(Argument *arguments)
{
    int64_t n = LENGTH(1, 0), *parents = LONGS(1);
    int64_t *room = malloc(sizeof(int64_t) * (size_t)(n * (n + 1) + 15 * n + 1));
    if (!room)
        return NO_MEMORY;
    Branching b = {n, n, DOUBLES(0), .head = room};
    b.component = b.head + n * (n + 1);
    int64_t **each[] = {&b.owner, &b.inside, &b.entry, &b.arrival, &b.finished, &b.place, &b.path};
    for (int k = 0; k < 7; k++)
        *each[k] = b.component + n + 2 * n * k;
    for (int64_t v = 0; v < n; v++) {
        b.component[v] = v;
        for (int64_t u = 0; u <= n; u++)
            b.head[v * (n + 1) + u] = v;
    }
    for (int64_t v = 0; v < 2 * n; v++) {
        b.owner[v] = v;
        b.inside[v] = b.entry[v] = b.arrival[v] = b.place[v] = -1;
        b.finished[v] = b.path[v] = 0;
    }
    for (int64_t start = 0; start < n; start++)
        if (!b.finished[b.component[start]])
            grow_path(&b, start);
    /* Undo the contractions, latest first: the edge into a cycle replaces the edge into the member
     * where it arrives. */
    for (int64_t cycle = b.n_components - 1; cycle >= n; cycle--) {
        int64_t member = b.arrival[cycle];
        while (b.inside[member] != cycle)
            member = b.inside[member];
        b.entry[member] = b.entry[cycle];
        b.arrival[member] = b.arrival[cycle];
    }
    for (int64_t v = 0; v < n; v++)
        parents[v] = b.entry[v] < n ? b.entry[v] : -1;
    free(room);
    return 0;
}
KERNEL(find_arborescence,
       "weight: float64[n_vertices, n_vertices + 1] written\n"
       "parents: int64[n_vertices] written")
