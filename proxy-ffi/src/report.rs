//! Reports: the one record that says what hangs, of the whole process or of one group, as text for people and as JSON for programs.
//!
//! ```text
//!   whoever asks ──> enc_proxy_report, _to_fd     the process ┐
//!                    enc_proxy_dump               one group   ├── the same record (schema proxy-report/1.1)
//!   signal, socket, interval, errors ──> enc_proxy_report_service ┘
//!   the records of many processes ──> enc_proxy_report_merge ──> one sentence
//! ```
#![allow(unsafe_code, reason = "exported C functions that take addresses")]
#![allow(non_camel_case_types, reason = "types of C")]

use std::ffi::{c_char, c_int};
use std::fmt::Display;
use std::io::{self, Write};
use std::path::PathBuf;
use std::slice;
use std::time::Duration;

use proxy_os::diagnosis::{self, Options, Report, Service};
use proxy_os::sys::mute;

use crate::arg::{self, Out, OutText};
use crate::call::{self, Failure};
use crate::group::{GROUPS, enc_proxy_group};
use crate::handle::Kind;
use crate::record::{self, record};
use crate::status::{self, NRT_STATUS};
use crate::table::Table;

/// The form of a report.
pub type enc_proxy_form_t = u32;
/// Lines for people, the verdict first.
pub const ENC_PROXY_TEXT: enc_proxy_form_t = 0;
/// One JSON object; its member `schema` is `proxy-report/1.1`; within the first of its two numbers members are only added.
pub const ENC_PROXY_JSON: enc_proxy_form_t = 1;
/// Counters and latencies as metrics in the text format of Prometheus; the JSON has them, too.
pub const ENC_PROXY_PROMETHEUS: enc_proxy_form_t = 2;

/// A wait counts as a stall from this age on, where nobody says otherwise.
const STALL: Duration = Duration::from_secs(1);

/// What the reports of this interface say they were made for.
const REASON: &str = "the program asked";

fn collected(stall_us: u64) -> Report {
    let threshold = match stall_us {
        0 => STALL,
        micros => arg::long_timeout(micros),
    };
    Report::collect_stalls(REASON, threshold)
}

fn written(report: &Report, form: enc_proxy_form_t) -> Result<String, Failure> {
    match form {
        ENC_PROXY_TEXT => Ok(report.to_string()),
        ENC_PROXY_JSON => report.to_json().map_err(unwritable),
        ENC_PROXY_PROMETHEUS => Ok(diagnosis::prometheus(slice::from_ref(report))),
        _ => Err(unknown(form)),
    }
}

/// The report of the whole process: a verdict in one sentence, then tasks, workers, the last changes of state, libraries and settings with
/// their origins. It is read from words that the workers publish anyway, so it is there while a worker is stuck.
///
/// - `form`: `ENC_PROXY_TEXT`, `ENC_PROXY_JSON` or `ENC_PROXY_PROMETHEUS`.
/// - `stall_us`: a wait counts as a stall from this age on, in microseconds; 0 = one second.
/// - `buffer`, `bytes`, `length`: as for `enc_proxy_library_get_path`. Each call makes a new report, which may be longer than the one whose
///   length was asked for.
///
/// Errors: `ENC_PROXY_TOO_SMALL`, `NRT_INVALID`. Threads: any, also the worker's and while a worker is stuck inside the collective
/// library; calls nothing in it. Cost: milliseconds, 200 at most; what could not be had then is named in the report.
///
/// # Safety
/// `buffer` is writable for `bytes`, `length` writable or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn enc_proxy_report(
    form: enc_proxy_form_t,
    stall_us: u64,
    buffer: *mut c_char,
    bytes: usize,
    length: *mut usize,
) -> NRT_STATUS {
    call::plain("enc_proxy_report", || {
        // SAFETY: the caller's promise.
        let out = unsafe { OutText::new(buffer, bytes, length) }?;
        out.set(&written(&collected(stall_us), form)?)
    })
}

/// As `enc_proxy_report`, written to a descriptor: of a file, a pipe, a socket. The descriptor stays open. Waits as long as its other end
/// takes to read. Raises neither SIGPIPE nor SIGXFSZ, whatever they do in the process: a pipe that nobody reads and a limit of file sizes are
/// errors.
///
/// Errors: `NRT_INVALID` (also: `fd` is no open descriptor), `NRT_RESOURCE` (the write failed; a part may have been written). Threads: as for
/// `enc_proxy_report`.
#[unsafe(no_mangle)]
pub extern "C" fn enc_proxy_report_to_fd(
    form: enc_proxy_form_t,
    stall_us: u64,
    fd: c_int,
) -> NRT_STATUS {
    call::plain("enc_proxy_report_to_fd", || {
        let mut file = arg::duplicate(fd)?;
        let text = written(&collected(stall_us), form)?;
        let written = mute::while_writing(|| file.write_all(text.as_bytes()));
        written.map_err(|error| {
            Failure::new(
                status::NRT_RESOURCE,
                format_args!("the report could not be written to descriptor {fd}: {error}"),
            )
        })
    })
}

/// The report of one group: the record of `enc_proxy_report` without the other groups, its verdict about this one.
///
/// - `form`, `buffer`, `bytes`, `length`: as for `enc_proxy_report`.
///
/// Errors: `ENC_PROXY_TOO_SMALL`, `NRT_INVALID`, `NRT_INVALID_HANDLE`. Threads and cost: as for `enc_proxy_report`.
///
/// # Safety
/// `buffer` is writable for `bytes`, `length` writable or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn enc_proxy_dump(
    group: *mut enc_proxy_group,
    form: enc_proxy_form_t,
    buffer: *mut c_char,
    bytes: usize,
    length: *mut usize,
) -> NRT_STATUS {
    call::with("enc_proxy_dump", &GROUPS, group, |group| {
        // SAFETY: the caller's promise.
        let out = unsafe { OutText::new(buffer, bytes, length) }?;
        let report = collected(0).only(group.queue.gid().0);
        out.set(&written(&report, form)?)
    })
}

/// What the reports of many processes say together: who is behind, in which operation, waiting for whom; ranges of ranks, not lists.
///
/// - `reports`, `report_n`: texts as `ENC_PROXY_JSON` has them, of any processes and machines, at most 65536; their order does not matter.
/// - `world`: the number of ranks of the job, up to 1048576: ranks that no report has a task of are then named; 0 = not known.
/// - `form`: `ENC_PROXY_TEXT`: one sentence; `ENC_PROXY_JSON`: an object of the schema `proxy-merge/1` with the sentence and what it was made
///   from; `ENC_PROXY_PROMETHEUS`: the metrics of all of them.
/// - `buffer`, `bytes`, `length`: as for `enc_proxy_library_get_path`.
///
/// Errors: `ENC_PROXY_TOO_SMALL`, `NRT_INVALID` (also: a text is no report; the error's text says which). Threads: any. Cost: that of reading
/// the texts.
///
/// # Safety
/// `reports` is readable for `report_n` addresses, each of a text that is terminated within 256 MiB; `buffer` is writable for `bytes`,
/// `length` writable or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn enc_proxy_report_merge(
    reports: *const *const c_char,
    report_n: usize,
    world: u32,
    form: enc_proxy_form_t,
    buffer: *mut c_char,
    bytes: usize,
    length: *mut usize,
) -> NRT_STATUS {
    call::plain("enc_proxy_report_merge", || {
        // SAFETY: the caller's promise.
        let out = unsafe { OutText::new(buffer, bytes, length) }?;
        // SAFETY: the caller's promise.
        let texts = unsafe { arg::array(reports, report_n, MAX_REPORTS, "reports") }?;
        if world > MAX_WORLD {
            return Err(Failure::invalid(format_args!(
                "world is {world}, accepted: 0 to {MAX_WORLD}"
            )));
        }
        let reports = (0..).zip(texts).map(|(number, text)| {
            // SAFETY: the caller's promise.
            unsafe { given(*text, number) }
        });
        let reports = reports.collect::<Result<Vec<Report>, Failure>>()?;
        out.set(&merged(&reports, world, form)?)
    })
}

/// Reports of one merge.
const MAX_REPORTS: usize = 1 << 16;
/// Ranks of a job.
const MAX_WORLD: u32 = 1 << 20;
/// No report is longer.
const MAX_REPORT: usize = 256 << 20;

/// Reads a report that C gives.
///
/// # Safety
/// As for [`arg::long_text`].
unsafe fn given(text: *const c_char, number: usize) -> Result<Report, Failure> {
    let name = format!("reports[{number}]");
    // SAFETY: the caller's promise.
    let text = unsafe { arg::long_text(text, MAX_REPORT, &name) }?;
    let refused = |why: &dyn Display| Failure::invalid(format_args!("{name} is no report: {why}"));
    let text = text.to_str().map_err(|error| refused(&error))?;
    Report::from_json(text).map_err(|error| refused(&error))
}

fn merged(reports: &[Report], world: u32, form: enc_proxy_form_t) -> Result<String, Failure> {
    let merge = || diagnosis::merge(reports, (world > 0).then_some(world));
    match form {
        ENC_PROXY_TEXT => Ok(merge().sentence),
        ENC_PROXY_JSON => merge().to_json().map_err(unwritable),
        ENC_PROXY_PROMETHEUS => Ok(diagnosis::prometheus(reports)),
        _ => Err(unknown(form)),
    }
}

fn unwritable(error: io::Error) -> Failure {
    Failure::new(status::NRT_FAILURE, error)
}

fn unknown(form: enc_proxy_form_t) -> Failure {
    Failure::invalid(format_args!(
        "form is {form}, accepted: ENC_PROXY_TEXT (0), ENC_PROXY_JSON (1) or ENC_PROXY_PROMETHEUS (2)"
    ))
}

/// Reports that come without a call: on a signal, at intervals, to tools such as `proxytop`, and after a failed task, a deadline or a
/// dead worker. One thread, `proxy-report`; one service per process. The same can be asked for by `NEURON_RT_PROXY_REPORT` and
/// its relatives, without a line of code.
#[derive(Debug)]
pub struct enc_proxy_report_service {
    _opaque: [u8; 0],
}

/// A process has one; another place lets a new one start while a call on the old one ends.
const LIMIT: usize = 2;
static SERVICES: Table<Service, LIMIT> = Table::new(Kind::ReportService);

/// What the service does, for `enc_proxy_report_service_start`. All reports go to the log, those of errors, too.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct enc_proxy_report_config {
    /// `sizeof(enc_proxy_report_config)`.
    pub struct_size: usize,
    /// Must be 0.
    pub flags: u64,
    /// Reports go into this directory as JSON files, too; UTF-8. NULL = they do not.
    pub directory: *const c_char,
    /// A report this often, in microseconds; 0 = none. It is one file, which is replaced each time, and its verdict in the log.
    pub every_us: u64,
    /// A report when this signal comes, after which the handler that was there is called; 0 = none.
    pub signal: u32,
    /// 1 = tools of the same user are answered.
    pub socket: u32,
}
record!(enc_proxy_report_config {
    struct_size: usize, flags: u64, directory: *const c_char, every_us: u64, signal: u32, socket: u32,
});

/// # Safety
/// As for `enc_proxy_report_service_start`.
unsafe fn options(config: &enc_proxy_report_config) -> Result<Options, Failure> {
    let (signal, socket) = (config.signal, config.socket);
    if socket > 1 || i32::try_from(signal).is_err() {
        return Err(Failure::invalid(format_args!(
            "socket is {socket}, signal {signal}; accepted: 0 or 1, and a signal's number"
        )));
    }
    let directory = match config.directory.is_null() {
        true => None,
        // SAFETY: the caller's promise.
        false => Some(PathBuf::from(unsafe {
            arg::text(config.directory, "directory")
        }?)),
    };
    let every = (config.every_us != 0).then(|| arg::long_timeout(config.every_us));
    let signal = (signal != 0).then_some(signal as i32);
    let socket = socket == 1;
    Ok(Options {
        socket,
        signal,
        every,
        directory,
    })
}

/// Starts the service. Takes a signal whose handler is then the service's own, until it is stopped.
///
/// - `service`: receives the handle; give it back by `enc_proxy_report_service_stop`.
///
/// Errors: `ENC_PROXY_BUSY` (the process has one, perhaps by its environment), `NRT_INVALID` (also: the signal cannot be caught), `NRT_RESOURCE`. Nothing
/// is left of one that did not start. Threads: any. Waits for one that is being stopped, up to 2 seconds.
///
/// # Safety
/// `config` is readable for the size that it says and its `directory` up to its end, `service` writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn enc_proxy_report_service_start(
    config: *const enc_proxy_report_config,
    service: *mut *mut enc_proxy_report_service,
) -> NRT_STATUS {
    call::plain("enc_proxy_report_service_start", || {
        // SAFETY: the caller's promise.
        let config = unsafe { record::read(config) }?;
        // SAFETY: the caller's promise.
        let out = unsafe { Out::new(service, "service") }?;
        // SAFETY: the caller's promise.
        let options = unsafe { options(&config) }?;
        // First: reports would be asked for in vain, and the signal taken for nothing.
        let place = call::reserve(&SERVICES)?;
        out.set(call::fill(place, Service::start(options)?));
        Ok(())
    })
}

/// Stops the service, and puts the signal's former handler back if nobody has changed it since. Waits up to 2 seconds, on a worker's thread, too,
/// for a report that is being written.
///
/// Errors: `NRT_INVALID_HANDLE`. Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn enc_proxy_report_service_stop(
    service: *mut enc_proxy_report_service,
) -> NRT_STATUS {
    call::destroy("enc_proxy_report_service_stop", &SERVICES, service, |_| {
        Ok(())
    })
}
