//! Scan shapes that a number of frames suggests, for messages.

/// Rows and columns of scans are no further apart.
const LARGEST_RATIO: u64 = 8;
/// More are not listed.
const MOST: usize = 3;
/// Of more frames, no factors are looked for.
const MOST_FRAMES: u64 = 1 << 40;

/// Scan shapes of exactly so many frames, squares first, as the option that takes them:
/// `nav_shape=(256, 256), (128, 512) or (65536,)`.
pub fn suggested_scans(n_frames: u64) -> String {
    let most_rows = if n_frames <= MOST_FRAMES { n_frames.isqrt() } else { 0 };
    let near = (2..=most_rows)
        .rev()
        .take_while(|rows| n_frames / rows <= rows.saturating_mul(LARGEST_RATIO));
    let fitting = near.filter(|rows| n_frames.is_multiple_of(*rows)).take(MOST);
    let shapes: Vec<String> =
        fitting.map(|rows| format!("({rows}, {})", n_frames / rows)).collect();
    match shapes.is_empty() {
        true => format!("nav_shape=({n_frames},)"),
        false => format!("nav_shape={} or ({n_frames},)", shapes.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scans_are_near_to_squares() {
        for (n_frames, expected) in [
            (65_536, "nav_shape=(256, 256), (128, 512) or (65536,)"),
            // One more in each row, for the way back.
            (65_792, "nav_shape=(256, 257), (128, 514) or (65792,)"),
            (42, "nav_shape=(6, 7), (3, 14) or (42,)"),
            (20, "nav_shape=(4, 5), (2, 10) or (20,)"),
            (7200, "nav_shape=(80, 90), (75, 96), (72, 100) or (7200,)"),
            (65_537, "nav_shape=(65537,)"),
            (1, "nav_shape=(1,)"),
            (0, "nav_shape=(0,)"),
        ] {
            assert_eq!(suggested_scans(n_frames), expected);
        }
        assert_eq!(suggested_scans(u64::MAX), format!("nav_shape=({},)", u64::MAX));
        // In a moment, also where nothing fits.
        assert_eq!(suggested_scans((1 << 40) - 87), "nav_shape=(1099511627689,)");
    }
}
