"""Drives a collective of one rank and prints the dump, with ctypes alone.  6_dump.py <libenc_proxy.so> <libnccom.so> [stuck]

ctypes gives the interpreter lock up during a call, so other threads go on while one waits. A wait is cut into slices, because the
interpreter acts on Ctrl-C between two calls only.
"""

import ctypes as c
import json
import sys
import threading
import time

SUCCESS, TIMEOUT = 0, 5
NETWORK, ABORT, JSON = 1, 1, 1
SLICE_US = 50_000
EXEC_COMPLETE = 2


class Record(c.Structure):
    """A struct that begins with its size and flags."""

    def __init__(self, **fields):
        super().__init__(struct_size=c.sizeof(self), **fields)


HEAD = [("struct_size", c.c_size_t), ("flags", c.c_uint64)]


class CommConfig(Record):
    _fields_ = HEAD + [("rank_n", c.c_uint32), ("rank", c.c_uint32), ("unique_id", c.c_void_p), ("root_comm_id", c.c_char_p),
                       ("nec_dev_id", c.c_uint32), ("bypass_graph", c.c_uint32)]


class GroupConfig(Record):
    _fields_ = HEAD + [("device", c.c_uint32), ("reserved", c.c_uint32), ("settings", c.c_void_p), ("timeout_us", c.c_uint64)]


class ContextConfig(Record):
    _fields_ = HEAD + [("comm", c.c_void_p), ("rank", c.c_uint32), ("stream_n", c.c_uint32), ("block_n", c.c_uint32),
                       ("skip", c.c_uint32), ("blocks", c.c_void_p), ("start_words", c.c_void_p), ("polarity", c.c_uint32),
                       ("arming", c.c_uint32), ("stop_at", c.c_uint32), ("barrier_slot", c.c_uint32), ("barrier_bus", c.c_void_p),
                       ("barrier_ranks", c.c_void_p), ("barrier_rank_n", c.c_uint32), ("barrier_word_n", c.c_uint32),
                       ("barrier_words", c.c_void_p), ("barrier_timeout_us", c.c_uint64), ("barrier_semaphores", c.c_void_p * 4)]


class Op(c.Structure):
    _fields_ = [("head", c.c_uint64), ("semaphores", c.c_void_p * 4), ("tx_entry_cnt", c.c_uint32), ("rx_entry_cnt", c.c_uint32),
                ("net_idx_loop_size", c.c_uint32), ("initial_send_credits", c.c_uint32), ("ending_recv_credits", c.c_uint32),
                ("data_type_sz", c.c_size_t), ("switches", c.c_uint8 * 4), ("basic_block_id", c.c_uint32),
                ("func_rel_op_idx", c.c_uint32), ("unrolled_count", c.c_uint32), ("enc_channel", c.c_void_p)]


class Src(c.Structure):
    _fields_ = [("head", c.c_uint64 * 4), ("size", c.c_uint32), ("mark", c.c_uint32), ("tail", c.c_uint64 * 4)]


class Dest(c.Structure):
    _fields_ = [("head", c.c_uint64 * 4), ("size", c.c_uint32), ("mark", c.c_uint32), ("tail", c.c_uint64)]


class FifoSet(c.Structure):
    _fields_ = [("ops", c.POINTER(Op)), ("op_n", c.c_size_t), ("src", c.POINTER(Src)), ("src_n", c.c_size_t),
                ("dest", c.POINTER(Dest)), ("dest_n", c.c_size_t)]


class Block(c.Structure):
    _fields_ = [("id", c.c_uint32), ("reserved", c.c_uint32), ("fifo_sets", c.POINTER(FifoSet))]


assert (c.sizeof(Op), c.sizeof(Src), c.sizeof(Dest), c.sizeof(ContextConfig)) == (96, 72, 48, 144)


class Driver:
    """One rank with one context."""

    def __init__(self, driver, library, stuck):
        # The collective library takes a symbol from this one, so its names must be visible to it.
        self.lib = c.CDLL(driver, mode=c.RTLD_GLOBAL)
        for name in ("enc_proxy_last_error", "enc_proxy_status_text"):
            getattr(self.lib, name).restype = c.c_char_p
        self.library, self.comm, self.group, self.context = (c.c_void_p() for _ in range(4))
        self.call("enc_proxy_library_open", library.encode(), c.byref(self.library))
        unique_id = c.create_string_buffer(128)
        self.call("enc_proxy_get_unique_id", self.library, 1, unique_id)
        comm = CommConfig(rank_n=1, unique_id=c.addressof(unique_id), bypass_graph=1)
        self.call("enc_proxy_comm_create", self.library, c.byref(comm), c.byref(self.comm))
        self.call("enc_proxy_group_acquire", c.byref(GroupConfig()), c.byref(self.group))
        # Kept as long as the context: the library looks at the channel, the driver at the word.
        self.channel, self.word = (c.c_uint64 * 11)(), c.c_uint32(0xFFFFFFFF)
        op = Op(net_idx_loop_size=512, initial_send_credits=1, ending_recv_credits=1, data_type_sz=4,
                enc_channel=c.addressof(self.channel))
        fifos = FifoSet(c.pointer(op), 1, c.pointer(Src(mark=EXEC_COMPLETE)), 1, c.pointer(Dest(mark=EXEC_COMPLETE)), 1)
        block = Block(fifo_sets=c.pointer(fifos))
        config = ContextConfig(comm=self.comm, stream_n=1, block_n=1, blocks=c.addressof(block))
        words = (c.c_void_p * 1)(c.addressof(self.word))
        if stuck:
            config.start_words = c.addressof(words)
        self.call("encd_context_create", self.group, c.byref(config), c.byref(self.context))

    def call(self, name, *arguments):
        status = getattr(self.lib, name)(*arguments)
        if status != SUCCESS:
            raise RuntimeError(self.lib.enc_proxy_last_error().decode())

    def wait(self, seconds):
        """The status of the oldest task, or None when it is not done in time."""
        status, deadline = c.c_int32(), time.monotonic() + seconds
        while time.monotonic() < deadline:
            answer = self.lib.enc_consume_proxy_task_status(self.context, c.c_uint32(NETWORK), c.c_uint64(SLICE_US), c.byref(status))
            if answer == SUCCESS:
                return status.value
            if answer != TIMEOUT:
                raise RuntimeError(self.lib.enc_proxy_last_error().decode())
        return None

    def dump(self):
        buffer = c.create_string_buffer(1 << 20)
        self.call("enc_proxy_dump", self.group, c.c_uint32(JSON), buffer, c.c_size_t(len(buffer)), None)
        return json.loads(buffer.value)

    def close(self):
        # Ends a task that is stuck; what it leaves is a status, which ends with the group.
        self.call("enc_proxy_group_release", self.group, c.c_uint32(ABORT), c.c_uint64(10_000_000), None)
        self.call("encd_context_destroy", self.context)
        self.call("enc_proxy_comm_destroy", self.comm, c.c_uint64(10_000_000))


def main():
    if len(sys.argv) < 3:
        print("usage: 6_dump.py <libenc_proxy.so> <libnccom.so> [stuck [briefly]]", file=sys.stderr)
        sys.exit(2)
    stuck = "stuck" in sys.argv[3:]
    driver = Driver(sys.argv[1], sys.argv[2], stuck)
    driver.call("enc_enq_proxy_tasks", driver.context, c.c_uint64(812))
    if not stuck:
        print("status", driver.wait(10.0))
    else:
        counted, stop = [0], threading.Event()

        def count():
            while not stop.is_set():
                counted[0] += 1

        counter = threading.Thread(target=count)
        counter.start()
        before = counted[0]
        try:
            print("waiting", flush=True)
            driver.wait(0.2 if "briefly" in sys.argv else 60.0)
            print("timeout")
        except KeyboardInterrupt:
            print("interrupted")
        stop.set()
        counter.join()
        print("counted", counted[0] > before + 100)
    print(json.dumps(driver.dump()))
    driver.close()


try:
    main()
except (OSError, RuntimeError) as error:
    sys.exit(f"6_dump.py: {error}")
