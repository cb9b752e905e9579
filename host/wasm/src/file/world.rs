//! Whether a file is linked to the contract, by the names of its imports and exports alone.

use super::error::LoadError;
use super::scan::Scan;
use crate::bindings::{ABI_VERSION, PACKAGE, PLUGIN, is_wasi};

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
/// nothing and exports the interface `plugin` passes. The types are compared when it is linked. The
/// interface may be exported in other versions, too: this host does not look at them.
pub(crate) fn check_world(outline: &Scan) -> Result<(), LoadError> {
    for name in &outline.imports {
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
    check_exports(&outline.exports)
}

fn check_exports(exports: &[String]) -> Result<(), LoadError> {
    let begin = format!("{PACKAGE}{PLUGIN}@");
    let versions = || exports.iter().filter(|name| name.starts_with(&begin));
    let foreign = versions().map(|name| foreign_version(name));
    match foreign.reduce(Option::and) {
        Some(None) => Ok(()),
        Some(Some(found)) => Err(LoadError::AbiVersion {
            found: found.to_owned(),
        }),
        None => Err(LoadError::OtherWorld {
            missing: format!("{begin}{ABI_VERSION}"),
            exports: exports.to_vec(),
        }),
    }
}

/// The version of one of our interfaces, if this host does not support its track, such as 0.2.
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
            "pilothouse:controller/log@0.2.0",
            "pilothouse:controller/log@0.2.7",
            "wasi:io/poll@0.2.0",
            "reconcile",
        ] {
            assert_eq!(foreign_version(good), None, "{good}");
        }
        assert_eq!(
            foreign_version("pilothouse:controller/log@0.1.0"),
            Some("0.1.0")
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
    fn one_export_that_this_host_speaks_is_enough() {
        let check = |exports: &[&str]| {
            let exports: Vec<_> = exports.iter().map(|name| (*name).to_owned()).collect();
            check_exports(&exports).map_err(|error| error.to_string())
        };
        let of = |version: &str| format!("pilothouse:controller/plugin@{version}");
        assert_eq!(check(&[&of("0.3.0"), &of("0.2.1"), "run"]), Ok(()));
        let newer = check(&[&of("0.3.0"), &of("1.0.0")]).unwrap_err();
        assert!(
            newer.starts_with("speaks pilothouse:controller@"),
            "{newer}"
        );
        let none = check(&["describe", "reconcile"]).unwrap_err();
        assert!(
            none.starts_with("does not export \"pilothouse:controller/plugin@0.2.0\""),
            "{none}"
        );
    }

    #[test]
    fn the_abi_version_is_the_one_in_wit() {
        let world = include_str!("../../../../wit/world.wit");
        assert!(world.contains(&format!("package pilothouse:controller@{ABI_VERSION};")));
    }
}
