//! Gathering a report's facts: only reads, bounded, and without a lock that anybody may hold for long.

use std::fs;
use std::io;
use std::time::Duration;

use proxy_core::recorder::Record;
use proxy_core::{Accounts, Gid, RunState, Shut, Status, TaskView};

use super::known::{self, Known};
use super::moments::{Moments, Since};
use super::record::{
    Call, Change, ContextProgress, ErrorCount, Group, Report, SCHEMA, Task, Worker, is_readable,
};
use super::task::task;
use super::{buses, environment, latencies, ranges, verdict};
use crate::context::Listed;
use crate::queue::{Shared, TASKS};
use crate::registry::Group as Share;
use crate::sys::{affinity, clock};
use crate::watch::InCall;

/// A wait that lasts longer counts as a stall, where nobody says otherwise.
const STALL_THRESHOLD: Duration = Duration::from_secs(1);

impl Report {
    /// The report of this process as of now. Takes milliseconds, 200 at most, whatever the workers are inside of and whatever is locked;
    /// what could not be had then is named in [`Report::partial`]. `reason` is what it is made for. Any thread.
    #[must_use]
    pub fn collect(reason: &str) -> Self {
        Self::collect_stalls(reason, STALL_THRESHOLD)
    }

    /// [`Self::collect`] with the age from which on a wait counts as a stall, one second there.
    #[must_use]
    pub fn collect_stalls(reason: &str, threshold: Duration) -> Self {
        known::bounded(|| Self::facts(reason, threshold))
    }

    fn facts(reason: &str, threshold: Duration) -> Self {
        let mut partial = Vec::new();
        let queues = known::all().unwrap_or_else(|| {
            partial.push("the list of queues".to_owned());
            Vec::new()
        });
        let mut groups: Vec<Group> = queues
            .iter()
            .filter_map(|known| group(known, &mut partial))
            .collect();
        groups.sort_by_key(|group| group.gid);
        let mut report = Self {
            schema: SCHEMA.to_owned(),
            reason: reason.to_owned(),
            stall_threshold: threshold.as_secs_f64(),
            process: environment::process(),
            groups,
            buses: buses::buses(&mut partial),
            libraries: environment::libraries(&mut partial),
            settings: queues.last().map(environment::settings).unwrap_or_default(),
            partial,
            ..Self::default()
        };
        report.judge();
        report
    }

    /// The same record with one group alone, judged by what is left. The buses stay: a group's barriers are on them.
    #[must_use]
    pub fn only(mut self, gid: u32) -> Self {
        for group in self.groups.iter().filter(|group| group.gid != gid) {
            let of_other = format!(" of {}", Gid(group.gid));
            self.partial.retain(|what| !what.ends_with(&of_other));
        }
        self.groups.retain(|group| group.gid == gid);
        (self.stall, self.hint) = (None, None);
        self.judge();
        self
    }

    /// Fills in the verdict, and marks the groups that have a stall.
    pub(super) fn judge(&mut self) {
        verdict::judge(self);
        let stalled: Vec<Option<u32>> = verdict::stalls_of(self)
            .into_iter()
            .map(|(stall, _)| stall.gid)
            .collect();
        for group in &mut self.groups {
            if group.health == "running" && stalled.contains(&Some(group.gid)) {
                group.health = "stalled".to_owned();
            }
        }
    }

    /// The report as JSON.
    ///
    /// # Errors
    /// None that a report can cause.
    pub fn to_json(&self) -> io::Result<String> {
        Ok(serde_json::to_string_pretty(self)?)
    }

    /// A report from its JSON, of this process or of another one.
    ///
    /// # Errors
    /// The text is not JSON, or not a report whose schema has the major number of [`SCHEMA`].
    pub fn from_json(text: &str) -> io::Result<Self> {
        let report: Self = serde_json::from_str(text)?;
        if !is_readable(&report.schema) {
            let (found, accepted) = (report.schema, SCHEMA);
            return Err(io::Error::other(format!(
                "schema is {found:?}, accepted: {accepted:?} and others of its major number"
            )));
        }
        Ok(report)
    }
}

fn group(known: &Known, partial: &mut Vec<String>) -> Option<Group> {
    let shared = known.shared.upgrade()?;
    // The order counts: the time and the tasks first, then what the worker does, and last what has changed. So whatever has moved since is
    // found to be young, and none of it to wait.
    let now = clock::monotonic_ns();
    let views: Vec<TaskView> = shared.core.tasks().collect();
    let contexts = shared.contexts.try_all();
    let listed = contexts.is_some();
    let is_queued = |view: &&TaskView| view.state == RunState::Init;
    let queued = u32::try_from(views.iter().filter(is_queued).count()).unwrap_or(u32::MAX);
    let contexts = contexts.unwrap_or_default();
    let worker = worker(&shared, known, &contexts, queued, partial);
    let progress = progress(&shared, &contexts, &views);
    let (moments, asked) = Moments::read(&shared, &views, worker.activity == "asleep");
    if !asked {
        partial.push(format!("the watchdog's times of {}", shared.gid));
    }
    let ticks = worker.ticks;
    let described = |view: &TaskView| {
        let mut task = task(&shared, view, listed, moments.since(view), now);
        age(&mut task, view, &moments, (now, ticks));
        task
    };
    let mut tasks: Vec<Task> = views.iter().map(described).collect();
    if !listed || tasks.iter().any(|task| task.unread) {
        partial.push(format!("the contexts of {}", shared.gid));
    }
    tasks.sort_by_key(|task| (task.rank, task.sequence));
    let counters = shared.watch.counters();
    let mut changes = moments.records.iter().rev();
    let ended = changes.find(|record| record.change.to == RunState::Done);
    Some(Group {
        gid: shared.gid.0,
        sharers: Share::try_sharers(shared.gid).unwrap_or_else(|| {
            partial.push(format!("the sharers of {}", shared.gid));
            0
        }),
        health: health(&shared, known.tid).to_owned(),
        enqueued: counters.drained.saturating_add(queued.into()),
        full: counters.full,
        ended: counters.ended,
        last_ended_exec: ended.map(|record| record.change.exec.0),
        contexts: progress,
        errors: errors(&shared, partial),
        worker,
        tasks,
        history: moments.records.iter().map(change).collect(),
        latencies: latencies::latencies(&shared.latencies.read()),
    })
}

/// How far the contexts have come. `views` were read before.
fn progress(shared: &Shared, contexts: &[Listed], views: &[TaskView]) -> Vec<ContextProgress> {
    let mut all: Vec<ContextProgress> = (contexts.iter())
        .filter_map(|context| {
            let Accounts {
                appends,
                unfinished,
            } = shared.core.accounts(context.id)?;
            let open =
                |view: &&TaskView| view.context == context.id && view.state != RunState::Done;
            let first = (views.iter().filter(open).map(|view| view.sequence)).min();
            // What has come since the tasks were read is the newest.
            let first = first.unwrap_or(appends).min(match unfinished {
                0 => appends,
                _ => first.unwrap_or(appends.saturating_sub(unfinished)),
            });
            let before = |sequence: usize| Some(sequence.checked_sub(1)? as u64);
            Some(ContextProgress {
                context: context.id.to_string(),
                rank: context.rank.0,
                last_enqueued: before(appends),
                last_completed: before(first),
            })
        })
        .collect();
    all.sort_by_key(|context| context.rank);
    all
}

/// Fills in how old a task is: in all, and in ticks of its state.
fn age(task: &mut Task, view: &TaskView, moments: &Moments, (now, ticks): (u64, u64)) {
    let seconds = |since: u64| now.saturating_sub(since) as f64 / 1e9;
    task.total_age = (view.appended > 0).then(|| seconds(view.appended));
    let there = moments.there(view).filter(|_| task.total_age.is_none());
    task.least_total_age = there.map_or(0.0, seconds);
    if let Since::At(last) = moments.since(view) {
        task.ticks_in_state = Some(ticks.saturating_sub(last.tick));
    }
}

fn errors(shared: &Shared, partial: &mut Vec<String>) -> Vec<ErrorCount> {
    let Some(errors) = shared.watch.errors() else {
        partial.push(format!("the errors of {}", shared.gid));
        return Vec::new();
    };
    let told = |(status, count): (i32, u64)| ErrorCount {
        status,
        text: Status(status).to_string(),
        count,
    };
    errors.into_iter().map(told).collect()
}

/// The files of a thread of this process.
fn thread_file(tid: u32, name: &str) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/self/task/{tid}/{name}")).ok()?;
    Some(text.trim().to_owned())
}

fn health(shared: &Shared, tid: u32) -> &'static str {
    let lives = thread_file(tid, "comm").is_some_and(|name| name.starts_with("proxy-"));
    match shared.core.shut_by() {
        Some(Shut::Dead) => "dead",
        Some(Shut::Closed) if lives => "stopping",
        Some(Shut::Closed) => "ended",
        None => "running",
    }
}

fn worker(
    shared: &Shared,
    known: &Known,
    contexts: &[Listed],
    queued: u32,
    partial: &mut Vec<String>,
) -> Worker {
    let counters = shared.watch.counters();
    let mut entered = contexts.iter();
    let entered = entered.find_map(|context| Some((context.id, context.entered?)));
    let call = shared.watch.try_sight(entered).unwrap_or_else(|_| {
        partial.push(format!("the library call of {}", shared.gid));
        None
    });
    let told = |inside: InCall| Call {
        function: inside.call.to_string(),
        age: inside.age.as_secs_f64(),
    };
    let call = call.map(told);
    let longest = shared.watch.try_longest().unwrap_or_else(|_| {
        partial.push(format!("the longest step of {}", shared.gid));
        None
    });
    let activity = match health(shared, known.tid) {
        "dead" => "dead",
        "ended" => "ended",
        _ if call.is_some() => "inside the library",
        _ if sleeps(shared, queued) => "asleep",
        _ => "awake",
    };
    let activity_age = match activity {
        "asleep" | "awake" => turned(shared),
        "inside the library" => call.as_ref().map(|call| call.age),
        _ => None,
    };
    Worker {
        name: thread_file(known.tid, "comm").unwrap_or_default(),
        tid: known.tid,
        cpus_wanted: known.cpus_wanted.clone(),
        cpus_granted: affinity::of(known.tid)
            .map(|cpus| ranges::ranges(cpus.iter()))
            .unwrap_or_default(),
        last_cpu: last_cpu(known.tid),
        activity: activity.to_owned(),
        activity_age,
        call,
        longest_step: longest.map(told),
        ticks: counters.ticks,
        steps: counters.steps,
        idle_ticks: counters.idle_ticks,
        pauses: counters.pauses,
        yields: counters.yields,
        sleeps: counters.sleeps,
        wakes: counters.rings,
        queued,
        capacity: u32::try_from(TASKS).unwrap_or(u32::MAX),
    }
}

/// Seconds since the worker went to sleep, or woke.
fn turned(shared: &Shared) -> Option<f64> {
    let since = shared.watch.turned()?;
    Some(clock::monotonic_ns().saturating_sub(since) as f64 / 1e9)
}

/// The CPU that a thread ran on last.
fn last_cpu(tid: u32) -> Option<u32> {
    let stat = thread_file(tid, "stat")?;
    // The 39th field, counted from behind the name, which may have blanks.
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(36)?.parse().ok()
}

/// How long a worker that was rung may take to wake.
const WAKING: Duration = Duration::from_millis(10);

/// Whether the worker sleeps, and is not just about to wake for what is queued: then it is found in the same sleep twice.
fn sleeps(shared: &Shared, queued: u32) -> bool {
    let asleep = || {
        let watch = &shared.watch;
        watch.is_asleep().then(|| watch.counters().sleeps)
    };
    let sleep = asleep();
    if sleep.is_none() || queued == 0 {
        return sleep.is_some();
    }
    std::thread::sleep(known::patience(WAKING));
    sleep == asleep()
}

fn change(record: &Record) -> Change {
    let change = &record.change;
    Change {
        monotonic_ns: record.time,
        rank: change.rank.0,
        kind: change.kind.to_string(),
        exec: change.exec.0,
        from: change.from.to_string(),
        to: change.to.to_string(),
        status: change.status.0,
    }
}
