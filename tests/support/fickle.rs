//! Versions of the guest `fickle`, made by changing its bytes instead of compiling each.

use serde_json::Value;

use crate::guest;

/// Returns the plugin with this version and behaviour.
pub fn fickle(version: &str, does: &str) -> Vec<u8> {
    named_fickle("fickle", version, does)
}

/// Returns the plugin with this schema of its configuration.
pub fn fickle_with_schema(version: &str, does: &str, schema: &Value) -> Vec<u8> {
    const ROOM: usize = 1024 - "fickle-schema=".len();
    let mut bytes = fickle(version, does);
    let schema = schema.to_string();
    let (old, new) = (
        format!("fickle-schema={:ROOM$}", ""),
        format!("fickle-schema={schema:ROOM$}"),
    );
    write_over(&mut bytes, &old, &new);
    bytes
}

/// Returns the plugin under this name, which has at most ten letters.
pub fn named_fickle(name: &str, version: &str, does: &str) -> Vec<u8> {
    let mut bytes = std::fs::read(guest("fickle")).expect("the guest fickle");
    write_over(
        &mut bytes,
        "fickle-name=fickle    ",
        &format!("fickle-name={name:<10}"),
    );
    write_over(
        &mut bytes,
        "fickle-version=1.0.0",
        &format!("fickle-version={version}"),
    );
    write_over(
        &mut bytes,
        "fickle-does=nothing-bad",
        &format!("fickle-does={does:<11}"),
    );
    bytes
}

fn write_over(bytes: &mut [u8], old: &str, new: &str) {
    assert_eq!(old.len(), new.len(), "{new}");
    let mut places = bytes.windows(old.len());
    let at = places
        .position(|place| place == old.as_bytes())
        .unwrap_or_else(|| panic!("{old} is not in the guest"));
    bytes[at..at + new.len()].copy_from_slice(new.as_bytes());
}
