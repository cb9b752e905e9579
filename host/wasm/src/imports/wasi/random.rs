//! Randomness that is the same for the same key: enough to seed a hash table, useless for a secret.

use pilothouse_core::key::ObjectKey;
use wasmtime::component::LinkerInstance;

use super::trap;
use crate::state::State;

/// Bytes given out in one call. No runtime asks for more than a few dozen.
const BYTES_PER_CALL: u64 = 64 << 10;

/// SplitMix64.
pub(super) struct Random {
    state: u64,
}

impl Random {
    /// Seeded with the key's FNV-1a hash: two keys differ, one key's runs do not.
    pub(super) fn seeded_by(key: &ObjectKey) -> Self {
        let bytes = key.namespace.bytes().chain([b'/']).chain(key.name.bytes());
        let state = bytes.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Self { state }
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        let words = std::iter::repeat_with(|| self.next().to_le_bytes());
        words.flatten().take(count).collect()
    }
}

pub(super) fn define(
    instance: &mut LinkerInstance<'_, State>,
    interface: &str,
    function: &str,
) -> wasmtime::Result<()> {
    match function {
        "get-random-bytes" | "get-insecure-random-bytes" => {
            instance.func_wrap(function, |mut cx, (count,): (u64,)| {
                if count > BYTES_PER_CALL {
                    wasmtime::bail!(
                        "{count} random bytes asked for at once; {BYTES_PER_CALL} are the most"
                    );
                }
                let count = usize::try_from(count)?;
                Ok((cx.data_mut().wasi.random.bytes(count),))
            })
        }
        "get-random-u64" | "get-insecure-random-u64" => instance
            .func_wrap(function, |mut cx, ()| {
                Ok((cx.data_mut().wasi.random.next(),))
            }),
        "insecure-seed" => instance.func_wrap(function, |mut cx, ()| {
            let random = &mut cx.data_mut().wasi.random;
            Ok(((random.next(), random.next()),))
        }),
        _ => trap(instance, interface, function),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_always_draws_the_same_bytes_and_another_key_others() {
        let draw = |name| Random::seeded_by(&ObjectKey::new("ns", name)).bytes(20);
        assert_eq!(draw("a"), draw("a"));
        assert_ne!(draw("a"), draw("b"));
        assert_eq!(draw("a").len(), 20);
    }
}
