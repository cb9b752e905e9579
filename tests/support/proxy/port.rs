//! A TCP port that stays ours while nobody listens on it.

use std::io;
use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpSocket};

/// A port of 127.0.0.1. Held by a socket that is bound and never listens: connections are refused, and nobody else is given it.
/// Whoever listens on it (also another process) needs `SO_REUSEADDR`, which servers set.
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

    /// Dropping the listener makes the port refuse again.
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
