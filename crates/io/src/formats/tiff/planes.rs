//! OME's `TiffData`: which page of a file is which plane.
//!
//! | attribute | what it says | without it |
//! |---|---|---|
//! | `IFD` | the page of the first plane of a block, counted from 0 | 0 |
//! | `FirstZ`, `FirstC`, `FirstT` | where on the axes that plane is | 0 |
//! | `PlaneCount` | how many planes follow, on one page after the other, in `DimensionOrder` | 1 with `IFD`, else all |
//!
//! `UUID` in a block names the file that holds it: this one without it, or where it is that of `OME`.

use crate::headers::calibration::Calibration;
use crate::headers::xml::Element;
use framefold_core::checked_product;
use std::collections::HashSet;

/// The planes of an image, and the pages that hold them.
#[derive(Clone, Debug)]
pub(super) struct Planes {
    /// Slowest first.
    pub(super) axes: Vec<PlaneAxis>,
    /// Or what is wrong with them.
    blocks: Result<Vec<Block>, String>,
    /// In how many files the planes of all images are, as far as that is said.
    pub(super) n_files: usize,
}

/// One of the axes Z, C and T.
#[derive(Clone, Debug)]
pub(super) struct PlaneAxis {
    pub(super) letter: char,
    pub(super) n: usize,
    pub(super) name: &'static str,
    pub(super) step: Option<Calibration>,
}

/// Planes on pages that follow each other.
#[derive(Clone, Debug)]
struct Block {
    page: usize,
    plane: usize,
    /// All others if it is not said.
    count: Option<usize>,
}

impl Planes {
    /// What the elements `Pixels` of all images in a file of such a `UUID` say. Axes are those of the first.
    pub(super) fn read(uuid: Option<&str>, images: &[&Element], axes: Vec<PlaneAxis>) -> Self {
        let mut blocks_of: Vec<Vec<&Element>> = Vec::new();
        for pixels in images {
            let blocks = pixels.children.iter().filter(|child| child.name.ends_with("TiffData"));
            blocks_of.push(blocks.collect());
        }
        let files: HashSet<Option<&str>> = blocks_of
            .iter()
            .flatten()
            .map(|block| block.children.iter().find(|child| child.name.ends_with("UUID")))
            .map(|named| named.filter(|named| uuid.is_none_or(|own| own != named.text().trim())))
            .map(|named| named.map(|named| named.attribute("FileName").unwrap_or(named.text())))
            .collect();
        let n_files = files.len();
        let blocks = match (blocks_of.as_slice(), n_files) {
            // All planes in order.
            ([_], 0) => Ok(vec![Block { page: 0, plane: 0, count: None }]),
            ([blocks], 1) => blocks.iter().map(|block| Block::read(block, &axes)).collect(),
            ([_], n) => Err(format!(
                "its planes are in {n} files, of which this is one; to have all, name them by a pattern"
            )),
            (_, n @ 2..) => Err(format!(
                "it describes {} images in {n} files, of which this is one",
                images.len()
            )),
            (_, _) => Err(format!("it describes {} images", images.len())),
        };
        Planes { axes, blocks, n_files }
    }

    /// The plane of each frame, from the numbers of their pages, which go up.
    ///
    /// # Errors
    /// Why pages and planes are not one to one.
    pub(super) fn places(&self, pages: &[u64]) -> Result<Vec<u64>, String> {
        let blocks = self.blocks.as_ref().map_err(String::clone)?;
        let sizes: Vec<usize> = self.axes.iter().map(|axis| axis.n).collect();
        if checked_product(&sizes) != u64::try_from(pages.len()).ok() {
            let letters: String = self.axes.iter().map(|axis| axis.letter).collect();
            let n = pages.len();
            return Err(format!("the axes {letters} of {sizes:?} planes do not fit {n} pages"));
        }
        let mut places = vec![None; pages.len()];
        let mut has_page = vec![false; pages.len()];
        for block in blocks {
            let rest = pages.len().saturating_sub(block.plane);
            // Ends at the latest where a page or a plane comes a second time.
            for i in 0..block.count.unwrap_or(rest) {
                let (page, plane) = (block.page.saturating_add(i), block.plane.saturating_add(i));
                let page = u64::try_from(page).unwrap_or(u64::MAX);
                let place = pages.binary_search(&page).ok().and_then(|frame| places.get_mut(frame));
                match (place, has_page.get_mut(plane)) {
                    (Some(place @ None), Some(has_page @ false)) => {
                        (*place, *has_page) = (u64::try_from(plane).ok(), true);
                    }
                    (None, _) => return Err(format!("page {page} is not one of the frames")),
                    _ => return Err(format!("plane {plane} or page {page} comes twice")),
                }
            }
        }
        places.into_iter().collect::<Option<_>>().ok_or("not every page has a plane".to_owned())
    }
}

impl Block {
    fn read(block: &Element, axes: &[PlaneAxis]) -> Result<Self, String> {
        let number = |name: &str| {
            let value = block.attribute(name);
            let number = value.map(|value| value.trim().parse::<usize>());
            number.transpose().map_err(|_| format!("{name} is '{}'", value.unwrap_or_default()))
        };
        let mut plane = 0usize;
        for PlaneAxis { letter, n, .. } in axes {
            let name = format!("First{letter}");
            let first = number(&name)?.unwrap_or(0);
            if first >= *n {
                return Err(format!("{name} is {first}, expected less than Size{letter}, {n}"));
            }
            plane = plane.saturating_mul(*n).saturating_add(first);
        }
        let page = number("IFD")?;
        let count = number("PlaneCount")?.or(page.map(|_| 1));
        Ok(Block { page: page.unwrap_or(0), plane, count })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planes(uuid: Option<&str>, images: &[&str]) -> Planes {
        let pixels = |blocks: &&str| {
            Element::parse(format!("<Pixels>{blocks}</Pixels>").as_bytes()).unwrap()
        };
        let images: Vec<Element> = images.iter().map(pixels).collect();
        let axes = [('T', 2), ('Z', 3)];
        let axes = axes.map(|(letter, n)| PlaneAxis { letter, n, name: "", step: None });
        Planes::read(uuid, &Vec::from_iter(&images), axes.to_vec())
    }

    fn places(blocks: &str, pages: &[u64]) -> Result<Vec<u64>, String> {
        planes(None, &[blocks]).places(pages)
    }

    #[test]
    fn blocks_are_planes_from_the_first_one_on() {
        let pages = [0, 1, 2, 3, 4, 5];
        for all in ["", "<TiffData/>", "<TiffData IFD='0' PlaneCount='6'/>"] {
            assert_eq!(places(all, &pages).unwrap(), pages);
        }
        let halves = "<TiffData IFD='3' PlaneCount='3'/><TiffData FirstT='1' PlaneCount='3'/>";
        assert_eq!(places(halves, &pages).unwrap(), [3, 4, 5, 0, 1, 2]);
        let single = "<TiffData FirstZ='2' PlaneCount='4'/><TiffData IFD='4'/>\
                      <TiffData IFD='5' FirstZ='1'/>";
        assert_eq!(places(single, &pages).unwrap(), [2, 3, 4, 5, 0, 1]);
        // A page that is no frame, before them.
        let later = "<TiffData IFD='1' PlaneCount='6'/>";
        assert_eq!(places(later, &[1, 2, 3, 4, 5, 6]).unwrap(), pages);
        let own = "<TiffData IFD='0' PlaneCount='6'><UUID>a</UUID></TiffData>";
        assert_eq!(places(own, &pages).unwrap(), pages);
    }

    #[test]
    fn files_are_counted_over_all_images() {
        let of = |file: &str| format!("<TiffData IFD='0'><UUID>{file}</UUID></TiffData>");
        let (a, b) = (of("a"), of(" b"));
        let both = format!("{a}<TiffData IFD='1'/>");
        for (uuid, images, n) in [
            (None, vec![""], 0),
            (None, vec![&*both], 2),
            // Without a name, it is this file.
            (Some("a"), vec![&*both], 1),
            (Some("b"), vec![&*both], 2),
            (None, vec![&*a, &*a], 1),
            (Some("b"), vec![&*a, &*b], 2),
        ] {
            let found = planes(uuid, &images);
            assert_eq!(found.n_files, n, "{uuid:?} {images:?}");
            let error = found.places(&[0]).unwrap_err();
            let words = format!("{} images in {n} files, of which this is one", images.len());
            assert_eq!(error.contains(&words), images.len() > 1 && n > 1, "{error}");
        }
    }

    #[test]
    fn what_is_not_one_to_one_is_said() {
        for (blocks, n, words) in [
            ("", 5, "the axes TZ of [2, 3] planes do not fit 5 pages"),
            ("<TiffData IFD='0'/>", 6, "not every page has a plane"),
            ("<TiffData/><TiffData IFD='5' FirstT='1'/>", 6, "plane 3 or page 5 comes twice"),
            ("<TiffData IFD='1' PlaneCount='6'/>", 6, "page 6 is not one of the frames"),
            ("<TiffData FirstZ='3'/>", 6, "FirstZ is 3, expected less than SizeZ, 3"),
            ("<TiffData IFD='-1'/>", 6, "IFD is '-1'"),
            ("<TiffData IFD='0'/><TiffData IFD='1'><UUID>a</UUID></TiffData>", 6, "in 2 files"),
        ] {
            let pages: Vec<u64> = (0..n).collect();
            let error = places(blocks, &pages).unwrap_err();
            assert!(error.contains(words), "{blocks}: {error}");
        }
    }
}
