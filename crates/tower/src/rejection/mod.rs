//! Rejections: the response to a request that is not admitted, for HTTP and gRPC.

mod cause;
mod grpc;
mod response;

pub use self::cause::RejectionCause;
pub use self::response::Rejection;
pub(crate) use self::response::RejectionHandler;
