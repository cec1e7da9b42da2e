// Measures the specification's own design, see proxy_queue.h: `original GROUP...`, groups append, done, tick, look, tasks.
// Producer and consumer on CPU 0, worker on CPU 1. Prints `figure KEY P50 P99` in nanoseconds, as the Rust benches do.
#include "proxy_queue.h"
#include "stamp.h"
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <vector>
#include <pthread.h>
#include <unistd.h>
#include <x86intrin.h>

using namespace original;

static std::atomic<uint64_t> allocations{0};
void *operator new(size_t size) {
    allocations.fetch_add(1, std::memory_order_relaxed);
    void *memory = malloc(size);
    if (!memory) abort();
    return memory;
}
void operator delete(void *memory) noexcept { free(memory); }
void operator delete(void *memory, size_t) noexcept { free(memory); }

namespace {

using Clock = std::chrono::steady_clock;

void pin(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (pthread_setaffinity_np(pthread_self(), sizeof set, &set)) abort();
}

void spin(double time) {
    uint64_t start = stamp();
    while (ns(stamp() - start) < time) _mm_pause();
}

void tell(const std::string &key, double p50, double p99) {
    printf("figure %s %g %g\n", key.c_str(), p50, p99);
    fflush(stdout);
}

void tell(const std::string &key, std::vector<uint64_t> events) {
    std::sort(events.begin(), events.end());
    size_t last = events.size() - 1;
    tell(key, ns(events[events.size() / 2]), ns(events[std::min(last, events.size() * 99 / 100)]));
}

// The library: never done, done at once, or busy for a microsecond and never done. A comm changes to done when it is over.
int idle(void *, uint32_t, uint32_t, bool *idle, bool *) { return *idle = true, 0; }
int done(void *, uint32_t, uint32_t, bool *, bool *done) { return *done = true, 0; }
int slow(void *, uint32_t, uint32_t, bool *idle, bool *) { return spin(1000), *idle = true, 0; }

// Ranks with a comm each, and contexts spread over them; `ours` belongs to a rank of its own.
struct World {
    std::vector<Comm> comms;
    std::vector<Context> contexts;
    Comm own{1 << 20, done};
    Context ours{&own};
    World(int tasks, int ranks, Progress progress) {
        for (int rank = 0; rank < ranks; rank++) comms.push_back({rank, progress});
        for (int task = 0; task < tasks; task++) contexts.push_back({&comms[task % ranks]});
    }
    void append_all(ProxyQueue &queue) {
        for (auto &context : contexts) queue.append_task(std::make_shared<NetworkTask>(&context, 0));
    }
    void finish() {
        for (auto &comm : comms) comm.progress = done;
    }
};

void start(ProxyQueue &queue) {
    queue.start([] { pin(1); });
    spin(2e6);
}

void await(ProxyQueue &queue, Context *context) {
    bool over = false;
    int status;
    while (!over) queue.check(context, kNetwork, &over, &status);
}

// Append, timed, behind `active` tasks; each is waited for. Stops after a while, as one can take long.
void append(const char *key, int active, Progress progress) {
    World world(active, std::min(active, 64), progress);
    ProxyQueue queue(true);
    world.append_all(queue);
    start(queue);
    std::vector<uint64_t> events;
    auto end = Clock::now() + std::chrono::milliseconds(700);
    for (size_t number = 0; number < 4000 && (number < 3 || Clock::now() < end); number++) {
        spin(double(number * 37 % 997));
        auto task = std::make_shared<NetworkTask>(&world.ours, number);
        uint64_t begin = stamp();
        queue.append_task(task);
        events.push_back(stamp() - begin);
        task.reset();
        await(queue, &world.ours);
    }
    tell(key, events);
    world.finish();
}

void appends() {
    for (int active : {1, 16, 256, 4096}) append(("append.idle." + std::to_string(active)).c_str(), active, idle);
    append("append.busy.16", 16, slow);
    World world(1, 1, done);
    std::vector<uint64_t> rows;
    for (int row = 0; row < 15; row++) {
        ProxyQueue queue(true);
        uint64_t begin = stamp();
        for (int number = 0; number < 60; number++) queue.append_task(std::make_shared<NetworkTask>(&world.ours, number));
        rows.push_back(stamp() - begin);
    }
    std::sort(rows.begin(), rows.end());
    tell("append.alone", ns(rows[7]) / 60, ns(rows[14]) / 60);
}

// From before the append to the sight of done.
void until_done(const char *key, int active, bool asleep) {
    World world(active, 1, idle);
    ProxyQueue queue(true);
    world.append_all(queue);
    start(queue);
    std::vector<uint64_t> events;
    for (size_t number = 0; number < 2000; number++) {
        if (asleep)
            while (!queue.is_asleep()) _mm_pause();
        spin(asleep ? 100e3 : 2000.0 + double(number * 37 % 997));
        uint64_t begin = stamp();
        queue.append_task(std::make_shared<NetworkTask>(&world.ours, number));
        await(queue, &world.ours);
        events.push_back(stamp() - begin);
    }
    tell(key, events);
    world.finish();
}

void tick(int active, int ranks) {
    World world(active, ranks, idle);
    ProxyQueue queue(true);
    world.append_all(queue);
    size_t ignored = 0;
    for (int warm = 0; warm < 10; warm++) queue.pass(&ignored, &ignored);
    const int ticks = active > 1000 ? 200 : 4000;
    std::vector<uint64_t> rows;
    for (int row = 0; row < 15; row++) {
        uint64_t begin = stamp();
        for (int number = 0; number < ticks; number++) queue.pass(&ignored, &ignored);
        rows.push_back(stamp() - begin);
    }
    std::sort(rows.begin(), rows.end());
    std::string key = active == 1 ? "tick.1" : "tick." + std::to_string(active) + "." + std::to_string(ranks);
    tell(key, ns(rows[7]) / ticks / active, ns(rows[14]) / ticks / active);
}

void look(const std::string &key, ProxyQueue &queue, const Context *context, int count) {
    bool over;
    int status;
    std::vector<uint64_t> rows;
    for (int row = 0; row < 15; row++) {
        uint64_t begin = stamp();
        for (int number = 0; number < count; number++) queue.check(context, kNetwork, &over, &status);
        rows.push_back(stamp() - begin);
    }
    std::sort(rows.begin(), rows.end());
    tell(key, ns(rows[7]) / count, ns(rows[14]) / count);
}

void looks() {
    for (int active : {1, 16, 256, 4096}) {
        std::string number = std::to_string(active);
        int count = active > 1000 ? 200 : 2000;
        World world(active, std::min(active, 64), idle);
        {
            ProxyQueue still(true);
            world.append_all(still);
            look("check.oldest." + number, still, &world.contexts.front(), 2000);
            look("check.none." + number, still, &world.ours, count);
        }
        ProxyQueue queue(true);
        world.append_all(queue);
        start(queue);
        look("poll." + number, queue, &world.contexts.back(), count);
        world.finish();
    }
}

// Tasks per second with so many in flight, as nanoseconds per task.
void tasks(int window) {
    World world(1, 1, idle);
    std::vector<Context> contexts(window, world.ours);
    ProxyQueue queue(true);
    if (window > 1) world.append_all(queue);
    start(queue);
    for (auto &context : contexts) queue.append_task(std::make_shared<NetworkTask>(&context, 0));
    uint64_t before = allocations.load(), count = 0, begin = stamp();
    auto end = Clock::now() + std::chrono::milliseconds(400);
    while (Clock::now() < end)
        for (auto &context : contexts) {
            await(queue, &context);
            queue.append_task(std::make_shared<NetworkTask>(&context, ++count));
        }
    double each = ns(stamp() - begin) / double(count);
    tell("tasks." + std::to_string(window), each, each);
    if (window == 16) {
        double made = double(allocations.load() - before) / double(count);
        tell("allocations", made, made);
    }
    for (auto &context : contexts) await(queue, &context);
    world.finish();
}

} // namespace

int main(int argc, char **argv) {
    // The C library takes locks without an atomic instruction while there is one thread only; a runtime has more.
    std::thread([] { pause(); }).detach();
    pin(0);
    ns(0);
    for (int at = 1; at < argc; at++) {
        std::string group = argv[at];
        if (group == "append") appends();
        if (group == "done") until_done("done.spin", 1, false), until_done("done.asleep", 0, true);
        if (group == "tick") {
            tick(1, 1), tick(64, 64);
            for (int active : {256, 4096})
                for (int ranks : {1, 8, 64}) tick(active, ranks);
        }
        if (group == "look") looks();
        if (group == "tasks")
            for (int window : {1, 16, 64, 1024}) tasks(window);
    }
    fflush(stdout);
    _exit(0);
}
