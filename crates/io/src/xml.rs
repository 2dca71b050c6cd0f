//! A reader for the XML files that lie next to data: elements, attributes and texts.
//!
//! Files of a few kilobytes with nothing special in them. Comments, declarations and processing
//! instructions are skipped, the five entities and numbered characters are replaced; nothing that
//! grows when it is read (entities of the file's own) is.

use framefold_core::{Error, Result};

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
        let text = text.trim_start_matches('\u{feff}');
        let mut scanner = Scanner { text, at: 0 };
        scanner.root().map_err(|problem| {
            let found: String = text.get(scanner.at..).unwrap_or("").chars().take(12).collect();
            Error::bad_file(format!("found '{}', expected {problem}", found.escape_debug()))
                .with_offset(u64::try_from(scanner.at).unwrap_or(u64::MAX))
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

struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scanner<'a> {
    fn root(&mut self) -> Result<Element, Expected> {
        self.skip_asides()?;
        let root = self.element(0)?;
        // What follows the root element is of no use, and may be cut off.
        Ok(root)
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or("")
    }

    fn take(&mut self, start: &str) -> bool {
        let taken = self.rest().starts_with(start);
        if taken {
            self.at += start.len();
        }
        taken
    }

    /// What comes before `end`, which is passed.
    fn until(&mut self, end: &str, expected: Expected) -> Result<&'a str, Expected> {
        let (before, _) = self.rest().split_once(end).ok_or(expected)?;
        self.at += before.len() + end.len();
        Ok(before)
    }

    fn skip_space(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
    }

    /// Space, comments, declarations and instructions between elements.
    fn skip_asides(&mut self) -> Result<(), Expected> {
        loop {
            self.skip_space();
            if self.take("<!--") {
                self.until("-->", "the end of a comment")?;
            } else if self.take("<?") {
                self.until("?>", "the end of an instruction")?;
            } else if self.take("<!DOCTYPE") {
                // One with definitions of its own ends too early here, and what follows is no XML.
                self.until(">", "the end of a declaration")?;
            } else {
                return Ok(());
            }
        }
    }

    fn name(&mut self) -> Result<String, Expected> {
        let rest = self.rest();
        let ends = |c: char| c.is_whitespace() || "/>=<\"'&".contains(c);
        let len = rest.find(ends).unwrap_or(rest.len());
        let name = rest.get(..len).filter(|name| !name.is_empty()).ok_or("a name")?;
        self.at += len;
        Ok(name.to_owned())
    }

    fn element(&mut self, depth: usize) -> Result<Element, Expected> {
        if depth > MAX_DEPTH {
            return Err("no more than 64 elements within each other");
        }
        if !self.take("<") {
            return Err("an element: '<'");
        }
        let mut element = Element { name: self.name()?, ..Element::default() };
        loop {
            self.skip_space();
            if self.take("/>") {
                return Ok(element);
            }
            if self.take(">") {
                break;
            }
            let name = self.name()?;
            self.skip_space();
            if !self.take("=") {
                return Err("'=' and the value of an attribute");
            }
            self.skip_space();
            let quote = ["\"", "'"].into_iter().find(|quote| self.take(quote));
            let value = self.until(quote.ok_or("a quoted value")?, "the end of a quoted value")?;
            element.attributes.push((name, unescape(value)));
        }
        loop {
            let rest = self.rest();
            let len = rest.find('<').ok_or("the end tag of an element")?;
            element.text.push_str(&unescape(rest.get(..len).unwrap_or("")));
            self.at += len;
            if self.take("<![CDATA[") {
                element.text.push_str(self.until("]]>", "the end of character data")?);
            } else if self.take("<!--") {
                self.until("-->", "the end of a comment")?;
            } else if self.take("<?") {
                self.until("?>", "the end of an instruction")?;
            } else if self.take("</") {
                if self.name()? != element.name {
                    return Err("the end tag of the element that is open");
                }
                self.skip_space();
                return if self.take(">") { Ok(element) } else { Err("'>'") };
            } else {
                element.children.push(self.element(depth + 1)?);
            }
        }
    }
}

/// Replaces entities; what is none stays as it is.
fn unescape(text: &str) -> String {
    let mut parts = text.split('&');
    let mut out = parts.next().unwrap_or("").to_owned();
    for part in parts {
        let known = part.split_once(';').and_then(|(name, rest)| Some((character(name)?, rest)));
        match known {
            Some((character, rest)) => {
                out.push(character);
                out.push_str(rest);
            }
            None => {
                out.push('&');
                out.push_str(part);
            }
        }
    }
    out
}

fn character(name: &str) -> Option<char> {
    match name {
        "amp" => Some('&'),
        "lt" => Some('<'),
        "gt" => Some('>'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        _ => {
            let number = name.strip_prefix('#')?;
            let code = match number.strip_prefix('x') {
                Some(digits) => u32::from_str_radix(digits, 16),
                None => number.parse(),
            };
            char::from_u32(code.ok()?)
        }
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
            ("<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>", "expected an element"),
        ] {
            let error = Element::parse(text.as_bytes()).unwrap_err();
            assert!(error.message().contains(words), "{text}: {error}");
        }
        let deep = "<a>".repeat(100_000);
        assert!(Element::parse(deep.as_bytes()).is_err());
    }
}
