//! The machine: serial line, exit, and the start of the second core. All that is unsafe here is here.
#![expect(
    unsafe_code,
    reason = "ports, the interrupt controller and the entry are reached by address"
)]

use core::arch::{asm, global_asm};
use core::fmt;
use core::hint::spin_loop;

global_asm!(include_str!("entry.s"), options(att_syntax));

unsafe extern "C" {
    static trampoline: u8;
    static trampoline_end: u8;
}

/// Where the second core begins: page 8, as the start-up message can name pages below 1 MiB only.
const TRAMPOLINE: *mut u8 = 0x8000 as *mut u8;

/// Low word of the interrupt command of this core's controller (xAPIC).
const COMMAND: *mut u32 = 0xFEE0_0300 as *mut u32;
/// To all but this core: INIT.
const INIT: u32 = 0x000C_4500;
/// To all but this core: start at page 8.
const START_UP: u32 = 0x000C_4608;

/// Data register of the first serial line.
const SERIAL: u16 = 0x3F8;
/// Its line status; bit 5: room for a byte.
const SERIAL_STATUS: u16 = 0x3FD;
/// The emulator's exit device: ends it with `value << 1 | 1`.
const EXIT: u16 = 0xF4;
/// A port without effect; a write takes about a microsecond on a real machine.
const DELAY: u16 = 0x80;

fn outb(port: u16, value: u8) {
    // SAFETY: this image owns the machine, and a write to the ports above changes no memory.
    unsafe { asm!("out dx, al", in("dx") port, in("al") value, options(nomem, nostack)) };
}

fn inb(port: u16) -> u8 {
    let value;
    // SAFETY: as for `outb`.
    unsafe { asm!("in al, dx", in("dx") port, out("al") value, options(nomem, nostack)) };
    value
}

/// The serial line, for one core at a time.
#[derive(Debug)]
pub(crate) struct Serial;

impl fmt::Write for Serial {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            while inb(SERIAL_STATUS) & 0x20 == 0 {
                spin_loop();
            }
            outb(SERIAL, byte);
        }
        Ok(())
    }
}

/// Ends the emulator: with 33 if all is well, else with 35. Neither is a code it ends with by itself.
pub(crate) fn exit(passed: bool) -> ! {
    outb(EXIT, if passed { 0x10 } else { 0x11 });
    // On a machine without that device: stop here.
    loop {
        spin_loop();
    }
}

fn command(word: u32) {
    // SAFETY: the entry mapped the controller; the address is aligned, and only the first core sends commands.
    unsafe { COMMAND.write_volatile(word) };
}

/// Starts the second core. Its `core_main` runs beside this one from then on.
pub(crate) fn start_second_core() {
    let (from, to) = (&raw const trampoline, &raw const trampoline_end);
    let length = to.addr() - from.addr();
    // SAFETY: both ends are symbols of one section; page 8 is memory that nobody else uses.
    unsafe { TRAMPOLINE.copy_from_nonoverlapping(from, length) };
    command(INIT);
    for _ in 0..10_000 {
        outb(DELAY, 0);
    }
    command(START_UP);
}

/// Where the entry calls each core, with its number.
// SAFETY: no other symbol has this name; the entry calls it with the C calling convention.
#[unsafe(no_mangle)]
extern "C" fn core_main(core: u32) -> ! {
    match core {
        0 => crate::first_core(),
        _ => crate::second_core(),
    }
}
