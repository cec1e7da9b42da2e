//! What is measured, in groups; each group is run in a process of its own, alternately with its counterparts.

mod bare;
mod bus;
mod driver;
mod floor;
mod job;
mod process;
mod world;

/// A group of our own figures.
pub(crate) type Group = (&'static str, fn());

/// By name.
pub(crate) const GROUPS: [Group; 11] = [
    ("floor", floor::all),
    ("append", driver::append),
    ("done", driver::done),
    ("tick", driver::tick),
    ("look", driver::look),
    ("tasks", driver::tasks),
    ("bus", bus::all),
    ("process", process::all),
    ("chain", job::chain),
    ("still", job::still),
    ("resident", job::full),
];

pub(crate) use process::JOINS;
