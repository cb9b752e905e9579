//! The relative links of documents lead somewhere: those of this repository, and those of a project
//! that `pilothouse new` makes.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// Folders without documents of ours. The templates' links hold once they are a project.
const SKIPPED: [&str; 4] = ["target", "templates", "node_modules", "__pycache__"];

/// The documents in a directory and below it.
fn documents(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        if entry.file_type()?.is_dir() {
            if !name.starts_with('.') && !SKIPPED.contains(&&*name) {
                found.extend(documents(&path)?);
            }
        } else if name.ends_with(".md") {
            found.push(path);
        }
    }
    Ok(found)
}

/// A document without its blocks of code.
fn prose(text: &str) -> String {
    let parts = text.split("```").step_by(2);
    parts.collect()
}

/// The relative links of a document.
fn links(text: &str) -> Vec<String> {
    let prose = prose(text);
    let links = prose.split("](").skip(1);
    let links = links.filter_map(|rest| rest.split_once(')').map(|(link, _)| link));
    let is_relative = |link: &&str| !link.contains("://") && !link.starts_with("mailto:");
    links.filter(is_relative).map(str::to_owned).collect()
}

/// The fragments of a document's headings, as GitHub makes them.
fn headings(text: &str) -> Vec<String> {
    let prose = prose(text);
    let headings = prose.lines().filter_map(|line| {
        let heading = line.trim_start_matches('#').strip_prefix(' ')?;
        line.starts_with('#').then_some(heading)
    });
    let fragment = |heading: &str| -> String {
        let heading = heading.trim().to_lowercase().replace(' ', "-");
        let is_kept = |char: &char| char.is_alphanumeric() || matches!(char, '-' | '_');
        heading.chars().filter(is_kept).collect()
    };
    headings.map(fragment).collect()
}

/// What is wrong with a link of a document.
fn fault(document: &Path, text: &str, link: &str) -> Option<String> {
    let (path, fragment) = link.split_once('#').unwrap_or((link, ""));
    let target = match path {
        "" => document.to_owned(),
        path => document.with_file_name(path),
    };
    let told = |what: &str| Some(format!("{}: {link} {what}", document.display()));
    if !target.exists() {
        return told("leads nowhere");
    }
    let text = match path {
        "" => text.to_owned(),
        _ => std::fs::read_to_string(&target).unwrap_or_default(),
    };
    let has_heading = fragment.is_empty() || headings(&text).iter().any(|one| one == fragment);
    if has_heading {
        return None;
    }
    told("names no heading")
}

/// The faults of all documents below a directory, of which there are at least this many links.
fn faults(directory: &Path, least: usize) -> Result<Vec<String>> {
    let mut faults = Vec::new();
    let mut count = 0;
    for document in documents(directory)? {
        let text = std::fs::read_to_string(&document)?;
        let links = links(&text);
        count += links.len();
        faults.extend(
            links
                .iter()
                .filter_map(|link| fault(&document, &text, link)),
        );
    }
    ensure!(count >= least, "there are {count} links");
    Ok(faults)
}

#[test]
fn every_link_of_a_document_leads_to_a_file_and_a_heading() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let faults = faults(&root, 60)?;
    assert!(faults.is_empty(), "{faults:#?}");
    Ok(())
}

#[test]
fn every_link_in_a_new_project_leads_to_a_file_and_a_heading() -> Result<()> {
    let binary = std::env::var("PILOTHOUSE_BIN").context("PILOTHOUSE_BIN is not set")?;
    for language in ["rust", "python"] {
        let parent = tempfile::tempdir()?;
        let made = Command::new(&binary)
            .args(["new", "site", "--lang", language])
            .current_dir(parent.path())
            .stdout(Stdio::null())
            .status()?;
        ensure!(made.success());
        let faults = faults(parent.path(), 4)?;
        assert!(faults.is_empty(), "{language}: {faults:#?}");
    }
    Ok(())
}

#[test]
fn a_link_to_nothing_is_found() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let text = "# A `b` c\n[a](b.md#a-b-c) [b](#a-b-c) [c](https://a.b)\n```\n[d](none)\n```\n";
    std::fs::write(directory.path().join("b.md"), text)?;
    assert_eq!(faults(directory.path(), 2)?, [""; 0]);
    let text = text
        .replace("(b.md#", "(c.md#")
        .replace("(#a-b-c", "(#a-b-d");
    std::fs::write(directory.path().join("b.md"), text)?;
    assert_eq!(faults(directory.path(), 2)?.len(), 2);
    Ok(())
}
