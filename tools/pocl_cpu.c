/* Put before the C library by tools/with_pocl.py: PoCL copies the name that its LLVM has for the CPU with strncpy, and
 * of a CPU that is newer than itself LLVM knows only that it is "generic", which clang does not take. PoCL gets a name
 * that fits into the same bytes instead: of a CPU that this one can stand in for, and whose vectors are as wide as those
 * of the builtin functions that PoCL chooses by the CPU's features. Where there is none the name stays, and programs fail
 * to build as before. Everybody else gets a plain strncpy. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#define HAS(feature) __builtin_cpu_supports(feature)

static const char *known_name(void)
{
    int haswell = HAS("avx2") && HAS("fma") && HAS("bmi") && HAS("bmi2") && HAS("popcnt");
    int skylake = HAS("avx512bw") && HAS("avx512cd") && HAS("avx512dq") && HAS("avx512vl") && HAS("aes");
    if (HAS("avx512f"))
        return haswell && skylake ? "skx" : "generic";
    if (HAS("avx"))
        return haswell ? "haswell" : "generic";
    return "x86-64";
}

static int is_pocl(void *address)
{
    Dl_info caller;
    const char *name;
    if (!dladdr(address, &caller) || !caller.dli_fname)
        return 0;
    name = strrchr(caller.dli_fname, '/');
    return strncmp(name ? name + 1 : caller.dli_fname, "libpocl", 7) == 0;
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
