/* A collective library that throws: no code can be made of it, and the process ends at once. */
#include <dlfcn.h>

#include <stdexcept>

#include "check.h"

static void throws() { throw std::runtime_error("planted"); }

int main(int argc, char **argv)
{
    struct world world;
    NRT_STATUS status = 55;
    REQUIRE(argc == 2);
    open_world(&world, argv[1], 0);
    void *mapped = dlopen(argv[1], RTLD_NOW);
    REQUIRE(mapped != NULL);
    void (*set)(void (*)());
    *reinterpret_cast<void **>(&set) = dlsym(mapped, "hooked_set");
    REQUIRE(set != NULL);
    set(throws);
    EXPECT(enc_enq_proxy_tasks(world.context, 1), NRT_SUCCESS);
    EXPECT(enc_consume_proxy_task_status(world.context, PROXY_TASK_NETWORK, SECONDS(20), &status), NRT_SUCCESS);
    puts("survived");
    return 0;
}
