/* What settings say of messages acts where they are used, those of a handle as those of the environment, and nowhere else; a level that the program
 * has set beats the environment's. */
#define _POSIX_C_SOURCE 200809L
#include <unistd.h>

#include "check.h"

#define LEVEL "NEURON_RT_LOG_LEVEL"
#define INFLIGHT "NEURON_RT_ASYNC_EXEC_MAX_INFLIGHT_REQUESTS"

/* Only the calling thread warns of settings. */
static int warnings;
static char last[256];

static void sink(void *user, enc_proxy_log_level_t level, const char *text)
{
    (void)user;
    if (strstr(text, "is too large") == NULL)
        return;
    REQUIRE(level == ENC_PROXY_LOG_WARN);
    warnings++;
    snprintf(last, sizeof last, "%s", text);
}

static void use(enc_proxy_settings *settings)
{
    enc_proxy_group_config config;
    enc_proxy_group *group;
    INIT(config);
    config.settings = settings;
    EXPECT(enc_proxy_group_acquire(&config, &group), NRT_SUCCESS);
    EXPECT(enc_proxy_group_release(group, ENC_PROXY_DRAIN, SECONDS(60), NULL), NRT_SUCCESS);
}

static void set_up(enc_proxy_settings *settings)
{
    bp_config bus;
    enc_glb_comm_config config;
    enc_glb_comm *comm;
    char job[64];
    INIT(bus);
    snprintf(job, sizeof job, "settings-%d", (int)getpid());
    bus.job = job;
    bus.world = 1;
    INIT(config);
    config.bus = &bus;
    config.settings = settings;
    EXPECT(enc_setup_global_comm(&config, &comm), NRT_SUCCESS);
    EXPECT(enc_free_global_comm(comm, ENC_PROXY_DRAIN, SECONDS(60), NULL), NRT_SUCCESS);
}

static void show(enc_proxy_settings *settings)
{
    static char text[16384];
    EXPECT(enc_proxy_settings_dump(settings, text, sizeof text, NULL), NRT_SUCCESS);
    REQUIRE(strstr(text, INFLIGHT " = 63 (") != NULL);
}

int main(void)
{
    enc_proxy_settings *settings;
    char value[16];
    REQUIRE(setenv(LEVEL, "DEBUG", 1) == 0 && setenv(INFLIGHT, "70", 1) == 0);

    /* The program's level beats the environment's, which would let the warning pass. */
    EXPECT(enc_proxy_set_log(sink, NULL, ENC_PROXY_LOG_ERROR), NRT_SUCCESS);
    show(NULL);
    use(NULL);
    REQUIRE(warnings == 0);

    /* A level that is given with the settings acts with them. */
    EXPECT(enc_proxy_settings_create(&settings), NRT_SUCCESS);
    EXPECT(enc_proxy_settings_set(settings, LEVEL, "WARN"), NRT_SUCCESS);
    show(settings);
    show(NULL);
    REQUIRE(warnings == 0);
    use(settings);
    REQUIRE(warnings == 1 && strcmp(last, INFLIGHT "=70 (environment) is too large; 63 is used") == 0);
    set_up(settings);
    REQUIRE(warnings == 2);

    /* So does a value that is used in another form than the program gives it. */
    EXPECT(enc_proxy_settings_set(settings, INFLIGHT, "80"), NRT_SUCCESS);
    EXPECT(enc_proxy_settings_get(settings, INFLIGHT, value, sizeof value, NULL), NRT_SUCCESS);
    REQUIRE(strcmp(value, "63") == 0);
    show(settings);
    REQUIRE(warnings == 2);
    use(settings);
    REQUIRE(warnings == 3 && strcmp(last, INFLIGHT "=80 (API) is too large; 63 is used") == 0);
    use(NULL);
    REQUIRE(warnings == 4);
    EXPECT(enc_proxy_settings_destroy(settings), NRT_SUCCESS);
    EXPECT(enc_proxy_set_log(NULL, NULL, ENC_PROXY_LOG_WARN), NRT_SUCCESS);
    puts("ok");
    return 0;
}
