//! Where two documents differ.

use std::collections::BTreeSet;

use serde_json::Value;

/// Names each place where `found` is not as expected, one in a line: its JSON pointer, and what is
/// there. Equal documents have no lines.
pub fn differences(expected: &Value, found: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    compare("", Some(expected), Some(found), &mut lines);
    lines
}

fn compare(place: &str, expected: Option<&Value>, found: Option<&Value>, lines: &mut Vec<String>) {
    match (expected, found) {
        (Some(Value::Object(expected)), Some(Value::Object(found))) => {
            let names: BTreeSet<&String> = expected.keys().chain(found.keys()).collect();
            for name in names {
                let place = format!("{place}/{}", name.replace('~', "~0").replace('/', "~1"));
                compare(&place, expected.get(name), found.get(name), lines);
            }
        }
        (Some(Value::Array(expected)), Some(Value::Array(found))) => {
            for item in 0..expected.len().max(found.len()) {
                let place = format!("{place}/{item}");
                compare(&place, expected.get(item), found.get(item), lines);
            }
        }
        (Some(expected), Some(found)) if expected == found => {}
        (Some(expected), Some(found)) => {
            lines.push(format!("{place}: expected {expected}, found {found}"));
        }
        (Some(expected), None) => lines.push(format!("{place}: missing {expected}")),
        (None, Some(found)) => lines.push(format!("{place}: not expected {found}")),
        (None, None) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_difference_is_told_with_its_place() {
        let expected = json!({"a": [1, 2], "b/c": {"d": 1}, "e": true, "same": [{}]});
        let found = json!({"a": [1, 3, 4], "b/c": {}, "f": null, "same": [{}]});
        assert_eq!(
            differences(&expected, &found),
            [
                "/a/1: expected 2, found 3",
                "/a/2: not expected 4",
                "/b~1c/d: missing 1",
                "/e: missing true",
                "/f: not expected null",
            ]
        );
    }
}
