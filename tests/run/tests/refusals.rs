//! What is not accepted: one clear message, before anything is moved, and the right exit code.

mod common;

use std::ffi::OsStr;
use std::fs;
use std::net::TcpListener;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use common::{Running, command, compile, free_port, library, run, scratch, start_command};

#[test]
fn a_size_beyond_the_machines_memory_is_refused_before_anything_starts() {
    let outcome = run("allr -r 64 -b 64gb -e 64gb");
    outcome.assert(
        1,
        &[
            "64 ranks of 68719476736 bytes need 8388608 MB of memory",
            "a smaller size (-e)",
        ],
    );
    assert_eq!(outcome.stdout, "");
}

/// Command lines, and what is said of each.
const REFUSED: &[(&str, &[&str])] = &[
    ("allr -r 0", &["'0'", "--nworkers", "accepted: 2 to 64"]),
    ("allr -r 65", &["'65'", "accepted: 2 to 64"]),
    (
        "allr -r 2 -b 3 -d fp32",
        &[
            "-b/--minbytes is 3 bytes",
            "fp32",
            "multiples of 4, such as 0 or 4",
        ],
    ),
    (
        "allr -r 2 -b 8 -e 4",
        &["-b/--minbytes is 8", "above -e/--maxbytes 4"],
    ),
    (
        "bcast -r 2",
        &[
            "\"bcast\"",
            "accepted: allr allg redsct alltoall sendrecv permute",
        ],
    ),
    ("allr -r 2 -f 1", &["'1'", "--stepfactor", "accepted: 2 to"]),
    (
        "allr -r 2 -t p101",
        &["'p101'", "--stats", "accepted: avg, or p and a percentage"],
    ),
    ("", &["--nworkers <N>", "<OP>"]),
    ("allr -r 2 --nope", &["'--nope'"]),
    ("-r 2 --nope bus", &["'--nope'"]),
    ("allr -r 2 --seed -1", &["'-1'", "--seed", "accepted: 0 to"]),
    (
        "allr -r 2 --timeout 1d",
        &["'1d'", "--timeout", "accepted: 1 to 2147483647"],
    ),
    ("allr -r 2 --fault 1", &["'1'", "--fault", "accepted: "]),
    ("allr -r 2 --nodes 3", &["--nodes", "accepted: "]),
    (
        "allr -r 2 --root here --node-rank 0 --nodes 2",
        &["'here'", "--root", "accepted: "],
    ),
    (
        "bus -r 2 --timeout -1",
        &["'-1'", "--timeout", "accepted: 1 to 2147483647"],
    ),
    (
        "bus -r 2 -w x",
        &["'x'", "--warmup-iters", "accepted: 0 to"],
    ),
    ("allr -r 2 -c", &["--check", "random, all_ones"]),
    ("allr -r 2 -c=", &["--check", "random, all_ones"]),
    (
        "allr -r 2 --trace same --report-to-json-file same",
        &[
            "--trace and --report-to-json-file are both same",
            "accepted: a file for each",
        ],
    ),
    ("bus", &["--nworkers <N>"]),
    ("barrier -r 1", &["'1'", "--nworkers", "accepted: 2 to 64"]),
];

#[test]
fn command_lines_that_are_not_accepted_end_with_code_2() {
    for (args, parts) in REFUSED {
        let outcome = run(args);
        outcome.assert(2, parts);
        assert_eq!(outcome.stdout, "", "{args}");
        assert_eq!(outcome.stderr.matches("error:").count(), 1, "{outcome:?}");
    }
}

#[test]
fn a_json_path_that_cannot_be_written_is_told_before_the_run() {
    let outcome = run("allr -r 2 --report-to-json-file /nonexistent/results.json");
    outcome.assert(
        2,
        &[
            "--report-to-json-file /nonexistent/results.json: No such file",
            "accepted: a file that can be written",
        ],
    );
    assert_eq!(outcome.stdout, "");
}

/// A FIFO without a reader would hold up whoever opens it; with one it is a file like any other.
#[test]
fn a_fifo_as_json_path_is_told_without_a_reader_and_written_with_one() {
    let path = scratch("fifo.json");
    let made = Command::new("mkfifo").arg(&path).status();
    assert!(made.expect("mkfifo starts").success());
    let args = format!(
        "allr -r 2 -b 4 -e 4 -n 1 --report-to-json-file {}",
        path.display()
    );
    run(&args).assert(
        2,
        &["No such device", "accepted: a file that can be written"],
    );
    let fifo = path.clone();
    let reader = std::thread::spawn(move || fs::read_to_string(fifo).expect("text"));
    let since = std::time::Instant::now();
    // Until the reader is there it is refused as above.
    let written = loop {
        let outcome = run(&args);
        if outcome.code() != 2 || since.elapsed() > std::time::Duration::from_secs(60) {
            break outcome;
        }
    };
    written.assert(0, &[]);
    let text = reader.join().expect("no panic");
    assert!(text.contains("\"results\""), "{text}");
    fs::remove_file(&path).expect("the FIFO");
}

#[test]
fn help_and_version_are_no_errors() {
    for args in [
        "-h",
        "--help",
        "-V",
        "--version",
        "bus --help",
        "barrier -V",
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_proxy-run"));
        command.args(args.split_whitespace());
        let outcome = start_command(command).finish();
        outcome.assert(0, &[]);
        assert_eq!(outcome.stderr, "", "{args}");
        assert!(!outcome.stdout.is_empty(), "{args}");
        let version = args.to_uppercase().contains('V');
        let told = outcome.stdout.contains(env!("CARGO_PKG_VERSION"));
        assert_eq!(told, version, "{args}: {outcome:?}");
    }
}

/// Whoever finds it out, launcher, rank or library: one message with variable, value and what is accepted, one exit code, and no table.
#[test]
fn a_bad_variable_is_told_once_with_one_exit_code() {
    for (name, value, told) in [
        (
            "NEURON_RT_EXEC_TIMEOUT",
            "soon",
            "NEURON_RT_EXEC_TIMEOUT=\"soon\" (environment) is not accepted",
        ),
        (
            "NEURON_RT_EXEC_TIMEOUT",
            "0",
            "NEURON_RT_EXEC_TIMEOUT=\"0\" (environment) is not accepted; accepted: a whole number of seconds, 1..",
        ),
        (
            "NEURON_RT_ROOT_COMM_ID",
            "here",
            "NEURON_RT_ROOT_COMM_ID=\"here\" (environment) is not accepted",
        ),
        (
            "NEURON_RT_ROOT_COMM_ID",
            "192.0.2.1:5000",
            "NEURON_RT_ROOT_COMM_ID is 192.0.2.1:5000, where this machine cannot listen",
        ),
        (
            "NEURON_RT_RANKS_PER_NETWORK_PROXY",
            "0",
            "NEURON_RT_RANKS_PER_NETWORK_PROXY=\"0\" (environment) is not accepted",
        ),
        (
            "NEURON_RT_LOG_LEVEL",
            "loud",
            "NEURON_RT_LOG_LEVEL=\"loud\" (environment) is not accepted",
        ),
        (
            "NEURON_CCOM_SOCK_TIMEOUT",
            "0",
            "NEURON_CCOM_SOCK_TIMEOUT is '0'",
        ),
    ] {
        let mut command = command("allr -r 4 -b 4 -e 4");
        command.env(name, value);
        let outcome = start_command(command).finish();
        outcome.assert(1, &[told, "accepted"]);
        assert_eq!(outcome.stdout, "", "{name}");
        assert_eq!(outcome.stderr.matches(name).count(), 1, "{outcome:?}");
        assert_eq!(outcome.stderr.matches("error:").count(), 1, "{outcome:?}");
    }
}

#[test]
fn a_library_that_is_not_there_is_told_once() {
    let outcome = run("allr -r 4 --library /nonexistent/libnccom.so");
    outcome.assert(
        1,
        &[
            "error: --library /nonexistent/libnccom.so: cannot open the collectives library",
            "\"/nonexistent/libnccom.so\"",
            "LD_LIBRARY_PATH",
        ],
    );
    assert_eq!(outcome.stdout, "");
    assert_eq!(outcome.stderr.matches("error:").count(), 1, "{outcome:?}");
}

/// What would end a rank by a signal, or hold it up, if the loader were let near it.
#[test]
fn a_file_that_is_no_library_is_told_with_its_path() {
    let cut = scratch("cut.so");
    let whole = fs::read(library()).expect("the library");
    fs::write(&cut, &whole[..4096]).expect("a file");
    for (path, found) in [
        (cut.as_path(), "it is cut short: "),
        (Path::new("/dev/zero"), "it is a device"),
        (Path::new("/proc"), "it is a folder"),
    ] {
        let outcome = run(&format!("allr -r 2 --library {}", path.display()));
        let tried = format!("\"{}\": {found}", path.display());
        outcome.assert(
            1,
            &[
                &tried,
                "accepted: a regular file that holds a shared library",
            ],
        );
        assert_eq!(outcome.stdout, "");
        assert_eq!(outcome.stderr.matches("error:").count(), 1, "{outcome:?}");
    }
    fs::remove_file(&cut).expect("the file");
}

/// A library whose version probe tells another compatibility id.
#[test]
fn a_library_of_another_version_is_told_once() {
    let text = "void neuronGetVersionInfo(unsigned long long *info, unsigned size)\n\
                { info[0] = 2; info[1] = 40; info[2] = 1; info[3] = 0; info[4] = 0; info[5] = 0; info[6] = 97; }\n";
    let library = compile("version", text);
    let outcome = run(&format!("allr -r 4 --library {}", library.display()));
    outcome.assert(
        1,
        &[
            "Incompatible version of aws-neuronx-collectives.  Compatibility id: 97, expected: 89",
            "version 2.40.1.0",
        ],
    );
    assert_eq!(outcome.stdout, "");
    assert_eq!(
        outcome.stderr.matches("Incompatible").count(),
        1,
        "{outcome:?}"
    );
}

/// However close together they start: the second must not come between the first one's look at the port and its rank 0.
#[test]
fn of_two_runs_at_one_port_one_works_and_the_other_is_told() {
    for _ in 0..3 {
        let address = format!("127.0.0.1:{}", free_port());
        let start = || {
            let mut command = command("allr -r 2 -b 4 -e 4 -n 200 -c random");
            command.env("NEURON_RT_ROOT_COMM_ID", &address);
            start_command(command)
        };
        let mut outcomes = [start(), start()].map(Running::finish);
        outcomes.sort_by_key(|outcome| outcome.code());
        outcomes[0].assert_checked("the first", &[4]);
        let told = format!("NEURON_RT_ROOT_COMM_ID is {address}, but port ");
        outcomes[1].assert(1, &[&told, "is in use"]);
    }
}

#[test]
fn a_port_in_use_is_told_with_the_way_out() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let mut command = command("allr -r 4 -b 4 -e 4");
    command.env("NEURON_RT_ROOT_COMM_ID", &address);
    let outcome = start_command(command).finish();
    let port = format!(
        "port {} is in use",
        taken.local_addr().expect("an address").port()
    );
    outcome.assert(
        1,
        &[
            &format!("NEURON_RT_ROOT_COMM_ID is {address}"),
            &port,
            "accepted: a free port",
        ],
    );
    assert_eq!(outcome.stderr.lines().count(), 1, "{outcome:?}");
}

#[test]
fn a_port_that_is_free_is_used() {
    let probe = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = probe.local_addr().expect("an address").to_string();
    drop(probe);
    let mut command = command("allr -r 2 -b 4 -e 4 -c random");
    command.env("NEURON_RT_ROOT_COMM_ID", &address);
    start_command(command)
        .finish()
        .assert_checked("a given port", &[4]);
}

/// A path may be any bytes; whatever else is no text is named, by each verb.
#[test]
fn arguments_that_are_no_text_are_named_but_for_paths() {
    let strange = OsStr::from_bytes(b"no\xfftext");
    for args in ["allr -r 2 -n", "bus -r 2 -n", "barrier -r", "--root"] {
        let command = command(args);
        // Behind the library that the test's own command line ends with.
        let rest: Vec<_> = command.get_args().map(ToOwned::to_owned).collect();
        let (before, library) = rest.split_at(rest.len() - 2);
        let mut command = Command::new(command.get_program());
        let command = command.args(before).arg(strange).args(library);
        let output = command.output().expect("it starts");
        let text = String::from_utf8_lossy(&output.stderr);
        let told = "error: not text: \"no\\xFFtext\"; accepted: UTF-8, and any bytes in a path\n";
        assert_eq!((output.status.code(), &*text), (Some(2), told), "{args}");
    }
}

/// The library, the trace and the results may have names that are no text.
#[test]
fn paths_that_are_no_text_are_used() {
    let mut folder = scratch("").into_os_string();
    folder.push(OsStr::from_bytes(b"\xff"));
    let folder = Path::new(&folder);
    fs::create_dir_all(folder).expect("a folder");
    let (link, trace, json) = (folder.join("lib.so"), folder.join("t"), folder.join("j"));
    symlink(library(), &link).expect("a link");
    let mut command = Command::new(env!("CARGO_BIN_EXE_proxy-run"));
    let args = "allr -r 2 -b 4 -e 4 -n 1 --library";
    command.args(args.split_whitespace()).arg(&link);
    command
        .arg("--trace")
        .arg(&trace)
        .arg("--report-to-json-file")
        .arg(&json);
    start_command(command).finish().assert(0, &[]);
    let sizes = [&trace, &json].map(|path| fs::metadata(path).expect("written").len());
    assert!(sizes.iter().all(|size| *size > 100), "{sizes:?}");
    fs::remove_dir_all(folder).expect("the folder");
}

#[test]
fn the_part_of_a_rank_is_not_for_users() {
    let outcome = start_command({
        let mut command = Command::new(env!("CARGO_BIN_EXE_proxy-run"));
        command.args(["rank", "0"]);
        command
    })
    .finish();
    outcome.assert(2, &["a rank is started by the launcher alone"]);
}
