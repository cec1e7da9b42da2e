//! `proxy-soak`: real rank processes over the bus and the stand-in library, round after round, most of them with a fault.
//!
//! One program plays two parts. The conductor draws each round from the seed, starts the mortal processes, hands the round to all, hurts one
//! rank as the round says, and judges what each rank tells. A host runs one or two ranks, each with all that a rank has: a place on the bus,
//! communicators of the library, a share of a worker, a simulated device. Two hosts, the residents, live as long as the soak and so are in
//! every round beside the faults of others and their own: what they leak is seen at the end.
//!
//! | module | what |
//! |---|---|
//! | [`plan`] | a round: what is run and what is done to it, from seed and number alone |
//! | [`conductor`], [`crew`] | rounds; processes and signals |
//! | [`judge`] | what a rank may say after which fault, and what was counted |
//! | [`host`], [`rank`], [`library`] | a process of ranks; one rank's round; its communicators |
//! | [`signals`] | what ends a soak from outside |
//! | [`talk`] | what both sides say |
//! | [`resources`] | what a process holds, and what is left on the machine |

mod conductor;
mod crew;
mod host;
mod judge;
mod library;
mod plan;
mod rank;
mod resources;
mod screen;
mod signals;
mod talk;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Parser;
use proxy_kit::command::{end_unparsed, within};

/// The library raises semaphores through this export of the program; the reference keeps the linker from dropping it.
#[used]
static REVERSE_EDGE: unsafe extern "C" fn(*mut u32, u32) = enc_proxy::nec_inc_semaphore;

#[derive(Debug, Parser)]
#[command(
    allow_negative_numbers = true,
    about = "Rank processes under kills, stops, aborts and early releases, for minutes."
)]
struct Cli {
    /// How long; the round that runs then is the last one.
    #[arg(long, default_value_t = 20.0, value_parser = minutes)]
    minutes: f64,
    /// No more rounds than these.
    #[arg(long, value_name = "COUNT", value_parser = count)]
    rounds: Option<u64>,
    /// Draws all rounds; a run that names none takes one from the clock and prints it.
    #[arg(long, value_name = "NUMBER", value_parser = number)]
    seed: Option<u64>,
    /// The first round, to see one again.
    #[arg(long, value_name = "NUMBER", default_value_t = 0, value_parser = number)]
    from: u64,
    /// The collective library.
    #[arg(long, value_name = "PATH")]
    library: PathBuf,
}

fn minutes(text: &str) -> Result<f64, String> {
    let minutes = text.parse().ok();
    let accepted = minutes.filter(|minutes: &f64| minutes.is_finite() && *minutes >= 0.0);
    accepted.ok_or_else(|| "accepted: a number, 0 or more; with 0 there is one round".to_owned())
}

fn count(text: &str) -> Result<u64, String> {
    within(text, 1..=u64::MAX)
}

fn number(text: &str) -> Result<u64, String> {
    within(text, 0..=u64::MAX)
}

fn main() -> ExitCode {
    if std::env::args_os()
        .nth(1)
        .is_some_and(|verb| verb == crew::HOST)
    {
        return host::main();
    }
    let cli = Cli::try_parse().unwrap_or_else(|said| {
        end_unparsed("soak", said.print(), !said.use_stderr(), said.exit_code())
    });
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let seed = now.map_or(1, |now| now.as_secs());
    let soak = conductor::Soak {
        seed: cli.seed.unwrap_or(seed),
        from: cli.from,
        rounds: cli.rounds.unwrap_or(u64::MAX),
        time: Duration::try_from_secs_f64(cli.minutes * 60.0).unwrap_or(Duration::MAX),
        library: cli.library,
    };
    let signals = match signals::Signals::take() {
        Ok(signals) => signals,
        Err(error) => return failed(&format!("cannot take over signals: {error}")),
    };
    let ended = soak.run(&signals);
    match (signals.came(), ended) {
        // What goes wrong meanwhile comes from that.
        (Some(signal), _) => {
            note(&format!(
                "ended by signal {signal}; all processes are ended"
            ));
            ExitCode::from(u8::try_from(128 + signal).unwrap_or(u8::MAX))
        }
        (None, Ok(())) => ExitCode::SUCCESS,
        (None, Err(error)) => failed(&error),
    }
}

/// Says why it failed, where all that comes out is said, else where somebody may still listen.
fn failed(error: &str) -> ExitCode {
    let line = format!("FAILED: {error}");
    if screen::say(&line).is_err() {
        note(&line);
    }
    ExitCode::FAILURE
}

/// A line on standard error, which ends nothing when it cannot be written.
fn note(text: &str) {
    let _ = std::io::stderr().write_all(format!("{text}\n").as_bytes());
}
