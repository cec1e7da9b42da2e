/*
 * A collective library that costs as little as one can: its progress call does what its communicator, a pointer to a `what`, says.
 */
#include <stdint.h>
#include <string.h>
#include <x86intrin.h>

enum { IDLE = 0, DONE = 1 }; /* anything larger: busy for so many ticks of the time stamp counter, and then idle */

void neuronGetVersionInfo(void *info, uint32_t size) {
    uint64_t version[4] = {2, 31, 24, 0}, compatible = 89;
    (void)size;
    memcpy(info, version, sizeof version);
    memcpy((char *)info + 48, &compatible, sizeof compatible);
}

int neuronNetworkProxyProgress(const uint64_t *comm, uint32_t stream, uint32_t block, unsigned char *idle, unsigned char *done) {
    (void)stream, (void)block;
    uint64_t what = __atomic_load_n(comm, __ATOMIC_RELAXED);
    if (what == DONE) {
        *idle = 0;
        return 0;
    }
    if (what > DONE)
        for (uint64_t end = __rdtsc() + what; __rdtsc() < end;) {}
    *done = 0;
    return 0;
}

#define EXPORT(name) \
    int neuron##name(void) { return 0; }
EXPORT(GetUniqueId)
EXPORT(InitGlobalComm)
EXPORT(InitComm)
EXPORT(BuildGraphComm)
EXPORT(GetCommInfo)
EXPORT(FreeComm)
EXPORT(ExpandConnectivity)
EXPORT(StartNetworkProxy)
EXPORT(StopNetworkProxy)
EXPORT(BootstrapSend)
EXPORT(BootstrapRecv)
EXPORT(BootstrapAllGather)
EXPORT(PreferredNcRidNic)
EXPORT(PreferredNcRidNicBdf)
EXPORT(NetRegMr)
EXPORT(NetDeregMr)
EXPORT(GetPeerDeviceId)
EXPORT(SetAffinity)
EXPORT(GetNetConnector)
EXPORT(InitNet)
EXPORT(FiniPlugin)
EXPORT(GetOFIHandle)
EXPORT(NetListen)
EXPORT(NetConnect)
EXPORT(NetAccept)
EXPORT(NetRegMrOG)
EXPORT(NetDeregMrOG)
EXPORT(NetGetMrKey)
EXPORT(NetIsend)
EXPORT(NetIrecv)
EXPORT(NetIflush)
EXPORT(NetTest)
EXPORT(NetCloseSend)
EXPORT(NetCloseRecv)
EXPORT(NetCloseListen)
