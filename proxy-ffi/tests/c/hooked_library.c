/* A collective library whose Progress calls back into the program that set a hook, or, built with ASKS_FOR_SIZES, asks its host for dynamic
 * sizes; it counts the communicators that are joined; its other exports succeed. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static void (*hook)(void);

void hooked_set(void (*callback)(void));
void hooked_set(void (*callback)(void)) { __atomic_store_n(&hook, callback, __ATOMIC_RELEASE); }

uint64_t neuronGetVersionInfo(void *info, uint32_t n);
uint64_t neuronGetVersionInfo(void *info, uint32_t n)
{
    uint64_t compatibility = 89;
    memset(info, 0, n);
    memcpy((char *)info + 48, &compatibility, sizeof compatibility);
    return 0;
}

static char comm;
static uint32_t joins;

uint32_t hooked_joins(void);
uint32_t hooked_joins(void) { return __atomic_load_n(&joins, __ATOMIC_RELAXED); }

int neuronInitComm(void **out, int ranks, char *id, int rank, const void *device, bool bypass);
int neuronInitComm(void **out, int ranks, char *id, int rank, const void *device, bool bypass)
{
    (void)ranks, (void)id, (void)rank, (void)device, (void)bypass;
    *out = &comm;
    __atomic_fetch_add(&joins, 1, __ATOMIC_RELAXED);
    return 0;
}

#ifdef ASKS_FOR_SIZES
/* Names of the host, as the public header declares them. */
size_t nec_get_dynamic_send_size_bytes(void *host_mem, size_t elem, int peer, int rank_n);
size_t nec_get_dynamic_send_offset_bytes(void *host_mem, size_t elem, int peer, int rank_n);
size_t nec_get_dynamic_recv_offset_bytes(void *host_mem, size_t elem, int peer, int rank_n);
void nec_set_recv_size_bytes(void *host_mem, size_t bytes, size_t elem, int src, int rank_n);
#endif

int neuronNetworkProxyProgress(void *handle, uint32_t stream, uint32_t block, uint8_t *idle, uint8_t *done);
int neuronNetworkProxyProgress(void *handle, uint32_t stream, uint32_t block, uint8_t *idle, uint8_t *done)
{
    (void)handle, (void)stream, (void)block, (void)idle, (void)done;
#ifdef ASKS_FOR_SIZES
    size_t bytes = nec_get_dynamic_send_size_bytes(handle, 4, 3, 8);
    bytes += nec_get_dynamic_send_offset_bytes(handle, 4, 3, 8);
    bytes += nec_get_dynamic_recv_offset_bytes(handle, 4, 3, 8);
    nec_set_recv_size_bytes(handle, bytes, 4, 3, 8);
    return 0;
#endif
    void (*call)(void) = __atomic_exchange_n(&hook, NULL, __ATOMIC_ACQ_REL);
    if (call != NULL)
        call();
    return 1234;
}

/* The caller's arguments, which differ, are not looked at. */
#define SUCCEED(name) \
    int neuron##name(void); \
    int neuron##name(void) { return 0; }
SUCCEED(GetUniqueId)
SUCCEED(InitGlobalComm)
SUCCEED(BuildGraphComm)
SUCCEED(GetCommInfo)
SUCCEED(FreeComm)
SUCCEED(ExpandConnectivity)
SUCCEED(StartNetworkProxy)
SUCCEED(StopNetworkProxy)
SUCCEED(BootstrapSend)
SUCCEED(BootstrapRecv)
SUCCEED(BootstrapAllGather)
SUCCEED(PreferredNcRidNic)
SUCCEED(PreferredNcRidNicBdf)
SUCCEED(NetRegMr)
SUCCEED(NetDeregMr)
SUCCEED(GetPeerDeviceId)
SUCCEED(SetAffinity)
SUCCEED(GetNetConnector)
SUCCEED(InitNet)
SUCCEED(FiniPlugin)
SUCCEED(GetOFIHandle)
SUCCEED(NetListen)
SUCCEED(NetConnect)
SUCCEED(NetAccept)
SUCCEED(NetRegMrOG)
SUCCEED(NetDeregMrOG)
SUCCEED(NetGetMrKey)
SUCCEED(NetIsend)
SUCCEED(NetIrecv)
SUCCEED(NetIflush)
SUCCEED(NetTest)
SUCCEED(NetCloseSend)
SUCCEED(NetCloseRecv)
SUCCEED(NetCloseListen)
