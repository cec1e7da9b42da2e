//! Whether the machine has the memory that a job needs, asked before anything is started.

use std::ops::Range;

use crate::job::Job;

/// Refuses a job whose largest size does not fit: every rank holds its input and its output, and with a check the wanted
/// result, too. `nodes` are those whose ranks run here.
pub(super) fn check(job: &Job, nodes: &Range<u32>) -> Result<(), String> {
    let ranks = job.layout.ranks_of(nodes).len() as u64;
    match available() {
        Some(available) => fits(job, ranks, available),
        // A machine that does not tell is tried.
        None => Ok(()),
    }
}

fn fits(job: &Job, ranks: u64, available: u64) -> Result<(), String> {
    let largest = job.sizes.max();
    let buffers = if job.check.is_some() { 3 } else { 2 };
    let needed = largest.saturating_mul(ranks).saturating_mul(buffers);
    if needed <= available {
        return Ok(());
    }
    let mb = |bytes: u64| bytes >> 20;
    Err(format!(
        "{ranks} ranks of {largest} bytes need {} MB of memory, {} MB are available: fewer ranks (-r) or a smaller size (-e)",
        mb(needed),
        mb(available)
    ))
}

/// `MemAvailable` in bytes.
fn available() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kilobytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    kilobytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::parse_from;

    #[test]
    fn what_does_not_fit_is_refused_with_both_figures() {
        let (job, _) =
            parse_from("allr -r 4 -b 1mb -e 8mb -f 2 -c random").expect("a good command line");
        assert_eq!(fits(&job, 4, 96 << 20), Ok(()));
        let refused = fits(&job, 4, (96 << 20) - 1).expect_err("one byte is missing");
        assert!(
            refused
                .starts_with("4 ranks of 8388608 bytes need 96 MB of memory, 95 MB are available"),
            "{refused}"
        );
        assert!(available().is_some_and(|bytes| bytes > 1 << 20));
    }
}
