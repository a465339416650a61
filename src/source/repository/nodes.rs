//! The nodes of one YAML document, one after the other. What the reader does not ask for is passed over, not kept. JSON is YAML here,
//! also with its pairs of surrogates.

use std::borrow::Cow;
use std::collections::HashMap;

use granit_parser::{Event, Parser, ScalarStyle, StrInput};

use crate::manifest::yaml::is_null;
use crate::pack::shown;

/// Scalars, beginnings and ends of lists and maps. An index of 20,000 entries with all their metadata has one or two million;
/// so many take a second.
const MAX_NODES: usize = 4_000_000;
/// The parser keeps the name of each anchor.
const MAX_ANCHORS: usize = 10_000;
/// Bytes of a scalar that an alias can stand for. No text that is read from an index is longer.
const MAX_ANCHORED: usize = 2048;

/// Why the bytes are no index.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// More than is read.
    #[error(
        "the index has {bytes} bytes, more than {max}: use a repository of fewer packs, or spec.pack.http"
    )]
    TooLarge {
        /// How many there are.
        bytes: usize,
        /// How many are read.
        max: usize,
    },
    /// It is no text.
    #[error("the index is no UTF-8 text: is this the URL of a repository?")]
    NotText,
    /// It is no YAML.
    #[error(
        "the index is no YAML: line {line}, column {column}: {message}: is this the URL of a repository?"
    )]
    Syntax {
        /// Where the parser stopped, from 1.
        line: usize,
        /// The same, from 1.
        column: usize,
        /// What the parser says.
        message: String,
    },
    /// It is YAML of another sort.
    #[error("this is no index of a repository: {why}: is this the URL of a repository?")]
    NotAnIndex {
        /// What is there, or is not.
        why: String,
    },
    /// A key that is there twice.
    #[error(
        "line {line} of the index repeats the key `{key}`, so one of the two would be lost: the repository must write its index anew"
    )]
    Repeated {
        /// The line of the second.
        line: usize,
        /// The key as it is shown.
        key: String,
    },
    /// More packs and versions than are kept.
    #[error("the index has more than {max} entries: use a repository of fewer packs, or spec.pack.http")]
    TooManyEntries {
        /// How many are kept.
        max: usize,
    },
    /// More nodes, or anchors, than an index can need.
    #[error("the index has more than {max} {what}: use a repository of fewer packs, or spec.pack.http")]
    TooManyNodes {
        /// How many are read.
        max: usize,
        /// Of which sort.
        what: &'static str,
    },
}

/// A node, or the end of a list or map.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Node<'i> {
    Text(Cow<'i, str>),
    /// Null.
    Nothing,
    /// An alias of what is no short text: a list or map that is written elsewhere is not read here.
    Elsewhere,
    /// A list begins.
    List,
    /// A map begins.
    Map,
    /// The innermost list or map ends.
    End,
}

/// What is left of a document.
pub(super) struct Nodes<'i> {
    parser: Parser<'i, StrInput<'i>>,
    /// Of the last node, from 1.
    line: usize,
    count: usize,
    anchors: usize,
    anchored: HashMap<usize, Cow<'i, str>>,
}

impl<'i> Nodes<'i> {
    pub(super) fn new(text: &'i str) -> Self {
        // The parser would keep the directives, and no index has any.
        let mut options = granit_parser::options! { disallow_directives: true };
        options.set_emit_comments(false);
        Self {
            parser: Parser::new_from_str_with_options(text, options),
            line: 0,
            count: 0,
            anchors: 0,
            anchored: HashMap::new(),
        }
    }

    pub(super) fn line(&self) -> usize {
        self.line
    }

    /// The next node. At the end of the document it is [`Node::End`].
    pub(super) fn next(&mut self) -> Result<Node<'i>, Unreadable> {
        loop {
            match self.event()? {
                Event::Scalar(text, style, anchor, tag) => {
                    let null = style == ScalarStyle::Plain && tag.is_none() && is_null(&text);
                    self.keep(anchor, if null { "" } else { &text })?;
                    return Ok(if null { Node::Nothing } else { Node::Text(text) });
                }
                Event::SequenceStart(_, anchor, _) => {
                    self.keep(anchor, "")?;
                    return Ok(Node::List);
                }
                Event::MappingStart(_, anchor, _) => {
                    self.keep(anchor, "")?;
                    return Ok(Node::Map);
                }
                Event::Alias(anchor) => {
                    return Ok(self.anchored.get(&anchor).cloned().map_or(Node::Elsewhere, Node::Text));
                }
                Event::SequenceEnd | Event::MappingEnd | Event::DocumentEnd | Event::StreamEnd => {
                    return Ok(Node::End);
                }
                _ => {}
            }
        }
    }

    /// Passes over the rest of a node of which the beginning was read.
    pub(super) fn skip(&mut self, begun: &Node<'i>) -> Result<(), Unreadable> {
        let mut open = usize::from(matches!(begun, Node::List | Node::Map));
        while open > 0 {
            match self.next()? {
                Node::List | Node::Map => open += 1,
                Node::End => open -= 1,
                Node::Text(_) | Node::Nothing | Node::Elsewhere => {}
            }
        }
        Ok(())
    }

    /// The next key of the map that is open; `None` at its end. A key that is no text is passed over with its value.
    pub(super) fn key(&mut self) -> Result<Option<Cow<'i, str>>, Unreadable> {
        loop {
            match self.next()? {
                Node::End => return Ok(None),
                Node::Text(key) => return Ok(Some(key)),
                other => {
                    self.skip(&other)?;
                    let value = self.next()?;
                    self.skip(&value)?;
                }
            }
        }
    }

    /// After the root was read: nothing may follow.
    pub(super) fn finish(mut self) -> Result<(), Unreadable> {
        loop {
            match self.event()? {
                Event::StreamEnd => return Ok(()),
                Event::DocumentStart(..) => {
                    let why = format!("a second document begins at line {}", self.line);
                    return Err(Unreadable::NotAnIndex { why });
                }
                _ => {}
            }
        }
    }

    fn event(&mut self) -> Result<Event<'i>, Unreadable> {
        let Some(next) = self.parser.next_event() else { return Ok(Event::StreamEnd) };
        let (event, span) = next.map_err(|error| Unreadable::Syntax {
            line: error.marker().line(),
            column: error.marker().col() + 1,
            message: shown(&error.info(), 200),
        })?;
        self.line = span.start.line();
        self.count += 1;
        if self.count > MAX_NODES {
            return Err(Unreadable::TooManyNodes { max: MAX_NODES, what: "nodes" });
        }
        Ok(event)
    }

    fn keep(&mut self, anchor: usize, text: &str) -> Result<(), Unreadable> {
        if anchor == 0 {
            return Ok(());
        }
        self.anchors += 1;
        if self.anchors > MAX_ANCHORS {
            return Err(Unreadable::TooManyNodes { max: MAX_ANCHORS, what: "anchors" });
        }
        if !text.is_empty() && text.len() <= MAX_ANCHORED {
            self.anchored.insert(anchor, Cow::Owned(text.to_owned()));
        }
        Ok(())
    }
}
