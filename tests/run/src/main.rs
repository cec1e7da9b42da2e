//! The main job: `proxy-run <op> -r N [options]` runs a real collective over N ranks and prints its speed.
//!
//! One program plays two parts. Started by a user it is the launcher, which checks the command line, starts itself as
//! the ranks, one or several to a process, and collects what they say; a rank joins the others through the collective library, and every iteration goes
//! the whole way: enqueue, worker, task machine, library, sockets, semaphores, simulated device, status, waiter.
//!
//! | module | what |
//! |---|---|
//! | [`cli`], [`size`], [`job`] | the command line, and the checked job that it describes |
//! | [`refusal`] | what is shown when it is none |
//! | [`starter`] | starts the processes of ranks |
//! | [`layout`] | which ranks share a process and a worker |
//! | [`launcher`] | processes, signals, failures |
//! | [`rank`] | one rank |
//! | [`latency`] | the other two verbs, `bus` and `barrier`: the host bus alone |
//! | [`wire`] | what a rank tells the launcher |
//! | [`stats`], [`table`], [`report`] | from times to the table and the JSON file |
//! | [`sys`] | system calls |

mod cli;
mod job;
mod latency;
mod launcher;
mod layout;
mod rank;
mod refusal;
mod report;
mod size;
mod starter;
mod stats;
mod sys;
mod table;
mod wire;

use std::ffi::{OsStr, OsString};
use std::io;
use std::process::ExitCode;

use launcher::screen;

/// The library raises semaphores through this export of the program; the reference keeps the linker from dropping it.
#[used]
static REVERSE_EDGE: unsafe extern "C" fn(*mut u32, u32) = enc_proxy::nec_inc_semaphore;

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    let part = args.next();
    match part.as_deref().and_then(OsStr::to_str) {
        Some(job::RANK_VERB) => return rank::main(args.next()),
        Some(latency::RANK_VERB) => return latency::rank_main(args.next()),
        _ => {}
    }
    sys::refuse_large_files_by_error();
    if sys::stdout_is_missing() {
        let closed = io::Error::from_raw_os_error(libc::EBADF);
        return screen::failed(&screen::unwritten(closed), screen::note);
    }
    let args: Vec<OsString> = std::env::args_os().collect();
    if let Some(verb) = cli::place_of_op(&args)
        && args
            .get(verb)
            .is_some_and(|op| latency::VERBS.iter().any(|verb| op == verb))
    {
        return latency::main(verb);
    }
    match cli::parse() {
        Ok((job, output)) => launcher::main(job, output),
        Err(error) => refusal::exit(&error),
    }
}
