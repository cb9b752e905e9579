//! Reads. The reader decides what is permitted and records what is asked; this translates, and has
//! the guest pay for it.

use pilothouse_core::reader::{self, Reader};
use wasmtime::component::LinkerInstance;
use wasmtime::{StoreContextMut, Trap};

use crate::bindings::cluster::{Filter, ReadError};
use crate::bindings::types::{Kind, ObjectKey};
use crate::state::State;

type Answer<T> = (Result<T, ReadError>,);

/// Defines the functions by hand: what is generated does not get at the fuel.
pub(super) fn define(instance: &mut LinkerInstance<'_, State>) -> wasmtime::Result<()> {
    instance.func_wrap("get", |cx, (kind, key): (Kind, ObjectKey)| {
        read(cx, "cluster.get", |reader| {
            let object = reader.get(&kind.into(), &key.into())?;
            Ok(object.map(str::to_owned))
        })
    })?;
    instance.func_wrap(
        "get-part",
        |cx, (kind, key, pointer): (Kind, ObjectKey, String)| {
            read(cx, "cluster.get-part", |reader| {
                reader.get_part(&kind.into(), &key.into(), &pointer)
            })
        },
    )?;
    instance.func_wrap(
        "list",
        |cx, (kind, namespace, filter): (Kind, Option<String>, Filter)| {
            read(cx, "cluster.list", |reader| {
                reader.list(&kind.into(), namespace.as_deref(), &filter.into())
            })
        },
    )
}

/// Reads at the expense of the guest's fuel.
fn read<T>(
    mut cx: StoreContextMut<'_, State>,
    import: &str,
    read: impl FnOnce(&mut Reader) -> Result<T, reader::ReadError>,
) -> wasmtime::Result<Answer<T>> {
    let left = cx.get_fuel()?;
    let reader = cx.data_mut().reader(import)?;
    reader.set_fuel(left);
    let result = read(reader);
    let left = reader.fuel();
    cx.set_fuel(left)?;
    answer(result)
}

/// What the guest is told; a guest that reads without end, or what cannot be read, is not told but
/// stopped.
fn answer<T>(result: Result<T, reader::ReadError>) -> wasmtime::Result<Answer<T>> {
    let error = match result {
        Ok(found) => return Ok((Ok(found),)),
        Err(error) => error,
    };
    let text = error.to_string();
    Ok((Err(match error {
        reader::ReadError::Denied(_)
        | reader::ReadError::NotGranted(_)
        | reader::ReadError::OtherNamespace { .. } => ReadError::Denied(text),
        reader::ReadError::UnknownIndex { .. } => ReadError::UnknownIndex(text),
        reader::ReadError::InvalidPointer(_) => ReadError::InvalidPointer(text),
        reader::ReadError::OutOfFuel => return Err(Trap::OutOfFuel.into()),
        reader::ReadError::TooMany
        | reader::ReadError::TooLarge(_)
        | reader::ReadError::Selector
        | reader::ReadError::Unreadable { .. } => return Err(wasmtime::Error::new(error)),
    }),))
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
