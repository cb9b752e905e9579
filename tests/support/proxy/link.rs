//! One connection of the host, and the ways in which it can be broken.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures::task::AtomicWaker;
use parking_lot::{Mutex, MutexGuard};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};

use super::request::{Seen, Which};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Open,
    /// Nothing passes, not even a FIN.
    Frozen,
    /// What the host sends is not read any more; what the server sends still reaches it.
    Deaf,
    /// What the host sends still reaches the server; nothing reaches the host.
    Mute,
    /// The host has received a FIN; the proxy continues to read.
    HalfClosed,
    /// The connection is dropped with a RST.
    Reset,
}

/// A command to the stream of a watch's lines.
pub(super) enum Order {
    Line(String),
    Close,
}

pub(super) struct Link {
    pub(super) id: u64,
    mode: watch::Sender<Mode>,
    /// Wakes the task that serves the connection.
    waker: AtomicWaker,
    current: Mutex<Current>,
}

#[derive(Default)]
struct Current {
    /// The number of the connection's latest request.
    number: u64,
    /// The request, until its answer has ended.
    request: Option<Seen>,
    /// The way to its lines, if it is a watch whose answer has begun.
    stream: Option<mpsc::UnboundedSender<Order>>,
}

impl Link {
    pub(super) fn new(id: u64) -> Self {
        Self {
            id,
            mode: watch::Sender::new(Mode::Open),
            waker: AtomicWaker::new(),
            current: Mutex::default(),
        }
    }

    fn current(&self) -> MutexGuard<'_, Current> {
        self.current.lock()
    }

    /// Begins a request, which is open until the returned value is dropped.
    pub(super) fn begin(self: &Arc<Self>, request: &Seen) -> Open {
        let mut current = self.current();
        let number = current.number + 1;
        *current = Current {
            number,
            request: Some(request.clone()),
            stream: None,
        };
        Open {
            link: self.clone(),
            number,
        }
    }

    /// Begins the lines of the current request, which is a watch. Returns the commands to them.
    pub(super) fn begin_stream(&self) -> mpsc::UnboundedReceiver<Order> {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.current().stream = Some(sender);
        receiver
    }

    pub(super) fn matches(&self, which: &Which) -> bool {
        let current = self.current();
        which.is_everything()
            || current
                .request
                .as_ref()
                .is_some_and(|seen| which.matches(seen))
    }

    pub(super) fn has_stream(&self) -> bool {
        let current = self.current();
        current
            .stream
            .as_ref()
            .is_some_and(|stream| !stream.is_closed())
    }

    pub(super) fn order(&self, order: Order) -> bool {
        let current = self.current();
        current
            .stream
            .as_ref()
            .is_some_and(|stream| stream.send(order).is_ok())
    }

    /// Sets the mode. Returns false if nothing changes: it is set already, or the connection is
    /// reset.
    pub(super) fn set_mode(&self, mode: Mode) -> bool {
        let is_new = self.mode.send_if_modified(|current| {
            let is_new = *current != mode && *current != Mode::Reset;
            if is_new {
                *current = mode;
            }
            is_new
        });
        self.waker.wake();
        is_new
    }

    pub(super) fn thaw(&self) {
        let mode = *self.mode.borrow();
        if matches!(mode, Mode::Frozen | Mode::Deaf | Mode::Mute) {
            self.set_mode(Mode::Open);
        }
    }

    pub(super) async fn until_reset(&self) {
        let mut mode = self.mode.subscribe();
        // This value holds the sender, so waiting cannot fail.
        let _ = mode.wait_for(|mode| *mode == Mode::Reset).await;
    }
}

/// A request whose answer has not ended.
pub(super) struct Open {
    link: Arc<Link>,
    number: u64,
}

impl Drop for Open {
    fn drop(&mut self) {
        let mut current = self.link.current();
        if current.number == self.number {
            (current.request, current.stream) = (None, None);
        }
    }
}

/// The connection's socket, which obeys the mode of its link.
pub(super) struct Socket {
    stream: TcpStream,
    link: Arc<Link>,
}

impl Socket {
    pub(super) fn new(stream: TcpStream, link: Arc<Link>) -> Self {
        Self { stream, link }
    }

    /// Returns the mode, and has the task woken when it changes.
    fn mode(&self, cx: &Context<'_>) -> Mode {
        self.link.waker.register(cx.waker());
        *self.link.mode.borrow()
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if *self.link.mode.borrow() == Mode::Reset {
            // Setting it fails if the connection is broken already.
            let _ = self.stream.set_zero_linger();
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.mode(cx) {
            Mode::Frozen | Mode::Deaf => return Poll::Pending,
            // The FIN is sent from here, because the writing side stays pending in this mode.
            Mode::HalfClosed => ready!(Pin::new(&mut self.stream).poll_shutdown(cx))?,
            Mode::Open | Mode::Mute | Mode::Reset => {}
        }
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.mode(cx) {
            Mode::Frozen | Mode::Mute | Mode::HalfClosed => Poll::Pending,
            Mode::Open | Mode::Deaf | Mode::Reset => {
                Pin::new(&mut self.stream).poll_write(cx, buffer)
            }
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // The host does not hear of the end of a silent connection.
        if matches!(self.mode(cx), Mode::Frozen | Mode::Mute) {
            return Poll::Pending;
        }
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
