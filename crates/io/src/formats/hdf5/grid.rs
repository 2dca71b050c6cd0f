//! Positions of a scan, where a file has one for each frame.

use crate::headers::calibration::Calibration;

/// Positions may be so far from the grid, in steps of it.
const TOLERANCE: f64 = 1e-2;

/// The shape of the grid that positions are on, row by row, and its steps.
pub(super) fn grid(positions: &[(f64, f64)]) -> Option<(Vec<usize>, Vec<Calibration>)> {
    let &[(x0, y0), (x1, _), ..] = positions else { return None };
    let dx = x1 - x0;
    let in_row = |&&(_, y): &&(f64, f64)| (y - y0).abs() < TOLERANCE * dx.abs();
    // On a line along y, each position is a row, and the step in x is none.
    let columns = positions.iter().take_while(in_row).count().max(1);
    let dy = positions.get(columns).map_or(0.0, |&(_, y)| y - y0);
    let in_x = if columns > 1 { dx } else { dy }.abs();
    let is_grid = in_x > 0.0
        && positions.len().is_multiple_of(columns)
        && positions.iter().enumerate().all(|(number, &(x, y))| {
            let (row, column) = ((number / columns) as f64, (number % columns) as f64);
            (x - x0 - column * dx).abs() <= TOLERANCE * in_x
                && (y - y0 - row * dy).abs() <= TOLERANCE * dy.abs().max(dx.abs())
        });
    let step = |step, first| Calibration { step, offset: Some(first), unit: "m".to_owned() };
    is_grid.then(|| match (positions.len() / columns, columns) {
        (rows, 1) => (vec![rows], vec![step(dy, y0)]),
        (1, columns) => (vec![columns], vec![step(dx, x0)]),
        (rows, columns) => (vec![rows, columns], vec![step(dy, y0), step(dx, x0)]),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_make_a_grid_or_none() {
        let raster = |rows: usize, columns: usize| -> Vec<(f64, f64)> {
            let all = (0..rows * columns).map(|n| (n / columns, n % columns));
            all.map(|(row, column)| (1e-7 + column as f64 * 2e-9, row as f64 * -3e-9)).collect()
        };
        let shape = |positions: &[_]| grid(positions).map(|(shape, _)| shape);
        assert_eq!(shape(&raster(3, 4)), Some(vec![3, 4]));
        assert_eq!(shape(&raster(1, 4)), Some(vec![4]));
        let steps = |positions: &[_]| -> Vec<f64> {
            let (_, steps) = grid(positions).unwrap();
            steps.into_iter().map(|step| (step.step * 1e12).round()).collect()
        };
        assert_eq!(steps(&raster(3, 4)), [-3000.0, 2000.0]);
        let mut along_y = raster(4, 1);
        assert_eq!((shape(&along_y), steps(&along_y)), (Some(vec![4]), vec![-3000.0]));
        along_y[1].0 += 1e-12;
        assert_eq!(shape(&along_y), Some(vec![4]));
        along_y[1].0 += 1e-9;
        assert_eq!(shape(&along_y), None);
        let mut snake = raster(2, 3);
        snake.swap(3, 5);
        assert_eq!(shape(&snake), None);
        assert_eq!(shape(&raster(3, 4)[..11]), None);
        for useless in [&[][..], &[(0.0, 0.0)], &[(0.0, 0.0); 4], &[(0.0, 0.0), (1.0, 1.0)]] {
            assert_eq!(shape(useless), None, "{useless:?}");
        }
    }
}
