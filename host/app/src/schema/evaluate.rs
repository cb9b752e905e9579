//! The evaluation itself. Nothing is fetched, and patterns are limited to those that match in
//! linear time. Everything else that a schema can do to the process is limited from outside.

use std::fmt::Write;

use jsonschema::paths::{Location, LocationSegment};
use jsonschema::{PatternOptions, ValidationError, Validator};
use serde_json::Value;

use super::Fault;

/// The limit for one compiled pattern, and for the cache it is matched with.
const PATTERN_BYTES: usize = 1 << 20;
/// The number of faults that are reported; that there are more is only hinted at.
const NAMED: usize = 3;

/// Checks that this is a valid schema and, if a configuration is given, that it fits.
pub fn evaluate(schema: &str, config: Option<&str>) -> Result<(), Fault> {
    let validator = validator(schema).map_err(Fault::Schema)?;
    let Some(config) = config else {
        return Ok(());
    };
    let config = serde_json::from_str(config)
        .map_err(|error| Fault::Config(format!("config is not JSON: {error}")))?;
    match faults(&validator, &config) {
        None => Ok(()),
        Some(faults) => Err(Fault::Config(faults)),
    }
}

fn validator(schema: &str) -> Result<Validator, String> {
    let schema: Value = serde_json::from_str(schema).map_err(|error| error.to_string())?;
    let patterns = PatternOptions::regex()
        .size_limit(PATTERN_BYTES)
        .dfa_size_limit(PATTERN_BYTES);
    let options = jsonschema::options()
        .offline()
        .with_pattern_options(patterns);
    options
        .build(&schema)
        .map_err(|error| match error.instance_path().as_str() {
            "" => error.to_string(),
            place => format!("at {place}: {error}"),
        })
}

fn faults(validator: &Validator, config: &Value) -> Option<String> {
    let mut errors = validator.iter_errors(config);
    let named: Vec<String> = errors
        .by_ref()
        .take(NAMED)
        .map(|error| line(&error))
        .collect();
    let mut text = named.join("; ");
    if errors.next().is_some() {
        text.push_str("; and more");
    }
    (!named.is_empty()).then_some(text)
}

/// Where the fault is, and what it is. Strings, arrays and tables are masked: they may hold
/// secrets, and this is logged.
fn line(error: &ValidationError<'_>) -> String {
    let place = path(error.instance_path());
    match error.instance().as_ref() {
        Value::Null | Value::Bool(_) | Value::Number(_) => format!("{place}: {error}"),
        Value::String(_) | Value::Array(_) | Value::Object(_) => {
            format!("{place}: {}", error.masked_with("it"))
        }
    }
}

/// The location as written in TOML: `config.servers[0].name`.
fn path(location: &Location) -> String {
    let mut text = "config".to_owned();
    for segment in location.segments() {
        // Writing to a string does not fail.
        let _ = match segment {
            LocationSegment::Index(index) => write!(text, "[{index}]"),
            LocationSegment::Property(key) if is_bare(&key) => write!(text, ".{key}"),
            LocationSegment::Property(key) => write!(text, ".{key:?}"),
        };
    }
    text
}

/// True for a key that TOML accepts without quotes.
fn is_bare(key: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    !key.is_empty() && key.bytes().all(is_plain)
}

#[cfg(test)]
mod tests;
