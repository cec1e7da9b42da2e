//! Whether this process is a forked child of the one that uses the driver.
//!
//! Only the thread that forks lives on in the child: no worker, no watcher, and locks that others held are held for ever. So
//! every call of the shell asks here first, and that must cost an append nothing that can be measured: it is two loads. The
//! answer is one word on a page of its own that the kernel gives to a child zeroed (`MADV_WIPEONFORK`, Linux 4.14). Unlike a
//! `pthread_atfork` handler, the page also sees a raw `fork` or `clone` system call and `_Fork`, and it is not fooled by
//! `vfork` and `posix_spawn`, whose children share the parent's memory until they run another program. A kernel without the
//! advice gets the handler.
#![allow(unsafe_code, reason = "mmap, madvise and pthread_atfork are C calls")]

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// Null until the process first uses the driver.
static PAGE: AtomicPtr<AtomicU32> = AtomicPtr::new(ptr::null_mut());
/// In place of the page where the kernel has no such advice.
static WORD: AtomicU32 = AtomicU32::new(HOME);

/// What stands in the word in the process that uses the driver.
const HOME: u32 = 1;

/// Whether the caller is a child that was forked after [`settle`] was called. Two loads; any thread, also a signal handler.
pub fn is_child() -> bool {
    // Acquire pairs with the release in `settle`.
    let page = PAGE.load(Ordering::Acquire);
    // SAFETY: null, or a word that is never unmapped or freed.
    let word = unsafe { page.as_ref() };
    // Relaxed: the word only changes by the fork itself.
    word.is_some_and(|word| word.load(Ordering::Relaxed) != HOME)
}

/// Makes this process the one that uses the driver. Cheap when repeated; in a child of such a process it changes nothing.
pub fn settle() {
    // Relaxed: decides nothing; the exchange below does.
    if !PAGE.load(Ordering::Relaxed).is_null() {
        return;
    }
    let page = wiped_page().unwrap_or_else(handled_word);
    // Release pairs with the acquire in `is_child`. Relaxed on failure: another thread's page serves as well.
    let kept = PAGE.compare_exchange(ptr::null_mut(), page, Ordering::Release, Ordering::Relaxed);
    if kept.is_err() && !ptr::eq(page, &raw const WORD) {
        // SAFETY: mapped by us just now, and nobody else knows it.
        unsafe { libc::munmap(page.cast(), size_of::<AtomicU32>()) };
    }
}

/// A page that a child finds zeroed, with [`HOME`] in its first word. `None` = not to be had.
fn wiped_page() -> Option<*mut AtomicU32> {
    let bytes = size_of::<AtomicU32>();
    // SAFETY: a new private mapping at an address of the kernel's choice; it touches no memory of ours.
    let page = unsafe {
        libc::mmap(
            ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if page == libc::MAP_FAILED {
        return None;
    }
    // SAFETY: advice about the page that was just mapped.
    if unsafe { libc::madvise(page, bytes, libc::MADV_WIPEONFORK) } != 0 {
        // SAFETY: mapped by us just now, and nobody else knows it.
        unsafe { libc::munmap(page, bytes) };
        return None;
    }
    let word: *mut AtomicU32 = page.cast();
    // SAFETY: mapped, aligned and zeroed, which is a valid atomic.
    let home = unsafe { &*word };
    // Relaxed: published by the caller's release.
    home.store(HOME, Ordering::Relaxed);
    Some(word)
}

/// The static word, which a handler changes in a child.
fn handled_word() -> *mut AtomicU32 {
    extern "C" fn in_child() {
        // Relaxed: the child has no other thread.
        WORD.store(0, Ordering::Relaxed);
    }
    // SAFETY: the handler is a plain function of this program that makes no call. Without memory for it forks stay unnoticed.
    unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    (&raw const WORD).cast_mut()
}
