//! `cargo xtask timeline FILE -o out.svg`: a picture of a trace for a quick look, 1200 pixels wide.
//!
//! Reads what `--trace` writes (the JSON that Perfetto opens, too): one row per rank, track and lane, spans as boxes, instants as
//! ticks. What is too short to be seen is drawn half a pixel wide, once per pixel, so a long trace stays a small file.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use serde_json::Value;

use crate::usage;

/// What this verb reads.
const ACCEPTED: &str = "a trace that `cargo xtask run ... --trace FILE` has written";
const WIDTH: f64 = 1200.0;
/// Room for the names of rows.
const LEFT: f64 = 190.0;
/// Where the names of tracks begin, behind that of their process.
const TRACK: f64 = 100.0;
/// Width of a letter, about: as wide as common fonts have it, so that texts do not run into what follows.
const LETTER: f64 = 7.2;
const RIGHT: f64 = 10.0;
const TOP: f64 = 44.0;
const ROW: f64 = 16.0;
/// Gap above the rows of the next process.
const GAP: f64 = 8.0;

/// The part of the trace to draw.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct Window {
    /// Draw this execution of all ranks alone.
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true, value_parser = usage::number)]
    exec: Option<u64>,
    /// Draw from here on: microseconds after the first event of a rank, or of the execution.
    #[arg(long, value_name = "US", allow_negative_numbers = true, value_parser = usage::micros)]
    from: Option<f64>,
    /// Draw up to here.
    #[arg(long, value_name = "US", allow_negative_numbers = true, value_parser = usage::micros)]
    to: Option<f64>,
}

/// `timeline`.
pub(crate) fn verb(file: &Path, out: &Path, window: Window) -> Result<ExitCode, String> {
    let text = std::fs::read_to_string(file);
    let text = text.map_err(|error| format!("{error}; accepted: {ACCEPTED}"));
    let picture = text.and_then(|text| draw(&text, window));
    let drawn = picture
        .map_err(|what| format!("trace {}: {what}", file.display()))
        .and_then(|picture| {
            let unwritten = |error| {
                format!(
                    "picture {}: {error}; accepted: a file that can be written",
                    out.display()
                )
            };
            std::fs::write(out, picture).map_err(unwritten)
        });
    if let Err(what) = drawn {
        return Ok(usage::refuse(&what));
    }
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
    /// The execution, for states of a task.
    exec: Option<u64>,
}

impl Mark {
    fn until(&self) -> f64 {
        self.since + self.lasts.unwrap_or(0.0)
    }

    /// Whether it is a rank's, and not a pause of a worker, which may be long before the first and after the last.
    fn is_work(&self) -> bool {
        !["asleep", "wake"].contains(&self.name.as_str())
    }
}

/// A row: process and thread number, which sort it.
type Row = (u64, u64);

#[derive(Debug, Default)]
struct Trace {
    processes: BTreeMap<u64, String>,
    threads: BTreeMap<Row, String>,
    rows: BTreeMap<Row, Vec<Mark>>,
}

impl Trace {
    /// Beginning and end of a window, in microseconds of the trace's clock.
    fn bounds(&self, window: Window) -> Result<(f64, f64), String> {
        let marks = || self.rows.values().flatten();
        let work = |mark: &&Mark| match window.exec {
            Some(exec) => mark.exec == Some(exec),
            None => mark.is_work(),
        };
        let first = (marks().filter(work).map(|mark| mark.since)).fold(f64::INFINITY, f64::min);
        let last = (marks().filter(work).map(Mark::until)).fold(first, f64::max);
        if !first.is_finite() {
            return Err(match window.exec {
                Some(exec) => format!(
                    "it has no execution {exec}; accepted: {}",
                    self.executions()
                ),
                None => format!("it has no events of a rank; accepted: {ACCEPTED}"),
            });
        }
        let from = first + window.from.unwrap_or(0.0);
        let to = window.to.map_or(last, |to| first + to);
        Ok((from, to.max(from + 1.0)))
    }

    fn executions(&self) -> String {
        let all = || self.rows.values().flatten().filter_map(|mark| mark.exec);
        match (all().min(), all().max()) {
            (Some(first), Some(last)) => format!("{first} to {last}"),
            _ => "a trace with tasks".to_owned(),
        }
    }
}

/// The picture of a trace.
fn draw(text: &str, window: Window) -> Result<String, String> {
    let trace = read(text)?;
    let (from, to) = trace.bounds(window)?;
    let scale = (WIDTH - LEFT - RIGHT) / (to - from);
    let mut body = String::new();
    let mut y = TOP;
    let mut process = None;
    for (row, marks) in &trace.rows {
        let first = process != Some(row.0);
        if first && process.is_some() {
            y += GAP;
        }
        process = Some(row.0);
        let _ = writeln!(
            body,
            "<rect x=\"{LEFT}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{ROW}\" fill=\"#f6f6f6\"/>",
            WIDTH - LEFT - RIGHT
        );
        label(&mut body, &trace, *row, first, y);
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
    let bad = |what: &str| format!("{what}; accepted: {ACCEPTED}");
    let file: Value =
        serde_json::from_str(text).map_err(|error| bad(&format!("it is no JSON ({error})")))?;
    let events = file["traceEvents"].as_array();
    let events = events.ok_or_else(|| bad("it has no list \"traceEvents\""))?;
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
        trace.rows.entry(row).or_default().push(Mark {
            since,
            lasts,
            name,
            exec: event["args"]["exec"].as_u64(),
        });
    }
    Ok(trace)
}

/// Names a row by its track, and the first of a process by that, too.
fn label(out: &mut String, trace: &Trace, row: Row, first: bool, y: f64) {
    let y = y + ROW - 4.0;
    if first && let Some(process) = trace.processes.get(&row.0) {
        let process = escape(process);
        let _ = writeln!(
            out,
            "<text x=\"4\" y=\"{y:.1}\" font-weight=\"bold\">{process}</text>"
        );
    }
    if let Some(thread) = trace.threads.get(&row) {
        let thread = escape(thread);
        let _ = writeln!(out, "<text x=\"{TRACK}\" y=\"{y:.1}\">{thread}</text>");
    }
}

fn boxes(out: &mut String, marks: &[Mark], (from, to): (f64, f64), scale: f64, y: f64) {
    // The pixel that was drawn last, per color.
    let mut drawn: BTreeMap<&str, i64> = BTreeMap::new();
    // Instants on top, at the edges of the spans that they begin.
    let (spans, instants): (Vec<&Mark>, Vec<&Mark>) =
        marks.iter().partition(|mark| mark.lasts.is_some());
    for mark in spans.into_iter().chain(instants) {
        let until = mark.until();
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
                "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{color}\"><title>{title}, {lasts:.1} us</title></rect>{}",
                y + 2.0,
                width.max(0.5),
                ROW - 4.0,
                inside(&mark.name, x, y, width),
            ),
            None => writeln!(
                out,
                "<path d=\"M{x:.1} {:.1}v{:.1}\" stroke=\"{color}\"><title>{title}</title></path>",
                y, ROW,
            ),
        };
    }
}

/// The name of a block inside its box, if there is room for it; run states are told by their color.
fn inside(name: &str, x: f64, y: f64, width: f64) -> String {
    if !name.starts_with("block") || width < LETTER * name.len() as f64 {
        return String::new();
    }
    format!(
        "<text x=\"{:.1}\" y=\"{:.1}\" font-size=\"10\" fill=\"#fff\">{}</text>",
        x + 4.0,
        y + ROW - 4.5,
        escape(name)
    )
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
    let mut x = 4.0;
    for (name, color) in COLORS.into_iter().chain([("start, stop", OTHER)]) {
        let _ = writeln!(
            out,
            "<rect x=\"{x:.1}\" y=\"6\" width=\"10\" height=\"10\" fill=\"{color}\"/><text x=\"{:.1}\" y=\"15\">{name}</text>",
            x + 14.0,
        );
        x += 26.0 + LETTER * name.len() as f64;
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
        exec: None,
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
        for label in [">rank 2</text>", ">a&lt;b</text>"] {
            assert!(picture.contains(label), "{picture}");
        }
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
            ..ALL
        };
        let picture = draw(&text, window).unwrap();
        assert!(!picture.contains("IDLE, 100.0 us"), "{picture}");
        assert!(picture.contains("block 1, 100.0 us"), "{picture}");
    }

    #[test]
    fn one_execution_fills_the_picture_and_the_sleep_before_the_first_event_does_not() {
        let text = trace(
            r#"{"ph":"X","name":"asleep","pid":9,"tid":0,"ts":0,"dur":1000000},
               {"ph":"X","name":"IDLE","pid":1,"tid":1,"ts":1000000,"dur":100,"args":{"exec":6}},
               {"ph":"X","name":"IDLE","pid":1,"tid":1,"ts":1000100,"dur":100,"args":{"exec":7}}"#,
        );
        let half = format!("<rect x=\"{LEFT:.1}\" y=\"46.0\" width=\"500.0\"");
        assert!(draw(&text, ALL).unwrap().contains(&half));
        let one = |exec| Window {
            exec: Some(exec),
            ..ALL
        };
        let all = format!("<rect x=\"{LEFT:.1}\" y=\"46.0\" width=\"1000.0\"");
        assert!(draw(&text, one(7)).unwrap().contains(&all));
        let error = draw(&text, one(8)).unwrap_err();
        assert_eq!(error, "it has no execution 8; accepted: 6 to 7");
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
            ("hello", "it is no JSON"),
            ("{}", "it has no list \"traceEvents\"; accepted: a trace"),
            (&trace(""), "it has no events"),
        ] {
            let error = draw(text, ALL).unwrap_err();
            assert!(error.starts_with(wanted), "{error}");
        }
    }
}
