/* Time of single events in C and C++, by the same instructions as in the Rust benches, so that a timer costs all sides the same. */
#pragma once
#include <stdint.h>
#include <time.h>
#include <x86intrin.h>

static inline uint64_t stamp(void) {
    unsigned core;
    uint64_t now = __rdtscp(&core);
    _mm_lfence();
    return now;
}

static inline double monotonic(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

/* Nanoseconds of so many ticks. Measured once, over 20 ms. */
static inline double ns(uint64_t ticks) {
    static double per_tick;
    if (per_tick == 0) {
        double start = monotonic();
        uint64_t first = stamp();
        while (monotonic() - start < 20e6) {}
        double time = monotonic() - start;
        per_tick = time / (double)(stamp() - first);
    }
    return (double)ticks * per_tick;
}
