//! Settings files that are for no plugin: their names are misspelled, or their plugins are not
//! there.

use std::collections::BTreeSet;
use std::fmt;

use pilothouse_core::settings_file_of;

/// A settings file that nothing reads.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stray {
    /// Its name.
    pub file: String,
    /// The plugin whose settings it is probably meant to be.
    pub meant: Option<String>,
}

impl fmt::Display for Stray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = &self.file;
        match &self.meant {
            Some(wasm) => write!(
                f,
                "{file} is not read: the settings of {wasm} are in {}; rename it if it is meant for that",
                settings_file_of(wasm)
            ),
            None => {
                let stem = file.strip_suffix(".toml").unwrap_or(file);
                write!(f, "{file} is not read: there is no {stem}.wasm")
            }
        }
    }
}

/// The settings files among `tomls` that are for none of these plugins.
pub fn strays(plugins: &BTreeSet<String>, tomls: &BTreeSet<String>) -> Vec<Stray> {
    let own: BTreeSet<String> = plugins.iter().map(|wasm| settings_file_of(wasm)).collect();
    let strays = tomls.difference(&own).map(|file| {
        let is_meant = |wasm: &&String| {
            // A file of settings that is there is not to be written anew.
            !tomls.contains(&settings_file_of(wasm)) && simple(wasm) == simple(file)
        };
        Stray {
            file: file.clone(),
            meant: plugins.iter().find(is_meant).cloned(),
        }
    });
    strays.collect()
}

/// A file's name without what is easily mistaken in it: which kind of dash it has, capitals, and
/// its endings.
fn simple(name: &str) -> String {
    let stem = name.strip_suffix(".toml").unwrap_or(name);
    let stem = stem.strip_suffix(".wasm").unwrap_or(stem);
    stem.to_lowercase().replace('_', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(plugins: &[&str], tomls: &[&str]) -> Vec<String> {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let strays = strays(&names(plugins), &names(tomls));
        strays.iter().map(Stray::to_string).collect()
    }

    #[test]
    fn a_name_with_another_dash_is_told_with_the_name_that_is_meant() {
        for (wasm, file, own) in [
            ("my_site.wasm", "my-site.toml", "my_site.toml"),
            ("my-site.wasm", "my_site.toml", "my-site.toml"),
            ("site.wasm", "Site.toml", "site.toml"),
            ("site.wasm", "site.wasm.toml", "site.toml"),
        ] {
            let wanted = format!(
                "{file} is not read: the settings of {wasm} are in {own}; rename it if it is meant for that"
            );
            assert_eq!(told(&[wasm], &[file]), [wanted]);
        }
    }

    #[test]
    fn settings_without_a_plugin_are_told_and_those_of_a_plugin_are_not() {
        let plugins = ["a.wasm", "b-c.wasm"];
        assert_eq!(told(&plugins, &["a.toml", "b-c.toml"]), [""; 0]);
        assert_eq!(
            told(&plugins, &["b-c.toml", "b_c.toml", "d.toml"]),
            [
                "b_c.toml is not read: there is no b_c.wasm",
                "d.toml is not read: there is no d.wasm"
            ],
            "b-c has settings"
        );
    }
}
