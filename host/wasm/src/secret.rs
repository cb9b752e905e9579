//! The source of a guest's random numbers: a secret of this host, the plugin's name and the key.
//!
//! A key always draws the same numbers, so a reconcile stays a pure function. They cannot be
//! computed without the secret: neither by other plugins nor by somebody who knows the key.

use std::sync::Arc;

use hmac::{Hmac, Mac};
use pilothouse_core::SubjectKey;
use sha2::Sha256;

/// Must change when the same secret has to give other numbers.
const PURPOSE: &[u8] = b"pilothouse random 2";

/// A secret of 32 bytes, of a host or of one of its plugins.
#[derive(Clone)]
pub(crate) struct Secret(Arc<[u8; 32]>);

impl Secret {
    /// A new random secret, for a host that has no place to store one.
    pub fn draw() -> Result<Self, getrandom::Error> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes)?;
        Ok(Self(Arc::new(bytes)))
    }

    /// Derives a secret for random numbers only, from one that has other uses, too.
    pub fn of_host(secret: &[u8; 32]) -> Self {
        Self(Arc::new(hmac(secret, &[PURPOSE])))
    }

    /// Derives a plugin's own secret, so that two plugins draw different numbers for the same key.
    pub fn of_plugin(&self, name: &str) -> Self {
        Self(Arc::new(hmac(&self.0, &[name.as_bytes()])))
    }

    /// The generator of the numbers for one key.
    fn stream(&self, key: &SubjectKey) -> Hmac<Sha256> {
        // Without the version: an object has the same numbers when its kind graduates.
        let kind = key.kind.as_ref();
        let (group, kind) = kind.map_or(("", ""), |kind| (&*kind.group, &*kind.kind));
        let texts = [group, kind, &key.object.namespace, &key.object.name];
        // The lengths keep keys apart that differ only in where a text ends.
        let lengths = texts.map(|text| (text.len() as u64).to_be_bytes());
        let parts: Vec<&[u8]> = lengths
            .iter()
            .zip(texts)
            .flat_map(|(length, text)| [&length[..], text.as_bytes()])
            .collect();
        keyed(&hmac(&self.0, &parts))
    }
}

fn keyed(key: &[u8; 32]) -> Hmac<Sha256> {
    Hmac::new_from_slice(key).expect("HMAC takes keys of any length")
}

fn hmac(key: &[u8; 32], parts: &[&[u8]]) -> [u8; 32] {
    let mut mac = keyed(key);
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().into()
}

/// The random numbers of one run: HMAC-SHA256 of 0, 1, 2 and so on, keyed by secret, plugin and
/// key. The key is derived when the first number is drawn, which most guests never do.
pub(crate) struct Random {
    secret: Secret,
    key: SubjectKey,
    stream: Option<Hmac<Sha256>>,
    block: u64,
    /// The unused bytes of the last block.
    left: Vec<u8>,
}

impl Random {
    pub fn new(secret: Secret, key: SubjectKey) -> Self {
        Self {
            secret,
            key,
            stream: None,
            block: 0,
            left: vec![],
        }
    }

    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = std::mem::take(&mut self.left);
        while bytes.len() < count {
            bytes.extend_from_slice(&self.next_block());
        }
        self.left = bytes.split_off(count);
        bytes
    }

    pub fn number(&mut self) -> u64 {
        let bytes = self.bytes(8);
        bytes
            .iter()
            .fold(0, |number, byte| (number << 8) | u64::from(*byte))
    }

    fn next_block(&mut self) -> [u8; 32] {
        let stream = self
            .stream
            .get_or_insert_with(|| self.secret.stream(&self.key));
        let mut mac = stream.clone();
        mac.update(&self.block.to_be_bytes());
        self.block += 1;
        mac.finalize().into_bytes().into()
    }
}

#[cfg(test)]
mod tests {
    use pilothouse_core::{Kind, ObjectKey};

    use super::*;

    fn key(kind: &str, namespace: &str, name: &str) -> SubjectKey {
        let kind: Kind = kind.parse().unwrap();
        SubjectKey::of(&Arc::new(kind), ObjectKey::new(namespace, name))
    }

    fn drawn(secret: &Secret, plugin: &str, namespace: &str, name: &str) -> Vec<u8> {
        of_key(secret, plugin, key("v1/Pod", namespace, name))
    }

    fn of_key(secret: &Secret, plugin: &str, key: SubjectKey) -> Vec<u8> {
        Random::new(secret.of_plugin(plugin), key).bytes(40)
    }

    #[test]
    fn secret_plugin_and_key_decide_what_is_drawn() {
        let (one, other) = (Secret::of_host(&[1; 32]), Secret::of_host(&[2; 32]));
        let first = drawn(&one, "p", "ns", "a");
        assert_eq!(first, drawn(&one, "p", "ns", "a"));
        for different in [
            drawn(&other, "p", "ns", "a"),
            drawn(&one, "q", "ns", "a"),
            drawn(&one, "p", "ns", "b"),
            drawn(&one, "p", "n", "sa"),
            of_key(&one, "p", key("v1/Service", "ns", "a")),
            of_key(&one, "p", key("a/v1/Pod", "ns", "a")),
            of_key(&one, "p", SubjectKey::singleton()),
        ] {
            assert_ne!(first, different);
        }
        let graduated = key("v2/Pod", "ns", "a");
        assert_eq!(first, of_key(&one, "p", graduated));
        assert_ne!(Secret::draw().unwrap().0, Secret::draw().unwrap().0);
    }

    #[test]
    fn how_much_is_drawn_at_once_makes_no_difference_and_nothing_repeats() {
        let random = || Random::new(Secret::of_host(&[1; 32]), key("v1/Pod", "ns", "a"));
        let whole = random().bytes(100);
        let mut pieces = random();
        let parts: Vec<u8> = [1, 31, 0, 33, 35]
            .iter()
            .flat_map(|count| pieces.bytes(*count))
            .collect();
        assert_eq!(parts, whole);
        assert_ne!(whole[..32], whole[32..64]);
        assert_eq!(random().number().to_be_bytes(), whole[..8]);
    }
}
