//! Threads whose CPUs are set at creation and who name themselves first.
//!
//! `std::thread` can do neither: its placement is inherited from the creator, which would have to change its own mask and
//! change it back, and lose both on the way when creation fails. Here the mask is an attribute of the new thread, and the
//! caller's mask is never touched.
#![allow(unsafe_code, reason = "pthread calls are C calls")]

use std::any::Any;
use std::ffi::c_void;
use std::io;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use super::check_errno;
use super::cpuset::CpuSet;
use super::fault::{self, Call};
use super::fork;

pub use super::thread_name::ThreadName;

/// Bytes of a thread's stack at least, as threads of the standard library have. The C library gives a thread as much as the limit of the main
/// thread's stack (`ulimit -s`), which may be set for programs that have no other.
const LEAST_STACK: usize = 2 << 20;

/// How a thread's body ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// It returned.
    Returned,
    /// It panicked; the panic hook has printed the message.
    Panicked,
}

/// Waits for threads that were begun in this process. Relaxed: a number by itself.
static JOINS: AtomicU64 = AtomicU64::new(0);

/// Joins that were attempted in this process, for tests of what a forked child does.
#[doc(hidden)]
pub fn joins() -> u64 {
    // Relaxed: see `JOINS`.
    JOINS.load(Ordering::Relaxed)
}

/// A running or ended thread. Dropped unjoined, it is detached.
#[derive(Debug)]
pub struct Thread {
    /// `None` once joined.
    id: Option<libc::pthread_t>,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    tid: OnceLock<u32>,
    panicked: AtomicBool,
    /// The body has ended; what is left are destructors of thread-locals.
    ended: Mutex<bool>,
    ending: Condvar,
}

/// What a new thread takes over from its creator.
struct Start<N> {
    shared: Arc<Shared>,
    name: N,
    body: Box<dyn FnOnce() + Send>,
}

/// Creates a thread.
///
/// `name` is called on the new thread with its kernel thread id, before `body`. `mask` = the CPUs it runs on from its first
/// instruction; `None` = the creator's, and then no affinity call is made at all. Its stack is as large as the process's limit of stacks
/// says, and two MiB at least.
///
/// # Errors
/// `EAGAIN` when the system has no room for a thread; `EINVAL` when no CPU of `mask` is allowed; the kernel's other errors.
/// On an error no thread exists and `body` was dropped.
pub fn spawn<N>(
    name: N,
    mask: Option<&CpuSet>,
    body: Box<dyn FnOnce() + Send>,
) -> io::Result<Thread>
where
    N: FnOnce(u32) -> ThreadName + Send + 'static,
{
    let mut attributes = Attributes::new()?;
    attributes.raise_stack(LEAST_STACK)?;
    if let Some(mask) = mask {
        attributes.set_affinity(mask)?;
    }
    fault::point(Call::ThreadCreate)?;
    let shared = Arc::new(Shared::default());
    let start = Box::new(Start {
        shared: Arc::clone(&shared),
        name,
        body,
    });
    let start = Box::into_raw(start);
    let mut id = MaybeUninit::uninit();
    // SAFETY: the attributes are initialised, `main::<N>` takes back the box whose pointer it is given, exactly once.
    let answer = unsafe {
        libc::pthread_create(
            id.as_mut_ptr(),
            attributes.as_ptr(),
            main::<N>,
            start.cast(),
        )
    };
    if let Err(error) = check_errno(answer) {
        // SAFETY: no thread was created, so the box is still ours.
        drop(unsafe { Box::from_raw(start) });
        return Err(error);
    }
    // SAFETY: a successful create has written the id.
    let id = unsafe { id.assume_init() };
    Ok(Thread {
        id: Some(id),
        shared,
    })
}

/// First function of every thread made here. Nothing unwinds out of it.
extern "C" fn main<N: FnOnce(u32) -> ThreadName>(start: *mut c_void) -> *mut c_void {
    // SAFETY: `spawn` passes a `Box<Start<N>>` and gives it up.
    let start = unsafe { Box::from_raw(start.cast::<Start<N>>()) };
    let Start { shared, name, body } = *start;
    let ended = catch_unwind(AssertUnwindSafe(|| {
        let tid = gettid();
        let name = name(tid);
        set_own_name(&name);
        // The only writer of the cell is this thread, so it cannot be full.
        let _ = shared.tid.set(tid);
        body();
    }));
    if let Err(payload) = ended {
        // A name that panicked has left the cell empty, and `Thread::tid` waits for it.
        let _ = shared.tid.set(gettid());
        // Relaxed: the reader has joined this thread, which orders everything.
        shared.panicked.store(true, Ordering::Relaxed);
        // A payload may panic once more as it is dropped; what that one carries is given up.
        if let Err(again) = catch_unwind(AssertUnwindSafe(move || drop(payload))) {
            forget(again);
        }
    }
    *shared.ended.lock().unwrap_or_else(PoisonError::into_inner) = true;
    shared.ending.notify_all();
    std::ptr::null_mut()
}

/// Gives a panic's payload up. A text, as nearly all are, is dropped; of anything else the drop could panic again, outside of any catch, so
/// it is leaked.
pub(crate) fn forget(payload: Box<dyn Any + Send>) {
    if payload.is::<&str>() || payload.is::<String>() {
        drop(payload);
    } else {
        std::mem::forget(payload);
    }
}

fn set_own_name(name: &ThreadName) {
    // SAFETY: no arguments.
    let own = unsafe { libc::pthread_self() };
    // SAFETY: the name is null-terminated and at most 16 bytes, which is the only thing the call can refuse.
    unsafe { libc::pthread_setname_np(own, name.as_c_str().as_ptr()) };
}

impl Thread {
    /// The kernel's id of the thread. Waits until the thread has named itself, which it does first.
    pub fn tid(&self) -> u32 {
        *self.shared.tid.wait()
    }

    /// Waits until the thread has ended. At once after a [`Self::join_timeout`] that said so.
    ///
    /// # Errors
    /// `EDEADLK` when called by the thread itself, which is detached then.
    pub fn join(mut self) -> io::Result<Exit> {
        // Relaxed: see `JOINS`.
        JOINS.fetch_add(1, Ordering::Relaxed);
        if let Some(id) = self.id {
            // SAFETY: the thread is neither joined nor detached: `id` is cleared when it is.
            check_errno(unsafe { libc::pthread_join(id, std::ptr::null_mut()) })?;
            self.id = None;
        }
        Ok(self.exit())
    }

    /// Waits until the thread has ended, `timeout` at most. True = it has ended and is joined.
    ///
    /// Ended means that nothing of it runs any more, destructors of its thread-locals included. Those come after the body and
    /// take microseconds, unless a library's takes longer: then it is looked at every millisecond.
    pub fn join_timeout(&mut self, timeout: Duration) -> bool {
        let Some(id) = self.id else { return true };
        // Relaxed: see `JOINS`.
        JOINS.fetch_add(1, Ordering::Relaxed);
        let since = Instant::now();
        let ended = self.shared.ended.lock();
        let ended = ended.unwrap_or_else(PoisonError::into_inner);
        let waited = (self.shared.ending).wait_timeout_while(ended, timeout, |ended| !*ended);
        if !*waited.unwrap_or_else(PoisonError::into_inner).0 {
            return false;
        }
        for look in 0_u32.. {
            // SAFETY: the thread is neither joined nor detached: `id` is cleared when it is.
            if unsafe { libc::pthread_tryjoin_np(id, std::ptr::null_mut()) } == 0 {
                self.id = None;
                return true;
            }
            let left = timeout.saturating_sub(since.elapsed());
            match look {
                0..100 => sched_yield(),
                _ if left.is_zero() => break,
                _ => std::thread::sleep(left.min(Duration::from_millis(1))),
            }
        }
        false
    }

    fn exit(&self) -> Exit {
        // Relaxed: the thread is joined, which orders its store before this load.
        if self.shared.panicked.load(Ordering::Relaxed) {
            Exit::Panicked
        } else {
            Exit::Returned
        }
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        // In a forked child there is no such thread to detach.
        if let Some(id) = self.id
            && !fork::is_child()
        {
            // SAFETY: the thread is neither joined nor detached, and `self` is the only one to do either.
            unsafe { libc::pthread_detach(id) };
        }
    }
}

/// A pthread attribute object, destroyed on drop.
struct Attributes(Box<libc::pthread_attr_t>);

impl Attributes {
    fn new() -> io::Result<Self> {
        let mut attributes = Box::<libc::pthread_attr_t>::new_uninit();
        // SAFETY: the memory is valid for one attribute object.
        check_errno(unsafe { libc::pthread_attr_init(attributes.as_mut_ptr()) })?;
        // SAFETY: a successful init has written it.
        Ok(Self(unsafe { attributes.assume_init() }))
    }

    /// Sets the size of the stack, if it is below `least`.
    fn raise_stack(&mut self, least: usize) -> io::Result<()> {
        let mut bytes = 0;
        // SAFETY: the attributes are initialised, and the number is valid to be written.
        check_errno(unsafe { libc::pthread_attr_getstacksize(self.as_ptr(), &raw mut bytes) })?;
        if bytes >= least {
            return Ok(());
        }
        // SAFETY: the attributes are initialised.
        check_errno(unsafe { libc::pthread_attr_setstacksize(&raw mut *self.0, least) })
    }

    fn set_affinity(&mut self, mask: &CpuSet) -> io::Result<()> {
        fault::point(Call::SetAffinity)?;
        // The C library takes an empty mask for "no mask".
        if mask.is_empty() {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let words = mask.words();
        let bytes = size_of_val(words);
        // SAFETY: the attributes are initialised; the set is valid for `bytes` bytes and is copied by the call.
        let answer = unsafe {
            libc::pthread_attr_setaffinity_np(&raw mut *self.0, bytes, words.as_ptr().cast())
        };
        check_errno(answer)
    }

    fn as_ptr(&self) -> *const libc::pthread_attr_t {
        &raw const *self.0
    }
}

impl Drop for Attributes {
    fn drop(&mut self) {
        // SAFETY: initialised in `new`, destroyed once.
        unsafe { libc::pthread_attr_destroy(&raw mut *self.0) };
    }
}

/// The kernel's id of the calling thread.
pub fn gettid() -> u32 {
    // SAFETY: no arguments, cannot fail.
    let tid = unsafe { libc::gettid() };
    // Kernel ids are positive.
    tid as u32
}

/// Gives the rest of the time slice to another runnable thread of the same CPU.
pub fn sched_yield() {
    std::thread::yield_now();
}

pub use super::pause::{pause, pause_between_looks};

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    fn plain(body: impl FnOnce() + Send + 'static) -> Thread {
        spawn(
            |tid| ThreadName::new(&format!("proxy-{tid}")),
            None,
            Box::new(body),
        )
        .unwrap()
    }

    #[test]
    fn names_itself_before_the_body_runs() {
        let (send, receive) = mpsc::channel();
        let thread = plain(move || {
            let name = std::fs::read_to_string(format!("/proc/self/task/{}/comm", gettid()));
            send.send(name.unwrap()).unwrap();
        });
        assert_eq!(
            receive.recv().unwrap().trim_end(),
            format!("proxy-{}", thread.tid())
        );
        assert_eq!(thread.join().unwrap(), Exit::Returned);
    }

    #[test]
    fn a_timed_join_gives_up_at_its_time_and_succeeds_later() {
        let (release, hold) = mpsc::channel::<()>();
        let mut thread = plain(move || hold.recv().unwrap());
        let start = Instant::now();
        assert!(!thread.join_timeout(Duration::from_millis(20)));
        assert!(start.elapsed() >= Duration::from_millis(20));
        release.send(()).unwrap();
        assert!(thread.join_timeout(Duration::MAX));
        assert!(thread.join_timeout(Duration::ZERO));
        assert_eq!(thread.join().unwrap(), Exit::Returned);
    }

    #[test]
    fn a_panic_ends_the_thread_only() {
        let thread = plain(|| std::panic::resume_unwind(Box::new("body")));
        assert_eq!(thread.join().unwrap(), Exit::Panicked);
        let name = |_| -> ThreadName { std::panic::resume_unwind(Box::new("name")) };
        let thread = spawn(name, None, Box::new(|| ())).unwrap();
        assert_ne!(thread.tid(), 0);
        assert_eq!(thread.join().unwrap(), Exit::Panicked);
    }

    #[test]
    fn a_dropped_thread_goes_on_alone() {
        let (send, receive) = mpsc::channel();
        let (release, hold) = mpsc::channel::<()>();
        drop(plain(move || {
            hold.recv().unwrap();
            send.send(gettid()).unwrap();
        }));
        release.send(()).unwrap();
        assert_ne!(receive.recv().unwrap(), 0);
    }
}
