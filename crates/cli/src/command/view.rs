//! `framefold view`: a viewer in the browser.

mod browser;
mod colours;

pub(crate) use colours::colormaps;

use crate::args::{DataArgs, ServeArgs, ViewArgs};
use crate::blocks::Part;
use crate::corrections::{BadPixels, GivenCorrections};
use crate::{exit, interrupt, terminal};
use framefold::io::Calibrate;
use framefold::{Dataset, Error, Result};
use framefold_view::export::{Bad, Corrected, Opened};
use framefold_view::serve::{Address, ServeOptions, Server};
use framefold_view::{Files, HostOptions, ScanChoice, ViewerHost, ViewerOptions};
use serde_json::Value;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The longest state, in bytes.
const MAX_STATE: u64 = 1 << 20;

/// Serves a viewer of the files until a signal comes.
pub(crate) fn view(args: ViewArgs) -> Result<u8> {
    let ViewArgs { files, serve, data } = args;
    let running = interrupt::cancel_on_interrupt();
    let state = serve.state.as_deref().map(read_state).transpose()?;
    let named = data.inputs(&files).to_vec();
    let open = move |path: &Path, scan: &ScanChoice| open(&data, &files, path, scan);
    let opener = Files::try_new(named, serve.root.as_deref(), open)?;
    let options = HostOptions {
        viewer: ViewerOptions { budget: serve.budget, ..ViewerOptions::default() },
        colormaps: colormaps(),
        state,
    };
    let host = running.run(|| ViewerHost::try_new(Box::new(opener), options))?;
    let cancel = running.cancel.clone();
    let mut server = Server::start(host, &serve.options(), move || interrupt::end(&cancel))?;
    announce(&server, &serve)?;
    running.wait();
    server.stop();
    Ok(exit::SUCCESS)
}

impl ServeArgs {
    fn options(&self) -> ServeOptions {
        ServeOptions {
            host: self.host,
            port: self.port.unwrap_or(0),
            socket: self.socket.clone(),
            base_url: self.base_url.clone(),
            allow_hosts: self.allow_host.clone(),
        }
    }
}

/// Opens a file that was named, or chosen by a client, whose scan is laid out as a client says.
fn open(
    data: &DataArgs,
    files: &[PathBuf],
    path: &Path,
    scan: &ScanChoice,
) -> Result<(Dataset, Opened)> {
    let named = files.iter().any(|file| file == path);
    let mut options = data.open_options(if named { files } else { &[] });
    if let Some(shape) = &scan.nav_shape {
        options.nav_shape = Some(shape.clone());
    }
    if let Some(offset) = scan.sync_offset {
        (options.sync_offset, options.fixed_sync) = (offset, true);
    }
    let dataset = data.corrected(&data.format, path, &options)?;
    let sig = dataset.shape().sig().to_vec();
    let dataset = data.staged(dataset)?;
    let (orientation, calibrate, stages) = data.changes();
    let opened = Opened::file(dataset.source().info().format, path, &options).oriented(orientation);
    let opened = match data.corrections() {
        given if given.is_empty() => opened,
        given => opened.corrected(corrected(given, sig)?),
    };
    let opened = stages.iter().fold(opened, |opened, stage| opened.piped(stage));
    let opened = match *calibrate == Calibrate::default() {
        true => opened,
        false => opened.unknown("what options say of axes"),
    };
    Ok((dataset, opened))
}

/// The corrections of frames of shape `frame`, as scripts have them.
fn corrected(given: &GivenCorrections, frame: Vec<usize>) -> Result<Corrected> {
    let bad = given.bad_pixels(&frame)?.map(|(bad, _)| match bad {
        BadPixels::Mask(path) => Bad::Mask(path),
        BadPixels::Rows(path) => Bad::Rows(path),
        BadPixels::Columns(path) => Bad::Columns(path),
        BadPixels::Blocks(blocks) => {
            let axes = |block: Vec<Part>| block.into_iter().map(|part| (part.range, part.step));
            Bad::Blocks(blocks.into_iter().map(|block| axes(block).collect()).collect())
        }
    });
    Ok(Corrected { frame, dark: given.dark.clone(), gain: given.gain.clone(), bad })
}

fn read_state(path: &Path) -> Result<Value> {
    let read = || {
        let failed = |error| Error::io("read the state", error);
        // A pipe would be waited for, and a device has no end.
        if !std::fs::metadata(path).map_err(failed)?.is_file() {
            return Err(Error::invalid("the state is no regular file"));
        }
        let file = std::fs::File::open(path).map_err(failed)?;
        let mut text = Vec::new();
        let len = file.take(MAX_STATE + 1).read_to_end(&mut text).map_err(failed)?;
        if u64::try_from(len).is_ok_and(|len| len > MAX_STATE) {
            return Err(Error::limit(format!("a state of more than {MAX_STATE} bytes")));
        }
        let value: Value = serde_json::from_slice(&text)
            .map_err(|error| Error::bad_file(format!("no JSON: {error}")))?;
        match value.is_object() {
            true => Ok(value),
            false => Err(Error::bad_file("the JSON is no object, as states of the viewer are")),
        }
    };
    read().map_err(|error: Error| error.with_path(path))
}

/// Prints a line that is not the link: who reads that alone, as `head -1` does, still wants the viewer.
fn print_more(line: &str) -> Result<()> {
    match terminal::print(line) {
        Err(error) if terminal::is_broken_pipe(&error) => Ok(()),
        other => other,
    }
}

/// Says where the viewer is: the link first, for scripts.
fn announce(server: &Server, args: &ServeArgs) -> Result<()> {
    terminal::print(&server.link())?;
    match server.address() {
        Address::Unix(path) => {
            let path = terminal::one_line(&path.display().to_string());
            print_more(&format!("behind the socket {path}"))?;
        }
        Address::Tcp(address) if address.ip().is_loopback() => {
            let port = address.port();
            let there = browser::this_machine();
            print_more(&format!(
                "from another machine, run this there, then open the link there: \
                 ssh -N -L {port}:{address} {there}"
            ))?;
            if !args.no_browser && args.base_url == "/" {
                browser::open(&server.link_for_once()?);
            }
        }
        Address::Tcp(address) => {
            terminal::warn(&format!(
                "other machines can reach {address}, and the connection is not encrypted: anyone who sees \
                 the link, or listens on the network, can see the data; better use ssh -L"
            ));
        }
    }
    Ok(())
}
