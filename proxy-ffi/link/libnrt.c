/* libnrt.so.1: the door through which a collective library that was linked against that name finds this project.
 *
 * Each function is defined here at the version that such a library asks for, and goes on to the one of the same name in
 * libenc_proxy.so, so that there is one state however either of them was loaded.
 */
#include <stdint.h>

/* Declares the function `name` of libenc_proxy.so under a name that does not clash with the definition here. */
#define FROM_PROXY(result, name, arguments)                       \
    result proxy_##name arguments;                                \
    __asm__(".symver proxy_" #name ", " #name "@ENC_PROXY_0")

FROM_PROXY(void, nec_inc_semaphore, (uint32_t *, uint32_t));
void nec_inc_semaphore(uint32_t *address, uint32_t value);
void nec_inc_semaphore(uint32_t *address, uint32_t value)
{
    proxy_nec_inc_semaphore(address, value);
}
