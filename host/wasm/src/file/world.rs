//! Whether a file is linked to the contract, by the names of its imports and exports alone.

use super::error::LoadError;
use super::scan::Scan;
use crate::bindings::{ABI_VERSION, PACKAGE, is_wasi};

const EXPORTS: [&str; 2] = ["describe", "reconcile"];

/// Checks what the outline shows. Most files that are not plugins are refused here, before anything
/// is compiled.
pub(crate) fn check_outline(outline: &Scan) -> Result<(), LoadError> {
    if outline.is_component {
        return check_world(outline);
    }
    if !outline.has_world_section {
        return Err(LoadError::NoWorld);
    }
    Ok(())
}

/// Checks imports and exports by name alone, before anything is compiled. A component that imports
/// nothing and exports the two functions passes. Their types are compared when it is linked.
pub(crate) fn check_world(outline: &Scan) -> Result<(), LoadError> {
    for name in outline.imports.iter().chain(&outline.exports) {
        if let Some(found) = foreign_version(name) {
            return Err(LoadError::AbiVersion {
                found: found.to_owned(),
            });
        }
    }
    for name in &outline.imports {
        if !name.starts_with(PACKAGE) && !is_wasi(name) {
            return Err(LoadError::ForeignImport(name.clone()));
        }
    }
    for missing in EXPORTS {
        if !outline.exports.iter().any(|name| name == missing) {
            return Err(LoadError::OtherWorld {
                missing,
                exports: outline.exports.clone(),
            });
        }
    }
    Ok(())
}

/// The version of one of our interfaces, if this host does not support its track, such as 0.1.
/// Within a track versions only add to the contract, and the linker accepts them.
fn foreign_version(name: &str) -> Option<&str> {
    let (_, version) = name
        .strip_prefix(PACKAGE)?
        .split_once('@')
        .unwrap_or(("", "no version"));
    let track = |version| str::rsplit_once(version, '.').map(|(track, _)| track);
    (track(version) != track(ABI_VERSION)).then_some(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_versions_of_the_same_track_are_spoken() {
        for good in [
            "pilothouse:controller/log@0.1.0",
            "pilothouse:controller/log@0.1.7",
            "wasi:io/poll@0.2.0",
            "describe",
        ] {
            assert_eq!(foreign_version(good), None, "{good}");
        }
        assert_eq!(
            foreign_version("pilothouse:controller/log@0.2.0"),
            Some("0.2.0")
        );
        assert_eq!(
            foreign_version("pilothouse:controller/log@1.1.0"),
            Some("1.1.0")
        );
        assert_eq!(
            foreign_version("pilothouse:controller/log"),
            Some("no version")
        );
    }

    #[test]
    fn the_abi_version_is_the_one_in_wit() {
        let world = include_str!("../../../../wit/world.wit");
        assert!(world.contains(&format!("package pilothouse:controller@{ABI_VERSION};")));
    }
}
