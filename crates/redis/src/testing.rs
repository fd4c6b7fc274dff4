//! What benchmarks and tests need to ask a server the same question by other means. Not part of the
//! interface.

use tollgate::lease::{LeaseGrant, LeaseRequest};
use tollgate::{Demand, PermitId, StoreError};

use crate::RedisStore;
use crate::script::{Script, TimeSource};
use crate::wire::{Keys, Verb};

/// The script as it is sent, by the server's time.
pub fn script() -> &'static str {
    &Script::batch(TimeSource::Server).source
}

/// The key and the arguments with which the script spends one check, under the usual prefix.
pub fn request(check: &Demand<'_>) -> (Vec<u8>, [Vec<u8>; 2]) {
    let request = Keys::new("tollgate:", false).request(
        Verb::Spend,
        std::slice::from_ref(check),
        PermitId::NONE,
    );
    (request.keys[0].clone(), [vec![1], request.question])
}

/// Takes units of a counter in advance, whatever the process holds of it.
pub async fn take(
    store: &RedisStore,
    check: &Demand<'_>,
    take: &LeaseRequest,
) -> Result<LeaseGrant, StoreError> {
    store.take(check, take).await
}
