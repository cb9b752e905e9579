//! Short names for contents: hashes that are the same in every version and on every machine.

use serde::Serialize;

const OFFSET: u32 = 0x811c_9dc5;
const PRIME: u32 = 0x0100_0193;

/// What Kubernetes makes generated parts of names of: without vowels, and without what is easily
/// taken for another character.
const SAFE: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// FNV-1, 32 bits (Go's `fnv.New32`): the hash that Kubernetes puts into the names of
/// ControllerRevisions.
#[must_use]
pub fn fnv32(bytes: &[u8]) -> u32 {
    let step = |hash: u32, byte: &u8| hash.wrapping_mul(PRIME) ^ u32::from(*byte);
    bytes.iter().fold(OFFSET, step)
}

/// FNV-1a, 32 bits (Go's `fnv.New32a`): the hash that Kubernetes puts into the label
/// `pod-template-hash`.
#[must_use]
pub fn fnv32a(bytes: &[u8]) -> u32 {
    let step = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(PRIME);
    bytes.iter().fold(OFFSET, step)
}

/// A text in the letters and digits that Kubernetes makes generated names of, one for each
/// character (`rand.SafeEncodeString` of apimachinery). Different texts may give the same one.
///
/// ```
/// use pilothouse_sdk::{fnv32, safe_encode};
///
/// let hash = safe_encode(&fnv32(br#"{"spec":{}}"#).to_string());
/// assert_eq!(hash, "6d4c5b5d8d");
/// ```
#[must_use]
pub fn safe_encode(text: &str) -> String {
    let safe = |character: char| SAFE[character as usize % SAFE.len()];
    text.chars()
        .map(|character| char::from(safe(character)))
        .collect()
}

/// A short text that stands for a value, for a name or a label: at most ten of the characters of
/// [`safe_encode`]. The same value always has the same text; with another `collisions` it has
/// another one, for when the name is taken by something else.
///
/// It is made as Kubernetes makes `pod-template-hash` (`controller.ComputeHash`), but of the JSON
/// text of the value, ordered by key, and not of a dump of Go's memory. So the texts differ from
/// those of Kubernetes' own controllers.
///
/// # Errors
///
/// The value has no JSON form.
pub fn stable_hash(
    value: &impl Serialize,
    collisions: Option<u32>,
) -> Result<String, serde_json::Error> {
    let mut bytes = serde_json::to_vec(&serde_json::to_value(value)?)?;
    if let Some(collisions) = collisions {
        bytes.extend(u64::from(collisions).to_le_bytes());
    }
    Ok(safe_encode(&fnv32a(&bytes).to_string()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    #[test]
    fn hashes_and_safe_texts_are_those_of_kubernetes() {
        // As Go's hash/fnv and apimachinery's rand give them.
        for (text, one, one_a, safe) in [
            ("", 0x811c_9dc5, 0x811c_9dc5, "65bb57b6b5"),
            ("a", 0x050c_5d7e, 0xe40c_292c, "d8bfb88b"),
            ("foobar", 0x31f0_b262, 0xbf9c_f968, "d7cd9cdf4"),
            (r#"{"spec":{}}"#, 0xa751_e3f8, 0x5c41_1bfe, "6d4c5b5d8d"),
            ("hello \u{fc}", 0x09e3_bea8, 0x86d0_d25e, "5b9f64868"),
        ] {
            assert_eq!(fnv32(text.as_bytes()), one, "{text}");
            assert_eq!(fnv32a(text.as_bytes()), one_a, "{text}");
            assert_eq!(safe_encode(&one.to_string()), safe, "{text}");
        }
        assert_eq!(safe_encode("0123456789abcXYZ-"), "456789bcdfvwxklmx");
    }

    #[test]
    fn a_value_has_one_hash_and_another_after_a_collision() {
        let value = BTreeMap::from([("b", json!("x")), ("a", json!(1))]);
        let hash = |collisions| stable_hash(&value, collisions).unwrap();
        assert_eq!(hash(None), "9f8f5bb49");
        assert_eq!(hash(Some(3)), "889f89978");
    }

    #[test]
    fn the_order_of_members_does_not_change_a_hash() {
        #[derive(Serialize)]
        struct Pair {
            b: i32,
            a: i32,
        }
        let of_struct = stable_hash(&Pair { b: 1, a: 2 }, None).unwrap();
        assert_eq!(
            of_struct,
            stable_hash(&json!({"a": 2, "b": 1}), None).unwrap()
        );
    }
}
