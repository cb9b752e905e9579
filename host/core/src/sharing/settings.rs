//! Why a host cannot share. The times of a member are those of an election, and mean the same.

use crate::leadership::ElectionSettingsError;

/// Why a member cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SharingError {
    /// With these times a member would write after another host has taken its shards.
    #[error(transparent)]
    Times(#[from] ElectionSettingsError),
    /// The names of its Leases are made of these two.
    #[error(
        "{0:?} cannot be part of a Lease's name: use at most 100 of a-z, 0-9 and '-', and none \
         but letters and digits at its ends"
    )]
    BadName(String),
}

/// Checks a part of a Lease's name.
pub(super) fn check_name(name: &str) -> Result<(), SharingError> {
    let is_end = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = name.as_bytes();
    let is_good = bytes.len() <= 100
        && is_end(bytes.first())
        && is_end(bytes.last())
        && bytes
            .iter()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-');
    is_good
        .then_some(())
        .ok_or_else(|| SharingError::BadName(name.to_owned()))
}
