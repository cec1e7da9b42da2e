/* Open MPI beside the host bus: `mpi KEY BYTES`, KEY round_trip.*, barrier.*, gather.* or join.*; prints `figure KEY P50 P99` on rank 0. */
#define _GNU_SOURCE
#include "stamp.h"
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, ranks, bytes;
static char *own, *all;
static unsigned char round_number;

/* As our ranks, and as iceoryx2's. */
static void pin(void) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(rank % 2, &set);
    if (sched_setaffinity(0, sizeof set, &set)) MPI_Abort(MPI_COMM_WORLD, 1);
}

static void fresh(void) { memset(own, ++round_number, bytes); }

static void check(int part) {
    if ((unsigned char)all[(part + 1) * bytes - 1] != round_number) MPI_Abort(MPI_COMM_WORLD, 1);
}

static void round_trip(void) {
    fresh();
    if (rank == 0) MPI_Send(own, bytes, MPI_CHAR, 1, 1, MPI_COMM_WORLD);
    MPI_Recv(all, bytes, MPI_CHAR, 1 - rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank == 1) MPI_Send(own, bytes, MPI_CHAR, 0, 1, MPI_COMM_WORLD);
    check(0);
}

static void barrier(void) { MPI_Barrier(MPI_COMM_WORLD); }

static void gather(void) {
    fresh();
    MPI_Allgather(own, bytes, MPI_CHAR, all, bytes, MPI_CHAR, MPI_COMM_WORLD);
    check(ranks - 1);
}

static int order(const void *left, const void *right) {
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return a < b ? -1 : a > b;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const char *key = argv[1];
    bytes = argc > 2 ? atoi(argv[2]) : 0;
    own = calloc(1, bytes + 1), all = calloc(ranks, bytes + 1);
    void (*event)(void) = *key == 'r' ? round_trip : *key == 'g' ? gather : barrier;
    if (*key == 'j') {
        barrier();
        MPI_Finalize();
        return 0;
    }
    pin();
    int count = bytes > 4096 ? 500 : ranks > 2 ? 4000 : 20000;
    uint64_t *times = malloc(count * sizeof *times);
    for (int warm = 0; warm < 50; warm++) event();
    for (int at = 0; at < count; at++) {
        uint64_t begin = stamp();
        event();
        times[at] = stamp() - begin;
    }
    qsort(times, count, sizeof *times, order);
    if (rank == 0) printf("figure %s %g %g\n", key, ns(times[count / 2]), ns(times[count * 99 / 100]));
    MPI_Finalize();
    return 0;
}
