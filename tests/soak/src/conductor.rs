//! Round after round: hand it out, hurt who is to be hurt, hear everybody, judge, and look at the end what is left.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use crate::crew::Host;
use crate::judge::{Counts, judge};
use crate::plan::{FIRST, Fault, Kind, RESIDENTS, Round};
use crate::rank::EXIT;
use crate::resources::{Resources, left_behind};
use crate::screen::{Screen, say};
use crate::signals::Signals;
use crate::talk::{Assignment, News, Order, Report};

/// How long a round may take besides its deadlines, on a machine with too much to run.
const LIMIT: Duration = Duration::from_secs(90);
/// How long a process may take to end, or to answer.
const PROMPT: Duration = Duration::from_secs(20);

/// A whole soak.
#[derive(Debug)]
pub(crate) struct Soak {
    /// Draws the rounds.
    pub(crate) seed: u64,
    /// The first of them.
    pub(crate) from: u64,
    /// How many at most.
    pub(crate) rounds: u64,
    /// For how long; at least one.
    pub(crate) time: Duration,
    /// The collective library.
    pub(crate) library: PathBuf,
}

type Heard = (usize, Option<News>);
/// Who is heard when a signal has come, which is no process.
const SIGNALLED: usize = usize::MAX;
/// Why it is over then.
const ENDED: &str = "ended by a signal";
/// How long what a host has said before it ended may be on its way.
const LAST_WORDS: Duration = Duration::from_millis(100);

/// What lives from round to round.
struct Stage<'a> {
    soak: &'a Soak,
    folder: &'a Path,
    job: String,
    residents: Vec<Host>,
    /// Number of the next process: no two have the same.
    next: usize,
    speak: Sender<Heard>,
    hear: Receiver<Heard>,
    counts: Counts,
}

impl Soak {
    /// Runs until the time is over or something is wrong, and says what came out.
    pub(crate) fn run(&self, signals: &Signals) -> Result<(), String> {
        say(&format!("soak: seed {}", self.seed))?;
        let (speak, hear) = mpsc::channel();
        // Before anything is measured: its thread is there to the end.
        let told = speak.clone();
        signals.watch(move || drop(told.send((SIGNALLED, None))));
        let job = format!("proxy-soak-{}", std::process::id());
        let folder = std::env::temp_dir().join(&job);
        std::fs::create_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let done = self.run_in(&folder, job, (speak, hear));
        // What it still holds was named.
        let _ = std::fs::remove_dir_all(&folder);
        done
    }

    fn run_in(
        &self,
        folder: &Path,
        job: String,
        ears: (Sender<Heard>, Receiver<Heard>),
    ) -> Result<(), String> {
        let before = (left_behind(&job, folder), Resources::measure());
        let mut stage = Stage::new(self, folder, job, ears)?;
        let done = stage.rounds().map_err(|error| stage.explained(error));
        let counted = say(&stage.counts.to_string());
        done.and(counted)?;
        let Stage { residents, job, .. } = stage;
        for resident in residents {
            let status = resident.dismiss(PROMPT)?;
            if !status.success() {
                return Err(format!("a resident ended with {status}"));
            }
        }
        self.nothing_is_left(&job, folder, &before)
    }

    /// The machine, and this process, are as they were.
    fn nothing_is_left(
        &self,
        job: &str,
        folder: &Path,
        before: &(BTreeSet<String>, Resources),
    ) -> Result<(), String> {
        let since = Instant::now();
        loop {
            // The threads that listened to processes end a moment after these.
            let now = (left_behind(job, folder), Resources::measure());
            let left: Vec<_> = now.0.difference(&before.0).collect();
            // Its memory is the allocator's business: it has a thread for each process that it listens to.
            if left.is_empty() && now.1.has_given_back(&before.1) {
                say(&format!("conductor at the end: {}", now.1))?;
                return say(&format!("soak: clean, seed {}", self.seed));
            }
            if since.elapsed() > PROMPT {
                let (was, is) = (before.1, now.1);
                return Err(format!(
                    "left on the machine {left:?}; conductor before {was}; after {is}"
                ));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl<'a> Stage<'a> {
    fn new(
        soak: &'a Soak,
        folder: &'a Path,
        job: String,
        (speak, hear): (Sender<Heard>, Receiver<Heard>),
    ) -> Result<Self, String> {
        let mut stage = Self {
            soak,
            folder,
            job,
            residents: Vec::new(),
            next: 0,
            speak,
            hear,
            counts: Counts::default(),
        };
        for _ in 0..RESIDENTS {
            let (_, host) = stage.start()?;
            stage.residents.push(host);
        }
        Ok(stage)
    }

    /// What is behind an error, if a host has said it: one that ends is noticed by whoever tells it something, too.
    fn explained(&self, error: String) -> String {
        let more = || self.hear.recv_timeout(LAST_WORDS).ok();
        let said = std::iter::from_fn(more).find_map(|(_, news)| match news {
            Some(News::Failed(text)) => Some(text),
            _ => None,
        });
        said.unwrap_or(error)
    }

    fn start(&mut self) -> Result<(usize, Host), String> {
        let number = self.next;
        self.next += 1;
        let speak = self.speak.clone();
        let host = Host::start(number, &self.soak.library, self.folder, speak)?;
        Ok((number, host))
    }

    /// All rounds. What the residents hold after the first ones, which have every fault once, is what they hold at the end.
    fn rounds(&mut self) -> Result<(), String> {
        let (since, mut screen) = (Instant::now(), Screen::new());
        let mut at_rest: Option<Vec<Resources>> = None;
        for done in 0..self.soak.rounds {
            if done == FIRST {
                at_rest = Some(self.measure_at_rest()?);
            }
            if done > 0 && since.elapsed() >= self.soak.time {
                break;
            }
            let number = self.soak.from + done;
            let round = Round::draw(self.soak.seed, number);
            let minutes = since.elapsed().as_secs_f64() / 60.0;
            screen.progress(&format!(
                "{minutes:.1} min: {}; {round}",
                self.counts.brief()
            ));
            self.round(&round).map_err(|wrong| {
                screen.end();
                let seed = self.soak.seed;
                format!(
                    "{round}\n  {wrong}\nsee it again: --seed {seed} --from {number} --rounds 1"
                )
            })?;
        }
        screen.end();
        match at_rest {
            Some(before) => self.compare(&before),
            None => say(&format!(
                "resources: not compared, as fewer than {FIRST} rounds were run"
            )),
        }
    }

    /// The residents hold what they held.
    fn compare(&mut self, before: &[Resources]) -> Result<(), String> {
        let now = self.measure_at_rest()?;
        for (place, (was, is)) in before.iter().zip(&now).enumerate() {
            say(&format!(
                "resident {place} after {FIRST} rounds: {was}\nresident {place} at the end:   {is}"
            ))?;
        }
        let is_back = before.iter().zip(&now).all(|(was, is)| is.is_back_at(was));
        if is_back {
            return Ok(());
        }
        Err("a resident does not give back what it held".to_owned())
    }

    /// What the residents hold between two rounds. Threads of ranks, and the watchdog's, end a moment after their last word, and give
    /// their stacks back then.
    fn measure_at_rest(&mut self) -> Result<Vec<Resources>, String> {
        let since = Instant::now();
        loop {
            let found = self.measure()?;
            if found.iter().all(Resources::is_at_rest) || since.elapsed() > PROMPT {
                return Ok(found);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn measure(&mut self) -> Result<Vec<Resources>, String> {
        let mut found = Vec::new();
        for place in 0..self.residents.len() {
            self.residents[place].tell(&Order::Measure)?;
            match self.hear.recv_timeout(PROMPT) {
                Ok((_, Some(News::Measured(resources)))) => found.push(resources),
                Ok((SIGNALLED, None)) => return Err(ENDED.to_owned()),
                // The end of a mortal's output, which comes when it likes.
                Ok((number, None)) if number >= RESIDENTS => {
                    return self.measure();
                }
                other => return Err(format!("resident {place} says {other:?}")),
            }
        }
        Ok(found)
    }

    fn round(&mut self, round: &Round) -> Result<(), String> {
        let mut mortals = Vec::new();
        for _ in RESIDENTS..round.processes.len() {
            mortals.push(self.start()?);
        }
        self.hand_out(round, &mut mortals)?;
        let reports = self.attend(round, &mortals)?;
        let started = mortals.len() as u64;
        let place = round.fault.map(|fault| round.process_of(fault.victim));
        for (at, (_, mortal)) in mortals.into_iter().enumerate() {
            let status = mortal.dismiss(PROMPT)?;
            let fault = round.fault.filter(|_| place == Some(at + RESIDENTS));
            ended_as_it_should(fault, status)?;
        }
        self.counts.round(round, &reports, started);
        let wrong = reports.iter().find_map(|report| judge(round, report));
        // What the others say may be nearer to the cause.
        let all = |wrong| Err(format!("{wrong}\n  of {reports:?}"));
        wrong.map_or(Ok(()), all)
    }

    fn hand_out(&mut self, round: &Round, mortals: &mut [(usize, Host)]) -> Result<(), String> {
        let root = root(round.number);
        let residents = self.residents.iter_mut();
        let hosts = residents.chain(mortals.iter_mut().map(|(_, host)| host));
        for (host, ranks) in hosts.zip(&round.processes) {
            host.tell(&Order::Run(Box::new(Assignment {
                round: round.clone(),
                ranks: ranks.clone(),
                root: root.clone(),
                job: self.job.clone(),
            })))?;
        }
        Ok(())
    }

    /// Hears every rank that is to end by itself, and does to the victim what is to be done.
    fn attend(&self, round: &Round, mortals: &[(usize, Host)]) -> Result<Vec<Report>, String> {
        let victim = round.fault.map(|fault| {
            let place = round.process_of(fault.victim);
            let host = match place.checked_sub(RESIDENTS) {
                None => &self.residents[place],
                Some(mortal) => &mortals[mortal].1,
            };
            (fault, host)
        });
        let dies = |rank: &u32| {
            round
                .fault
                .is_some_and(|fault| fault.kind.is_fatal() && fault.victim == *rank)
        };
        let mut silent: BTreeSet<u32> = (0..round.ranks()).filter(|rank| !dies(rank)).collect();
        let mut reports = BTreeMap::new();
        let until = Instant::now() + LIMIT + 2 * round.deadline;
        while !silent.is_empty() {
            let left = until.saturating_duration_since(Instant::now());
            let news = match self.hear.recv_timeout(left) {
                Ok((_, Some(News::Failed(text)))) => return Err(text),
                Ok((_, Some(news))) => news,
                Ok((SIGNALLED, None)) => return Err(ENDED.to_owned()),
                Ok((number, None)) => {
                    self.may_end(number, round, mortals)?;
                    continue;
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    return Err(format!(
                        "hang: nothing from ranks {silent:?}; heard {:?}",
                        reports.values()
                    ));
                }
            };
            match (news, victim) {
                (News::Reached(_), Some((fault, host))) => hurt(&fault, host),
                (News::Over(report), _) => {
                    silent.remove(&report.rank);
                    reports.insert(report.rank, report);
                    awaken(&silent, victim);
                }
                _ => {}
            }
        }
        if let Some((fault, host)) = victim
            && fault.kind == Kind::StopForGood
        {
            host.signal(libc::SIGKILL);
        }
        Ok(reports.into_values().collect())
    }

    /// A process has ended in the middle of a round: as the fault says, or it is wrong. Those of earlier rounds may.
    fn may_end(
        &self,
        number: usize,
        round: &Round,
        mortals: &[(usize, Host)],
    ) -> Result<(), String> {
        let place = mortals.iter().position(|(mortal, _)| *mortal == number);
        let place = match place {
            Some(mortal) => mortal + RESIDENTS,
            None if number < RESIDENTS => number,
            None => return Ok(()),
        };
        let fatal = round.fault.filter(|fault| fault.kind.is_fatal());
        if fatal.is_some_and(|fault| round.process_of(fault.victim) == place) {
            return Ok(());
        }
        Err(format!("process {place} of the round ended by itself"))
    }
}

/// What the conductor does to the victim that has begun the execution.
fn hurt(fault: &Fault, host: &Host) {
    std::thread::sleep(fault.delay);
    match fault.kind {
        Kind::Kill => host.signal(libc::SIGKILL),
        Kind::StopBriefly => {
            host.signal(libc::SIGSTOP);
            // Far longer than a tick, far shorter than the deadline.
            std::thread::sleep(fault.delay * 20);
            host.signal(libc::SIGCONT);
        }
        Kind::StopLong | Kind::StopForGood => host.signal(libc::SIGSTOP),
        _ => {}
    }
}

/// Lets a victim go on that was stopped until all others have ended.
fn awaken(silent: &BTreeSet<u32>, victim: Option<(Fault, &Host)>) {
    if let Some((fault, host)) = victim
        && fault.kind == Kind::StopLong
        && silent.iter().eq([&fault.victim])
    {
        host.signal(libc::SIGCONT);
    }
}

/// How a mortal process may end: by its fault, or well.
fn ended_as_it_should(fault: Option<Fault>, status: ExitStatus) -> Result<(), String> {
    let right = match fault.map(|fault| fault.kind) {
        Some(Kind::Kill | Kind::StopForGood) => status.signal() == Some(libc::SIGKILL),
        Some(Kind::Exit) => status.code() == Some(EXIT),
        _ => status.success(),
    };
    if right {
        return Ok(());
    }
    Err(format!("a process ended with {status}"))
}

/// Where the library's ranks of a round meet: an address of the loopback network that only this process uses, so that the port is free.
fn root(number: u64) -> String {
    let [high, low] = (std::process::id() as u16).to_be_bytes();
    format!(
        "127.{}.{low}.{}:{}",
        1 + high % 254,
        1 + number % 250,
        20_000 + number % 10_000
    )
}
