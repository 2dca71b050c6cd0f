//! The structs of `framefold.h`, member for member; what they mean is said there.

#![expect(missing_docs, reason = "the header describes the members")]

use std::ffi::{c_char, c_void};

/// The version of incompatible changes, which names of the capsule and the table end with.
pub const MAJOR: u64 = 1;
/// The version of what was added since.
pub const MINOR: u64 = 0;
/// The name of the capsule.
pub const CAPSULE: &std::ffi::CStr = c"framefold.udf_v1";
/// The method of Python objects that returns the capsule.
pub const METHOD: &str = "__framefold_udf__";

/// The call did what it should.
pub const OK: i32 = 0;
/// It failed, and `Host::fail` has the reason.
pub const FAILED: i32 = 1;
/// It panicked; the same.
pub const PANICKED: i32 = 2;
/// It ended early since the run was cancelled.
pub const CANCELLED: i32 = 3;

/// See `ff_method`.
pub const TILE: u64 = 0;
/// See `ff_method`.
pub const FRAMES: u64 = 1;
/// See `ff_method`.
pub const PARTITION: u64 = 2;

/// See `ff_format`.
pub const DENSE: u64 = 1;
/// See `ff_format`.
pub const CSR: u64 = 2;

/// See `ff_kind`.
pub const NAV: u64 = 0;
/// See `ff_kind`.
pub const SIG: u64 = 1;
/// See `ff_kind`.
pub const SINGLE: u64 = 2;

/// See `ff_use`.
pub const PUBLIC: u64 = 0;
/// See `ff_use`.
pub const PRIVATE: u64 = 1;
/// See `ff_use`.
pub const RESULT_ONLY: u64 = 2;

/// `ff_dtype`.
pub type RawDType = u64;

/// The number of a dtype: NumPy's letter of its kind, and bytes per element.
pub const fn dtype(kind: u8, bytes: u8) -> RawDType {
    ((kind as u64) << 8) | bytes as u64
}

/// `ff_text`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Text {
    /// UTF-8.
    pub data: *const c_char,
    /// Bytes.
    pub len: usize,
}

/// `ff_job`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Job {
    pub size: usize,
    pub n_nav: usize,
    pub nav_shape: *const usize,
    pub n_sig: usize,
    pub sig_shape: *const usize,
    pub native_dtype: RawDType,
    pub input_dtype: RawDType,
    pub n_selected: usize,
    pub positions: *const usize,
}

/// `ff_requirements`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Requirements {
    pub size: usize,
    pub method: u64,
    pub input: RawDType,
    pub formats: u64,
    pub depth: usize,
    pub tile_bytes: usize,
    pub contiguous: u64,
}

/// `ff_buffer`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Buffer {
    pub size: usize,
    pub name: Text,
    pub kind: u64,
    pub dtype: RawDType,
    pub n_extra: usize,
    pub extra_shape: *const usize,
    pub usage: u64,
}

/// `ff_host`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Host {
    pub size: usize,
    pub minor: u64,
    pub ctx: *mut c_void,
    pub fail: Option<unsafe extern "C" fn(*mut c_void, Text)>,
    pub declare: Option<unsafe extern "C" fn(*mut c_void, *const Buffer) -> i32>,
    pub cancelled: Option<unsafe extern "C" fn(*mut c_void) -> i32>,
    pub frame: *mut u64,
}

/// `ff_run`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Run {
    pub size: usize,
    pub job: *const Job,
    pub format: u64,
    pub n_partitions: usize,
    pub partition: usize,
    pub first_frame: usize,
    pub n_frames: usize,
}

/// `ff_tile`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Tile {
    pub size: usize,
    pub data: *const c_void,
    pub dtype: RawDType,
    pub depth: usize,
    pub frame_stride: usize,
    pub n_sig: usize,
    pub sig_origin: *const usize,
    pub sig_shape: *const usize,
    pub first_frame: usize,
    pub first_in_partition: usize,
    pub slice_index: usize,
}

/// `ff_rows`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Rows {
    pub size: usize,
    pub starts: *const usize,
    pub columns: *const u32,
    pub values: *const c_void,
    pub dtype: RawDType,
    pub depth: usize,
    pub n_sig: usize,
    pub sig_origin: *const usize,
    pub sig_shape: *const usize,
    pub first_frame: usize,
    pub first_in_partition: usize,
    pub slice_index: usize,
}

/// `ff_view`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct View {
    pub data: *mut c_void,
    pub dtype: RawDType,
    pub n_dims: usize,
    pub shape: *const usize,
    pub strides: *const isize,
}

/// `requirements` of `ff_udf_v1`.
pub type RequirementsFn =
    unsafe extern "C" fn(*mut c_void, *const Job, *mut Requirements, *const Host) -> i32;
/// `buffers`.
pub type BuffersFn = unsafe extern "C" fn(*mut c_void, *const Job, *const Host) -> i32;
/// `begin`.
pub type BeginFn =
    unsafe extern "C" fn(*mut c_void, *const Run, *const Host, *mut *mut c_void) -> i32;
/// `process`.
pub type ProcessFn =
    unsafe extern "C" fn(*mut c_void, *const Tile, *const View, usize, *const Host) -> i32;
/// `process_csr`.
pub type ProcessCsrFn =
    unsafe extern "C" fn(*mut c_void, *const Rows, *const View, usize, *const Host) -> i32;
/// `end`.
pub type EndFn = unsafe extern "C" fn(*mut c_void, *const View, usize, *const Host) -> i32;
/// `drop_task`.
pub type DropTaskFn = unsafe extern "C" fn(*mut c_void);
/// `merge`.
pub type MergeFn =
    unsafe extern "C" fn(*mut c_void, *const View, *const View, usize, *const Host) -> i32;
/// `results`.
pub type ResultsFn = unsafe extern "C" fn(
    *mut c_void,
    *const Job,
    *const View,
    usize,
    *const View,
    usize,
    *const Host,
) -> i32;
/// `drop`.
pub type DropFn = unsafe extern "C" fn(*mut UdfV1);

/// `ff_udf_v1`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct UdfV1 {
    pub size: usize,
    pub major: u64,
    pub minor: u64,
    pub name: Text,
    /// `self`, which is a keyword here.
    pub this: *mut c_void,
    pub requirements: Option<RequirementsFn>,
    pub buffers: Option<BuffersFn>,
    pub begin: Option<BeginFn>,
    pub process: Option<ProcessFn>,
    pub process_csr: Option<ProcessCsrFn>,
    pub end: Option<EndFn>,
    pub drop_task: Option<DropTaskFn>,
    pub merge: Option<MergeFn>,
    pub results: Option<ResultsFn>,
    pub drop: Option<DropFn>,
}
