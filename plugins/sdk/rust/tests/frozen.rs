//! Checks that the contract is the one that `wit/frozen` keeps of its version: what plugins were
//! built against does not change under them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result, ensure};

/// What to do when the two differ.
const ADVICE: &str = "The contract of a released version never changes. Give `wit/` a new version \
(the `package` line of each file, and the host's `ABI_VERSION`), keep its copy in `wit/frozen` \
beside the old ones, and serve the old versions as ARCHITECTURE.md says (\"Versions of the \
contract\"). A version that is not released yet, and the wording of comments, may change: \
`UPDATE_FROZEN=1 cargo test -p pilothouse-sdk --test frozen` renews the copy";

#[test]
fn the_contract_is_the_one_that_is_frozen_under_its_version() -> Result<()> {
    let wit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../wit");
    let published = contract(&wit)?;
    let track = track(&published)?;
    let folder = wit.join("frozen").join(&track);
    if std::env::var_os("UPDATE_FROZEN").is_some() {
        freeze(&folder, &published)?;
    }
    let frozen = contract(&folder).unwrap_or_default();
    let differs = |name: &&String| published.get(*name) != frozen.get(*name);
    let names = published.keys().chain(frozen.keys());
    let different: BTreeSet<&String> = names.filter(differs).collect();
    ensure!(
        different.is_empty(),
        "{different:?} in wit/ and in wit/frozen/{track} differ. {ADVICE}"
    );
    Ok(())
}

/// The files that plugins are built against, by name: the WIT and the manifest's schema.
fn contract(folder: &Path) -> Result<BTreeMap<String, String>> {
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.ends_with(".wit") || name.ends_with(".schema.json") {
            files.insert(name.into_owned(), std::fs::read_to_string(&path)?);
        }
    }
    Ok(files)
}

/// The part of the contract's version within which it only grows: `0.2` of `0.2.0`. Every file has
/// the same version.
fn track(files: &BTreeMap<String, String>) -> Result<String> {
    let lines = files.values().flat_map(|text| text.lines());
    let mut versions: Vec<&str> = lines
        .filter_map(|line| line.strip_prefix("package pilothouse:controller@"))
        .collect();
    versions.dedup();
    let [version] = versions[..] else {
        anyhow::bail!("the files of wit/ have several versions: {versions:?}");
    };
    let (track, _) = version.rsplit_once('.').context("a version has dots")?;
    Ok(track.to_owned())
}

/// Makes the folder contain these files and no others.
fn freeze(folder: &Path, files: &BTreeMap<String, String>) -> Result<()> {
    if folder.exists() {
        std::fs::remove_dir_all(folder)?;
    }
    std::fs::create_dir_all(folder)?;
    for (name, text) in files {
        std::fs::write(folder.join(name), text)?;
    }
    Ok(())
}
