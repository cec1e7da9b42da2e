//! What the library and the barrier answer in a small world.

use proxy_core::Status;
use proxy_core::port::BarrierPoll;
use proxy_kit::oracle::{Answer, Call};

use super::Answers;

/// The one answer of those who do what they should.
pub(super) const FAIR: &[Answer] = &[OK];

/// The answers to a call, the tamest first.
pub(super) const fn options(answers: Answers, call: Call) -> &'static [Answer] {
    match (call, answers) {
        (Call::Start(..) | Call::Stop(..) | Call::Signal(..), Answers::All) => &[OK, FAILED],
        (Call::Progress(..), Answers::All) => &[OK, IDLE, MOVED, FAILED],
        (Call::Progress(..), Answers::Few) | (Call::Arrive(..) | Call::Release(..), _) => {
            &[OK, IDLE, FAILED]
        }
        (Call::Start(..) | Call::Stop(..) | Call::Signal(..), Answers::Few)
        | (Call::Cancel(..), _) => &[OK],
    }
}

const fn answer(status: Status, idle: bool, done: bool, poll: BarrierPoll) -> Answer {
    Answer {
        status,
        idle,
        done,
        poll,
    }
}

const OK: Answer = answer(Status::SUCCESS, true, true, BarrierPoll::Ready);
const GONE: BarrierPoll = BarrierPoll::Failed(Status::FAILURE);
const FAILED: Answer = answer(Status::FAILURE, true, true, GONE);
const IDLE: Answer = answer(Status::SUCCESS, true, false, BarrierPoll::Pending);
const MOVED: Answer = answer(Status::SUCCESS, false, false, BarrierPoll::Pending);
