//! Parses YAML into a tree of nodes with positions. Only this module uses the YAML library, and it
//! bounds the size and depth of the tree. Importers read the files of other programs with it; their
//! variables are not expanded.

use std::fmt;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, StrInput};

use super::diagnostic::{ConfigError, Diagnostics, SourcePosition};
use super::file::{FILE_MAX, too_large};
use super::scalar::ScalarValue;

/// The maximum nesting depth. A pattern in a list in `match` in a limit is at depth six. It also
/// bounds the recursion of everything that walks the tree.
const DEPTH_MAX: usize = 32;
/// The maximum number of keys and values. A thousand limits with every field have about 40,000.
const NODES_MAX: usize = 100_000;

/// A value of a YAML file, and its position.
#[derive(Debug)]
pub struct DocumentNode {
    /// The line on which the value starts, from 1.
    pub line: usize,
    column: usize,
    pub(super) value: YamlValue,
}

#[derive(Debug)]
pub(super) enum YamlValue {
    Scalar(ScalarValue),
    List(Vec<DocumentNode>),
    Mapping(Vec<YamlEntry>),
}

/// A key of a mapping, its position, and its value.
#[derive(Debug)]
pub(super) struct YamlEntry {
    pub(super) key: ScalarValue,
    pub(super) position: SourcePosition,
    pub(super) node: DocumentNode,
}

/// Parses a text with one YAML document. Returns `None` if the text is empty, or if it is invalid,
/// in which case the error is in `diagnostics`.
pub(super) fn parse(text: &str, diagnostics: &Diagnostics<'_>) -> Option<DocumentNode> {
    let reader = NodeReader {
        parser: Parser::new_from_str(text),
        diagnostics,
        nodes: 0,
    };
    reader.read_document()
}

impl DocumentNode {
    /// Parses a file with one YAML document of at most 1 MiB. `None` if it is empty.
    pub fn parse(text: &str, file: &str) -> Result<Option<Self>, ConfigError> {
        if text.len() > FILE_MAX {
            return Err(too_large(file));
        }
        let diagnostics = Diagnostics::new(file);
        let node = parse(text, &diagnostics);

        if diagnostics.is_clean() {
            Ok(node)
        } else {
            Err(diagnostics.into_error())
        }
    }

    pub(super) const fn new(
        SourcePosition { line, column }: SourcePosition,
        value: YamlValue,
    ) -> Self {
        Self {
            line,
            column,
            value,
        }
    }

    pub(super) const fn position(&self) -> SourcePosition {
        SourcePosition {
            line: self.line,
            column: self.column,
        }
    }

    /// The field of a mapping with this name.
    pub fn get(&self, name: &str) -> Option<&Self> {
        let entry = self.entries().iter().find(|entry| entry.key.text == name);
        entry.map(|entry| &entry.node)
    }

    /// The names of the fields of a mapping with their lines; none for any other value.
    pub fn fields(&self) -> impl Iterator<Item = (&str, usize)> {
        let entries = self.entries().iter();
        entries.map(|entry| (&*entry.key.text, entry.position.line))
    }

    /// The items of a list; none for any other value.
    pub fn items(&self) -> &[Self] {
        match &self.value {
            YamlValue::List(items) => items,
            _ => &[],
        }
    }

    /// The text of a scalar.
    pub fn text(&self) -> Option<&str> {
        self.scalar().map(|scalar| &*scalar.text)
    }

    pub(super) fn entries(&self) -> &[YamlEntry] {
        match &self.value {
            YamlValue::Mapping(entries) => entries,
            _ => &[],
        }
    }

    pub(super) const fn scalar(&self) -> Option<&ScalarValue> {
        match &self.value {
            YamlValue::Scalar(scalar) => Some(scalar),
            _ => None,
        }
    }
}

/// Builds the tree from parser events. Its methods return `None` after they have reported an error.
struct NodeReader<'t> {
    parser: Parser<'t, StrInput<'t>>,
    diagnostics: &'t Diagnostics<'t>,
    /// The number of keys and values so far.
    nodes: usize,
}

impl<'t> NodeReader<'t> {
    /// Reads to the end of the text, which must have at most one document.
    fn read_document(mut self) -> Option<DocumentNode> {
        let mut root = None;
        loop {
            let (event, position) = self.next_event()?;
            match event {
                Event::StreamEnd => return root,
                Event::DocumentStart(_) if root.is_some() => {
                    return self.error(
                        position,
                        "found a second YAML document; a configuration must be a single document, \
                         so remove the `---` in between",
                    );
                }
                Event::Nothing
                | Event::StreamStart
                | Event::DocumentStart(_)
                | Event::DocumentEnd => {}
                event => root = Some(self.read_node(event, position, 0)?),
            }
        }
    }

    /// Reads the node that starts with this event, inside of `depth` other nodes.
    fn read_node(
        &mut self,
        event: Event<'t>,
        position: SourcePosition,
        depth: usize,
    ) -> Option<DocumentNode> {
        let value = match event {
            Event::SequenceStart(_, None) | Event::MappingStart(_, None) if depth == DEPTH_MAX => {
                return self.error(
                    position,
                    format_args!("nested too deeply: at most {DEPTH_MAX} levels are allowed"),
                );
            }
            Event::SequenceStart(_, None) => YamlValue::List(self.read_list(depth + 1)?),
            Event::MappingStart(_, None) => YamlValue::Mapping(self.read_mapping(depth + 1)?),
            _ => YamlValue::Scalar(self.read_scalar(event, position)?),
        };
        self.nodes += 1;
        if self.nodes > NODES_MAX {
            return self.error(
                position,
                format_args!("too many values: at most {NODES_MAX} are allowed"),
            );
        }
        Some(DocumentNode::new(position, value))
    }

    fn read_list(&mut self, depth: usize) -> Option<Vec<DocumentNode>> {
        let mut nodes = Vec::new();
        loop {
            let (event, position) = self.next_event()?;
            if event == Event::SequenceEnd {
                return Some(nodes);
            }
            nodes.push(self.read_node(event, position, depth)?);
        }
    }

    fn read_mapping(&mut self, depth: usize) -> Option<Vec<YamlEntry>> {
        let mut entries = Vec::new();
        loop {
            let (event, position) = self.next_event()?;
            if event == Event::MappingEnd {
                return Some(entries);
            }

            let key = self.read_scalar(event, position)?;
            self.nodes += 1;
            let (event, start) = self.next_event()?;
            entries.push(YamlEntry {
                key,
                position,
                node: self.read_node(event, start, depth)?,
            });
        }
    }

    /// Reads a scalar, which is a value or the key of a mapping.
    fn read_scalar(&self, event: Event<'t>, position: SourcePosition) -> Option<ScalarValue> {
        let message = match event {
            Event::Scalar(text, style, _, None) => {
                let is_plain = style == ScalarStyle::Plain;
                return Some(ScalarValue::new(text.into_owned(), is_plain));
            }
            Event::Alias(_) => "YAML aliases (`*name`) are not supported; repeat the value instead",
            Event::Scalar(..)
            | Event::SequenceStart(_, Some(_))
            | Event::MappingStart(_, Some(_)) => {
                "YAML tags (`!name`) are not supported; remove the tag"
            }
            _ => "a field name must be a string; found a list or a mapping",
        };
        self.error(position, message)
    }

    /// The next event and its position.
    fn next_event(&mut self) -> Option<(Event<'t>, SourcePosition)> {
        match self.parser.next_event()? {
            Ok((event, span)) => Some((event, position(&span.start))),
            // The text of the error never repeats the input, so it is safe to show.
            Err(error) => self.error(
                position(error.marker()),
                format_args!(
                    "invalid YAML: {}; check brackets, quotes and indentation here and above",
                    error.info()
                ),
            ),
        }
    }

    fn error<T>(&self, position: SourcePosition, message: impl fmt::Display) -> Option<T> {
        self.diagnostics.error(position, "", message);
        None
    }
}

fn position(marker: &Marker) -> SourcePosition {
    SourcePosition {
        line: marker.line(),
        column: marker.col() + 1,
    }
}
