//! The browser of this machine.

use std::process::{Command, Stdio};

/// Opens the link in the browser that the user has chosen, if there is a screen. Whether that works is not
/// known: the link is printed, too.
pub(super) fn open(link: &str) {
    if !has_screen() {
        return;
    }
    let (program, arguments): (&str, &[&str]) = if cfg!(target_os = "macos") {
        ("open", &[])
    } else if cfg!(windows) {
        ("rundll32", &["url.dll,FileProtocolHandler"])
    } else {
        ("xdg-open", &[])
    };
    let mut command = Command::new(program);
    command.args(arguments).arg(link);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if let Ok(mut child) = command.spawn() {
        let wait = move || drop(child.wait());
        let _ = std::thread::Builder::new().name("browser".to_owned()).spawn(wait);
    }
}

/// Whether someone sits in front of this machine.
fn has_screen() -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    if is_set("SSH_CONNECTION") {
        return false;
    }
    cfg!(any(target_os = "macos", windows)) || is_set("DISPLAY") || is_set("WAYLAND_DISPLAY")
}

/// `user@name` of this machine, as others call it, as far as that is known.
pub(super) fn this_machine() -> String {
    let variable = |name: &str| std::env::var(name).ok();
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let name = name.or_else(|| variable("HOSTNAME")).or_else(|| variable("COMPUTERNAME"));
    let user = variable("USER").or_else(|| variable("USERNAME"));
    let plain = |text: Option<String>, else_: &str| {
        let text = text.map(|text| text.trim().to_owned());
        let is_plain = |text: &String| {
            let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
            !text.is_empty() && !text.starts_with('-') && text.chars().all(plain)
        };
        text.filter(is_plain).unwrap_or_else(|| else_.to_owned())
    };
    format!("{}@{}", plain(user, "USER"), plain(name, "MACHINE"))
}
