//! `cargo xtask doc`: the documentation of every package; a warning (a dead link, say) is an error.

use std::process::ExitCode;

use crate::child;
use crate::workspace::Workspace;

/// The verb: builds, says where the pages are.
pub(crate) fn verb(workspace: &Workspace) -> Result<ExitCode, String> {
    let mut command = workspace.cargo(&["doc", "--quiet", "--workspace", "--no-deps"]);
    child::run(command.env("RUSTDOCFLAGS", "-D warnings"))?;
    let page = workspace.target.join("doc/proxy_core/index.html");
    println!("documentation: {}", page.display());
    Ok(ExitCode::SUCCESS)
}
