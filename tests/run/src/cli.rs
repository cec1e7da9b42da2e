//! The command line, with the names and meanings of `nccom-test`. What it says is checked before anything is started.

use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use proxy_kit::command::within;
use proxy_kit::dtype::Dtype;
use proxy_kit::op::Op;
use proxy_os::config::RootCommId;

use crate::job::{Check, Fault, FaultKind, Job, Sense};
use crate::launcher::Place;
use crate::layout::Layout;
use crate::size::{Bytes, SizeOptions, Sizes};
use crate::stats::Stat;

/// Most ranks of a job; the driver's queue takes as many.
const MOST_RANKS: u32 = 64;
/// Most iterations: every time of every rank is kept for the percentiles.
const MOST_ITERATIONS: u32 = 1_000_000;
/// Deadline of one execution if nobody says otherwise, in seconds: long enough for 64 ranks on two cores, short enough
/// to sit and wait for.
const TIMEOUT: u64 = 30;
/// Deadlines of one execution in seconds, by option or by `NEURON_RT_EXEC_TIMEOUT`: the longest is the one that the variable takes.
pub(crate) const SECONDS: RangeInclusive<u32> = 1..=i32::MAX.unsigned_abs();

#[derive(Debug, Parser)]
#[command(
    allow_negative_numbers = true,
    bin_name = "cargo xtask run",
    version,
    about = "Runs a collective over N ranks, through driver, library and simulated devices, and prints its speed.",
    after_help = "Sizes take the binary suffixes kb, mb and gb. GB/s are 10^9 bytes per second.\n\
                  Exit codes: 0 all well, 1 a failure, a wrong result or an environment variable that is not accepted, \
                  2 a command line that is not accepted, 128 + n ended by signal n."
)]
struct Cli {
    /// allr (all_reduce), allg (all_gather), redsct (reduce_scatter), alltoall, sendrecv or permute; or bus or barrier, which
    /// measure the host bus alone and have their own --help
    #[arg(value_parser = op)]
    op: Op,
    /// Number of ranks, 2 to 64
    #[arg(short = 'r', long = "nworkers", value_name = "N", value_parser = ranks)]
    ranks: u32,
    /// Nodes among which the ranks are divided equally. Each has a bus of its own, whose first rank speaks with those of the other
    /// nodes through the library. All nodes are on this machine, unless --root and --node-rank say otherwise
    #[arg(long, value_name = "M", default_value = "1", value_parser = share)]
    nodes: u32,
    /// Where the launchers of the nodes meet: an address of node 0, an IPv6 one in brackets, or its name, and a free port. Node 0 prints
    /// the table
    #[arg(long, value_name = "HOST:PORT", requires = "node_rank")]
    root: Option<RootCommId>,
    /// The node that this launcher starts, 0 to M - 1; the others are started with the same options on their machines
    #[arg(long, value_name = "K", requires = "root", value_parser = node)]
    node_rank: Option<u32>,
    /// Ranks of each process, as threads of it; the last process may have fewer
    #[arg(long, value_name = "K", default_value = "1", value_parser = share)]
    ranks_per_process: u32,
    /// Ranks that share one worker, which are ranks of one process: K must divide --ranks-per-process, or the process have all
    /// ranks [default: NEURON_RT_RANKS_PER_NETWORK_PROXY, or 1]
    #[arg(long, value_name = "K", value_parser = share)]
    ranks_per_proxy: Option<u32>,
    /// Smallest size
    #[arg(short = 'b', long, value_name = "SIZE", default_value = "32MB")]
    minbytes: Bytes,
    /// Largest size
    #[arg(short = 'e', long, value_name = "SIZE", default_value = "32MB")]
    maxbytes: Bytes,
    /// Added to a size to give the next one [default: a tenth of the range]
    #[arg(short = 'i', long, value_name = "SIZE", conflicts_with = "stepfactor")]
    stepbytes: Option<Bytes>,
    /// A size is multiplied by this to give the next one
    #[arg(short = 'f', long, value_name = "FACTOR", value_parser = factor)]
    stepfactor: Option<u64>,
    /// Measured iterations of each size
    #[arg(short = 'n', long, value_name = "COUNT", default_value = "20", value_parser = iterations)]
    iters: u32,
    /// Iterations before the measured ones
    #[arg(short = 'w', long, value_name = "COUNT", default_value = "5", value_parser = warmup)]
    warmup_iters: u32,
    /// uint8, int8, uint16, int16, fp16, bf16, uint32, int32 or fp32
    #[arg(short = 'd', long, value_name = "TYPE", default_value = "uint8")]
    datatype: Dtype,
    /// Check the results of inputs of this kind on every rank
    #[arg(short = 'c', long, value_name = "INPUT", value_enum)]
    check: Option<Check>,
    /// Seed of random inputs [default: the time]
    #[arg(long, value_name = "NUMBER", value_parser = seed)]
    seed: Option<u64>,
    /// Statistics of the iteration times, separated by commas: avg, pNN; bandwidths are made from the first
    #[arg(
        short = 't',
        long,
        value_name = "LIST",
        default_value = "avg",
        value_delimiter = ','
    )]
    stats: Vec<Stat>,
    /// Write the results to this file, too
    #[arg(long, value_name = "FILE")]
    report_to_json_file: Option<PathBuf>,
    /// Write what each worker of this launcher's ranks did to this file, for Perfetto or chrome://tracing; `cargo xtask timeline FILE -o
    /// out.svg` makes a picture of it
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Show no progress
    #[arg(long)]
    non_interactive: bool,
    /// Show what the ranks write to standard error, their processes and their settings
    #[arg(long)]
    debug: bool,
    /// The collective library: a path, or a name that the dynamic loader searches
    #[arg(long, value_name = "PATH", default_value = "libnccom.so")]
    library: PathBuf,
    /// Streams of each collective, 1 to 4
    #[arg(long, value_name = "COUNT", default_value = "1", value_parser = streams)]
    streams: u32,
    /// Basic blocks of each stream, 1 to 3
    #[arg(long, value_name = "COUNT", default_value = "1", value_parser = blocks)]
    blocks: u32,
    /// Whether a send may complete before the wire has it, 0 or 1 [default: NEURON_RT_DBG_EARLY_COMPLETION, or 1]
    #[arg(long, value_name = "SWITCH", value_parser = switch)]
    early_completion: Option<u32>,
    /// Sense of the device's start words
    #[arg(
        long,
        value_name = "SENSE",
        value_enum,
        default_value = "specification"
    )]
    polarity: Sense,
    /// Leave out the execution barrier; NEURON_RT_DISABLE_EXECUTION_BARRIER=1 does so, too
    #[arg(long)]
    no_barrier: bool,
    /// Deadline of one execution in seconds [default: NEURON_RT_EXEC_TIMEOUT, or 30]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<u32>,
    /// Let a rank misbehave, to see what is reported: RANK:wrong, RANK:hang, RANK:exit, RANK:signature or
    /// RANK:execution
    #[arg(long, value_name = "RANK:KIND")]
    fault: Option<Fault>,
}

/// What concerns the launcher alone.
#[derive(Debug)]
pub(crate) struct Output {
    /// Statistics to show, at least one.
    pub(crate) stats: Vec<Stat>,
    /// The JSON file.
    pub(crate) json: Option<PathBuf>,
    /// The trace.
    pub(crate) trace: Option<PathBuf>,
    /// No progress line.
    pub(crate) non_interactive: bool,
    /// Messages of the ranks are shown.
    pub(crate) debug: bool,
    /// The deadline was given on the command line.
    pub(crate) timeout_given: bool,
    /// The seed was given on the command line.
    pub(crate) seed_given: bool,
    /// This is one of several launchers, each on a node of its own.
    pub(crate) place: Option<Place>,
}

/// Reads the command line of this process. The error knows how to print itself and its exit code; help is one, too.
pub(crate) fn parse() -> Result<(Job, Output), clap::Error> {
    check(Cli::try_parse()?)
}

/// Where the op stands among the arguments of this process, behind what options there may be; none if there is no op.
pub(crate) fn place_of_op(args: &[OsString]) -> Option<usize> {
    let command = Cli::command();
    let takes_value = |is: &dyn Fn(&clap::Arg) -> bool| {
        let mut options = command.get_arguments().filter(|arg| is(arg));
        options.any(|arg| arg.get_action().takes_values())
    };
    let mut place = 1;
    while let Some(arg) = args.get(place) {
        let text = arg.to_string_lossy();
        // An option has its value in the next argument unless it has it behind it: -r 2 and --nworkers 2, not -r2, --nworkers=2.
        let apart = match (text.strip_prefix("--"), text.strip_prefix('-')) {
            (Some(""), _) => return Some(place + 1).filter(|place| *place < args.len()),
            (Some(long), _) => takes_value(&|arg| arg.get_long() == Some(long)),
            (None, Some(short)) => {
                let mut letters = short.chars();
                let letter = letters.next();
                letters.next().is_none() && takes_value(&|arg| letter == arg.get_short())
            }
            (None, None) => return Some(place),
        };
        place += 1 + usize::from(apart);
    }
    None
}

/// Reads a command line given as one text.
#[cfg(test)]
pub(crate) fn parse_from(args: &str) -> Result<(Job, Output), clap::Error> {
    check(Cli::try_parse_from(
        std::iter::once("run").chain(args.split_whitespace()),
    )?)
}

fn check(cli: Cli) -> Result<(Job, Output), clap::Error> {
    let refuse = |message: String| Cli::command().error(ErrorKind::ValueValidation, message);
    let options = SizeOptions {
        min: cli.minbytes,
        max: cli.maxbytes,
        add: cli.stepbytes,
        factor: cli.stepfactor,
    };
    let element = cli.datatype.size() as u64;
    let sizes = Sizes::new(&options, element, cli.datatype.name()).map_err(refuse)?;
    let layout = Layout::new(
        cli.ranks,
        cli.nodes,
        cli.ranks_per_process,
        cli.ranks_per_proxy,
    );
    let layout = layout.map_err(refuse)?;
    let place = place(&cli).map_err(refuse)?;
    check_fault(&cli).map_err(refuse)?;
    check_files(&cli).map_err(refuse)?;
    let job = Job {
        op: cli.op,
        dtype: cli.datatype,
        layout,
        sizes,
        iters: cli.iters,
        warmup: cli.warmup_iters,
        check: cli.check,
        seed: cli.seed.unwrap_or_else(seed_of_time),
        streams: cli.streams as usize,
        blocks: cli.blocks as usize,
        early_completion: cli.early_completion.map(|switch| switch == 1),
        polarity: cli.polarity,
        barrier: !cli.no_barrier,
        timeout: cli.timeout.map_or(TIMEOUT, u64::from),
        library: cli.library.into_os_string(),
        fault: cli.fault,
    };
    let output = Output {
        stats: cli.stats,
        json: cli.report_to_json_file,
        trace: cli.trace,
        non_interactive: cli.non_interactive,
        debug: cli.debug,
        timeout_given: cli.timeout.is_some(),
        seed_given: cli.seed.is_some(),
        place,
    };
    Ok((job, output))
}

/// A fault needs its rank, and a wrong result somebody who sees it.
fn check_fault(cli: &Cli) -> Result<(), String> {
    let Some(fault) = cli.fault else {
        return Ok(());
    };
    if fault.rank >= cli.ranks {
        return Err(format!(
            "--fault names rank {}, accepted: 0 to {}",
            fault.rank,
            cli.ranks - 1
        ));
    }
    if fault.kind == FaultKind::Wrong && cli.check.is_none() {
        return Err(
            "--fault RANK:wrong needs a check; accepted: with -c random or -c all_ones".to_owned(),
        );
    }
    Ok(())
}

/// What is written has a file of its own.
fn check_files(cli: &Cli) -> Result<(), String> {
    match (&cli.trace, &cli.report_to_json_file) {
        (Some(trace), Some(json)) if trace == json => Err(format!(
            "--trace and --report-to-json-file are both {}; accepted: a file for each",
            json.display()
        )),
        _ => Ok(()),
    }
}

/// Where this launcher stands among several.
fn place(cli: &Cli) -> Result<Option<Place>, String> {
    let (Some(root), Some(node)) = (&cli.root, cli.node_rank) else {
        return Ok(None);
    };
    if cli.nodes < 2 {
        return Err(format!(
            "--node-rank is {node} and --nodes {}; accepted: --nodes 2 or more, with one launcher for each",
            cli.nodes
        ));
    }
    if node >= cli.nodes {
        return Err(format!(
            "--node-rank is {node}, accepted: 0 to {}, as --nodes is {}",
            cli.nodes - 1,
            cli.nodes
        ));
    }
    if let Some(path) = cli.report_to_json_file.as_deref().filter(|_| node > 0) {
        return Err(format!(
            "--report-to-json-file is {} on node {node}; accepted: on node 0, which has all results",
            path.display()
        ));
    }
    let root = root.clone();
    Ok(Some(Place { root, node }))
}

fn seed_of_time() -> u64 {
    // A clock before 1970 gives no seed of its own, which does no harm.
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    since.as_secs() ^ u64::from(since.subsec_nanos()) << 32
}

/// An op; what else can stand in its place is a verb of its own.
fn op(text: &str) -> Result<Op, String> {
    text.parse()
        .map_err(|error| format!("{error}, or bus or barrier"))
}

/// A seed: any number that fits.
fn seed(text: &str) -> Result<u64, String> {
    within(text, 0..=u64::MAX)
}

fn streams(text: &str) -> Result<u32, String> {
    within(text, 1..=4)
}

fn blocks(text: &str) -> Result<u32, String> {
    within(text, 1..=3)
}

fn switch(text: &str) -> Result<u32, String> {
    within(text, 0..=1)
}

/// A deadline in seconds.
pub(crate) fn seconds(text: &str) -> Result<u32, String> {
    within(text, SECONDS)
}

/// A number of ranks.
pub(crate) fn ranks(text: &str) -> Result<u32, String> {
    within(text, 2..=MOST_RANKS)
}

/// A share of the ranks. How large it may be is a matter of the others.
fn share(text: &str) -> Result<u32, String> {
    within(text, 1..=MOST_RANKS)
}

fn node(text: &str) -> Result<u32, String> {
    within(text, 0..=MOST_RANKS - 1)
}

/// A number of measured operations.
pub(crate) fn iterations(text: &str) -> Result<u32, String> {
    within(text, 1..=MOST_ITERATIONS)
}

/// A number of operations before the measured ones.
pub(crate) fn warmup(text: &str) -> Result<u32, String> {
    within(text, 0..=MOST_ITERATIONS)
}

fn factor(text: &str) -> Result<u64, String> {
    within(text, 2..=u32::MAX).map(u64::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_itself_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn defaults_are_those_of_the_reference_tool() {
        let (job, output) = parse_from("allr -r 2").unwrap();
        assert_eq!(job.sizes.iter().collect::<Vec<_>>(), [32 << 20]);
        assert_eq!(
            (job.iters, job.warmup, job.dtype, job.check),
            (20, 5, Dtype::Uint8, None)
        );
        assert_eq!((output.stats, job.timeout), (vec![Stat::Average], 30));
    }

    #[test]
    fn the_readme_command_is_read() {
        let (job, _) =
            parse_from("allr -r 4 -b 1kb -e 1mb -f 2 -d fp32 -c random --seed 7 -t avg,p99")
                .unwrap();
        assert_eq!(job.sizes.iter().count(), 11);
        assert_eq!((job.check, job.seed), (Some(Check::Random), 7));
    }

    #[test]
    fn the_op_is_found_wherever_it_stands() {
        for (args, place) in [
            ("bus -r 2", Some(1)),
            ("-r 2 bus", Some(3)),
            ("-r2 --timeout=5 bus", Some(3)),
            ("--library bus -r 2 barrier", Some(5)),
            ("--no-barrier --nworkers 4 -n 1 allr", Some(6)),
            ("-r 2 -- bus", Some(4)),
            ("-r 2", None),
            ("-r", None),
            ("--", None),
        ] {
            let args = std::iter::once("run").chain(args.split_whitespace());
            let args: Vec<OsString> = args.map(OsString::from).collect();
            assert_eq!(place_of_op(&args), place, "{args:?}");
        }
    }

    /// What the option and the variable take is the same.
    #[test]
    fn a_deadline_has_one_ceiling() {
        let most = SECONDS.end().to_string();
        let beyond = (u64::from(*SECONDS.end()) + 1).to_string();
        for (value, good) in [(most, true), (beyond, false)] {
            let given =
                |name: &str| (name == "NEURON_RT_EXEC_TIMEOUT").then(|| value.clone().into());
            assert_eq!(
                proxy_os::Settings::from_lookup(given).is_ok(),
                good,
                "{value}"
            );
            let parsed = parse_from(&format!("allr -r 2 --timeout {value}"));
            assert_eq!(parsed.is_ok(), good, "{value}");
        }
    }

    #[test]
    fn every_refusal_has_value_and_what_is_accepted_and_code_2() {
        for (args, parts) in [
            ("allr -r 0", &["'0'", "--nworkers", "accepted: 2 to 64"][..]),
            ("allr -r 65", &["'65'", "accepted: 2 to 64"]),
            ("allr -r +4", &["'+4'", "accepted: 2 to 64"]),
            ("allr", &["--nworkers <N>"]),
            (
                "bcast -r 2",
                &["\"bcast\"", "allr allg redsct alltoall sendrecv permute"],
            ),
            (
                "allr -r 2 -b 3 -d fp32",
                &["-b/--minbytes is 3 bytes", "multiples of 4, such as 0 or 4"],
            ),
            (
                "allr -r 2 -b 2kb -e 1kb",
                &["2KB", "above -e/--maxbytes 1KB"],
            ),
            ("allr -r 2 -f 1", &["'1'", "--stepfactor", "accepted: 2 to"]),
            ("allr -r 2 -f 2 -i 4", &["cannot be used with"]),
            ("allr -r 2 -b 1x", &["'1x'", "accepted: bytes"]),
            ("allr -r 2 -t avg,max", &["'max'", "accepted: avg, or p"]),
            ("allr -r 2 -d fp64", &["fp64", "uint8 int8"]),
            ("allr -r 2 -c zeros", &["zeros", "random", "all_ones"]),
            ("allr -r 2 -n 0", &["'0'", "accepted: 1 to"]),
            ("allr -r 2 --streams 5", &["5", "1 to 4"]),
            ("allr -r 2 --blocks 0", &["0", "1 to 3"]),
            ("allr -r 2 --seed -1", &["'-1'", "--seed", "accepted: 0 to"]),
            ("allr -r 2 --timeout 0", &["--timeout", "1 to 2147483647"]),
            (
                "allr -r 2 --polarity up",
                &["up", "specification", "header"],
            ),
            ("allr -r 2 --fault 2:hang", &["rank 2", "accepted: 0 to 1"]),
        ] {
            let error = parse_from(args).expect_err(args);
            let text = error.to_string();
            assert!(
                parts.iter().all(|part| text.contains(part)),
                "{args}: {text}"
            );
            assert_eq!(error.exit_code(), 2, "{args}");
        }
    }
}
