//! The body of denials as a template, for clients that expect another one than a problem document.

use std::borrow::Cow;

use bytes::Bytes;
use http::Response;
use http::header::{CONTENT_TYPE, HeaderValue};
use serde::de::IgnoredAny;
use tollgate::{LimitOutcome, Retry};

use self::FieldValue::{Number, Text};
use crate::problem::Problem;
use crate::time::{retry_secs, secs_ceil};

/// The longest media type, in bytes.
const CONTENT_TYPE_MAX: usize = 128;
/// The longest template, in bytes. Values are short, so that a body is at most sixteen times as long.
const BODY_MAX: usize = 8_192;

/// The names of the fields. Values have the same order.
const FIELDS: [&str; 7] = [
    "name",
    "limit",
    "remaining",
    "retry_after",
    "reset_after",
    "status",
    "detail",
];

/// The body of a denial, with fields in braces:
///
/// | field | value |
/// |---|---|
/// | `{name}` | the name of the limit that denied the request; of several, that with the longest retry time |
/// | `{limit}`, `{remaining}` | its size and the units left |
/// | `{retry_after}` | seconds until the request would pass, rounded up; `null` in JSON, else nothing, if it can never pass |
/// | `{reset_after}` | seconds until the limit is full again, rounded up |
/// | `{status}` | the status of the response |
/// | `{detail}` | a sentence with the limit and the retry time |
///
/// Values are escaped as the media type requires: for JSON, HTML and XML. Braces around anything but
/// lower-case letters and `_` are text, as in JSON.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Limit, Limiter};
/// use tollgate_http::{DenialTemplate, Problem};
///
/// let template = DenialTemplate::new(
///     "application/json",
///     r#"{"error":{"type":"rate_limit","message":"{detail}","retry_after":{retry_after}}}"#,
/// )?;
///
/// let limiter = Limiter::in_memory([Limit::fixed_window("login", 1, Duration::from_secs(900))])?;
/// assert!(limiter.check("login", "ann").try_now()?.is_allowed());
/// let decision = limiter.check("login", "ann").try_now()?;
/// let problem = Problem::denied(&decision).unwrap();
///
/// let response = template.to_response(&problem, decision.denied_by());
/// assert_eq!(response.status(), 429);
/// assert_eq!(
///     response.body(),
///     &br#"{"error":{"type":"rate_limit","message":"Limit \"login\" exceeded; retry in 900 seconds.","retry_after":900}}"#[..]
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DenialTemplate {
    content_type: HeaderValue,
    format: Format,
    parts: Vec<DenialPart>,
}

/// Why a template is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DenialTemplateError {
    /// The media type is not of the form `type/subtype`, with parameters or not, or it is too long.
    ContentType,
    /// The template is longer than this many bytes.
    TooLong {
        /// The longest that is allowed.
        max: usize,
    },
    /// There is no field with this name.
    UnknownField {
        /// What was found between the braces.
        name: String,
    },
    /// The media type is JSON, but with values in it the body is not.
    NotJson {
        /// What a JSON parser says.
        reason: String,
    },
}

impl std::fmt::Display for DenialTemplateError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::ContentType => write!(
                f,
                "expected a media type of up to {CONTENT_TYPE_MAX} bytes, such as application/json"
            ),
            Self::TooLong { max } => write!(f, "expected a template of up to {max} bytes"),
            Self::UnknownField { name } => {
                let names = DenialTemplate::field_names().join(", ");
                write!(f, "unknown field {{{name}}}; expected one of {names}")
            }
            Self::NotJson { reason } => write!(
                f,
                "with values in it, the body is not JSON ({reason}); {{name}} and {{detail}} need \
                 quotes around them"
            ),
        }
    }
}

impl std::error::Error for DenialTemplateError {}

/// How values are escaped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Json,
    /// HTML and XML.
    Markup,
    Text,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum DenialPart {
    Text(Box<str>),
    /// The field at this index of [`FIELDS`].
    Field(usize),
}

/// The value of a field.
#[derive(Clone, Copy)]
enum FieldValue<'a> {
    Text(&'a str),
    Number(u64),
    /// `null` in JSON, else nothing.
    Absent,
}

impl DenialTemplate {
    /// Parses a template.
    pub fn new(content_type: &str, body: &str) -> Result<Self, DenialTemplateError> {
        if body.len() > BODY_MAX {
            return Err(DenialTemplateError::TooLong { max: BODY_MAX });
        }

        let template = Self {
            content_type: parse_content_type(content_type)?,
            format: Format::new(content_type),
            parts: parse_body(body)?,
        };
        template.validate_json()?;
        Ok(template)
    }

    /// The names of all fields.
    pub fn field_names() -> [&'static str; FIELDS.len()] {
        FIELDS
    }

    /// The media type of the body.
    pub const fn content_type(&self) -> &HeaderValue {
        &self.content_type
    }

    /// The body of a denial by a limit. Without a limit, as of a quota that is zero, the first
    /// violated policy of the problem is named.
    pub fn render(&self, problem: &Problem<'_>, limit: Option<&LimitOutcome>) -> String {
        let policy = problem.violated_policies.first().copied();
        let number = |value: fn(&LimitOutcome) -> u64| Number(limit.map_or(0, value));
        self.fill([
            Text(limit.map_or(policy.unwrap_or_default(), LimitOutcome::name)),
            number(LimitOutcome::limit),
            number(LimitOutcome::remaining),
            match limit.and_then(LimitOutcome::retry) {
                Some(Retry::After(length)) => Number(retry_secs(length)),
                Some(Retry::Never) | None => FieldValue::Absent,
            },
            number(|limit| secs_ceil(limit.reset_after())),
            Number(problem.status.as_u16().into()),
            Text(&problem.detail),
        ])
    }

    /// A response with the problem's status and this body.
    pub fn to_response(
        &self,
        problem: &Problem<'_>,
        limit: Option<&LimitOutcome>,
    ) -> Response<Bytes> {
        let mut response = Response::new(self.render(problem, limit).into());
        *response.status_mut() = problem.status;
        response
            .headers_mut()
            .insert(CONTENT_TYPE, self.content_type.clone());
        response
    }

    fn fill(&self, values: [FieldValue<'_>; FIELDS.len()]) -> String {
        let mut body = String::new();
        for part in &self.parts {
            match part {
                DenialPart::Text(text) => body.push_str(text),
                DenialPart::Field(index) => values[*index].write(self.format, &mut body),
            }
        }
        body
    }

    /// Tries a template for JSON with example values.
    fn validate_json(&self) -> Result<(), DenialTemplateError> {
        if self.format != Format::Json {
            return Ok(());
        }

        let body = self.fill([
            Text("api"),
            Number(100),
            Number(0),
            Number(60),
            Number(60),
            Number(429),
            Text("Limit \"api\" exceeded; retry in 60 seconds."),
        ]);
        match serde_json::from_str::<IgnoredAny>(&body) {
            Ok(_) => Ok(()),
            Err(error) => Err(DenialTemplateError::NotJson {
                reason: error.to_string(),
            }),
        }
    }
}

impl Format {
    fn new(content_type: &str) -> Self {
        let essence = content_type.split(';').next().unwrap_or_default().trim();
        let essence = essence.to_ascii_lowercase();
        let is = |name: &str| {
            essence == format!("application/{name}") || essence.ends_with(&format!("+{name}"))
        };

        if is("json") {
            Self::Json
        } else if is("xml") || essence == "text/html" || essence == "text/xml" {
            Self::Markup
        } else {
            Self::Text
        }
    }

    fn escape(self, value: &str) -> Cow<'_, str> {
        match self {
            Self::Text => value.into(),
            // Serializing a string never fails. The quotes are those of the template.
            Self::Json => serde_json::to_string(value)
                .unwrap_or_default()
                .strip_prefix('"')
                .and_then(|quoted| quoted.strip_suffix('"'))
                .unwrap_or_default()
                .to_owned()
                .into(),
            Self::Markup => {
                let mut escaped = String::with_capacity(value.len());
                for character in value.chars() {
                    match character {
                        '&' => escaped.push_str("&amp;"),
                        '<' => escaped.push_str("&lt;"),
                        '>' => escaped.push_str("&gt;"),
                        '"' => escaped.push_str("&quot;"),
                        '\'' => escaped.push_str("&#39;"),
                        other => escaped.push(other),
                    }
                }
                escaped.into()
            }
        }
    }
}

impl FieldValue<'_> {
    fn write(self, format: Format, body: &mut String) {
        match self {
            Text(text) => body.push_str(&format.escape(text)),
            Number(number) => body.push_str(itoa::Buffer::new().format(number)),
            Self::Absent if format == Format::Json => body.push_str("null"),
            Self::Absent => {}
        }
    }
}

/// A media type with its parameters, as the value of a header field.
fn parse_content_type(text: &str) -> Result<HeaderValue, DenialTemplateError> {
    let is_token = |part: &str| {
        let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$&^_.+-".contains(&byte);
        !part.is_empty() && part.bytes().all(is_valid)
    };
    let essence = text.split(';').next().unwrap_or_default().trim_end();
    let is_valid = text.len() <= CONTENT_TYPE_MAX
        && essence
            .split_once('/')
            .is_some_and(|(kind, subtype)| is_token(kind) && is_token(subtype));

    HeaderValue::from_str(text)
        .ok()
        .filter(|value| is_valid && value.to_str().is_ok())
        .ok_or(DenialTemplateError::ContentType)
}

/// Splits a template into text and fields.
fn parse_body(body: &str) -> Result<Vec<DenialPart>, DenialTemplateError> {
    let mut parts = Vec::new();
    let (mut text, mut rest) = (String::new(), body);

    while let Some((before, after)) = rest.split_once('{') {
        text.push_str(before);
        let length = after
            .bytes()
            .take_while(|byte| byte.is_ascii_lowercase() || *byte == b'_')
            .count();
        let (name, after_name) = after.split_at(length);

        match after_name.strip_prefix('}') {
            Some(after_field) if !name.is_empty() => {
                let field = FIELDS.iter().position(|known| *known == name);
                let Some(field) = field else {
                    let name = name.to_owned();
                    return Err(DenialTemplateError::UnknownField { name });
                };
                parts.push(DenialPart::Text(std::mem::take(&mut text).into()));
                parts.push(DenialPart::Field(field));
                rest = after_field;
            }
            _ => {
                text.push('{');
                rest = after;
            }
        }
    }

    text.push_str(rest);
    parts.push(DenialPart::Text(text.into()));
    Ok(parts)
}
