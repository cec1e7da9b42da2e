//! Two launchers that share no network but a cable: two network namespaces, joined by a pair of virtual interfaces.

mod common;

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use common::{Running, command_through, signal, start_command};

/// Two namespaces, with an address each. Dropped, they are gone.
struct Cable {
    names: [String; 2],
}

const ADDRESSES: [&str; 2] = ["10.77.0.1", "10.77.0.2"];

fn ip(args: &str) -> bool {
    let mut command = Command::new("ip");
    command
        .args(args.split_whitespace())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

impl Cable {
    /// Lays one; says so if this machine or this user cannot.
    fn lay() -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        // Relaxed: only uniqueness matters, which a read-modify-write gives.
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let process = std::process::id();
        let names = ["a", "b"].map(|side| format!("proxy-run-{process}-{number}-{side}"));
        let [a, b] = &names;
        let made = ip(&format!("netns add {a}")) && ip(&format!("netns add {b}"));
        // Dropped also when it is half made.
        let cable = Self {
            names: names.clone(),
        };
        let laid =
            made && ip(&format!(
                "link add cable netns {a} type veth peer name cable netns {b}"
            )) && names.iter().zip(ADDRESSES).all(|(name, address)| {
                ip(&format!("-n {name} address add {address}/24 dev cable"))
                    && ip(&format!("-n {name} link set cable up"))
                    && ip(&format!("-n {name} link set lo up"))
            });
        if !laid {
            println!("SKIPPED: network namespaces not available");
        }
        laid.then_some(cable)
    }

    /// The two launchers of a job, node 0 at the first end.
    fn launchers(&self, args: &str) -> [Running; 2] {
        [0, 1].map(|node| {
            let prefix = ["ip", "netns", "exec", &self.names[node]];
            let args = format!("{args} --root {}:7700 --node-rank {node}", ADDRESSES[0]);
            start_command(command_through(&prefix, &args))
        })
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        for name in &self.names {
            ip(&format!("netns delete {name}"));
        }
    }
}

#[test]
fn one_world_in_two_network_namespaces() {
    let Some(cable) = Cable::lay() else { return };
    for (op, shape) in [
        ("allr", "-r 4"),
        ("allg", "-r 6 --ranks-per-process 3"),
        ("redsct", "-r 2"),
        ("alltoall", "-r 8 --ranks-per-process 4 --ranks-per-proxy 4"),
        ("sendrecv", "-r 4 --ranks-per-process 2"),
        ("permute", "-r 4 --no-barrier"),
    ] {
        let args = format!(
            "{op} {shape} --nodes 2 -b 4 -e 256kb -f 256 -d fp32 -n 3 -c random --streams 2"
        );
        let [head, other] = cable.launchers(&args).map(Running::finish);
        head.assert_checked(&args, &[4, 1024, 262_144]);
        other.assert(0, &[]);
    }
}

#[test]
fn a_killed_launcher_ends_the_one_in_the_other_namespace() {
    let Some(cable) = Cable::lay() else { return };
    for node in [0, 1] {
        let mut launchers =
            cable.launchers("allr -r 4 --nodes 2 -b 4 -e 1gb -i 4 -n 3 -w 0 --timeout 60");
        launchers[0].first_row();
        signal(launchers[node].pid(), libc::SIGKILL);
        let since = Instant::now();
        let outcomes = launchers.map(Running::finish);
        assert!(
            since.elapsed() < Duration::from_secs(20),
            "{:?}",
            since.elapsed()
        );
        let other = &outcomes[1 - node];
        other.assert(
            1,
            &[&format!(
                "error: the launcher of node {node}, {}:",
                ADDRESSES[node]
            )],
        );
        assert_eq!(other.stderr.matches("error:").count(), 1, "{other:?}");
    }
}

/// No word of the other side's end ever comes; the deadlines of the executions end both.
#[test]
fn a_cut_cable_ends_both_sides_in_bounded_time() {
    let Some(cable) = Cable::lay() else { return };
    let mut launchers =
        cable.launchers("allr -r 4 --nodes 2 -b 4 -e 1gb -i 4 -n 3 -w 0 --timeout 2");
    launchers[0].first_row();
    let since = Instant::now();
    assert!(ip(&format!("-n {} link set cable down", cable.names[1])));
    for outcome in launchers.map(Running::finish) {
        outcome.assert(1, &["error: "]);
    }
    assert!(
        since.elapsed() < Duration::from_secs(40),
        "{:?}",
        since.elapsed()
    );
}
