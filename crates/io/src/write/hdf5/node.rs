//! Groups, the array, their attributes, and the part of a file that they make up.

use super::NOWHERE;
use super::message::{
    ATTRIBUTE, DATASPACE, DATATYPE, FILL_VALUE, FILTERS, Filters, GROUP_INFO, LAYOUT, LINK,
    LINK_INFO, Layout, dataspace, datatype, object_header, text_type,
};
use framefold_core::{DType, Error, Result};

/// One object of a file.
pub(in crate::write) enum Node {
    Group {
        attributes: Vec<(String, Value)>,
        children: Vec<(String, Node)>,
    },
    Data {
        shape: Vec<usize>,
        dtype: DType,
        layout: Layout,
        filters: Filters,
        attributes: Vec<(String, Value)>,
    },
}

/// The value of an attribute.
#[derive(Clone, Debug)]
pub enum Value {
    /// A float of 64 bits.
    Number(f64),
    /// An integer of 64 bits.
    Integer(i64),
    /// A truth value, as h5py has it.
    Truth(bool),
    /// A text in UTF-8.
    Text(String),
    /// A row of texts.
    Texts(Vec<String>),
}

impl Value {
    /// All texts in it.
    fn texts(&self) -> &[String] {
        match self {
            Value::Text(text) => std::slice::from_ref(text),
            Value::Texts(texts) => texts,
            Value::Number(_) | Value::Integer(_) | Value::Truth(_) => &[],
        }
    }
}

/// Bytes that lie in the file from `start` on.
pub(super) struct Image {
    pub(super) start: u64,
    pub(super) bytes: Vec<u8>,
}

impl Node {
    pub(super) fn group(children: Vec<(&str, Node)>) -> Node {
        let children = children.into_iter().map(|(name, node)| (name.to_owned(), node));
        Node::Group { attributes: vec![], children: children.collect() }
    }

    pub(super) fn attributes(attributes: Vec<(&str, Value)>) -> Node {
        let attributes = attributes.into_iter().map(|(name, value)| (name.to_owned(), value));
        Node::Group { attributes: attributes.collect(), children: vec![] }
    }
}

impl Image {
    pub(super) fn at(start: u64) -> Self {
        Image { start, bytes: Vec::new() }
    }

    /// Where what follows will be.
    pub(super) fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    /// Fills up with zeros to `end`.
    pub(super) fn pad_to(&mut self, end: u64) {
        let len = usize::try_from(end - self.start).unwrap_or(self.bytes.len());
        self.bytes.resize(len.max(self.bytes.len()), 0);
    }

    /// Appends a node and all below it, and gives the address of its header.
    ///
    /// # Errors
    /// `Limit` if names are too long or too many.
    pub(super) fn append_tree(&mut self, node: &Node) -> Result<u64> {
        let messages = match node {
            Node::Data { shape, dtype, layout, filters, attributes } => {
                let mut messages = vec![
                    (DATASPACE, dataspace(shape)),
                    (DATATYPE, datatype(*dtype)),
                    (FILL_VALUE, layout.fill_message()),
                    (LAYOUT, layout.message()),
                ];
                if !filters.is_empty() {
                    messages.push((FILTERS, filters.message()));
                }
                messages.extend(self.attributes(attributes)?);
                messages
            }
            Node::Group { attributes, children } => {
                let nowhere = NOWHERE.to_le_bytes();
                let mut messages = vec![
                    (LINK_INFO, [&[0, 0][..], &nowhere, &nowhere].concat()),
                    (GROUP_INFO, vec![0, 0]),
                ];
                for (name, child) in children {
                    let address = self.append_tree(child)?;
                    messages.push((LINK, link(name, address)?));
                }
                messages.extend(self.attributes(attributes)?);
                messages
            }
        };
        self.pad_to(self.end().next_multiple_of(8));
        let address = self.end();
        self.bytes.extend(object_header(&messages)?);
        self.pad_to(self.end().next_multiple_of(8));
        Ok(address)
    }

    fn attributes(&mut self, attributes: &[(String, Value)]) -> Result<Vec<(u8, Vec<u8>)>> {
        let texts: Vec<&str> =
            attributes.iter().flat_map(|(_, value)| value.texts()).map(String::as_str).collect();
        let heap = self.append_heap(&texts)?;
        let mut n_texts = 0u32;
        let mut messages = Vec::with_capacity(attributes.len());
        for (name, value) in attributes {
            let (datatype, bytes) = match value {
                Value::Number(value) => (datatype(DType::F64), value.to_ne_bytes().to_vec()),
                Value::Integer(value) => (datatype(DType::I64), value.to_ne_bytes().to_vec()),
                Value::Truth(value) => (datatype(DType::Bool), vec![u8::from(*value)]),
                Value::Text(_) | Value::Texts(_) => {
                    let mut bytes = Vec::new();
                    for text in value.texts() {
                        n_texts += 1;
                        bytes.extend((text.len() as u32).to_le_bytes());
                        bytes.extend(heap.to_le_bytes());
                        bytes.extend(n_texts.to_le_bytes());
                    }
                    (text_type(), bytes)
                }
            };
            let dataspace = match value {
                Value::Texts(texts) => dataspace(&[texts.len()]),
                _ => dataspace(&[]),
            };
            // Version 3, names in UTF-8.
            let mut message = vec![3, 0];
            for len in [name.len() + 1, datatype.len(), dataspace.len()] {
                let len = u16::try_from(len).map_err(|_| Error::limit("a name is too long"))?;
                message.extend(len.to_le_bytes());
            }
            message.push(1);
            message.extend(name.as_bytes());
            message.push(0);
            message.extend(datatype);
            message.extend(dataspace);
            message.extend(bytes);
            messages.push((ATTRIBUTE, message));
        }
        Ok(messages)
    }

    /// Appends texts, which are counted from 1, and gives the address of the collection.
    fn append_heap(&mut self, texts: &[&str]) -> Result<u64> {
        /// Collections are at least that large.
        const SMALLEST: usize = 4096;
        if texts.is_empty() {
            return Ok(NOWHERE);
        }
        self.pad_to(self.end().next_multiple_of(8));
        let address = self.end();
        let used = 16 + texts.iter().map(|text| 16 + text.len().next_multiple_of(8)).sum::<usize>();
        // The rest is an object by itself, and has a header, too.
        let len = (used + 16).max(SMALLEST);
        let out = &mut self.bytes;
        out.extend(b"GCOL\x01\0\0\0");
        out.extend((len as u64).to_le_bytes());
        for (i, text) in texts.iter().enumerate() {
            let number = u16::try_from(i + 1).map_err(|_| Error::limit("too many texts"))?;
            out.extend(number.to_le_bytes());
            out.extend([1, 0, 0, 0, 0, 0]);
            out.extend((text.len() as u64).to_le_bytes());
            out.extend(text.as_bytes());
            out.resize(out.len() + text.len().next_multiple_of(8) - text.len(), 0);
        }
        out.extend([0; 8]);
        out.extend(((len - used) as u64).to_le_bytes());
        self.pad_to(address + len as u64);
        Ok(address)
    }
}

/// A hard link, version 1, with a name in UTF-8.
fn link(name: &str, address: u64) -> Result<Vec<u8>> {
    let len = u16::try_from(name.len()).map_err(|_| Error::limit("a name is too long"))?;
    let mut out = vec![1, 0x10 | 0x01, 1];
    out.extend(len.to_le_bytes());
    out.extend(name.as_bytes());
    out.extend(address.to_le_bytes());
    Ok(out)
}
