/* LD_PRELOAD library that reports calls which change files to functions of the process, before and after each call.

   before(verb, path) returns 0, or the errno with which the call fails instead. after(verb, path, target) is called
   after each successful call. fault_injection.py uses this library to intercept the calls of SQLite. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static int (*before)(const char *, const char *);
static void (*after)(const char *, const char *, const char *);
static __thread int busy; /* calls made by the two functions themselves are not reported */

void watch_calls(int (*first)(const char *, const char *), void (*then)(const char *, const char *, const char *)) {
    before = first;
    after = then;
}

static int fails(const char *verb, const char *path) {
    if (!before || busy) return 0;
    busy = 1;
    int number = before(verb, path);
    busy = 0;
    errno = number ? number : errno;
    return number;
}

static void follow(int result, const char *verb, const char *path, const char *target) {
    if (!after || busy || result < 0) return;
    int kept = errno;
    busy = 1;
    after(verb, path, target);
    busy = 0;
    errno = kept;
}

static const char *name_of(int fd, char *name, size_t size) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, name, size - 1);
    name[n < 0 ? 0 : n] = 0;
    return name;
}

#define REAL(function) static __typeof__(&function) real; if (!real) real = dlsym(RTLD_NEXT, #function)
#define BY_FD(type, function, verb, parameters, arguments) \
    type function parameters { \
        REAL(function); \
        char name[4096]; \
        if (!before || busy) return real arguments; \
        if (fails(verb, name_of(fd, name, sizeof name))) return -1; \
        type result = real arguments; \
        follow(result < 0 ? -1 : 0, verb, name, ""); \
        return result; \
    }
#define BY_PATH(function, verb, parameters, arguments, target) \
    int function parameters { \
        REAL(function); \
        if (fails(verb, path)) return -1; \
        int result = real arguments; \
        follow(result, verb, path, target); \
        return result; \
    }
#define OPEN(function) \
    int function(const char *path, int flags, ...) { \
        REAL(function); \
        va_list rest; \
        va_start(rest, flags); \
        mode_t mode = va_arg(rest, mode_t); \
        va_end(rest); \
        int writes = (flags & O_ACCMODE) != O_RDONLY && !(flags & O_DIRECTORY); \
        if (writes && fails("open", path)) return -1; \
        int result = real(path, flags, mode); \
        if (writes) follow(result, "open", path, ""); \
        return result; \
    }

BY_FD(ssize_t, write, "write", (int fd, const void *data, size_t n), (fd, data, n))
BY_FD(ssize_t, pwrite, "write", (int fd, const void *data, size_t n, off_t at), (fd, data, n, at))
BY_FD(ssize_t, pwrite64, "write", (int fd, const void *data, size_t n, off64_t at), (fd, data, n, at))
BY_FD(int, ftruncate, "truncate", (int fd, off_t size), (fd, size))
BY_FD(int, ftruncate64, "truncate", (int fd, off64_t size), (fd, size))
BY_FD(int, fsync, "fsync", (int fd), (fd))
BY_FD(int, fdatasync, "fsync", (int fd), (fd))
BY_PATH(unlink, "unlink", (const char *path), (path), "")
BY_PATH(rmdir, "rmdir", (const char *path), (path), "")
BY_PATH(mkdir, "mkdir", (const char *path, mode_t mode), (path, mode), "")
BY_PATH(rename, "rename", (const char *path, const char *target), (path, target), target)
OPEN(open)
OPEN(open64)
