//! A reader for the XML files that lie next to data: elements, attributes and texts.
//!
//! Files of a few kilobytes with nothing special in them, which `quick-xml` takes apart. Comments,
//! declarations and processing instructions are skipped, the five entities and numbered characters
//! are replaced; files that define entities of their own are refused, as those may grow when read.

use framefold_core::{Error, Result};
use quick_xml::Reader;
use quick_xml::escape::{resolve_xml_entity, unescape};
use quick_xml::events::attributes::AttrError;
use quick_xml::events::{BytesStart, Event};
use quick_xml::name::QName;

/// The largest file that is believed, in bytes.
pub(crate) const MAX_LEN: u64 = 16 << 20;

/// Elements nested deeper than this are not believed.
const MAX_DEPTH: usize = 64;

/// One element.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Element {
    /// Its name, with the prefix of its namespace, if it has one.
    pub(crate) name: String,
    attributes: Vec<(String, String)>,
    /// What is in it, in order.
    pub(crate) children: Vec<Element>,
    text: String,
}

impl Element {
    /// Reads the root element of a file. Bytes that are not UTF-8 become replacement characters.
    ///
    /// # Errors
    /// `BadFile` that says where the file stops being XML.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self> {
        let text = String::from_utf8_lossy(bytes);
        let text = text.trim_start_matches('\u{feff}').trim_start();
        let mut reader = Reader::from_str(text);
        reader.config_mut().allow_dangling_amp = true;
        let mut at = 0;
        root(&mut reader, &mut at).map_err(|problem| {
            let found = usize::try_from(at).ok().and_then(|at| text.get(at..)).unwrap_or("");
            let found: String = found.chars().take(12).collect();
            Error::bad_file(format!("found '{}', expected {problem}", found.escape_debug()))
                .with_offset(at)
                .with_hint("the XML file is damaged or incomplete; copy it again")
        })
    }

    /// The text between its tags, without that of its children and space around it.
    pub(crate) fn text(&self) -> &str {
        self.text.trim()
    }

    /// The value of an attribute.
    pub(crate) fn attribute(&self, name: &str) -> Option<&str> {
        let mut attributes = self.attributes.iter();
        attributes.find(|(key, _)| key == name).map(|(_, value)| value.trim())
    }

    /// The first child of that name.
    pub(crate) fn child(&self, name: &str) -> Option<&Element> {
        self.children.iter().find(|child| child.name == name)
    }

    /// The element that is reached by these names, each that of a child of the one before.
    pub(crate) fn path(&self, names: &[&str]) -> Option<&Element> {
        names.iter().try_fold(self, |element, name| element.child(name))
    }

    /// All elements of that name, at any depth.
    pub(crate) fn all(&self, name: &str) -> Vec<&Element> {
        let mut found = Vec::new();
        self.collect(name, &mut found);
        found
    }

    fn collect<'a>(&'a self, name: &str, found: &mut Vec<&'a Element>) {
        if self.name == name {
            found.push(self);
        }
        self.children.iter().for_each(|child| child.collect(name, found));
    }
}

/// What was expected where a file stops being XML.
type Expected = &'static str;

/// The root element. What follows it is of no use, and may be cut off. Of an error, `at` is where
/// the tag or text begins that is wrong.
fn root(reader: &mut Reader<&[u8]>, at: &mut u64) -> Result<Element, Expected> {
    // Elements that began and have not ended, the root first.
    let mut open: Vec<Element> = Vec::new();
    loop {
        *at = reader.buffer_position();
        let event = reader.read_event().map_err(|error| expected(&error))?;
        let ended = match event {
            Event::Start(start) => {
                if open.len() > MAX_DEPTH {
                    return Err("no more than 64 elements within each other");
                }
                open.push(element(&start)?);
                None
            }
            Event::Empty(start) => Some(element(&start)?),
            Event::End(_) => open.pop(),
            Event::Text(text) => {
                let said = text.into_inner();
                match open.last_mut() {
                    Some(element) => element.text.push_str(&said),
                    None if said.trim().is_empty() => {}
                    None => return Err("an element: '<'"),
                }
                None
            }
            Event::CData(text) => {
                open.last_mut().ok_or("an element: '<'")?.text.push_str(&text.into_inner());
                None
            }
            Event::GeneralRef(name) => {
                let text = &mut open.last_mut().ok_or("an element: '<'")?.text;
                match (name.resolve_char_ref(), resolve_xml_entity(&name)) {
                    (Ok(Some(character)), _) => text.push(character),
                    (_, Some(known)) => text.push_str(known),
                    // What is no entity stays as it is.
                    _ => text.extend(["&", &name, ";"]),
                }
                None
            }
            Event::DocType(text) if text.contains('[') => {
                return Err("an element: no declarations of the file's own");
            }
            Event::DocType(_) | Event::Decl(_) | Event::PI(_) | Event::Comment(_) => None,
            Event::Eof if open.is_empty() => return Err("an element: '<'"),
            Event::Eof => return Err("the end tag of an element"),
        };
        match (ended, open.last_mut()) {
            (Some(element), Some(parent)) => parent.children.push(element),
            (Some(root), None) => return Ok(root),
            (None, _) => {}
        }
    }
}

/// An element as its first tag describes it.
fn element(start: &BytesStart<'_>) -> Result<Element, Expected> {
    let mut attributes = Vec::new();
    // To look for those that are there twice takes time that goes with the square of their number.
    for attribute in start.attributes().with_checks(false) {
        let attribute = attribute.map_err(|error| match error {
            AttrError::ExpectedEq(_) => "'=' and the value of an attribute",
            _ => "a quoted value of an attribute",
        })?;
        // With what is no entity in it, it stays as it is.
        let value = unescape(&attribute.value).unwrap_or_else(|_| attribute.value.clone());
        attributes.push((name(attribute.key)?, value.into_owned()));
    }
    Ok(Element { name: name(start.name())?, attributes, ..Element::default() })
}

/// A name, of which the parser only knows where it ends.
fn name(name: QName<'_>) -> Result<String, Expected> {
    let ends = |c: char| c.is_whitespace() || "/>=<\"'&".contains(c);
    match name.0.is_empty() || name.0.contains(ends) {
        true => Err("a name"),
        false => Ok(name.0.to_owned()),
    }
}

fn expected(error: &quick_xml::Error) -> Expected {
    use quick_xml::errors::{IllFormedError, SyntaxError};
    match error {
        quick_xml::Error::Syntax(SyntaxError::UnclosedComment) => "the end of a comment",
        quick_xml::Error::Syntax(SyntaxError::UnclosedCData) => "the end of character data",
        quick_xml::Error::Syntax(SyntaxError::UnclosedDoctype) => "the end of a declaration",
        quick_xml::Error::Syntax(SyntaxError::UnclosedPI | SyntaxError::UnclosedXmlDecl) => {
            "the end of an instruction"
        }
        quick_xml::Error::IllFormed(
            IllFormedError::MismatchedEndTag { .. } | IllFormedError::UnmatchedEndTag(_),
        ) => "the end tag of the element that is open",
        _ => "the end of a tag",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\u{feff}<?xml version='1.0'?><!-- <a/> --><root name=\"x &lt; y\">\n\
        <scan mode='acquire'><n> 4 </n></scan><scan mode=\"search\"/><!-- <n>5</n> -->\
        <t>a&amp;b&#181;&#xB5;&what;<![CDATA[<c>]]></t></root>rest";

    #[test]
    fn elements_attributes_and_texts() {
        let root = Element::parse(TEXT.as_bytes()).unwrap();
        assert_eq!((root.name.as_str(), root.attribute("name")), ("root", Some("x < y")));
        assert_eq!(root.all("scan").len(), 2);
        assert_eq!(root.children[1].attribute("mode"), Some("search"));
        assert_eq!(root.path(&["scan", "n"]).unwrap().text(), "4");
        assert_eq!(root.all("n").len(), 1);
        assert_eq!(root.child("t").unwrap().text(), "a&bµµ&what;<c>");
        assert_eq!(root.child("u"), None);
    }

    #[test]
    fn files_that_are_cut_anywhere_are_refused() {
        let end = TEXT.len() - "rest".len();
        for len in 0..end {
            assert!(Element::parse(&TEXT.as_bytes()[..len]).is_err(), "{len}");
        }
        assert!(Element::parse(&TEXT.as_bytes()[..end]).is_ok());
    }

    #[test]
    fn what_is_not_xml_is_shown() {
        for (text, words) in [
            ("hello", "found 'hello', expected an element"),
            ("<a><b></a>", "expected the end tag of the element that is open"),
            ("<a x=1/>", "expected a quoted value"),
            ("<a x/>", "expected '='"),
            ("<a b&='1'/>", "expected a name"),
            ("<a></ a>", "expected the end tag of the element that is open"),
            ("<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>", "expected an element"),
        ] {
            let error = Element::parse(text.as_bytes()).unwrap_err();
            assert!(error.message().contains(words), "{text}: {error}");
        }
    }

    #[test]
    fn depth_is_limited_and_time_goes_with_the_length() {
        let deepest = "<a>".repeat(65) + &"</a>".repeat(65);
        assert!(Element::parse(deepest.as_bytes()).is_ok());
        for deep in ["<a>".repeat(66) + &"</a>".repeat(66), "<a>".repeat(100_000)] {
            let error = Element::parse(deep.as_bytes()).unwrap_err();
            assert!(error.message().contains("no more than 64 elements"), "{error}");
        }
        // Minutes, if each were compared with those before it, or looked for its end through all.
        for (text, fine) in [
            (format!("<a {}/>", "x='1' ".repeat(100_000)), true),
            (format!("<a>{}</a>", "&".repeat(300_000)), true),
            (format!("<a>{}</a>", "<b/>".repeat(50_000)), true),
            (format!("<a x='{}", "<".repeat(300_000)), false),
        ] {
            assert_eq!(Element::parse(text.as_bytes()).is_ok(), fine);
        }
    }
}
