//! Not there yet.
use crate::workspace::Workspace;
/// The verb.
pub(crate) fn verb(_: &Workspace) -> Result<(), String> {
    Err("not there yet".into())
}
