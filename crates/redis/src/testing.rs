//! Access to the script and its arguments for benchmarks and tests, which send the same calls by
//! other means. Not part of the public interface.

use tollgate::store::lease::{LeaseGrant, LeaseRequest};
use tollgate::{Demand, PermitId, StoreError};

use crate::RedisStore;
use crate::script::SERVER_TIME;
use crate::wire::{CallEncoder, DemandTerms, Operation};

/// The source of the script as it is sent to servers. It uses the server's clock.
pub fn script() -> &'static str {
    &SERVER_TIME.batch.source
}

/// The key and the arguments with which the script spends one demand, with the default key prefix.
pub fn script_arguments(demand: &Demand<'_>) -> (Vec<u8>, [Vec<u8>; 2]) {
    let encoder = CallEncoder {
        prefix: "tollgate:".into(),
        is_cluster: false,
    };
    let demands = std::slice::from_ref(demand);
    let call = encoder.call(Operation::Spend, demands, PermitId::NONE);
    (call.keys[0].clone(), [vec![0, 1], call.arguments])
}

/// Sends one lease call, regardless of what the instance holds of the counter.
pub async fn call_lease(
    store: &RedisStore,
    demand: &Demand<'_>,
    request: &LeaseRequest,
) -> Result<LeaseGrant, StoreError> {
    let call = store.router().encoder.lease(demand, request);
    let reply = store.router().spawn(call).await?;
    Ok(reply.lease_grant(&DemandTerms::new(demand))?)
}
