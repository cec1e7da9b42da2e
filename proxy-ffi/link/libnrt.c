/* libnrt.so.1: the door through which a collective library that was linked against that name finds this project.
 *
 * Each function is defined here at the version that such a library asks for, and goes on to the one of the same name in
 * libenc_proxy.so, so that there is one state however either of them was loaded.
 */
#include <stddef.h>
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

FROM_PROXY(size_t, nec_get_dynamic_send_size_bytes, (void *, size_t, int, int));
size_t nec_get_dynamic_send_size_bytes(void *host_mem, size_t elem, int peer, int rank_n);
size_t nec_get_dynamic_send_size_bytes(void *host_mem, size_t elem, int peer, int rank_n)
{
    return proxy_nec_get_dynamic_send_size_bytes(host_mem, elem, peer, rank_n);
}

FROM_PROXY(size_t, nec_get_dynamic_send_offset_bytes, (void *, size_t, int, int));
size_t nec_get_dynamic_send_offset_bytes(void *host_mem, size_t elem, int peer, int rank_n);
size_t nec_get_dynamic_send_offset_bytes(void *host_mem, size_t elem, int peer, int rank_n)
{
    return proxy_nec_get_dynamic_send_offset_bytes(host_mem, elem, peer, rank_n);
}

FROM_PROXY(size_t, nec_get_dynamic_recv_offset_bytes, (void *, size_t, int, int));
size_t nec_get_dynamic_recv_offset_bytes(void *host_mem, size_t elem, int peer, int rank_n);
size_t nec_get_dynamic_recv_offset_bytes(void *host_mem, size_t elem, int peer, int rank_n)
{
    return proxy_nec_get_dynamic_recv_offset_bytes(host_mem, elem, peer, rank_n);
}

FROM_PROXY(void, nec_set_recv_size_bytes, (void *, size_t, size_t, int, int));
void nec_set_recv_size_bytes(void *host_mem, size_t bytes, size_t elem, int src, int rank_n);
void nec_set_recv_size_bytes(void *host_mem, size_t bytes, size_t elem, int src, int rank_n)
{
    proxy_nec_set_recv_size_bytes(host_mem, bytes, elem, src, rank_n);
}
