//! What is sent to clients, but for pictures.

use super::base64;
use super::request::Pane;
use crate::export::FileMade;
use crate::host::{Shown, ViewerHost};
use crate::{Background, BackgroundState};
use framefold::Error;
use serde_json::{Map, Value, json};

/// The version of the messages.
pub(super) const VERSION: u64 = 1;
/// What a binary message begins with.
pub(super) const MAGIC: &[u8; 4] = b"FFV1";

/// What an answer is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum About {
    Nothing,
    Id(u64),
    Picture { pane: Pane, generation: u64 },
}

impl About {
    fn add_to(self, value: &mut Value) {
        match self {
            About::Nothing => {}
            About::Id(id) => value["id"] = json!(id),
            About::Picture { pane, generation } => {
                value["pane"] = json!(pane.name());
                value["gen"] = json!(generation);
            }
        }
    }
}

pub(super) fn hello(shown: &Shown, host: &ViewerHost, id: Option<u64>) -> String {
    let options = host.options();
    let maps = options.colormaps.iter().map(|map| {
        let colours = base64::encode(&map.colours.concat());
        (map.name.clone(), Value::from(colours))
    });
    let names: Vec<&str> = options.colormaps.iter().map(|map| map.name.as_str()).collect();
    let mut description = shown.viewer.describe();
    if shown.opened.scan().nav_shape.is_some() {
        // It was said.
        description.suggested_shapes.clear();
    }
    let features = ["export", "files", "guess", "mask", "open", "script"];
    let mut value = json!({
        "type": "hello",
        "version": VERSION,
        "description": description,
        "opened": shown.said(),
        "colormaps": maps.collect::<Map<String, Value>>(),
        "colormap_names": names,
        "features": features,
        "state": options.state,
    });
    if let Some(id) = id {
        value["id"] = json!(id);
    }
    value.to_string()
}

/// How far the pass in the background is; nothing if there is none.
pub(super) fn progress(now: &Background) -> Option<String> {
    let (state, label) = match &now.state {
        BackgroundState::None => return None,
        BackgroundState::Working => ("working", "reads all data to become quick".to_owned()),
        BackgroundState::Done => ("done", String::new()),
        BackgroundState::Stopped => ("stopped", "does not read ahead".to_owned()),
        BackgroundState::Failed(error) => ("failed", error.clone()),
    };
    let done = now.done;
    let value = json!({ "type": "progress", "what": "background", "state": state, "done": done, "label": label });
    Some(value.to_string())
}

pub(super) fn done(pane: Pane, generation: u64) -> String {
    json!({ "type": "done", "pane": pane.name(), "gen": generation }).to_string()
}

pub(super) fn error(error: &Error, about: &About) -> String {
    // The hint comes by itself.
    let hint = error.hint().unwrap_or_default();
    let message = error.to_string();
    let message = message.strip_suffix(hint).map_or(&*message, |text| text.trim_end_matches("; "));
    let mut value = json!({
        "type": "error",
        "message": message,
        "hint": hint,
        "kind": error.kind().name(),
    });
    about.add_to(&mut value);
    value.to_string()
}

/// An answer to a job.
pub(super) fn answer(kind: &str, id: u64, fields: Value) -> String {
    let mut value = json!({ "type": kind, "id": id });
    if let (Some(value), Value::Object(fields)) = (value.as_object_mut(), fields) {
        value.extend(fields);
    }
    value.to_string()
}

pub(super) fn file(id: u64, file: &FileMade) -> Vec<u8> {
    let FileMade { name, media_type, bytes } = file;
    let header = json!({ "type": "file", "id": id, "name": name, "media_type": media_type });
    binary(&header, bytes.len(), |message| message.extend_from_slice(bytes))
}

/// A binary message: its header, then `len` bytes that `add` appends.
pub(super) fn binary(header: &Value, len: usize, add: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut json = header.to_string().into_bytes();
    json.resize(json.len().next_multiple_of(8), b' ');
    let mut message = Vec::with_capacity(8 + json.len() + len);
    message.extend_from_slice(MAGIC);
    message.extend_from_slice(&(json.len() as u32).to_le_bytes());
    message.append(&mut json);
    add(&mut message);
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_their_hint_by_itself() {
        let about = About::Picture { pane: Pane::Scan, generation: 3 };
        let text =
            error(&Error::bad_file("it is short").with_path("a").with_hint("copy it"), &about);
        let value: Value = serde_json::from_str(&text).unwrap();
        let expected = json!({
            "type": "error", "pane": "scan", "gen": 3, "message": "'a': it is short",
            "hint": "copy it", "kind": "bad file",
        });
        assert_eq!(value, expected);
        let text = error(&Error::invalid("no"), &About::Id(4));
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            (&value["message"], &value["hint"], &value["id"]),
            (&json!("no"), &json!(""), &json!(4))
        );
    }

    #[test]
    fn what_follows_a_header_is_aligned() {
        for n in 0..20 {
            let message = binary(&json!({ "x": "y".repeat(n) }), 2, |bytes| bytes.extend([7, 8]));
            let len = u32::from_le_bytes(message[4..8].try_into().unwrap()) as usize;
            assert_eq!((&message[..4], len % 8), (&MAGIC[..], 0));
            let header: Value = serde_json::from_slice(&message[8..8 + len]).unwrap();
            assert_eq!(header["x"], "y".repeat(n));
            assert_eq!(message[8 + len..], [7, 8]);
        }
    }
}
