//! The ports of a simulated worker: each call goes on the tape and is answered by the host, who may let others act first.

use std::cell::RefCell;
use std::panic::resume_unwind;
use std::rc::Rc;

use proxy_core::port::{Barrier, BarrierPoll, Blocks, Change, DeviceWords, Flags, Observer, Seam};
use proxy_core::{BlockIndex, ContextId, ExecId, Status, Stream, TaskKind};
use proxy_kit::oracle::{Answer, Call, Table};

use crate::pair::{Death, Host, Item, changed};

/// All ports of one group's worker.
pub(crate) struct Ports<'a, H> {
    /// In a cell, because words are touched through a shared reference; no call is inside another.
    host: RefCell<&'a mut H>,
    group: usize,
    words: Rc<RefCell<Table>>,
}

impl<'a, H: Host> Ports<'a, H> {
    pub(crate) const fn new(host: &'a mut H, group: usize, words: Rc<RefCell<Table>>) -> Self {
        Self {
            host: RefCell::new(host),
            group,
            words,
        }
    }

    fn call(&self, call: Call) -> Answer {
        let mut host = self.host.borrow_mut();
        let answer = host.answer(self.group, call);
        let pair = host.pair(self.group);
        let Some(answer) = answer else {
            pair.laws.died_in(call);
            push(pair, Item::Died);
            drop(host);
            // Without the panic hook: this death is planned.
            resume_unwind(Box::new(Death));
        };
        pair.laws.called(call, answer);
        push(pair, Item::Call(call, answer));
        answer
    }

    fn touch(&self, context: ContextId, kind: TaskKind, stream: Stream) {
        let mut host = self.host.borrow_mut();
        host.touch(self.group);
        let pair = host.pair(self.group);
        push(pair, Item::Touch(context, kind, stream.0));
    }
}

fn push(pair: &mut crate::pair::Pair, item: Item) {
    if let Some(tape) = &mut pair.tape {
        tape.push(item);
    }
}

impl<H: Host> Seam for Ports<'_, H> {
    fn start(&mut self, context: ContextId, _: u32, stream: Stream, block: BlockIndex) -> Status {
        self.call(Call::Start(context, stream, block)).status
    }

    fn progress(
        &mut self,
        context: ContextId,
        _: u32,
        stream: Stream,
        block: BlockIndex,
        flags: &mut Flags,
    ) -> Status {
        let answer = self.call(Call::Progress(context, stream, block));
        flags.idle &= answer.idle;
        flags.done &= answer.done;
        answer.status
    }

    fn stop(&mut self, context: ContextId, _: u32, stream: Stream) -> Status {
        self.call(Call::Stop(context, stream)).status
    }
}

impl<H: Host> DeviceWords for Ports<'_, H> {
    fn load(&self, context: ContextId, kind: TaskKind, stream: Stream) -> u32 {
        self.touch(context, kind, stream);
        self.words.borrow().get(context, kind, stream.0)
    }

    fn compare_exchange(
        &self,
        context: ContextId,
        kind: TaskKind,
        stream: Stream,
        seen: u32,
        new: u32,
    ) -> bool {
        self.touch(context, kind, stream);
        let swapped = (self.words.borrow_mut()).swap(context, kind, stream.0, seen, new);
        if swapped {
            let mut host = self.host.borrow_mut();
            let laws = &mut host.pair(self.group).laws;
            laws.swapped(context, kind, stream.0, seen, new);
        }
        swapped
    }
}

impl<H: Host> Barrier for Ports<'_, H> {
    fn arrive(&mut self, context: ContextId, exec: ExecId) -> BarrierPoll {
        self.call(Call::Arrive(context, exec)).poll
    }

    fn signal(&mut self, context: ContextId, exec: ExecId) -> Status {
        self.call(Call::Signal(context, exec)).status
    }

    fn release(&mut self, context: ContextId, exec: ExecId) -> BarrierPoll {
        self.call(Call::Release(context, exec)).poll
    }

    fn cancel(&mut self, context: ContextId, exec: ExecId) {
        self.call(Call::Cancel(context, exec));
    }
}

impl<H: Host> Blocks for Ports<'_, H> {}

impl<H: Host> Observer for Ports<'_, H> {
    fn changed(&mut self, change: &Change) {
        let change = changed(change);
        let mut host = self.host.borrow_mut();
        let pair = host.pair(self.group);
        pair.laws.changed(&change);
        push(pair, Item::Changed(change));
    }
}
