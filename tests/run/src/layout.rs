//! Where the ranks of a job run: on which node, in which process, with which worker.
//!
//! ```text
//!   node 0                                    node 1
//!   process      process                      process      process
//!   rank 0 1     rank 2 3   --ranks-per-process 2   rank 4 5     rank 6 7
//!   └worker┘     └worker┘   --ranks-per-proxy 2     └worker┘     └worker┘
//! ```
//!
//! Ranks go to nodes in equal shares, in order. The ranks of a node meet on a bus of their own, and the first of them speaks for it
//! with those of the other nodes. A worker is one thread, so the ranks that share it are in one process.

use std::fmt::Display;
use std::ops::Range;

use serde::{Deserialize, Serialize};

/// A checked layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Layout {
    /// All ranks.
    pub(crate) ranks: u32,
    /// `--nodes`, a divisor of `ranks`.
    pub(crate) nodes: u32,
    /// `--ranks-per-process`; the last process of a node may have fewer.
    pub(crate) per_process: u32,
    /// `--ranks-per-proxy`; `None` = what the settings say.
    pub(crate) per_proxy: Option<u32>,
}

impl Layout {
    /// Checks what the command line says. The error names option, value and what is accepted.
    pub(crate) fn new(
        ranks: u32,
        nodes: u32,
        per_process: u32,
        per_proxy: Option<u32>,
    ) -> Result<Self, String> {
        let layout = Self {
            ranks,
            nodes,
            per_process,
            per_proxy,
        };
        if nodes == 0 || !ranks.is_multiple_of(nodes) {
            return Err(format!(
                "--nodes is {nodes}, accepted: the divisors of the {ranks} ranks: {}",
                list((1..=ranks).filter(|nodes| ranks.is_multiple_of(*nodes)))
            ));
        }
        let most = layout.per_node();
        if !(1..=most).contains(&per_process) {
            return Err(format!(
                "--ranks-per-process is {per_process}, accepted: 1 to {most}, the ranks of a node"
            ));
        }
        per_proxy.map_or(Ok(layout), |per_proxy| layout.check_proxy(per_proxy))
    }

    /// A share of a worker ends where the process does. A process that holds all ranks of its node holds every share.
    fn check_proxy(self, per_proxy: u32) -> Result<Self, String> {
        let (most, per_process) = (self.per_node(), self.per_process);
        let fits = |share: &u32| {
            *share <= per_process && (per_process == most || per_process.is_multiple_of(*share))
        };
        let possible = (1..=most).contains(&per_proxy);
        if possible && fits(&per_proxy) {
            return Ok(self);
        }
        let way_out = if possible {
            format!("; or --ranks-per-process {per_proxy}")
        } else {
            String::new()
        };
        Err(format!(
            "--ranks-per-proxy is {per_proxy}, but ranks can share a worker only inside a process, and --ranks-per-process is \
             {per_process}; accepted: {}{way_out}",
            list((1..=per_process).filter(fits))
        ))
    }

    /// Ranks of each node.
    pub(crate) const fn per_node(self) -> u32 {
        self.ranks / if self.nodes == 0 { 1 } else { self.nodes }
    }

    /// The node of a rank.
    pub(crate) const fn node_of(self, rank: u32) -> u32 {
        let per_node = self.per_node();
        rank / if per_node == 0 { 1 } else { per_node }
    }

    /// The ranks of some nodes that follow each other.
    pub(crate) const fn ranks_of(self, nodes: &Range<u32>) -> Range<u32> {
        let per_node = self.per_node();
        nodes.start * per_node..nodes.end * per_node
    }

    /// The ranks of each process of some nodes, in order.
    pub(crate) fn processes(self, nodes: Range<u32>) -> impl Iterator<Item = Range<u32>> {
        nodes.flat_map(move |node| {
            let ranks = self.ranks_of(&(node..node + 1));
            let firsts = ranks.clone().step_by(self.per_process.max(1) as usize);
            firsts.map(move |first| first..ranks.end.min(first + self.per_process))
        })
    }

    /// The ranks of the process that begins with `first`.
    pub(crate) fn process(self, first: u32) -> Option<Range<u32>> {
        self.processes(0..self.nodes)
            .find(|ranks| ranks.start == first)
    }
}

/// Numbers in words, for messages.
pub(crate) fn list(numbers: impl Iterator<Item = u32>) -> String {
    let texts: Vec<String> = numbers.map(|number| number.to_string()).collect();
    texts.join(", ")
}

/// `1 block` or `2 blocks`.
pub(crate) fn plural(count: impl Display, what: &str) -> String {
    let count = count.to_string();
    let plural = if count == "1" { "" } else { "s" };
    format!("{count} {what}{plural}")
}

/// Ranks in words: `rank 3`, `ranks 4 to 7`.
pub(crate) fn name(ranks: &Range<u32>) -> String {
    match ranks.len() {
        1 => format!("rank {}", ranks.start),
        _ => format!("ranks {} to {}", ranks.start, ranks.end.saturating_sub(1)),
    }
}

/// Any ranks in words, `ranks` in ascending order: `rank 3`, `ranks 1 and 4`, `ranks 0 to 5, 9 and 12 to 40`.
pub(crate) fn names(ranks: impl IntoIterator<Item = u32>) -> String {
    let mut runs: Vec<Range<u32>> = Vec::new();
    for rank in ranks {
        match runs.last_mut() {
            Some(run) if run.end == rank => run.end = rank.saturating_add(1),
            _ => runs.push(rank..rank.saturating_add(1)),
        }
    }
    let [one] = runs.as_slice() else {
        let run = |run: &Range<u32>| match run.len() {
            1 => run.start.to_string(),
            _ => format!("{} to {}", run.start, run.end.saturating_sub(1)),
        };
        let mut texts: Vec<String> = runs.iter().map(run).collect();
        let last = texts.pop().unwrap_or_default();
        return format!("ranks {} and {last}", texts.join(", "));
    };
    name(one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_process_of_a_node_takes_what_is_left() {
        let processes = |ranks, nodes, per_process| {
            let layout = Layout::new(ranks, nodes, per_process, None).unwrap();
            layout.processes(0..nodes).collect::<Vec<_>>()
        };
        assert_eq!(processes(3, 1, 1), [0..1, 1..2, 2..3]);
        assert_eq!(processes(7, 1, 3), [0..3, 3..6, 6..7]);
        assert_eq!(processes(6, 2, 2), [0..2, 2..3, 3..5, 5..6]);
        assert_eq!(processes(4, 2, 2), [0..2, 2..4]);
        let layout = Layout::new(6, 2, 2, None).unwrap();
        assert_eq!((layout.process(5), layout.process(1)), (Some(5..6), None));
        assert_eq!((layout.node_of(2), layout.node_of(3)), (0, 1));
        assert_eq!(layout.ranks_of(&(1..2)), 3..6);
        let names = (name(&(6..7)), name(&(0..3)));
        assert_eq!(names, ("rank 6".to_owned(), "ranks 0 to 2".to_owned()));
    }

    #[test]
    fn many_ranks_are_named_by_their_ranges() {
        for (ranks, text) in [
            (&[3][..], "rank 3"),
            (&[1, 4], "ranks 1 and 4"),
            (&[0, 1, 2], "ranks 0 to 2"),
            (&[0, 1, 2, 5, 7, 8], "ranks 0 to 2, 5 and 7 to 8"),
        ] {
            assert_eq!(names(ranks.iter().copied()), text);
        }
    }

    #[test]
    fn a_share_of_a_worker_never_crosses_a_process() {
        for (ranks, nodes, per_process, per_proxy) in [
            (4, 1, 1, 1),
            (4, 1, 2, 2),
            (8, 1, 4, 2),
            (5, 1, 5, 2),
            (10, 2, 5, 2),
            (32, 1, 32, 32),
        ] {
            assert!(Layout::new(ranks, nodes, per_process, Some(per_proxy)).is_ok());
        }
        for (nodes, per_process, per_proxy, accepted) in [
            (1, 1, 2, "accepted: 1; or --ranks-per-process 2"),
            (1, 6, 4, "accepted: 1, 2, 3, 6; or --ranks-per-process 4"),
            (1, 4, 13, "accepted: 1, 2, 4"),
            (2, 6, 7, "accepted: 1, 2, 3, 4, 5, 6"),
            (1, 2, 0, "accepted: 1, 2"),
        ] {
            let error = Layout::new(12, nodes, per_process, Some(per_proxy)).unwrap_err();
            assert!(
                error.starts_with(&format!("--ranks-per-proxy is {per_proxy}, but"))
                    && error.ends_with(accepted),
                "{error}"
            );
        }
    }

    #[test]
    fn nodes_share_the_ranks_equally_and_processes_are_within_a_node() {
        for (nodes, per_process, text) in [
            (
                1,
                0,
                "--ranks-per-process is 0, accepted: 1 to 6, the ranks of a node",
            ),
            (
                2,
                4,
                "--ranks-per-process is 4, accepted: 1 to 3, the ranks of a node",
            ),
            (
                4,
                1,
                "--nodes is 4, accepted: the divisors of the 6 ranks: 1, 2, 3, 6",
            ),
            (
                0,
                1,
                "--nodes is 0, accepted: the divisors of the 6 ranks: 1, 2, 3, 6",
            ),
        ] {
            assert_eq!(Layout::new(6, nodes, per_process, None).unwrap_err(), text);
        }
    }
}
