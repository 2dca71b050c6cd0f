//! Small files, and a way to call the binary.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// A directory to work in, removed at the end.
pub struct Bench(TempDir);

/// What a call gave.
pub struct Outcome {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Outcome {
    /// The objects printed, one per line.
    pub fn json(&self) -> Vec<Value> {
        assert_eq!(self.code, 0, "{}", self.stderr);
        self.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Asserts that the call failed with `code` and one line of words that hold `words`.
    pub fn assert_failed(&self, code: i32, words: &[&str]) {
        assert_eq!(self.code, code, "{}{}", self.stdout, self.stderr);
        assert_eq!(self.stderr.trim_end().lines().count(), 1, "{}", self.stderr);
        assert!(self.stderr.starts_with("framefold: "), "{}", self.stderr);
        for word in words {
            assert!(self.stderr.contains(word), "no '{word}' in {}", self.stderr);
        }
    }
}

impl From<Output> for Outcome {
    fn from(output: Output) -> Self {
        Outcome {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Bench {
    pub fn new() -> Self {
        Bench(TempDir::new().unwrap())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.0.path()).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// The binary, to be run in this directory.
    pub fn command(&self, line: &str) -> Command {
        self.command_of(&line.split(' ').collect::<Vec<_>>())
    }

    fn command_of(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_framefold"));
        command.args(args).current_dir(self.0.path()).stdin(Stdio::null());
        command
    }

    /// Runs the binary with arguments separated by spaces.
    pub fn call(&self, line: &str) -> Outcome {
        self.command(line).output().unwrap().into()
    }

    /// Runs the binary with these arguments.
    pub fn call_of(&self, args: &[&str]) -> Outcome {
        self.command_of(args).output().unwrap().into()
    }

    /// Runs `run LIST` with arguments separated by spaces.
    pub fn run_list(&self, list: &str, line: &str) -> Outcome {
        let args = ["run", list].into_iter().chain(line.split(' '));
        self.command_of(&args.collect::<Vec<_>>()).output().unwrap().into()
    }

    /// Writes an NPY file with this dtype code, shape and bytes.
    pub fn npy(&self, name: &str, descr: &str, shape: &str, bytes: &[u8]) {
        let dict = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({shape}), }}");
        let dict = format!("{dict:<117}\n");
        let mut file = b"\x93NUMPY\x01\x00".to_vec();
        file.extend(u16::try_from(dict.len()).unwrap().to_le_bytes());
        file.extend(dict.into_bytes());
        file.extend(bytes);
        std::fs::write(self.path(name), file).unwrap();
    }

    /// A scan of 2 × 3 frames of 4 × 5 pixels of uint16: value = frame number × 100 + pixel number.
    pub fn scan(&self, name: &str) {
        let value = |frame: u16, pixel: u16| (frame * 100 + pixel).to_le_bytes();
        let bytes: Vec<u8> = (0..6).flat_map(|f| (0..20).flat_map(move |p| value(f, p))).collect();
        self.npy(name, "<u2", "2, 3, 4, 5", &bytes);
    }
}

/// The values after the header of an NPY file, as little-endian 32-bit floats, and its header.
pub fn npy_f32(path: &Path) -> (String, Vec<f32>) {
    let bytes = std::fs::read(path).unwrap();
    let start = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    let header = String::from_utf8(bytes[10..start].to_vec()).unwrap();
    assert!(header.contains("'<f4'"), "{header}");
    let values = bytes[start..]
        .chunks_exact(4)
        .map(|chunk| f32::from_le_bytes(chunk.try_into().unwrap()))
        .collect();
    (header, values)
}
