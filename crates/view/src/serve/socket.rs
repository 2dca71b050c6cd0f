//! A session over a WebSocket.

use super::limits;
use crate::session::{Message, Session};
use bytes::Bytes;
use framefold::Error;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Notify, watch};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error as WsError, Message as Frame};

/// Serves a client until it goes, does not read, or all is to end.
pub(super) async fn serve<S>(
    connection: S,
    session: Arc<Session>,
    mut stopped: watch::Receiver<bool>,
) where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let config = WebSocketConfig::default()
        .max_message_size(Some(limits::MAX_MESSAGE))
        .max_frame_size(Some(limits::MAX_MESSAGE));
    let socket = WebSocketStream::from_raw_socket(connection, Role::Server, Some(config)).await;
    let (mut sink, mut source) = socket.split();
    let ready = Arc::new(Notify::new());
    let waker = ready.clone();
    session.set_on_ready(move || waker.notify_one());
    let end = {
        let sending = send(&mut sink, &session, &ready);
        tokio::pin!(sending);
        tokio::select! {
            end = &mut sending => end,
            end = receive(&mut source, &session) => match end {
                // The client gets the reason.
                End::Explained => {
                    let _ = tokio::time::timeout(limits::GOODBYE, sending).await;
                    End::Explained
                }
                end => end,
            },
            () = async { drop(stopped.wait_for(|stopped| *stopped).await) } => End::Stopped,
        }
    };
    session.close();
    let (code, reason) = match end {
        End::Gone => return,
        End::Explained => (CloseCode::Policy, "the last message says why"),
        End::Stopped => (CloseCode::Away, "the viewer has ended"),
    };
    let frame = Frame::Close(Some(CloseFrame { code, reason: reason.into() }));
    let close = async {
        if sink.send(frame).await.is_ok() {
            // What the client still sends would make the system throw away what it has not read.
            while let Some(Ok(_)) = source.next().await {}
        }
    };
    let _ = tokio::time::timeout(limits::GOODBYE / 2, close).await;
}

/// How a connection ends.
enum End {
    /// The client has gone, or does not read.
    Gone,
    /// The session has ended, and the client knows why.
    Explained,
    /// All is to end.
    Stopped,
}

async fn send<S>(
    sink: &mut SplitSink<WebSocketStream<S>, Frame>,
    session: &Session,
    ready: &Notify,
) -> End
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    loop {
        let frame = match session.take() {
            Some(Message::Text(text)) => Frame::Text(text.into()),
            Some(Message::Bytes(bytes)) => Frame::Binary(bytes.into()),
            Some(Message::Closed) => return End::Explained,
            None => {
                let woken = tokio::time::timeout(limits::PING_TIME, ready.notified()).await;
                match woken {
                    Ok(()) => continue,
                    Err(_) => Frame::Ping(Bytes::new()),
                }
            }
        };
        let limit = limits::send_time(frame.len());
        match tokio::time::timeout(limit, sink.send(frame)).await {
            Ok(Ok(())) => {}
            _ => return End::Gone,
        }
    }
}

async fn receive<S>(source: &mut SplitStream<WebSocketStream<S>>, session: &Session) -> End
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    loop {
        let frame: Result<_, tokio::time::error::Elapsed> =
            tokio::time::timeout(limits::SILENCE, source.next()).await;
        match frame {
            Ok(Some(Ok(Frame::Text(text)))) => session.receive_text(&text),
            Ok(Some(Ok(Frame::Binary(bytes)))) => session.receive_bytes(&bytes),
            Ok(Some(Ok(_))) => {}
            Ok(Some(Err(WsError::Capacity(error)))) => {
                session.end_with(&Error::limit(format!("a message is refused: {error}")));
                return End::Explained;
            }
            Ok(Some(Err(WsError::Protocol(_) | WsError::Utf8(_)))) => {
                session.end_with(&Error::invalid("what was received is no WebSocket message"));
                return End::Explained;
            }
            Ok(Some(Err(_)) | None) | Err(_) => return End::Gone,
        }
    }
}
