/* Two machines of one rank each, here two processes with a bus each: their leaders exchange over the library, and a barrier spans both. */
#define _DEFAULT_SOURCE
#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum { MACHINES = 2 };

static char root[32]; /* where the ranks meet */
static int tells[2];  /* a pipe: machine 0 tells machine 1 */

/* A port that is free, and stays so unless somebody is very quick. */
static void choose_root(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    REQUIRE(fd >= 0 && bind(fd, (struct sockaddr *)&address, size) == 0);
    REQUIRE(getsockname(fd, (struct sockaddr *)&address, &size) == 0);
    snprintf(root, sizeof root, "127.0.0.1:%d", ntohs(address.sin_port));
    close(fd);
}

static NRT_STATUS setup(uint32_t machine, enc_proxy_comm *comm, uint32_t leader_n, enc_glb_comm **made)
{
    static const uint32_t leaders[MACHINES] = {0, 1};
    char job[64];
    bp_config bus;
    enc_glb_comm_config config;
    INIT(bus);
    sprintf(job, "machine-%d", (int)getpid());
    bus.job = job;
    bus.world = 1;
    bus.machine_n = MACHINES;
    bus.machine = bus.first_rank = machine;
    INIT(config);
    config.bus = &bus;
    config.device = machine;
    config.leader_comm = comm;
    config.leaders = leaders;
    config.leader_n = leader_n;
    config.machine = machine;
    return enc_setup_global_comm(&config, made);
}

static void run(const char *path, uint32_t machine)
{
    enc_proxy_library *library;
    enc_proxy_comm *comm;
    enc_proxy_comm_config comm_config;
    EXPECT(enc_proxy_library_open(path, &library), NRT_SUCCESS);
    INIT(comm_config);
    comm_config.rank_n = MACHINES;
    comm_config.rank = comm_config.nec_dev_id = machine;
    comm_config.root_comm_id = root;
    EXPECT(enc_proxy_comm_create(library, &comm_config, &comm), NRT_SUCCESS);

    enc_glb_comm *glb = NULL, *second = NULL;
    EXPECT(setup(machine, NULL, MACHINES, &glb), NRT_INVALID);
    EXPECT(setup(machine, (enc_proxy_comm *)library, MACHINES, &glb), NRT_INVALID_HANDLE);
    EXPECT(setup(machine, comm, 0, &glb), NRT_INVALID);
    EXPECT(setup(machine, comm, 100000, &glb), NRT_INVALID);
    REQUIRE(glb == NULL);
    /* What failed has given the communicator back. */
    EXPECT(setup(machine, comm, MACHINES, &glb), NRT_SUCCESS);
    EXPECT(setup(machine, comm, MACHINES, &second), ENC_PROXY_BUSY);
    EXPECT(enc_proxy_comm_destroy(comm, 0), ENC_PROXY_BUSY);

    enc_proxy_group *group;
    encd_context *context;
    encd_context_config config;
    NRT_STATUS status = 55;
    bool done = true;
    EXPECT(enc_proxy_glb_comm_get_group(glb, &group), NRT_SUCCESS);
    INIT(config);
    config.comm = comm;
    config.rank = machine;
    config.glb_comm = glb;
    config.barrier_timeout_us = SECONDS(60);
    EXPECT(encd_context_create(group, &config, &context), NRT_SUCCESS);
    for (uint64_t exec = 1; exec <= 10; exec++) {
        char byte = 0;
        if (machine == 1)
            REQUIRE(read(tells[0], &byte, 1) == 1);
        EXPECT(enc_enq_proxy_tasks(context, exec), NRT_SUCCESS);
        if (machine == 0) {
            /* Alone it does not pass. */
            EXPECT(enc_proxy_check_status(context, PROXY_TASK_BARRIER, &done, &status), NRT_SUCCESS);
            REQUIRE(!done && write(tells[1], &byte, 1) == 1);
        }
        EXPECT(enc_consume_proxy_task_status(context, PROXY_TASK_BARRIER, SECONDS(60), &status), NRT_SUCCESS);
        REQUIRE(status == NRT_SUCCESS);
        EXPECT(enc_consume_proxy_task_status(context, PROXY_TASK_NETWORK, SECONDS(60), &status), NRT_SUCCESS);
    }
    EXPECT(encd_context_destroy(context), NRT_SUCCESS);
    EXPECT(enc_proxy_group_release(group, ENC_PROXY_DRAIN, SECONDS(60), NULL), NRT_SUCCESS);
    enc_glb_comm_freed freed;
    INIT(freed);
    EXPECT(enc_free_global_comm(glb, ENC_PROXY_DRAIN, SECONDS(60), &freed), NRT_SUCCESS);
    REQUIRE(freed.others == 0 && freed.dead_n == 0 && freed.detached == 0);
    EXPECT(enc_proxy_comm_destroy(comm, SECONDS(60)), NRT_SUCCESS);
    EXPECT(enc_proxy_library_close(library), NRT_SUCCESS);
}

int main(int argc, char **argv)
{
    REQUIRE(argc == 2 && pipe(tells) == 0);
    choose_root();
    /* Before the first call, so that each is a process of its own to the library. */
    pid_t child = fork();
    run(argv[1], child == 0);
    if (child == 0)
        return 0;
    int status = 1;
    REQUIRE(waitpid(child, &status, 0) == child && status == 0);
    puts("ok");
    return 0;
}
