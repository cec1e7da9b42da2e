//! Random worlds in short form: as many as the variable `PROXY_SIM_SCHEDULES` says, 10 000 if it says nothing.
//! `cargo xtask sim` runs 100 000 in release.

use proxy_sim::choice::Choices;
use proxy_sim::run;
use proxy_sim::world::World;

fn schedules() -> u64 {
    let set = std::env::var("PROXY_SIM_SCHEDULES").ok();
    set.map_or(10_000, |text| {
        text.parse().expect("PROXY_SIM_SCHEDULES: a number")
    })
}

#[test]
fn random_worlds_agree_with_the_oracle_and_break_no_law() {
    let outcome = run::many(1, schedules(), 2, true);
    if let Some(failure) = outcome.failure {
        panic!("{failure}");
    }
    println!("{}", outcome.counts);
    for (name, value) in outcome.counts.rows() {
        assert!(value > 0, "no {name} in {} worlds", outcome.worlds);
    }
}

#[test]
fn a_seed_gives_the_same_world_again_and_so_does_its_script() {
    for seed in 1..200 {
        let run = |choices| {
            let mut world = World::new(choices, true);
            world.run().expect("nothing wrong");
            (world.trace().to_vec(), world.script())
        };
        let (trace, script) = run(Choices::random(seed));
        assert!(!trace.is_empty());
        assert_eq!((trace.clone(), script.clone()), run(Choices::random(seed)));
        assert_eq!((trace, script.clone()), run(Choices::scripted(script)));
    }
}

/// The tamest world: nothing goes wrong in it, so all its tasks end, with success.
#[test]
fn a_world_without_faults_is_a_success() {
    let mut world = World::new(Choices::scripted(Vec::new()), false);
    assert_eq!(world.run(), Ok(()));
    let counts = world.counts();
    assert!(counts.tasks > 0);
    assert_eq!((counts.ends, counts.failed), (counts.tasks, 0));
    assert_eq!(
        (counts.library_errors, counts.deaths, counts.device_faults),
        (0, 0, 0)
    );
}

/// Help that nobody gets is a failure, as any other output is.
#[test]
fn help_that_cannot_be_written_is_told() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full");
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_proxy-sim"));
    let command = command.arg("--help").stdout(full.expect("a full device"));
    let output = command.output().expect("it starts");
    let text = String::from_utf8_lossy(&output.stderr);
    let told = "sim: cannot write standard output: No space left on device (os error 28)\n";
    assert_eq!((output.status.code(), &*text), (Some(1), told));
}
