// The first example in C++: every handle owned, every failure an exception.  5_raii <libnccom.so>
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string>

#include "enc_proxy.h"

namespace {

void must(NRT_STATUS status)
{
    if (status != NRT_SUCCESS)
        throw std::runtime_error(std::string(enc_proxy_last_error()) + " (" + std::to_string(status) + ")");
}

constexpr std::uint64_t seconds(std::uint64_t n) { return n * 1000000; }

// Owns a handle; `Destroy` gives it back. Destroying cannot throw, so a failure there is only said.
template <class T, NRT_STATUS (*Destroy)(T *)> class Owned {
public:
    Owned() = default;
    Owned(const Owned &) = delete;
    Owned &operator=(const Owned &) = delete;
    ~Owned()
    {
        if (handle_ != nullptr && Destroy(handle_) != NRT_SUCCESS)
            std::fprintf(stderr, "%s\n", enc_proxy_last_error());
    }
    T *get() const { return handle_; }
    T **out() { return &handle_; }

private:
    T *handle_ = nullptr;
};

NRT_STATUS destroy_comm(enc_proxy_comm *comm) { return enc_proxy_comm_destroy(comm, seconds(10)); }
NRT_STATUS release_group(enc_proxy_group *group)
{
    return enc_proxy_group_release(group, ENC_PROXY_DRAIN, seconds(10), nullptr);
}

using Library = Owned<enc_proxy_library, enc_proxy_library_close>;
using Comm = Owned<enc_proxy_comm, destroy_comm>;
using Group = Owned<enc_proxy_group, release_group>;
using Context = Owned<encd_context, encd_context_destroy>;

template <class T> T sized()
{
    T record = T();
    record.struct_size = sizeof record;
    return record;
}

std::uint64_t channel[11]; // enc_channel of an op without entries

void make_context(const Group &group, const Comm &comm, Context &context)
{
    net_ops_info op = net_ops_info();
    op.net_idx_loop_size = 512;
    op.initial_send_credits = op.ending_recv_credits = 1;
    op.data_type_sz = 4;
    op.basic_block_id = 7;
    op.enc_channel = channel;
    net_src_addr src = net_src_addr();
    net_dest_addr dest = net_dest_addr();
    src.mark = dest.mark = EXEC_COMPLETE;
    const enc_fifo_set set = {&op, 1, &src, 1, &dest, 1};
    const enc_basic_block block = {7, 0, &set};
    auto config = sized<encd_context_config>();
    config.comm = comm.get();
    config.stream_n = config.block_n = 1;
    config.blocks = &block;
    must(encd_context_create(group.get(), &config, context.out()));
}

void run(const char *path)
{
    // Destroyed in the opposite order: context, communicator, group, library.
    Library library;
    must(enc_proxy_library_open(path, library.out()));
    Group group;
    const auto group_config = sized<enc_proxy_group_config>();
    must(enc_proxy_group_acquire(&group_config, group.out()));
    std::uint8_t id[ENC_PROXY_UNIQUE_ID_BYTES];
    must(enc_proxy_get_unique_id(library.get(), 1, id));
    auto comm_config = sized<enc_proxy_comm_config>();
    comm_config.rank_n = 1;
    comm_config.unique_id = id;
    comm_config.bypass_graph = 1;
    Comm comm;
    must(enc_proxy_comm_create(library.get(), &comm_config, comm.out()));
    Context context;
    make_context(group, comm, context);
    for (std::uint64_t exec_id = 1; exec_id <= 3; exec_id++) {
        NRT_STATUS status;
        must(enc_enq_proxy_tasks(context.get(), exec_id));
        must(enc_consume_proxy_task_status(context.get(), PROXY_TASK_NETWORK, seconds(10), &status));
        std::printf("execution %u: %s (%d)\n", static_cast<unsigned>(exec_id), enc_proxy_status_text(status), status);
    }
}

} // namespace

int main(int argc, char **argv)
{
    try {
        run(argc > 1 ? argv[1] : "libnccom.so");
        return 0;
    } catch (const std::exception &error) {
        std::fprintf(stderr, "error: %s\n", error.what());
        return 1;
    }
}
