//! Bodies of requests: read whole within bounds, then taken apart without copying.

use std::borrow::Cow;
use std::fmt;
use std::future::poll_fn;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::Request;
use hyper::body::{Body as _, Incoming};
use hyper::header::CONTENT_TYPE;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use smallvec::SmallVec;
use tollgate_rules::{Attribute, AttributeKind, Attributes, Value};

use super::error::ApiError;

/// The most attributes of a request.
pub(crate) const ATTRIBUTES_MAX: usize = 64;

/// How much of a body, and how long.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) bytes_max: usize,
    pub(super) timeout: Duration,
}

/// The whole body.
pub(super) async fn read(
    request: &mut Request<Incoming>,
    bounds: Bounds,
) -> Result<Bytes, ApiError> {
    expect_json(request)?;
    let body = request.body_mut();
    if body.size_hint().lower() > bounds.bytes_max as u64 {
        return Err(ApiError::too_large(bounds.bytes_max));
    }
    let first = first_frame(body, bounds).await?;
    let first = data(first)?.unwrap_or_default();
    if first.len() > bounds.bytes_max {
        return Err(ApiError::too_large(bounds.bytes_max));
    }
    if body.is_end_stream() {
        return Ok(first);
    }
    Box::pin(in_time(bounds, rest(body, first, bounds.bytes_max))).await?
}

/// Most bodies come with their head, and are there when one looks again; no timer is set for those.
/// Where nothing comes, the connection is looked at every so often, and this with it.
async fn first_frame(body: &mut Incoming, bounds: Bounds) -> Result<Frame, ApiError> {
    let mut has_looked = false;
    let early = poll_fn(|context| match Pin::new(&mut *body).poll_frame(context) {
        Poll::Ready(frame) => Poll::Ready(Some(frame)),
        Poll::Pending if has_looked => Poll::Ready(None),
        Poll::Pending => {
            has_looked = true;
            Poll::Pending
        }
    });
    match early.await {
        Some(frame) => Ok(frame),
        None => Box::pin(in_time(bounds, body.frame())).await,
    }
}

async fn rest(body: &mut Incoming, first: Bytes, bytes_max: usize) -> Result<Bytes, ApiError> {
    let mut whole = BytesMut::from(first);
    while let Some(frame) = body.frame().await {
        whole.extend_from_slice(&data(Some(frame))?.unwrap_or_default());
        if whole.len() > bytes_max {
            return Err(ApiError::too_large(bytes_max));
        }
    }
    Ok(whole.freeze())
}

type Frame = Option<Result<hyper::body::Frame<Bytes>, hyper::Error>>;

fn data(frame: Frame) -> Result<Option<Bytes>, ApiError> {
    match frame {
        None => Ok(None),
        Some(Ok(frame)) => Ok(frame.into_data().ok()),
        Some(Err(_)) => Err(ApiError::broken_off()),
    }
}

async fn in_time<T>(bounds: Bounds, coming: impl Future<Output = T>) -> Result<T, ApiError> {
    let in_time = tokio::time::timeout(bounds.timeout, coming).await;
    in_time.map_err(|_| ApiError::too_slow(bounds.timeout.as_secs_f64()))
}

fn expect_json(request: &Request<Incoming>) -> Result<(), ApiError> {
    let Some(found) = request.headers().get(CONTENT_TYPE) else {
        return Ok(());
    };
    // What nearly everyone says, and what need not be taken apart.
    if found == "application/json" {
        return Ok(());
    }
    let found = found.to_str().unwrap_or("not text");
    let kind = found.split(';').next().unwrap_or_default().trim();
    let is_json = kind.eq_ignore_ascii_case("application/json")
        || kind
            .split_once('/')
            .is_some_and(|(_, kind)| kind.to_ascii_lowercase().ends_with("+json"));
    // What `curl -d` says when nobody tells it otherwise.
    let is_curls = kind.eq_ignore_ascii_case("application/x-www-form-urlencoded");
    if is_json || is_curls {
        Ok(())
    } else {
        Err(ApiError::media_type(found))
    }
}

/// What a body says. It must be an object: a struct would else be read from a list too, by
/// position.
pub(super) fn decode<'b, T: Deserialize<'b>>(bytes: &'b [u8]) -> Result<T, ApiError> {
    let Object(body) = serde_json::from_slice(bytes).map_err(|error| ApiError::json(&error))?;
    Ok(body)
}

struct Object<T>(T);

struct ObjectVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
    type Value = Object<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<Object<T>, M::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Object)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(ObjectVisitor(PhantomData))
    }
}

/// What `/v1/check`, `/v1/peek` and `/v1/refund` take.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CheckBody<'b> {
    #[serde(borrow, default)]
    pub(super) attributes: NamedAttributes<'b>,
    #[serde(borrow, default)]
    pub(super) limits: Option<Vec<Text<'b>>>,
    #[serde(default)]
    pub(super) cost: Option<u64>,
}

/// What `/v1/release` takes.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReleaseBody<'b> {
    #[serde(borrow)]
    pub(super) permit: Text<'b>,
}

/// A text, borrowed from the body where it can be.
#[derive(Debug, Default)]
pub(super) struct Text<'b>(pub(super) Cow<'b, str>);

struct TextVisitor;

impl<'b> Visitor<'b> for TextVisitor {
    type Value = Text<'b>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_borrowed_str<E>(self, text: &'b str) -> Result<Text<'b>, E> {
        Ok(Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Text<'b>, E> {
        Ok(Text(Cow::Owned(text.to_owned())))
    }
}

impl<'de: 'b, 'b> Deserialize<'de> for Text<'b> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_str(TextVisitor)
    }
}

/// The value of an attribute: a text, or a number or truth value as text.
struct Scalar<'b>(Cow<'b, str>);

struct ScalarVisitor;

impl<'b> Visitor<'b> for ScalarVisitor {
    type Value = Scalar<'b>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string, a whole number or a boolean as the value of an attribute")
    }

    fn visit_borrowed_str<E>(self, text: &'b str) -> Result<Scalar<'b>, E> {
        Ok(Scalar(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Scalar<'b>, E> {
        Ok(Scalar(Cow::Owned(text.to_owned())))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Scalar<'b>, E> {
        Ok(Scalar(number.to_string().into()))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Scalar<'b>, E> {
        Ok(Scalar(number.to_string().into()))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Scalar<'b>, E> {
        Ok(Scalar(if value { "true" } else { "false" }.into()))
    }
}

impl<'de: 'b, 'b> Deserialize<'de> for Scalar<'b> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(ScalarVisitor)
    }
}

/// Attributes by name, as a caller states them.
#[derive(Debug, Default)]
pub(crate) struct NamedAttributes<'b>(pub(crate) SmallVec<[(Cow<'b, str>, Cow<'b, str>); 4]>);

struct NamedAttributesVisitor<'b>(PhantomData<&'b str>);

impl<'de: 'b, 'b> Visitor<'de> for NamedAttributesVisitor<'b> {
    type Value = NamedAttributes<'b>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of attributes")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<NamedAttributes<'b>, M::Error> {
        let mut named = NamedAttributes::default();
        while let Some((Text(name), Scalar(value))) = map.next_entry::<Text<'b>, Scalar<'b>>()? {
            if named.0.len() == ATTRIBUTES_MAX {
                return Err(M::Error::custom(format_args!(
                    "more than {ATTRIBUTES_MAX} attributes"
                )));
            }
            if named
                .0
                .iter()
                .any(|(other, _)| is_same_attribute(other, &name))
            {
                let name: String = name.chars().take(80).collect();
                return Err(M::Error::custom(format_args!(
                    "the attribute {name:?} stands twice"
                )));
            }
            named.0.push((name, value));
        }
        Ok(named)
    }
}

impl<'de: 'b, 'b> Deserialize<'de> for NamedAttributes<'b> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(NamedAttributesVisitor(PhantomData))
    }
}

/// Whether two names are of the same attribute. Those of headers are the same in capitals.
pub(crate) fn is_same_attribute(one: &str, other: &str) -> bool {
    const HEADER: &str = "header:";
    one == other
        || (one.starts_with(HEADER) && other.starts_with(HEADER) && one.eq_ignore_ascii_case(other))
}

impl Attributes for NamedAttributes<'_> {
    fn get(&self, attribute: &Attribute) -> Option<Value<'_>> {
        let is_it = |name: &str| match attribute.kind() {
            AttributeKind::Header => is_same_attribute(name, attribute.name()),
            _ => name == attribute.name(),
        };
        self.0
            .iter()
            .find(|(name, _)| is_it(name))
            .map(|(_, value)| Value::Text(Cow::Borrowed(value)))
    }
}
