//! The plain definition of every answer, from whole frames in memory.

use framefold_view::{Shape, Sign, Signed};

/// A frame of each position; none where there are no data. Pixels as they are, in double precision.
pub struct Data {
    pub rows: usize,
    pub columns: usize,
    pub frames: Vec<Option<Vec<f64>>>,
}

/// Whether the middle of a cell lies in a shape.
pub fn lies_in(shape: &Shape, y: usize, x: usize) -> bool {
    let (y, x) = (y as f64, x as f64);
    let distance = |cy: f64, cx: f64| (x - cx).powi(2) + (y - cy).powi(2);
    let ring = |cy: f64, cx: f64, ri: f64, ro: f64| {
        distance(cy, cx) <= ro * ro && distance(cy, cx) > ri * ri
    };
    match shape {
        Shape::Point { y: py, x: px } => (py + 0.5).floor() == y && (px + 0.5).floor() == x,
        Shape::Disk { cy, cx, r } => distance(*cy, *cx) <= r * r,
        Shape::Ring { cy, cx, ri, ro } => ring(*cy, *cx, *ri, *ro),
        Shape::Wedge { cy, cx, ri, ro, from, to } => {
            let angle = (y - cy).atan2(x - cx).to_degrees();
            // All turns of the pixel's angle that may lie between the two.
            let within = (-4..5).any(|turn| {
                let angle = angle + 360.0 * f64::from(turn);
                let mut to = *to;
                while to < *from {
                    to += 360.0;
                }
                *from <= angle && angle < to
            });
            ring(*cy, *cx, *ri, *ro) && within
        }
        Shape::Rectangle { y0, x0, y1, x1 } => {
            let within = |a: f64, b: f64, at: f64| a.min(b).trunc() <= at && at <= a.max(b).trunc();
            within(*y0, *y1, y) && within(*x0, *x1, x)
        }
        Shape::Polygon { points } => {
            let mut inside = false;
            for i in 0..points.len() {
                let ([ya, xa], [yb, xb]) = (points[i], points[(i + 1) % points.len()]);
                if (ya > y) != (yb > y) && x < (xb - xa) * (y - ya) / (yb - ya) + xa {
                    inside = !inside;
                }
            }
            inside
        }
        Shape::Lattice { cy, cx, a, b, r, order } => {
            let order = *order as i32;
            (-order..=order).any(|i| {
                (-order..=order).any(|j| {
                    let (i, j) = (f64::from(i), f64::from(j));
                    distance(cy + i * a[0] + j * b[0], cx + i * a[1] + j * b[1]) <= r * r
                })
            })
        }
        Shape::Array { .. } => unreachable!("weights are given"),
    }
}

/// The weight of each cell; `arrays` by number.
pub fn weights(
    shapes: &[Signed],
    rows: usize,
    columns: usize,
    arrays: &[(u64, Vec<f32>)],
) -> Vec<f64> {
    let mut weights = vec![if shapes.is_empty() { 1.0 } else { 0.0 }; rows * columns];
    for Signed { shape, sign } in shapes {
        let sign = if *sign == Sign::Plus { 1.0 } else { -1.0 };
        for (cell, weight) in weights.iter_mut().enumerate() {
            *weight += sign
                * match shape {
                    Shape::Array { id } => {
                        let mut known = arrays.iter().filter(|(number, _)| number == id);
                        f64::from(known.next().unwrap().1[cell])
                    }
                    shape => f64::from(u8::from(lies_in(shape, cell / columns, cell % columns))),
                };
        }
    }
    weights
}

/// Sum, and sums of rows and columns, of the weighted pixels.
pub fn moments(frame: &[f64], weights: &[f64], columns: usize) -> [f64; 3] {
    let mut moments = [0.0; 3];
    for (cell, (&pixel, &weight)) in frame.iter().zip(weights).enumerate() {
        if weight != 0.0 {
            moments[0] += pixel * weight;
            moments[1] += pixel * weight * (cell / columns) as f64;
            moments[2] += pixel * weight * (cell % columns) as f64;
        }
    }
    moments
}

fn counted<'a>(frame: &'a [f64], weights: &'a [f64]) -> impl Iterator<Item = f64> + Clone + 'a {
    frame.iter().zip(weights).filter(|(_, weight)| **weight != 0.0).map(|(pixel, _)| *pixel)
}

pub fn spread(frame: &[f64], weights: &[f64]) -> f64 {
    let pixels = counted(frame, weights);
    let n = pixels.clone().count() as f64;
    let mean = pixels.clone().sum::<f64>() / n;
    (pixels.map(|pixel| (pixel - mean).powi(2)).sum::<f64>() / n).sqrt()
}

pub fn largest(frame: &[f64], weights: &[f64]) -> f64 {
    counted(frame, weights).fold(f64::NEG_INFINITY, |a, b| if a.is_nan() || b <= a { a } else { b })
}

/// A pattern of the frames at these positions: sum, mean, standard deviation and maximum of a pixel.
pub fn statistics(data: &Data, positions: &[usize], pixel: usize) -> [f64; 4] {
    let values: Vec<f64> =
        positions.iter().filter_map(|&p| data.frames[p].as_ref()).map(|f| f[pixel]).collect();
    let n = values.len() as f64;
    if values.is_empty() {
        return [f64::NAN; 4];
    }
    let sum: f64 = values.iter().sum();
    let mean = sum / n;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / n;
    [sum, mean, variance.sqrt(), values.iter().copied().fold(f64::NEG_INFINITY, f64::max)]
}

/// `numpy.gradient` along one axis.
pub fn gradient(values: &[f64], columns: usize, along_rows: bool) -> Vec<f64> {
    let rows = values.len() / columns;
    let at = |y: usize, x: usize| values[y * columns + x];
    let mut result = Vec::new();
    for y in 0..rows {
        for x in 0..columns {
            let (i, n) = if along_rows { (y, rows) } else { (x, columns) };
            let value = |i: usize| if along_rows { at(i, x) } else { at(y, i) };
            result.push(match i {
                _ if n < 2 => f64::NAN,
                0 => value(1) - value(0),
                i if i == n - 1 => value(i) - value(i - 1),
                i => (value(i + 1) - value(i - 1)) / 2.0,
            });
        }
    }
    result
}
