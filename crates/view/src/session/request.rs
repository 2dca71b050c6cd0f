//! What a client asks for, of the text that it sent.

use super::jobs::{Guess, Job};
use super::reply::About;
use super::slot::Ask;
use super::{Precision, Refusal};
use crate::host::Wanted;
use crate::{Query, Wish};
use framefold::Error;
use serde::Deserialize;
use serde_json::{Map, Value};

/// One of the two pictures of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Pane {
    Scan,
    Pattern,
}

impl Pane {
    pub(super) fn name(self) -> &'static str {
        match self {
            Pane::Scan => "scan",
            Pane::Pattern => "pattern",
        }
    }
}

/// What a client asks for.
#[derive(Debug, PartialEq)]
pub(super) enum Request {
    Hello {
        version: u64,
    },
    Ask {
        pane: Pane,
        ask: Ask,
    },
    Ack {
        pane: Pane,
    },
    Cancel {
        pane: Pane,
    },
    /// What is done in turn.
    Job {
        id: u64,
        job: Job,
    },
}

/// A message as it is written.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum Written {
    Hello {
        version: u64,
    },
    Ask {
        pane: Pane,
        #[serde(rename = "gen")]
        generation: u64,
        query: Map<String, Value>,
        #[serde(default)]
        wish: WrittenWish,
        #[serde(default)]
        precision: Precision,
    },
    Ack {
        pane: Pane,
    },
    Cancel {
        pane: Pane,
    },
    Guess {
        id: u64,
        what: Guess,
        #[serde(default)]
        query: Value,
    },
    Files {
        id: u64,
        #[serde(default)]
        folder: Option<String>,
    },
    Open {
        id: u64,
        #[serde(flatten)]
        wanted: Wanted,
    },
    Export {
        id: u64,
        query: Query,
        format: String,
    },
    Script {
        id: u64,
        form: String,
        queries: Vec<Query>,
        #[serde(default)]
        state: Value,
    },
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum WrittenWish {
    #[default]
    Fast,
    Exact,
}

/// What `text` asks for; or what is wrong with it, and what the answer is about.
pub(super) fn parse(text: &str) -> Result<Request, Refusal> {
    // Deep nesting is an error of the parser's.
    let value: Value = serde_json::from_str(text).map_err(|error| {
        (Error::invalid(format!("the message is not JSON: {error}")), About::Nothing)
    })?;
    let about = about(&value);
    let written = Written::deserialize(value)
        .map_err(|error| (Error::invalid(format!("a message is wrong: {error}")), about))?;
    let request = match written {
        Written::Hello { version } => Request::Hello { version },
        Written::Ask { pane, generation, mut query, wish, precision } => {
            query.insert("pane".to_owned(), Value::from(pane.name()));
            let query = Query::deserialize(Value::Object(query))
                .map_err(|error| (Error::invalid(format!("a query is wrong: {error}")), about))?;
            let wish = match wish {
                WrittenWish::Fast => Wish::Fast,
                WrittenWish::Exact => Wish::Exact,
            };
            Request::Ask { pane, ask: Ask { generation, query, wish, precision } }
        }
        Written::Ack { pane } => Request::Ack { pane },
        Written::Cancel { pane } => Request::Cancel { pane },
        Written::Guess { id, what, query } => Request::Job { id, job: Job::Guess(what, query) },
        Written::Files { id, folder } => Request::Job { id, job: Job::Files(folder) },
        Written::Open { id, wanted } => Request::Job { id, job: Job::Open(wanted) },
        Written::Export { id, query, format } => {
            Request::Job { id, job: Job::Export(query, format) }
        }
        Written::Script { id, form, queries, state } => {
            Request::Job { id, job: Job::Script(form, queries, state) }
        }
    };
    Ok(request)
}

/// What an answer to a message is about, as far as the message says.
pub(super) fn about(value: &Value) -> About {
    let number = |name: &str| value.get(name).and_then(Value::as_u64);
    let pane = value.get("pane").and_then(|pane| Pane::deserialize(pane).ok());
    match (number("id"), pane, number("gen")) {
        (Some(id), ..) => About::Id(id),
        (None, Some(pane), Some(generation)) => About::Picture { pane, generation },
        _ => About::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::ScanChoice;
    use crate::{PatternQuery, ScanQuery};

    #[test]
    fn questions() {
        let text =
            r#"{"type":"ask","pane":"scan","gen":3,"query":{},"wish":"exact","precision":"u16"}"#;
        let ask = |generation, query, wish, precision| Ask { generation, query, wish, precision };
        let query = Query::Scan(ScanQuery::default());
        let expected = ask(3, query, Wish::Exact, Precision::U16);
        assert_eq!(parse(text).unwrap(), Request::Ask { pane: Pane::Scan, ask: expected });
        let text = r#"{"type":"ask","pane":"pattern","gen":0,"query":{"region":[]}}"#;
        let query = Query::Pattern(PatternQuery::default());
        let expected = ask(0, query, Wish::Fast, Precision::U8);
        assert_eq!(parse(text).unwrap(), Request::Ask { pane: Pane::Pattern, ask: expected });
    }

    #[test]
    fn others() {
        let job = |text: &str| match parse(text).unwrap() {
            Request::Job { id: 7, job } => job,
            other => panic!("{other:?}"),
        };
        let scan = ScanChoice { nav_shape: Some(vec![3, 4]), sync_offset: Some(-2) };
        assert_eq!(
            job(r#"{"type":"open","id":7,"nav_shape":[3,4],"sync_offset":-2}"#),
            Job::Open(Wanted { scan, ..Wanted::default() })
        );
        assert_eq!(job(r#"{"type":"files","id":7}"#), Job::Files(None));
        let export = r#"{"type":"export","id":7,"query":{"pane":"scan"},"format":"npy"}"#;
        assert_eq!(job(export), Job::Export(Query::Scan(ScanQuery::default()), "npy".to_owned()));
        assert_eq!(
            parse(r#"{"type":"ack","pane":"scan","gen":1}"#).unwrap(),
            Request::Ack { pane: Pane::Scan }
        );
    }

    #[test]
    fn what_is_wrong_says_so_and_what_it_is_about() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        let picture = About::Picture { pane: Pane::Scan, generation: 4 };
        for (text, words, expected) in [
            ("", "not JSON", About::Nothing),
            ("null", "wrong", About::Nothing),
            (&deep, "recursion", About::Nothing),
            (r#"{"type":"nothing","id":4}"#, "nothing", About::Id(4)),
            (r#"{"type":"export","id":4}"#, "query", About::Id(4)),
            (r#"{"type":"ask","pane":"scan","gen":4}"#, "query", picture),
            (r#"{"type":"ask","pane":"scan","gen":4,"query":{"x":1}}"#, "`x`", picture),
            (r#"{"type":"ask","pane":"scan","gen":4,"query":[]}"#, "", picture),
            (r#"{"type":"ask","pane":"scan","gen":4,"query":{},"wish":"soon"}"#, "soon", picture),
            (r#"{"type":"ask","pane":"side","gen":4,"query":{}}"#, "side", About::Nothing),
            (r#"{"type":"ask","pane":"scan","gen":-4,"query":{}}"#, "-4", About::Nothing),
            (r#"{"type":"ask","pane":"scan","gen":4,"query":{"slice":[-1]}}"#, "-1", picture),
            (r#"{"type":"ask","pane":"scan","gen":1e999,"query":{}}"#, "range", About::Nothing),
            (r#"{"type":"open","id":4,"nav_shape":[-3]}"#, "-3", About::Id(4)),
        ] {
            let (error, about) = parse(text).unwrap_err();
            assert!(error.to_string().contains(words), "{text}: {error}");
            assert_eq!(about, expected, "{text}");
        }
    }
}
