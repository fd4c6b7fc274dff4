//! What a server answered once, and what bare servers answer again and again.

use std::io;
use std::path::Path;

use prost::Message as _;
use serde::{Deserialize, Serialize};
use testkit::reverse_proxy::Response;
use tollgate_envoy::{Code, DescriptorStatus, RateLimitResponse};

/// What HTTP servers add by themselves.
const ADDED: [&str; 3] = ["connection", "content-length", "date"];
const CONTENT_TYPE: &str = "content-type";

/// An answer as a bare server is handed it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(super) enum Answer {
    Http {
        status: u16,
        headers: Vec<(String, String)>,
        body: String,
    },
    /// A message of Envoy's protocol, encoded.
    Grpc(Vec<u8>),
}

impl Answer {
    pub(super) fn of_http(response: &Response) -> Self {
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

    pub(super) fn of_grpc(response: &RateLimitResponse) -> Self {
        Self::Grpc(response.encode_to_vec())
    }

    /// The least that answers the question over gRPC.
    pub(super) fn shortest_grpc(code: Code) -> Self {
        let statuses = vec![DescriptorStatus {
            code: code.into(),
            ..Default::default()
        }];
        Self::of_grpc(&RateLimitResponse {
            overall_code: code.into(),
            statuses,
            ..Default::default()
        })
    }

    /// The same answer without what tells a client where it stands: over HTTP no header but that of
    /// the body's kind; over gRPC nothing but the codes.
    pub(super) fn untold(&self) -> io::Result<Self> {
        match self {
            Self::Http {
                status,
                headers,
                body,
            } => {
                let kind = headers.iter().filter(|(name, _)| name == CONTENT_TYPE);
                Ok(Self::Http {
                    status: *status,
                    headers: kind.cloned().collect(),
                    body: body.clone(),
                })
            }
            Self::Grpc(message) => {
                let told =
                    RateLimitResponse::decode(message.as_slice()).map_err(io::Error::other)?;
                Ok(Self::shortest_grpc(told.overall_code()))
            }
        }
    }

    pub(super) fn read(path: &Path) -> io::Result<Self> {
        Ok(serde_json::from_slice(&std::fs::read(path)?)?)
    }

    pub(super) fn to_json(&self) -> String {
        serde_json::to_string(self).expect("texts and numbers can be written")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_server_adds_is_left_to_it() {
        let header = |name: &str| (name.to_owned(), "x".to_owned());
        let names = ["content-type", "ratelimit", "date", "content-length"];
        let response = Response {
            status: 200,
            headers: names.map(header).to_vec(),
            body: b"{}".to_vec(),
        };
        let answer = Answer::of_http(&response);
        let body = || "{}".to_owned();
        let headers = vec![header("content-type"), header("ratelimit")];
        assert_eq!(
            answer,
            Answer::Http {
                status: 200,
                headers,
                body: body()
            }
        );
        let headers = vec![header("content-type")];
        assert_eq!(
            answer.untold().unwrap(),
            Answer::Http {
                status: 200,
                headers,
                body: body()
            }
        );
    }

    #[test]
    fn the_least_over_grpc_keeps_the_code() {
        let told = RateLimitResponse {
            overall_code: Code::OverLimit.into(),
            raw_body: vec![7; 100].into(),
            ..Default::default()
        };
        let untold = Answer::of_grpc(&told).untold().unwrap();
        assert_eq!(untold, Answer::shortest_grpc(Code::OverLimit));
    }

    #[test]
    fn an_answer_is_read_as_it_was_written() {
        let answer = Answer::shortest_grpc(Code::Ok);
        assert_eq!(
            serde_json::from_str::<Answer>(&answer.to_json()).unwrap(),
            answer
        );
    }
}
