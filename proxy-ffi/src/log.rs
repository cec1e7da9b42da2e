//! Messages: handed to a function of the embedder, or written to standard error.
#![allow(unsafe_code, reason = "a function of the embedder is called")]
#![allow(non_camel_case_types, reason = "types of C")]

use std::ffi::{CString, c_char, c_void};

use proxy_os::log::{self, Level};

use crate::call::{self, Failure};
use crate::callback::Callback;
use crate::status::NRT_STATUS;

/// How important a message is; a level lets itself and the more important ones pass.
pub type enc_proxy_log_level_t = u32;
/// Something failed.
pub const ENC_PROXY_LOG_ERROR: enc_proxy_log_level_t = 0;
/// Something works, but not as asked.
pub const ENC_PROXY_LOG_WARN: enc_proxy_log_level_t = 1;
/// What was decided.
pub const ENC_PROXY_LOG_INFO: enc_proxy_log_level_t = 2;
/// What a worker does, task by task: a message per barrier task, on the worker's time.
pub const ENC_PROXY_LOG_DEBUG: enc_proxy_log_level_t = 3;

/// Receives one message, terminated, without a line end, from any thread. On a worker's thread, which writes one when a call of the collective
/// library or a barrier fails, the other tasks of its group wait for the return. On the
/// watchdog's thread (`proxy-watchdog`), deadlines and stalls of all groups that come due meanwhile are late by as long as it takes. The text is good during the call. May call functions of this
/// header that do not wait; what they log comes to it, too, four calls deep. `user` is what `enc_proxy_set_log` was given.
pub type enc_proxy_log_sink = Option<
    unsafe extern "C-unwind" fn(
        user: *mut c_void,
        level: enc_proxy_log_level_t,
        text: *const c_char,
    ),
>;

/// The embedder's function and its argument.
#[derive(Debug, Clone, Copy)]
struct Sink {
    write: unsafe extern "C-unwind" fn(*mut c_void, enc_proxy_log_level_t, *const c_char),
    user: *mut c_void,
}

// SAFETY: `enc_proxy_set_log`'s caller promises that the function may be called with the argument from any thread.
unsafe impl Send for Sink {}

static SINK: Callback<Sink> = Callback::new();

fn forward(level: Level, text: &str) {
    let Some((_running, sink)) = SINK.begin() else {
        // Taken back since the facade has looked.
        return log::to_stderr(level, text);
    };
    let Ok(text) = CString::new(text.replace('\0', " ")) else {
        return;
    };
    let level = match level {
        Level::Error => ENC_PROXY_LOG_ERROR,
        Level::Warn => ENC_PROXY_LOG_WARN,
        Level::Info => ENC_PROXY_LOG_INFO,
        Level::Debug => ENC_PROXY_LOG_DEBUG,
    };
    // SAFETY: `enc_proxy_set_log`'s caller promises that the function may be called with its argument until it is replaced, which waits for
    // this call; the text is terminated. A panic of this runtime in it ends in the facade; any other exception aborts there.
    unsafe { (sink.write)(sink.user, level, text.as_ptr()) };
}

/// Says where messages go, and how important they must be.
///
/// - `sink`: called once per message; NULL = standard error, as at first.
/// - `user`: handed to `sink` as it is.
/// - `level`: `ENC_PROXY_LOG_ERROR`, `ENC_PROXY_LOG_WARN` (as at first), `ENC_PROXY_LOG_INFO` or `ENC_PROXY_LOG_DEBUG`. It beats
///   `NEURON_RT_LOG_LEVEL` of the environment; one that `enc_proxy_settings_set` gives is set where the settings are used, so the later one holds.
///
/// When it returns, no call of the former sink is running, and none will begin: its `user` may be freed. It waits for calls that run, so hold no
/// lock that the sink takes. Inside a sink or an error handler, and on a worker's thread, it waits for nothing; other threads may then still be
/// inside the former one.
///
/// Errors: `NRT_INVALID`. Threads: any, at any time.
///
/// # Safety
/// Until it has been replaced as above: `sink` may be called with `user` from any thread, from several at once, too.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn enc_proxy_set_log(
    sink: enc_proxy_log_sink,
    user: *mut c_void,
    level: enc_proxy_log_level_t,
) -> NRT_STATUS {
    call::plain("enc_proxy_set_log", || {
        let level = match level {
            ENC_PROXY_LOG_ERROR => Level::Error,
            ENC_PROXY_LOG_WARN => Level::Warn,
            ENC_PROXY_LOG_INFO => Level::Info,
            ENC_PROXY_LOG_DEBUG => Level::Debug,
            _ => {
                return Err(Failure::invalid(format_args!(
                    "level is {level}, accepted: 0 to 3"
                )));
            }
        };
        let sink = sink.map(|write| Sink { write, user });
        SINK.replace(sink, || {
            log::set_sink(match sink {
                Some(_) => forward,
                None => log::to_stderr,
            });
            log::set_level(level);
        });
        Ok(())
    })
}
