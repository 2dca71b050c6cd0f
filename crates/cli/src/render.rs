//! From numbers to colours: pure functions that turn planes of values into RGBA pixels.
//!
//! Nothing here reads or writes a file, knows a reduction, or asks the terminal anything.
//! Values that are not a number have no colour: their pixels are transparent, with a grey
//! below for viewers that ignore transparency.

mod colormap;
mod direction;
mod legend;
mod line;
mod picture;
mod plane;
mod scale;
mod text;
mod ticks;
mod vector;

pub use colormap::{COLORMAPS, Colormap};
pub use direction::direction_colour;
pub use legend::{bar, wheel};
pub use line::draw_line;
pub use picture::{MISSING, Picture, montage, montage_on};
pub use plane::Plane;
pub use scale::{ROBUST, Scale, ScaleOptions, draw_scalars};
pub use text::text;
pub(crate) use text::{LETTER, LINE};
pub use ticks::{labels, number, round_length, ticks};
pub use vector::{Center, VectorOptions, VectorScale, draw_vectors};
