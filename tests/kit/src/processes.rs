//! Processes of this machine, as the process table has them.

use std::fs;

/// Numbers of the processes whose environment has `variable`, `NAME=value`; of those that may be looked at.
#[must_use]
pub fn with(variable: &str) -> Vec<i32> {
    let Ok(table) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let numbers = table.flatten();
    let pids = numbers.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid: &i32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let mut variables = environment.split(|&byte| byte == 0);
        variables.any(|one| one == variable.as_bytes())
    })
    .collect()
}
