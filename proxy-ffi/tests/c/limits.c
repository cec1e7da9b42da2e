/* A process at its limits: memory, sizes of files, pipes that nobody reads. An error each time, and no signal, whatever signals would do. */
#define _POSIX_C_SOURCE 200809L
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "check.h"

/* Sets a soft limit; returns the former one. */
static rlim_t limit(int resource, rlim_t soft)
{
    struct rlimit limit;
    REQUIRE(getrlimit(resource, &limit) == 0);
    rlim_t former = limit.rlim_cur;
    limit.rlim_cur = soft;
    REQUIRE(setrlimit(resource, &limit) == 0);
    return former;
}

static rlim_t address_space(void)
{
    unsigned long pages;
    FILE *statm = fopen("/proc/self/statm", "r");
    REQUIRE(statm != NULL && fscanf(statm, "%lu", &pages) == 1);
    fclose(statm);
    return (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE);
}

/* Less than a queue takes, more than the heap grows by. */
#define ROOM (256 * 1024)

static void without_memory(const struct world *world)
{
    enc_proxy_group_config config;
    enc_proxy_group *group;
    uint32_t others;
    INIT(config);
    config.device = 1;
    rlim_t former = limit(RLIMIT_AS, address_space() + ROOM);
    EXPECT(enc_proxy_group_acquire(&config, &group), NRT_FAIL_HOST_MEM_ALLOC);
    REQUIRE(strstr(enc_proxy_last_error(), " bytes for the queue: Cannot allocate memory") != NULL);
    EXPECT(enc_proxy_trace_start(world->group, 1 << 24), NRT_FAIL_HOST_MEM_ALLOC);
    REQUIRE(strstr(enc_proxy_last_error(), " bytes for the trace: ") != NULL);
    limit(RLIMIT_AS, former);
    EXPECT(enc_proxy_group_acquire(&config, &group), NRT_SUCCESS);
    EXPECT(enc_proxy_group_release(group, ENC_PROXY_DRAIN, SECONDS(10), &others), NRT_SUCCESS);
    REQUIRE(others == 0);
    EXPECT(enc_proxy_trace_start(world->group, 64), NRT_SUCCESS);
}

/* Neither a report nor a trace can be written to fd, for this reason. */
static void refused(const struct world *world, int fd, const char *reason)
{
    REQUIRE(fd >= 0);
    EXPECT(enc_proxy_report_to_fd(ENC_PROXY_JSON, 1, fd), NRT_RESOURCE);
    REQUIRE(strstr(enc_proxy_last_error(), reason) != NULL);
    EXPECT(enc_proxy_trace_write_to_fd(world->group, fd), NRT_RESOURCE);
    REQUIRE(strstr(enc_proxy_last_error(), reason) != NULL);
    close(fd);
}

/* What ends a program that has not said otherwise would do so still. */
static void is_as_it_was(int number)
{
    struct sigaction action;
    sigset_t set;
    REQUIRE(sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_DFL);
    REQUIRE(sigpending(&set) == 0 && sigismember(&set, number) == 0);
    REQUIRE(sigprocmask(SIG_BLOCK, NULL, &set) == 0 && sigismember(&set, number) == 0);
}

int main(int argc, char **argv)
{
    struct world world;
    int ends[2];
    REQUIRE(argc == 3);
    open_world(&world, argv[1], 0);
    without_memory(&world);
    REQUIRE(signal(SIGXFSZ, SIG_DFL) != SIG_ERR && signal(SIGPIPE, SIG_DFL) != SIG_ERR);
    int file = open(argv[2], O_RDWR | O_CREAT | O_EXCL, 0600);
    REQUIRE(file >= 0);
    rlim_t former = limit(RLIMIT_FSIZE, 0);
    refused(&world, dup(file), "File too large");
    limit(RLIMIT_FSIZE, former);
    EXPECT(enc_proxy_report_to_fd(ENC_PROXY_JSON, 1, file), NRT_SUCCESS);
    EXPECT(enc_proxy_trace_write_to_fd(world.group, file), NRT_SUCCESS);
    close(file);
    REQUIRE(pipe(ends) == 0);
    close(ends[0]);
    refused(&world, ends[1], "Broken pipe");
    refused(&world, open("/dev/full", O_WRONLY), "No space left on device");
    is_as_it_was(SIGXFSZ);
    is_as_it_was(SIGPIPE);
    close_world(&world);
    puts("ok");
    return 0;
}
