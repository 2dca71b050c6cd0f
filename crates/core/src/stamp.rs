//! What distinguishes a file from another one, and from itself after it was written to.

/// What a file was when it was opened: plain facts, compared elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStamp {
    /// Its length in bytes.
    pub len: u64,
    /// When it was written to last, in nanoseconds since 1970; `None` if the system does not say.
    pub modified_ns: Option<i128>,
    /// The system that looked at it, device and inode; `None` where there are none.
    pub place: Option<FilePlace>,
    /// When the data set that it belongs to was opened first, in nanoseconds since 1970.
    pub seen_ns: i128,
    /// A digest of its first bytes; `None` if they were not read.
    pub head: Option<u64>,
    /// A digest of its last bytes; `None` if they were not read.
    pub tail: Option<u64>,
    /// Whether it describes chunks in files of their own, which are opened by name while the data set is
    /// read.
    pub has_chunks: bool,
}

/// Which of all files of a system it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilePlace {
    /// Tells systems apart that may number their files differently.
    pub system: u64,
    /// The device.
    pub device: u64,
    /// The inode.
    pub inode: u64,
}
