//! Who is measured when.

/// Each round begins with another subject, so that nobody always comes after the same one.
pub(crate) fn in_turn(round: usize, subjects: usize) -> impl Iterator<Item = usize> {
    (0..subjects).map(move |turn| (turn + round) % subjects)
}

#[cfg(test)]
mod tests {
    use super::in_turn;

    #[test]
    fn every_subject_has_its_turn_and_another_begins() {
        assert_eq!(in_turn(0, 3).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(in_turn(4, 3).collect::<Vec<_>>(), [1, 2, 0]);
    }
}
