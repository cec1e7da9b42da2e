//! Ranks on several nodes: one launcher that plays them all, and one launcher for each, which form one world over TCP.

mod common;

use std::net::TcpListener;
use std::time::{Duration, Instant};

use common::{Outcome, Running, free_port, run, signal, start};

const OPS: [&str; 6] = ["allr", "allg", "redsct", "alltoall", "sendrecv", "permute"];
const ENDLESS: &str = "sendrecv -r 4 --nodes 2 -b 4 -e 1gb -i 4 -n 3 -w 0";

#[test]
fn every_op_is_right_on_every_number_of_nodes() {
    for (op, turn) in OPS.into_iter().zip(0..) {
        for shape in [
            "-r 4 --nodes 2",
            "-r 6 --nodes 3 --ranks-per-process 2",
            "-r 3 --nodes 3",
            "-r 8 --nodes 2 --ranks-per-process 4 --ranks-per-proxy 4",
            "-r 4 --nodes 2 --no-barrier",
        ] {
            let (streams, blocks) = (1 + turn % 4, 1 + turn % 3);
            let args = format!(
                "{op} {shape} -b 4 -e 64kb -f 128 -d fp32 -n 3 -w 1 -c random --streams {streams} --blocks {blocks}"
            );
            run(&args).assert_checked(&args, &[4, 512, 65_536]);
        }
    }
}

/// Ranks of both nodes are told that one of node 1 is at another execution: the barrier of the executions spans the nodes.
#[test]
fn another_execution_on_one_node_is_an_error_on_all() {
    let args =
        "sendrecv -r 4 --nodes 2 --ranks-per-process 2 -b 4 -e 4 --debug --fault 3:execution";
    let outcome = run(args);
    outcome.assert(1, &["MPMD execution is not supported"]);
    for (process, rank, local, machine) in [
        ("ranks 0 to 1", 0, 0, 0),
        ("ranks 0 to 1", 1, 1, 0),
        ("ranks 2 to 3", 2, 0, 1),
        ("ranks 2 to 3", 3, 1, 1),
    ] {
        let who = format!("rank {rank} (local rank {local} of machine {machine}): barrier 1 #");
        let told = (outcome.stderr.lines())
            .any(|line| line.starts_with(&format!("{process}: ")) && line.contains(&who));
        assert!(told, "{process}, {rank}: {outcome:?}");
    }
    let blamed = "rank 3 is at another execution";
    assert!(outcome.stderr.contains(blamed), "{outcome:?}");
}

/// The warning that a rank of a node is dead. The rank that would give it may end before, by what the library tells it: then there is another run.
#[test]
fn ranks_of_a_node_are_named_by_their_numbers_in_the_job() {
    for _ in 0..20 {
        let mut running = start(&format!("{ENDLESS} --debug"));
        running.first_row();
        signal(running.rank(3), libc::SIGKILL);
        let outcome = running.finish();
        outcome.assert(1, &["error: rank 3 was killed by signal 9 (SIGKILL)"]);
        let told = |line: &&str| line.starts_with("rank 2: ") && line.ends_with(" is dead");
        if let Some(line) = outcome.stderr.lines().find(told) {
            let named = "bananaphone: rank 3 (local rank 1 of machine 1) is dead";
            assert!(line.ends_with(named), "{outcome:?}");
            return;
        }
    }
    panic!("rank 2 has told of no death in 20 runs");
}

/// The launchers of a job, each with the same command line but for its node.
fn launchers(args: &str, nodes: u32) -> Vec<Running> {
    let port = free_port();
    let one = |node| {
        start(&format!(
            "{args} --root 127.0.0.1:{port} --node-rank {node}"
        ))
    };
    (0..nodes).map(one).collect()
}

fn finish(launchers: Vec<Running>) -> Vec<Outcome> {
    launchers.into_iter().map(Running::finish).collect()
}

fn endless(options: &str) -> Vec<Running> {
    let mut launchers = launchers(&format!("{ENDLESS} {options}"), 2);
    launchers[0].first_row();
    launchers
}

/// Both ways to have nodes give the same table; only node 0 prints it.
#[test]
fn two_launchers_form_one_world() {
    for op in OPS {
        let args = format!("{op} -r 4 --nodes 2 -b 4 -e 64kb -f 128 -d fp32 -n 3 -c random");
        let outcomes = finish(launchers(&args, 2));
        outcomes[0].assert_checked(&args, &[4, 512, 65_536]);
        outcomes[1].assert(0, &[]);
        let told = "node 1 of 2: ranks 2 to 3 of 4; the table is node 0's";
        assert_eq!(
            (outcomes[1].stdout.as_str(), outcomes[1].stderr.as_str()),
            (told, "")
        );
    }
    let args =
        "allr -r 6 --nodes 3 --ranks-per-process 2 --ranks-per-proxy 2 -b 1kb -e 1kb -c random";
    let outcomes = finish(launchers(args, 3));
    outcomes[0].assert_checked(args, &[1024]);
    outcomes[1..]
        .iter()
        .for_each(|outcome| outcome.assert(0, &[]));
}

#[test]
fn a_failure_on_any_node_is_told_alike_on_all() {
    for (fault, text) in [
        (
            "3:wrong",
            "error: 1 of 1 sizes have wrong results - test failed",
        ),
        (
            "2:exit",
            "error: rank 2 ended with exit code 3 before it was finished",
        ),
        (
            "0:exit",
            "error: rank 0 ended with exit code 3 before it was finished",
        ),
        (
            "3:signature",
            "failed signature validation: mismatched collectives between the peers",
        ),
        (
            "3:hang",
            "error: rank 3: 1024 bytes, iteration 7 of 7: the network task is still WAITING_DEVICE_TRIGGER",
        ),
    ] {
        let args =
            format!("allr -r 4 --nodes 2 -b 1kb -e 1kb -n 2 -c random --timeout 3 --fault {fault}");
        for outcome in finish(launchers(&args, 2)) {
            outcome.assert(1, &[text]);
            assert_eq!(outcome.stderr.matches("error:").count(), 1, "{outcome:?}");
        }
    }
}

/// One launcher that is killed ends the other within moments, with one message; so does one that is interrupted.
#[test]
fn a_launcher_that_ends_takes_the_others_with_it() {
    for (node, number, code, text) in [
        (
            0,
            libc::SIGKILL,
            -libc::SIGKILL,
            "error: the launcher of node 0, 127.0.0.1:",
        ),
        (
            1,
            libc::SIGKILL,
            -libc::SIGKILL,
            "error: the launcher of node 1, 127.0.0.1:",
        ),
        (0, libc::SIGINT, 130, "error: node 0 was ended by signal 2"),
        (
            1,
            libc::SIGTERM,
            143,
            "error: node 1 was ended by signal 15",
        ),
    ] {
        let launchers = endless("--ranks-per-process 2 --timeout 60");
        signal(launchers[node].pid(), number);
        let since = Instant::now();
        let outcomes = finish(launchers);
        assert!(
            since.elapsed() < Duration::from_secs(20),
            "{:?}",
            since.elapsed()
        );
        assert_eq!(outcomes[node].code(), code, "{outcomes:?}");
        let other = &outcomes[1 - node];
        other.assert(1, &[text]);
        assert_eq!(other.stderr.matches("error:").count(), 1, "{other:?}");
    }
}

#[test]
fn a_launcher_that_is_stopped_is_not_waited_for_without_end() {
    let mut launchers = launchers("allr -r 2 --nodes 2 -b 4 -e 8 -f 2 -n 3000 --timeout 2", 2);
    launchers[0].first_row();
    let stopped = launchers.remove(1);
    signal(stopped.pid(), libc::SIGSTOP);
    let outcome = launchers.remove(0).finish();
    outcome.assert(1, &[" (rank 1) for 7 s"]);
    outcome.assert_one_message("error: nothing was heard from the launcher of node 1, 127.0.0.1:");
    signal(stopped.pid(), libc::SIGKILL);
    stopped.finish();
}

#[test]
fn a_killed_rank_is_named_on_all_nodes() {
    let launchers = endless("--timeout 60");
    signal(launchers[1].rank(3), libc::SIGKILL);
    for outcome in finish(launchers) {
        outcome.assert(1, &["error: rank 3 was killed by signal 9 (SIGKILL)"]);
    }
}

#[test]
fn a_stopped_rank_is_named_first_and_alone_on_all_nodes() {
    for (node, rank) in [(0, 1), (1, 2)] {
        let launchers = endless("--timeout 1");
        signal(launchers[node].rank(rank), libc::SIGSTOP);
        for outcome in finish(launchers) {
            outcome.assert(1, &[]);
            outcome.assert_one_message(&format!(
                "error: rank {rank} is silent: stopped by signal 19 (SIGSTOP) "
            ));
        }
    }
}

/// Those of the other node fail with it, which is no news.
#[test]
fn the_end_of_node_0_is_one_message_on_node_1() {
    for number in [libc::SIGKILL, libc::SIGINT, libc::SIGHUP] {
        let mut launchers = endless("--timeout 60");
        let other = launchers.remove(1);
        signal(launchers[0].pid(), number);
        let outcome = other.finish();
        outcome.assert(1, &[]);
        outcome.assert_one_message(match number {
            libc::SIGKILL => "error: the launcher of node 0, 127.0.0.1:",
            _ => "error: node 0 was ended by signal ",
        });
        finish(launchers);
    }
}

/// Somebody who listens and says nothing: a launcher that is stopped, another program.
#[test]
fn a_root_that_says_nothing_is_named_at_the_deadline() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = silent.local_addr().expect("an address");
    let since = Instant::now();
    let outcome = run(&format!(
        "allr -r 2 --nodes 2 -b 4 -e 4 --timeout 2 --root {address} --node-rank 1"
    ));
    let took = since.elapsed();
    outcome.assert(1, &["accepted: the address that node 0 was given"]);
    outcome.assert_one_message(&format!(
        "error: --root is {address}, where within 2 s node 0 has not said that this node is taken"
    ));
    assert!(took < Duration::from_secs(5), "{took:?}");
}

#[test]
fn nodes_meet_over_ipv6_as_well() {
    let Ok(probe) = TcpListener::bind("[::1]:0") else {
        println!("SKIPPED: IPv6 not available");
        return;
    };
    let address = probe.local_addr().expect("an address");
    drop(probe);
    let args = "allr -r 4 --nodes 2 -b 4 -e 4 -c random";
    let one = |node| start(&format!("{args} --root {address} --node-rank {node}"));
    let outcomes = finish((0..2).map(one).collect());
    outcomes[0].assert_checked(args, &[4]);
    outcomes[1].assert(0, &[]);
}

#[test]
fn a_node_that_never_comes_is_named_in_bounded_time() {
    let mut all = launchers("allr -r 6 --nodes 3 -b 4 -e 4 --timeout 2", 2);
    let since = Instant::now();
    let alone = all.remove(1).finish();
    for outcome in [all.remove(0).finish(), alone] {
        outcome.assert(
            1,
            &[
                "error: after 2 s these nodes have not come to 127.0.0.1:",
                ": 2\n",
            ],
        );
        assert_eq!(outcome.stderr.lines().count(), 1, "{outcome:?}");
    }
    assert!(
        since.elapsed() < Duration::from_secs(20),
        "{:?}",
        since.elapsed()
    );
}

#[test]
fn launchers_with_different_command_lines_are_told_what_differs() {
    for (ours, theirs, text) in [
        (
            "allr -r 4",
            "allr -r 8",
            "-r/--nworkers is 8 on node 1 and 4 on node 0",
        ),
        (
            "allr -r 4",
            "allg -r 4",
            "the op is allg on node 1 and allr on node 0",
        ),
        (
            "allr -r 4",
            "allr -r 4 -d fp32",
            "-d/--datatype is fp32 on node 1 and uint8 on node 0",
        ),
        (
            "allr -r 4",
            "allr -r 4 --no-barrier",
            "the execution barrier (--no-barrier) is false on node 1",
        ),
    ] {
        let port = free_port();
        let one = |args, node| {
            start(&format!(
                "{args} --nodes 2 -b 8 -e 8 --root 127.0.0.1:{port} --node-rank {node}"
            ))
        };
        for outcome in finish(vec![one(ours, 0), one(theirs, 1)]) {
            outcome.assert(1, &[text, "accepted: the same on all nodes"]);
            assert_eq!(outcome.stderr.lines().count(), 1, "{outcome:?}");
        }
    }
}

/// The second of two that want the same place is refused, and the job goes on without it.
#[test]
fn a_node_that_comes_twice_is_refused_once() {
    let port = free_port();
    let args = "allr -r 3 --nodes 3 -b 4 -e 4 -c random";
    let one = |node| {
        start(&format!(
            "{args} --root 127.0.0.1:{port} --node-rank {node}"
        ))
    };
    let (head, mut twins) = (one(0), vec![one(1), one(1)]);
    let late = loop {
        if let Some(late) = twins.iter_mut().position(Running::has_ended) {
            break late;
        }
        std::thread::yield_now();
    };
    let refused = twins.remove(late).finish();
    refused.assert(
        1,
        &[
            "error: --node-rank is 1, but node 1 has come already, from 127.0.0.1:",
            "accepted: each node once",
        ],
    );
    twins.push(one(2));
    head.finish().assert_checked(args, &[4]);
    finish(twins)
        .iter()
        .for_each(|outcome| outcome.assert(0, &[]));
}

/// Connections of others, silent or not, are no nodes and stall nobody.
#[test]
fn strangers_at_the_door_are_ignored() {
    use std::io::Write;
    let port = free_port();
    let args = "allr -r 2 --nodes 2 -b 4 -e 4 -c random";
    let one = |node| {
        start(&format!(
            "{args} --root 127.0.0.1:{port} --node-rank {node}"
        ))
    };
    let head = one(0);
    let connect = || loop {
        if let Ok(stream) = std::net::TcpStream::connect(("127.0.0.1", port)) {
            return stream;
        }
        std::thread::yield_now();
    };
    let _silent = connect();
    connect()
        .write_all(b"GET / HTTP/1.1\r\n\r\n")
        .expect("sent");
    let mut half = connect();
    half.write_all(b"{\"program\":").expect("sent");
    drop(connect());
    let other = one(1);
    head.finish().assert_checked(args, &[4]);
    other.finish().assert(0, &[]);
}

#[test]
fn a_root_that_cannot_be_is_told_with_what_can() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address");
    let args = "allr -r 2 --nodes 2 -b 4 -e 4 --timeout 1";
    let head = |root: &str| run(&format!("{args} --root {root} --node-rank 0"));
    let outcome = head(&address.to_string());
    let parts = [
        format!(
            "error: --root is {address}, but port {} is in use",
            address.port()
        ),
        "accepted: a free port of node 0".to_owned(),
    ];
    outcome.assert(1, &parts.each_ref().map(String::as_str));
    head("192.0.2.1:5000").assert(
        1,
        &["--root is 192.0.2.1:5000, where this machine, node 0, cannot listen"],
    );
    head("0.0.0.0:5000").assert(
        1,
        &[
            "--root is 0.0.0.0:5000",
            "no address that others can connect to",
        ],
    );
    let port = free_port();
    let lost = run(&format!("{args} --root 127.0.0.1:{port} --node-rank 1"));
    let text =
        format!("error: --root is 127.0.0.1:{port}, where node 0 was not reached within 1 s");
    lost.assert(1, &[&text, "accepted: the address that node 0 was given"]);
}

#[test]
fn command_lines_that_are_not_accepted_name_option_value_and_what_is() {
    for (args, parts) in [
        (
            "-r 6 --nodes 4",
            &["--nodes is 4, accepted: the divisors of the 6 ranks: 1, 2, 3, 6"][..],
        ),
        ("-r 6 --nodes 0", &["'0'", "--nodes", "accepted: 1 to 64"]),
        ("-r 4 --nodes 2 --root here:5000", &["--node-rank <K>"]),
        ("-r 4 --nodes 2 --node-rank 1", &["--root <HOST:PORT>"]),
        (
            "-r 4 --root a:5 --node-rank 0",
            &[
                "--node-rank is 0 and --nodes 1",
                "accepted: --nodes 2 or more",
            ],
        ),
        (
            "-r 4 --nodes 2 --root a:5 --node-rank 2",
            &["--node-rank is 2, accepted: 0 to 1"],
        ),
        (
            "-r 4 --nodes 2 --root a:5 --node-rank x",
            &["'x'", "--node-rank", "accepted: 0 to 63"],
        ),
        (
            "-r 4 --nodes 2 --root a --node-rank 0",
            &[
                "'a'",
                "--root",
                "accepted: ipv4:port, [ipv6]:port or host:port",
            ],
        ),
        (
            "-r 4 --nodes 2 --root a:5 --node-rank 1 --report-to-json-file x.json",
            &["--report-to-json-file is x.json on node 1; accepted: on node 0"],
        ),
    ] {
        let outcome = run(&format!("allr {args}"));
        outcome.assert(2, parts);
        assert_eq!(outcome.stdout, "", "{args}");
        assert_eq!(outcome.stderr.matches("error:").count(), 1, "{outcome:?}");
    }
}
