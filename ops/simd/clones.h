// How hand-written loops get the widest vectors.
#pragma once

// The function is compiled for several instruction sets, and the best is picked when the program is
// loaded. Sanitizers cannot run in the code that picks, so they get the plain one; and clang, which
// reads this for clang-tidy and the fuzz targets, cannot compile templates so.
#if defined(__x86_64__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__) && \
    !defined(__SANITIZE_ADDRESS__)
#define KERF_CLONES [[gnu::target_clones("avx512f", "avx2", "default")]]
#else
#define KERF_CLONES
#endif

// Before a loop: no turn of it writes what another reads. Only GCC compiles what is fast.
#if defined(__clang__)
#define KERF_INDEPENDENT
#else
#define KERF_INDEPENDENT _Pragma("GCC ivdep")
#endif
