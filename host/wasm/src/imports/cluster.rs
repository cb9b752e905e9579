//! Reads. The reader decides what is permitted and records what is asked; this only translates.

use pilothouse_core::reader;

use crate::bindings::cluster::{Filter, Host, ReadError};
use crate::bindings::types::{Kind, ObjectKey};
use crate::state::State;

impl Host for State {
    fn get(
        &mut self,
        kind: Kind,
        key: ObjectKey,
    ) -> wasmtime::Result<Result<Option<String>, ReadError>> {
        let object = self.reader("cluster.get")?.get(&kind.into(), &key.into());
        answer(object.map(|object| object.map(str::to_owned)))
    }

    fn get_part(
        &mut self,
        kind: Kind,
        key: ObjectKey,
        pointer: String,
    ) -> wasmtime::Result<Result<Option<String>, ReadError>> {
        let reader = self.reader("cluster.get-part")?;
        answer(reader.get_part(&kind.into(), &key.into(), &pointer))
    }

    fn list(
        &mut self,
        kind: Kind,
        namespace: Option<String>,
        filter: Filter,
    ) -> wasmtime::Result<Result<String, ReadError>> {
        let reader = self.reader("cluster.list")?;
        answer(reader.list(&kind.into(), namespace.as_deref(), &filter.into()))
    }
}

/// What the guest is told; a guest that reads without end, or what cannot be read, is not told but stopped.
fn answer<T>(result: Result<T, reader::ReadError>) -> wasmtime::Result<Result<T, ReadError>> {
    let error = match result {
        Ok(found) => return Ok(Ok(found)),
        Err(error) => error,
    };
    let text = error.to_string();
    Ok(Err(match error {
        reader::ReadError::Denied(_)
        | reader::ReadError::NotGranted(_)
        | reader::ReadError::OtherNamespace { .. } => ReadError::Denied(text),
        reader::ReadError::UnknownIndex { .. } => ReadError::UnknownIndex(text),
        reader::ReadError::InvalidPointer(_) => ReadError::InvalidPointer(text),
        reader::ReadError::TooMany
        | reader::ReadError::TooLarge(_)
        | reader::ReadError::Selector
        | reader::ReadError::Unreadable { .. } => return Err(wasmtime::Error::new(error)),
    }))
}

impl From<Filter> for reader::ListFilter {
    fn from(filter: Filter) -> Self {
        match filter {
            Filter::Everything => Self::Everything,
            Filter::Labels(selector) => Self::Labels(crate::convert::selector(selector)),
            Filter::Index(index) => Self::Index(index.name, index.value),
        }
    }
}
