//! Shapes that a scan may have whose file only says how many frames there are.

/// More are not suggested.
const MOST: usize = 8;
/// Of more frames, no factors are looked for.
const MOST_FRAMES: u64 = 1 << 36;
/// Rows and columns are no further apart.
const LARGEST_RATIO: u64 = 16;
/// What part of the frames may be too many or too few: the scan began late, or was stopped.
const MISFIT: f64 = 0.01;
/// After a row, the beam may take so many frames to fly back.
const FLYBACK: u64 = 4;

/// Rows and columns for so many frames, the likeliest first: nearly square, of numbers that people choose, with
/// a few columns more for the way back, and with all frames, or nearly all.
pub(crate) fn suggested(n_frames: u64) -> Vec<[usize; 2]> {
    if !(4..=MOST_FRAMES).contains(&n_frames) {
        return Vec::new();
    }
    let least = (n_frames / LARGEST_RATIO).isqrt().max(1);
    let most = n_frames.saturating_mul(LARGEST_RATIO).isqrt();
    let mut found: Vec<(f64, u64, u64)> = Vec::new();
    for rows in least..=most {
        let columns = n_frames / rows;
        if n_frames.is_multiple_of(rows) {
            found.push((cost(rows, columns, 0.0), rows, columns));
            continue;
        }
        // Of numbers that do not fit, only those that are usual.
        if roundness(rows) > 1.0 {
            continue;
        }
        for columns in [columns, columns + 1] {
            let misfit = (rows * columns).abs_diff(n_frames) as f64 / n_frames as f64;
            if misfit <= MISFIT && roundness(columns) <= 1.0 {
                found.push((cost(rows, columns, misfit), rows, columns));
            }
        }
    }
    found.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let shapes = found.into_iter().take(MOST);
    shapes.filter_map(|(_, y, x)| Some([y.try_into().ok()?, x.try_into().ok()?])).collect()
}

/// How unlikely a scan of this shape is.
fn cost(rows: u64, columns: u64, misfit: f64) -> f64 {
    if rows == columns && misfit == 0.0 {
        // A square by chance is rare.
        return 0.2 * roundness(rows);
    }
    let apart = (columns as f64 / rows as f64).log2().abs();
    let flown_back = (1..=FLYBACK.min(columns - 1)).map(|more| roundness(columns - more) + 0.5);
    let across = flown_back.fold(roundness(columns), f64::min);
    let misfit = if misfit > 0.0 { 2.0 + 100.0 * misfit } else { 0.0 };
    // With columns for the way back, the rest is as often square.
    apart.min((apart - 0.03).abs()) + roundness(rows) + across + misfit
}

/// How unusual this number is for an axis of a scan.
fn roundness(number: u64) -> f64 {
    match number {
        n if n.is_power_of_two() => 0.0,
        n if n.is_multiple_of(100) || n.is_multiple_of(64) => 0.5,
        n if n.is_multiple_of(10) || n.is_multiple_of(16) => 1.0,
        n if n.is_multiple_of(5) || n.is_multiple_of(8) => 2.0,
        _ => 3.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_likeliest_come_first() {
        for (n_frames, first) in [
            (65_536, [256, 256]),
            // A column for the way back, or two.
            (256 * 257, [256, 257]),
            (128 * 130, [128, 130]),
            (100 * 100, [100, 100]),
            (512 * 256, [256, 512]),
            (80 * 90, [80, 90]),
            // A frame too many, or too few.
            (65_537, [256, 256]),
            (65_535, [256, 256]),
            (9_999, [100, 100]),
        ] {
            assert_eq!(suggested(n_frames)[0], first, "{n_frames}: {:?}", suggested(n_frames));
        }
    }

    #[test]
    fn they_nearly_fit() {
        for n_frames in (0..3000).chain([1 << 36, (1 << 36) - 5, u64::MAX]) {
            let shapes = suggested(n_frames);
            assert!(shapes.len() <= MOST);
            for [rows, columns] in shapes {
                let misfit = (rows as u64 * columns as u64).abs_diff(n_frames);
                assert!(misfit as f64 <= MISFIT * n_frames as f64, "{rows} {columns} {n_frames}");
            }
        }
        assert!(suggested(3).is_empty());
    }
}
