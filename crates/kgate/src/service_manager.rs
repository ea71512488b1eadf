//! What systemd and a service agree on by environment variables, for `kgate node`: sockets that the
//! manager has opened (`LISTEN_FDS`), and the message that the service is ready (`NOTIFY_SOCKET`).

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};

/// The socket that the service manager has opened for this process, if there is one.
pub(crate) fn inherited_socket() -> io::Result<Option<UnixListener>> {
    let mut sockets = listenfd::ListenFd::from_env();
    if sockets.len() > 1 {
        let text = "the service manager passed several sockets: a unit of kgate has one \
            ListenStream";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    sockets.take_unix_listener(0)
}

/// Sends a state to the service manager, such as `READY=1`; does nothing without one.
pub(crate) fn notify(state: &str) {
    let Some(path) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let address = match path.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
        _ => SocketAddr::from_pathname(&path),
    };
    let send = |address| UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address);
    if let Err(error) = address.and_then(send) {
        tracing::warn!(%error, "cannot notify the service manager");
    }
}
