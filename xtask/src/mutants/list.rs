//! The planted faults: one change of proxy-core's source each, of a kind that has cost somebody a night.

/// One change.
#[derive(Debug)]
pub(super) struct Mutant {
    /// The kind of fault.
    pub(super) name: &'static str,
    /// The file, below `proxy-core/src`.
    pub(super) file: &'static str,
    /// A text that stands in it exactly once.
    pub(super) find: &'static str,
    /// What is put in its place.
    pub(super) replace: &'static str,
}

const fn mutant(
    name: &'static str,
    file: &'static str,
    find: &'static str,
    replace: &'static str,
) -> Mutant {
    Mutant {
        name,
        file,
        find,
        replace,
    }
}

/// All of them. Those of one area stand together; a subset takes every n-th.
pub(super) const MUTANTS: &[Mutant] = &[
    mutant(
        "lost wake-up: push",
        "queue/append.rs",
        "Ok(below.bell())",
        "Ok(if below.link() == 0 { Bell::Quiet } else { below.bell() })",
    ),
    mutant(
        "lost wake-up: close",
        "inbox.rs",
        "Head(self.head.0.fetch_or(Head::shut(by), Ordering::Relaxed)).bell()",
        "let old = Head(self.head.0.fetch_or(Head::shut(by), Ordering::Relaxed));\n        if old.link() == 0 { Bell::Quiet } else { old.bell() }",
    ),
    mutant(
        "stale status",
        "driver.rs",
        "slot.report(active.task.live, step.to, step.status);",
        "let to = if step.to == RunState::Done { step.to } else { from };\n        slot.report(active.task.live, to, step.status);",
    ),
    mutant(
        "lost task: third of a rank",
        "driver.rs",
        "let _ = list.push(active);",
        "if list.len() < 2 {\n            let _ = list.push(active);\n        }",
    ),
    mutant(
        "skipped task: one slot is never stepped",
        "driver.rs",
        "    match active.run(ports) {\n",
        "    if active.task.slot == 1 {\n        return;\n    }\n    match active.run(ports) {\n",
    ),
    mutant(
        "stepped twice",
        "driver.rs",
        "    match active.run(ports) {\n",
        "    active.run(ports);\n    match active.run(ports) {\n",
    ),
    mutant(
        "early recycle: IDLE taken for terminal",
        "driver.rs",
        "self.keep(|active| active.state() != RunState::Done);",
        "self.keep(|active| !matches!(active.state(), RunState::Done | RunState::Idle));",
    ),
    mutant(
        "wrong rank: all on the first one's list",
        "driver.rs",
        "let bucket = (active.task.slot).checked_div(narrow(TASKS)).unwrap_or(0);",
        "let bucket = (active.task.slot).checked_div(narrow(TASKS)).map_or(0, |_| 0);",
    ),
    mutant(
        "wrong rank: order of ranks",
        "driver.rs",
        ".position(|other| other.rank > rank)",
        ".position(|other| other.rank < rank)",
    ),
    mutant(
        "sleep with active tasks",
        "driver.rs",
        "} else if stepped > 0 {\n            Next::Relax",
        "} else if stepped > 0 {\n            Next::Sleep",
    ),
    mutant(
        "relax although something moved",
        "driver.rs",
        "let next = if moved > 0 || drained > 0 || aborted > 0 {",
        "let next = if drained > 0 || aborted > 0 {",
    ),
    mutant(
        "finish not counted: the context stays busy",
        "driver.rs",
        "context.count_end();",
        "",
    ),
    mutant(
        "queued tasks forgotten when the worker dies",
        "driver.rs",
        "self.gather(queue, observer);",
        "",
    ),
    mutant(
        "double consume",
        "board.rs",
        ".compare_exchange(done.0, done.with(Phase::Free).0, release, Ordering::Relaxed)",
        ".compare_exchange(done.0, done.0, release, Ordering::Relaxed)",
    ),
    mutant(
        "recycled generation not bumped",
        "board.rs",
        "Word::pack(Phase::Claimed, kind, seen.generation().wrapping_add(1))",
        "Word::pack(Phase::Claimed, kind, seen.generation().max(1))",
    ),
    mutant(
        "not the oldest task of a kind",
        "queue/lookup.rs",
        ".is_none_or(|(sequence, _)| is_older(key.sequence, *sequence))",
        ".is_none_or(|(sequence, _)| !is_older(key.sequence, *sequence))",
    ),
    mutant(
        "a look-up remembers a task that was consumed",
        "queue/lookup.rs",
        "let same = Hint::tag(word.generation()) == tag && key.context == of.id;",
        "let same = Hint::tag(word.generation()) >= tag.min(0) && key.context == of.id;",
    ),
    mutant(
        "missing stop",
        "task/network.rs",
        "let stopped = self.stop(task, ports);",
        "let stopped = Status::SUCCESS;",
    ),
    mutant(
        "wrong block selected",
        "task/network.rs",
        "ports.progress(task.context, task.slot, stream, block, &mut flags)",
        "ports.progress(task.context, task.slot, stream, BlockIndex(block.0.min(0)), &mut flags)",
    ),
    mutant(
        "error of progress swallowed",
        "task/network.rs",
        "(Run::Failed(status), _) => self.end(task, status, ports),",
        "(Run::Failed(_), _) => self.end(task, Status::SUCCESS, ports),",
    ),
    mutant(
        "error of stop swallowed",
        "task/network.rs",
        "Step::done(status.or(stopped))",
        "Step::done(status)",
    ),
    mutant(
        "start twice",
        "task/network.rs",
        "let status = ports.start(task.context, task.slot, stream, block);",
        "ports.start(task.context, task.slot, stream, block);\n                let status = ports.start(task.context, task.slot, stream, block);",
    ),
    mutant(
        "drained stream progressed again",
        "task/network.rs",
        "let mut streams = self.left;",
        "let mut streams = Streams::first(task.spec.streams);",
    ),
    mutant(
        "arm kept by a task that ends before its gate",
        "task/network.rs",
        "            disarm();",
        "            let _ = disarm;",
    ),
    mutant(
        "arm of an older task taken by one that was not armed",
        "trigger.rs",
        "self.arms.take(if explicit { older() } else { 0 });",
        "self.arms.take(if explicit { older().min(0) } else { 0 });",
    ),
    mutant(
        "idle flag seeded false",
        "port.rs",
        "        idle: true,\n        done: true,",
        "        idle: false,\n        done: true,",
    ),
    mutant(
        "gate opened by a stale 0, device arms",
        "trigger.rs",
        "self.arming == Arming::ByDevice && word == CONSUMED;",
        "self.arming == Arming::ByDevice && word == CONSUMED && stream.0 > 0;",
    ),
    mutant(
        "gate opened without an arm",
        "trigger.rs",
        "if self.counts() && self.arms.load() & COUNT == 0 {",
        "if self.counts() && self.arms.load() & COUNT == COUNT {",
    ),
    mutant(
        "newer fire erased by the consume",
        "trigger.rs",
        "            words.compare_exchange(self.context, self.kind, stream, word, CONSUMED);",
        "            let word = words.load(self.context, self.kind, stream).max(word.min(0));\n            words.compare_exchange(self.context, self.kind, stream, word, CONSUMED);",
    ),
    mutant(
        "younger task through the gate first",
        "trigger.rs",
        "self.arms.closed_in.store(self.pass, Ordering::Relaxed);",
        "",
    ),
    mutant(
        "fresh start leaves executions armed",
        "trigger.rs",
        "self.arms.reset();",
        "",
    ),
    mutant(
        "lost order",
        "queue/abort.rs",
        "Ok(self.inbox.order())",
        "Ok(Bell::Quiet)",
    ),
    mutant(
        "of all orders one is obeyed",
        "driver.rs",
        "            if let Some(cause) = cause {\n                end(",
        "            if let Some(cause) = cause.filter(|_| ended == 0) {\n                end(",
    ),
    mutant(
        "a context is retired with a task",
        "context.rs",
        "if unfinished > 0 {\n                let unfinished",
        "if unfinished > 1 {\n                let unfinished",
    ),
    mutant(
        "barrier passed before all arrived",
        "task/barrier.rs",
        "BarrierPoll::Pending => return Step::waiting(RunState::Idle),",
        "BarrierPoll::Pending => self.phase = Phase::Release,",
    ),
    mutant(
        "barrier's peers not told of the end",
        "task/barrier.rs",
        "ports.cancel(task.context, task.exec);",
        "let _ = &ports;",
    ),
    mutant(
        "a barrier task's end is its state before its last call",
        "task/barrier.rs",
        "let step = self.fail(task, status, ports);",
        "self.state = RunState::Done;\n        let step = self.fail(task, status, ports);",
    ),
    mutant(
        "bus: gathered without looking",
        "phone/barrier.rs",
        "if !self.reached(arrival.generation.load()) {",
        "if !self.reached(arrival.generation.load().max(self.arrived())) {",
    ),
];
