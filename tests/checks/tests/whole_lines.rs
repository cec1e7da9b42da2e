//! A message is whole: one write for each line, so that none is cut when its writer is killed, or mixed with those of other processes.
//!
//! Standard error is a datagram socket here: what one write has written comes as one datagram.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use proxy_checks::child;
use proxy_os::log;

#[test]
fn a_message_of_the_driver_is_one_write() {
    let (ours, theirs) = UnixDatagram::pair().expect("a pair");
    ours.set_read_timeout(Some(Duration::from_secs(60)))
        .expect("a limit");
    let mut child = child::command("child_that_warns");
    child.stderr(OwnedFd::from(theirs));
    assert!(child.status().expect("it starts").success());
    drop(child);
    let mut bytes = [0; 4096];
    let mut written = std::iter::from_fn(|| {
        let length = ours.recv(&mut bytes).ok().filter(|length| *length > 0)?;
        Some(String::from_utf8_lossy(&bytes[..length]).into_owned())
    });
    let line = written.find(|part| part.starts_with("proxy "));
    assert_eq!(line.as_deref(), Some("proxy WARN: rank 3 of 4 waits\n"));
}

#[test]
fn child_that_warns() {
    if child::is("child_that_warns") {
        let (rank, ranks) = (3, 4);
        log::warn(format_args!("rank {rank} of {ranks} waits"));
    }
}
