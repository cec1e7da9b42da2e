//! The barrier for 2 to 1024 ranks, each with a core of its own, simulated from line-transfer costs: flat (one leader gathers, one
//! verdict is read by all), tree (gathered and released over a tree), dissemination (log2 rounds, each rank signals one other).
//!
//! The model: reading a line that another core has written takes one transfer, dearer across NUMA nodes; a core fetches the lines of
//! several peers one behind the other, but with up to [`OVERLAP`] of them on their way; copies of one line are handed out one behind
//! the other by its holder. Half of the one-way cost that the floor measures is the writer's, half the reader's.

use std::process::Command;

/// Lines that a core has on their way at once when it scans others' words.
const OVERLAP: f64 = 4.0;
/// A holder hands out one copy of a line in this share of a transfer.
const HAND_OUT: f64 = 0.35;
/// Cores of a NUMA node, as of a host with 192 of them in two.
const NODE: usize = 96;
/// A transfer between nodes costs so many times one within, usual for two-socket machines.
const FAR: f64 = 2.5;
/// Children of a node of the tree.
const FAN: usize = 8;

/// Prints the table.
pub(crate) fn print() {
    let near = one_way();
    println!(
        "one-way line transfer measured here: {near:.0} ns; across nodes taken as {FAR} times that; {NODE} cores a node"
    );
    println!(
        "{:>6}  {:>10}  {:>10}  {:>14}",
        "ranks", "flat(us)", "tree(us)", "dissemin.(us)"
    );
    for power in 1..=10 {
        let ranks = 1_usize << power;
        let times = [
            flat(ranks, near),
            tree(ranks, near),
            dissemination(ranks, near),
        ];
        let [flat, tree, dissemination] = times.map(|time| time / 1000.0);
        println!("{ranks:>6}  {flat:>10.2}  {tree:>10.2}  {dissemination:>14.2}");
    }
}

/// Half of the round trip that the floor measures, in a process of its own.
fn one_way() -> f64 {
    let program = std::env::current_exe().expect("the path of this program");
    let output = Command::new(program)
        .args(["group", "floor"])
        .output()
        .expect("this program runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("figure floor.rtt "))
        .expect("a round trip");
    let trip: f64 = line
        .split(' ')
        .next()
        .and_then(|word| word.parse().ok())
        .expect("a number");
    trip / 2.0
}

/// Cost of a transfer between two ranks.
fn transfer(from: usize, to: usize, near: f64) -> f64 {
    if from / NODE == to / NODE {
        near
    } else {
        near * FAR
    }
}

/// Time until one rank has seen the words of those in `of`.
fn gather(of: impl Iterator<Item = usize>, by: usize, near: f64) -> f64 {
    let costs: Vec<f64> = of.map(|rank| transfer(rank, by, near)).collect();
    let longest = costs.iter().copied().fold(0.0, f64::max);
    (costs.iter().sum::<f64>() / OVERLAP).max(longest)
}

/// Time until the last of `to` has a line that `by` has written.
fn release(to: impl Iterator<Item = usize>, by: usize, near: f64) -> f64 {
    let (mut queued, mut last) = (0.0, 0.0_f64);
    for rank in to {
        let cost = transfer(by, rank, near);
        last = last.max(queued + cost);
        queued += cost * HAND_OUT;
    }
    last
}

fn flat(ranks: usize, near: f64) -> f64 {
    gather(1..ranks, 0, near) + release(1..ranks, 0, near)
}

/// Ranks gather in groups of [`FAN`], the first of each group in groups of such, and back.
fn tree(ranks: usize, near: f64) -> f64 {
    let (mut time, mut step) = (0.0, 1);
    while step < ranks {
        let width = step * FAN;
        let slowest = (0..ranks).step_by(width).map(|leader| {
            let group = || (leader..ranks.min(leader + width)).step_by(step).skip(1);
            gather(group(), leader, near) + release(group(), leader, near)
        });
        time += slowest.fold(0.0, f64::max);
        step = width;
    }
    time
}

fn dissemination(ranks: usize, near: f64) -> f64 {
    let (mut time, mut distance) = (0.0, 1);
    while distance < ranks {
        let costs = (0..ranks).map(|rank| transfer(rank, (rank + distance) % ranks, near));
        time += costs.fold(0.0, f64::max);
        distance *= 2;
    }
    time
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_ranks_cost_one_transfer_each_way_however_they_meet() {
        assert_eq!(
            [flat(2, 50.0), tree(2, 50.0), dissemination(2, 50.0)],
            [100.0, 100.0, 50.0]
        );
    }

    #[test]
    fn a_flat_barrier_grows_with_the_ranks_and_a_dissemination_with_their_logarithm() {
        let node = NODE.min(64);
        assert!(flat(node, 50.0) > 4.0 * flat(node / 8, 50.0));
        let steps = f64::from(node.ilog2());
        assert_eq!(dissemination(node, 50.0), 50.0 * steps);
    }
}
