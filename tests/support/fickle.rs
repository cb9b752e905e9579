//! The guest `fickle` in many versions, without compiling it for each.

use crate::guest;

/// A version of it, and what it does.
pub fn fickle(version: &str, does: &str) -> Vec<u8> {
    named_fickle("fickle", version, does)
}

/// The same under another name, of at most ten letters.
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
