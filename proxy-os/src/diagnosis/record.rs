//! What a report says: plain data with a versioned schema, the same for the API, for C, for files and for the report socket.
//!
//! The schema's version is two numbers, `MAJOR.MINOR`: fields are only ever added within one major number, and each addition has a minor number of
//! its own. A reader ignores fields that it does not know, and takes a field that an older writer has not written for empty. Times are
//! nanoseconds of the monotonic clock where the name ends in `_ns`, and ages are seconds. What is null is not known.
//!
//! Three things are known in part only, as a worker reads no clock in its steps and a device tells no time: how old a task is, unless the
//! setting NEURON_RT_PROXY_LATENCY_FROM_APPEND has producers read the clock (else [`Task::least_total_age`], from the black box and the
//! watchdog's looks); a worker's longest step ([`Worker::longest_step`], of what observers have seen); since when a start word has fired.

use serde::{Deserialize, Serialize};

/// Name and version of the schema.
pub const SCHEMA: &str = "proxy-report/1.1";

/// Whether a report of this schema can be read: one of the same major number.
pub(super) fn is_readable(schema: &str) -> bool {
    let minor = schema.strip_prefix("proxy-report/1");
    minor.is_some_and(|minor| minor.is_empty() || minor.starts_with('.'))
}

/// One process, all its groups and buses, at one time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: String,
    /// What is wrong, in one sentence.
    pub verdict: String,
    /// What is wrong, for programs; nothing if nothing is waited for longer than the stall threshold.
    pub stall: Option<Stall>,
    /// What to do about it.
    pub hint: Option<String>,
    /// Why the report was made.
    pub reason: String,
    /// What could not be read because somebody held its lock; empty for a whole report.
    pub partial: Vec<String>,
    /// Age at which a wait counts as a stall, in seconds.
    pub stall_threshold: f64,
    /// The process.
    pub process: Process,
    /// Its groups, by gid.
    pub groups: Vec<Group>,
    /// Its buses.
    pub buses: Vec<Bus>,
    /// Collective libraries that were loaded, or were to be.
    pub libraries: Vec<Library>,
    /// Every setting with its value and origin.
    pub settings: Vec<Setting>,
}

/// Where and when.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Process {
    /// Process id, as the process sees itself.
    pub pid: u32,
    /// The program's name.
    pub program: String,
    /// Version of this driver.
    pub version: String,
    /// The build id that the linker has given the file that holds this driver.
    pub build_id: Option<String>,
    /// Host name.
    pub host: String,
    /// Kernel release.
    pub kernel: String,
    /// When the report was made.
    pub monotonic_ns: u64,
    /// The same moment in seconds since 1970, so that reports of several machines can be put in order.
    pub wall_clock: f64,
    /// CPUs that the process may use.
    pub cpus: String,
    /// Its cpuset, as the kernel names it; empty where there is none.
    pub cpuset: String,
    /// Limit of open files.
    pub open_files: u64,
    /// Inode of the pid namespace: two processes with the same number see the same process ids.
    pub pid_namespace: String,
    /// Inode of the user namespace.
    pub user_namespace: String,
}

/// One group.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Group {
    /// Group id.
    pub gid: u32,
    /// Shares of the group that are held; 0 for a queue outside of the registry.
    pub sharers: u32,
    /// In a word: running, stalled, stopping, ended, dead.
    pub health: String,
    /// Tasks that the worker has taken from its inbox, and those that no step has come to. Read while both change: one that is taken
    /// meanwhile may count twice, until the next report.
    pub enqueued: u64,
    /// Appends that found no place.
    pub full: u64,
    /// Tasks that the worker has ended.
    pub ended: u64,
    /// The last execution that ended, as the black box has it.
    pub last_ended_exec: Option<u64>,
    /// How far each context has come, in order of rank.
    pub contexts: Vec<ContextProgress>,
    /// Tasks that ended with an error, by code.
    pub errors: Vec<ErrorCount>,
    /// The worker.
    pub worker: Worker,
    /// Tasks whose status is not consumed, in order of rank and append.
    pub tasks: Vec<Task>,
    /// The last changes of state, oldest first.
    pub history: Vec<Change>,
    /// How long tasks waited and ran, for each kind and span that has a value.
    pub latencies: Vec<Latency>,
}

/// How far one context has come.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ContextProgress {
    /// Context, as messages name it.
    pub context: String,
    /// Its rank.
    pub rank: u32,
    /// The last sequence number that was given out; null = none. An arm, and an append that was refused because the queue is shut, take
    /// one, too.
    pub last_enqueued: Option<u64>,
    /// All of its tasks up to this sequence number have ended; null = the first has not.
    pub last_completed: Option<u64>,
}

/// How long one span of the tasks of one kind took, in seconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Latency {
    /// network or barrier.
    pub kind: String,
    /// enqueue_to_start, trigger_wait, run (the network time of a network task, the barrier wait of a barrier task) or total.
    pub span: String,
    /// Tasks that were counted: of `enqueue_to_start` those that were begun, of the others those that ended well.
    pub count: u64,
    /// Of all of them together.
    pub sum: f64,
    /// Median.
    pub p50: f64,
    /// Nine of ten took no longer.
    pub p90: f64,
    /// 99 of 100 took no longer.
    pub p99: f64,
    /// The longest.
    pub max: f64,
    /// How many took no longer than each of these bounds.
    pub below: Vec<(f64, u64)>,
}

/// How often a code ended a task.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ErrorCount {
    /// The code.
    pub status: i32,
    /// In words.
    pub text: String,
    /// How often.
    pub count: u64,
}

/// One worker.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Worker {
    /// Thread name.
    pub name: String,
    /// Kernel thread id.
    pub tid: u32,
    /// CPUs asked for.
    pub cpus_wanted: String,
    /// CPUs that the kernel lets it run on.
    pub cpus_granted: String,
    /// CPU it ran on last.
    pub last_cpu: Option<u32>,
    /// In a word: asleep, awake, inside the library, ended, dead.
    pub activity: String,
    /// Seconds that it has been there: asleep, awake since it last slept, or inside the call.
    pub activity_age: Option<f64>,
    /// The library call that it is inside of.
    pub call: Option<Call>,
    /// The longest library call that observers have found it inside of, with the age when they last saw it there; most of the time of a step is
    /// that of its calls. The worker reads no clock for this: a call that is over between two looks of the watchdog is not known.
    pub longest_step: Option<Call>,
    /// Ticks.
    pub ticks: u64,
    /// Steps of tasks.
    pub steps: u64,
    /// Ticks that moved nothing.
    pub idle_ticks: u64,
    /// Pauses between ticks that moved nothing.
    pub pauses: u64,
    /// Times it gave its core away.
    pub yields: u64,
    /// Times it slept.
    pub sleeps: u64,
    /// Appends that had to wake it.
    pub wakes: u64,
    /// Tasks that wait in its inbox or were not drained yet.
    pub queued: u32,
    /// Tasks that one rank may have unconsumed.
    pub capacity: u32,
}

/// A library call in progress.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Call {
    /// Name of the export.
    pub function: String,
    /// Seconds since it began.
    pub age: f64,
}

/// One task.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Task {
    /// Rank.
    pub rank: u32,
    /// network or barrier.
    pub kind: String,
    /// Execution id.
    pub exec: u64,
    /// Position among the appends of its context.
    pub sequence: u64,
    /// Context, as messages name it.
    pub context: String,
    /// Run state.
    pub state: String,
    /// Seconds in this state, if the black box still has the moment.
    pub age: Option<f64>,
    /// Seconds that it has been in this state at least, where `age` is not known; 0 = nothing is known of that either.
    pub least_age: f64,
    /// Ticks of the worker since it came into this state, that of the change included, if the black box still has it. A worker that sleeps
    /// makes none.
    pub ticks_in_state: Option<u64>,
    /// Seconds since its append, where producers note the time.
    pub total_age: Option<f64>,
    /// Seconds since its append at least, where `total_age` is not known; 0 = nothing is known of that either.
    pub least_total_age: f64,
    /// Status, once done.
    pub status: Option<i32>,
    /// The selected block, its place (from 1) and how many there are, for a task that has entered the library.
    pub block: Option<Block>,
    /// Others have the library before it, as the tasks of a communicator take turns.
    pub behind: bool,
    /// Start words that have not fired, of a task that waits for its device.
    pub unfired: Vec<StartWord>,
    /// Those that have, of the same task.
    pub fired: Vec<StartWord>,
    /// At a host barrier: who has arrived and who has not.
    pub barrier: Option<BarrierWait>,
    /// Block, start words and barrier could not be read, as the contexts of the group were locked.
    pub unread: bool,
}

/// Where a network task is inside the library.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Block {
    /// Block id.
    pub id: u32,
    /// Its place among the context's blocks, from 1.
    pub place: u32,
    /// How many blocks the context has.
    pub of: u32,
    /// Progress calls of this context so far.
    pub calls: u64,
    /// What the last one returned.
    pub last_return: i32,
}

/// A start word of a task that waits for its device.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StartWord {
    /// Stream.
    pub stream: u32,
    /// Address of the word.
    pub address: u64,
    /// Its value.
    pub word: u32,
    /// Seconds that it has been waited for, if the black box still has the moment; of a word that has fired it is not known since when.
    pub age: Option<f64>,
    /// Seconds that it has been waited for at least, where `age` is not known; 0 = nothing is known of that either.
    pub least_age: f64,
}

/// A wait at a host barrier.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BarrierWait {
    /// Slot of the barrier on its bus.
    pub slot: u32,
    /// How often the barrier has been arrived at, from 1.
    pub generation: u32,
    /// Ranks that have arrived, as ranges: `0-2,5`.
    pub arrived: String,
    /// Ranks that have not.
    pub missing: String,
    /// Of those, ranks that are known to be dead.
    pub dead: String,
    /// The other machine that is waited for, all ranks of this one having arrived.
    pub machine: Option<u32>,
}

/// One change of state.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Change {
    /// When.
    pub monotonic_ns: u64,
    /// Rank.
    pub rank: u32,
    /// Kind of the task.
    pub kind: String,
    /// Execution id.
    pub exec: u64,
    /// State before.
    pub from: String,
    /// State after.
    pub to: String,
    /// Status, which counts with DONE.
    pub status: i32,
}

/// One membership of a bus.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Bus {
    /// The job's name.
    pub job: String,
    /// Own rank.
    pub rank: u32,
    /// Ranks of the bus.
    pub world: u32,
    /// Version of the memory that the ranks share: that of every rank, as others are not let in.
    pub layout: u32,
    /// What is going on: the phase that this rank sleeps in (join, connect, send, receive, all-gather, barrier SLOT #GENERATION), or idle.
    pub phase: String,
    /// Seconds in it.
    pub age: Option<f64>,
    /// Who is waited for, as ranges.
    pub missing: String,
    /// Every rank.
    pub peers: Vec<Peer>,
    /// What the bus has counted: strangers at its door, and ways in which it works otherwise than it was meant to.
    pub fallbacks: Vec<(String, u64)>,
}

/// One rank of a bus.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Peer {
    /// Rank.
    pub rank: u32,
    /// Process id as this process sees it; 0 where it cannot.
    pub pid: u32,
    /// In a word: absent, joining, joined, late (joined, and waited for by this rank), left, dead (its process or its connection ended without
    /// a farewell).
    pub state: String,
    /// What that is known from.
    pub evidence: String,
    /// The last that was seen of it: its arrival for the latest execution, of all barriers of the bus.
    pub last_seen: Option<LastSeen>,
}

/// An arrival at a barrier.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LastSeen {
    /// Slot of the barrier on its bus.
    pub slot: u32,
    /// How often the rank has arrived there.
    pub generation: u32,
    /// Execution id.
    pub exec: u64,
}

/// One collective library.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Library {
    /// What it was asked for by.
    pub name: String,
    /// The file that was loaded.
    pub path: String,
    /// Its version in words, the hash of its source behind it.
    pub version: String,
    /// The number of its interface.
    pub interface: Option<u64>,
    /// The build id that the linker has given it.
    pub build_id: Option<String>,
    /// Why it was not loaded.
    pub error: Option<String>,
}

/// One setting.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Setting {
    /// Variable.
    pub name: String,
    /// Value.
    pub value: String,
    /// Default, environment or API.
    pub origin: String,
}

/// What is wrong.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stall {
    /// Its kind.
    pub kind: StallKind,
    /// Seconds since it began, as far as that is known.
    pub age: Option<f64>,
    /// Group.
    pub gid: Option<u32>,
    /// Rank.
    pub rank: Option<u32>,
    /// Execution id.
    pub exec: Option<u64>,
    /// Kind of the task.
    pub task: Option<String>,
    /// Streams that have not fired.
    pub streams: Vec<u32>,
    /// Ranks that are waited for, as ranges.
    pub missing: String,
}

/// The kinds of stall, the more certain the cause the earlier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StallKind {
    /// The worker died.
    WorkerDead,
    /// A library call does not return.
    CallNotReturning,
    /// The worker sleeps although it has work: a fault of this driver.
    AsleepWithWork,
    /// The device has not fired.
    DeviceNeverFired,
    /// Ranks have not arrived at a barrier.
    BarrierWaiting,
    /// The library is called and moves nothing.
    LibraryIdle,
    /// Ranks have not come to a bus, or not to an exchange on it.
    RendezvousWaiting,
    /// A rank has no place for another task, and none of those that it has moves.
    QueueFull,
    /// A task is done and nobody takes its status.
    ConsumerNotPolling,
}
