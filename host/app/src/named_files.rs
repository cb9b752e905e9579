//! The plugin files that a command is given: files, and directories that stand for the plugins in
//! them.

use std::path::PathBuf;

use crate::directory::Directory;
use crate::output;

/// The files that the arguments stand for, and the problems with others. A directory stands for the
/// plugins that a host would find in it.
pub fn named_files(named: &[PathBuf]) -> (Vec<PathBuf>, Vec<String>) {
    let (mut files, mut problems) = (Vec::new(), Vec::new());
    for path in named {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        match Directory::open(path).and_then(|directory| directory.list()) {
            Ok(listing) if listing.plugins.is_empty() => {
                problems.push(format!("{}: has no *.wasm file", path.display()));
            }
            Ok(listing) => {
                for (name, found) in listing.plugins {
                    let file = path.join(name);
                    match found.wasm {
                        Ok(_) => files.push(file),
                        Err(reason) => problems.push(format!("{}: {reason}", file.display())),
                    }
                }
            }
            Err(error) => problems.push(output::chain(&error)),
        }
    }
    (files, problems)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_stands_for_the_plugins_in_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        std::fs::create_dir(path("empty")).unwrap();
        for name in ["b.wasm", "a.wasm", ".hidden.wasm", "a.toml", "readme"] {
            std::fs::write(path(name), "").unwrap();
        }
        let (found, problems) = named_files(&[directory.path().to_owned()]);
        assert_eq!(found, [path("a.wasm"), path("b.wasm")]);
        assert!(problems.is_empty(), "{problems:?}");
        let (found, problems) = named_files(&[path("empty"), path("absent.wasm")]);
        assert_eq!(found, [path("absent.wasm")], "reading it says why not");
        assert!(
            problems[0].ends_with("empty: has no *.wasm file"),
            "{problems:?}"
        );
    }
}
