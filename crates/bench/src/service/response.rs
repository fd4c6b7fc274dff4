//! A recorded response, and the constant responses of bare servers.

use std::collections::HashMap;
use std::io;
use std::path::Path;

use prost::Message as _;
use serde::{Deserialize, Serialize};
use testkit::reverse_proxy::Response;
use tollgate_envoy::{Code, DescriptorStatus, RateLimitResponse};

/// Headers that HTTP servers add themselves.
const ADDED: [&str; 3] = ["connection", "content-length", "date"];
const CONTENT_TYPE: &str = "content-type";

/// A response in the form that is passed to a bare server.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(super) enum RecordedResponse {
    Http {
        status: u16,
        headers: HashMap<String, String>,
        body: String,
    },
    /// An encoded message of Envoy's protocol.
    Grpc(Vec<u8>),
}

impl RecordedResponse {
    pub(super) fn from_http(response: &Response) -> Self {
        let headers = response
            .headers
            .iter()
            .filter(|(name, _)| !ADDED.contains(&name.as_str()));
        Self::Http {
            status: response.status,
            headers: headers.cloned().collect(),
            body: response.text(),
        }
    }

    pub(super) fn from_grpc(response: &RateLimitResponse) -> Self {
        Self::Grpc(response.encode_to_vec())
    }

    /// The shortest gRPC response with this code.
    pub(super) fn shortest_grpc(code: Code) -> Self {
        let statuses = vec![DescriptorStatus {
            code: code.into(),
            ..Default::default()
        }];
        Self::from_grpc(&RateLimitResponse {
            overall_code: code.into(),
            statuses,
            ..Default::default()
        })
    }

    /// The same response without rate limit details: over HTTP no header except the content type;
    /// over gRPC only the codes.
    pub(super) fn without_details(&self) -> io::Result<Self> {
        match self {
            Self::Http {
                status,
                headers,
                body,
            } => {
                let mut headers = headers.clone();
                headers.retain(|name, _| name == CONTENT_TYPE);
                Ok(Self::Http {
                    status: *status,
                    headers,
                    body: body.clone(),
                })
            }
            Self::Grpc(message) => {
                let message =
                    RateLimitResponse::decode(message.as_slice()).map_err(io::Error::other)?;
                Ok(Self::shortest_grpc(message.overall_code()))
            }
        }
    }

    pub(super) fn read(path: &Path) -> io::Result<Self> {
        Ok(serde_json::from_slice(&std::fs::read(path)?)?)
    }

    pub(super) fn to_json(&self) -> String {
        serde_json::to_string(self).expect("strings and numbers can be serialised")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_added_by_the_server_are_not_recorded() {
        let header = |name: &str| (name.to_owned(), "x".to_owned());
        let names = ["content-type", "ratelimit", "date", "content-length"];
        let response = Response {
            status: 200,
            headers: names.map(header).to_vec(),
            body: b"{}".to_vec(),
        };
        let response = RecordedResponse::from_http(&response);
        let body = || "{}".to_owned();
        let headers = HashMap::from([header("content-type"), header("ratelimit")]);
        assert_eq!(
            response,
            RecordedResponse::Http {
                status: 200,
                headers,
                body: body()
            }
        );
        let headers = HashMap::from([header("content-type")]);
        assert_eq!(
            response.without_details().unwrap(),
            RecordedResponse::Http {
                status: 200,
                headers,
                body: body()
            }
        );
    }

    #[test]
    fn the_shortest_grpc_response_keeps_the_code() {
        let message = RateLimitResponse {
            overall_code: Code::OverLimit.into(),
            raw_body: vec![7; 100].into(),
            ..Default::default()
        };
        let without_details = RecordedResponse::from_grpc(&message)
            .without_details()
            .unwrap();
        assert_eq!(
            without_details,
            RecordedResponse::shortest_grpc(Code::OverLimit)
        );
    }

    #[test]
    fn a_response_survives_json() {
        let response = RecordedResponse::shortest_grpc(Code::Ok);
        assert_eq!(
            serde_json::from_str::<RecordedResponse>(&response.to_json()).unwrap(),
            response
        );
    }
}
