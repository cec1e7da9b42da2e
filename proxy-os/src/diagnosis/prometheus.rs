//! Reports as metrics in the text format of Prometheus, version 0.0.4: counters of the workers, tasks by state, stalls, latencies.
//!
//! Every sample has the labels `host`, `pid` and `group`. Counters begin anew with a group; histograms have the same bounds
//! everywhere, so that those of many ranks can be added up.

use std::fmt::Write as _;

use super::record::{Group, Latency, Report};
use super::stalls_of;

/// Counters of a group: name, meaning, value.
type Counter = (&'static str, &'static str, fn(&Group) -> u64);

const COUNTERS: [Counter; 10] = [
    ("proxy_ticks_total", "Ticks of the worker.", |group| {
        group.worker.ticks
    }),
    ("proxy_steps_total", "Steps of tasks.", |group| {
        group.worker.steps
    }),
    (
        "proxy_idle_ticks_total",
        "Ticks that moved nothing.",
        |group| group.worker.idle_ticks,
    ),
    (
        "proxy_pauses_total",
        "Pauses between ticks that moved nothing.",
        |group| group.worker.pauses,
    ),
    (
        "proxy_yields_total",
        "Times the worker gave its core away.",
        |group| group.worker.yields,
    ),
    ("proxy_sleeps_total", "Times the worker slept.", |group| {
        group.worker.sleeps
    }),
    (
        "proxy_wakes_total",
        "Appends that had to wake the worker.",
        |group| group.worker.wakes,
    ),
    (
        "proxy_appends_total",
        "Tasks that were appended.",
        |group| group.enqueued,
    ),
    (
        "proxy_full_total",
        "Appends that found no place.",
        |group| group.full,
    ),
    ("proxy_ended_total", "Tasks that ended.", |group| {
        group.ended
    }),
];

/// The reports of one or several processes as one text.
#[must_use]
pub fn prometheus(reports: &[Report]) -> String {
    let mut out = String::new();
    for (name, help, value) in COUNTERS {
        head(&mut out, name, "counter", help);
        for (labels, group, _) in groups(reports) {
            let _ = writeln!(out, "{name}{{{labels}}} {}", value(group));
        }
    }
    errors(&mut out, reports);
    tasks(&mut out, reports);
    stalls(&mut out, reports);
    latencies(&mut out, reports);
    out
}

fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

/// Every group with its labels and its report.
fn groups(reports: &[Report]) -> impl Iterator<Item = (String, &Group, &Report)> {
    let of = |report| groups_of(report);
    reports.iter().flat_map(of)
}

fn groups_of(report: &Report) -> impl Iterator<Item = (String, &Group, &Report)> {
    let labels = |group: &Group| {
        let process = &report.process;
        format!(
            "host=\"{}\",pid=\"{}\",group=\"{}\"",
            escape(&process.host),
            process.pid,
            group.gid
        )
    };
    (report.groups.iter()).map(move |group| (labels(group), group, report))
}

fn errors(out: &mut String, reports: &[Report]) {
    let name = "proxy_errors_total";
    head(
        out,
        name,
        "counter",
        "Tasks that ended with an error, by its code.",
    );
    for (labels, group, _) in groups(reports) {
        for error in &group.errors {
            let (code, text) = (error.status, escape(&error.text));
            let _ = writeln!(
                out,
                "{name}{{{labels},code=\"{code}\",text=\"{text}\"}} {}",
                error.count
            );
        }
    }
}

fn tasks(out: &mut String, reports: &[Report]) {
    let name = "proxy_tasks";
    head(
        out,
        name,
        "gauge",
        "Tasks whose status is not consumed, by state.",
    );
    let states = [
        "INIT",
        "WAITING_DEVICE_TRIGGER",
        "PROGRESSING",
        "IDLE",
        "DONE",
    ];
    for (labels, group, _) in groups(reports) {
        for state in states {
            let count = group
                .tasks
                .iter()
                .filter(|task| task.state == state)
                .count();
            let _ = writeln!(out, "{name}{{{labels},state=\"{state}\"}} {count}");
        }
    }
}

fn stalls(out: &mut String, reports: &[Report]) {
    let name = "proxy_stall_age_seconds";
    head(
        out,
        name,
        "gauge",
        "Age of the longest wait that counts as a stall; 0 = none.",
    );
    for (labels, group, report) in groups(reports) {
        let ages = stalls_of(report).into_iter().filter_map(|(stall, _)| {
            (stall.gid == Some(group.gid)).then_some(stall.age.unwrap_or(report.stall_threshold))
        });
        let _ = writeln!(out, "{name}{{{labels}}} {}", ages.fold(0.0, f64::max));
    }
}

fn latencies(out: &mut String, reports: &[Report]) {
    let name = "proxy_task_seconds";
    let help = "Spans of a task's life, by kind; run is the network time of network tasks and the barrier wait of barrier tasks.";
    head(out, name, "histogram", help);
    for (labels, group, _) in groups(reports) {
        for latency in &group.latencies {
            let Latency {
                kind,
                span,
                count,
                sum,
                ..
            } = latency;
            let labels = format!("{labels},kind=\"{kind}\",span=\"{span}\"");
            for (bound, below) in &latency.below {
                let _ = writeln!(out, "{name}_bucket{{{labels},le=\"{bound}\"}} {below}");
            }
            let _ = writeln!(out, "{name}_bucket{{{labels},le=\"+Inf\"}} {count}");
            let _ = writeln!(out, "{name}_sum{{{labels}}} {sum}");
            let _ = writeln!(out, "{name}_count{{{labels}}} {count}");
        }
    }
}

/// A value of a label.
fn escape(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::super::record::{ErrorCount, Process, Task, Worker};
    use super::*;

    /// One group with a value of each kind.
    fn report() -> Report {
        let group = Group {
            gid: 3,
            enqueued: 9,
            full: 2,
            ended: 8,
            errors: vec![ErrorCount {
                status: 7,
                text: "a \"bad\"\nend\\".to_owned(),
                count: 1,
            }],
            worker: Worker {
                ticks: 100,
                steps: 51,
                idle_ticks: 52,
                pauses: 53,
                yields: 54,
                sleeps: 55,
                wakes: 56,
                capacity: 128,
                ..Worker::default()
            },
            tasks: vec![Task {
                state: "DONE".to_owned(),
                age: Some(2.5),
                ..Task::default()
            }],
            latencies: vec![Latency {
                kind: "network".to_owned(),
                span: "run".to_owned(),
                count: 5,
                sum: 0.25,
                below: vec![(1e-6, 0), (0.1, 4)],
                ..Latency::default()
            }],
            ..Group::default()
        };
        Report {
            groups: vec![group],
            stall_threshold: 2.0,
            process: Process {
                pid: 12,
                host: "here".to_owned(),
                ..Process::default()
            },
            ..Report::default()
        }
    }

    #[test]
    fn a_report_is_told_in_the_text_format() {
        let text = prometheus(&[report()]);
        let labels = "host=\"here\",pid=\"12\",group=\"3\"";
        let task = format!("{labels},kind=\"network\",span=\"run\"");
        for line in [
            "# TYPE proxy_ticks_total counter".to_owned(),
            format!("proxy_ticks_total{{{labels}}} 100"),
            format!("proxy_steps_total{{{labels}}} 51"),
            format!("proxy_idle_ticks_total{{{labels}}} 52"),
            format!("proxy_pauses_total{{{labels}}} 53"),
            format!("proxy_yields_total{{{labels}}} 54"),
            format!("proxy_sleeps_total{{{labels}}} 55"),
            format!("proxy_wakes_total{{{labels}}} 56"),
            format!("proxy_ended_total{{{labels}}} 8"),
            format!("proxy_stall_age_seconds{{{labels}}} 2.5"),
            format!("proxy_appends_total{{{labels}}} 9"),
            format!("proxy_full_total{{{labels}}} 2"),
            format!("proxy_errors_total{{{labels},code=\"7\",text=\"a \\\"bad\\\"\\nend\\\\\"}} 1"),
            format!("proxy_tasks{{{labels},state=\"DONE\"}} 1"),
            "# TYPE proxy_task_seconds histogram".to_owned(),
            format!("proxy_task_seconds_bucket{{{task},le=\"0.000001\"}} 0"),
            format!("proxy_task_seconds_bucket{{{task},le=\"0.1\"}} 4"),
            format!("proxy_task_seconds_bucket{{{task},le=\"+Inf\"}} 5"),
            format!("proxy_task_seconds_sum{{{task}}} 0.25"),
            format!("proxy_task_seconds_count{{{task}}} 5"),
        ] {
            assert!(
                text.lines().any(|found| found == line),
                "no {line} in\n{text}"
            );
        }
        let heads = text
            .lines()
            .filter(|line| line.starts_with("# TYPE"))
            .count();
        assert_eq!(heads, 14, "each name is declared once");
    }
}
