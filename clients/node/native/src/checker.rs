//! `tryCheck` as a bare function of Node. What the macros write around a method of a class
//! (unwrapping `this`, copying the key to the heap, borrowing an array) costs more than the decision.

use std::cell::RefCell;
use std::ffi::{CStr, c_void};
use std::ptr;
use std::rc::Rc;
use std::sync::Arc;

use napi::bindgen_prelude::{Error, Result, ToNapiValue};
use napi::{Status, sys};
use tollgate::KEY_MAX;
use tollgate_embedded::{DirectDemands, Embedded, LimitId};

use crate::numbers::{DEMANDS_MAX, NUMBERS, UNDECIDED, units, write_decision};

/// None after the engine was closed. Only the thread of Node that opened it uses it.
pub(crate) type SharedEngine = Rc<RefCell<Option<Arc<Embedded>>>>;

/// For the longest key, one more character and the zero that Node writes behind it.
const KEY_BUFFER: usize = KEY_MAX + 5;

/// The arguments of each demand: a limit, a key and a cost.
const DEMAND_ARGUMENTS: usize = 3;

/// Becomes a function `(limit, key, cost, ..) => code` of up to `DEMANDS_MAX` demands, with a
/// property `numbers`: the array into which each call writes its decision.
pub struct Checker(pub(crate) SharedEngine);

/// What the function owns.
struct CheckerState {
    engine: SharedEngine,
    /// Reused by all calls.
    key: RefCell<[u8; KEY_BUFFER]>,
    /// The content of the array, which lives as long as the function.
    numbers: *mut [f64; NUMBERS],
}

impl ToNapiValue for Checker {
    #[expect(unsafe_code, reason = "the C interface of Node")]
    unsafe fn to_napi_value(env: sys::napi_env, Self(engine): Self) -> Result<sys::napi_value> {
        // SAFETY: `env` is that of the current call. Node owns the content of the array, and never
        // moves it; the package never detaches it. The property keeps the array as long as the
        // function, and the finalizer is the only other owner of the state.
        unsafe {
            let (array, numbers) = create_array(env)?;
            let state = CheckerState {
                engine,
                key: RefCell::new([0; KEY_BUFFER]),
                numbers,
            };
            let state = Box::into_raw(Box::new(state)).cast();
            create_function(env, state, array)
        }
    }
}

/// An array, and its content.
#[expect(unsafe_code, reason = "the C interface of Node")]
unsafe fn create_array(env: sys::napi_env) -> Result<(sys::napi_value, *mut [f64; NUMBERS])> {
    let bytes = NUMBERS * size_of::<f64>();
    let kind = sys::TypedarrayType::float64_array;
    let mut content = ptr::null_mut();
    let (mut buffer, mut array) = (ptr::null_mut(), ptr::null_mut());

    // SAFETY: `env` is that of the current call, and the results are local variables.
    unsafe {
        let status = sys::napi_create_arraybuffer(env, bytes, &raw mut content, &raw mut buffer);
        check(status)?;
        let status = sys::napi_create_typedarray(env, kind, NUMBERS, buffer, 0, &raw mut array);
        check(status)?;
    }
    Ok((array, content.cast()))
}

/// The function, which owns the state.
#[expect(unsafe_code, reason = "the C interface of Node")]
unsafe fn create_function(
    env: sys::napi_env,
    state: *mut c_void,
    array: sys::napi_value,
) -> Result<sys::napi_value> {
    let name: &CStr = c"tryCheck";
    let length = isize::try_from(name.count_bytes()).unwrap_or(-1);
    let property = sys::napi_property_descriptor {
        utf8name: c"numbers".as_ptr(),
        name: ptr::null_mut(),
        method: None,
        getter: None,
        setter: None,
        value: array,
        // Neither writable nor configurable.
        attributes: sys::PropertyAttributes::default,
        data: ptr::null_mut(),
    };
    let mut function = ptr::null_mut();
    let (hint, reference) = (ptr::null_mut(), ptr::null_mut());

    // SAFETY: `env` is that of the current call, and `state` is a boxed `CheckerState`.
    unsafe {
        let callback = Some(try_check as _);
        let status = sys::napi_create_function(
            env,
            name.as_ptr(),
            length,
            callback,
            state,
            &raw mut function,
        );
        check(status)?;
        let free = Some(free_state as _);
        let status = sys::napi_add_finalizer(env, function, state, free, hint, reference);
        check(status)?;
        check(sys::napi_define_properties(
            env,
            function,
            1,
            &raw const property,
        ))?;
    }
    Ok(function)
}

/// What Node calls. Invalid arguments are undecided: the operation reports the error.
#[expect(unsafe_code, reason = "the C interface of Node")]
unsafe extern "C" fn try_check(
    env: sys::napi_env,
    info: sys::napi_callback_info,
) -> sys::napi_value {
    let mut result = ptr::null_mut();
    // SAFETY: Node passes a valid `env` and `info`; a failure leaves `undefined` as the result.
    unsafe {
        let code = decide(env, info).unwrap_or(UNDECIDED);
        sys::napi_create_uint32(env, code, &raw mut result);
    }
    result
}

/// Reads the arguments, decides and writes the numbers.
#[expect(unsafe_code, reason = "the C interface of Node")]
unsafe fn decide(env: sys::napi_env, info: sys::napi_callback_info) -> Option<u32> {
    let mut values = [ptr::null_mut(); DEMAND_ARGUMENTS];
    // SAFETY: `env` and `info` are those of the current call. `data` is the state of the function,
    // which lives at least until it returns.
    unsafe {
        let (count, data) = arguments(env, info, &mut values)?;
        let state = &*data.cast::<CheckerState>();
        if count > values.len() {
            return decide_many(env, info, state);
        }
        decide_values(env, state, &values)
    }
}

/// The same for several demands. A function of its own, because its array takes time to fill.
#[cold]
#[expect(unsafe_code, reason = "the C interface of Node")]
unsafe fn decide_many(
    env: sys::napi_env,
    info: sys::napi_callback_info,
    state: &CheckerState,
) -> Option<u32> {
    let mut values = [ptr::null_mut(); DEMANDS_MAX * DEMAND_ARGUMENTS];
    // SAFETY: `env` and `info` are those of the current call.
    unsafe {
        let (count, _) = arguments(env, info, &mut values)?;
        decide_values(env, state, values.get(..count)?)
    }
}

/// Decides about the demands that these arguments are.
#[expect(unsafe_code, reason = "the C interface of Node")]
unsafe fn decide_values(
    env: sys::napi_env,
    state: &CheckerState,
    values: &[sys::napi_value],
) -> Option<u32> {
    let engine = state.engine.try_borrow().ok()?;
    let ask = |demands: &mut DirectDemands<'_>| {
        let mut key = state.key.try_borrow_mut().ok()?;
        let (values, rest) = values.as_chunks();
        for values in values {
            // SAFETY: the values are arguments of the current call.
            let (limit, key, cost) = unsafe { demand(env, *values, &mut key)? };
            demands.add(limit, key, cost)?;
        }
        rest.is_empty().then_some(())
    };
    let code = engine.as_ref()?.try_check(ask, |decision, block| {
        // SAFETY: Node's thread waits for this call, and no other thread knows the array.
        let numbers = unsafe { &mut *state.numbers };
        write_decision(numbers, decision, block)
    });
    code.ok()?
}

/// Reads as many arguments as fit; those that are missing are `undefined`. Returns how many there
/// are, and the data of the function.
#[expect(unsafe_code, reason = "the C interface of Node")]
unsafe fn arguments(
    env: sys::napi_env,
    info: sys::napi_callback_info,
    values: &mut [sys::napi_value],
) -> Option<(usize, *mut c_void)> {
    let mut count = values.len();
    let (mut data, this) = (ptr::null_mut(), ptr::null_mut());

    // SAFETY: `values` has the length that is passed.
    unsafe {
        let values = values.as_mut_ptr();
        let status = sys::napi_get_cb_info(env, info, &raw mut count, values, this, &raw mut data);
        check(status).ok()?;
    }
    Some((count, data))
}

/// Reads a limit, a key and a cost. The key is in the buffer.
#[expect(unsafe_code, reason = "the C interface of Node")]
unsafe fn demand(
    env: sys::napi_env,
    [limit_value, key_value, cost_value]: [sys::napi_value; DEMAND_ARGUMENTS],
    key: &mut [u8; KEY_BUFFER],
) -> Option<(LimitId, &str, Option<u64>)> {
    let (mut limit, mut cost, mut length) = (0, 0.0, 0);

    // SAFETY: the conversions reject other types, and the buffer has the length that is passed.
    unsafe {
        let buffer = key.as_mut_ptr().cast();
        check(sys::napi_get_value_uint32(env, limit_value, &raw mut limit)).ok()?;
        check(sys::napi_get_value_double(env, cost_value, &raw mut cost)).ok()?;
        let status =
            sys::napi_get_value_string_utf8(env, key_value, buffer, KEY_BUFFER, &raw mut length);
        check(status).ok()?;
    }

    // Node leaves out a character that does not fit as a whole, so the key is too long before that.
    let key = key.get(..length).filter(|key| key.len() <= KEY_MAX)?;
    let key = std::str::from_utf8(key).ok()?;
    Some((LimitId(limit), key, units(cost)?))
}

/// What Node calls when it frees the function.
#[expect(unsafe_code, reason = "the C interface of Node")]
unsafe extern "C" fn free_state(_: sys::napi_env, state: *mut c_void, _: *mut c_void) {
    // SAFETY: `create_function` passed a boxed state, and Node calls this once.
    drop(unsafe { Box::from_raw(state.cast::<CheckerState>()) });
}

fn check(status: sys::napi_status) -> Result<()> {
    if status == sys::Status::napi_ok {
        return Ok(());
    }
    Err(Error::from_status(Status::from(status)))
}
