//! Groups: who shares a queue and a worker, by gid (specification section 1), as a pure state machine.
//!
//! ```text
//!              1 acquire: Create        2 created(ok)
//!   (absent) ------------------> CREATING ----------> LIVE(1)
//!      ^  ^                         |                  |   ^ 3 acquire: LIVE(n+1), Shared
//!      |  +--- 4 created(failed) ---+                  |   | 5 release: LIVE(n-1), n > 1
//!      |                                               v   |
//!      +------- 7 released -------- RELEASING <--- 6 release of the last
//! ```
//!
//! Creating and releasing are states, so that nobody holds a lock while a worker is spawned or joined: whoever comes meanwhile is
//! told to wait, and others' groups go on (the original joins under its registry lock).

use core::fmt;

use heapless::Vec;

use crate::id::Gid;
use crate::limits::narrow;

/// Answer to an acquire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[must_use]
pub enum Acquire {
    /// The caller must create the worker and report with [`Groups::created`].
    Create,
    /// The group is there; the caller is one more of this many sharers.
    Shared(u32),
    /// The group is being created or released by somebody else: ask again when that has ended.
    Wait,
}

/// Answer to a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[must_use]
pub enum Release {
    /// This many sharers are left.
    Kept(u32),
    /// The caller was the last: it must end the worker and report with [`Groups::released`].
    Last,
}

/// Why a call was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum GroupError {
    /// No place for one more group.
    TooMany {
        /// How many there can be.
        capacity: u32,
    },
    /// The group is not in the state that this call needs: a surplus release, a report that nobody is waiting for.
    Invalid(Gid),
    /// Another thread is in the registry; see [`Registry`].
    Contended,
}

impl fmt::Display for GroupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooMany { capacity } => write!(f, "all {capacity} groups are in use"),
            Self::Invalid(gid) => write!(f, "{gid} is not held by the caller"),
            Self::Contended => f.write_str("the group registry is in use by another thread"),
        }
    }
}

impl core::error::Error for GroupError {}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Creating,
    Live { sharers: u32 },
    Releasing,
}

/// Up to `N` groups.
#[derive(Debug)]
pub struct Groups<const N: usize> {
    entries: Vec<(Gid, State), N>,
}

impl<const N: usize> Groups<N> {
    /// No groups.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            entries: Vec::new(),
        }
    }

    /// Edges 1 and 3.
    pub fn acquire(&mut self, gid: Gid) -> Result<Acquire, GroupError> {
        match self.state(gid) {
            Some(State::Live { sharers }) => {
                *sharers = sharers.saturating_add(1);
                Ok(Acquire::Shared(*sharers))
            }
            Some(State::Creating | State::Releasing) => Ok(Acquire::Wait),
            None => match self.entries.push((gid, State::Creating)) {
                Ok(()) => Ok(Acquire::Create),
                Err(_) => Err(GroupError::TooMany {
                    capacity: narrow(N),
                }),
            },
        }
    }

    /// Edges 2 and 4: the creator reports.
    pub fn created(&mut self, gid: Gid, ok: bool) -> Result<(), GroupError> {
        match self.state(gid) {
            Some(state @ State::Creating) if ok => *state = State::Live { sharers: 1 },
            Some(State::Creating) => self.remove(gid),
            _ => return Err(GroupError::Invalid(gid)),
        }
        Ok(())
    }

    /// Edges 5 and 6.
    pub fn release(&mut self, gid: Gid) -> Result<Release, GroupError> {
        match self.state(gid) {
            Some(state @ State::Live { sharers: 1 }) => {
                *state = State::Releasing;
                Ok(Release::Last)
            }
            Some(State::Live { sharers }) => {
                *sharers = sharers.saturating_sub(1);
                Ok(Release::Kept(*sharers))
            }
            _ => Err(GroupError::Invalid(gid)),
        }
    }

    /// Edge 7: the last sharer reports that the worker has ended.
    pub fn released(&mut self, gid: Gid) -> Result<(), GroupError> {
        match self.state(gid) {
            Some(State::Releasing) => {
                self.remove(gid);
                Ok(())
            }
            _ => Err(GroupError::Invalid(gid)),
        }
    }

    /// Sharers of a live group; 0 if it is absent, being created or being released.
    #[must_use]
    pub fn sharers(&self, gid: Gid) -> u32 {
        self.entries
            .iter()
            .find_map(|entry| match entry {
                (other, State::Live { sharers }) if *other == gid => Some(*sharers),
                _ => None,
            })
            .unwrap_or(0)
    }

    /// Number of groups in any state.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no groups.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn state(&mut self, gid: Gid) -> Option<&mut State> {
        self.entries
            .iter_mut()
            .find(|(other, _)| *other == gid)
            .map(|(_, state)| state)
    }

    fn remove(&mut self, gid: Gid) {
        self.entries.retain(|(other, _)| *other != gid);
    }
}

impl<const N: usize> Default for Groups<N> {
    fn default() -> Self {
        Self::new()
    }
}

/// Attempts to enter the registry before a caller is told that it is contended.
#[cfg(target_has_atomic = "ptr")]
const ATTEMPTS: u32 = 1000;

/// [`Groups`] behind a spin lock, for hosts without an operating system's mutex (a shell that has one uses that).
///
/// No call waits without bound: a caller that cannot enter gets [`GroupError::Contended`] (requirement H79: a
/// higher-priority thread must not spin on a lower one for ever).
///
/// On targets without compare-and-swap there is no such lock: one core under a critical section uses [`Groups`] itself.
#[cfg(target_has_atomic = "ptr")]
#[derive(Debug)]
pub struct Registry<const N: usize>(spin::Mutex<Groups<N>>);

#[cfg(target_has_atomic = "ptr")]
impl<const N: usize> Registry<N> {
    /// An empty registry.
    #[must_use]
    pub const fn new() -> Self {
        Self(spin::Mutex::new(Groups::new()))
    }

    /// Runs `call` on the groups. It must be short, and must not enter the registry again.
    pub fn with<R>(
        &self,
        call: impl FnOnce(&mut Groups<N>) -> Result<R, GroupError>,
    ) -> Result<R, GroupError> {
        for _ in 0..ATTEMPTS {
            if let Some(mut groups) = self.0.try_lock() {
                return call(&mut groups);
            }
            core::hint::spin_loop();
        }
        Err(GroupError::Contended)
    }
}

#[cfg(target_has_atomic = "ptr")]
impl<const N: usize> Default for Registry<N> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const G: Gid = Gid(5);

    const INVALID: GroupError = GroupError::Invalid(G);
    const CREATING: Option<State> = Some(State::Creating);
    const RELEASING: Option<State> = Some(State::Releasing);

    const fn live(sharers: u32) -> Option<State> {
        Some(State::Live { sharers })
    }

    /// A group alone in one state; then `event`; its answer and the state after.
    fn after<R>(
        state: Option<State>,
        event: impl FnOnce(&mut Groups<2>) -> R,
    ) -> (R, Option<State>) {
        let mut groups = Groups::<2>::new();
        groups.entries.extend(state.map(|state| (G, state)));
        let answer = event(&mut groups);
        (answer, groups.state(G).copied())
    }

    #[test]
    fn acquire_and_release_in_every_state() {
        for (state, acquired, released) in [
            (None, (Ok(Acquire::Create), CREATING), (Err(INVALID), None)),
            (
                CREATING,
                (Ok(Acquire::Wait), CREATING),
                (Err(INVALID), CREATING),
            ),
            (
                live(1),
                (Ok(Acquire::Shared(2)), live(2)),
                (Ok(Release::Last), RELEASING),
            ),
            (
                live(3),
                (Ok(Acquire::Shared(4)), live(4)),
                (Ok(Release::Kept(2)), live(2)),
            ),
            (
                RELEASING,
                (Ok(Acquire::Wait), RELEASING),
                (Err(INVALID), RELEASING),
            ),
        ] {
            assert_eq!(
                after(state, |groups| groups.acquire(G)),
                acquired,
                "from {state:?}"
            );
            assert_eq!(
                after(state, |groups| groups.release(G)),
                released,
                "from {state:?}"
            );
        }
    }

    #[test]
    fn reports_in_every_state() {
        for (state, created, failed, released) in [
            (
                None,
                (Err(INVALID), None),
                (Err(INVALID), None),
                (Err(INVALID), None),
            ),
            (
                CREATING,
                (Ok(()), live(1)),
                (Ok(()), None),
                (Err(INVALID), CREATING),
            ),
            (
                live(2),
                (Err(INVALID), live(2)),
                (Err(INVALID), live(2)),
                (Err(INVALID), live(2)),
            ),
            (
                RELEASING,
                (Err(INVALID), RELEASING),
                (Err(INVALID), RELEASING),
                (Ok(()), None),
            ),
        ] {
            assert_eq!(
                after(state, |groups| groups.created(G, true)),
                created,
                "from {state:?}"
            );
            assert_eq!(
                after(state, |groups| groups.created(G, false)),
                failed,
                "from {state:?}"
            );
            assert_eq!(
                after(state, |groups| groups.released(G)),
                released,
                "from {state:?}"
            );
        }
    }

    #[test]
    fn h45_surplus_releases_are_refused() {
        let mut groups = Groups::<1>::new();
        assert_eq!(groups.acquire(G), Ok(Acquire::Create));
        groups.created(G, true).unwrap();
        assert_eq!(groups.acquire(G), Ok(Acquire::Shared(2)));
        assert_eq!(groups.acquire(G), Ok(Acquire::Shared(3)));
        assert_eq!(
            groups.acquire(Gid(6)),
            Err(GroupError::TooMany { capacity: 1 })
        );
        assert_eq!(groups.release(G), Ok(Release::Kept(2)));
        assert_eq!(groups.release(G), Ok(Release::Kept(1)));
        assert_eq!(groups.release(G), Ok(Release::Last));
        assert_eq!(groups.release(G), Err(GroupError::Invalid(G)));
        groups.released(G).unwrap();
        assert_eq!(groups.release(G), Err(GroupError::Invalid(G)));
        assert!(groups.is_empty());
    }

    #[test]
    fn h79_a_held_registry_answers_contended_instead_of_spinning_for_ever() {
        let registry = Registry::<1>::new();
        let inner = registry.with(|_| Ok(registry.with(|groups| groups.acquire(G))));
        assert_eq!(inner, Ok(Err(GroupError::Contended)));
        assert_eq!(
            registry.with(|groups| groups.acquire(G)),
            Ok(Acquire::Create)
        );
    }
}
