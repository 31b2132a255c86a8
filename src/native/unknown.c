/* Exact sums over the unknown features of any network, row by row: their probability, the
 * marginals of every family, and draws of them. */
#include "arrays.h"

/* One row's work. A table is a factor that was given, or what a step has summed to; step s sums
 * variable `order[s]` out of the product of the tables that hold it, over `scope`: the variables
 * around it, ascending, then itself. */
typedef struct {
    const int64_t *arities;
    int64_t n_variables, n_tables, n_classes, n_words;
    int64_t *order, *scope, *scope_start, *user; /* user: the step that takes a table, or -1 */
    const int64_t **members;                     /* of each table, in the order of its axes */
    int64_t *n_members;
    double **values; /* of each table */
    double **joined; /* of each step, (*scope, n_classes) */
    uint64_t *around;
    double *cost;
    int64_t *stride, *digit;
    uint8_t *done;
} Work;

#define HAS(set, i) ((set)[(i) >> 6] >> ((i) & 63) & 1)
#define ADD_TO(set, i) ((set)[(i) >> 6] |= (uint64_t)1 << ((i) & 63))

static double joined_size(const Work *w, int64_t v)
{
    double size = (double)w->arities[v];
    for (int64_t u = 0; u < w->n_variables; u++)
        if (u != v && HAS(w->around + v * w->n_words, u))
            size *= (double)w->arities[u];
    return size;
}

/* Choose the order: always the variable whose table is the smallest, the first among equals.
 * Returns the cells of all tables, or -1 where one is past the bound. */
static int64_t plan_row(Work *w, int64_t n_given, double max_cells)
{
    int64_t n = w->n_variables, total = 0, at = 0;
    memset(w->around, 0, sizeof(uint64_t) * (size_t)(n * w->n_words));
    memset(w->done, 0, (size_t)n);
    for (int64_t t = 0; t < n_given; t++)
        for (int64_t a = 0; a < w->n_members[t]; a++)
            for (int64_t b = 0; b < w->n_members[t]; b++)
                ADD_TO(w->around + w->members[t][a] * w->n_words, w->members[t][b]);
    for (int64_t v = 0; v < n; v++)
        w->cost[v] = joined_size(w, v);
    for (int64_t s = 0; s < n; s++) {
        int64_t best = -1;
        for (int64_t v = 0; v < n; v++)
            if (!w->done[v] && (best < 0 || w->cost[v] < w->cost[best]))
                best = v;
        if (w->cost[best] * (double)w->n_classes > max_cells)
            return -1;
        total += 2 * (int64_t)w->cost[best];
        uint64_t *mine = w->around + best * w->n_words;
        w->done[best] = 1;
        w->order[s] = best;
        w->scope_start[s] = at;
        for (int64_t u = 0; u < n; u++)
            if (u != best && HAS(mine, u))
                w->scope[at++] = u;
        int64_t n_around = at - w->scope_start[s];
        w->scope[at++] = best;
        for (int64_t a = 0; a < n_around; a++) {
            int64_t u = w->scope[w->scope_start[s] + a];
            uint64_t *theirs = w->around + u * w->n_words;
            for (int64_t k = 0; k < w->n_words; k++)
                theirs[k] |= mine[k];
            theirs[best >> 6] &= ~((uint64_t)1 << (best & 63));
        }
        for (int64_t a = 0; a < n_around; a++) {
            int64_t u = w->scope[w->scope_start[s] + a];
            w->cost[u] = joined_size(w, u);
        }
    }
    w->scope_start[n] = at;
    return total;
}

static int64_t cells_of(const Work *w, const int64_t *scope, int64_t n)
{
    int64_t size = 1;
    for (int64_t a = 0; a < n; a++)
        size *= w->arities[scope[a]];
    return size;
}

/* Go over the cells of a step with a table's cells beside them. sum: add the step's numbers to
 * the table; otherwise multiply the step's by the table's. */
static void go_over(Work *w, int64_t s, int64_t t, int sum)
{
    const int64_t *scope = w->scope + w->scope_start[s];
    int64_t n = w->scope_start[s + 1] - w->scope_start[s], c_n = w->n_classes, step = 1, at = 0;
    for (int64_t v = 0; v < n; v++)
        w->stride[v] = w->digit[v] = 0;
    for (int64_t a = w->n_members[t] - 1; a >= 0; a--) {
        for (int64_t v = 0; v < n; v++)
            if (scope[v] == w->members[t][a])
                w->stride[v] = step;
        step *= w->arities[w->members[t][a]];
    }
    int64_t arity = w->arities[scope[n - 1]], last = w->stride[n - 1] * c_n;
    int64_t n_outer = cells_of(w, scope, n - 1);
    double *cell = w->joined[s];
    for (int64_t o = 0; o < n_outer; o++) {
        double *there = w->values[t] + at * c_n;
        for (int64_t x = 0; x < arity; x++, cell += c_n, there += last)
            for (int64_t c = 0; c < c_n; c++) {
                if (sum)
                    there[c] += cell[c];
                else
                    cell[c] *= there[c];
            }
        for (int64_t v = n - 2; v >= 0; v--) {
            at += w->stride[v];
            if (++w->digit[v] < w->arities[scope[v]])
                break;
            at -= w->digit[v] * w->stride[v];
            w->digit[v] = 0;
        }
    }
}

/* Divide a table by its largest number, class by class, and add that number's log. */
static void scale(double *values, int64_t n_cells, int64_t n_classes, double *log_sums)
{
    for (int64_t c = 0; c < n_classes; c++) {
        double top = 0.0;
        for (int64_t i = 0; i < n_cells; i++)
            top = high(top, values[i * n_classes + c]);
        log_sums[c] += log(top);
        for (int64_t i = 0; top > 0.0 && i < n_cells; i++)
            values[i * n_classes + c] /= top;
    }
}

/* Sum the variables out, one after the other. */
static void go_up(Work *w, int64_t n_given, double *arena, double *log_sums)
{
    int64_t c_n = w->n_classes;
    w->n_tables = n_given;
    for (int64_t s = 0; s < w->n_variables; s++) {
        const int64_t *scope = w->scope + w->scope_start[s];
        int64_t n = w->scope_start[s + 1] - w->scope_start[s], v = scope[n - 1];
        int64_t n_outer = cells_of(w, scope, n - 1), arity = w->arities[v];
        w->joined[s] = arena;
        arena += n_outer * arity * c_n;
        for (int64_t i = 0; i < n_outer * arity * c_n; i++)
            w->joined[s][i] = 1.0;
        for (int64_t t = 0; t < w->n_tables; t++) {
            int holds = 0;
            for (int64_t a = 0; w->user[t] < 0 && a < w->n_members[t]; a++)
                holds |= w->members[t][a] == v;
            if (!holds)
                continue;
            w->user[t] = s;
            go_over(w, s, t, 0);
        }
        int64_t t = w->n_tables++;
        w->members[t] = scope;
        w->n_members[t] = n - 1;
        w->user[t] = -1;
        w->values[t] = arena;
        arena += n_outer * c_n;
        const double *cell = w->joined[s];
        for (int64_t o = 0; o < n_outer; o++)
            for (int64_t c = 0; c < c_n; c++) {
                double sum = 0.0;
                for (int64_t x = 0; x < arity; x++)
                    sum += cell[(o * arity + x) * c_n + c];
                w->values[t][o * c_n + c] = sum;
            }
        /* The sum as it was is found again from `joined`; the scaled one is what goes on. */
        scale(w->values[t], n_outer, c_n, log_sums);
    }
}

/* From the last step to the first, turn what was joined into probabilities; every given table's
 * numbers become the marginals of its members. */
static void go_down(Work *w, int64_t n_given)
{
    int64_t c_n = w->n_classes;
    for (int64_t s = w->n_variables - 1; s >= 0; s--) {
        const int64_t *scope = w->scope + w->scope_start[s];
        int64_t n = w->scope_start[s + 1] - w->scope_start[s], own = n_given + s;
        int64_t n_outer = cells_of(w, scope, n - 1), arity = w->arities[scope[n - 1]];
        for (int64_t o = 0; o < n_outer; o++)
            for (int64_t c = 0; c < c_n; c++) {
                double *cell = w->joined[s] + o * arity * c_n + c, sum = 0.0;
                double wanted = w->user[own] < 0 ? 1.0 : w->values[own][o * c_n + c];
                for (int64_t x = 0; x < arity; x++)
                    sum += cell[x * c_n];
                for (int64_t x = 0; x < arity; x++)
                    cell[x * c_n] = sum > 0.0 ? cell[x * c_n] / sum * wanted : 0.0;
            }
        for (int64_t t = 0; t < own; t++)
            if (w->user[t] == s) {
                int64_t size = cells_of(w, w->members[t], w->n_members[t]) * c_n;
                memset(w->values[t], 0, sizeof(double) * (size_t)size);
                go_over(w, s, t, 1);
            }
    }
}

/* Draw all variables of a row by inverting their joint distribution function at one number. Each
 * choice uses up some digits of the number; when few are left, the rest is drawn anew. */
static void draw_row(Work *w, double number, uint16_t *out, int64_t stride)
{
    double width = 1.0;
    for (int64_t s = w->n_variables - 1; s >= 0; s--) {
        const int64_t *scope = w->scope + w->scope_start[s];
        int64_t n = w->scope_start[s + 1] - w->scope_start[s], at = 0, v = scope[n - 1], x = 0;
        for (int64_t a = 0; a < n - 1; a++)
            at = at * w->arities[scope[a]] + out[scope[a] * stride];
        const double *cell = w->joined[s] + at * w->arities[v];
        double sum = 0.0, below = 0.0;
        for (int64_t u = 0; u < w->arities[v]; u++)
            sum += cell[u];
        double wanted = number * sum;
        for (int64_t u = 0; u < w->arities[v]; u++) {
            if (cell[u] <= 0.0)
                continue;
            x = u;
            if (wanted < below + cell[u])
                break;
            below += cell[u];
        }
        if (cell[x] > 0.0) {
            number = low(high((wanted - below) / cell[x], 0.0), 1.0 - 0x1p-53);
            width *= cell[x] / sum;
        }
        if (width < 0x1p-30) {
            uint64_t bits;
            memcpy(&bits, &number, 8);
            bits = (bits ^ bits >> 30) * 0xBF58476D1CE4E5B9u;
            bits = (bits ^ bits >> 27) * 0x94D049BB133111EBu;
            number = (double)((bits ^ bits >> 31) >> 11) * 0x1p-53;
            width = 1.0;
        }
        out[v * stride] = (uint16_t)x;
    }
}

/* For each row, sum its variables out of the product of its factors. factors: logs on entry, their
 * largest subtracted here; with `marginals` the members' joint probabilities on return. Variables
 * of a row are numbered from 0 within it. Rows past max_cells get a sum that isn't a number, and
 * nothing else; so do rows whose factors don't fit their variables. Each row is drawn as often as it
 * has numbers, variable by variable, row after row; draws need a single class. */
static int64_t run_sum_unknown(Argument *arguments)
{
    const int64_t *variable_start = LONGS(1), *members = LONGS(2), *member_start = LONGS(3);
    const int64_t *factor_start = LONGS(4), *cell_start = LONGS(5);
    const int64_t *number_start = LONGS(8);
    int64_t n_rows = LENGTH(1, 0) - 1, n_classes = LENGTH(6, 1);
    int64_t n_most = 1, t_most = 1, room = 0, drawn = 0, answer = 0;
    for (int64_t r = 0; r < n_rows; r++) {
        n_most = most(n_most, variable_start[r + 1] - variable_start[r]);
        t_most = most(t_most, factor_start[r + 1] - factor_start[r]);
    }
    int64_t n_words = (n_most + 63) / 64, n_tables = t_most + n_most;
    size_t n_longs = (size_t)(5 * n_most + 1 + n_most * n_most + 2 * n_tables);
    int64_t *longs = malloc(sizeof(int64_t) * n_longs);
    void **pointers = malloc(sizeof(void *) * (size_t)(2 * n_tables + n_most));
    uint64_t *words = malloc(sizeof(uint64_t) * (size_t)(n_most * n_words));
    double *cost = malloc(sizeof(double) * (size_t)n_most), *arena = NULL;
    uint8_t *done = malloc((size_t)n_most);
    if (!longs || !pointers || !words || !cost || !done)
        answer = NO_MEMORY;
    /* All memory is had before anything is written: the first time round rows are only planned. */
    for (int64_t at = 0; answer == 0 && at < 2 * n_rows; at++) {
        int64_t r = at % n_rows;
        Work w = {.arities = LONGS(0) + variable_start[r],
                  .n_variables = variable_start[r + 1] - variable_start[r],
                  .n_classes = n_classes,
                  .n_words = n_words};
        w.order = longs, w.scope_start = w.order + n_most, w.stride = w.scope_start + n_most + 1;
        w.digit = w.stride + n_most, w.scope = w.digit + n_most;
        w.n_members = w.scope + n_most * n_most + n_most, w.user = w.n_members + n_tables;
        w.members = (const int64_t **)pointers, w.values = (double **)(pointers + n_tables);
        w.joined = (double **)(pointers + 2 * n_tables);
        w.around = words, w.cost = cost, w.done = done;
        int64_t n_given = factor_start[r + 1] - factor_start[r];
        double *log_sums = DOUBLES(11) + r * n_classes;
        int64_t n_draws = number_start[r + 1] - number_start[r];
        int64_t first = r ? drawn : 0;
        drawn = first + w.n_variables * n_draws;
        int fits = (n_classes == 1 || n_draws == 0) && drawn <= LENGTH(12, 0);
        for (int64_t t = 0; t < n_given; t++) {
            int64_t f = factor_start[r] + t;
            w.members[t] = members + member_start[f];
            w.n_members[t] = member_start[f + 1] - member_start[f];
            w.values[t] = DOUBLES(6) + cell_start[f] * n_classes;
            w.user[t] = -1;
            int64_t n_cells = cell_start[f + 1] - cell_start[f];
            for (int64_t a = 0; a < w.n_members[t]; a++)
                fits &= w.members[t][a] < w.n_variables;
            fits = fits && cells_of(&w, w.members[t], w.n_members[t]) == n_cells;
        }
        int64_t size = fits ? plan_row(&w, n_given, (double)NUMBER(9)) : -1;
        if (at < n_rows) {
            room = most(room, size * n_classes);
            if (r == n_rows - 1 && !(arena = malloc(sizeof(double) * (size_t)(room + 1))))
                answer = NO_MEMORY;
            continue;
        }
        for (int64_t c = 0; c < n_classes; c++)
            log_sums[c] = size < 0 ? NAN : 0.0;
        if (size < 0)
            continue;
        for (int64_t t = 0; t < n_given; t++) {
            int64_t n_cells = cell_start[factor_start[r] + t + 1] - cell_start[factor_start[r] + t];
            for (int64_t c = 0; c < n_classes; c++) {
                double *value = w.values[t] + c, top = -INFINITY;
                for (int64_t i = 0; i < n_cells; i++)
                    top = high(top, value[i * n_classes]);
                log_sums[c] += top;
                for (int64_t i = 0; i < n_cells; i++)
                    value[i * n_classes] = top == -INFINITY ? 0.0 : exp(value[i * n_classes] - top);
            }
        }
        go_up(&w, n_given, arena, log_sums);
        for (int64_t d = 0; d < n_draws; d++)
            draw_row(&w, DOUBLES(7)[number_start[r] + d], SHORTS(12) + first + d, n_draws);
        if (NUMBER(10))
            go_down(&w, n_given);
    }
    free(longs), free(pointers), free(words), free(cost), free(done), free(arena);
    return answer;
}
KERNEL(sum_unknown,
       "arities: int64[n_variables]\n"
       "variable_start: int64[n_rows + 1] rising to n_variables\n"
       "members: int64[n_members] below n_variables\n"
       "member_start: int64[n_factors + 1] rising to n_members\n"
       "factor_start: int64[n_rows + 1] rising to n_factors\n"
       "cell_start: int64[n_factors + 1] rising to n_cells\n"
       "factors: float64[n_cells, n_classes] written\n"
       "numbers: float64[n_numbers]\n"
       "number_start: int64[n_rows + 1] rising to n_numbers\n"
       "max_cells: int from 1\n"
       "marginals: int from 0\n"
       "log_sums: float64[n_rows, n_classes] written\n"
       "draws: uint16[n_drawn] written")
