//! The line that shows the progress of a replay.

use tollgate::Micros;
use tollgate_simulate::SimulationProgress;

use super::super::numbers::grouped;

/// The width of the bar in characters.
const WIDTH: u64 = 24;

/// For example `replaying  [######------------------]  25%  3,000,000 lines, 1,500,000/s`. `size` is
/// that of the input in bytes, if it is known.
pub(super) fn text(
    activity: &str,
    progress: SimulationProgress,
    lines_before: u64,
    size: Option<u64>,
    elapsed: Micros,
) -> String {
    let lines = progress.lines.saturating_sub(lines_before);
    let rate = u128::from(lines) * 1_000_000 / u128::from(elapsed.get().max(1));
    let rate = grouped(u64::try_from(rate).unwrap_or(u64::MAX));
    let counts = format!("{} lines, {rate}/s", grouped(progress.lines));

    let Some(size) = size.filter(|size| *size > 0) else {
        let megabytes = grouped(progress.bytes_read / 1_000_000);
        return format!("{activity}  {megabytes} MB  {counts}");
    };
    let part = |whole: u64| progress.bytes_read.min(size) * whole / size;
    let bar: String = (0..WIDTH)
        .map(|at| if at < part(WIDTH) { '#' } else { '-' })
        .collect();
    format!("{activity}  [{bar}] {:>3}%  {counts}", part(100))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_has_progress_and_rate() {
        let progress = SimulationProgress {
            bytes_read: 50,
            lines: 3_000_000,
        };
        let second = Micros::from_secs(2);
        assert_eq!(
            text("replaying", progress, 0, Some(200), second),
            "replaying  [######------------------]  25%  3,000,000 lines, 1,500,000/s"
        );
        let pipe = SimulationProgress {
            bytes_read: 12_345_678,
            lines: 10,
        };
        assert_eq!(
            text("replaying", pipe, 0, None, second),
            "replaying  12 MB  10 lines, 5/s"
        );
        // A file that grows while it is read.
        assert!(
            text(
                "x",
                SimulationProgress {
                    bytes_read: 300,
                    lines: 1
                },
                0,
                Some(200),
                Micros::ZERO
            )
            .contains("100%")
        );
    }
}
