//! Where the ranks of a job run: on which node, in which process, with which worker.
//!
//! ```text
//!   node 0                                    node 1
//!   process      process                      process      process
//!   rank 0 1     rank 2 3   --ranks-per-process 2   rank 4 5     rank 6 7
//!   └worker┘     └worker┘   --ranks-per-proxy 2     └worker┘     └worker┘
//! ```
//!
//! Ranks go to nodes in equal shares, in order. A worker is one thread, so the ranks that share it are in one process.

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// A checked layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Layout {
    /// All ranks.
    pub(crate) ranks: u32,
    /// `--ranks-per-process`; the last process of a node may have fewer.
    pub(crate) per_process: u32,
    /// `--ranks-per-proxy`; `None` = what the settings say.
    pub(crate) per_proxy: Option<u32>,
}

impl Layout {
    /// Checks what the command line says. The error names option, value and what is accepted.
    pub(crate) fn new(
        ranks: u32,
        per_process: u32,
        per_proxy: Option<u32>,
    ) -> Result<Self, String> {
        let layout = Self {
            ranks,
            per_process,
            per_proxy,
        };
        if !(1..=ranks).contains(&per_process) {
            return Err(format!(
                "--ranks-per-process is {per_process}, accepted: 1 to {ranks}, the number of ranks"
            ));
        }
        per_proxy.map_or(Ok(layout), |per_proxy| layout.check_proxy(per_proxy))
    }

    /// A share of a worker ends where the process does. A process that holds all ranks holds every share.
    fn check_proxy(self, per_proxy: u32) -> Result<Self, String> {
        let Self {
            ranks, per_process, ..
        } = self;
        let whole = per_process == ranks;
        let fits =
            |share: &u32| *share <= per_process && (whole || per_process.is_multiple_of(*share));
        if (1..=ranks).contains(&per_proxy) && fits(&per_proxy) {
            return Ok(self);
        }
        let shares: Vec<String> = (1..=per_process)
            .filter(fits)
            .map(|share| share.to_string())
            .collect();
        let way_out = if (1..=ranks).contains(&per_proxy) {
            format!("; or --ranks-per-process {per_proxy}")
        } else {
            String::new()
        };
        Err(format!(
            "--ranks-per-proxy is {per_proxy}, but ranks can share a worker only inside a process, and --ranks-per-process is \
             {per_process}; accepted: {}{way_out}",
            shares.join(", ")
        ))
    }

    /// The ranks of each process, in order.
    pub(crate) fn processes(self) -> impl Iterator<Item = Range<u32>> {
        let firsts = (0..self.ranks).step_by(self.per_process.max(1) as usize);
        firsts.map(move |first| first..self.ranks.min(first.saturating_add(self.per_process)))
    }

    /// The ranks of the process that begins with `first`.
    pub(crate) fn process(self, first: u32) -> Option<Range<u32>> {
        self.processes().find(|ranks| ranks.start == first)
    }
}

/// Ranks in words: `rank 3`, `ranks 4 to 7`.
pub(crate) fn name(ranks: &Range<u32>) -> String {
    match ranks.len() {
        1 => format!("rank {}", ranks.start),
        _ => format!("ranks {} to {}", ranks.start, ranks.end.saturating_sub(1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_process_takes_what_is_left() {
        let processes = |ranks, per_process| {
            let layout = Layout::new(ranks, per_process, None).unwrap();
            layout.processes().collect::<Vec<_>>()
        };
        assert_eq!(processes(3, 1), [0..1, 1..2, 2..3]);
        assert_eq!(processes(7, 3), [0..3, 3..6, 6..7]);
        assert_eq!(processes(4, 3), [0..3, 3..4]);
        let layout = Layout::new(7, 3, None).unwrap();
        assert_eq!((layout.process(6), layout.process(1)), (Some(6..7), None));
        assert_eq!(
            (name(&(6..7)), name(&(0..3))),
            ("rank 6".to_owned(), "ranks 0 to 2".to_owned())
        );
    }

    #[test]
    fn a_share_of_a_worker_never_crosses_a_process() {
        for (ranks, per_process, per_proxy) in
            [(4, 1, 1), (4, 2, 2), (8, 4, 2), (5, 5, 2), (32, 32, 32)]
        {
            assert!(Layout::new(ranks, per_process, Some(per_proxy)).is_ok());
        }
        for (ranks, per_process, per_proxy, accepted) in [
            (4, 1, 2, "accepted: 1; or --ranks-per-process 2"),
            (12, 6, 4, "accepted: 1, 2, 3, 6; or --ranks-per-process 4"),
            (4, 4, 5, "accepted: 1, 2, 3, 4"),
            (4, 2, 0, "accepted: 1, 2"),
        ] {
            let error = Layout::new(ranks, per_process, Some(per_proxy)).unwrap_err();
            assert!(
                error.starts_with(&format!("--ranks-per-proxy is {per_proxy}, but"))
                    && error.ends_with(accepted),
                "{error}"
            );
        }
    }

    #[test]
    fn a_process_has_a_rank_and_not_more_than_there_are() {
        for per_process in [0, 5] {
            let error = Layout::new(4, per_process, None).unwrap_err();
            assert_eq!(
                error,
                format!(
                    "--ranks-per-process is {per_process}, accepted: 1 to 4, the number of ranks"
                )
            );
        }
    }
}
