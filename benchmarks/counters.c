/* The best makespan of loops whose ops are counted: a search over tile counters, exact where it comes to its end.
 *
 * A state is how many ops of every stage have begun and when those at work end. What may begin, begins at an end.
 * A state is left out where another one with the same counts has all its ends no later, or where the makespan cannot
 * be below the limit. Bytes are counted, and no addresses are given; a transfer is issued, and its end is seen, when not
 * all vector threads are busy. So the result is a lower bound for plans, and no plan is below it.
 *
 * Prices say what a tick of each stage costs, such that nothing that can run together costs more than `PRICE` in all:
 * so what is left to do takes at least what it costs. Where there are too many states to find the best makespan, the
 * largest limit is looked for below which there is none: the lower it is, the fewer states can stay below it.
 *
 * Input: stages, buffers, bytes of the scratchpad, threads, limit, most states, rows of prices. Per stage: ops, ticks,
 * kind (0 matrix, 1 one thread, 2 all threads, 3 transfer), how many it waits for and (stage, distance) of each, how
 * many buffers it uses and their numbers, and the tail of every op. Per buffer its bytes. Per row of prices one for
 * every stage. Output, a line whenever more is known: what is proven; 1 where that is exact; states.
 */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_STAGES = 12, MOST_RUNNING = 20, MOST_TIME = 8192, MOST_OPS = 64, MOST_PRICES = 32, NOBODY = -1 };
enum { PRICE = 1000000 };
enum { MATRIX, THREAD, THREADS, TRANSFER };

typedef struct {
    uint16_t now;
    uint8_t begun[MOST_STAGES];
    uint8_t running[MOST_STAGES];
    uint16_t ends[MOST_RUNNING]; /* stage by stage, ascending */
    int32_t next;
    int32_t waited; /* the same state before its last end, if nothing began there; else NOBODY */
    uint8_t gone;   /* a later state stands for it */
} State;

typedef struct {
    int ops, ticks, kind, waits, wait_stage[8], wait_distance[8], buffers, buffer[8], tail[MOST_OPS];
} Stage;

static Stage stage[MOST_STAGES];
static int stages, buffers, threads, limit, bytes[MOST_STAGES];
static long room, most_states, used;
static State *states;
static int32_t queue[MOST_TIME];
static int32_t *table;
static long table_size;
static int best;
static int price_rows;
static long price[MOST_PRICES][MOST_STAGES];

static int longest_block(void)
{
    int longest = 0;
    for (int c = 0; c < stages; c++) {
        if (stage[c].kind != TRANSFER && stage[c].ticks > longest) {
            longest = stage[c].ticks;
        }
    }
    return longest;
}

static int first_end(const State *s, int c)
{
    int at = 0;
    for (int k = 0; k < c; k++) {
        at += s->running[k];
    }
    return at;
}

static int busy_threads(const State *s)
{
    int busy = 0;
    for (int c = 0; c < stages; c++) {
        busy += s->running[c] * (stage[c].kind == THREAD ? 1 : stage[c].kind == THREADS ? threads : 0);
    }
    return busy;
}

static int ended(const State *s, int c)
{
    return s->begun[c] - s->running[c];
}

static long bytes_held(const State *s)
{
    long held = 0;
    for (int b = 0; b < buffers; b++) {
        int born = 0, over = MOST_OPS;
        for (int c = 0; c < stages; c++) {
            for (int k = 0; k < stage[c].buffers; k++) {
                if (stage[c].buffer[k] == b) {
                    born = s->begun[c] > born ? s->begun[c] : born;
                    over = ended(s, c) < over ? ended(s, c) : over;
                }
            }
        }
        held += (long)bytes[b] * (born - over);
    }
    return held;
}

static int least_makespan(const State *s)
{
    int least = s->now;
    long left[3] = {0, 0, 0}, of_stage[MOST_STAGES];
    int at = 0;
    for (int c = 0; c < stages; c++) {
        const Stage *g = &stage[c];
        const int lane = g->kind == MATRIX ? 0 : g->kind == TRANSFER ? 2 : 1;
        const int width = g->kind == THREADS ? threads : 1;
        of_stage[c] = (long)(g->ops - s->begun[c]) * g->ticks;
        for (int k = 0; k < s->running[c]; k++, at++) {
            const int end = s->ends[at], op = ended(s, c) + k;
            if (end > s->now) {
                const int rest = end - s->now;
                of_stage[c] += rest < g->ticks ? rest : g->ticks;
            }
            if (end + g->tail[op] > least) {
                least = end + g->tail[op];
            }
        }
        if (s->begun[c] < g->ops && s->now + g->ticks + g->tail[s->begun[c]] > least) {
            least = s->now + g->ticks + g->tail[s->begun[c]];
        }
        left[lane] += of_stage[c] * width;
    }
    for (int r = 0; r < price_rows; r++) {
        long cost = 0;
        for (int c = 0; c < stages; c++) {
            cost += price[r][c] * of_stage[c];
        }
        const long end = s->now + (cost + PRICE - 1) / PRICE;
        least = end > least ? (int)end : least;
    }
    for (int lane = 0; lane < 3; lane++) {
        const long width = lane == 1 ? threads : 1, end = s->now + (left[lane] + width - 1) / width;
        least = end > least ? (int)end : least;
    }
    return least;
}

static int no_later(const State *a, const State *b)
{
    /* a, which is no later than b, can do whatever b does. */
    int free_at = a->now, at = 0, other = 0, wait = 0;
    for (int c = 0; c < stages; c++) {
        const int fewer = a->running[c] - b->running[c];
        for (int k = 0; k < a->running[c]; k++, at++) {
            const int end = a->ends[at];
            if (k >= fewer) {
                if (end > b->ends[other + k - fewer]) {
                    return 0;
                }
            } else if (end > b->now) {
                return 0;
            } else if (stage[c].kind == TRANSFER) {
                wait = 1;
            }
            if (stage[c].kind == THREAD || stage[c].kind == THREADS) {
                free_at = end > free_at ? end : free_at;
            }
        }
        other += b->running[c];
    }
    return !wait || free_at <= b->now;
}

static unsigned long hash_of(const State *s)
{
    unsigned long h = 1469598103934665603UL;
    for (int c = 0; c < stages; c++) {
        h = (h ^ s->begun[c]) * 1099511628211UL;
    }
    return h ^ (h >> 29);
}

static int is_dominated(int32_t number)
{
    const State *s = &states[number];
    if (s->waited != NOBODY) {
        states[s->waited].gone = 1;
    }
    unsigned long at = hash_of(s) % (unsigned long)table_size;
    while (table[at] != NOBODY && memcmp(states[table[at]].begun, s->begun, (size_t)stages) != 0) {
        at = (at + 1) % (unsigned long)table_size;
    }
    for (int32_t k = table[at]; k != NOBODY; k = states[k].next) {
        if (!states[k].gone && no_later(&states[k], s)) {
            return 1;
        }
    }
    states[number].next = table[at];
    table[at] = number;
    return 0;
}

static void put(const State *s, int32_t waited)
{
    if (used < most_states) {
        states[used] = *s;
        states[used].next = queue[s->now];
        states[used].waited = waited;
        states[used].gone = 0;
        queue[s->now] = (int32_t)used;
    }
    used++;
}

static void to_next_end(const State *from, int32_t waited)
{
    State s = *from;
    int now = MOST_TIME, at = 0, all = 1;
    for (int c = 0; c < stages; c++) {
        for (int k = 0; k < s.running[c]; k++, at++) {
            now = s.ends[at] > s.now && s.ends[at] < now ? s.ends[at] : now;
        }
    }
    if (now == MOST_TIME) {
        return;
    }
    s.now = (uint16_t)now;
    for (int seen = 0; seen < 2; seen++) { /* threads end first, then transfers are seen */
        if (seen && busy_threads(&s) >= threads) {
            break;
        }
        for (int c = 0; c < stages; c++) {
            if ((stage[c].kind == TRANSFER) != seen) {
                continue;
            }
            while (s.running[c] && s.ends[first_end(&s, c)] <= now) {
                const int first = first_end(&s, c);
                memmove(&s.ends[first], &s.ends[first + 1], (size_t)(MOST_RUNNING - first - 1) * sizeof s.ends[0]);
                s.running[c]--;
            }
        }
    }
    for (int c = 0; c < stages; c++) {
        all = all && ended(&s, c) == stage[c].ops;
    }
    if (all) {
        best = now < best ? now : best;
    } else if (least_makespan(&s) < best) {
        put(&s, waited);
    }
}

static void begin(const State *before, int32_t number, const State *s, int from, int transfers)
{
    for (int round = transfers; round < 2; round++, from = 0) {
        for (int c = from; c < stages; c++) {
            const Stage *g = &stage[c];
            const int op = s->begun[c];
            if ((g->kind == TRANSFER) == round || op >= g->ops) {
                continue;
            }
            int ready = 1, end = s->now + g->ticks, total = first_end(s, stages);
            for (int k = 0; k < g->waits; k++) {
                const int needed = op - g->wait_distance[k];
                ready = ready && (needed < 0 || ended(before, g->wait_stage[k]) > needed);
            }
            const int busy = busy_threads(s);
            if (g->kind == MATRIX) {
                for (int k = 0; k < stages; k++) {
                    ready = ready && (stage[k].kind != MATRIX || s->running[k] == 0);
                }
            } else if (g->kind == TRANSFER) {
                ready = ready && busy < threads;
                for (int k = 0; k < stages; k++) {
                    if (stage[k].kind == TRANSFER && s->running[k]) {
                        const int last = s->ends[first_end(s, k) + s->running[k] - 1];
                        end = last + g->ticks > end ? last + g->ticks : end;
                    }
                }
                ready = ready && end - g->ticks <= s->now + longest_block();
            } else {
                ready = ready && busy + (g->kind == THREADS ? threads : 1) <= threads;
            }
            if (!ready || total == MOST_RUNNING) {
                continue;
            }
            State next = *s;
            const int at = first_end(s, c) + s->running[c];
            memmove(&next.ends[at + 1], &next.ends[at], (size_t)(MOST_RUNNING - at - 1) * sizeof next.ends[0]);
            next.ends[at] = (uint16_t)end;
            next.running[c]++;
            next.begun[c]++;
            if (bytes_held(&next) <= room) {
                begin(before, NOBODY, &next, c, round);
            }
        }
    }
    to_next_end(s, number);
}

static int read_all(void)
{
    if (scanf("%d %d %ld %d %d %ld", &stages, &buffers, &room, &threads, &limit, &most_states) != 6) {
        return 0;
    }
    if (scanf("%d", &price_rows) != 1 || price_rows > MOST_PRICES) {
        return 0;
    }
    if (stages > MOST_STAGES || buffers > MOST_STAGES || limit >= MOST_TIME) {
        return 0;
    }
    for (int c = 0; c < stages; c++) {
        Stage *g = &stage[c];
        if (scanf("%d %d %d %d", &g->ops, &g->ticks, &g->kind, &g->waits) != 4 || g->ops > MOST_OPS || g->waits > 8) {
            return 0;
        }
        for (int k = 0; k < g->waits; k++) {
            if (scanf("%d %d", &g->wait_stage[k], &g->wait_distance[k]) != 2) {
                return 0;
            }
        }
        if (scanf("%d", &g->buffers) != 1 || g->buffers > 8) {
            return 0;
        }
        for (int k = 0; k < g->buffers; k++) {
            if (scanf("%d", &g->buffer[k]) != 1) {
                return 0;
            }
        }
        for (int k = 0; k < g->ops; k++) {
            if (scanf("%d", &g->tail[k]) != 1) {
                return 0;
            }
        }
    }
    for (int b = 0; b < buffers; b++) {
        if (scanf("%d", &bytes[b]) != 1) {
            return 0;
        }
    }
    for (int r = 0; r < price_rows; r++) {
        for (int c = 0; c < stages; c++) {
            if (scanf("%ld", &price[r][c]) != 1) {
                return 0;
            }
        }
    }
    return 1;
}

static int search(int below)
{
    /* Whether there were few enough states to know the best makespan below a limit, which is then `best`. */
    memset(table, 0xff, (size_t)table_size * sizeof *table);
    memset(queue, 0xff, sizeof queue);
    best = below;
    used = 0;
    State first;
    memset(&first, 0, sizeof first);
    put(&first, NOBODY);
    for (int now = 0; now < best && used <= most_states; now++) {
        while (queue[now] != NOBODY && used <= most_states) {
            const int32_t number = queue[now];
            queue[now] = states[number].next;
            if (least_makespan(&states[number]) < best && !is_dominated(number)) {
                const State s = states[number];
                begin(&s, number, &s, 0, 0);
            }
        }
    }
    return used <= most_states;
}

static void tell(int proven, int exact)
{
    printf("%d %d %ld\n", proven, exact, used);
    fflush(stdout);
}

int main(void)
{
    if (!read_all()) {
        return 2;
    }
    states = malloc((size_t)most_states * sizeof *states);
    table_size = 2 * most_states + 1;
    table = malloc((size_t)table_size * sizeof *table);
    if (states == NULL || table == NULL) {
        return 3;
    }
    State first;
    memset(&first, 0, sizeof first);
    int proven = least_makespan(&first), open = limit, at = limit;
    tell(proven < limit ? proven : limit, proven >= limit);
    while (proven < open) {
        if (!search(at)) {
            open = at - 1;
        } else if (best < at || at == limit) {
            proven = open = best;
            tell(proven, 1);
        } else {
            proven = at;
            tell(proven, 0);
        }
        at = proven + (open - proven + 1) / 2;
    }
    free(states);
    free(table);
    return 0;
}
