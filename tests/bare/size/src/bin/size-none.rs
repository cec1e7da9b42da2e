//! The same image without the core: what an empty one weighs.
#![no_std]
#![no_main]

use bare_size as _;

/// The first thing in the image. It is never run.
// SAFETY: no other symbol has this name.
#[expect(unsafe_code, reason = "the linker looks for the entry by name")]
#[unsafe(no_mangle)]
extern "C" fn _start() -> ! {
    loop {
        core::hint::spin_loop();
    }
}
