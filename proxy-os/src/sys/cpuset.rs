//! A set of CPUs of any size, in the kernel's layout.
//!
//! The C library's `cpu_set_t` ends at 1024 CPUs; larger machines exist, so this one grows.

use std::fmt;

const BITS: u32 = u64::BITS;

/// A set of CPU numbers. Shown and parsed as a list such as `0-3,8`.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct CpuSet {
    /// Bit `c % 64` of word `c / 64` = CPU `c`. No zero word at the end, so equal sets have equal words.
    words: Vec<u64>,
}

impl CpuSet {
    /// Largest CPU number accepted: far above what Linux can be built for (8192), so that a slip of the pen in a list cannot
    /// ask for gigabytes.
    pub const MAX_CPU: u32 = 0xFFFF;

    /// The empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one CPU; false = the number is above [`Self::MAX_CPU`] and was not added.
    pub fn insert(&mut self, cpu: u32) -> bool {
        if cpu > Self::MAX_CPU {
            return false;
        }
        let word = (cpu / BITS) as usize;
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << (cpu % BITS);
        true
    }

    /// Whether the CPU is in the set.
    pub fn contains(&self, cpu: u32) -> bool {
        self.words
            .get((cpu / BITS) as usize)
            .is_some_and(|word| word >> (cpu % BITS) & 1 == 1)
    }

    /// Number of CPUs.
    pub fn len(&self) -> usize {
        self.words
            .iter()
            .map(|word| word.count_ones() as usize)
            .sum()
    }

    /// Whether no CPU is in the set.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// The CPUs in rising order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        let end = self.words.len() as u32 * BITS;
        (0..end).filter(|&cpu| self.contains(cpu))
    }

    /// CPUs in both sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let both = self.words.iter().zip(&other.words);
        Self::from_words(both.map(|(a, b)| a & b).collect())
    }

    /// CPUs of this set that are not in `other`.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        let others = other.words.iter().copied().chain(std::iter::repeat(0));
        Self::from_words(self.words.iter().zip(others).map(|(a, b)| a & !b).collect())
    }

    /// The set in the kernel's layout.
    pub(super) fn words(&self) -> &[u64] {
        &self.words
    }

    /// A set from the kernel's layout.
    pub(super) fn from_words(mut words: Vec<u64>) -> Self {
        while words.last() == Some(&0) {
            words.pop();
        }
        Self { words }
    }

    /// The runs of neighbouring CPUs, as first and last.
    fn runs(&self) -> Vec<(u32, u32)> {
        let mut runs: Vec<(u32, u32)> = Vec::new();
        for cpu in self.iter() {
            match runs.last_mut() {
                Some((_, last)) if *last + 1 == cpu => *last = cpu,
                _ => runs.push((cpu, cpu)),
            }
        }
        runs
    }
}

impl FromIterator<u32> for CpuSet {
    /// Numbers above [`CpuSet::MAX_CPU`] are left out.
    fn from_iter<I: IntoIterator<Item = u32>>(cpus: I) -> Self {
        let mut set = Self::new();
        for cpu in cpus {
            set.insert(cpu);
        }
        set
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("none");
        }
        for (index, (first, last)) in self.runs().into_iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            if first == last {
                write!(f, "{comma}{first}")?;
            } else {
                write!(f, "{comma}{first}-{last}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CpuSet({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(cpus: &[u32]) -> CpuSet {
        cpus.iter().copied().collect()
    }

    #[test]
    fn shows_runs_and_single_cpus() {
        assert_eq!(set(&[8, 0, 1, 2, 3]).to_string(), "0-3,8");
        assert_eq!(set(&[5]).to_string(), "5");
        assert_eq!(set(&[]).to_string(), "none");
    }

    #[test]
    fn holds_more_than_the_c_library_does() {
        let far = set(&[1, 5000]);
        assert!(far.contains(5000) && !far.contains(4999));
        assert_eq!(far.len(), 2);
        assert!(!CpuSet::new().insert(CpuSet::MAX_CPU + 1));
    }

    #[test]
    fn sets_of_different_length_compare_and_combine() {
        let (far, near) = (set(&[1, 200]), set(&[1, 2]));
        assert_eq!(far.intersection(&near), set(&[1]));
        assert_eq!(far.difference(&near), set(&[200]));
        assert_eq!(near.difference(&far), set(&[2]));
        assert!(near.difference(&near).is_empty());
    }
}
