//! A process that is stopped between fork and exec: the launcher goes on with deadlines and signals, and leaves nothing.

mod common;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use common::{Running, command, compile, signal, start_command};

/// Starts processes as the C library does, but for one, which stops itself where its program would begin. Its parent's thread stays
/// in the kernel until it is through, as behind the C library's own.
const STOPPER: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <unistd.h>

int posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions,
                 const posix_spawnattr_t *attributes, char *const arguments[], char *const environment[])
{
    static int calls;
    if (++calls == atoi(getenv("STOP_AT"))) {
        pid_t child = vfork();
        if (child == 0) {
            kill(getpid(), SIGSTOP);
            _exit(1);
        }
        *pid = child;
        return 0;
    }
    int (*real)(pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *,
                char *const[], char *const[]) = dlsym(RTLD_NEXT, "posix_spawnp");
    return real(pid, file, actions, attributes, arguments, environment);
}
"#;

fn stopper() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| compile("stopper", STOPPER))
}

/// A run whose process number `at`, from 1, is stopped on its way to exec.
fn stopped_at(at: u32, args: &str) -> Running {
    let mut command = command(args);
    command.env("STOP_AT", at.to_string());
    command.env("LD_PRELOAD", stopper());
    start_command(command)
}

#[test]
fn a_rank_that_is_stopped_before_its_program_is_named_after_the_deadline() {
    let started = [
        (0, stopped_at(1, "allr -r 3 -b 4 -e 4 -n 1 --timeout 1")),
        (1, stopped_at(2, "allr -r 3 -b 4 -e 4 -n 1 --timeout 1")),
        (1, stopped_at(2, "barrier -r 3 -n 1 --timeout 1")),
    ];
    for (rank, running) in started {
        let outcome = running.finish();
        outcome.assert(
            1,
            &["between fork and exec for ", " s, stopped by a signal"],
        );
        outcome.assert_one_message(&format!("error: rank {rank} was not started: "));
        assert_eq!(outcome.stdout, "");
    }
}

#[test]
fn a_signal_ends_a_run_whose_rank_is_stopped_before_its_program() {
    for args in [
        "allr -r 3 -b 4 -e 4 --timeout 600",
        "bus -r 3 --timeout 600",
    ] {
        let running = stopped_at(2, args);
        let since = Instant::now();
        // Before its exec the child still has the launcher's own name.
        while running
            .processes()
            .iter()
            .filter(|one| one.0.is_none())
            .count()
            < 2
        {
            assert!(since.elapsed() < Duration::from_secs(60), "{args}");
            std::thread::yield_now();
        }
        signal(running.pid(), libc::SIGTERM);
        let outcome = running.finish();
        assert_eq!(outcome.code(), 143, "{args}: {outcome:?}");
        outcome.assert_one_message("ended by signal 15; all ranks are ended");
    }
}
