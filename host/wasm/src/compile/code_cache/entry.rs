//! One entry: 32 bytes of HMAC-SHA256, followed by the code. The HMAC covers the key and the code,
//! so an entry that is stored under another entry's name is refused, too.

use pilothouse_core::text::hex;
use std::fs::File;
use std::hash::{Hash, Hasher};
use std::io::{self, Read};
use std::path::Path;

use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};
use wasmtime::Engine;

use crate::compile::native::NativeCode;

/// Must change when the layout of an entry changes.
const FORMAT: &[u8] = b"pilothouse code 1";
const TAG_BYTES: usize = 32;
/// Most bytes of an entry that are read. No entry of this host is that large.
const ENTRY_BYTES: u64 = 1 << 30;

/// Which file the code was compiled from, and for which engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EntryKey {
    /// SHA-256 of the plugin's file.
    wasm: [u8; 32],
    /// SHA-256 of everything that decides how wasmtime compiles: its version, its settings, the
    /// machine.
    engine: [u8; 32],
}

impl EntryKey {
    pub(crate) fn new(wasm: [u8; 32], engine: &Engine) -> Self {
        let mut hasher = Sha256Hasher(Sha256::new());
        engine.precompile_compatibility_hash().hash(&mut hasher);
        Self {
            wasm,
            engine: hasher.0.finalize().into(),
        }
    }

    pub(super) fn file_name(&self) -> String {
        let digest = Sha256::new()
            .chain_update(FORMAT)
            .chain_update(self.wasm)
            .chain_update(self.engine)
            .finalize();
        format!("{}.code", hex(&digest))
    }
}

/// A `Hasher` that keeps only its input, for SHA-256. Rust's own hashers may change from one
/// version of Rust to the next.
struct Sha256Hasher(Sha256);

impl Hasher for Sha256Hasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(&self) -> u64 {
        0
    }
}

/// Why an entry is not used.
#[derive(Debug, thiserror::Error)]
pub(super) enum EntryError {
    #[error("it is not a regular file")]
    NotAFile,
    #[error("it is truncated")]
    Truncated,
    #[error("its authentication code is wrong")]
    NotOurs,
    #[error("it cannot be read: {0}")]
    Read(#[from] io::Error),
}

/// The bytes of an entry, or `None` if there is no entry.
pub(super) fn read(path: &Path) -> Result<Option<Vec<u8>>, EntryError> {
    match path.symlink_metadata() {
        Ok(found) if !found.is_file() => return Err(EntryError::NotAFile),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
    }
    let mut bytes = Vec::new();
    File::open(path)?
        .take(ENTRY_BYTES)
        .read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

/// The code of an entry, if it was stored for this key by a host with this secret.
pub(super) fn open(
    key: &EntryKey,
    secret: &[u8; 32],
    mut entry: Vec<u8>,
) -> Result<NativeCode, EntryError> {
    if entry.len() <= TAG_BYTES {
        return Err(EntryError::Truncated);
    }
    let code = entry.split_off(TAG_BYTES);
    // The comparison takes constant time.
    mac(key, secret, &code)
        .verify_slice(&entry)
        .map_err(|_| EntryError::NotOurs)?;
    Ok(NativeCode::authenticated(code))
}

pub(super) fn tag(key: &EntryKey, secret: &[u8; 32], code: &[u8]) -> [u8; TAG_BYTES] {
    mac(key, secret, code).finalize().into_bytes().into()
}

/// All parts but the last have a fixed length, so two different inputs never give the same bytes.
fn mac(key: &EntryKey, secret: &[u8; 32], code: &[u8]) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("HMAC takes keys of any length");
    for part in [FORMAT, &key.wasm, &key.engine, code] {
        mac.update(part);
    }
    mac
}
