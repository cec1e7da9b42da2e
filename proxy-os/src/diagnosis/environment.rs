//! What a report says of its surroundings: the process and its machine, libraries, settings.

use std::fs;

use super::known::Known;
use super::ranges;
use super::record::{Library, Process, Setting};
use crate::nccom;
use crate::sys::{affinity, clock, memfd};

/// Every setting as a queue has it.
pub(super) fn settings(known: &Known) -> Vec<Setting> {
    let setting = |effective: &crate::config::Effective| Setting {
        name: effective.name.to_owned(),
        value: effective.value.clone(),
        origin: effective.origin.to_string(),
    };
    known.settings.iter().map(setting).collect()
}

/// What was loaded, or was to be.
pub(super) fn libraries(partial: &mut Vec<String>) -> Vec<Library> {
    let Some(outcomes) = nccom::outcomes() else {
        partial.push("the list of libraries".to_owned());
        return Vec::new();
    };
    let told = |(name, outcome): nccom::NamedOutcome| match outcome {
        Ok(library) => Library {
            name,
            path: library.path().display().to_string(),
            version: library.version().to_string(),
            interface: Some(library.interface()),
            build_id: library.build_id().map(str::to_owned),
            error: None,
        },
        Err(error) => Library {
            name,
            error: Some(error),
            ..Library::default()
        },
    };
    outcomes.into_iter().map(told).collect()
}

/// What this process and its machine are.
pub(super) fn process() -> Process {
    let text = |path: &str| {
        fs::read_to_string(path)
            .unwrap_or_default()
            .trim()
            .to_owned()
    };
    let namespace = |name: &str| {
        let link = fs::read_link(format!("/proc/self/ns/{name}"));
        link.map_or_else(|_| String::new(), |link| link.display().to_string())
    };
    let wall_clock = std::time::SystemTime::now().duration_since(std::time::SystemTime::UNIX_EPOCH);
    Process {
        pid: std::process::id(),
        program: text("/proc/self/comm"),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        build_id: nccom::own_build_id().map(str::to_owned),
        host: text("/proc/sys/kernel/hostname"),
        kernel: text("/proc/sys/kernel/osrelease"),
        monotonic_ns: clock::monotonic_ns(),
        wall_clock: wall_clock.map_or(0.0, |since| since.as_secs_f64()),
        cpus: affinity::allowed()
            .map(|cpus| ranges::ranges(cpus.iter()))
            .unwrap_or_default(),
        cpuset: text("/proc/self/cpuset"),
        open_files: memfd::descriptor_limit(),
        pid_namespace: namespace("pid"),
        user_namespace: namespace("user"),
    }
}
