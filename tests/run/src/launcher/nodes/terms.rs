//! What all launchers of a job must have been told alike.

use serde::{Deserialize, Serialize};

use crate::job::Job;

/// Options and their values, in a fixed order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Terms(Vec<(String, String)>);

impl Terms {
    /// Those of a job. A seed that the time has chosen is none: the head's is taken.
    pub(super) fn of(job: &Job, seed_given: bool) -> Self {
        let layout = &job.layout;
        let option = |value: Option<String>| value.unwrap_or_else(|| "not given".to_owned());
        let terms = [
            ("the op", job.op.to_string()),
            ("-r/--nworkers", layout.ranks.to_string()),
            ("--nodes", layout.nodes.to_string()),
            ("-d/--datatype", job.dtype.to_string()),
            ("-b/-e/-i/-f", job.sizes.to_string()),
            ("-n/--iters", job.iters.to_string()),
            ("-w/--warmup-iters", job.warmup.to_string()),
            (
                "-c/--check",
                option(job.check.map(|check| format!("{check:?}"))),
            ),
            ("--streams", job.streams.to_string()),
            ("--blocks", job.blocks.to_string()),
            ("--ranks-per-process", layout.per_process.to_string()),
            (
                "--ranks-per-proxy",
                option(layout.per_proxy.map(|share| share.to_string())),
            ),
            ("--polarity", format!("{:?}", job.polarity)),
            (
                "--early-completion",
                option(job.early_completion.map(|early| early.to_string())),
            ),
            (
                "the execution barrier (--no-barrier)",
                job.barrier.to_string(),
            ),
            ("--timeout", job.timeout.to_string()),
            (
                "--fault",
                option(job.fault.map(|fault| format!("{fault:?}"))),
            ),
            (SEED, option(seed_given.then(|| job.seed.to_string()))),
        ];
        Self(terms.map(|(name, value)| (name.to_owned(), value)).into())
    }

    /// The first difference, in words; `self` is node 0's, `other` that of node `node`.
    pub(super) fn difference(&self, other: &Self, node: u32) -> Option<String> {
        let pairs = self.0.iter().zip(&other.0);
        let found = pairs
            .filter(|(ours, theirs)| ours != theirs)
            // Whoever gives no seed takes node 0's.
            .find(|((name, _), (_, theirs))| name != SEED || theirs != "not given");
        found.map(|((name, ours), (_, theirs))| {
            format!(
                "{name} is {theirs} on node {node} and {ours} on node 0; accepted: the same on all nodes"
            )
        })
    }
}

const SEED: &str = "--seed";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::parse_from;

    fn terms(args: &str) -> Terms {
        let (job, output) = parse_from(args).unwrap();
        Terms::of(&job, output.seed_given)
    }

    #[test]
    fn what_differs_is_named_with_both_values() {
        let ours = terms("allr -r 4 --nodes 2 -d fp32");
        assert_eq!(ours.difference(&ours, 1), None);
        for (args, text) in [
            (
                "allg -r 4 --nodes 2 -d fp32",
                "the op is allg on node 1 and allr on node 0",
            ),
            (
                "allr -r 8 --nodes 2 -d fp32",
                "-r/--nworkers is 8 on node 1 and 4 on node 0",
            ),
            (
                "allr -r 4 --nodes 2",
                "-d/--datatype is uint8 on node 1 and fp32 on node 0",
            ),
            (
                "allr -r 4 --nodes 2 -d fp32 -n 3",
                "-n/--iters is 3 on node 1 and 20 on node 0",
            ),
            (
                "allr -r 4 --nodes 2 -d fp32 --seed 3",
                "--seed is 3 on node 1 and not given on node 0",
            ),
        ] {
            let found = ours.difference(&terms(args), 1).expect(args);
            assert!(found.starts_with(text), "{found}");
        }
    }

    #[test]
    fn the_heads_seed_is_taken_by_who_has_none() {
        let ours = terms("allr -r 2 --nodes 2 --seed 3");
        assert_eq!(ours.difference(&terms("allr -r 2 --nodes 2"), 1), None);
        let other = terms("allr -r 2 --nodes 2 --seed 4");
        assert!(ours.difference(&other, 1).is_some());
    }
}
