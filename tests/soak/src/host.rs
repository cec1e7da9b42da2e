//! A process of ranks: it reads orders, gives each rank a thread, and says what they say. It ends with its input.

use std::io::{BufRead, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::Arc;

use proxy_os::log::{self, Level};
use proxy_os::nccom::{self, Library};

use crate::rank;
use crate::resources::Resources;
use crate::signals::die_with_conductor;
use crate::talk::{Assignment, News, Order, Report};

/// Reads orders until there are no more.
pub(crate) fn main() -> ExitCode {
    if let Err(error) = die_with_conductor() {
        return fail(&error.to_string());
    }
    // What a fault brings is expected, and what is not is in the reports.
    log::set_level(Level::Error);
    log::set_sink(|_, _| {});
    let mut library = None;
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        match serde_json::from_str::<Order>(&line) {
            Ok(Order::Load(path)) => match nccom::shared(path.as_os_str()) {
                Ok(loaded) => library = Some(loaded),
                Err(error) => return fail(&error.to_string()),
            },
            Ok(Order::Measure) => say(&News::Measured(Resources::measure())),
            Ok(Order::Run(assignment)) => match &library {
                Some(library) => start(*assignment, library),
                None => return fail("a round without a library"),
            },
            Err(error) => return fail(&error.to_string()),
        }
    }
    ExitCode::SUCCESS
}

fn fail(what: &str) -> ExitCode {
    say(&News::Failed(what.to_owned()));
    ExitCode::FAILURE
}

/// Gives each rank a thread of its own. A panic of one is its report.
fn start(assignment: Assignment, library: &Arc<Library>) {
    let assignment = Arc::new(assignment);
    for number in assignment.ranks.clone() {
        let (assignment, library) = (Arc::clone(&assignment), Arc::clone(library));
        std::thread::spawn(move || {
            let reached = || say(&News::Reached(number));
            let body = || rank::run(&assignment, number, &library, reached);
            let report = catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| Report {
                rank: number,
                wrong: vec!["panicked".to_owned()],
                ..Report::default()
            });
            say(&News::Over(report));
        });
    }
}

/// Says one thing, whole. Without a conductor there is nobody to say it to, and the input ends, too.
fn say(news: &News) {
    if let Ok(mut line) = serde_json::to_vec(news) {
        line.push(b'\n');
        let _ = std::io::stdout().lock().write_all(&line);
    }
}
