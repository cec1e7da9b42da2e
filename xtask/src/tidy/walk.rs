//! Reads the workspace's text files.

use std::fs;
use std::path::Path;

use super::Tree;
use super::source::Source;
use crate::workspace::Workspace;

/// Folders that hold no sources of the project, wherever they are.
const PASSED_OVER: [&str; 2] = [".git", "target"];

/// Reads every file below the root but those in build folders, in the order of their paths; files that are not UTF-8 are
/// not text and are left out.
pub(super) fn tree(workspace: &Workspace) -> Result<Tree, String> {
    let mut files = Vec::new();
    read_folder(&workspace.root, "", &workspace.target, &mut files)?;
    files.sort_by(|a: &Source, b| a.path.cmp(&b.path));
    Ok(Tree {
        files,
        packages: workspace.packages.clone(),
    })
}

fn read_folder(
    folder: &Path,
    prefix: &str,
    target: &Path,
    files: &mut Vec<Source>,
) -> Result<(), String> {
    let failed = |path: &Path, error| format!("cannot read {}: {error}", path.display());
    for entry in fs::read_dir(folder).map_err(|error| failed(folder, error))? {
        let entry = entry.map_err(|error| failed(folder, error))?;
        let path = entry.path();
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let kind = entry.file_type().map_err(|error| failed(&path, error))?;
        if kind.is_dir() {
            if !PASSED_OVER.contains(&&*name) && path != target {
                read_folder(&path, &format!("{prefix}{name}/"), target, files)?;
            }
        } else if kind.is_file() {
            let bytes = fs::read(&path).map_err(|error| failed(&path, error))?;
            if let Ok(text) = String::from_utf8(bytes) {
                files.push(Source::read(&format!("{prefix}{name}"), &text));
            }
        }
    }
    Ok(())
}
