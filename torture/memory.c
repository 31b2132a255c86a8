/* Loaded before the C library: lets the n-th large allocation fail, and counts the large blocks
 * that are held.
 *
 *   memory_arm(at, bytes)   the at-th allocation of at least so many bytes fails; 0: none does
 *   memory_seen()           how many there were since then
 *   memory_held()           bytes of large blocks that were not freed yet
 *
 * C++'s operator new is let through: Arrow's containers of metadata end the process where it
 * fails. Arrow's data comes from posix_memalign, NumPy's and Python's from malloc and calloc.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

static atomic_long fail_at, large = 1 << 20, seen, held;

void memory_arm(long at, long bytes) {
    large = bytes;
    seen = 0;
    fail_at = at;
}

long memory_seen(void) { return seen; }

long memory_held(void) { return held; }

static int fails(size_t bytes) {
    if (bytes < (size_t)large) return 0;
    if (++seen != fail_at) return 0;
    errno = ENOMEM;
    return 1;
}

static void *counted(void *block) {
    size_t bytes = block ? malloc_usable_size(block) : 0;
    if (bytes >= (size_t)large) held += (long)bytes;
    return block;
}

static void uncount(void *block) {
    size_t bytes = block ? malloc_usable_size(block) : 0;
    if (bytes >= (size_t)large) held -= (long)bytes;
}

void *malloc(size_t bytes) { return fails(bytes) ? NULL : counted(__libc_malloc(bytes)); }

void *calloc(size_t count, size_t bytes) {
    if (bytes && count <= SIZE_MAX / bytes && fails(count * bytes)) return NULL;
    return counted(__libc_calloc(count, bytes));
}

void *realloc(void *block, size_t bytes) {
    if (fails(bytes)) return NULL;
    uncount(block);
    void *moved = __libc_realloc(block, bytes);
    counted(moved || !bytes ? moved : block);
    return moved;
}

void free(void *block) {
    uncount(block);
    __libc_free(block);
}

void *memalign(size_t alignment, size_t bytes) {
    return fails(bytes) ? NULL : counted(__libc_memalign(alignment, bytes));
}

void *aligned_alloc(size_t alignment, size_t bytes) { return memalign(alignment, bytes); }

int posix_memalign(void **block, size_t alignment, size_t bytes) {
    void *found = memalign(alignment, bytes);
    if (found == NULL) return ENOMEM;
    *block = found;
    return 0;
}

void *_Znwm(size_t bytes) { return counted(__libc_malloc(bytes)); }
