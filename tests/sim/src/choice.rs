//! Choices: the one source of everything that a world leaves open, so that a run can be repeated, enumerated and shrunk.
//!
//! A choice is a number below a bound, and 0 is always the tamest. A run first follows its script, then draws from its seed or, without
//! one, takes 0. What was taken is written down; given back as a script, it gives the same run.

use proxy_kit::oracle::XorShift;

/// One choice that was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taken {
    /// The value.
    pub value: u32,
    /// It was below this.
    pub bound: u32,
}

/// A source of choices and its record.
#[derive(Debug)]
pub struct Choices {
    script: Vec<u32>,
    random: Option<XorShift>,
    taken: Vec<Taken>,
}

impl Choices {
    /// All choices from a seed.
    // Not inlined: rustc 1.95 takes two equal constant arguments of one function for one value, also after the first was moved away
    // and changed (rust-lang/rust#155241), and would free the record twice.
    #[inline(never)]
    #[must_use]
    pub const fn random(seed: u64) -> Self {
        Self {
            script: Vec::new(),
            random: Some(XorShift::new(seed)),
            taken: Vec::new(),
        }
    }

    /// These first, then 0 for ever.
    #[must_use]
    #[inline(never)]
    pub const fn scripted(script: Vec<u32>) -> Self {
        Self {
            script,
            random: None,
            taken: Vec::new(),
        }
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: u32) -> u32 {
        let value = match (self.script.get(self.taken.len()), &mut self.random) {
            (Some(value), _) => (*value).min(bound - 1),
            (None, Some(random)) => u32::try_from(random.below(bound.into())).unwrap_or(0),
            (None, None) => 0,
        };
        self.taken.push(Taken { value, bound });
        value
    }

    /// True once in `times`; false is the tame answer.
    pub fn once_in(&mut self, times: u32) -> bool {
        times > 0 && self.below(times) + 1 == times
    }

    /// One of `options`, which is not empty; the first is the tamest.
    pub fn pick<T: Copy>(&mut self, options: &[T]) -> T {
        let count = u32::try_from(options.len()).expect("a short list");
        options[usize::try_from(self.below(count)).expect("an index")]
    }

    /// What was taken so far.
    #[must_use]
    pub fn taken(&self) -> &[Taken] {
        &self.taken
    }
}

/// The next script in lexical order that shares the first `fixed` choices of a run; `None` after the last.
#[must_use]
pub fn next_script(taken: &[Taken], fixed: usize) -> Option<Vec<u32>> {
    let last = (fixed..taken.len())
        .rev()
        .find(|at| taken[*at].value + 1 < taken[*at].bound)?;
    let mut script: Vec<u32> = taken[..=last].iter().map(|choice| choice.value).collect();
    script[last] += 1;
    Some(script)
}

/// Makes a failing script tamer and shorter while `fails` says that it still fails, with at most `tries` tries.
pub fn shrink(script: Vec<u32>, tries: u32, mut fails: impl FnMut(&[u32]) -> bool) -> Vec<u32> {
    let mut best = script;
    let mut left = tries;
    let mut chunk = best.len().max(1);
    while chunk > 0 && left > 0 {
        let mut at = best.len();
        while at > 0 && left > 0 {
            at = at.saturating_sub(chunk);
            for candidate in candidates(&best, at, chunk) {
                left = left.saturating_sub(1);
                if fails(&candidate) {
                    best = candidate;
                    break;
                }
            }
        }
        chunk /= 2;
    }
    best
}

/// The script without the chunk, and with zeros in its place, if that changes anything.
fn candidates(script: &[u32], at: usize, chunk: usize) -> Vec<Vec<u32>> {
    let end = (at + chunk).min(script.len());
    let without = [&script[..at], &script[end..]].concat();
    let mut zeros = script.to_vec();
    zeros[at..end].fill(0);
    let mut found = vec![without];
    if zeros != script {
        found.push(zeros);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_combination_is_enumerated_once() {
        let mut seen = Vec::new();
        let mut script = Some(Vec::new());
        while let Some(now) = script {
            let mut choices = Choices::scripted(now);
            let first = choices.below(3);
            let second = if first == 1 { choices.below(2) } else { 0 };
            seen.push((first, second));
            script = next_script(choices.taken(), 0);
        }
        assert_eq!(seen, [(0, 0), (1, 0), (1, 1), (2, 0)]);
    }

    #[test]
    fn a_run_is_repeated_by_what_it_took() {
        let mut first = Choices::random(7);
        let drawn: Vec<u32> = (1..50).map(|bound| first.below(bound)).collect();
        let script = first.taken().iter().map(|choice| choice.value).collect();
        let mut again = Choices::scripted(script);
        let repeated: Vec<u32> = (1..50).map(|bound| again.below(bound)).collect();
        assert_eq!(drawn, repeated);
    }

    #[test]
    fn shrinking_keeps_what_makes_it_fail() {
        let script: Vec<u32> = (0..100).map(|at| at % 7).collect();
        let fails = |script: &[u32]| script.iter().filter(|value| **value == 6).count() >= 2;
        assert_eq!(shrink(script, 10_000, fails), [6, 6]);
    }
}
