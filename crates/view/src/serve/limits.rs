//! How much strangers may ask for.

use std::time::Duration;

/// How many connections may wait for an answer.
pub(super) const MAX_CONNECTIONS: usize = 64;
/// How many clients may be there.
pub(super) const MAX_CLIENTS: usize = 64;
/// The longest head of a request, in bytes. Browsers send the cookies of all servers of a machine.
pub(super) const MAX_HEAD: usize = 64 << 10;
/// How many headers a request may have.
pub(super) const MAX_HEADERS: usize = 64;
/// How long the head of a request may take.
pub(super) const HEAD_TIME: Duration = Duration::from_secs(10);
/// How long a request and its answer may take.
pub(super) const REQUEST_TIME: Duration = Duration::from_secs(60);
/// How often a client that says nothing is asked whether it is there.
pub(super) const PING_TIME: Duration = Duration::from_secs(30);
/// How long a client may say nothing.
pub(super) const SILENCE: Duration = Duration::from_secs(100);
/// The longest message of a client, in bytes.
pub(super) const MAX_MESSAGE: usize = crate::MAX_BINARY;
/// How long a link that lets in once does so.
pub(super) const TICKET_TIME: Duration = Duration::from_secs(60);
/// How long clients get to hear that the viewer ends.
pub(super) const GOODBYE: Duration = Duration::from_millis(500);

/// How long a client may take to read a message.
pub(super) fn send_time(len: usize) -> Duration {
    // Ten kilobytes in a second are slow.
    Duration::from_secs(60 + len as u64 / 10_000)
}
