/* A program that unloads the library after an orderly end. The library stays: its watchdog's thread sees only at its next look, up to a second
 * later, that there is nothing left to watch. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "enc_proxy.h"

#define NAME "libenc_proxy.so"

int main(void)
{
    NRT_STATUS (*acquire)(const enc_proxy_group_config *, enc_proxy_group **);
    NRT_STATUS (*release)(enc_proxy_group *, enc_proxy_release_t, uint64_t, uint32_t *);
    enc_proxy_group_config config;
    enc_proxy_group *group;
    void *library = dlopen(NAME, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        puts(dlerror());
        return 1;
    }
    *(void **)&acquire = dlsym(library, "enc_proxy_group_acquire");
    *(void **)&release = dlsym(library, "enc_proxy_group_release");
    memset(&config, 0, sizeof config);
    config.struct_size = sizeof config;
    if (acquire(&config, &group) != NRT_SUCCESS || release(group, ENC_PROXY_DRAIN, 60000000, NULL) != NRT_SUCCESS)
        return 2;
    if (dlclose(library) != 0)
        return 3;
    puts(dlopen(NAME, RTLD_NOW | RTLD_NOLOAD) != NULL ? "it is there" : "it is gone");
    return 0;
}
