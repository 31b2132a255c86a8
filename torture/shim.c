/* Loaded before the C library: lets the n-th write, sync, rename or creation of a file
 * below one folder fail, and the clock of the day go backwards.
 *
 *   fault_arm(call, error, at, lasting, folder)   call: 0 write, 1 sync, 2 rename, 3 create
 *   fault_disarm() -> how often a call failed
 *   clock_back(seconds)                           by so much for each look at the clock
 *
 * A failure that lasts is that of a disk that fills up: the first write still writes half of
 * its bytes. With the error 0 a write only writes half, as it may at any time.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { WRITE, SYNC, RENAME, CREATE, NONE };

static atomic_int armed = NONE, seen, failed;
static int error_number, fail_at, lasting;
static char folder[PATH_MAX];
static atomic_long step, looks;

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

void fault_arm(int call, int error, int at, int stays, const char *where) {
    error_number = error, fail_at = at, lasting = stays;
    snprintf(folder, sizeof folder, "%s", where);
    seen = 0;
    failed = 0;
    armed = call;
}

int fault_disarm(void) {
    armed = NONE;
    return failed;
}

void clock_back(long seconds) {
    step = seconds;
    looks = 0;
}

static int below(const char *path) {
    char whole[PATH_MAX];
    if (path[0] != '/') {
        if (getcwd(whole, sizeof whole) == NULL) return 0;
        return strncmp(whole, folder, strlen(folder)) == 0;
    }
    return strncmp(path, folder, strlen(folder)) == 0;
}

static int is_ours(int file) {
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length <= 0) return 0;
    path[length] = 0;
    return below(path);
}

/* Whether this call is the one to fail; `first` where it is the first to. */
static int fails(int call, int *first) {
    if (armed != call) return 0;
    int number = ++seen;
    if (number < fail_at || (number > fail_at && !lasting)) return 0;
    *first = ++failed == 1;
    errno = error_number;
    return 1;
}

ssize_t write(int file, const void *data, size_t count) {
    int first = 0;
    if (armed == WRITE && is_ours(file) && fails(WRITE, &first)) {
        if (count > 1 && ((first && lasting) || error_number == 0))
            return REAL(write)(file, data, count / 2);
        return error_number ? -1 : REAL(write)(file, data, count);
    }
    return REAL(write)(file, data, count);
}

ssize_t pwrite64(int file, const void *data, size_t count, off64_t at) {
    int first = 0;
    if (armed == WRITE && is_ours(file) && fails(WRITE, &first)) return -1;
    return REAL(pwrite64)(file, data, count, at);
}

ssize_t pwrite(int file, const void *data, size_t count, off_t at) {
    return pwrite64(file, data, count, at);
}

ssize_t writev(int file, const struct iovec *parts, int count) {
    int first = 0;
    if (armed == WRITE && is_ours(file) && fails(WRITE, &first)) return -1;
    return REAL(writev)(file, parts, count);
}

int fsync(int file) {
    int first = 0;
    if (armed == SYNC && is_ours(file) && fails(SYNC, &first)) return -1;
    return REAL(fsync)(file);
}

int rename(const char *from, const char *to) {
    int first = 0;
    if (armed == RENAME && below(to) && fails(RENAME, &first)) return -1;
    return REAL(rename)(from, to);
}

int renameat(int a, const char *from, int b, const char *to) {
    int first = 0;
    if (armed == RENAME && below(to) && fails(RENAME, &first)) return -1;
    return REAL(renameat)(a, from, b, to);
}

#define OPEN(name, arguments)                                              \
    int first = 0;                                                         \
    mode_t mode = 0;                                                       \
    if (flags & (O_CREAT | O_TMPFILE)) {                                   \
        va_list rest;                                                      \
        va_start(rest, flags);                                             \
        mode = va_arg(rest, mode_t);                                       \
        va_end(rest);                                                      \
    }                                                                      \
    int creates = (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE;   \
    if (armed == CREATE && creates && below(path) && fails(CREATE, &first)) return -1; \
    return REAL(name) arguments;

int open(const char *path, int flags, ...) { OPEN(open, (path, flags, mode)) }
int open64(const char *path, int flags, ...) { OPEN(open64, (path, flags, mode)) }
int openat(int at, const char *path, int flags, ...) { OPEN(openat, (at, path, flags, mode)) }
int openat64(int at, const char *path, int flags, ...) {
    OPEN(openat64, (at, path, flags, mode))
}

int clock_gettime(clockid_t which, struct timespec *now) {
    int code = REAL(clock_gettime)(which, now);
    if (which == CLOCK_REALTIME && step) now->tv_sec -= step * ++looks;
    return code;
}

time_t time(time_t *place) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (place != NULL) *place = now.tv_sec;
    return now.tv_sec;
}

int gettimeofday(struct timeval *now, void *zone) {
    int code = REAL(gettimeofday)(now, zone);
    if (step) now->tv_sec -= step * ++looks;
    return code;
}
