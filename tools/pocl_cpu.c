/* Put before the C library by tools/with_pocl.py: PoCL copies the name that its LLVM has for the CPU with strncpy, and
 * of a CPU that is newer than itself LLVM knows only that it is "generic", which clang does not take. PoCL gets a name
 * that fits into the same bytes instead: of a CPU that can do no more than this one, and whose vectors are as wide as
 * those of the builtin functions that PoCL chooses by the CPU's features. Everybody else gets a plain strncpy. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

static const char *known_name(void)
{
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        return "skx";
    return __builtin_cpu_supports("avx2") ? "haswell" : "x86-64";
}

static int is_pocl(void *address)
{
    Dl_info caller;
    return dladdr(address, &caller) && caller.dli_fname && strstr(caller.dli_fname, "libpocl");
}

char *strncpy(char *to, const char *from, size_t count)
{
    size_t length;
    if (count == strlen("generic") && strncmp(from, "generic", count) == 0 && is_pocl(__builtin_return_address(0)))
        from = known_name();
    length = strnlen(from, count);
    memcpy(to, from, length);
    memset(to + length, 0, count - length);
    return to;
}
