/* Handles that are none, structs of other sizes, numbers that mean nothing: an error each time, nothing written, no crash. */
#define _POSIX_C_SOURCE 200809L
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

/* Every function that takes a handle, with that handle. Out-parameters hold 0x55 before and after. */
#define REFUSED(call)                                                     \
    do {                                                                  \
        memset(&out, 0x55, sizeof out);                                   \
        EXPECT(call, NRT_INVALID_HANDLE);                                 \
        for (size_t i = 0; i < sizeof out; i++)                           \
            REQUIRE(((unsigned char *)&out)[i] == 0x55);                  \
        REQUIRE(strstr(enc_proxy_last_error(), "the handle ") != NULL);   \
    } while (0)

static union {
    uint32_t u32;
    size_t size;
    bool flag;
    void *pointer;
    unsigned char bytes[256];
} out;

static void refuse_everywhere(void *h)
{
    enc_proxy_ticket ticket = {0, 0};
    NRT_STATUS *status = (NRT_STATUS *)&out.bytes[128];
    enc_proxy_group_counters counters;
    enc_proxy_group_health health;
    bp_counters bus_counters;
    enc_proxy_execution execution;
    enc_proxy_library_version version;
    enc_proxy_comm_config comm;
    encd_context_config context;
    INIT(counters);
    INIT(health);
    INIT(bus_counters);
    INIT(execution);
    INIT(version);
    INIT(comm);
    INIT(context);
    REFUSED(enc_proxy_library_close(h));
    REFUSED(enc_proxy_library_get_version(h, &version));
    REFUSED(enc_proxy_library_get_path(h, (char *)out.bytes, sizeof out, NULL));
    REFUSED(enc_proxy_get_unique_id(h, 1, out.bytes));
    REFUSED(enc_proxy_comm_create(h, &comm, (enc_proxy_comm **)&out.pointer));
    REFUSED(enc_proxy_comm_adopt(h, &comm, 1, (enc_proxy_comm **)&out.pointer));
    REFUSED(enc_proxy_comm_get_connector(h, 0, 0, 0, &out.pointer));
    REFUSED(enc_proxy_comm_destroy(h, 0));
    REFUSED(enc_proxy_settings_destroy(h));
    REFUSED(enc_proxy_settings_set(h, "a", "b"));
    REFUSED(enc_proxy_settings_get(h, "a", (char *)out.bytes, sizeof out, NULL));
    REFUSED(enc_proxy_group_release(h, ENC_PROXY_ABORT, 0, &out.u32));
    REFUSED(enc_proxy_group_get_counters(h, &counters));
    REFUSED(enc_proxy_group_get_health(h, &health));
    REFUSED(enc_proxy_abort(h, &ticket, 0));
    REFUSED(enc_proxy_abort_context(h, 0, &out.size));
    REFUSED(enc_proxy_abort_group(h, 0, &out.size));
    REFUSED(enc_proxy_dump(h, ENC_PROXY_TEXT, (char *)out.bytes, sizeof out, NULL));
    REFUSED(encd_context_create(h, &context, (encd_context **)&out.pointer));
    REFUSED(encd_context_destroy(h));
    REFUSED(enc_proxy_arm(h, PROXY_TASK_NETWORK));
    REFUSED(encd_context_reset(h));
    REFUSED(enc_enq_proxy_tasks(h, 1));
    REFUSED(enc_proxy_enqueue(h, 1, &execution));
    REFUSED(enc_proxy_check_status(h, PROXY_TASK_NETWORK, &out.flag, status));
    REFUSED(enc_check_proxy_network_task_status(h, &out.flag, status));
    REFUSED(enc_check_proxy_barrier_task_status(h, &out.flag, status));
    REFUSED(enc_consume_proxy_task_status(h, PROXY_TASK_NETWORK, 0, status));
    REFUSED(enc_proxy_poll(h, &ticket, &out.u32, status));
    REFUSED(enc_proxy_consume(h, &ticket, 0, status));
    REFUSED(bp_connect(h, 0));
    REFUSED(bp_send(h, 0, 0, NULL, 0, 0));
    REFUSED(bp_broadcast(h, 0, NULL, 0, 0));
    REFUSED(bp_recv(h, 0, 0, out.bytes, 8, &out.size, NULL, 0));
    REFUSED(bp_all_gather(h, NULL, 0, NULL, 0, NULL, 0));
    REFUSED(bp_capacity(h, &out.size));
    REFUSED(bp_get_members(h, (bp_member *)out.bytes, 1, &out.u32));
    REFUSED(bp_get_counters(h, &bus_counters));
    REFUSED(bp_barrier_create(h, 0, NULL, 0, (bp_barrier **)&out.pointer));
    REFUSED(bp_hangup(h));
    REFUSED(bp_cleanup(h));
    REFUSED(bp_barrier_wait(h, 1, 0));
    REFUSED(bp_barrier_release(h));
    REFUSED(bp_barrier_sync(h, 1, 0));
    REFUSED(bp_barrier_arrive(h, 1, 0));
    REFUSED(bp_barrier_poll(h, &out.u32));
    REFUSED(bp_barrier_hangup(h));
    REFUSED(enc_free_global_comm(h, ENC_PROXY_ABORT, 0, NULL));
    REFUSED(enc_proxy_glb_comm_get_unique_id(h, out.bytes));
    REFUSED(enc_proxy_glb_comm_get_group(h, (enc_proxy_group **)&out.pointer));
    REFUSED(enc_proxy_report_service_stop(h));
}

static void handles(const char *path)
{
    struct world world;
    uint64_t local = 7;
    refuse_everywhere(NULL);
    refuse_everywhere(&local);
    refuse_everywhere((void *)(uintptr_t)1);
    refuse_everywhere((void *)UINTPTR_MAX);
    open_world(&world, path, 0);
    close_world(&world);
    /* Destroyed handles, whose places have been used again. */
    struct world again;
    open_world(&again, path, 0);
    refuse_everywhere(world.library);
    refuse_everywhere(world.comm);
    refuse_everywhere(world.settings);
    refuse_everywhere(world.group);
    refuse_everywhere(world.context);
    /* Live handles of another type. */
    EXPECT(enc_enq_proxy_tasks((encd_context *)again.group, 1), NRT_INVALID_HANDLE);
    REQUIRE(strstr(enc_proxy_last_error(), "is of type enc_proxy_group") != NULL);
    EXPECT(encd_context_destroy((encd_context *)again.comm), NRT_INVALID_HANDLE);
    EXPECT(enc_proxy_library_close((enc_proxy_library *)again.settings), NRT_INVALID_HANDLE);
    EXPECT(bp_cleanup((bananaphone *)again.context), NRT_INVALID_HANDLE);
    close_world(&again);
}

static void numbers(const char *path)
{
    struct world world;
    bool done = true;
    NRT_STATUS status = 55;
    uint32_t state = 55;
    open_world(&world, path, 0);
    EXPECT(enc_proxy_check_status(world.context, 77, &done, &status), NRT_INVALID);
    EXPECT(enc_proxy_check_status(world.context, PROXY_TASK_UNKNOWN, &done, &status), NRT_INVALID);
    EXPECT(enc_consume_proxy_task_status(world.context, 77, 0, &status), NRT_INVALID);
    REQUIRE(strstr(enc_proxy_last_error(), "77, accepted: PROXY_TASK_NETWORK (1) or PROXY_TASK_BARRIER (2)") != NULL);
    EXPECT(enc_proxy_arm(world.context, 77), NRT_INVALID);
    EXPECT(enc_proxy_group_release(world.group, 2, 0, NULL), NRT_INVALID);
    EXPECT(enc_proxy_set_log(NULL, NULL, ENC_PROXY_LOG_DEBUG + 1), NRT_INVALID);
    EXPECT(enc_proxy_dump(world.group, 99, NULL, 0, NULL), NRT_INVALID);
    EXPECT(enc_proxy_comm_get_connector(world.comm, 2, 0, 0, (void **)&out.pointer), NRT_INVALID);
    enc_proxy_ticket made_up = {UINT64_MAX, 7};
    EXPECT(enc_proxy_poll(world.group, &made_up, &state, &status), ENC_PROXY_UNKNOWN_TASK);
    EXPECT(enc_proxy_poll(world.group, NULL, &state, &status), NRT_INVALID);
    EXPECT(enc_proxy_check_status(world.context, PROXY_TASK_NETWORK, NULL, &status), NRT_INVALID);
    EXPECT(enc_proxy_check_status(world.context, PROXY_TASK_BARRIER, &done, &status), ENC_PROXY_UNKNOWN_TASK);
    REQUIRE(done && status == 55 && state == 55);

    /* A ticket is good until its end has been reported, and then never again. */
    enc_proxy_execution execution;
    INIT(execution);
    EXPECT(enc_proxy_enqueue(world.context, 9, &execution), NRT_SUCCESS);
    REQUIRE(execution.barrier.generation == 0);
    EXPECT(enc_proxy_consume(world.group, &execution.network, SECONDS(10), &status), NRT_SUCCESS);
    REQUIRE(status == NRT_SUCCESS);
    EXPECT(enc_proxy_poll(world.group, &execution.network, &state, &status), ENC_PROXY_ALREADY_CONSUMED);
    close_world(&world);
}

static void sizes(void)
{
    enc_proxy_version_t version;
    memset(&version, 0x55, sizeof version);
    version.flags = 0;
    EXPECT(enc_proxy_version(NULL), NRT_INVALID);
    EXPECT(enc_proxy_version((enc_proxy_version_t *)((char *)&version + 1)), NRT_INVALID);
    version.struct_size = 12;
    EXPECT(enc_proxy_version(&version), NRT_INVALID);
    version.struct_size = 24;
    EXPECT(enc_proxy_version(&version), NRT_SUCCESS);
    REQUIRE(version.major == 0 && version.compatibility_id == 0x5555555555555555);

    /* A newer caller's struct: accepted if it asks for nothing that is not there. */
    struct {
        enc_proxy_group_config known;
        uint64_t later;
    } newer;
    enc_proxy_group *group = NULL;
    memset(&newer, 0, sizeof newer);
    newer.known.struct_size = sizeof newer;
    newer.known.device = 900;
    newer.later = 1;
    EXPECT(enc_proxy_group_acquire(&newer.known, &group), ENC_PROXY_UNSUPPORTED_FIELD);
    REQUIRE(group == NULL && strstr(enc_proxy_last_error(), "at byte 40") != NULL);
    newer.later = 0;
    EXPECT(enc_proxy_group_acquire(&newer.known, &group), NRT_SUCCESS);
    EXPECT(enc_proxy_group_release(group, ENC_PROXY_DRAIN, SECONDS(10), NULL), NRT_SUCCESS);
    /* An older caller's: what is missing has its default. */
    newer.known.struct_size = offsetof(enc_proxy_group_config, settings);
    newer.known.settings = (enc_proxy_settings *)(uintptr_t)1;
    EXPECT(enc_proxy_group_acquire(&newer.known, &group), NRT_SUCCESS);
    EXPECT(enc_proxy_group_release(group, ENC_PROXY_DRAIN, SECONDS(10), NULL), NRT_SUCCESS);
    newer.known.flags = 1;
    EXPECT(enc_proxy_group_acquire(&newer.known, &group), NRT_INVALID);
}

static void forked(const char *path)
{
    struct world world;
    open_world(&world, path, 0);
    pid_t child = fork();
    if (child == 0) {
        NRT_STATUS status;
        enc_proxy_group *group;
        enc_proxy_group_config config;
        INIT(config);
        EXPECT(enc_enq_proxy_tasks(world.context, 1), ENC_PROXY_FORKED);
        EXPECT(enc_consume_proxy_task_status(world.context, PROXY_TASK_NETWORK, ENC_PROXY_FOREVER, &status), ENC_PROXY_FORKED);
        EXPECT(enc_proxy_abort_all(ENC_PROXY_FOREVER, NULL), ENC_PROXY_FORKED);
        EXPECT(encd_context_destroy(world.context), ENC_PROXY_FORKED);
        EXPECT(enc_proxy_group_release(world.group, ENC_PROXY_DRAIN, ENC_PROXY_FOREVER, NULL), ENC_PROXY_FORKED);
        EXPECT(enc_proxy_group_acquire(&config, &group), ENC_PROXY_FORKED);
        REQUIRE(strstr(enc_proxy_status_text(ENC_PROXY_FORKED), "forked") != NULL);
        /* No leak check at this end: it takes the memory of threads that the child does not have for lost. */
        _exit(0);
    }
    int status = 1;
    REQUIRE(waitpid(child, &status, 0) == child && status == 0);
    close_world(&world);
}

int main(int argc, char **argv)
{
    REQUIRE(argc == 2);
    handles(argv[1]);
    numbers(argv[1]);
    sizes();
    forked(argv[1]);
    puts("ok");
    return 0;
}
