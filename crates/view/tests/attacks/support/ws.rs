//! A client of a WebSocket that sends any frames a test gives it.

use super::{LONG, Reply};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// An open WebSocket.
pub struct Ws {
    pub stream: TcpStream,
}

/// What came.
#[derive(Debug, PartialEq)]
pub enum Frame {
    Text(Value),
    /// The header, and what follows it.
    Binary(Value, Vec<u8>),
    /// Or the answer to one.
    Ping,
    /// With its code.
    Close(Option<u16>),
    /// The connection has ended.
    End,
}

impl Ws {
    /// Asks for a WebSocket; the answer if there is none.
    pub fn open(mut stream: TcpStream, host: &str, headers: &str) -> Result<Ws, Reply> {
        let request = format!(
            "GET /ws HTTP/1.1\r\nhost: {host}\r\nupgrade: websocket\r\nconnection: Upgrade\r\n\
             sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n{headers}\r\n"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            if stream.read(&mut byte).unwrap_or(0) == 0 {
                return Err(Reply::of(&head));
            }
            head.push(byte[0]);
        }
        let reply = Reply::of(&head);
        if reply.status != 101 {
            return Err(reply);
        }
        // That of RFC 6455, section 1.3.
        assert!(
            reply.head.contains("sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo="),
            "{reply:?}"
        );
        // Tornado, with which Jupyter's servers pass WebSockets on, takes nothing else.
        assert!(reply.head.contains("\nconnection: upgrade\r\n"), "{reply:?}");
        Ok(Ws { stream })
    }

    pub fn send(&mut self, message: &Value) {
        self.text(&message.to_string());
    }

    pub fn text(&mut self, text: &str) {
        self.frame(0x81, Some([1, 2, 3, 4]), text.as_bytes());
    }

    pub fn binary(&mut self, bytes: &[u8]) {
        self.frame(0x82, Some([9, 8, 7, 6]), bytes);
    }

    /// A frame whose first byte, mask and payload are these. Errors of writing are ignored: see what is read.
    pub fn frame(&mut self, first: u8, mask: Option<[u8; 4]>, payload: &[u8]) {
        let masked = if mask.is_some() { 0x80 } else { 0 };
        let mut bytes = vec![first];
        match payload.len() {
            len @ 0..126 => bytes.push(masked | len as u8),
            len @ 126..65536 => {
                bytes.push(masked | 126);
                bytes.extend((len as u16).to_be_bytes());
            }
            len => {
                bytes.push(masked | 127);
                bytes.extend((len as u64).to_be_bytes());
            }
        }
        let mask_bytes = mask.unwrap_or_default();
        if mask.is_some() {
            bytes.extend(mask_bytes);
        }
        let begin = bytes.len();
        bytes.extend_from_slice(payload);
        if mask_bytes != [0; 4] {
            let masked = bytes[begin..].iter_mut().zip(mask_bytes.iter().cycle());
            masked.for_each(|(byte, mask)| *byte ^= mask);
        }
        let _ = self.stream.write_all(&bytes);
    }

    /// The next frame; panics if none comes.
    pub fn next(&mut self) -> Frame {
        self.next_within(LONG).expect("no message")
    }

    /// The next frame, if it begins within some time.
    pub fn next_within(&mut self, time: Duration) -> Option<Frame> {
        self.stream.set_read_timeout(Some(time)).unwrap();
        let mut head = [0; 2];
        match self.stream.read_exact(&mut head[..1]) {
            Ok(()) => {}
            Err(error) => {
                use std::io::ErrorKind::{TimedOut, WouldBlock};
                let late = matches!(error.kind(), WouldBlock | TimedOut);
                return (!late).then_some(Frame::End);
            }
        }
        self.stream.set_read_timeout(Some(LONG)).unwrap();
        let mut read = |n: usize| {
            let mut bytes = vec![0; n];
            self.stream.read_exact(&mut bytes).map(|()| bytes)
        };
        let Ok(second) = read(1) else { return Some(Frame::End) };
        assert_eq!(second[0] & 0x80, 0, "a server masks nothing");
        let len = match second[0] {
            126 => u16::from_be_bytes(read(2).unwrap().try_into().unwrap()).into(),
            127 => u64::from_be_bytes(read(8).unwrap().try_into().unwrap()) as usize,
            len => usize::from(len),
        };
        let Ok(payload) = read(len) else { return Some(Frame::End) };
        Some(match head[0] {
            0x81 => Frame::Text(serde_json::from_slice(&payload).unwrap()),
            0x82 => {
                let n = u32::from_le_bytes(payload[4..8].try_into().unwrap()) as usize;
                assert_eq!(&payload[..4], b"FFV1");
                let header = serde_json::from_slice(&payload[8..8 + n]).unwrap();
                Frame::Binary(header, payload[8 + n..].to_vec())
            }
            0x88 => {
                let code = payload.first_chunk::<2>().map(|code| u16::from_be_bytes(*code));
                Frame::Close(code)
            }
            0x89 | 0x8a => Frame::Ping,
            other => panic!("a frame of the kind {other}"),
        })
    }

    /// The next text.
    pub fn next_text(&mut self) -> Value {
        match self.next() {
            Frame::Text(value) => value,
            other => panic!("{other:?}"),
        }
    }

    /// The words of the next message, an error.
    pub fn next_error(&mut self) -> String {
        let value = self.next_text();
        assert_eq!(value["type"], "error", "{value}");
        value["message"].as_str().unwrap().to_owned()
    }

    /// Reads until a text of that type comes.
    pub fn until(&mut self, kind: &str) -> Value {
        let end = Instant::now() + LONG;
        while Instant::now() < end {
            match self.next() {
                Frame::Text(value) if value["type"] == kind => return value,
                Frame::Close(_) | Frame::End => panic!("the end came before '{kind}'"),
                _ => {}
            }
        }
        panic!("'{kind}' did not come");
    }

    /// Says hello; the answer.
    pub fn hello(&mut self) -> Value {
        self.send(&json!({ "type": "hello", "version": 1 }));
        self.until("hello")
    }

    /// That the viewer still answers.
    pub fn assert_well(&mut self) {
        let hello = self.hello();
        assert_eq!(hello["description"]["sig"][0]["size"], 16);
    }

    /// Reads until the connection is closed; the last error on the way, and the code of the end.
    pub fn read_to_end(&mut self) -> (String, Option<u16>) {
        let (mut words, mut code) = (String::new(), None);
        loop {
            match self.next() {
                Frame::Text(value) if value["type"] == "error" => {
                    words = value["message"].as_str().unwrap().to_owned();
                }
                Frame::Close(this) => code = this,
                Frame::End => return (words, code),
                _ => {}
            }
        }
    }

    /// A question for the whole scan.
    pub fn ask(&mut self, generation: u64, query: &Value, wish: &str) {
        let ask = json!({
            "type": "ask", "pane": "scan", "gen": generation, "query": query, "wish": wish,
            "precision": "u8",
        });
        self.send(&ask);
    }
}
