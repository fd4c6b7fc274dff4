//! The order in which subjects are measured.

use std::io;

use crate::progress::Progress;

/// Runs `rounds` rounds of every subject in index, so that noise on the machine affects all of them,
/// and returns the results of each subject's rounds. `name` is shown as progress.
pub(crate) fn interleaved<E, R>(
    entrants: &mut [E],
    rounds: usize,
    progress: &Progress,
    name: impl Fn(&E) -> String,
    mut round: impl FnMut(&mut E) -> io::Result<R>,
) -> io::Result<Vec<Vec<R>>> {
    let mut results: Vec<Vec<R>> = entrants
        .iter()
        .map(|_| Vec::with_capacity(rounds))
        .collect();
    for number in 0..rounds {
        for index in order_of_round(number, entrants.len()) {
            progress.round(number, rounds, &name(&entrants[index]));
            results[index].push(round(&mut entrants[index])?);
        }
    }
    Ok(results)
}

/// The order of subjects in a round. Each round begins with another subject, so that no subject
/// always runs after the same one.
pub(crate) fn order_of_round(round: usize, subjects: usize) -> impl Iterator<Item = usize> {
    (0..subjects).map(move |index| (index + round) % subjects)
}

#[cfg(test)]
mod tests {
    use super::order_of_round;

    #[test]
    fn every_subject_runs_once_and_another_one_first() {
        assert_eq!(order_of_round(0, 3).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(order_of_round(4, 3).collect::<Vec<_>>(), [1, 2, 0]);
    }
}
