//! The simulated library and barrier of a world: fails, delays, lies, blocks, calls back, and is where a worker dies.

use proxy_core::port::BarrierPoll;
use proxy_core::{ContextId, Status};
use proxy_kit::oracle::{Answer, Call};

use crate::world::World;

const fn context_of(call: Call) -> ContextId {
    match call {
        Call::Start(context, ..)
        | Call::Progress(context, ..)
        | Call::Stop(context, _)
        | Call::Arrive(context, _)
        | Call::Signal(context, _)
        | Call::Release(context, _)
        | Call::Cancel(context, _) => context,
    }
}

const QUIET: Answer = Answer {
    status: Status::SUCCESS,
    idle: true,
    done: false,
    poll: BarrierPoll::Pending,
};

impl World {
    /// Answers a call; `None` if the worker dies in it.
    pub(crate) fn library(&mut self, group: usize, call: Call) -> Option<Answer> {
        self.counts.calls += 1;
        if self.choices.once_in(self.profile.blocks) {
            self.counts.blocked_calls += 1;
            let time = self.choices.pick(&[100, 5_000, 2_000_000]);
            self.pass_time(time);
        }
        if self.choices.once_in(self.profile.dies) {
            return None;
        }
        let context = context_of(call);
        let owner = |member: &crate::member::Member| {
            member.group == group && member.context == Some(context)
        };
        let Some(member) = self.members.iter().position(owner) else {
            self.fail(format!("{call:?} for a context that nobody has"));
            return Some(QUIET);
        };
        if self.choices.once_in(self.profile.calls_back) && !self.members[member].has_produced {
            self.counts.callbacks += 1;
            self.produce(member);
        }
        let status = self.error();
        let answer = match call {
            Call::Start(..) | Call::Stop(..) | Call::Signal(..) => Answer { status, ..QUIET },
            Call::Progress(..) => self.progress(member, status),
            Call::Arrive(..) | Call::Release(..) | Call::Cancel(..) => Answer {
                poll: self.barrier(member, call, status),
                ..QUIET
            },
        };
        Some(answer)
    }

    /// Success, mostly.
    fn error(&mut self) -> Status {
        if !self.choices.once_in(self.profile.fails) {
            return Status::SUCCESS;
        }
        self.counts.library_errors += 1;
        self.choices
            .pick(&[Status::FAILURE, Status(4242), Status(-77), Status::TIMEOUT])
    }

    /// A tick of a stream. All pairs of flags occur, with and without an error: whatever the library has set or left alone.
    fn progress(&mut self, member: usize, status: Status) -> Answer {
        if self.choices.once_in(self.profile.quiet) {
            let time = self.choices.pick(&[200, 3_000]);
            self.members[member].quiet_until = self.now + time;
        }
        if self.now < self.members[member].quiet_until {
            return Answer { status, ..QUIET };
        }
        // Tamest first: a library that is done at once leads to the shortest trace.
        let (idle, done) = self.choices.pick(&[
            (true, true),
            (false, false),
            (true, false),
            (false, true),
            (false, false),
            (true, false),
        ]);
        Answer {
            status,
            idle,
            done,
            ..QUIET
        }
    }

    fn barrier(&mut self, member: usize, call: Call, status: Status) -> BarrierPoll {
        let me = self.members[member].number;
        match call {
            Call::Arrive(..) | Call::Release(..) if !status.is_success() => {
                BarrierPoll::Failed(status)
            }
            Call::Arrive(_, exec) => self.bus.arrive(me, exec, self.now, 20_000),
            Call::Release(..) => self.bus.release(me, self.now),
            Call::Cancel(_, exec) => {
                self.bus.cancel(me, exec);
                BarrierPoll::Ready
            }
            _ => BarrierPoll::Ready,
        }
    }
}
