//! A data set that answers queries.

use crate::compute::com::{Aspects, Field};
use crate::compute::detector::{ArrayMask, ArrayMasks, Canvas, Cells};
use crate::compute::gate::{Gate, Urgent};
use crate::compute::kept::Kept;
use crate::compute::pace::Pace;
use crate::compute::pattern::PatternKey;
use crate::compute::pixel::refuse_complex;
use crate::compute::raw::Raw;
use crate::compute::rest::Rest;
use crate::compute::scan::ScanKey;
use crate::compute::shapes_of_scan::suggested;
use crate::compute::store::Store;
use crate::compute::{background, guess, pattern, scan};
use crate::own::Own;
use crate::watch::Watched;
use crate::{
    AxisDescription, Background, BackgroundState, ComGuess, Description, DiskGuess, PatternQuery,
    Picture, Query, ScanQuery,
};
use framefold::core::{Axis, AxisKind, Udf, axes, guarded, memory};
use framefold::{Cancel, Dataset, Error, ErrorKind, Result, io};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};
use std::thread::JoinHandle;
use std::time::Duration;

/// How much a viewer may use, and what it is given.
#[derive(Clone, Debug, Default)]
pub struct ViewerOptions {
    /// How many bytes of what passes leave may stay in memory; by default a quarter of the memory of this
    /// machine, at most 4 GiB.
    pub budget: Option<u64>,
    /// How long one may wait for a picture while the pointer moves; 50 ms by default. Previews are as fine as this
    /// allows, and what can be computed exactly in a little less needs none.
    pub patience: Option<Duration>,
    /// Functions of the session.
    pub own: Option<Arc<dyn Own>>,
}

/// How good an answer has to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// What can be had at once: the pointer moves.
    Fast,
    /// Better and better up to the exact picture: the pointer rests.
    Exact,
}

/// A data set that answers queries, from any number of threads.
#[derive(Debug)]
pub struct Viewer {
    shared: Arc<Shared>,
    /// That which works in the background, once it has begun.
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// What answers, and work in the background, share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) name: String,
    pub(crate) dataset: Dataset,
    pub(crate) options: ViewerOptions,
    /// What detectors are drawn on.
    pub(crate) sig: Canvas,
    /// How many bytes of what passes leave may stay.
    pub(crate) budget: u64,
    pub(crate) gate: Arc<Gate>,
    pub(crate) pace: Pace,
    pub(crate) raws: Kept<ScanKey, Raw>,
    pub(crate) patterns: Kept<PatternKey, Vec<f64>>,
    masks: RwLock<ArrayMasks>,
    disk: Mutex<Option<DiskGuess>>,
    store: RwLock<Option<Arc<Store>>>,
    watched: Watched,
    /// Ends what goes on in the background.
    end: Cancel,
}

/// No more arrays of weights are kept.
const MOST_MASKS: usize = 64;
/// More bad pixels are not listed.
const MOST_MARKS: usize = 1 << 16;
/// So many files are looked at to find out whether they have changed.
const MOST_LOOKED_AT: usize = 16;
/// Nor more bytes of them.
const MOST_MASK_BYTES: usize = 256 << 20;
/// How long one waits for a picture that follows the pointer.
const PATIENCE: Duration = Duration::from_millis(50);
/// The largest budget that is not asked for.
const LARGEST_BUDGET: u64 = 4 << 30;
/// A budget where it is not known how much memory there is.
const USUAL_BUDGET: u64 = 1 << 30;

impl Viewer {
    /// A viewer of `dataset`, called `name`. Reads no pixel.
    ///
    /// # Errors
    /// `Unsupported` if frames have more than two axes; if pixels are complex and there are no functions of the
    /// session, as nothing could be shown.
    pub fn try_new(name: String, dataset: Dataset, options: ViewerOptions) -> Result<Self> {
        let sig = match *dataset.shape().sig() {
            [columns] => Canvas { rows: 1, columns, what: Cells::Pixels(1) },
            [rows, columns] => Canvas { rows, columns, what: Cells::Pixels(2) },
            ref sig => {
                return Err(Error::unsupported(format!(
                    "frames of shape {sig:?} cannot be shown, only those with one or two axes"
                ))
                .with_hint(
                    "take one channel of them, or load the data with another signal shape",
                ));
            }
        };
        let dtype = dataset.pixel_dtype();
        if dtype.is_complex() && options.own.is_none() {
            return Err(refuse_complex(dtype));
        }
        let frame_bytes = sig.len().saturating_mul(dataset.pixel_dtype().size());
        let budget = options.budget.unwrap_or_else(usual_budget);
        let shared = Shared {
            name,
            sig,
            budget,
            gate: Arc::default(),
            pace: Pace::new(
                u64::try_from(frame_bytes).unwrap_or(u64::MAX),
                options.patience.unwrap_or(PATIENCE),
            ),
            raws: Kept::new(budget / 32),
            patterns: Kept::new(budget / 32),
            masks: RwLock::default(),
            disk: Mutex::default(),
            store: RwLock::default(),
            watched: Watched::default(),
            end: Cancel::new(),
            dataset,
            options,
        };
        Ok(Viewer { shared: Arc::new(shared), thread: Mutex::default() })
    }

    /// What clients have to know.
    pub fn describe(&self) -> Description {
        let Shared { name, dataset, options, .. } = &*self.shared;
        let excluded = dataset.corrections().map(|c| c.excluded()).unwrap_or_default();
        let mut warnings = dataset.warnings();
        let is_marked = excluded.len() <= MOST_MARKS;
        if !is_marked {
            warnings
                .push(format!("there are {} bad pixels, too many to be marked", excluded.len()));
        }
        warnings
            .extend(dataset.corrected().map(|words| format!("corrections are applied: {words}")));
        let n_there: usize = dataset.positions_with_data().iter().map(|range| range.len()).sum();
        Description {
            name: name.clone(),
            format: dataset.source().info().format.to_string(),
            dtype: dataset.pixel_dtype().to_string(),
            nav: axes_of(dataset, AxisKind::Nav),
            sig: axes_of(dataset, AxisKind::Sig),
            warnings,
            excluded: if is_marked { excluded.to_vec() } else { Vec::new() },
            n_missing: dataset.shape().n_frames().saturating_sub(n_there),
            suggested_shapes: match dataset.shape().nav() {
                [_] if !knows_scan_axis(dataset) => suggested(dataset.source().info().n_frames),
                _ => Vec::new(),
            },
            own: options.own.as_ref().map(|own| own.describe()).unwrap_or_default(),
        }
    }

    /// What the data set is called.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// The data set that is looked at.
    pub fn dataset(&self) -> &Dataset {
        &self.shared.dataset
    }

    /// Keeps an array of weights, of the shape of a frame, or of the last two axes of the scan, for
    /// [`Shape::Array`](crate::Shape::Array). Returns its number, which is that of these weights in all viewers: what
    /// was drawn with them is never drawn with others.
    ///
    /// # Errors
    /// `InvalidArgument` if its shape is none of these, or a weight is not finite; `Limit` if there are
    /// too many.
    pub fn add_mask(&self, shape: &[usize], weights: Vec<f32>) -> Result<u64> {
        let sig = self.shared.sig.shape();
        let nav = self.shared.dataset.shape().nav();
        let scan = &nav[nav.len().saturating_sub(2)..];
        if shape != sig && shape != scan {
            return Err(Error::invalid(format!(
                "the mask has shape {shape:?}, but frames have shape {sig:?} and the scan {scan:?}"
            ))
            .with_hint("send an array with one weight for each pixel, or for each position"));
        }
        let expected: usize = shape.iter().product();
        if weights.len() != expected {
            let n = weights.len();
            return Err(Error::invalid(format!("{n} weights for a mask of shape {shape:?}")));
        }
        if let Some(index) = weights.iter().position(|weight| !weight.is_finite()) {
            let weight = weights[index];
            return Err(Error::invalid(format!("weight number {index} of the mask is {weight}"))
                .with_hint("send finite weights; 0 leaves a pixel out"));
        }
        let mask = ArrayMask { shape: shape.to_vec(), weights };
        let id = mask.number();
        let mut masks = self.shared.masks.write().unwrap_or_else(PoisonError::into_inner);
        if masks.contains_key(&id) {
            return Ok(id);
        }
        let bytes: usize = masks.values().map(|mask| mask.weights.len() * size_of::<f32>()).sum();
        let more = mask.weights.len().saturating_mul(size_of::<f32>());
        if masks.len() >= MOST_MASKS || bytes.saturating_add(more) > MOST_MASK_BYTES {
            return Err(Error::limit(format!(
                "there are {} masks of {bytes} bytes already, and there can be {MOST_MASKS} of \
                 {MOST_MASK_BYTES} bytes at most",
                masks.len()
            ))
            .with_hint("use those that were sent, or start the viewer anew"));
        }
        masks.insert(id, Arc::new(mask));
        Ok(id)
    }

    /// Answers with better and better pictures, the last of which is what `wish` asks for, and returns after
    /// that. Exact passes wait for each other. Blocks: call it from a thread that may.
    ///
    /// # Errors
    /// `InvalidArgument` if the query does not fit the data set; those of reading; that of `emit`; `Cancelled`.
    pub fn answer(
        &self,
        query: &Query,
        wish: Wish,
        cancel: &Cancel,
        emit: &mut dyn FnMut(Picture) -> Result<()>,
    ) -> Result<()> {
        cancel.check()?;
        self.shared.forget_if_changed();
        let answer = self.shared.answer(query, wish, cancel, emit);
        // A scan that is looked at once will be looked at again.
        if answer.is_ok() {
            self.warm();
        }
        answer
    }

    /// Begins the pass in the background, if it has not begun before: one over all of the data, of which blocks of
    /// pixels, rings around the bright disk and the statistics of pixels stay in memory, so that answers need not
    /// read any. Answers begin it by themselves. It rests while they are computed, and ends with the
    /// viewer. None is needed where all of the data can be read in no time.
    pub fn warm(&self) {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        let shared = self.shared.clone();
        if thread.is_some() || shared.pace.at_once(shared.dataset.shape().n_frames(), 1.0) {
            return;
        }
        shared.watched.tell(Background { state: BackgroundState::Working, done: 0.0 });
        let work = move || shared.work();
        // Without it, answers are as good, but slower.
        *thread = std::thread::Builder::new().name("framefold-view".into()).spawn(work).ok();
    }

    /// How far the pass in the background is.
    pub fn background(&self) -> Background {
        self.shared.watched.latest()
    }

    /// Has `watch` called with each change of [`Viewer::background`], several times a second while it goes on,
    /// until it returns false. It is called on the thread of that pass, and must not wait.
    pub fn watch(&self, watch: impl Fn(&Background) -> bool + Send + 'static) {
        self.shared.watched.add(Box::new(watch));
    }

    /// The bytes of what passes have left in memory: never more than the budget.
    pub fn len_bytes(&self) -> u64 {
        let store = self.shared.store().map_or(0, |store| store.len_bytes());
        store + self.shared.raws.len_bytes() + self.shared.patterns.len_bytes()
    }

    /// Stops the pass in the background, and waits for its end. The viewer still answers.
    pub fn rest(&self) {
        self.shared.end.cancel();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // It catches its panics itself.
            let _ = thread.join();
        }
    }
}

impl Drop for Viewer {
    /// Without waiting: what the pass reads with may need what this thread holds.
    fn drop(&mut self) {
        self.shared.end.cancel();
    }
}

impl Viewer {
    /// The bright disk of the mean pattern of the whole scan, or of those of its frames that can be read at once; the
    /// centre in quarters of pixels, the radius in halves. Disks and rings around it are exact after the pass in
    /// the background. Found once.
    ///
    /// # Errors
    /// `Unsupported` if frames have one axis; `InvalidArgument` if no pixel is brighter than others; those of
    /// [`Viewer::answer`].
    pub fn guess_disk(&self, cancel: &Cancel) -> Result<DiskGuess> {
        cancel.check()?;
        let _looking = self.shared.gate.look(false);
        self.shared.forget_if_changed();
        self.shared.disk(cancel)
    }

    /// Rotation, flip and centre of the vectors that a detector sees, from an exact pass, or from what one left.
    ///
    /// # Errors
    /// `InvalidArgument` if the scan does not have two axes of two positions each; those of [`Viewer::answer`].
    pub fn guess_com(&self, query: &ScanQuery, cancel: &Cancel) -> Result<ComGuess> {
        cancel.check()?;
        let _looking = self.shared.gate.look(false);
        self.shared.forget_if_changed();
        let raw = scan::moments(&self.shared, query, cancel)?;
        let sig = &self.shared.sig;
        let middle = [sig.rows, sig.columns].map(|len| (len / 2) as f64);
        let aspects = self.shared.aspects();
        guess::com(&Field::centres(&raw, middle, aspects), aspects.frame)
    }

    /// The shape and the weights of an array that was sent.
    pub(crate) fn mask(&self, id: u64) -> Option<(Vec<usize>, Vec<f32>)> {
        self.shared.masks().get(&id).map(|mask| (mask.shape.clone(), mask.weights.clone()))
    }

    /// Whether its files are still what they were when they were opened, as far as their sizes and times tell.
    pub fn is_unchanged(&self) -> bool {
        self.shared.is_unchanged()
    }
}

impl Shared {
    /// What has a pass make room for what is more urgent.
    pub(crate) fn rest(&self, until: Urgent, cancel: &Cancel) -> Arc<dyn Udf> {
        Arc::new(Rest { gate: self.gate.clone(), until, cancel: cancel.clone() })
    }

    pub(crate) fn answer(
        &self,
        query: &Query,
        wish: Wish,
        cancel: &Cancel,
        emit: &mut dyn FnMut(Picture) -> Result<()>,
    ) -> Result<()> {
        // How long an own function takes is not known: others do not wait for it.
        let following = wish == Wish::Fast && !query.is_own();
        let _looking = self.gate.look(following);
        let mut emit = |picture| {
            cancel.check()?;
            emit(picture)
        };
        match query {
            Query::Scan(query) => scan::answer(self, query, wish, cancel, &mut emit),
            Query::Pattern(query) => pattern::answer(self, query, wish, cancel, &mut emit),
        }
    }

    /// How long steps and pixels are along y.
    pub(crate) fn aspects(&self) -> Aspects {
        let of = |kind| axes_of(&self.dataset, kind);
        Aspects::of(&of(AxisKind::Nav), &of(AxisKind::Sig))
    }

    /// The bright disk, found once.
    pub(crate) fn disk(&self, cancel: &Cancel) -> Result<DiskGuess> {
        if matches!(self.sig.what, Cells::Pixels(1)) {
            return Err(Error::unsupported("frames with one axis have no bright disk"));
        }
        let known = *self.disk.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known {
            return Ok(known);
        }
        let mut mean = None;
        let query = PatternQuery::default();
        pattern::answer(self, &query, Wish::Fast, cancel, &mut |picture| {
            mean = Some(picture.values);
            Ok(())
        })?;
        let DiskGuess { cy, cx, r } = guess::disk(&mean.unwrap_or_default(), self.sig.columns)?;
        let to = |steps: f64, value: f64| (value * steps).round() / steps;
        let disk = DiskGuess { cy: to(4.0, cy), cx: to(4.0, cx), r: to(2.0, r).max(0.5) };
        *self.disk.lock().unwrap_or_else(PoisonError::into_inner) = Some(disk);
        Ok(disk)
    }

    /// What the pass in the background has left.
    pub(crate) fn store(&self) -> Option<Arc<Store>> {
        self.store.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What goes on in the background, from its beginning to its end.
    fn work(&self) {
        let mut tell = |done| {
            self.watched.tell(Background { state: BackgroundState::Working, done });
            Ok(())
        };
        let made = guarded(|| background::make(self, &self.end, &mut tell));
        let (state, done) = match made {
            Ok(store) => {
                *self.store.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(store));
                (BackgroundState::Done, 1.0)
            }
            Err(error) if error.kind() == ErrorKind::Cancelled => (BackgroundState::Stopped, 0.0),
            Err(error) => (BackgroundState::Failed(error.to_string()), 0.0),
        };
        self.watched.tell(Background { state, done });
    }

    /// Whether the files are still those that were opened, by their sizes and times.
    fn is_unchanged(&self) -> bool {
        let files = self.dataset.opened().iter().zip(self.dataset.stamps());
        // Of very many, the first ones: this is asked for each answer.
        files.take(MOST_LOOKED_AT).all(|(path, stamp)| {
            let Ok(meta) = std::fs::metadata(path) else { return false };
            let modified = meta.modified().ok().and_then(|time| {
                let since = time.duration_since(std::time::UNIX_EPOCH).ok()?;
                i128::try_from(since.as_nanos()).ok()
            });
            meta.len() == stamp.len
                && (stamp.modified_ns.is_none()
                    || modified.is_none()
                    || modified == stamp.modified_ns)
        })
    }

    /// Whether all files still have what they had, and more: those that are being recorded.
    fn has_only_grown(&self) -> bool {
        let files = self.dataset.opened().iter().zip(self.dataset.stamps());
        // Without a digest of what they began with, nothing says that it is still there.
        files.take(MOST_LOOKED_AT).all(|(path, stamp)| stamp.head.is_some() && path.exists())
            && io::check_unchanged(&self.dataset).is_ok()
    }

    /// Drops what earlier passes left if it is of other files. The frames of a file that grew are those that were
    /// there when it was opened.
    fn forget_if_changed(&self) {
        if !self.is_unchanged() && !self.has_only_grown() {
            self.raws.clear();
            self.patterns.clear();
            *self.disk.lock().unwrap_or_else(PoisonError::into_inner) = None;
            *self.store.write().unwrap_or_else(PoisonError::into_inner) = None;
        }
    }

    /// The arrays that were sent.
    pub(crate) fn masks(&self) -> RwLockReadGuard<'_, ArrayMasks> {
        self.masks.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A quarter of the memory that is left, within limits.
fn usual_budget() -> u64 {
    framefold::exec::heed_system_memory();
    match memory::left() {
        u64::MAX => USUAL_BUDGET,
        left => (left / 4).min(LARGEST_BUDGET),
    }
}

/// Whether the file says where the positions of a scan of one axis lie: then it is a line.
fn knows_scan_axis(dataset: &Dataset) -> bool {
    let info = dataset.source().info();
    let axes = axes(dataset.shape().nav(), dataset.shape().sig(), &info.metadata);
    let nav = axes.iter().find(|axis| axis.kind == AxisKind::Nav);
    nav.is_some_and(|axis| (axis.scale, axis.offset, axis.unit.as_str()) != (1.0, 0.0, ""))
}

/// The axes of the scan, or those of frames.
pub(crate) fn axes_of(dataset: &Dataset, kind: AxisKind) -> Vec<AxisDescription> {
    dataset.axes().iter().filter(|axis| axis.kind == kind).map(described).collect()
}

fn described(axis: &Axis) -> AxisDescription {
    let Axis { name, size, scale, offset, unit, .. } = axis.clone();
    AxisDescription { name, size, scale, offset, unit }
}
