//! The door of the fuzz target for rendezvous records: bytes that a stranger on the bus's socket may send.
//!
//! There only for the fuzzer and for tests; it reaches what is private to the bus.

use super::hello::{Hello, Reply};

/// Words that records of this version begin with, in bytes.
const HEAD: usize = 16;

/// Decodes a record as the hub does and as a rank does; what either understood must come back from its own encoding.
/// Returns whether any did. An input whose first byte is 0 goes on behind the words that all records of this version
/// begin with, so that a corpus outlives a change of them; any other is the record itself.
///
/// # Panics
///
/// If it does not come back: the two sides would then disagree on a record.
pub fn rendezvous(input: &[u8]) -> bool {
    let mut record = match input {
        [0, ..] => Reply::Ready.encode(),
        _ => Vec::new(),
    };
    record.truncate(HEAD);
    record.extend(input.get(1..).unwrap_or(&[]));
    let record = record.as_slice();
    let hello = Hello::decode(record);
    if let Ok(hello) = &hello {
        assert_eq!(Hello::decode(&hello.encode()).as_ref(), Ok(hello));
    }
    let reply = Reply::decode(record);
    if let Ok(reply) = &reply {
        assert_eq!(Reply::decode(&reply.encode()).as_ref(), Ok(reply));
    }
    hello.is_ok() || reply.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The committed corpus, and every change of one byte of it.
    #[test]
    fn h66_rendezvous_records_of_the_corpus_and_their_neighbours_do_no_harm() {
        let corpus = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../tests/fuzz/corpus/rendezvous"
        );
        let (mut files, mut understood) = (0, 0);
        for entry in std::fs::read_dir(corpus).expect("the corpus is committed") {
            let record = std::fs::read(entry.expect("an entry").path()).expect("a file");
            files += 1;
            understood += u32::from(rendezvous(&record));
            for at in 0..record.len() {
                for byte in [0, 1, 0x7F, 0x80, 0xFF] {
                    let mut other = record.clone();
                    other[at] = byte;
                    rendezvous(&other);
                }
                rendezvous(&record[..at]);
            }
        }
        println!("{files} records, {understood} understood");
        assert!(understood >= 5, "one record of each kind is in the corpus");
    }
}
