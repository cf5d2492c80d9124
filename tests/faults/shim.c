/* A preload library that makes the n-th write or sync of a matching file fail.
 *
 * SHIM_PATH: part of the file's path. SHIM_AT: which call, from 1. SHIM_HOW: `errno` (write fails with ENOSPC),
 * `short` (write takes half), `kill` (half is written, then the process is killed), `sync` (fdatasync fails with EIO).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static int seen;

static int strikes(int fd, int syncing) {
  const char *path = getenv("SHIM_PATH"), *how = getenv("SHIM_HOW"), *at = getenv("SHIM_AT");
  char link[64], target[PATH_MAX];
  ssize_t length;
  if (!path || !how || !at || (strcmp(how, "sync") == 0) != syncing) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  length = readlink(link, target, sizeof target - 1);
  if (length <= 0) return 0;
  target[length] = 0;
  return strstr(target, path) && __sync_add_and_fetch(&seen, 1) == atoi(at);
}

ssize_t write(int fd, const void *data, size_t size) {
  static ssize_t (*real)(int, const void *, size_t);
  if (!real) real = dlsym(RTLD_NEXT, "write");
  if (strikes(fd, 0)) {
    const char *how = getenv("SHIM_HOW");
    ssize_t count;
    if (strcmp(how, "errno") == 0) {
      errno = ENOSPC;
      return -1;
    }
    count = real(fd, data, size / 2);
    if (strcmp(how, "kill") == 0) kill(getpid(), SIGKILL);
    return count;
  }
  return real(fd, data, size);
}

int fdatasync(int fd) {
  static int (*real)(int);
  if (!real) real = dlsym(RTLD_NEXT, "fdatasync");
  if (strikes(fd, 1)) {
    errno = EIO;
    return -1;
  }
  return real(fd);
}
