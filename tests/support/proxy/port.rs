//! A TCP port that stays reserved while nothing listens on it.

use std::io;
use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpSocket};

/// A port of 127.0.0.1, reserved by a socket that is bound and never listens: connections are
/// refused, and no other program gets the port. A program that listens on it, also in another
/// process, must set `SO_REUSEADDR`, as servers do.
pub struct Port {
    address: SocketAddr,
    _holder: TcpSocket,
}

impl Port {
    pub fn take() -> io::Result<Self> {
        let holder = socket()?;
        holder.bind(([127, 0, 0, 1], 0).into())?;
        Ok(Self {
            address: holder.local_addr()?,
            _holder: holder,
        })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Listens on the port. Connections are refused again when the listener is dropped.
    pub(super) fn listen(&self) -> io::Result<TcpListener> {
        let socket = socket()?;
        socket.bind(self.address)?;
        socket.listen(1024)
    }
}

fn socket() -> io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    Ok(socket)
}
