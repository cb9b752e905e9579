//! From a file's bytes to native code, in whichever process that is done.

use pilothouse_core::text::one_line;

use super::native::NativeCode;
use crate::file::error::{LoadError, not_compiled};
use crate::file::scan::{check_nesting, scan};
use crate::file::world::{check_outline, check_world};

/// Compiles a file to native code. This does all the work that takes long or that handles unchecked
/// parts of the file. It runs in the compiling process, if there is one.
pub(crate) fn native_code(
    engine: &wasmtime::Engine,
    bytes: &[u8],
) -> Result<NativeCode, LoadError> {
    let outline = scan(bytes)?;
    check_outline(&outline)?;
    check_nesting(bytes)?;
    let encoded = match outline.is_component {
        true => None,
        false => Some(componentize(bytes)?),
    };
    if let Some(encoded) = &encoded {
        check_world(&scan(encoded)?)?;
    }
    let component = encoded.as_deref().unwrap_or(bytes);
    NativeCode::compiled_here(engine, component).map_err(not_compiled)
}

fn componentize(module: &[u8]) -> Result<Vec<u8>, LoadError> {
    wit_component::ComponentEncoder::default()
        .validate(true)
        .module(module)
        .and_then(|mut encoder| encoder.encode())
        .map_err(|error| LoadError::Componentize(one_line(&format!("{error:#}"))))
}
