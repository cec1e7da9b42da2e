//! What the tests share: worlds of ranks as threads of one process, the host's symbol, and the simulated device.
#![allow(
    unsafe_code,
    reason = "calls the C exports and provides the host's semaphore increment"
)]
#![allow(dead_code, reason = "each test binary uses its own part")]

pub(crate) mod device;

use std::ffi::{CString, c_void};
use std::net::TcpListener;
use std::ptr::{from_ref, null, null_mut};
use std::sync::atomic::{AtomicU32, Ordering};

use nccom::exports::comm as boot;

/// The symbol that the library takes from its host.
#[unsafe(no_mangle)]
extern "C" fn nec_inc_semaphore(address: *mut u32, value: u32) {
    // SAFETY: the tests pass semaphores that outlive their op lists.
    let word = unsafe { AtomicU32::from_ptr(address) };
    // Release: pairs with the acquire load of `Device::seen`.
    word.fetch_add(value, Ordering::Release);
}

/// A root address for one world. Its port lies below the range from which the system takes ports by itself, and each
/// process has a part of its own: between this call and the root's bind nobody takes it.
pub(crate) fn free_root() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        // Relaxed: a counter, nothing is published through it.
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = 10_000 + (std::process::id() * 64 + number) % 20_000;
        let address = format!("127.0.0.1:{port}");
        if TcpListener::bind(&address).is_ok() {
            return address;
        }
    }
}

/// A unique id.
pub(crate) type Id = [u8; 128];

/// A communicator handle that may go to the thread of its rank.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Handle(pub *mut c_void);
// SAFETY: a handle is a number; the library takes calls from any thread.
unsafe impl Send for Handle {}

/// One rank of a world with its two communicators. Freed on drop.
#[derive(Debug)]
pub(crate) struct Rank {
    pub(crate) rank: i32,
    pub(crate) world: i32,
    pub(crate) global: Handle,
    pub(crate) comm: Handle,
}

impl Drop for Rank {
    fn drop(&mut self) {
        assert_eq!(boot::neuronFreeComm(self.comm.0), 0);
        assert_eq!(boot::neuronFreeComm(self.global.0), 0);
    }
}

/// Joins the global communicator.
pub(crate) fn join_global(root: &str, rank: i32, world: i32) -> Result<Handle, i32> {
    let root = CString::new(root).expect("no zero byte");
    let mut global = null_mut();
    // SAFETY: valid strings and out pointer.
    let status = unsafe {
        boot::neuronInitGlobalComm(
            rank,
            world,
            null(),
            root.as_ptr(),
            &raw mut global,
            c"test".as_ptr(),
        )
    };
    if status == 0 {
        Ok(Handle(global))
    } else {
        Err(status)
    }
}

/// `neuronBootstrapSend`; its status.
pub(crate) fn send(global: Handle, peer: i32, data: &mut [u8]) -> i32 {
    // SAFETY: readable for its length.
    unsafe {
        boot::neuronBootstrapSend(
            global.0,
            peer,
            data.as_mut_ptr().cast(),
            data.len(),
            c"test".as_ptr(),
        )
    }
}

/// `neuronBootstrapRecv`; its status.
pub(crate) fn receive(global: Handle, peer: i32, data: &mut [u8]) -> i32 {
    // SAFETY: writable for its length.
    unsafe {
        boot::neuronBootstrapRecv(
            global.0,
            peer,
            data.as_mut_ptr().cast(),
            data.len(),
            c"test".as_ptr(),
        )
    }
}

/// `neuronBootstrapAllGather` of `part` bytes per rank; its status.
pub(crate) fn all_gather(global: Handle, all: &mut [u8], part: usize) -> i32 {
    // SAFETY: the callers give a part for each rank.
    unsafe {
        boot::neuronBootstrapAllGather(global.0, all.as_mut_ptr().cast(), part, c"test".as_ptr())
    }
}

/// `neuronGetUniqueId`; its status.
pub(crate) fn unique_id(id: &mut Id, world: i32) -> i32 {
    // SAFETY: 128 bytes of room.
    unsafe { boot::neuronGetUniqueId(id.as_mut_ptr().cast(), world, c"nccl init comm".as_ptr()) }
}

/// Makes a unique id at rank 0 and carries it to the others, as a host does.
pub(crate) fn share_id(global: Handle, rank: i32, world: i32) -> Id {
    let mut id = [0; 128];
    if rank == 0 {
        assert_eq!(unique_id(&mut id, world), 0);
        for peer in 1..world {
            assert_eq!(send(global, peer, &mut id), 0);
        }
    } else {
        assert_eq!(receive(global, 0, &mut id), 0);
    }
    id
}

/// Joins the data communicator of an id.
pub(crate) fn join_comm(mut id: Id, rank: i32, world: i32) -> Result<Handle, i32> {
    let device = 100 + rank;
    let mut comm = null_mut();
    // SAFETY: an id, a device record's first field and a valid out pointer.
    let status = unsafe {
        boot::neuronInitComm(
            &raw mut comm,
            world,
            id.as_mut_ptr().cast(),
            rank,
            from_ref(&device).cast(),
            false,
        )
    };
    if status == 0 {
        Ok(Handle(comm))
    } else {
        Err(status)
    }
}

/// Runs `body` for each rank of a world, every rank on its own thread; the results in rank order.
pub(crate) fn world<T: Send>(n: i32, body: impl Fn(Rank) -> T + Sync) -> Vec<T> {
    let root = free_root();
    std::thread::scope(|scope| {
        let (root, body) = (&root, &body);
        let start = move |rank| {
            let global = join_global(root, rank, n).expect("joins the world");
            let comm =
                join_comm(share_id(global, rank, n), rank, n).expect("joins the communicator");
            body(Rank {
                rank,
                world: n,
                global,
                comm,
            })
        };
        let threads: Vec<_> = (0..n)
            .map(|rank| scope.spawn(move || start(rank)))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("the rank's thread"))
            .collect()
    })
}

/// Waits until all ranks are here.
pub(crate) fn barrier(rank: &Rank) {
    let mut all = vec![0_u8; rank.world as usize];
    assert_eq!(all_gather(rank.global, &mut all, 1), 0);
}

/// Frees a communicator; its status.
pub(crate) fn free(comm: Handle) -> i32 {
    boot::neuronFreeComm(comm.0)
}
