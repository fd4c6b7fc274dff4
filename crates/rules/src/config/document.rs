//! YAML files of other programs, as a tree whose nodes know their lines. They are read with the
//! parser and the bounds of the configuration, and variables are not expanded.

use super::diagnostic::{ConfigError, Diagnostics};
use super::file::{FILE_MAX, too_large};
use super::yaml::{self, YamlNode, YamlValue};

/// A value of a YAML file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentNode {
    /// The line on which the value starts, from 1.
    pub line: usize,
    /// The value itself.
    pub value: DocumentValue,
}

/// A scalar, a list or a mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DocumentValue {
    /// The text of a scalar.
    Text(String),
    /// The items of a list.
    List(Vec<DocumentNode>),
    /// The fields of a mapping, in file order.
    Mapping(Vec<DocumentField>),
}

/// A field of a mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentField {
    /// The name of the field.
    pub name: String,
    /// The line of the name, from 1.
    pub line: usize,
    /// The value.
    pub node: DocumentNode,
}

impl DocumentNode {
    /// Parses a file with one YAML document of at most 1 MiB. `None` if it is empty.
    pub fn parse(text: &str, file: &str) -> Result<Option<Self>, ConfigError> {
        if text.len() > FILE_MAX {
            return Err(too_large(file));
        }
        let diagnostics = Diagnostics::new(file);
        let node = yaml::parse(text, &diagnostics);

        if diagnostics.is_clean() {
            Ok(node.map(Self::from))
        } else {
            Err(diagnostics.into_error())
        }
    }

    /// The field of a mapping with this name.
    pub fn get(&self, name: &str) -> Option<&Self> {
        let mut fields = self.fields().iter();
        fields
            .find(|field| field.name == name)
            .map(|field| &field.node)
    }

    /// The fields of a mapping; none for any other value.
    pub fn fields(&self) -> &[DocumentField] {
        match &self.value {
            DocumentValue::Mapping(fields) => fields,
            _ => &[],
        }
    }

    /// The items of a list; none for any other value.
    pub fn items(&self) -> &[Self] {
        match &self.value {
            DocumentValue::List(items) => items,
            _ => &[],
        }
    }

    /// The text of a scalar.
    pub fn text(&self) -> Option<&str> {
        match &self.value {
            DocumentValue::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// The depth of the tree is bounded, and so is the recursion.
impl From<YamlNode> for DocumentNode {
    fn from(node: YamlNode) -> Self {
        let value = match node.value {
            YamlValue::Scalar(scalar) => DocumentValue::Text(scalar.text),
            YamlValue::List(nodes) => {
                DocumentValue::List(nodes.into_iter().map(Self::from).collect())
            }
            YamlValue::Mapping(entries) => {
                let field = |entry: super::yaml::YamlEntry| DocumentField {
                    name: entry.key.text,
                    line: entry.position.line,
                    node: entry.node.into(),
                };
                DocumentValue::Mapping(entries.into_iter().map(field).collect())
            }
        };
        Self {
            line: node.position.line,
            value,
        }
    }
}
