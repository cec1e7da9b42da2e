/* A communicator that could not have a handle is not joined: the other ranks would be in it already, and nobody could free it. */
#define _POSIX_C_SOURCE 200809L
#include <dlfcn.h>

#include "check.h"

enum { COMMS = 1024 };

int main(int argc, char **argv)
{
    static enc_proxy_comm *comms[COMMS];
    static char nccl_comm;
    enc_proxy_library *library;
    enc_proxy_comm *made;
    enc_proxy_comm_config config;
    uint8_t id[ENC_PROXY_UNIQUE_ID_BYTES] = {0};
    uint32_t (*joins)(void);
    REQUIRE(argc == 2);
    void *mapped = dlopen(argv[1], RTLD_NOW);
    REQUIRE(mapped != NULL);
    *(void **)&joins = dlsym(mapped, "hooked_joins");
    REQUIRE(joins != NULL);
    EXPECT(enc_proxy_library_open(argv[1], &library), NRT_SUCCESS);
    for (int i = 0; i < COMMS; i++)
        EXPECT(enc_proxy_comm_adopt(library, &nccl_comm, 1, &comms[i]), NRT_SUCCESS);
    INIT(config);
    config.rank_n = 1;
    config.unique_id = id;
    EXPECT(enc_proxy_comm_create(library, &config, &made), NRT_RESOURCE);
    REQUIRE(strstr(enc_proxy_last_error(), "1024 objects of type enc_proxy_comm are alive") != NULL);
    REQUIRE(joins() == 0);
    EXPECT(enc_proxy_comm_destroy(comms[7], 0), NRT_SUCCESS);
    EXPECT(enc_proxy_comm_create(library, &config, &comms[7]), NRT_SUCCESS);
    REQUIRE(joins() == 1);
    for (int i = 0; i < COMMS; i++)
        EXPECT(enc_proxy_comm_destroy(comms[i], 0), NRT_SUCCESS);
    EXPECT(enc_proxy_library_close(library), NRT_SUCCESS);
    puts("ok");
    return 0;
}
