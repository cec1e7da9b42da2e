/*
 * A collective library that does nothing but tell what was called: the loader's tests compile it with switches.
 *
 *   -DLOG_PATH="..."        every event is appended to this file, one line each
 *   -DTAG="..."             git hash reported, at most 16 bytes
 *   -DCOMPAT=n              compatibility id reported (89)
 *   -DSTATUS=n              answer of all calls but the version probe (0)
 *   -DneuronX=other         the export neuronX is missing
 *   -DFOREIGN_SIZE=n        bytes written by the version probe, whatever size it is told
 *   -DBLOCK                 Progress waits until the int that the communicator points to is not 0, or the exit hook has run
 *   -DCALL_BACK             Stop calls the function whose address the communicator points to
 *   -DTHREAD_LOCAL          Progress leaves a thread-local with a destructor that lives in this library
 */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef TAG
#define TAG "stub"
#endif
#ifndef COMPAT
#define COMPAT 89
#endif
#ifndef STATUS
#define STATUS 0
#endif

static volatile int closed; /* set by the exit hook: the library must not be called any more */

static void say(const char *event, const char *what) {
    char line[128];
    size_t length = 0;
    for (const char *parts[3] = {event, what, "\n"}, **part = parts; part < parts + 3; part++) {
        size_t n = strlen(*part);
        memcpy(line + length, *part, n);
        length += n;
    }
    int file = open(LOG_PATH, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (file < 0) return;
    if (write(file, line, length) < 0) abort();
    close(file);
}

static int called(const char *name) {
    say(closed ? "late " : "call ", name);
    return STATUS;
}

static void exit_hook(void) {
    say("exit hook", "");
    closed = 1;
    usleep(20000); /* a caller that has not noticed gets time to be caught */
}

static pthread_key_t key;
static void thread_end(void *value) {
    (void)value;
    say("thread end", "");
}

__attribute__((constructor)) static void mapped(void) {
    say("mapped", "");
    atexit(exit_hook);
    pthread_key_create(&key, thread_end);
}

__attribute__((destructor)) static void unmapped(void) { say("unmapped", ""); }

void neuronGetVersionInfo(void *info, uint32_t n) {
    called(n == 56 ? "GetVersionInfo" : "GetVersionInfo with another size");
#ifdef FOREIGN_SIZE
    memset(info, 0xFF, FOREIGN_SIZE);
#endif
    uint64_t version[4] = {2, 31, 24, 0}, compat = COMPAT;
    char hash[16] = {0};
    memcpy(hash, TAG, sizeof TAG - 1); /* a tag of 16 bytes leaves no room for a terminator */
    memcpy(info, version, sizeof version);
    if (n > 0x2F) memcpy((char *)info + 32, hash, sizeof hash);
    if (n > 0x37) memcpy((char *)info + 48, &compat, sizeof compat);
}

int neuronInitGlobalComm(int dev, int n, const void *info, const char *root, void **comm, const char *hint) {
    (void)dev, (void)n, (void)info, (void)root, (void)hint;
    static int here;
    *comm = &here;
    return called("InitGlobalComm");
}

int neuronInitComm(void **comm, int n, char *id, int rank, const void *info, _Bool bypass) {
    (void)n, (void)id, (void)rank, (void)info, (void)bypass;
    *comm = NULL; /* a success without a communicator */
    return called("InitComm");
}

int neuronNetworkProxyProgress(void *comm, uint32_t stream, uint32_t block, unsigned char *idle, unsigned char *done) {
    (void)comm, (void)stream, (void)block;
    static int told; /* a worker calls this millions of times: the first one and the late ones are told */
    int status = STATUS;
    if (closed || !__atomic_exchange_n(&told, 1, __ATOMIC_RELAXED)) called("NetworkProxyProgress");
#ifdef THREAD_LOCAL
    pthread_setspecific(key, &key);
#endif
#ifdef BLOCK
    while (__atomic_load_n((int *)comm, __ATOMIC_ACQUIRE) == 0 && !closed) sched_yield();
#endif
    *idle = 0xA0; /* true, but no valid bool of another language */
    *done = 0;
    return status;
}

#define EXPORT(symbol, name) \
    int symbol(void) { return called(name); }
#ifdef CALL_BACK
int neuronStopNetworkProxy(void *comm, uint32_t stream) {
    (void)stream;
    void (*back)(void);
    memcpy(&back, comm, sizeof back);
    int status = called("StopNetworkProxy");
    back();
    return status;
}
#else
EXPORT(neuronStopNetworkProxy, "StopNetworkProxy")
#endif
EXPORT(neuronGetUniqueId, "GetUniqueId")
EXPORT(neuronBuildGraphComm, "BuildGraphComm")
EXPORT(neuronGetCommInfo, "GetCommInfo")
EXPORT(neuronFreeComm, "FreeComm")
EXPORT(neuronExpandConnectivity, "ExpandConnectivity")
EXPORT(neuronStartNetworkProxy, "StartNetworkProxy")
EXPORT(neuronBootstrapSend, "BootstrapSend")
EXPORT(neuronBootstrapRecv, "BootstrapRecv")
EXPORT(neuronBootstrapAllGather, "BootstrapAllGather")
EXPORT(neuronPreferredNcRidNic, "PreferredNcRidNic")
EXPORT(neuronPreferredNcRidNicBdf, "PreferredNcRidNicBdf")
EXPORT(neuronNetRegMr, "NetRegMr")
EXPORT(neuronNetDeregMr, "NetDeregMr")
EXPORT(neuronGetPeerDeviceId, "GetPeerDeviceId")
EXPORT(neuronSetAffinity, "SetAffinity")
EXPORT(neuronGetNetConnector, "GetNetConnector")
EXPORT(neuronInitNet, "InitNet")
EXPORT(neuronFiniPlugin, "FiniPlugin")
EXPORT(neuronGetOFIHandle, "GetOFIHandle")
EXPORT(neuronNetListen, "NetListen")
EXPORT(neuronNetConnect, "NetConnect")
EXPORT(neuronNetAccept, "NetAccept")
EXPORT(neuronNetRegMrOG, "NetRegMrOG")
EXPORT(neuronNetDeregMrOG, "NetDeregMrOG")
EXPORT(neuronNetGetMrKey, "NetGetMrKey")
EXPORT(neuronNetIsend, "NetIsend")
EXPORT(neuronNetIrecv, "NetIrecv")
EXPORT(neuronNetIflush, "NetIflush")
EXPORT(neuronNetTest, "NetTest")
EXPORT(neuronNetCloseSend, "NetCloseSend")
EXPORT(neuronNetCloseRecv, "NetCloseRecv")
EXPORT(neuronNetCloseListen, "NetCloseListen")
