/* The host bus between forked processes: a message round a ring, an all-gather, a barrier with its leader.  3_bus */
#define _POSIX_C_SOURCE 200809L
#include <sys/wait.h>
#include <unistd.h>

#include "example.h"

enum { RANKS = 3, TAG = 7 };

static int run_rank(const char *job, uint32_t rank)
{
    bp_config config;
    INIT(config);
    config.job = job;
    config.rank = rank;
    config.world = RANKS;
    bananaphone *bus;
    MUST(bp_create(&config, &bus));
    MUST(bp_connect(bus, SECONDS(30)));

    /* Round a ring: each rank adds one to what it gets. */
    uint32_t next = (rank + 1) % RANKS, last = (rank + RANKS - 1) % RANKS, number = 0;
    size_t length;
    if (rank == 0)
        MUST(bp_send(bus, next, TAG, (const uint8_t *)&number, sizeof number, SECONDS(30)));
    MUST(bp_recv(bus, last, TAG, (uint8_t *)&number, sizeof number, &length, NULL, SECONDS(30)));
    number++;
    if (rank != 0)
        MUST(bp_send(bus, next, TAG, (const uint8_t *)&number, sizeof number, SECONDS(30)));
    else if (number != RANKS)
        return 2;

    /* Everybody gets everybody's part; parts may differ in size. */
    uint8_t part[RANKS], all[RANKS][RANKS];
    size_t lengths[RANKS];
    memset(part, (int)rank + 1, sizeof part);
    MUST(bp_all_gather(bus, part, rank + 1, all[0], RANKS, lengths, SECONDS(30)));
    for (uint32_t peer = 0; peer < RANKS; peer++)
        if (lengths[peer] != peer + 1 || all[peer][peer] != peer + 1)
            return 3;

    /* The leader has the floor between the two halves of a barrier. */
    bp_barrier *barrier;
    MUST(bp_barrier_create(bus, 0, NULL, 0, &barrier));
    for (uint64_t exec_id = 1; exec_id <= 100; exec_id++) {
        MUST(bp_barrier_wait(barrier, exec_id, SECONDS(30)));
        if (rank == 0)
            MUST(bp_barrier_release(barrier));
    }
    MUST(bp_barrier_hangup(barrier));
    MUST(bp_hangup(bus));
    MUST(bp_cleanup(bus));
    return 0;
}

int main(void)
{
    char job[64];
    snprintf(job, sizeof job, "bus-example-%ld", (long)getpid());
    pid_t ranks[RANKS];
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        ranks[rank] = fork();
        if (ranks[rank] == 0)
            exit(run_rank(job, rank));
    }
    int failed = 0;
    for (int rank = 0; rank < RANKS; rank++) {
        int status;
        if (waitpid(ranks[rank], &status, 0) < 0 || status != 0)
            failed = 1;
    }
    if (!failed)
        printf("bus: %d ranks, ring, all-gather and 100 barriers\n", RANKS);
    return failed;
}
