//! The selector of a budget, checked as upstream checks it before it is used.

use pilothouse_sdk::{Filter, LabelSelector};

/// Most bytes of a label's name, and of its value.
const MAX_NAME: usize = 63;
/// Most bytes of what stands before the slash in a label's key.
const MAX_PREFIX: usize = 253;

/// The pods that the selector selects, as a question to the host. `None`: there is no selector,
/// which selects nothing. The empty selector selects everything.
///
/// # Errors
///
/// A key, value or operator is invalid. The API server lets none in any more, but there may be
/// budgets from before.
pub fn filter(selector: Option<&LabelSelector>) -> Result<Option<Filter>, String> {
    let Some(selector) = selector else {
        return Ok(None);
    };
    check(selector)?;
    selector
        .filter()
        .map(Some)
        .map_err(|fault| fault.to_string())
}

/// What is wrong with a selector, if something is.
pub fn check(selector: &LabelSelector) -> Result<(), String> {
    selector.check().map_err(|fault| fault.to_string())?;
    let labels = selector.match_labels.iter();
    let of_labels = labels.map(|(key, value)| (key, std::slice::from_ref(value)));
    let expressions = selector.match_expressions.iter();
    let of_expressions = expressions.map(|one| (&one.key, one.values.as_slice()));
    for (key, values) in of_labels.chain(of_expressions) {
        if !is_key(key) {
            return Err(format!(
                "{key:?} is no key of a label: write a name of at most 63 letters, digits, '-', \
                 '_' and '.', with a DNS name and a slash before it or without"
            ));
        }
        let mut values = values.iter();
        if let Some(value) = values.find(|value| !(value.is_empty() || is_name(value))) {
            return Err(format!(
                "{value:?} is no value of the label {key}: write at most 63 letters, digits, '-', \
                 '_' and '.', with a letter or digit at both ends"
            ));
        }
    }
    Ok(())
}

fn is_key(key: &str) -> bool {
    match key.split_once('/') {
        Some((prefix, name)) => is_subdomain(prefix) && is_name(name),
        None => is_name(key),
    }
}

fn is_name(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    has_ends(text.as_bytes(), |byte| byte.is_ascii_alphanumeric())
        && text.len() <= MAX_NAME
        && text.bytes().all(is_inner)
}

/// A DNS name, as RFC 1123 has it.
fn is_subdomain(text: &str) -> bool {
    let is_end = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_label = |label: &str| {
        let is_inner = |byte: u8| is_end(byte) || byte == b'-';
        has_ends(label.as_bytes(), is_end) && label.bytes().all(is_inner)
    };
    text.len() <= MAX_PREFIX && text.split('.').all(is_label)
}

fn has_ends(text: &[u8], is_end: impl Fn(u8) -> bool) -> bool {
    let ends = text.first().zip(text.last());
    ends.is_some_and(|(first, last)| is_end(*first) && is_end(*last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_those_that_labels_can_have() {
        let long = "a".repeat(MAX_NAME);
        let longer = "a".repeat(MAX_NAME + 1);
        for key in ["app", "a", "A.b-c_9", "example.com/app", "1/x", &long] {
            assert!(is_key(key), "{key}");
        }
        let wrong = [
            "",
            "/",
            "a/",
            "/a",
            "a b",
            "-a",
            "a.",
            "Example.com/a",
            "a..b/c",
            "a/b/c",
        ];
        for key in wrong.into_iter().chain([&*longer]) {
            assert!(!is_key(key), "{key}");
        }
    }

    #[test]
    fn a_value_may_be_empty_and_has_no_spaces() {
        let of = |value: &str| check(&LabelSelector::of_labels([("app", value)]));
        assert!(of("").is_ok() && of("web").is_ok() && of("v1.2_3").is_ok());
        let fault = of("a b").expect_err("it has a space");
        assert!(
            fault.starts_with("\"a b\" is no value of the label app"),
            "{fault}"
        );
    }
}
