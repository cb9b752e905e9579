//! Why `pilothouse run` would not run a file that loads, under the settings beside it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use pilothouse_core::{
    Granted, Grants, JoinError, Manifest, lack_of_namespaces, reads_secret_values, unread_subject,
};

use crate::settings::{HostDefaults, SettingsFile};

/// What a plugin of this name lacks in its settings. A cluster may refuse more.
pub fn of_settings(settings: &SettingsFile, name: &str, manifest: &Manifest) -> Vec<String> {
    let defaults = HostDefaults::of_run();
    let granted = settings.grants.clone().unwrap_or(defaults.grants);
    let grants = Grants {
        what: Granted::from(granted),
        namespaces: settings.namespaces.clone().unwrap_or_default(),
        ..Grants::default()
    };
    let granted = grants.limit(manifest);
    let unread = unread_subject(&granted, &BTreeSet::new());
    let lacks_values = reads_secret_values(&granted) && settings.secret_values != Some(true);
    let values = lacks_values.then(|| JoinError::SecretValues(name.to_owned()).to_string());
    unread
        .map(lack_of_namespaces)
        .into_iter()
        .chain(values)
        .collect()
}

/// Why the second of two files with one plugin's name does not run. Of the files of a directory,
/// the first in the order of their names runs.
pub fn of_namesake(file: &Path, name: &str, all: &[(PathBuf, String)]) -> Option<String> {
    let is_earlier = |(other, other_name): &&(PathBuf, String)| {
        name == other_name && other.parent() == file.parent() && **other < *file
    };
    let (first, _) = all.iter().find(is_earlier)?;
    let first = first.file_name().unwrap_or_default().to_string_lossy();
    let reason = JoinError::DuplicateName(name.to_owned());
    Some(format!("{reason}: {first}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::parse;

    fn obstacles(manifest: &str, settings: &str) -> Vec<String> {
        let manifest = Manifest::from_json(manifest).unwrap();
        of_settings(&parse(settings).unwrap(), "p", &manifest)
    }

    #[test]
    fn values_of_secrets_that_are_granted_and_not_allowed_keep_a_plugin_from_running() {
        let manifest = r#"{"name": "p", "version": "1", "singleton": true,
            "reads": [{"kind": "v1/Secret", "fields": [".data"]}]}"#;
        let granted = "grants.reads = [\"Secret\"]";
        let [told] = &obstacles(manifest, granted)[..] else {
            panic!("nothing is told");
        };
        assert!(told.contains("secret-values = true"), "{told}");
        for settings in [
            "",
            "grants = \"own-kind\"",
            "grants.reads = [\"Pod\"]",
            "secret-values = true\ngrants = \"as-requested\"",
        ] {
            assert_eq!(obstacles(manifest, settings), [""; 0], "{settings}");
        }
        let own = r#"{"name": "p", "version": "1", "reconciles": [{"kind": "v1/Secret"}],
            "reads": [{"kind": "v1/Secret", "fields": [".data"]}]}"#;
        assert_eq!(obstacles(own, "").len(), 1, "its own kind needs no grant");
    }

    #[test]
    fn a_plugin_whose_namespaces_are_none_of_the_settings_does_not_run() {
        let manifest = r#"{"name": "p", "version": "1",
            "reconciles": [{"kind": "v1/Pod", "namespaces": ["web"]}],
            "reads": [{"kind": "v1/Pod", "fields": [".spec"], "namespaces": ["web"]}]}"#;
        assert_eq!(
            obstacles(manifest, "namespaces = [\"shop\"]"),
            ["v1/Pod is read in none of the namespaces that the settings name"]
        );
        assert_eq!(obstacles(manifest, "namespaces = [\"web\"]"), [""; 0]);
    }

    #[test]
    fn a_plugin_whose_pattern_is_not_granted_by_name_does_not_run() {
        let manifest = r#"{"name": "p", "version": "1", "reconciles": [{"kind": "*"}],
            "reads": [{"kind": "*", "fields": [".metadata.labels"]}]}"#;
        for settings in [
            "",
            "grants = \"as-requested\"",
            "grants.reads = [\"apps/*\"]",
        ] {
            let told = obstacles(manifest, settings);
            let lack = "it reconciles *, which is granted by name alone";
            assert!(
                told.len() == 1 && told[0].starts_with(lack),
                "{settings}: {told:?}"
            );
        }
        assert_eq!(obstacles(manifest, "grants.reads = [\"*\"]"), [""; 0]);
    }

    #[test]
    fn of_two_files_with_one_name_in_a_directory_the_second_does_not_run() {
        let all = ["a/y.wasm", "a/x.wasm", "b/x.wasm"].map(|file| (file.into(), "p".to_owned()));
        let told = |file: &str| of_namesake(Path::new(file), "p", &all);
        let reason = "a plugin named \"p\" is already loaded: x.wasm";
        assert_eq!(told("a/y.wasm").as_deref(), Some(reason));
        assert_eq!((told("a/x.wasm"), told("b/x.wasm")), (None, None));
        assert_eq!(of_namesake(Path::new("a/y.wasm"), "q", &all), None);
    }
}
