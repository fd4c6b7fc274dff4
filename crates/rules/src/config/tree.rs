//! YAML as a tree of nodes that know their places. Owns the library that reads YAML, and the bounds
//! on what it reads.

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError, Span, StrInput};

use super::fault::{Log, Place};
use super::text::Text;

/// The deepest nesting: a pattern in a list in `match` in a limit is at six.
const DEPTH_MAX: usize = 32;
/// The most values: a thousand limits with every field have some forty thousand.
const NODES_MAX: usize = 100_000;

/// A value and its place.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) at: Place,
    pub(super) value: Value,
}

#[derive(Debug)]
pub(super) enum Value {
    Text(Text),
    List(Vec<Node>),
    Table(Vec<Entry>),
}

/// A key and its value.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) key: Text,
    pub(super) at: Place,
    pub(super) node: Node,
}

impl Node {
    /// The value of a key of a table.
    pub(super) fn entry(&self, key: &str) -> Option<&Entry> {
        let Value::Table(entries) = &self.value else {
            return None;
        };
        entries.iter().find(|entry| entry.key.meant == key)
    }
}

/// The one document of a text; `None` when it has faults, which are in the log.
pub(super) fn tree(text: &str, log: &Log<'_>) -> Option<Node> {
    let mut builder = Builder {
        open: Vec::new(),
        root: None,
        nodes: 0,
        documents: 0,
    };
    let mut parser = Parser::new_from_str(text);
    match builder.build(&mut parser) {
        Ok(()) => builder.root,
        Err((at, message)) => {
            log.fault(at, "", message);
            None
        }
    }
}

type Refusal = (Place, String);

/// Puts nodes together as events arrive. No recursion: depth is a number that is looked at.
struct Builder {
    open: Vec<Open>,
    root: Option<Node>,
    nodes: usize,
    documents: usize,
}

/// A list or table that has not ended.
struct Open {
    at: Place,
    content: Content,
}

enum Content {
    List(Vec<Node>),
    Table {
        entries: Vec<Entry>,
        key: Option<(Place, Text)>,
    },
}

impl Builder {
    fn build<'t>(&mut self, parser: &mut Parser<'t, StrInput<'t>>) -> Result<(), Refusal> {
        while let Some(event) = parser.next_event() {
            let (event, span) = event.map_err(|error| syntax(&error))?;
            if event == Event::StreamEnd {
                break;
            }
            self.take(event, span)?;
        }
        Ok(())
    }

    fn take(&mut self, event: Event<'_>, span: Span) -> Result<(), Refusal> {
        let at = place(&span.start);
        match event {
            Event::DocumentStart(_) => self.start_document(at),
            Event::Alias(_) => Err(refuse(
                at,
                "found an alias; write the value out, because aliases are not read",
            )),
            Event::Scalar(.., Some(_))
            | Event::SequenceStart(_, Some(_))
            | Event::MappingStart(_, Some(_)) => Err(refuse(
                at,
                "found a tag (`!..`); leave it out, because the field says what its value is",
            )),
            Event::Scalar(text, style, _, None) => {
                let text = Text::new(text.into_owned(), style == ScalarStyle::Plain);
                self.add(Node {
                    at,
                    value: Value::Text(text),
                })
            }
            Event::SequenceStart(..) => self.start(at, Content::List(Vec::new())),
            Event::MappingStart(..) => self.start(
                at,
                Content::Table {
                    entries: Vec::new(),
                    key: None,
                },
            ),
            Event::SequenceEnd | Event::MappingEnd => self.end(),
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => Ok(()),
        }
    }

    fn start_document(&mut self, at: Place) -> Result<(), Refusal> {
        self.documents += 1;
        if self.documents > 1 {
            return Err(refuse(
                at,
                "found a second document; a configuration is one, so leave out the `---` between them",
            ));
        }
        Ok(())
    }

    fn start(&mut self, at: Place, content: Content) -> Result<(), Refusal> {
        if self.is_at_key() {
            return Err(refuse(
                at,
                "found a list or a mapping as a name of a field; names are plain words",
            ));
        }
        if self.open.len() == DEPTH_MAX {
            return Err(refuse(
                at,
                format!(
                    "found lists and mappings nested deeper than {DEPTH_MAX}; nothing here needs more than 8"
                ),
            ));
        }
        self.open.push(Open { at, content });
        Ok(())
    }

    fn end(&mut self) -> Result<(), Refusal> {
        let Some(Open { at, content }) = self.open.pop() else {
            return Ok(());
        };
        let value = match content {
            Content::List(nodes) => Value::List(nodes),
            Content::Table { entries, .. } => Value::Table(entries),
        };
        self.add(Node { at, value })
    }

    fn add(&mut self, node: Node) -> Result<(), Refusal> {
        self.nodes += 1;
        if self.nodes > NODES_MAX {
            return Err(refuse(
                node.at,
                format!("found more than {NODES_MAX} values; a configuration has fewer"),
            ));
        }
        match self.open.last_mut().map(|open| &mut open.content) {
            None => self.root = Some(node),
            Some(Content::List(nodes)) => nodes.push(node),
            Some(Content::Table { entries, key }) => match (key.take(), node) {
                (Some((at, key)), node) => entries.push(Entry { key, at, node }),
                (
                    None,
                    Node {
                        at,
                        value: Value::Text(text),
                    },
                ) => *key = Some((at, text)),
                // A list or a mapping in the place of a key was refused when it began.
                (None, _) => {}
            },
        }
        Ok(())
    }

    fn is_at_key(&self) -> bool {
        matches!(
            self.open.last(),
            Some(Open {
                content: Content::Table { key: None, .. },
                ..
            })
        )
    }
}

fn refuse(at: Place, message: impl Into<String>) -> Refusal {
    (at, message.into())
}

/// The library's errors name what it met, never the text around it.
fn syntax(error: &ScanError) -> Refusal {
    (
        place(error.marker()),
        format!(
            "this is not YAML: {}; look at brackets, quotes and indentation here and above",
            error.info()
        ),
    )
}

fn place(marker: &Marker) -> Place {
    Place {
        line: marker.line(),
        column: marker.col() + 1,
    }
}
