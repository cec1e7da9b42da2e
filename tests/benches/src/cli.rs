//! The command line of the benches. `cargo xtask bench` compiles this file, too, so that what is wrong is refused before anything is built.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask bench", args_conflicts_with_subcommands = true)]
pub(crate) struct Cli {
    /// Two rounds instead of five.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Writes all figures to this file, too.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Writes the plots to this folder.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) plots: Option<PathBuf>,
    /// Groups by their names, or rows by a part of their keys; all if none is given.
    pub(crate) rows: Vec<String>,
    #[command(subcommand)]
    pub(crate) role: Option<Role>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Role {
    /// Measure one group of our own figures (a child of this program).
    #[command(hide = true)]
    Group { name: String },
    /// Simulate the barrier for 2 to 1024 ranks from measured line-transfer costs.
    Simulate,
}
