//! Standard streams: input is at its end, output becomes lines in the plugin's log.

use wasmtime::component::{ComponentType, Lift, LinkerInstance, Lower, Resource};

use super::super::fuel;
use super::{Absent, clocks, trap};
use crate::log::Level;
use crate::state::StoreState;

/// How many bytes an output stream accepts in one write.
const WRITABLE_BYTES: u64 = 64 << 10;
/// A longer line is logged in pieces, so that a guest that never ends its line cannot fill the
/// host's memory.
const LINE_BYTES: usize = 4 << 10;
/// The representations of the two output streams.
const STDOUT: u32 = 1;
const STDERR: u32 = 2;

pub(super) enum InputStream {}
pub(super) enum OutputStream {}

/// The part of a line that has been written so far.
#[derive(Default)]
pub(super) struct LineBuffer {
    bytes: Vec<u8>,
}

impl LineBuffer {
    /// Takes bytes that the guest writes and calls `line` for each complete line.
    fn write(&mut self, bytes: &[u8], mut line: impl FnMut(&str)) {
        for piece in bytes
            .split_inclusive(|&byte| byte == b'\n')
            .flat_map(|line| line.chunks(LINE_BYTES))
        {
            self.bytes.extend_from_slice(piece);
            if piece.ends_with(b"\n") || self.bytes.len() >= LINE_BYTES {
                self.flush(&mut line);
            }
        }
    }

    fn flush(&mut self, mut line: impl FnMut(&str)) {
        if self.bytes.is_empty() {
            return;
        }
        let text = String::from_utf8_lossy(&self.bytes);
        line(text.trim_end_matches(['\r', '\n']));
        self.bytes.clear();
    }
}

impl StoreState {
    fn write(&mut self, stream: u32, bytes: &[u8]) {
        self.with_stream(stream, |buffer, line| buffer.write(bytes, line));
    }

    fn with_stream(
        &mut self,
        stream: u32,
        act: impl FnOnce(&mut LineBuffer, &mut dyn FnMut(&str)),
    ) {
        let Self {
            wasi,
            log,
            last_words,
            ..
        } = self;
        let mut write = |level, line: &str| {
            if !line.is_empty() {
                log.line(level, line, &[]);
            }
        };
        match stream {
            STDERR => act(&mut wasi.stderr, &mut |line| {
                last_words.printed(line);
                write(Level::Warn, line);
            }),
            _ => act(&mut wasi.stdout, &mut |line| write(Level::Info, line)),
        }
    }

    /// Logs the unfinished lines and closes the log.
    pub(crate) fn finish_log(&mut self) {
        for stream in [STDOUT, STDERR] {
            self.with_stream(stream, |buffer, line| buffer.flush(line));
        }
        self.log.finish();
    }
}

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
