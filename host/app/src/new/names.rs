//! Which plugin names can name a crate.

use anyhow::bail;

/// Rust's keywords that are DNS labels, those of later editions included.
const KEYWORDS: &str = "abstract as async await become box break const continue crate do dyn else \
enum extern false final fn for gen if impl in let loop macro match mod move mut override priv pub \
ref return self static struct super trait true try type typeof unsafe unsized use virtual where \
while yield";

/// Crates that a plugin names, and those that cargo finds in `vendor`: two of one name cannot be
/// told apart.
const CRATES: &str = "alloc core pilothouse-core pilothouse-sdk pilothouse-sdk-derive proc-macro \
serde serde-json std test";

/// Fails, saying why, if a DNS label cannot name a crate.
pub(super) fn check_crate(name: &str) -> anyhow::Result<()> {
    let has = |words: &str| words.split_whitespace().any(|word| word == name);
    if name.starts_with(|first: char| first.is_ascii_digit()) {
        bail!("{name:?} cannot name a crate, because it begins with a digit; begin with a letter");
    }
    if has(KEYWORDS) {
        bail!("{name:?} cannot name a crate, because it is a keyword of Rust; choose another name");
    }
    if has(CRATES) {
        bail!("{name:?} is a crate that plugins are built with; choose another name");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_no_crate_can_have_is_refused_with_what_to_do() {
        for (name, says) in [
            ("7days", "begin with a letter"),
            ("match", "keyword of Rust"),
            ("gen", "keyword of Rust"),
            ("serde-json", "plugins are built with"),
            ("pilothouse-core", "plugins are built with"),
        ] {
            let error = check_crate(name).unwrap_err().to_string();
            assert!(error.contains(says) && error.contains(name), "{error}");
        }
        for name in ["website", "cert-manager", "a1", "matches"] {
            check_crate(name).unwrap();
        }
    }
}
