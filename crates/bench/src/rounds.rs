//! Who is measured when.

use std::io;

use crate::progress::Progress;

/// So many rounds of every subject in turn, so that whatever else the machine does hits all alike;
/// what each subject's rounds gave. `name` is for whoever watches.
pub(crate) fn interleaved<E, R>(
    entrants: &mut [E],
    rounds: usize,
    progress: &Progress,
    name: impl Fn(&E) -> String,
    mut round: impl FnMut(&mut E) -> io::Result<R>,
) -> io::Result<Vec<Vec<R>>> {
    let mut given: Vec<Vec<R>> = entrants
        .iter()
        .map(|_| Vec::with_capacity(rounds))
        .collect();
    for number in 0..rounds {
        for turn in wait_in_queue(number, entrants.len()) {
            progress.round(number, rounds, &name(&entrants[turn]));
            given[turn].push(round(&mut entrants[turn])?);
        }
    }
    Ok(given)
}

/// Each round begins with another subject, so that nobody always comes after the same one.
pub(crate) fn wait_in_queue(round: usize, subjects: usize) -> impl Iterator<Item = usize> {
    (0..subjects).map(move |turn| (turn + round) % subjects)
}

#[cfg(test)]
mod tests {
    use super::wait_in_queue;

    #[test]
    fn every_subject_has_its_turn_and_another_begins() {
        assert_eq!(wait_in_queue(0, 3).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(wait_in_queue(4, 3).collect::<Vec<_>>(), [1, 2, 0]);
    }
}
