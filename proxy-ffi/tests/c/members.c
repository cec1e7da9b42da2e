/* Who is on a bus, and what it has counted. */
#include "check.h"

/* A bus of one machine among several: messages name ranks as the job does. */
static void share(bp_config config)
{
    bananaphone *bus = NULL;
    config.rank = 0;
    config.first_rank = 4;
    EXPECT(bp_create(&config, &bus), NRT_INVALID);
    config.machine = 2;
    config.machine_n = 2;
    EXPECT(bp_create(&config, &bus), NRT_INVALID);
    REQUIRE(strstr(enc_proxy_last_error(), "first_rank 4, machine 2, machine_n 2; accepted: ") != NULL);
    config.machine = 1;
    config.first_rank = 70000;
    EXPECT(bp_create(&config, &bus), NRT_INVALID);
    REQUIRE(bus == NULL);
    config.first_rank = 4;
    EXPECT(bp_create(&config, &bus), NRT_SUCCESS);
    EXPECT(bp_connect(bus, 1000), NRT_TIMEOUT);
    REQUIRE(strstr(enc_proxy_last_error(), "rank 4 (local rank 0 of machine 1)") != NULL);
    REQUIRE(strstr(enc_proxy_last_error(), "missing {5}") != NULL);
    EXPECT(bp_cleanup(bus), NRT_SUCCESS);
}

int main(void)
{
    char job[64];
    bananaphone *ranks[2];
    bp_config config;
    bp_counters counters;
    bp_member members[2];
    uint32_t world = 77;
    INIT(config);
    INIT(counters);
    snprintf(job, sizeof job, "members-%p", (void *)&config);
    config.job = job;
    config.world = 2;
    EXPECT(bp_create(&config, &ranks[0]), NRT_SUCCESS);
    EXPECT(bp_get_members(ranks[0], members, 2, NULL), NRT_SUCCESS);
    REQUIRE(members[0].state == BP_MEMBER_JOINED && members[0].process != 0);
    REQUIRE(members[1].state == BP_MEMBER_FREE && members[1].process == 0);

    config.rank = 1;
    EXPECT(bp_create(&config, &ranks[1]), NRT_SUCCESS);
    memset(members, 0x55, sizeof members);
    EXPECT(bp_get_members(ranks[0], members, 1, &world), ENC_PROXY_TOO_SMALL);
    REQUIRE(world == 2 && members[0].state == 0x55555555);
    EXPECT(bp_get_members(ranks[0], NULL, 2, &world), NRT_INVALID);
    EXPECT(bp_get_members(ranks[0], members, 2, &world), NRT_SUCCESS);
    REQUIRE(members[1].state == BP_MEMBER_JOINED && members[1].process == members[0].process);

    EXPECT(bp_cleanup(ranks[1]), NRT_SUCCESS);
    EXPECT(bp_get_members(ranks[0], members, 2, NULL), NRT_SUCCESS);
    REQUIRE(members[1].state == BP_MEMBER_LEFT);
    counters.strangers = 77;
    EXPECT(bp_get_counters(ranks[0], &counters), NRT_SUCCESS);
    REQUIRE(counters.strangers == 0);
    EXPECT(bp_cleanup(ranks[0]), NRT_SUCCESS);
    share(config);
    puts("ok");
    return 0;
}
