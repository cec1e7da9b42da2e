//! Copies between our memory and words that others may write or read meanwhile.
//!
//! Such a copy must not be one of the language's, which may assume that nobody else writes. Word by word with atomics it may be, and
//! is for short ones and on other processors; long ones are copied by machine code, 64 bytes a step, of which the language assumes nothing.
#![allow(unsafe_code, reason = "machine code that copies")]

use proxy_core::phone::Word;
use proxy_core::phone::ring;

/// Bytes from which machine code copies, which goes 64 a step.
const LONG: usize = 64;

/// Copies `bytes` to the beginning of these words, the first piece first. What does not fit is left out.
pub(crate) fn put([first, second]: [&[Word]; 2], bytes: &[u8]) {
    if bytes.len() < LONG {
        return ring::put([first, second], bytes);
    }
    let (one, two) = bytes.split_at(bytes.len().min(size_of_val(first)));
    put_piece(first, one);
    put_piece(second, two);
}

/// Fills `bytes` from the beginning of these words, the first piece first, as far as they go.
pub(crate) fn get([first, second]: [&[Word]; 2], bytes: &mut [u8]) {
    if bytes.len() < LONG {
        return ring::get([first, second], bytes);
    }
    let (one, two) = bytes.split_at_mut(bytes.len().min(size_of_val(first)));
    get_piece(first, one);
    get_piece(second, two);
}

fn put_piece(words: &[Word], bytes: &[u8]) {
    let bytes = &bytes[..bytes.len().min(size_of_val(words))];
    #[cfg(target_arch = "x86_64")]
    // SAFETY: both are valid for so many bytes, and the words, which are atomics, for writes from any thread. They do not overlap: nothing
    // but atomics is ever referenced where they lie.
    unsafe {
        copy(
            words.as_ptr().cast_mut().cast(),
            bytes.as_ptr(),
            bytes.len(),
        );
    }
    #[cfg(not(target_arch = "x86_64"))]
    ring::put([words, &[]], bytes);
}

fn get_piece(words: &[Word], bytes: &mut [u8]) {
    let fit = bytes.len().min(size_of_val(words));
    let bytes = &mut bytes[..fit];
    #[cfg(target_arch = "x86_64")]
    // SAFETY: as in `put_piece`; `bytes` are ours alone.
    unsafe {
        copy(bytes.as_mut_ptr(), words.as_ptr().cast(), bytes.len());
    }
    #[cfg(not(target_arch = "x86_64"))]
    ring::get([words, &[]], bytes);
}

/// Copies so many bytes.
///
/// # Safety
/// `from` is valid for reads of so many bytes and `to` for writes, and they do not overlap. Others may write there meanwhile: then what
/// arrives is arbitrary, nothing else.
#[cfg(target_arch = "x86_64")]
unsafe fn copy(to: *mut u8, from: *const u8, bytes: usize) {
    // SAFETY: it reads and writes what the caller promised: 64 bytes `bytes / 64` times, then one byte `bytes % 64` times. Of the
    // registers it leaves others as declared, and it does not touch the stack. SSE2 is part of x86-64.
    unsafe {
        core::arch::asm!(
            "test {steps}, {steps}",
            "jz 3f",
            "2:",
            "movups {a}, [rsi]",
            "movups {b}, [rsi + 16]",
            "movups {c}, [rsi + 32]",
            "movups {d}, [rsi + 48]",
            "movups [rdi], {a}",
            "movups [rdi + 16], {b}",
            "movups [rdi + 32], {c}",
            "movups [rdi + 48], {d}",
            "add rsi, 64",
            "add rdi, 64",
            "dec {steps}",
            "jnz 2b",
            "3:",
            "rep movsb",
            steps = inout(reg) bytes / 64 => _,
            a = out(xmm_reg) _,
            b = out(xmm_reg) _,
            c = out(xmm_reg) _,
            d = out(xmm_reg) _,
            inout("rdi") to => _,
            inout("rsi") from => _,
            inout("rcx") bytes % 64 => _,
            options(nostack),
        );
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;

    #[test]
    fn every_length_is_copied_through_every_split_and_not_a_byte_more() {
        let words: Vec<Word> = (0..80).map(|_| Word::new(u32::MAX)).collect();
        let message: Vec<u8> = (0..=255).chain(0..64).map(|byte| byte | 1).collect();
        for split in [0, 1, 3, 16, 40, 80] {
            let (first, second) = words.split_at(split);
            for length in 0..=words.len() * 4 {
                // Relaxed: one thread.
                words
                    .iter()
                    .for_each(|word| word.store(0, Ordering::Relaxed));
                put([first, second], &message[..length]);
                let mut copied = vec![0xEE; words.len() * 4];
                get([first, second], &mut copied);
                assert_eq!(copied[..length], message[..length], "{split}, {length}");
                assert!(
                    copied[length..].iter().all(|byte| *byte == 0),
                    "{split}, {length}"
                );
                let mut some = [0xEE; 320];
                get([first, second], &mut some[..length]);
                assert_eq!(some[..length], message[..length], "{split}, {length}");
                assert!(
                    some[length..].iter().all(|byte| *byte == 0xEE),
                    "{split}, {length}"
                );
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_left_out() {
        let words: Vec<Word> = (0..40).map(|_| Word::new(0)).collect();
        let (first, second) = words[..30].split_at(20);
        put([first, second], &[7; 160]);
        let values: Vec<u32> = words
            .iter()
            .map(|word| word.load(Ordering::Relaxed))
            .collect(); // one thread
        assert_eq!(values[..30], [0x0707_0707; 30]);
        assert_eq!(values[30..], [0; 10]);
        let mut bytes = [9; 160];
        get([first, second], &mut bytes);
        assert_eq!(
            (bytes[..120] == [7; 120], bytes[120..] == [9; 40]),
            (true, true)
        );
    }
}
