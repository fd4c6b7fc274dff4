use super::*;

type Opened = (Arc<ConnectionState>, ConnectionRoom);

fn open(table: &ConnectionTable) -> Opened {
    table.insert().expect("there is room")
}

fn open_regular(table: &ConnectionTable, count: usize) -> Vec<Arc<ConnectionState>> {
    let state = |_| match open(table) {
        (state, ConnectionRoom::Regular) => state,
        (_, ConnectionRoom::Reserved) => panic!("no room"),
    };
    (0..count).map(state).collect()
}

/// A request from its start to its end.
fn request(table: &ConnectionTable, state: &ConnectionState) {
    start(state);
    state.progress.lock().end_request(table.tick());
}

fn start(state: &ConnectionState) {
    state.progress.lock().start_request();
}

/// Whether the connection was asked to end.
fn is_evicted(table: &ConnectionTable, state: &ConnectionState) -> bool {
    !table.entries.lock().by_idle.contains_key(&state.key())
}

fn evicted(table: &ConnectionTable, states: &[Arc<ConnectionState>]) -> Vec<usize> {
    (0..states.len())
        .filter(|index| is_evicted(table, &states[*index]))
        .collect()
}

#[test]
fn the_longest_idle_connection_is_evicted() {
    let table = ConnectionTable::new(3);
    let states = open_regular(&table, 3);
    for index in [1, 2, 0] {
        request(&table, &states[index]);
    }

    for expected in [vec![1], vec![1, 2], vec![0, 1, 2]] {
        assert_eq!(open(&table).1, ConnectionRoom::Regular);
        assert_eq!(evicted(&table, &states), expected);
    }
    assert_eq!((table.evicted(), table.open()), (3, 6));

    states.iter().for_each(|state| table.remove(state));
    assert_eq!(table.open(), 3);
}

#[test]
fn a_connection_that_was_never_used_is_idle_since_it_was_opened() {
    let table = ConnectionTable::new(2);
    let states = open_regular(&table, 2);
    request(&table, &states[0]);
    open(&table);
    assert_eq!(evicted(&table, &states), [1]);
}

#[test]
fn requests_in_flight_are_not_evicted() {
    let table = ConnectionTable::new(2);
    let states = open_regular(&table, 2);
    start(&states[0]);
    assert_eq!(open(&table).1, ConnectionRoom::Regular);
    assert_eq!(evicted(&table, &states), [1]);

    // Once its answer is known, a request may be cut short.
    states[0].progress.lock().discarding += 1;
    open_regular(&table, 2);
    assert_eq!(evicted(&table, &states), [0, 1]);
}

#[test]
fn a_request_that_arrives_in_time_stops_the_eviction() {
    let table = ConnectionTable::new(1);
    let states = open_regular(&table, 1);
    open(&table);
    assert_eq!(evicted(&table, &states), [0]);
    assert!(table.confirm_eviction(&states[0]));

    start(&states[0]);
    assert!(!table.confirm_eviction(&states[0]));
    assert!(evicted(&table, &states).is_empty());
    table.remove(&states[0]);
    assert_eq!(table.open(), 1);
}

#[test]
fn the_reserve_is_bounded_and_becomes_regular_when_there_is_room() {
    let table = ConnectionTable::new(1);
    let first = open_regular(&table, 1);
    start(&first[0]);
    let reserved: Vec<_> = (0..RESERVE)
        .map(|_| {
            let (state, room) = open(&table);
            assert_eq!(room, ConnectionRoom::Reserved);
            start(&state);
            state
        })
        .collect();
    assert!(table.insert().is_none());
    assert!(!table.has_room());

    first.iter().for_each(|state| table.remove(state));
    reserved[1..].iter().for_each(|state| table.remove(state));
    assert!(table.has_room());
}

#[test]
fn an_idle_connection_is_found_among_many_that_are_in_use() {
    let table = ConnectionTable::new(1_000);
    let states = open_regular(&table, 1_000);
    let idle = &states[700];
    for state in &states {
        start(state);
    }
    idle.progress.lock().end_request(table.tick());

    // The tick of each connection keeps its entry up to date, so the first entry is the right one.
    states.iter().for_each(|state| table.refresh(state));
    let keys = || {
        table
            .entries
            .lock()
            .by_idle
            .keys()
            .copied()
            .collect::<Vec<_>>()
    };
    let before = keys();
    assert_eq!(open(&table).1, ConnectionRoom::Regular);
    assert_eq!(evicted(&table, &states), [700]);
    assert_eq!(before[1..], keys()[..999], "no other entry was moved");
}

#[test]
fn eviction_looks_at_a_bounded_number_of_connections() {
    let table = ConnectionTable::new(10_000);
    let states = open_regular(&table, 10_000);
    states.iter().for_each(|state| start(state));
    assert_eq!(open(&table).1, ConnectionRoom::Reserved);

    let moved = states
        .iter()
        .filter(|state| state.recorded.load(Relaxed) != state.id)
        .count();
    assert_eq!(moved, STEPS_MAX);
}
