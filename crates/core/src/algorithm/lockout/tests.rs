use super::*;

const MINUTE: Duration = Duration::from_secs(60);
const START: Micros = Micros::from_secs(1_000_000);

fn lockout(after: u32) -> Lockout {
    let lockout = Lockout::new(after, 10 * MINUTE, 15 * MINUTE).unwrap();
    lockout.with_growth(4, 24 * 60 * MINUTE).unwrap()
}

/// Denies a key until it is locked; returns the state and the length of the lockout.
fn lock(lockout: &Lockout, state: LockoutState, now: Micros) -> (LockoutState, Micros) {
    let mut state = lockout.update(state, now);
    while state.locked_for(now).is_none() {
        state = lockout.count_denial(state, now);
    }
    (state, state.locked_for(now).unwrap())
}

#[test]
fn each_lockout_is_longer_up_to_the_maximum() {
    let (lockout, mut now) = (lockout(3), START);
    let mut state = LockoutState::default();
    for minutes in [15, 60, 240, 960, 1_440, 1_440] {
        let (locked, length) = lock(&lockout, state, now);
        assert_eq!(length, Micros::from_secs(60 * minutes));
        (state, now) = (locked, now.after(length));
    }
    assert_eq!(state.view(now).level, 6);
}

#[test]
fn the_level_is_forgotten_after_the_quiet_time_and_not_earlier() {
    let lockout = lockout(1);
    let (state, length) = lock(&lockout, LockoutState::default(), START);
    let forgotten = START.after(length).after(Micros::from_secs(86_400));

    let earlier = forgotten.since(Micros::new(1));
    assert_eq!(lock(&lockout, state, earlier).1, Micros::from_secs(3_600));
    assert_eq!(lock(&lockout, state, forgotten).1, Micros::from_secs(900));
}

#[test]
fn denials_of_another_window_do_not_count() {
    let lockout = lockout(2);
    let once = lockout.count_denial(LockoutState::default(), START);
    let end = START.after(Micros::from_secs(600));

    let within = lockout.count_denial(once, end.since(Micros::new(1)));
    assert!(within.locked_for(end).is_some());
    let later = lockout.count_denial(lockout.update(once, end), end);
    assert_eq!((later.denials, later.locked_for(end)), (1, None));
}

#[test]
fn a_lockout_is_not_longer_because_the_clock_was_set_back() {
    let lockout = lockout(1);
    let (state, length) = lock(&lockout, LockoutState::default(), START);
    let now = START.since(Micros::from_secs(3_600));
    let corrected = lockout.update(state, now);
    assert_eq!(corrected.locked_for(now), Some(length));

    let slightly = START.since(CLOCK_SLACK);
    assert_eq!(lockout.update(state, slightly), state);
}

#[test]
fn a_mistake_is_named_with_what_would_be_right() {
    let errors = [
        Lockout::new(0, MINUTE, MINUTE).unwrap_err(),
        Lockout::new(1, Duration::ZERO, MINUTE).unwrap_err(),
        lockout(1).with_growth(0, MINUTE).unwrap_err(),
        lockout(1).with_growth(2, MINUTE).unwrap_err(),
    ];
    let texts = errors.map(|error| error.to_string());
    assert_eq!(
        texts,
        [
            "lockout after 0 is out of range; must be between 1 and 1000000",
            "lockout within 0ns is out of range; \
             must be whole microseconds between 1ms and 3653d (ten years)",
            "lockout factor 0 is out of range; must be between 1 and 1000",
            "lockout max 1m is shorter than for 15m; must be at least as long",
        ]
    );
}
