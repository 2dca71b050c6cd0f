//! Options of a caller, chosen by the first bytes of an input.

use crate::{Input, Target};
use framefold::core::{ByteOrder, DType, StoredDType};
use framefold::io::{Backend, OpenOptions};
use std::path::{Path, PathBuf};

const DS_PATHS: &[&str] = &["data", "entry/data", "entry/data/data", "a", "Experiments/a/data", ""];

/// The first bytes of an input. Zeros choose the defaults.
///
/// | byte | content |
/// |---|---|
/// | 0 | bits: 0 buffered, 1 the file shrinks once it is open, 2 `same_offset`, 3 `force_c_order`, 4 `disable_glob`, 5 `fixed_sync`, 6 `enable_corrections` is given, and is bit 7 |
/// | 1 | bits, what is given: 0 `nav_shape`, 1 `sig_shape`, 2 `sig_dims`, 3 `dtype`, 4 headers and footers, 5 byte order, 6 files, data set and side files, 7 `quad_gap` |
/// | 2, 3 | lengths of the navigation axes; 0 is no axis |
/// | 4, 5 | lengths of the signal axes |
/// | 6 | `sig_dims` |
/// | 7 | dtype; bit 7: big endian |
/// | 8 | `sync_offset`, signed |
/// | 9 to 12 | file header and footer, frame header and footer |
/// | 13 | bit 0: big endian; the others: which data set |
/// | 14 | how much of the file is left when it shrinks |
/// | 15 | what is read: seed of tiles and of the ROI |
#[derive(Clone, Copy, Debug)]
pub struct Choices([u8; 16]);

impl Choices {
    /// The choices of an input.
    pub fn of(input: &Input) -> Self {
        Choices(input.choices)
    }

    /// The options, as far as they mean something to the target.
    pub fn options(self, target: Target, input: &Input, main: &Path) -> OpenOptions {
        let used = target.options();
        let uses = |name: &str| used.contains(&name);
        let bytes = self.0;
        let flag = |bit: u8| bytes[0] >> bit & 1 == 1;
        let given = |bit: u8| bytes[1] >> bit & 1 == 1;
        let shape = |at: usize| -> Vec<usize> {
            let axes = bytes[at..at + 2].iter().copied().filter(|&len| len > 0);
            axes.map(usize::from).collect()
        };
        let mut options = OpenOptions::default();
        if flag(0) && uses("io_backend") {
            options.backend = Backend::Buffered;
        }
        for (bit, name) in [(2, "same_offset"), (3, "force_c_order"), (4, "disable_glob")] {
            if flag(bit) && uses(name) {
                options = options.with(name, true);
            }
        }
        options.fixed_sync = flag(5);
        if flag(6) && uses("enable_corrections") {
            options = options.with("enable_corrections", flag(7));
        }
        if given(0) && uses("nav_shape") {
            options.nav_shape = Some(shape(2));
        }
        if given(1) && uses("sig_shape") {
            options.sig_shape = Some(shape(4));
        }
        if given(2) && uses("sig_dims") {
            options = options.with("sig_dims", usize::from(bytes[6]));
        }
        if given(3) && uses("dtype") {
            let n = DType::all().count();
            let dtype = DType::all().nth(usize::from(bytes[7] & 0x7F) % n).unwrap_or(DType::U8);
            let order = if bytes[7] & 0x80 == 0 { ByteOrder::Little } else { ByteOrder::Big };
            options = options.with("dtype", StoredDType { dtype, order });
        }
        if uses("sync_offset") {
            options.sync_offset = i64::from(bytes[8].cast_signed());
        }
        if given(4) && uses("file_header") {
            let len = |at: usize| u64::from(bytes[at]);
            options = options
                .with("file_header", len(9))
                .with("file_footer", len(10))
                .with("frame_header", len(11))
                .with("frame_footer", len(12));
        }
        if given(5) && uses("endianess") {
            let big = bytes[13] & 1 == 1;
            let order = if big { ByteOrder::Big } else { ByteOrder::Little };
            options = options.with("endianess", order);
        }
        if given(6) {
            options = self.files(&uses, input, main, options);
        }
        if given(7) && uses("quad_gap") {
            options = options.with("quad_gap", "insert");
        }
        options
    }

    /// Options that name a part of the data set, or other files.
    fn files(
        self,
        uses: &dyn Fn(&str) -> bool,
        input: &Input,
        main: &Path,
        mut to: OpenOptions,
    ) -> OpenOptions {
        let which = usize::from(self.0[13] >> 1);
        if uses("dataset_index") {
            to = to.with("dataset_index", which);
        }
        if uses("ds_path") {
            to = to.with_some("ds_path", DS_PATHS.get(which % DS_PATHS.len()).copied());
        }
        let beside = |part: &crate::Part| main.with_file_name(&part.name);
        let mut others = input.parts.iter().skip(1).map(beside);
        if uses("files") {
            to.files = std::iter::once(main.to_path_buf()).chain(others).collect();
        } else if uses("gain_map_path") {
            let is_map = |path: &PathBuf| path.extension().is_some_and(|e| e == "csv");
            to = to.with_some("gain_map_path", others.find(is_map));
        } else if uses("emipath") {
            to = to.with_some("emipath", others.next());
        }
        to
    }

    /// How long the file of so many bytes is after it shrank, if it does.
    pub fn shrinks_to(self, len: u64) -> Option<u64> {
        (self.0[0] & 2 != 0).then(|| len * u64::from(self.0[14]) / 256)
    }

    /// What tiles and the ROI are made from.
    pub fn seed(self) -> u64 {
        u64::from(self.0[15])
    }
}
