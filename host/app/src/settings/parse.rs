//! Parses the text of a settings file. An error is one line that tells where the fault is, what it
//! is, and which name was probably meant.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::time::Duration;

use pilothouse_cluster::Identity;
use pilothouse_core::{DividedBy, Division, HOST, ManifestError, is_dns_label, is_qualified_name};
use serde::de::{Error, Unexpected};
use serde::{Deserialize, Deserializer};

use super::{SettingsFile, quantity};
use pilothouse_core::DEFAULTS_FILE;

/// The minimum similarity of a name that an error suggests, where 1 means equal.
const NEAR: f64 = 0.7;

/// The API server's limit on the length of a field manager.
const MAX_FIELD_MANAGER: usize = 128;

/// Parses the settings of one plugin.
pub fn parse(text: &str) -> Result<SettingsFile, String> {
    let settings = read(text)?;
    if settings.require_settings.is_some() {
        return Err(format!(
            "`require-settings` is about all plugins; write it into {DEFAULTS_FILE}"
        ));
    }
    Ok(settings)
}

/// Parses a settings file. An error names the line.
fn read(text: &str) -> Result<SettingsFile, String> {
    toml::from_str(text).map_err(|error| {
        let message = with_proposal(&error.message().replace('\n', " "));
        match error.span() {
            Some(span) => {
                let before = text.as_bytes().get(..span.start).unwrap_or_default();
                let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
                format!("line {line}: {message}")
            }
            None => message,
        }
    })
}

/// Parses the settings for all plugins.
pub fn parse_defaults(text: &str) -> Result<SettingsFile, String> {
    let settings = read(text)?;
    for (key, is_set) in [
        ("name", settings.name.is_some()),
        ("field-manager", settings.field_manager.is_some()),
        (
            "reporting-controller",
            settings.reporting_controller.is_some(),
        ),
        ("sha256", settings.sha256.is_some()),
    ] {
        if is_set {
            return Err(format!(
                "`{key}` cannot be the same for all plugins; write it into the settings of one, NAME.toml"
            ));
        }
    }
    if settings.secret_values == Some(true) {
        return Err(
            "`secret-values = true` for all plugins would show each of them the values of all Secrets that it may read, and one that reconciles Secrets needs no grant for that; write it into the settings of one, NAME.toml"
                .to_owned(),
        );
    }
    Ok(settings)
}

/// Serde's message lists all valid names. Adds the nearest one as a suggestion.
fn with_proposal(message: &str) -> String {
    let is_unknown = ["unknown field", "unknown variant"]
        .iter()
        .any(|start| message.starts_with(start));
    let mut names = message.split('`').skip(1).step_by(2);
    let Some(found) = names.next().filter(|_| is_unknown) else {
        return message.to_owned();
    };
    let nearness = |name: &&str| strsim::jaro_winkler(found, name);
    let nearest = names.max_by(|a, b| nearness(a).total_cmp(&nearness(b)));
    match nearest.filter(|name| nearness(name) >= NEAR) {
        Some(nearest) => format!("{message}; did you mean `{nearest}`?"),
        None => message.to_owned(),
    }
}

pub fn name<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    let name = String::deserialize(from)?;
    if !is_dns_label(&name) {
        return Err(Error::custom(ManifestError::Name(name)));
    }
    if name == HOST {
        return Err(Error::custom(ManifestError::ReservedName));
    }
    Ok(Some(name))
}

/// Follows the API server's own rule, except that this also excludes characters beyond ASCII and
/// blanks.
pub fn field_manager<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    let name = String::deserialize(from)?;
    let is_plain = name.bytes().all(|byte| byte.is_ascii_graphic());
    if name.is_empty() || name.len() > MAX_FIELD_MANAGER || !is_plain {
        return Err(Error::custom(format!(
            "{name:?} is not a field manager: 1 to {MAX_FIELD_MANAGER} visible ASCII characters, without blanks"
        )));
    }
    Ok(Some(name))
}

/// Follows the API server's own rule for the member of an Event.
pub fn reporting_controller<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<String>, D::Error> {
    let name = String::deserialize(from)?;
    if !is_qualified_name(&name) {
        return Err(Error::custom(format!(
            "{name:?} is not a controller's name for Events, such as job-controller or example.com/my-plugin: at most 63 letters, digits, `-`, `_` and `.`, with a letter or digit at both ends"
        )));
    }
    Ok(Some(name))
}

/// Accepts a string or a list of strings.
pub fn digests<'de, D: Deserializer<'de>>(from: D) -> Result<Option<BTreeSet<String>>, D::Error> {
    let texts = match toml::Value::deserialize(from)? {
        toml::Value::Array(values) => values,
        value => vec![value],
    };
    let digests = texts.into_iter().map(|value| match value {
        toml::Value::String(text) => digest(&text),
        other => Err(no_digest(other.type_str())),
    });
    let digests: Result<BTreeSet<String>, String> = digests.collect();
    let digests = digests.map_err(Error::custom)?;
    if digests.is_empty() {
        return Err(Error::custom(no_digest("an empty list")));
    }
    Ok(Some(digests))
}

/// Parses a SHA-256.
pub fn digest(text: &str) -> Result<String, String> {
    if text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Ok(text.to_ascii_lowercase());
    }
    Err(no_digest(&format!("{text:?}")))
}

fn no_digest(what: &str) -> String {
    format!("{what} is not a digest: 64 hexadecimal digits, as `pilothouse check` prints them")
}

pub fn identity<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Identity>, D::Error> {
    let text = String::deserialize(from)?;
    text.parse().map(Some).map_err(Error::custom)
}

pub fn duration<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(from)?;
    quantity::duration(&text).map(Some).map_err(Error::custom)
}

pub fn positive_duration<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    let found = duration(from)?;
    if found == Some(Duration::ZERO) {
        return Err(Error::custom("a timeout must be more than 0"));
    }
    Ok(found)
}

pub fn fraction<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
    let number = f64::deserialize(from)?;
    if (0.0..=1.0).contains(&number) {
        return Ok(Some(number));
    }
    Err(Error::invalid_value(
        Unexpected::Float(number),
        &"a fraction from 0.0 to 1.0",
    ))
}

pub fn bytes<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    let text = String::deserialize(from)?;
    let bytes = quantity::bytes(&text).map_err(Error::custom)?;
    Ok(u64::try_from(bytes).ok())
}

pub fn at_least_one_u64<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    match i64::deserialize(from)? {
        number @ 1.. => Ok(u64::try_from(number).ok()),
        number => Err(Error::invalid_value(
            Unexpected::Signed(number),
            &"a whole number of 1 or more",
        )),
    }
}

/// A number of shards, within the hub's limit.
pub fn shards<'de, D: Deserializer<'de>>(from: D) -> Result<Option<NonZeroU32>, D::Error> {
    let number = i64::deserialize(from)?;
    let shards = u32::try_from(number).ok().and_then(NonZeroU32::new);
    let most = Division::most(DividedBy::Name);
    match shards.filter(|shards| shards.get() <= most) {
        Some(shards) => Ok(Some(shards)),
        None => Err(Error::invalid_value(
            Unexpected::Signed(number),
            &&*format!("a number of shards from 1 to {most}"),
        )),
    }
}

pub fn at_least_one<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    let number = at_least_one_u64(from)?;
    Ok(number.map(|number| u32::try_from(number).unwrap_or(u32::MAX)))
}
