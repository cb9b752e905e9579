//! Standard streams: input is at its end, output becomes lines in the plugin's log.

use wasmtime::component::{ComponentType, Lift, LinkerInstance, Lower, Resource};

use super::super::fuel;
use super::{Absent, clocks, trap};
use crate::run::state::{STDERR, STDOUT, StoreState};

/// How many bytes an output stream accepts in one write.
const WRITABLE_BYTES: u64 = 64 << 10;
pub(super) enum InputStream {}
pub(super) enum OutputStream {}

#[derive(ComponentType, Lift, Lower)]
#[component(variant)]
enum StreamError {
    #[component(name = "last-operation-failed")]
    LastOperationFailed(Resource<Absent>),
    #[component(name = "closed")]
    Closed,
}

type Answer<T> = (Result<T, StreamError>,);

pub(super) fn define(
    instance: &mut LinkerInstance<'_, StoreState>,
    interface: &str,
    function: &str,
) -> wasmtime::Result<()> {
    match function {
        "get-stdin" => fuel::define(instance, function, |_, ()| {
            Ok((Resource::<InputStream>::new_own(0),))
        }),
        "get-stdout" => fuel::define(instance, function, |_, ()| {
            Ok((Resource::<OutputStream>::new_own(STDOUT),))
        }),
        "get-stderr" => fuel::define(instance, function, |_, ()| {
            Ok((Resource::<OutputStream>::new_own(STDERR),))
        }),
        _ if function.starts_with("[method]input-stream.") => input(instance, interface, function),
        _ if function.starts_with("[method]output-stream.") => {
            output(instance, interface, function)
        }
        _ => trap(instance, interface, function),
    }
}

fn input(
    instance: &mut LinkerInstance<'_, StoreState>,
    interface: &str,
    function: &str,
) -> wasmtime::Result<()> {
    match function {
        "[method]input-stream.read" | "[method]input-stream.blocking-read" => fuel::define(
            instance,
            function,
            |_, (_, _): (Resource<InputStream>, u64)| -> wasmtime::Result<Answer<Vec<u8>>> {
                Ok((Err(StreamError::Closed),))
            },
        ),
        "[method]input-stream.skip" | "[method]input-stream.blocking-skip" => fuel::define(
            instance,
            function,
            |_, (_, _): (Resource<InputStream>, u64)| -> wasmtime::Result<Answer<u64>> {
                Ok((Err(StreamError::Closed),))
            },
        ),
        "[method]input-stream.subscribe" => {
            fuel::define(instance, function, |_, (_,): (Resource<InputStream>,)| {
                Ok((clocks::ready_at_once(),))
            })
        }
        _ => trap(instance, interface, function),
    }
}

fn output(
    instance: &mut LinkerInstance<'_, StoreState>,
    interface: &str,
    function: &str,
) -> wasmtime::Result<()> {
    match function {
        "[method]output-stream.check-write" => fuel::define(
            instance,
            function,
            |_, (_,): (Resource<OutputStream>,)| -> wasmtime::Result<Answer<u64>> {
                Ok((Ok(WRITABLE_BYTES),))
            },
        ),
        "[method]output-stream.write" | "[method]output-stream.blocking-write-and-flush" => {
            fuel::define(
                instance,
                function,
                |mut cx,
                 (stream, bytes): (Resource<OutputStream>, Vec<u8>)|
                 -> wasmtime::Result<Answer<()>> {
                    fuel::take(&mut cx, bytes.len())?;
                    cx.data_mut().write(stream.rep(), &bytes);
                    Ok((Ok(()),))
                },
            )
        }
        // Nothing to do: what was written is kept anyway, and logging an unfinished line now would
        // split it.
        "[method]output-stream.flush" | "[method]output-stream.blocking-flush" => fuel::define(
            instance,
            function,
            |_, (_,): (Resource<OutputStream>,)| -> wasmtime::Result<Answer<()>> { Ok((Ok(()),)) },
        ),
        "[method]output-stream.subscribe" => {
            fuel::define(instance, function, |_, (_,): (Resource<OutputStream>,)| {
                Ok((clocks::ready_at_once(),))
            })
        }
        _ => trap(instance, interface, function),
    }
}
