// The specification's own design in C++17, from its pseudo-code: one lock for work lists, one for the status list, a condition
// variable, shared tasks with a virtual step, lists by rank, IDLE published in every tick.
//
// Where the pseudo-code as written would not end, or would be a data race, the least is added: the wait looks at its condition under
// the lock, stop is set under the lock, and the two published fields are relaxed atomics.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <queue>
#include <thread>
#include <sched.h>

namespace original {

enum Kind : uint32_t { kNetwork = 1, kBarrier = 2 };
enum RunState : uint32_t { kInit = 0, kProgressing = 1, kWaiting = 2, kIdle = 3, kDone = 4 };

// A slot of the table that loading the library fills.
using Progress = int (*)(void *comm, uint32_t stream, uint32_t block, bool *idle, bool *done);

struct Comm {
    int rank;
    Progress volatile progress;
};

struct Context {
    Comm *comm;
};

// enc_proxy_task_state: all that worker and consumer share.
struct TaskState {
    std::atomic<int> status{0};
    Context *context = nullptr;
    Kind kind = kNetwork;
    std::atomic<uint32_t> run_state{kInit};
};

class Task {
  public:
    Task(Context *context, uint64_t exec, Kind kind)
        : context_(context), exec_(exec), state_(std::make_shared<TaskState>()) {
        state_->context = context;
        state_->kind = kind;
    }
    virtual ~Task() = default;
    virtual int step() = 0;
    int rank() const { return context_->comm->rank; }
    const std::shared_ptr<TaskState> &state() const { return state_; }

  protected:
    void publish(int status, RunState run_state) {
        state_->status.store(status, std::memory_order_relaxed);
        state_->run_state.store(run_state, std::memory_order_release);
    }
    Context *context_;
    uint64_t exec_;
    std::shared_ptr<TaskState> state_;
};

class NetworkTask final : public Task {
  public:
    NetworkTask(Context *context, uint64_t exec) : Task(context, exec, kNetwork) {}
    int step() override {
        switch (state_->run_state.load(std::memory_order_relaxed)) {
        case kInit:
            publish(0, kProgressing);
            break;
        case kProgressing:
        case kIdle: {
            bool idle = false, done = false;
            int status = context_->comm->progress(context_->comm, 0, block_, &idle, &done);
            state_->status.store(status, std::memory_order_relaxed);
            if (done)
                publish(status, kDone);
            else if (idle)
                publish(status, kIdle);
            break;
        }
        default:
            break;
        }
        return state_->status.load(std::memory_order_relaxed);
    }

  private:
    uint32_t block_ = 0;
};

class ProxyQueue {
  public:
    // A worker with a core of its own spins, as `one_thread_per_core` says; else it yields.
    explicit ProxyQueue(bool own_core) : own_core_(own_core) {}

    ~ProxyQueue() {
        {
            std::lock_guard<std::mutex> guard(mutex_);
            stop_ = true;
        }
        wake_.notify_all();
        if (worker_.joinable()) worker_.join();
    }

    template <class Before> void start(Before before) {
        worker_ = std::thread([this, before] {
            before();
            process();
        });
    }

    void append_task(std::shared_ptr<Task> task) {
        {
            std::lock_guard<std::mutex> guard(state_mutex_);
            states_.push_back(task->state());
        }
        {
            std::lock_guard<std::mutex> guard(mutex_);
            queue_.push(std::move(task));
        }
        wake_.notify_all();
    }

    // False: no such task.
    bool check(const Context *context, Kind kind, bool *done, int *status) {
        std::lock_guard<std::mutex> guard(state_mutex_);
        for (auto at = states_.begin(); at != states_.end(); ++at) {
            const TaskState &state = **at;
            if (state.context != context || state.kind != kind) continue;
            *done = state.run_state.load(std::memory_order_acquire) == kDone;
            *status = state.status.load(std::memory_order_relaxed);
            if (*done) states_.erase(at);
            return true;
        }
        return false;
    }

    // One pass under the lock. True: nothing is active or queued.
    bool pass(size_t *idle, size_t *active) {
        std::lock_guard<std::mutex> guard(mutex_);
        while (!queue_.empty()) {
            std::shared_ptr<Task> task = std::move(queue_.front());
            queue_.pop();
            active_[task->rank()].push_back(std::move(task));
        }
        for (auto bucket = active_.begin(); bucket != active_.end();) {
            auto &tasks = bucket->second;
            for (auto at = tasks.begin(); at != tasks.end();) {
                ++*active;
                (*at)->step();
                uint32_t now = (*at)->state()->run_state.load(std::memory_order_relaxed);
                if (now == kIdle) ++*idle;
                if (now == kDone)
                    at = tasks.erase(at);
                else
                    ++at;
            }
            if (tasks.empty())
                bucket = active_.erase(bucket);
            else
                ++bucket;
        }
        return active_.empty() && queue_.empty();
    }

    bool is_asleep() const { return asleep_.load(std::memory_order_acquire); }
    uint64_t ticks() const { return ticks_.load(std::memory_order_relaxed); }

  private:
    void process() {
        while (!stop_.load(std::memory_order_relaxed)) {
            size_t idle = 0, active = 0;
            bool quiescent = pass(&idle, &active);
            ticks_.store(ticks_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
            if (quiescent) {
                std::unique_lock<std::mutex> lock(mutex_);
                asleep_.store(true, std::memory_order_release);
                wake_.wait(lock, [this] { return stop_ || !queue_.empty(); });
                asleep_.store(false, std::memory_order_release);
            } else if (idle == active && !own_core_) {
                sched_yield();
            }
        }
    }

    const bool own_core_;
    std::queue<std::shared_ptr<Task>> queue_;
    std::map<int, std::list<std::shared_ptr<Task>>> active_;
    std::condition_variable wake_;
    std::mutex mutex_;
    std::list<std::shared_ptr<TaskState>> states_;
    std::mutex state_mutex_;
    std::thread worker_;
    std::atomic<bool> stop_{false}, asleep_{false};
    std::atomic<uint64_t> ticks_{0};
};

} // namespace original
