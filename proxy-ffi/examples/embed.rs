//! The smallest embedding: one device, one context, three executions.
//!
//! `cargo run -p proxy-ffi --example embed -- /path/to/libnccom.so`: a library with the 37 exports of release 2.31, and no
//! other need of its host than `nec_inc_semaphore`, which this program exports.
#![allow(
    unsafe_code,
    reason = "communicators and addresses of the library are promises of the embedder"
)]

use std::error::Error;
use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use proxy_core::fifo::{EXEC_COMPLETE, NetDestAddr, NetOpsInfo, NetSrcAddr};
use proxy_core::{ExecId, Rank};
use proxy_os::nccom::abi::DeviceInfo;
use proxy_os::nccom::{self, ProxyComm};
use proxy_os::{ContextBuilder, Fifo, Group, Patience, Release, Settings};

const TEN_SECONDS: Duration = Duration::from_secs(10);

/// The library raises semaphores through this export of the program; the reference keeps the linker from dropping it.
#[used]
static REVERSE_EDGE: unsafe extern "C" fn(*mut u32, u32) = enc_proxy::nec_inc_semaphore;

fn main() -> ExitCode {
    match embed() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn embed() -> Result<(), Box<dyn Error>> {
    let library = std::env::args_os()
        .nth(1)
        .unwrap_or_else(|| OsString::from("libnccom.so"));
    let settings = Settings::from_env()?;

    // 1. The library: opened, version checked, 37 names found, or one error that says what is missing.
    let library = nccom::shared(&library)?;

    // 2. A communicator, of one rank here; with more, the id travels from rank 0 to the others.
    let id = library.get_unique_id(1, c"embed")?;
    // SAFETY: the id was made above for this one rank; the device is described truly.
    let comm = unsafe { library.init_comm(1, id, 0, &DeviceInfo::standalone(0), true) }?;

    // 3. The device's group: the first user starts the worker, later ones share it.
    let mut group = Group::for_device(0, &settings, TEN_SECONDS)?;

    // 4. A context: one basic block (id 7) with one stream.
    // SAFETY: the communicator is freed below, after context and group; nobody else makes proxy calls on it; the op has no
    // entries, so the library follows no address but the channel's, which is static.
    let proxy_comm = unsafe { ProxyComm::new(library.clone(), comm, 1) };
    let builder = ContextBuilder::new(proxy_comm, Rank(0)).block(7, vec![fifo(7)]);
    let context = group.queue().context(builder)?;

    // 5. Executions: enqueue, ring the device's doorbell (there is none here), wait.
    for exec in 1..=3 {
        let execution = context.enqueue(ExecId(exec))?;
        let status = group
            .queue()
            .consume(execution.network, Patience::until(TEN_SECONDS))?;
        println!("execution {exec}: {status}");
    }

    // 6. The end, in reverse order. Nothing is freed while the worker may still touch it.
    context.retire().map_err(|(_, error)| error)?;
    group.release(Release::Drain, TEN_SECONDS)?;
    // SAFETY: the group's worker has ended, so nothing uses the communicator any more.
    unsafe { library.free_comm(comm) }?;
    Ok(())
}

/// The arrays of a rank that is alone: its op has no entries, only the terminators.
fn fifo(block: u32) -> Fifo {
    let op = NetOpsInfo {
        net_idx_loop_size: 512,
        initial_send_credits: 1,
        ending_recv_credits: 1,
        data_type_sz: 4,
        basic_block_id: block,
        enc_channel: (&raw const CHANNEL).addr() as u64,
        ..NetOpsInfo::default()
    };
    Fifo {
        ops: vec![op],
        src: vec![NetSrcAddr {
            mark: EXEC_COMPLETE,
            ..NetSrcAddr::default()
        }],
        dest: vec![NetDestAddr {
            mark: EXEC_COMPLETE,
            ..NetDestAddr::default()
        }],
    }
}

/// `enc_channel` of an op without entries: ring pattern, no connectors.
static CHANNEL: [u64; 11] = [0; 11];
