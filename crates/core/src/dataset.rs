//! A source laid out on a scan grid.

mod opened;

use crate::axes::{Axis, AxisKind, axes};
use crate::scans::suggested_scans;
use crate::{
    Corrections, DType, DataSource, Error, FileStamp, MetadataList, Presence, Result, Shape,
};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

/// Frames of a [`DataSource`] placed on navigation positions.
///
/// Position `p` (C order) shows frame `p + sync_offset`. Positions for which there is no such
/// frame have no data: they are skipped and marked as invalid in every result.
#[derive(Clone, Debug)]
pub struct Dataset {
    source: Arc<dyn DataSource>,
    shape: Shape,
    /// What is known of the experiment, where that is not what the source says.
    metadata: Option<Arc<MetadataList>>,
    nav_was_given: bool,
    sync_offset: i64,
    corrections: Option<Arc<Corrections>>,
    /// What was corrected before the source made other frames, in words.
    corrected_before: Option<Arc<str>>,
    unused_corrections: Option<Arc<str>>,
    lost_frames: Option<u64>,
    /// What is odd about what was done to it, besides what its source says.
    doubts: Arc<[String]>,
    opened: Arc<[PathBuf]>,
    stamps: Arc<[FileStamp]>,
    /// Patterns of paths.
    found_by: Arc<[PathBuf]>,
}

/// How many frames were left out and how many positions stay empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncInfo {
    /// Frames at the start of the file that no position shows.
    pub frames_skipped_start: u64,
    /// Frames at the end of the file that no position shows.
    pub frames_ignored_end: u64,
    /// Positions at the start of the scan without a frame.
    pub frames_inserted_start: u64,
    /// Positions at the end of the scan without a frame.
    pub frames_inserted_end: u64,
}

impl Dataset {
    /// Lays `source` out on `nav_shape` (or on the shape it suggests itself).
    ///
    /// # Errors
    /// `InvalidArgument` if the shape is unusable, or `sync_offset` is not in the open interval
    /// `(-n_frames, n_frames)`; `Bug` if the source counts frames twice, or its base shape has more axes than
    /// its frames, or fewer.
    pub fn try_new(
        source: Arc<dyn DataSource>,
        nav_shape: Option<&[usize]>,
        sync_offset: i64,
    ) -> Result<Self> {
        let info = source.info();
        let shape = Shape::try_new(nav_shape.unwrap_or(&info.nav_shape), &info.sig_shape)?;
        let n_frames = info.n_frames;
        if sync_offset.unsigned_abs() >= n_frames.max(1) {
            return Err(Error::invalid(format!(
                "sync_offset {sync_offset} is outside of the open interval ({}, {n_frames}) \
                 that {n_frames} frames allow",
                -i128::from(n_frames)
            )));
        }
        info.presence.check()?;
        if info.base_shape.len() != info.sig_shape.len() {
            return Err(Error::bug(format!(
                "the source says that tiles begin at multiples of {:?}, but its frames have the shape {:?}: there has \
                 to be a number for each axis",
                info.base_shape, info.sig_shape
            )));
        }
        let metadata = laid_out(&info.metadata, &info.nav_shape, shape.nav());
        Ok(Dataset {
            metadata: metadata.map(Arc::new),
            source,
            shape,
            nav_was_given: nav_shape.is_some(),
            sync_offset,
            corrections: None,
            corrected_before: None,
            unused_corrections: None,
            lost_frames: Some(0),
            doubts: Arc::default(),
            opened: Arc::default(),
            stamps: Arc::default(),
            found_by: Arc::default(),
        })
    }

    /// The same frames with these corrections, in the place of those it had. Empty corrections
    /// are none: pixels stay as they are.
    ///
    /// # Errors
    /// `InvalidArgument` if they are for frames of another shape, or complex while the data are
    /// not.
    pub fn with_corrections(mut self, corrections: Option<Arc<Corrections>>) -> Result<Self> {
        if let Some(corrections) = &corrections {
            if corrections.sig_shape() != self.shape.sig() {
                return Err(Error::invalid(format!(
                    "the corrections are for frames of shape {:?}, but the data have frames of \
                     shape {:?}",
                    corrections.sig_shape(),
                    self.shape.sig()
                )));
            }
            corrections.output_dtype(self.source.info().dtype.dtype)?;
        }
        self.corrections = corrections.filter(|corrections| !corrections.is_empty());
        Ok(self)
    }

    /// What is corrected in every tile, if anything is. A format whose files bring a dark frame, a
    /// gain map or a list of bad pixels opens a data set that has them already.
    pub fn corrections(&self) -> Option<&Arc<Corrections>> {
        self.corrections.as_ref()
    }

    /// All that is corrected, in words, as in `dark frame, 3 excluded pixels`: here, and before stages made
    /// other frames of the corrected ones.
    pub fn corrected(&self) -> Option<String> {
        let before = self.corrected_before.as_deref().map(str::to_owned);
        let own = self.corrections.as_ref().map(|own| own.to_string());
        let all: Vec<String> = before.into_iter().chain(own).collect();
        (!all.is_empty()).then(|| all.join(", then "))
    }

    /// The same, whose source gives frames that were corrected, and then changed, perhaps.
    pub fn with_corrected_before(self, words: Option<String>) -> Self {
        Dataset { corrected_before: words.map(Arc::from), ..self }
    }

    /// The same, with a sentence about something that is odd: see [`Dataset::warnings`].
    pub fn with_doubt(self, sentence: String) -> Self {
        let doubts = self.doubts.iter().cloned().chain([sentence]).collect();
        Dataset { doubts, ..self }
    }

    /// The same, with a sentence about corrections that came with the files and are not applied
    /// because they were not asked for.
    pub fn with_unused_corrections(mut self, sentence: Option<String>) -> Self {
        self.unused_corrections = sentence.map(Arc::from);
        self
    }

    /// Which corrections came with the files and are not applied, and how to have them applied.
    /// Shown once, when the data are first used without corrections.
    pub fn unused_corrections(&self) -> Option<&str> {
        self.unused_corrections.as_deref()
    }

    /// The same, of a file that has lost so many frames at its end; `None` if some are lost, and nothing tells
    /// how many.
    pub fn with_lost_frames(self, lost_frames: impl Into<Option<u64>>) -> Self {
        Dataset { lost_frames: lost_frames.into(), ..self }
    }

    /// How many frames the file has lost at its end, as far as it says how many it held; `None` if it ends in
    /// the middle of one, and does not.
    pub fn lost_frames(&self) -> Option<u64> {
        self.lost_frames
    }

    /// The dtype of pixels where no UDF asks for another one: that of the source, or the
    /// float or complex dtype that corrections turn it into.
    pub fn pixel_dtype(&self) -> DType {
        let native = self.source.info().dtype.dtype;
        if self.corrections.is_some() { DType::promote(native, DType::F32) } else { native }
    }

    /// Where the frames come from.
    pub fn source(&self) -> &Arc<dyn DataSource> {
        &self.source
    }

    /// Scan and frame shape.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// What is known of the experiment.
    pub fn metadata(&self) -> &MetadataList {
        self.metadata.as_deref().unwrap_or_else(|| &self.source.info().metadata)
    }

    /// The same frames, with this known of them instead.
    pub fn with_metadata(self, metadata: MetadataList) -> Self {
        Dataset { metadata: Some(Arc::new(metadata)), ..self }
    }

    /// The same scan over other frames, as many: the same ones turned, say. What is known of them
    /// and how they are corrected comes along.
    ///
    /// # Errors
    /// `InvalidArgument` if the corrections do not fit; `Bug` if there are more frames or fewer.
    pub fn with_source(
        self,
        source: Arc<dyn DataSource>,
        metadata: MetadataList,
        corrections: Option<Arc<Corrections>>,
    ) -> Result<Self> {
        let (own, other) = (self.source.info().n_frames, source.info().n_frames);
        if own != other {
            return Err(Error::bug(format!("{other} frames in the place of {own}")));
        }
        let shape = Shape::try_new(self.shape.nav(), &source.info().sig_shape)?;
        let metadata = Some(Arc::new(metadata));
        Dataset { source, shape, metadata, ..self }.with_corrections(corrections)
    }

    /// Other frames on the scan that their source suggests: those of blocks of positions, say. They have no
    /// corrections.
    ///
    /// # Errors
    /// `InvalidArgument` if the shape is unusable.
    pub fn with_scan(self, source: Arc<dyn DataSource>, metadata: MetadataList) -> Result<Self> {
        let info = source.info();
        let shape = Shape::try_new(&info.nav_shape, &info.sig_shape)?;
        let metadata = Some(Arc::new(metadata));
        let (nav_was_given, sync_offset, corrections) = (false, 0, None);
        Ok(Dataset { source, shape, metadata, nav_was_given, sync_offset, corrections, ..self })
    }

    /// The axes of the scan, then those of frames, slowest first.
    pub fn axes(&self) -> Vec<Axis> {
        axes(self.shape.nav(), self.shape.sig(), self.metadata())
    }

    /// The offset between positions and frames.
    pub fn sync_offset(&self) -> i64 {
        self.sync_offset
    }

    /// What is odd but not an error: what the source says, how the scan does not fit the frames, and what was
    /// added to that.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = self.source.info().warnings.clone();
        warnings.extend(self.misfit());
        warnings.extend(self.doubts.iter().cloned());
        warnings
    }

    /// How the scan shape does not fit the frames: positions without a frame at either end; and, of
    /// a scan shape that was asked for, frames that are left over, or rows that are not the source's.
    fn misfit(&self) -> Option<String> {
        let (info, nav, sync) = (self.source.info(), self.shape.nav(), self.sync_info());
        let n_positions = u64::try_from(self.shape.n_frames()).unwrap_or(u64::MAX);
        let left_over = if self.nav_was_given { sync.frames_ignored_end } else { 0 };
        let before = sync.frames_inserted_start.min(n_positions);
        let parts: Vec<String> = [
            (before, "first", "position has", "positions have", "no data"),
            (sync.frames_inserted_end, "last", "position has", "positions have", "no data"),
            (left_over, "last", "frame is", "frames are", "not shown"),
        ]
        .into_iter()
        .filter(|(n, ..)| *n > 0)
        .map(|(n, which, one, many, what)| match n {
            1 => format!("the {which} {one} {what}"),
            n => format!("the {which} {n} {many} {what}"),
        })
        .collect();
        let rows = self.rows_of_the_source();
        if parts.is_empty() && rows.is_none() {
            return None;
        }
        let offset = match self.sync_offset {
            0 => String::new(),
            offset => format!(" with sync_offset {offset}"),
        };
        let rows = rows
            .map(|rows| format!("the data have rows of {rows} positions: the picture is sheared"));
        // Where the file knows of a scan that fits, nothing else has to; a square may be a guess.
        let own = info.nav_shape.iter().fold(1, |n: u64, &len| n.saturating_mul(len as u64));
        let is_square = matches!(*info.nav_shape, [y, x] if y == x);
        let is_known = own == info.n_frames && info.nav_shape.len() > 1 && !is_square;
        let asked = self.nav_was_given && self.sync_offset == 0 && !is_known;
        let fitting = if asked && n_positions != info.n_frames {
            format!("; these fit: {}", suggested_scans(info.n_frames))
        } else {
            String::new()
        };
        let text = parts.into_iter().chain(rows).collect::<Vec<_>>().join(", ");
        Some(format!(
            "the scan shape {nav:?}{offset} has {n_positions} positions for {} frames; {text}{fitting}",
            info.n_frames
        ))
    }

    /// The length of the rows that the source suggests, if those that were asked for are neither
    /// parts of them nor made of several. A square may be a guess, as long as all frames fit.
    fn rows_of_the_source(&self) -> Option<usize> {
        let info = self.source.info();
        let ([.., _, own], [.., _, asked]) = (&*info.nav_shape, self.shape.nav()) else {
            return None;
        };
        let (own, asked) = (*own, *asked);
        if own == 0 || asked == 0 || own.is_multiple_of(asked) || asked.is_multiple_of(own) {
            return None;
        }
        let all_fit = u64::try_from(self.shape.n_frames()).is_ok_and(|n| n == info.n_frames);
        let square = info.nav_shape.len() == 2 && info.nav_shape.first() == Some(&own);
        (!(square && all_fit)).then_some(own)
    }

    /// The frame shown at flat position `position`, if the file has it.
    pub fn frame_at(&self, position: usize) -> Option<u64> {
        let frame = i128::try_from(position).ok()? + i128::from(self.sync_offset);
        let frame = u64::try_from(frame).ok()?;
        let info = self.source.info();
        let there = frame < info.n_frames
            && match &info.presence {
                Presence::All => true,
                Presence::Ranges(ranges) => {
                    let i = ranges.partition_point(|range| range.end <= frame);
                    ranges.get(i).is_some_and(|range| range.contains(&frame))
                }
            };
        there.then_some(frame)
    }

    /// The ranges of flat positions that have data: ascending, disjoint, not empty.
    pub fn positions_with_data(&self) -> Vec<Range<usize>> {
        let info = self.source.info();
        let everything = 0..info.n_frames;
        let ranges: &[Range<u64>] = match &info.presence {
            Presence::All => std::slice::from_ref(&everything),
            Presence::Ranges(ranges) => ranges,
        };
        let n_positions = i128::try_from(self.shape.n_frames()).unwrap_or(i128::MAX);
        let to_position = |frame: u64| {
            let position = (i128::from(frame) - i128::from(self.sync_offset)).clamp(0, n_positions);
            usize::try_from(position).unwrap_or(0)
        };
        ranges
            .iter()
            .map(|range| to_position(range.start)..to_position(range.end.min(info.n_frames)))
            .filter(|range| !range.is_empty())
            .collect()
    }

    /// What the offset and the scan shape leave out.
    pub fn sync_info(&self) -> SyncInfo {
        let n = i128::from(self.source.info().n_frames);
        let m = i128::try_from(self.shape.n_frames()).unwrap_or(i128::MAX);
        let s = i128::from(self.sync_offset);
        let count = |value: i128| u64::try_from(value.max(0)).unwrap_or(u64::MAX);
        SyncInfo {
            frames_skipped_start: count(s),
            frames_ignored_end: count(n - m - s),
            frames_inserted_start: count(-s),
            frames_inserted_end: count(m - n + s),
        }
    }
}

/// What is known of a scan that is laid out in another shape than the file gives it; see
/// [`MetadataList::lay_out`].
fn laid_out(known: &MetadataList, of_file: &[usize], nav: &[usize]) -> Option<MetadataList> {
    if known.is_empty() || of_file == nav {
        return None;
    }
    let mut list = known.clone();
    list.lay_out(AxisKind::Nav, of_file, nav);
    Some(list)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Calibration, DType, FrameReader, SourceInfo, StoredDType};

    #[derive(Debug)]
    struct Nothing(SourceInfo);

    impl DataSource for Nothing {
        fn info(&self) -> &SourceInfo {
            &self.0
        }
        fn reader(&self) -> Result<Box<dyn FrameReader + '_>> {
            Err(Error::unsupported("geometry only"))
        }
    }

    fn source(n_frames: u64, presence: Presence) -> Arc<dyn DataSource> {
        Arc::new(nothing(n_frames, presence))
    }

    fn nothing(n_frames: u64, presence: Presence) -> Nothing {
        Nothing(SourceInfo {
            format: "nothing",
            paths: vec![],
            n_frames,
            presence,
            sig_shape: vec![2, 2],
            nav_shape: vec![usize::try_from(n_frames).unwrap()],
            dtype: StoredDType::native(DType::U8),
            base_shape: vec![1, 2],
            preferred_depth: 1,
            lends: false,
            metadata: MetadataList::new(),
            details: vec![],
            warnings: vec![],
        })
    }

    #[test]
    fn sync_offset_shifts_and_clips() {
        let shown = |s: i64| {
            let dataset = Dataset::try_new(source(20, Presence::All), None, s).unwrap();
            (0..20).map(|p| dataset.frame_at(p)).collect::<Vec<_>>()
        };
        assert_eq!(shown(3)[..17], (3..20).map(Some).collect::<Vec<_>>());
        assert_eq!(shown(3)[17..], [None; 3]);
        assert_eq!(shown(-3)[..4], [None, None, None, Some(0)]);
        assert_eq!(shown(19)[..2], [Some(19), None]);
        for s in [20, -20, i64::MIN, i64::MAX] {
            assert!(Dataset::try_new(source(20, Presence::All), None, s).is_err());
        }
    }

    #[test]
    fn bookkeeping_as_documented() {
        let info = |nav: usize, s| {
            let source = source(20, Presence::All);
            Dataset::try_new(source, Some(&[nav]), s).unwrap().sync_info()
        };
        let expect = |a, b, c, d| SyncInfo {
            frames_skipped_start: a,
            frames_ignored_end: b,
            frames_inserted_start: c,
            frames_inserted_end: d,
        };
        assert_eq!(info(20, 3), expect(3, 0, 0, 3));
        assert_eq!(info(20, -3), expect(0, 3, 3, 0));
        assert_eq!(info(10, 0), expect(0, 10, 0, 0));
    }

    #[test]
    fn steps_are_those_of_axes_that_are_laid_out_as_in_the_file() {
        use crate::Quantity;
        let mut info = source(12, Presence::All).info().clone();
        info.metadata.number(Quantity::ScanStepX, 2.0);
        info.metadata.number(Quantity::ScanStepY, 3.0);
        info.metadata.number(Quantity::DiffractionStepX, 0.5);
        let hour = Calibration { step: 1.0, offset: 0.0, unit: "h".into() };
        info.metadata.calibrate(AxisKind::Nav, 2, hour);
        let axes_as = |of_file: &[usize], nav: &[usize]| {
            let info = SourceInfo { nav_shape: of_file.to_vec(), ..info.clone() };
            let dataset = Dataset::try_new(Arc::new(Nothing(info)), Some(nav), 0).unwrap();
            let of_axes = dataset.axes().into_iter().filter(|axis| axis.unit == "nm");
            let quantities = [Quantity::ScanStepY, Quantity::ScanStepX].into_iter();
            let known = quantities.filter_map(|step| dataset.metadata().get_number(step));
            assert!(of_axes.map(|axis| axis.scale).eq(known), "{of_file:?} {nav:?}");
            dataset.axes().iter().map(Axis::to_string).collect::<Vec<_>>().join("; ")
        };
        let frame = "y: 2; x: 2 × 0.5 1/nm";
        let (y, x) = ("scan_y: 3 × 3 nm", "scan_x: 4 × 2 nm");
        for (of_file, nav, scan) in [
            (&[3, 4][..], &[3, 4][..], format!("{y}; {x}")),
            (&[12], &[3, 4], format!("{y}; {x}")),
            (&[3, 4], &[12], "scan_x: 12".to_owned()),
            (&[3, 4], &[4, 3], "scan_y: 4; scan_x: 3".to_owned()),
            (&[3, 4], &[3, 2], "scan_y: 3; scan_x: 2".to_owned()),
            // Fewer rows, and more of them.
            (&[3, 4], &[2, 4], format!("scan_y: 2 × 3 nm; {x}")),
            (&[3, 4], &[5, 4], format!("scan_y: 5 × 3 nm; {x}")),
            (&[6, 2], &[3, 2, 2], "scan_2: 3; scan_y: 2; scan_x: 2 × 2 nm".to_owned()),
            (&[3, 2, 2], &[3, 4], "scan_y: 3; scan_x: 4".to_owned()),
            (&[3, 2, 2], &[6, 2], "scan_y: 6; scan_x: 2 × 2 nm".to_owned()),
            (&[3, 4], &[1, 4], format!("scan_y: 1 × 3 nm; {x}")),
            (&[1, 4], &[4], x.to_owned()),
            (&[1, 12], &[3, 4], format!("{y}; {x}")),
            (&[3, 1, 4], &[3, 1, 4], format!("scan_2: 3 × 1 h; scan_y: 1 × 3 nm; {x}")),
            (&[3, 1, 4], &[2, 1, 4], format!("scan_2: 2 × 1 h; scan_y: 1 × 3 nm; {x}")),
        ] {
            assert_eq!(axes_as(of_file, nav), format!("{scan}; {frame}"), "{of_file:?} {nav:?}");
        }
    }

    #[test]
    fn scans_that_do_not_fit_give_a_warning() {
        let warning = |own: &[usize], nav: Option<&[usize]>, s: i64| {
            let n_frames = 20;
            let Nothing(mut info) = nothing(n_frames, Presence::All);
            info.nav_shape = own.to_vec();
            info.warnings = vec!["odd".into()];
            let dataset = Dataset::try_new(Arc::new(Nothing(info)), nav, s).unwrap();
            dataset.warnings()[1..].join("|")
        };
        for (own, nav, s) in [
            (&[20][..], None, 0),
            (&[4, 5], None, 0),
            // The file itself leaves out frames, or the caller those at the start.
            (&[4, 4], None, 0),
            (&[17], Some(&[17][..]), 3),
            // Whole rows, in other pieces.
            (&[20], Some(&[5, 4]), 0),
            (&[4, 5], Some(&[20]), 0),
            (&[4, 5], Some(&[2, 10]), 0),
            (&[2, 10], Some(&[4, 5]), 0),
        ] {
            assert_eq!(warning(own, nav, s), "", "{own:?} {nav:?} {s}");
        }
        for (own, nav, s, expected) in [
            (
                &[21][..],
                None,
                0,
                "the scan shape [21] has 21 positions for 20 frames; the last position has no data",
            ),
            (&[20], Some(&[6, 4][..]), 0, "; the last 4 positions have no data"),
            (&[20], Some(&[4, 4]), 0, "; the last 4 frames are not shown"),
            (
                &[20],
                Some(&[4, 4]),
                3,
                "[4, 4] with sync_offset 3 has 16 positions for 20 frames; the last frame",
            ),
            (&[20], None, -3, "; the first 3 positions have no data"),
            (
                &[20],
                Some(&[20]),
                -3,
                "first 3 positions have no data, the last 3 frames are not shown",
            ),
            (&[20], Some(&[2]), -19, "; the first 2 positions have no data"),
            (
                &[4, 5],
                Some(&[5, 4]),
                0,
                "; the data have rows of 5 positions: the picture is sheared",
            ),
            (
                &[4, 5],
                Some(&[4, 6]),
                0,
                "; the last 4 positions have no data, the data have rows of 5",
            ),
        ] {
            let text = warning(own, nav, s);
            assert!(text.contains(expected), "{own:?} {nav:?} {s}: {text}");
        }
    }

    #[test]
    fn gaps_have_no_data() {
        let presence = Presence::Ranges(vec![0..3, 5..8]);
        let dataset = Dataset::try_new(source(8, presence), Some(&[10]), 1).unwrap();
        assert_eq!(dataset.positions_with_data(), [0..2, 4..7]);
        for position in 0..10 {
            let expected = dataset.positions_with_data().iter().any(|r| r.contains(&position));
            assert_eq!(dataset.frame_at(position).is_some(), expected);
        }
    }

    #[test]
    fn base_shapes_of_other_axes_are_refused() {
        for base_shape in [vec![], vec![2], vec![1, 1, 2]] {
            let Nothing(mut info) = nothing(8, Presence::All);
            info.base_shape = base_shape;
            let error = Dataset::try_new(Arc::new(Nothing(info)), None, 0).unwrap_err();
            assert!(error.message().contains("a number for each axis"), "{error}");
        }
    }

    #[test]
    fn gaps_that_count_frames_twice_are_refused() {
        for ranges in [vec![0..3, 1..4], vec![5..8, 0..3], vec![Range { start: 3, end: 1 }]] {
            let source = source(8, Presence::Ranges(ranges));
            let error = Dataset::try_new(source, None, 0).unwrap_err();
            assert!(error.message().contains("ranges have to ascend"), "{error}");
        }
    }
}
