//! Three plots as SVG: append and tick over active tasks, barrier over ranks. Both axes are logarithmic.

use std::fmt::Write;
use std::fs;
use std::io;
use std::path::Path;

use crate::judge::Judged;
use crate::plan::Unit;
use crate::report::show;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 360.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 150.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 50.0;
const COLOURS: [&str; 3] = ["#1f6fb4", "#c8472f", "#4d8f3c"];

/// Points of one line: where, and nanoseconds.
type Points = Vec<(f64, f64)>;

/// A plot: file, title, name of the x axis, lines with their names.
struct Plot {
    file: &'static str,
    title: &'static str,
    axis: &'static str,
    lines: Vec<(&'static str, Points)>,
}

/// Writes all plots whose rows were measured.
pub(crate) fn all(folder: &Path, rows: &[Judged]) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let active = [
        ("append.idle.1", 1.0),
        ("append.idle.16", 16.0),
        ("append.idle.256", 256.0),
        ("append.idle.4096", 4096.0),
    ];
    let ticks = [
        ("tick.1", 1.0),
        ("tick.256.64", 256.0),
        ("tick.4096.64", 4096.0),
    ];
    let ranks = [("barrier.2", 2.0), ("barrier.4", 4.0), ("barrier.8", 8.0)];
    let ours = |row: &Judged| Some(row.ours?.p50);
    let tail = |row: &Judged| Some(row.ours?.p99);
    let original = |row: &Judged| Some(row.original?.p50);
    let peer = |row: &Judged| Some(row.peer?.1.p50);
    let plots = [
        Plot {
            file: "append.svg",
            title: "Append while the worker ticks idle tasks",
            axis: "active tasks",
            lines: vec![
                ("ours, p50", points(rows, &active, ours)),
                ("original, p50", points(rows, &active, original)),
                ("ours, p99", points(rows, &active, tail)),
            ],
        },
        Plot {
            file: "tick.svg",
            title: "Cost of a tick per active task",
            axis: "active tasks (1 rank, then 64)",
            lines: vec![
                ("ours", points(rows, &ticks, ours)),
                ("original", points(rows, &ticks, original)),
            ],
        },
        Plot {
            file: "barrier.svg",
            title: "Barrier on 2 CPUs",
            axis: "ranks",
            lines: vec![
                ("ours, p50", points(rows, &ranks, ours)),
                ("Open MPI, p50", points(rows, &ranks, peer)),
                ("ours, p99", points(rows, &ranks, tail)),
            ],
        },
    ];
    for plot in plots.iter().filter(|plot| plot.lines[0].1.len() > 1) {
        fs::write(folder.join(plot.file), plot.draw())?;
    }
    Ok(())
}

fn points(rows: &[Judged], keys: &[(&str, f64)], value: impl Fn(&Judged) -> Option<f64>) -> Points {
    let at = |(key, x): &(&str, f64)| {
        let row = rows.iter().find(|row| row.row.key == *key)?;
        Some((*x, value(row)?))
    };
    keys.iter().filter_map(at).collect()
}

/// Maps a value to a place on an axis.
struct Scale {
    from: (f64, f64),
    to: (f64, f64),
}

impl Scale {
    fn at(&self, value: f64) -> f64 {
        let (low, high) = (self.from.0.log10(), self.from.1.log10());
        let share = (value.log10() - low) / (high - low).max(f64::MIN_POSITIVE);
        self.to.0 + share * (self.to.1 - self.to.0)
    }
}

impl Plot {
    fn draw(&self) -> String {
        let all = || self.lines.iter().flat_map(|line| line.1.iter());
        let range = |of: fn(&(f64, f64)) -> f64| {
            all()
                .map(of)
                .fold((f64::MAX, 0.0_f64), |(low, high), value| {
                    (low.min(value), high.max(value))
                })
        };
        let (xs, ys) = (range(|point| point.0), range(|point| point.1));
        let decade = |value: f64, up: bool| {
            let power = value.log10();
            10_f64.powf(if up { power.ceil() } else { power.floor() })
        };
        let x = Scale {
            from: xs,
            to: (LEFT, WIDTH - RIGHT),
        };
        let y = Scale {
            from: (decade(ys.0, false), decade(ys.1, true)),
            to: (HEIGHT - BOTTOM, TOP),
        };
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"12\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
        );
        self.frame(&mut svg, &x, &y);
        for (number, (name, points)) in self.lines.iter().enumerate() {
            line(
                &mut svg,
                COLOURS[number % COLOURS.len()],
                name,
                points,
                &x,
                &y,
            );
        }
        svg + "</svg>\n"
    }

    fn frame(&self, svg: &mut String, x: &Scale, y: &Scale) {
        let middle = f64::midpoint(LEFT, WIDTH - RIGHT);
        put(svg, middle, 22.0, "middle", "black", self.title);
        put(svg, middle, HEIGHT - 12.0, "middle", "black", self.axis);
        let mut level = y.from.0;
        while level <= y.from.1 * 1.001 {
            let at = y.at(level);
            let _ = writeln!(
                svg,
                "<path d=\"M{LEFT} {at:.1}H{}\" stroke=\"#ddd\"/>",
                WIDTH - RIGHT
            );
            put(
                svg,
                LEFT - 6.0,
                at + 4.0,
                "end",
                "black",
                &show(level, Unit::Time),
            );
            level *= 10.0;
        }
        for (value, _) in &self.lines[0].1 {
            put(
                svg,
                x.at(*value),
                HEIGHT - BOTTOM + 18.0,
                "middle",
                "black",
                &format!("{value}"),
            );
        }
    }
}

fn line(svg: &mut String, colour: &str, name: &str, points: &Points, x: &Scale, y: &Scale) {
    let places: Vec<(f64, f64)> = points
        .iter()
        .map(|point| (x.at(point.0), y.at(point.1)))
        .collect();
    let path: Vec<String> = places
        .iter()
        .map(|(x, y)| format!("{x:.1},{y:.1}"))
        .collect();
    let _ = writeln!(
        svg,
        "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
        path.join(" ")
    );
    for (x, y) in &places {
        let _ = writeln!(
            svg,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>"
        );
    }
    if let Some((x, y)) = places.last() {
        put(svg, x + 8.0, y + 4.0, "start", colour, name);
    }
}

fn put(svg: &mut String, x: f64, y: f64, anchor: &str, colour: &str, text: &str) {
    // A String takes everything.
    let _ = writeln!(
        svg,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" fill=\"{colour}\">{text}</text>"
    );
}
