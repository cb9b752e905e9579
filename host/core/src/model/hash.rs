//! Hashes that all hosts, of every version, must compute alike.

/// FNV-1a of 64 bits.
pub fn fnv1a(bytes: impl Iterator<Item = u8>) -> u64 {
    const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    bytes.fold(BASIS, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(PRIME)
    })
}

/// MurmurHash3's `fmix64`: each bit of the result depends on each bit of the argument.
pub fn mix(mut bits: u64) -> u64 {
    bits ^= bits >> 33;
    bits = bits.wrapping_mul(0xff51_afd7_ed55_8ccd);
    bits ^= bits >> 33;
    bits = bits.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    bits ^ (bits >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hashes_are_the_ones_that_are_documented() {
        // Of FNV's own test vectors.
        assert_eq!(fnv1a([].into_iter()), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"foobar".iter().copied()), 0x8594_4171_f739_67e8);
        assert_eq!(fnv1a([0].into_iter()), 0xaf63_bd4c_8601_b7df);
        // MurmurHash3's own: fmix64(1).
        assert_eq!(mix(0), 0);
        assert_eq!(mix(1), 0xb456_bcfc_34c2_cb2c);
    }
}
