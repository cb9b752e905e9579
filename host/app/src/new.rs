//! `pilothouse new`: makes a directory with a new plugin.
//!
//! What is written is packed into the binary by `build.rs`: the files of `templates`, and for each
//! language the SDK and what that needs.

mod names;
#[cfg(test)]
mod tests;

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context, bail};

use crate::cli::{Language, NewArgs};

/// The files of a new project.
struct Project {
    /// The path of each in the project, and the length of its text in bytes.
    files: &'static [(&'static str, usize)],
    /// Their texts one after the other, compressed by zlib.
    packed: &'static [u8],
}

const RUST: Project = Project {
    files: include!(concat!(env!("OUT_DIR"), "/rust.rs")),
    packed: include_bytes!(concat!(env!("OUT_DIR"), "/rust.zlib")),
};

const PYTHON: Project = Project {
    files: include!(concat!(env!("OUT_DIR"), "/python.rs")),
    packed: include_bytes!(concat!(env!("OUT_DIR"), "/python.zlib")),
};

/// `pilothouse new`: makes the directory in the current one. Returns what to do next.
pub fn print(args: &NewArgs) -> anyhow::Result<String> {
    let NewArgs { name, lang } = args;
    make(Path::new("."), name, *lang)?;
    Ok(format!(
        "made {name}; cd {name}, and go on as its README.md says"
    ))
}

/// Makes a directory with a new plugin.
///
/// # Errors
///
/// The directory exists and is not empty, the language has no such name, or a file cannot be
/// written.
fn make(parent: &Path, name: &str, language: Language) -> anyhow::Result<()> {
    let project = match language {
        Language::Rust => {
            names::check_crate(name)?;
            RUST
        }
        Language::Python => PYTHON,
    };
    let directory = parent.join(name);
    check_empty(&directory).with_context(|| format!("{name} cannot be made"))?;
    for (path, text) in project.unpack()? {
        write(&directory.join(path), &filled_in(&text, name))
            .with_context(|| format!("cannot write {name}/{path}"))?;
    }
    Ok(())
}

impl Project {
    /// The files' paths and texts.
    fn unpack(&self) -> anyhow::Result<Vec<(&'static str, String)>> {
        let texts = miniz_oxide::inflate::decompress_to_vec_zlib(self.packed)
            .map_err(|error| anyhow::anyhow!("cannot unpack the SDK: {error}"))?;
        let mut rest = String::from_utf8(texts)?;
        let mut files = Vec::new();
        for (path, length) in self.files {
            let after = rest.split_off(*length);
            files.push((*path, std::mem::replace(&mut rest, after)));
        }
        Ok(files)
    }
}

/// A text of a project of this name. What is vendored has no places to fill in.
fn filled_in(text: &str, name: &str) -> String {
    text.replace("@name@", name)
        .replace("@file@", &name.replace('-', "_"))
}

fn check_empty(directory: &Path) -> anyhow::Result<()> {
    match fs::read_dir(directory) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotADirectory => {
            bail!("there is a file of this name; choose another name, or go to another directory")
        }
        Err(error) => Err(error.into()),
        Ok(mut entries) => match entries.next() {
            None => Ok(()),
            Some(_) => bail!(
                "there is a directory of this name, and it is not empty; choose another name, or \
                 go to another directory"
            ),
        },
    }
}

fn write(path: &Path, text: &str) -> std::io::Result<()> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    fs::write(path, text)
}
