//! Parses YAML into a tree of nodes with positions. Only this module uses the YAML library, and it
//! bounds the size and depth of the tree.

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError, Span, StrInput};

use super::diagnostic::{Diagnostics, SourcePosition};
use super::scalar::ScalarValue;

/// The maximum nesting depth. A pattern in a list in `match` in a limit is at depth six.
const DEPTH_MAX: usize = 32;
/// The maximum number of values. A thousand limits with every field have about 40,000.
const NODES_MAX: usize = 100_000;

/// A YAML value and its position.
#[derive(Debug)]
pub(super) struct YamlNode {
    pub(super) position: SourcePosition,
    pub(super) value: YamlValue,
}

#[derive(Debug)]
pub(super) enum YamlValue {
    Scalar(ScalarValue),
    List(Vec<YamlNode>),
    Mapping(Vec<YamlEntry>),
}

/// A key of a mapping, its position, and its value.
#[derive(Debug)]
pub(super) struct YamlEntry {
    pub(super) key: ScalarValue,
    pub(super) position: SourcePosition,
    pub(super) node: YamlNode,
}

impl YamlNode {
    /// The entry with this key. `None` if the key is absent or the node is not a mapping.
    pub(super) fn entry(&self, key: &str) -> Option<&YamlEntry> {
        let YamlValue::Mapping(entries) = &self.value else {
            return None;
        };
        entries.iter().find(|entry| entry.key.value == key)
    }
}

/// Parses a text with one YAML document. Returns `None` if the text is empty, or if it is invalid,
/// in which case the error is in `diagnostics`.
pub(super) fn parse(text: &str, diagnostics: &Diagnostics<'_>) -> Option<YamlNode> {
    let mut builder = Builder {
        open: Vec::new(),
        root: None,
        nodes: 0,
        documents: 0,
    };

    let mut parser = Parser::new_from_str(text);
    match builder.build(&mut parser) {
        Ok(()) => builder.root,
        Err(YamlError { position, message }) => {
            diagnostics.error(position, "", message);
            None
        }
    }
}

/// The reason why a text is not accepted as YAML.
struct YamlError {
    position: SourcePosition,
    message: String,
}

/// Builds the tree from parser events. It keeps its own stack instead of recursing, so that the
/// depth is bounded by `DEPTH_MAX`, not by the thread's stack.
struct Builder {
    open: Vec<OpenContainer>,
    root: Option<YamlNode>,
    nodes: usize,
    documents: usize,
}

/// A list or mapping whose end has not been read yet.
struct OpenContainer {
    position: SourcePosition,
    content: ContainerContent,
}

/// The items of an open list or mapping so far.
enum ContainerContent {
    List(Vec<YamlNode>),
    Mapping {
        entries: Vec<YamlEntry>,
        /// The key whose value comes next. `None` if a key comes next.
        key: Option<(SourcePosition, ScalarValue)>,
    },
}

impl Builder {
    fn build<'t>(&mut self, parser: &mut Parser<'t, StrInput<'t>>) -> Result<(), YamlError> {
        while let Some(event) = parser.next_event() {
            let (event, span) = event.map_err(|error| syntax_error(&error))?;
            if event == Event::StreamEnd {
                break;
            }
            self.handle(event, span)?;
        }
        Ok(())
    }

    fn handle(&mut self, event: Event<'_>, span: Span) -> Result<(), YamlError> {
        let position = position(&span.start);
        match event {
            Event::DocumentStart(_) => self.start_document(position),

            Event::Alias(_) => Err(unsupported(
                position,
                "YAML aliases (`*name`) are not supported; repeat the value instead",
            )),
            Event::Scalar(.., Some(_))
            | Event::SequenceStart(_, Some(_))
            | Event::MappingStart(_, Some(_)) => Err(unsupported(
                position,
                "YAML tags (`!name`) are not supported; remove the tag",
            )),

            Event::Scalar(text, style, _, None) => {
                let scalar = ScalarValue::new(text.into_owned(), style == ScalarStyle::Plain);
                self.add(YamlNode {
                    position,
                    value: YamlValue::Scalar(scalar),
                })
            }
            Event::SequenceStart(..) => self.start(position, ContainerContent::List(Vec::new())),
            Event::MappingStart(..) => self.start(
                position,
                ContainerContent::Mapping {
                    entries: Vec::new(),
                    key: None,
                },
            ),
            Event::SequenceEnd | Event::MappingEnd => self.end(),

            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => Ok(()),
        }
    }

    fn start_document(&mut self, position: SourcePosition) -> Result<(), YamlError> {
        self.documents += 1;
        if self.documents > 1 {
            return Err(unsupported(
                position,
                "found a second YAML document; a configuration must be a single document, so \
                 remove the `---` in between",
            ));
        }
        Ok(())
    }

    fn start(
        &mut self,
        position: SourcePosition,
        content: ContainerContent,
    ) -> Result<(), YamlError> {
        if self.expects_key() {
            return Err(unsupported(
                position,
                "a field name must be a string; found a list or a mapping",
            ));
        }
        if self.open.len() == DEPTH_MAX {
            return Err(unsupported(
                position,
                format!("nested too deeply: at most {DEPTH_MAX} levels are allowed"),
            ));
        }

        self.open.push(OpenContainer { position, content });
        Ok(())
    }

    fn end(&mut self) -> Result<(), YamlError> {
        let Some(OpenContainer { position, content }) = self.open.pop() else {
            return Ok(());
        };
        let value = match content {
            ContainerContent::List(nodes) => YamlValue::List(nodes),
            ContainerContent::Mapping { entries, .. } => YamlValue::Mapping(entries),
        };
        self.add(YamlNode { position, value })
    }

    /// Adds a complete node to the innermost open container, or makes it the root.
    fn add(&mut self, node: YamlNode) -> Result<(), YamlError> {
        self.nodes += 1;
        if self.nodes > NODES_MAX {
            return Err(unsupported(
                node.position,
                format!("too many values: at most {NODES_MAX} are allowed"),
            ));
        }

        match self.open.last_mut().map(|open| &mut open.content) {
            None => self.root = Some(node),
            Some(ContainerContent::List(nodes)) => nodes.push(node),
            Some(ContainerContent::Mapping { entries, key }) => match (key.take(), node.value) {
                (Some((position, key)), value) => entries.push(YamlEntry {
                    key,
                    position,
                    node: YamlNode {
                        position: node.position,
                        value,
                    },
                }),
                (None, YamlValue::Scalar(scalar)) => *key = Some((node.position, scalar)),
                // `start` rejects a list or a mapping as a key.
                (None, _) => {}
            },
        }
        Ok(())
    }

    /// Whether the next node is the key of a mapping.
    fn expects_key(&self) -> bool {
        matches!(
            self.open.last(),
            Some(OpenContainer {
                content: ContainerContent::Mapping { key: None, .. },
                ..
            })
        )
    }
}

fn unsupported(position: SourcePosition, message: impl Into<String>) -> YamlError {
    YamlError {
        position,
        message: message.into(),
    }
}

/// Converts an error of the YAML library. Its text never repeats the input, so it is safe to show.
fn syntax_error(error: &ScanError) -> YamlError {
    YamlError {
        position: position(error.marker()),
        message: format!(
            "invalid YAML: {}; check brackets, quotes and indentation here and above",
            error.info()
        ),
    }
}

fn position(marker: &Marker) -> SourcePosition {
    SourcePosition {
        line: marker.line(),
        column: marker.col() + 1,
    }
}
