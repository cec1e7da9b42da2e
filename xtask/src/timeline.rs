//! `cargo xtask timeline FILE -o out.svg`: a picture of a trace for a quick look, 1200 pixels wide.
//!
//! Reads what `--trace` writes (the JSON that Perfetto opens, too): one row per rank, track and lane, spans as boxes, instants as
//! ticks. What is too short to be seen is drawn half a pixel wide, once per pixel, so a long trace stays a small file.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use serde_json::Value;

const WIDTH: f64 = 1200.0;
/// Room for the names of rows.
const LEFT: f64 = 190.0;
const RIGHT: f64 = 10.0;
const TOP: f64 = 44.0;
const ROW: f64 = 16.0;
/// Gap above the rows of the next process.
const GAP: f64 = 8.0;

/// The part of the trace to draw, in microseconds from its first event.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window {
    pub(crate) from: Option<f64>,
    pub(crate) to: Option<f64>,
}

/// `timeline`.
pub(crate) fn verb(file: &Path, out: &Path, window: Window) -> Result<ExitCode, String> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| format!("trace {}: {error}", file.display()))?;
    let picture =
        draw(&text, window).map_err(|error| format!("trace {}: {error}", file.display()))?;
    std::fs::write(out, picture).map_err(|error| format!("picture {}: {error}", out.display()))?;
    println!("{}", out.display());
    Ok(ExitCode::SUCCESS)
}

/// One span or instant of a row.
#[derive(Debug)]
struct Mark {
    since: f64,
    /// `None`: an instant.
    lasts: Option<f64>,
    name: String,
}

/// A row: process and thread number, which sort it.
type Row = (u64, u64);

#[derive(Debug, Default)]
struct Trace {
    processes: BTreeMap<u64, String>,
    threads: BTreeMap<Row, String>,
    rows: BTreeMap<Row, Vec<Mark>>,
}

/// The picture of a trace.
fn draw(text: &str, window: Window) -> Result<String, String> {
    let trace = read(text)?;
    let marks = || trace.rows.values().flatten();
    let first = marks().map(|mark| mark.since).fold(f64::INFINITY, f64::min);
    let last = marks()
        .map(|mark| mark.since + mark.lasts.unwrap_or(0.0))
        .fold(first, f64::max);
    if !first.is_finite() {
        return Err("it has no events".to_owned());
    }
    let from = first + window.from.unwrap_or(0.0);
    let to = window.to.map_or(last, |to| first + to).max(from + 1.0);
    let scale = (WIDTH - LEFT - RIGHT) / (to - from);
    let mut body = String::new();
    let mut y = TOP;
    let mut process = None;
    for (row, marks) in &trace.rows {
        if process.is_some_and(|process| process != row.0) {
            y += GAP;
        }
        process = Some(row.0);
        label(&mut body, &trace, *row, y);
        boxes(&mut body, marks, (from, to), scale, y);
        y += ROW;
    }
    let axis = axis(to - from, scale, y);
    let height = y + 10.0;
    Ok(format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n{}{axis}{body}</svg>\n",
        legend(),
    ))
}

fn read(text: &str) -> Result<Trace, String> {
    let file: Value = serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))?;
    let events = file["traceEvents"].as_array().ok_or(
        "no \"traceEvents\"; accepted: a trace that `cargo xtask run ... --trace FILE` has written",
    )?;
    let mut trace = Trace::default();
    for event in events {
        let process = event["pid"].as_u64().unwrap_or(0);
        let row = (process, event["tid"].as_u64().unwrap_or(0));
        let name = event["name"].as_str().unwrap_or("").to_owned();
        let label = || event["args"]["name"].as_str().unwrap_or("").to_owned();
        let since = event["ts"].as_f64().unwrap_or(0.0);
        let lasts = match event["ph"].as_str() {
            Some("M") if name == "process_name" => {
                trace.processes.insert(process, label());
                continue;
            }
            Some("M") if name == "thread_name" => {
                trace.threads.insert(row, label());
                continue;
            }
            Some("X") => Some(event["dur"].as_f64().unwrap_or(0.0)),
            Some("i") => None,
            _ => continue,
        };
        trace
            .rows
            .entry(row)
            .or_default()
            .push(Mark { since, lasts, name });
    }
    Ok(trace)
}

fn label(out: &mut String, trace: &Trace, row: Row, y: f64) {
    let unnamed = String::new();
    let process = trace.processes.get(&row.0).unwrap_or(&unnamed);
    let thread = trace.threads.get(&row).unwrap_or(&unnamed);
    let text = escape(&format!("{process} {thread}"));
    let _ = writeln!(
        out,
        "<text x=\"4\" y=\"{:.1}\">{text}</text>",
        y + ROW - 4.0
    );
}

fn boxes(out: &mut String, marks: &[Mark], (from, to): (f64, f64), scale: f64, y: f64) {
    // The pixel that was drawn last, per color.
    let mut drawn: BTreeMap<&str, i64> = BTreeMap::new();
    for mark in marks {
        let until = mark.since + mark.lasts.unwrap_or(0.0);
        if until < from || mark.since > to {
            continue;
        }
        let color = color(&mark.name);
        let x = LEFT + (mark.since.max(from) - from) * scale;
        let width = (until.min(to) - mark.since.max(from)) * scale;
        // Half a pixel is the least that is drawn; a second one on the same pixel would not be seen.
        let pixel = x.round() as i64;
        if width < 0.5 && drawn.insert(color, pixel) == Some(pixel) {
            continue;
        }
        let title = escape(&mark.name);
        let _ = match mark.lasts {
            Some(lasts) => writeln!(
                out,
                "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{color}\"><title>{title}, {lasts:.1} us</title></rect>",
                y + 2.0,
                width.max(0.5),
                ROW - 4.0,
            ),
            None => writeln!(
                out,
                "<path d=\"M{x:.1} {:.1}v{:.1}\" stroke=\"{color}\"><title>{title}</title></path>",
                y, ROW,
            ),
        };
    }
}

/// What is drawn how, in order of the legend.
const COLORS: [(&str, &str); 9] = [
    ("WAITING_DEVICE_TRIGGER", "#e3b23c"),
    ("PROGRESSING", "#3a86c8"),
    ("IDLE", "#b9d4ea"),
    ("block", "#4caf7a"),
    ("asleep", "#d9d9d9"),
    ("device trigger", "#b5790a"),
    ("semaphore", "#7b4fb5"),
    ("wake", "#777777"),
    ("failed", "#d0342c"),
];
/// Everything else: starts and stops.
const OTHER: &str = "#333333";

fn color(name: &str) -> &'static str {
    let found = COLORS.iter().find(|(prefix, _)| name.starts_with(prefix));
    found.map_or(OTHER, |(_, color)| color)
}

fn legend() -> String {
    let mut out = String::new();
    let mut x = LEFT;
    for (name, color) in COLORS.into_iter().chain([("start, stop", OTHER)]) {
        let _ = writeln!(
            out,
            "<rect x=\"{x:.1}\" y=\"6\" width=\"10\" height=\"10\" fill=\"{color}\"/><text x=\"{:.1}\" y=\"15\">{name}</text>",
            x + 14.0,
        );
        x += 24.0 + 6.4 * name.len() as f64;
    }
    out
}

/// Lines at round times, from 0 at the left.
fn axis(length: f64, scale: f64, bottom: f64) -> String {
    let rough = length / 8.0;
    let power = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
    let step = step
        .into_iter()
        .find(|step| *step >= rough)
        .unwrap_or(rough);
    let mut out = String::new();
    let mut time = 0.0;
    while time <= length {
        let x = LEFT + time * scale;
        let _ = writeln!(
            out,
            "<path d=\"M{x:.1} {:.1}V{bottom:.1}\" stroke=\"#eee\"/><text x=\"{x:.1}\" y=\"{:.1}\" fill=\"#666\">{}</text>",
            TOP - 4.0,
            TOP - 8.0,
            told(time),
        );
        time += step;
    }
    out
}

/// A time in its unit.
fn told(micros: f64) -> String {
    if micros >= 1_000_000.0 {
        format!("{} s", micros / 1_000_000.0)
    } else if micros >= 1000.0 {
        format!("{} ms", micros / 1000.0)
    } else {
        format!("{micros} us")
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Window = Window {
        from: None,
        to: None,
    };

    fn trace(events: &str) -> String {
        format!("{{\"traceEvents\":[{events}]}}")
    }

    #[test]
    fn spans_and_instants_stand_in_the_rows_of_their_tracks() {
        let text = trace(
            r#"{"ph":"M","name":"process_name","pid":2,"args":{"name":"rank 2"}},
               {"ph":"M","name":"thread_name","pid":2,"tid":7,"args":{"name":"a<b"}},
               {"ph":"X","name":"PROGRESSING","pid":2,"tid":7,"ts":100,"dur":500,"args":{}},
               {"ph":"i","s":"t","name":"device trigger","pid":2,"tid":7,"ts":1100}"#,
        );
        let picture = draw(&text, ALL).unwrap();
        assert!(picture.contains(">rank 2 a&lt;b</text>"), "{picture}");
        let half = format!(
            "<rect x=\"{LEFT:.1}\" y=\"46.0\" width=\"500.0\" height=\"12.0\" fill=\"#3a86c8\">"
        );
        assert!(picture.contains(&half), "{picture}");
        let tick = format!(
            "<path d=\"M{:.1} 44.0v16.0\" stroke=\"#b5790a\">",
            WIDTH - RIGHT
        );
        assert!(picture.contains(&tick), "{picture}");
    }

    #[test]
    fn a_window_cuts_what_is_outside() {
        let text = trace(
            r#"{"ph":"X","name":"IDLE","pid":1,"tid":1,"ts":0,"dur":100},
               {"ph":"X","name":"block 1","pid":1,"tid":1,"ts":200,"dur":100}"#,
        );
        let window = Window {
            from: Some(150.0),
            to: Some(350.0),
        };
        let picture = draw(&text, window).unwrap();
        assert!(!picture.contains("IDLE, 100.0 us"), "{picture}");
        assert!(picture.contains("block 1, 100.0 us"), "{picture}");
    }

    #[test]
    fn crowds_of_short_spans_are_drawn_once_per_pixel() {
        let events: Vec<String> = (0..100_000)
            .map(|at| format!(r#"{{"ph":"X","name":"IDLE","pid":1,"tid":1,"ts":{at},"dur":0.1}}"#))
            .collect();
        let picture = draw(&trace(&events.join(",")), ALL).unwrap();
        assert!(picture.matches("IDLE, ").count() <= 1001);
    }

    #[test]
    fn a_file_that_is_no_trace_is_refused() {
        for (text, wanted) in [
            ("hello", "not JSON"),
            ("{}", "no \"traceEvents\""),
            (&trace(""), "it has no events"),
        ] {
            let error = draw(text, ALL).unwrap_err();
            assert!(error.starts_with(wanted), "{error}");
        }
    }
}
