//! Calls on groups in any order, beside a second implementation of what is drawn at the head of the core's file: from a state
//! and a call to the answer and the next state.

use std::collections::BTreeMap;

use proxy_core::Gid;
use proxy_core::group::{Acquire, GroupError, Groups, Release};

use crate::input::Input;

/// Groups that there can be, and gids that ask for one.
const PLACES: usize = 3;
const GIDS: u8 = 5;

/// Calls of one input at most.
const STEPS: usize = 2000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Creating,
    /// So many share it.
    Live(u32),
    Releasing,
}

#[derive(Debug, Clone, Copy)]
enum Call {
    Acquire,
    Created(bool),
    Release,
    Released,
}

#[derive(Debug, PartialEq, Eq)]
enum Answer {
    Acquired(Acquire),
    Released(Release),
    Noted,
    Refused(GroupError),
}

/// What the drawing says. No state: the group is absent. `full`: there is no place for another one.
fn expected(state: Option<State>, call: Call, gid: Gid, full: bool) -> (Answer, Option<State>) {
    use State::{Creating, Live, Releasing};
    let capacity = u32::try_from(PLACES).expect("few places");
    match (call, state) {
        (Call::Acquire, None) if full => (Answer::Refused(GroupError::TooMany { capacity }), None),
        (Call::Acquire, None) => (Answer::Acquired(Acquire::Create), Some(Creating)),
        (Call::Acquire, Some(Live(n))) => {
            (Answer::Acquired(Acquire::Shared(n + 1)), Some(Live(n + 1)))
        }
        (Call::Acquire, busy) => (Answer::Acquired(Acquire::Wait), busy),
        (Call::Created(true), Some(Creating)) => (Answer::Noted, Some(Live(1))),
        (Call::Created(false), Some(Creating)) | (Call::Released, Some(Releasing)) => {
            (Answer::Noted, None)
        }
        (Call::Release, Some(Live(1))) => (Answer::Released(Release::Last), Some(Releasing)),
        (Call::Release, Some(Live(n))) => {
            (Answer::Released(Release::Kept(n - 1)), Some(Live(n - 1)))
        }
        (_, state) => (Answer::Refused(GroupError::Invalid(gid)), state),
    }
}

fn done(groups: &mut Groups<PLACES>, call: Call, gid: Gid) -> Answer {
    let answer = match call {
        Call::Acquire => groups.acquire(gid).map(Answer::Acquired),
        Call::Created(ok) => groups.created(gid, ok).map(|()| Answer::Noted),
        Call::Release => groups.release(gid).map(Answer::Released),
        Call::Released => groups.released(gid).map(|()| Answer::Noted),
    };
    answer.unwrap_or_else(Answer::Refused)
}

/// Runs one input; returns how many calls were not refused.
pub(crate) fn run(data: &[u8]) -> usize {
    let mut input = Input(data);
    let mut groups = Groups::<PLACES>::new();
    let mut states: BTreeMap<u8, State> = BTreeMap::new();
    let mut good = 0;
    for _ in 0..STEPS {
        if input.is_empty() {
            break;
        }
        let byte = input.byte();
        let (number, gid) = (byte % GIDS, Gid(u32::from(byte % GIDS)));
        let call = [
            Call::Acquire,
            Call::Created(true),
            Call::Release,
            Call::Released,
            Call::Created(false),
        ][usize::from(byte / GIDS) % 5];
        let state = states.get(&number).copied();
        let (wanted, next) = expected(state, call, gid, states.len() == PLACES);
        let answer = done(&mut groups, call, gid);
        assert_eq!(answer, wanted, "{call:?} of {gid} in {state:?}");
        match next {
            Some(next) => states.insert(number, next),
            None => states.remove(&number),
        };
        good += usize::from(!matches!(answer, Answer::Refused(_)));
        let sharers = match next {
            Some(State::Live(sharers)) => sharers,
            _ => 0,
        };
        assert_eq!(groups.sharers(gid), sharers, "{gid} after {call:?}");
        assert_eq!(groups.len(), states.len(), "groups after {call:?}");
        assert_eq!(groups.is_empty(), states.is_empty());
    }
    good
}
