//! The core with a queue for eight ranks with 64 tasks each, 64 contexts.
#![no_std]
#![no_main]

use proxy_core::phone::Word;
use proxy_core::{Driver, Queue};

static QUEUE: Queue<8, 64, 64> = Queue::new();
static WORD: Word = Word::new(0);

/// The first thing in the image, so that all it reaches is kept. It is never run.
// SAFETY: no other symbol has this name.
#[expect(unsafe_code, reason = "the linker looks for the entry by name")]
#[unsafe(no_mangle)]
extern "C" fn _start() -> ! {
    let mut driver = Driver::new();
    loop {
        bare_size::everything(&QUEUE, &mut driver, &WORD);
    }
}
